// The watch of blocklists and reverse DNS.

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
  created_at integer not null,
  unique (kind, subject, list)
) strict;
create index watches_due on watches (due_at) where due_at is not null;
`
