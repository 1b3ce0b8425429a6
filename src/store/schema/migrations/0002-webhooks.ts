// The second migration: webhook endpoints, deliveries and attempts, and notifications to owners.

export const webhooks = `
create table webhooks (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  name text not null,
  url text not null,
  events text not null,
  status text not null,
  disabled_reason text,
  consecutive_failures integer not null,
  held_until integer,
  secret_hint text not null,
  sealed_secret blob,
  sealed_previous blob,
  previous_until integer,
  deleted_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index webhooks_by_creation on webhooks (user_key, created_at);
create index webhooks_by_domain on webhooks (domain_key) where deleted_at is null;

create table outbound_webhooks (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  webhook_key integer not null references webhooks,
  event text not null,
  about text not null,
  payload text not null,
  status text not null,
  attempts integer not null,
  next_attempt_at integer,
  leased_until integer,
  response_status integer,
  response_body text,
  reason text,
  replay_of text,
  created_at integer not null,
  updated_at integer not null
) strict;
create index outbound_webhooks_by_webhook on outbound_webhooks (webhook_key, created_at);
create index outbound_webhooks_due on outbound_webhooks (webhook_key, next_attempt_at) where status = 'pending';
create index outbound_webhooks_open on outbound_webhooks (webhook_key, about) where status in ('pending', 'active');
create index outbound_webhooks_active on outbound_webhooks (leased_until) where status = 'active';

create table webhook_attempts (
  key integer primary key,
  delivery_key integer not null references outbound_webhooks on delete cascade,
  number integer not null,
  at integer not null,
  duration integer not null,
  response_status integer,
  response_body text,
  reason text
) strict;
create index webhook_attempts_by_delivery on webhook_attempts (delivery_key);

create table event_cursors (
  reader text primary key,
  event_key integer not null
) strict, without rowid;

create table notices (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  subject text not null,
  text text not null,
  mailed integer not null,
  created_at integer not null
) strict;
`
