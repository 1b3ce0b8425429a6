// The web console: sessions, second factors and passkeys, each attempt of an email, metrics by receiver, and held
// queues.
export const console_ = `
alter table users add column operator integer not null default 0;
alter table users add column reads_for integer references users on delete cascade;
alter table users add column sealed_totp blob;
alter table users add column totp_step integer;
update users set operator = 1 where key = (select min(key) from users);
create table sessions (
  key integer primary key autoincrement,
  id text not null unique,
  hash blob not null unique,
  user_key integer not null references users on delete cascade,
  open_as integer references users on delete cascade,
  program text not null,
  created_at integer not null,
  seen_at integer not null
) strict;
create index sessions_by_user on sessions (user_key);
create table sign_in_links (
  hash blob primary key,
  user_key integer not null references users on delete cascade,
  expires_at integer not null
) strict, without rowid;
create table passkeys (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  name text not null,
  public_key blob not null,
  counter integer not null,
  transports text not null,
  created_at integer not null,
  last_used_at integer
) strict;
create index passkeys_by_user on passkeys (user_key);
create table attempts (
  key integer primary key autoincrement,
  delivery_key integer not null references deliveries on delete cascade,
  number integer not null,
  at integer not null,
  outcome text not null,
  smtp_code integer,
  enhanced_code text,
  response text,
  remote_mta text,
  tls text
) strict;
create index attempts_by_delivery on attempts (delivery_key);
create table lane_holds (
  lane text primary key,
  held_at integer not null
) strict, without rowid;
create table receiver_tallies (
  user_key integer not null references users on delete cascade,
  receiver text not null,
  hour integer not null,
  delivered integer not null,
  deferred integer not null,
  refused integer not null,
  within_5s integer not null,
  within_1m integer not null,
  within_10m integer not null,
  within_1h integer not null,
  primary key (user_key, hour, receiver)
) strict, without rowid;
create table refusals (
  user_key integer not null references users on delete cascade,
  receiver text not null,
  day integer not null,
  words text not null,
  times integer not null,
  primary key (user_key, day, receiver, words)
) strict, without rowid;
create index deliveries_by_address on deliveries (lower(address));
`
