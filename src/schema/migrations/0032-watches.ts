// The watch of blocklists and reverse DNS, and its history.

export const watches = `
create table watches (
  key integer primary key autoincrement,
  id text not null unique,
  kind text not null,
  subject text not null,
  list text not null,
  hostname text not null,
  status text not null,
  answer text not null,
  since integer not null,
  checked_at integer,
  seen text,
  seen_at integer,
  round_at integer,
  due_at integer,
  told_at integer,
  told_unknown_at integer,
  left_at integer,
  created_at integer not null,
  unique (kind, subject, list)
) strict;
create index watches_due on watches (due_at) where due_at is not null;

create table watch_changes (
  key integer primary key autoincrement,
  watch_key integer not null references watches on delete cascade,
  state text not null,
  previous_state text not null,
  answer text not null,
  at integer not null
) strict;
create index watch_changes_by_watch on watch_changes (watch_key, key);
`
