// Metrics by receiver: recipients tried, complaints, finer durations, and the sending domains with mail at a receiver.
// Also alarms. Old metrics do not change.

export const receiverAlarms = `
alter table receiver_tallies add column within_15s integer not null default 0;
alter table receiver_tallies add column within_3m integer not null default 0;
alter table receiver_tallies add column within_30m integer not null default 0;
alter table receiver_tallies add column within_3h integer not null default 0;
alter table receiver_tallies add column tried integer not null default 0;
alter table receiver_tallies add column put_off integer not null default 0;
alter table receiver_tallies add column complained integer not null default 0;
alter table receiver_tallies add column unmatched_complaints integer not null default 0;
create index receiver_tallies_by_receiver on receiver_tallies (user_key, receiver, hour);

create table receiver_domains (
  user_key integer not null references users on delete cascade,
  receiver text not null,
  day integer not null,
  domain_key integer not null references domains on delete cascade,
  tried integer not null,
  primary key (user_key, receiver, day, domain_key)
) strict, without rowid;
create index receiver_domains_by_domain on receiver_domains (domain_key);

create table receiver_alarms (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  receiver text not null,
  kind text not null,
  status text not null,
  created_at integer not null,
  closed_at integer,
  measured real not null,
  usual real,
  threshold real not null,
  volume integer not null,
  words text,
  calm_since integer,
  told_at integer,
  updated_at integer not null
) strict;
create unique index receiver_alarms_open on receiver_alarms (user_key, receiver, kind) where status = 'open';
create index receiver_alarms_by_creation on receiver_alarms (user_key, created_at);
`
