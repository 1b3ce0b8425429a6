// The third migration: inboxes, received messages and their parsed contents.

export const inbound = `
create table inboxes (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  name text not null,
  address text not null,
  deleted_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index inboxes_by_address on inboxes (domain_key, address) where deleted_at is null;
create index inboxes_live on inboxes (address) where deleted_at is null;
create index inboxes_by_creation on inboxes (user_key, created_at);

-- Every RCPT asks for a domain by its name alone.
create index domains_named on domains (name);

create table inbound_messages (
  key integer primary key autoincrement,
  id text not null unique,
  mail_from text not null,
  recipients text not null,
  client text not null,
  helo text not null,
  received text not null,
  size integer not null,
  content blob,
  spool text,
  cut integer not null,
  virus text,
  authentication text,
  received_at integer not null,
  attempts integer not null,
  next_attempt_at integer
) strict;
create index inbound_messages_due on inbound_messages (next_attempt_at) where next_attempt_at is not null;
create index inbound_messages_by_time on inbound_messages (received_at);

create table inbound_emails (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  inbox_key integer not null references inboxes,
  message_key integer not null references inbound_messages,
  status text not null,
  reason text,
  sender text not null,
  recipients text not null,
  subject text,
  "from" text,
  "to" text not null,
  cc text not null,
  reply_to text not null,
  message_id text,
  in_reply_to text,
  "references" text not null,
  authentication text not null,
  size integer not null,
  received_at integer not null,
  created_at integer not null,
  updated_at integer not null
) strict;
create index inbound_emails_by_creation on inbound_emails (user_key, created_at);
create index inbound_emails_by_inbox on inbound_emails (inbox_key, created_at);
create index inbound_emails_by_message on inbound_emails (message_key);

create table inbound_bodies (
  message_key integer primary key references inbound_messages on delete cascade,
  headers text not null,
  text text,
  html text,
  attachments text not null
) strict;
`
