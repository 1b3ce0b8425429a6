// Warm-up: daily limits of a sending IP address at a receiver.

export const warmup = `
create table warmups (
  key integer primary key,
  id text not null unique,
  source text not null,
  receiver text not null,
  status text not null,
  step integer not null,
  fixed integer,
  reason text,
  since integer not null,
  judged_day integer not null,
  set_at integer,
  set_by text,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index warmups_by_pair on warmups (source, receiver);
create index warmups_by_receiver on warmups (receiver);
create index warmups_by_judged on warmups (judged_day);

create table warmup_days (
  warmup_key integer not null references warmups on delete cascade,
  day integer not null,
  tried integer not null,
  bulk integer not null,
  deferred integer not null,
  refused integer not null,
  complained integer not null,
  bounced integer not null,
  blocked integer not null,
  daily_limit integer,
  verdict text,
  primary key (warmup_key, day)
) strict, without rowid;
create index warmup_days_by_day on warmup_days (day);

create table warmup_sources (
  source text primary key,
  established integer not null,
  seen_at integer not null
) strict, without rowid;

create table warmup_domains (
  domain text primary key,
  receiver text not null,
  seen_at integer not null
) strict, without rowid;

create index deliveries_held_by_warmup on deliveries (lane)
  where status = 'queued' and response >= 'warm-up:' and response < 'warm-up;';
`
