// The fifth migration: plans, reputation of agents, OAuth clients and their grants, privacy requests.

export const agents = `
alter table users add column downgrade_to text;
alter table users add column downgrade_at integer;

create table usage (
  user_key integer not null references users on delete cascade,
  month text not null,
  used integer not null,
  approached_at integer,
  reached_at integer,
  primary key (user_key, month)
) strict, without rowid;

create table tallies (
  user_key integer not null references users on delete cascade,
  domain_key integer not null,
  agent_id text not null,
  hour integer not null,
  deliveries integer not null,
  bounces integer not null,
  complaints integer not null,
  primary key (domain_key, agent_id, hour)
) strict, without rowid;
create index tallies_by_agent on tallies (user_key, agent_id, hour) where agent_id <> '';

create table agents (
  key integer primary key autoincrement,
  user_key integer not null references users on delete cascade,
  agent_id text not null,
  status text not null,
  status_at integer not null,
  next_slot_at integer not null,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index agents_by_id on agents (user_key, agent_id);

create table domain_reputations (
  domain_key integer primary key references domains on delete cascade,
  warned_at integer
) strict;

create table oauth_clients (
  key integer primary key autoincrement,
  id text not null unique,
  name text not null,
  redirect_uris text not null,
  created_at integer not null,
  last_used_at integer not null
) strict;

create table oauth_grants (
  key integer primary key autoincrement,
  id text not null unique,
  client_key integer not null references oauth_clients on delete cascade,
  user_key integer not null references users on delete cascade,
  redirect_uri text not null,
  challenge text not null,
  resource text not null,
  code_hash blob unique,
  code_expires_at integer,
  code_used_at integer,
  revoked_at integer,
  created_at integer not null
) strict;
create index oauth_grants_by_user on oauth_grants (user_key);
create index oauth_grants_by_client on oauth_grants (client_key);

create table oauth_tokens (
  hash blob primary key,
  grant_key integer not null references oauth_grants on delete cascade,
  kind text not null,
  expires_at integer not null,
  used_at integer
) strict, without rowid;
create index oauth_tokens_by_grant on oauth_tokens (grant_key);
create index oauth_tokens_by_expiry on oauth_tokens (expires_at);

create table privacy_requests (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  kind text not null,
  recipient_hash text not null,
  sealed_recipient blob,
  status text not null,
  file text,
  requested_at integer not null,
  finished_at integer,
  next_attempt_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index privacy_requests_due on privacy_requests (next_attempt_at) where next_attempt_at is not null;
create index privacy_requests_by_hash on privacy_requests (user_key, recipient_hash);
`
