// The first migration: users, domains, outbound mail and its queue, the event log.

export const foundation = `
create table users (
  key integer primary key autoincrement,
  id text not null unique,
  email text not null unique collate nocase,
  name text not null,
  password_hash text,
  plan text not null,
  subscription_state text not null,
  created_at integer not null,
  updated_at integer not null
) strict;

create table tokens (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  name text not null,
  scopes text not null,
  duration text not null,
  hash blob not null unique,
  last_four text not null,
  expires_at integer not null,
  last_used_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index tokens_by_user on tokens (user_key);

create table domains (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  name text not null,
  purpose text not null,
  region text not null,
  mail_from_prefix text not null,
  tls_policy text not null,
  open_tracking_enabled integer not null,
  click_tracking_enabled integer not null,
  tracking_redirect_mode text not null,
  status text not null,
  status_at integer not null,
  poll_from integer not null,
  missing_since integer,
  checked_at integer,
  next_check_at integer,
  deleted_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index domains_by_name on domains (user_key, name, region) where deleted_at is null;
create index domains_by_creation on domains (user_key, created_at);
create index domains_due on domains (next_check_at) where next_check_at is not null;

create table dkim_keys (
  key integer primary key autoincrement,
  id text not null unique,
  domain_key integer not null references domains on delete cascade,
  selector text not null,
  public_key text not null,
  sealed_private_key blob,
  role text not null,
  verified_at integer,
  erase_at integer,
  created_at integer not null
) strict;
create unique index dkim_keys_by_selector on dkim_keys (domain_key, selector);
create index dkim_keys_to_erase on dkim_keys (erase_at) where erase_at is not null;

create table records (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains on delete cascade,
  record_type text not null,
  name text not null,
  value text not null,
  ttl integer not null,
  required integer not null,
  verified integer not null,
  observed text,
  checked_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index records_by_domain on records (domain_key, created_at);

create table outbound_emails (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  "from" text not null,
  "to" text not null,
  cc text,
  bcc text,
  reply_to text,
  subject text not null,
  agent_id text,
  track_opens integer,
  track_clicks integer,
  opens_tracked integer not null,
  clicks_tracked integer not null,
  ai_disclosure integer,
  message_id text not null,
  idempotency_key text,
  payload_hash blob,
  status text not null,
  queued_at integer not null,
  sent_at integer,
  delivered_at integer,
  bounced_at integer,
  complained_at integer,
  rejected_at integer,
  suppressed_at integer,
  failed_at integer,
  first_opened_at integer,
  first_clicked_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index outbound_emails_by_creation on outbound_emails (user_key, created_at);
create index outbound_emails_by_status on outbound_emails (user_key, status, created_at);
create unique index outbound_emails_by_idempotency on outbound_emails (user_key, idempotency_key) where idempotency_key is not null;

create table outbound_bodies (
  email_key integer primary key references outbound_emails on delete cascade,
  content text,
  spool text
) strict;
create index outbound_bodies_in_spool on outbound_bodies (spool) where spool is not null;

create table deliveries (
  key integer primary key autoincrement,
  email_key integer not null references outbound_emails on delete cascade,
  domain_key integer not null,
  role text not null,
  address text not null,
  lane text not null,
  status text not null,
  attempts integer not null,
  next_attempt_at integer,
  leased_until integer,
  expires_at integer not null,
  delayed_at integer,
  smtp_code integer,
  enhanced_code text,
  response text,
  remote_mta text,
  tls text,
  dialogue text,
  updated_at integer not null
) strict;
create index deliveries_by_email on deliveries (email_key);
create index deliveries_due on deliveries (lane, next_attempt_at) where status = 'queued';
create index deliveries_active on deliveries (leased_until) where status = 'active';

create table events (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer,
  email_key integer,
  type text not null,
  data text not null,
  created_at integer not null
) strict;
create index events_by_email on events (email_key) where email_key is not null;
create index events_by_creation on events (created_at);

create table suppressions (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  email text not null,
  reason text not null,
  source text not null,
  scope text not null,
  strikes integer not null,
  expires_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index suppressions_by_email on suppressions (domain_key, email, reason);
create index suppressions_by_creation on suppressions (user_key, created_at);

create table soft_bounces (
  key integer primary key,
  domain_key integer not null references domains on delete cascade,
  email text not null,
  at integer not null
) strict;
create index soft_bounces_by_email on soft_bounces (domain_key, email, at);
create index soft_bounces_by_time on soft_bounces (at);

create table sts_policies (
  domain text primary key,
  id text not null,
  mode text not null,
  mx text not null,
  fetched_at integer not null,
  expires_at integer not null
) strict, without rowid;
`
