// The changes of 0.3.0 that upgrade data of 0.2.0, in one migration.

export const version03 = `
-- A token names the token that made it: it is revoked with its maker, and its recipients count against that limit.
alter table tokens add column maker_key integer references tokens (key) on delete cascade;
create index tokens_made on tokens (maker_key) where maker_key is not null;

-- The log of events loses two unused indexes. SQLite drops a unique index only with its table, so the table is made
-- again.
create table events_made_again (
  key integer primary key autoincrement,
  id text not null,
  user_key integer not null references users on delete cascade,
  domain_key integer,
  email_key integer,
  type text not null,
  data text not null,
  created_at integer not null,
  campaign_key integer
) strict;
insert into sqlite_sequence select 'events_made_again', seq from sqlite_sequence where name = 'events';
insert into events_made_again (key, id, user_key, domain_key, email_key, type, data, created_at, campaign_key)
  select key, id, user_key, domain_key, email_key, type, data, created_at, campaign_key from events order by key;
drop table events;
alter table events_made_again rename to events;
create index events_by_email on events (email_key) where email_key is not null;
create index events_by_campaign on events (campaign_key, type) where campaign_key is not null;
create index events_by_user on events (user_key) where email_key is not null;

-- The content of a received message is written once: what changes while it waits has a table of its own. The columns
-- that this replaces stay, because removing them would write every message again.
create table inbound_waiting (
  message_key integer primary key references inbound_messages on delete cascade,
  attempts integer not null,
  next_attempt_at integer not null
) strict;
insert into inbound_waiting
  select key, attempts, next_attempt_at from inbound_messages where next_attempt_at is not null;
update inbound_messages set attempts = 0, next_attempt_at = null where next_attempt_at is not null;
drop index inbound_messages_due;

alter table inbound_bodies add column text_part integer;
alter table inbound_bodies add column html_part integer;
alter table inbound_bodies add column authentication text;

-- Recovery codes of the second factor.
create table recovery_codes (
  mac blob primary key,
  user_key integer not null references users on delete cascade
) strict, without rowid;
create index recovery_codes_user on recovery_codes (user_key);

-- Whether somebody has read a received message. Earlier ones count as read.
alter table inbound_emails add column seen integer not null default 1;
create index inbound_emails_unseen on inbound_emails (inbox_key) where seen = 0;

-- Contacts by status and day, counted by triggers, and the history of imports. A deletion has no time: the next change
-- corrects the number of its day.
alter table audiences add column subscribed_count integer not null default 0;
alter table audiences add column unsubscribed_count integer not null default 0;
alter table audiences add column bounced_count integer not null default 0;
alter table audiences add column complained_count integer not null default 0;
-- The name of an audience that its subscribers see.
alter table audiences add column title text;
update audiences set (subscribed_count, unsubscribed_count, bounced_count, complained_count) = (
  select coalesce(sum(status = 'subscribed'), 0), coalesce(sum(status = 'unsubscribed'), 0),
    coalesce(sum(status = 'bounced'), 0), coalesce(sum(status = 'complained'), 0)
  from contacts where audience_key = audiences.key);

create table audience_days (
  audience_key integer not null references audiences,
  day integer not null,
  subscribed integer not null,
  primary key (audience_key, day)
) strict, without rowid;

drop trigger contacts_counted;
create trigger contacts_counted after insert on contacts begin
  update audiences set contacts_count = contacts_count + 1,
    subscribed_count = subscribed_count + (new.status = 'subscribed'),
    unsubscribed_count = unsubscribed_count + (new.status = 'unsubscribed'),
    bounced_count = bounced_count + (new.status = 'bounced'),
    complained_count = complained_count + (new.status = 'complained')
  where key = new.audience_key;
  insert into audience_days (audience_key, day, subscribed)
    select key, new.status_at / 86400000, subscribed_count from audiences where key = new.audience_key
    on conflict (audience_key, day) do update set subscribed = excluded.subscribed;
end;
create trigger contacts_moved after update of status on contacts when old.status is not new.status begin
  update audiences set
    subscribed_count = subscribed_count + (new.status = 'subscribed') - (old.status = 'subscribed'),
    unsubscribed_count = unsubscribed_count + (new.status = 'unsubscribed') - (old.status = 'unsubscribed'),
    bounced_count = bounced_count + (new.status = 'bounced') - (old.status = 'bounced'),
    complained_count = complained_count + (new.status = 'complained') - (old.status = 'complained')
  where key = new.audience_key;
  insert into audience_days (audience_key, day, subscribed)
    select key, new.status_at / 86400000, subscribed_count from audiences where key = new.audience_key
    on conflict (audience_key, day) do update set subscribed = excluded.subscribed;
end;
drop trigger contacts_uncounted;
create trigger contacts_uncounted after delete on contacts begin
  update audiences set contacts_count = contacts_count - 1,
    subscribed_count = subscribed_count - (old.status = 'subscribed'),
    unsubscribed_count = unsubscribed_count - (old.status = 'unsubscribed'),
    bounced_count = bounced_count - (old.status = 'bounced'),
    complained_count = complained_count - (old.status = 'complained')
  where key = old.audience_key;
end;
create index contacts_by_status on contacts (audience_key, status, created_at);
create index contacts_by_name on contacts (audience_key, name);
create index suppressions_of_user on suppressions (user_key, email);

create table list_imports (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  audience_key integer not null references audiences,
  created_by text not null,
  file text not null,
  created integer not null,
  updated integer not null,
  unsubscribed integer not null,
  suppressed integer not null,
  skipped integer not null,
  rejected_count integer not null,
  titles text,
  rejected text,
  rejected_until integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index list_imports_by_audience on list_imports (audience_key, key);
create index list_imports_kept on list_imports (rejected_until) where rejected_until is not null;

-- Invitations of users, and when each user was last active.
create table invitations (
  key integer primary key,
  id text not null unique,
  user_key integer references users on delete set null,
  notice_id text,
  created_at integer not null,
  expires_at integer not null,
  used_at integer
) strict;
create index invitations_user on invitations (user_key);

alter table users add column seen_at integer;
alter table users add column locked_at integer;
update users set seen_at = (select max(seen_at) from sessions where user_key = users.key);

-- The members of accounts with their roles. They replace the column that gave a user read-only access to one account,
-- which stays because digests of earlier versions cover it.
create table members (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  member_key integer not null references users on delete cascade,
  role text not null,
  joined_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index members_by_account on members (user_key, member_key);
create index members_by_user on members (member_key);
create trigger members_digest_of_new after insert on members begin
  delete from digests where "of" = 24 and row_key = new.key;
  insert into digests values (24, new.key, row_digest(new."user_key", new."member_key", new."role", new."joined_at"));
end;
create trigger members_digest_of_changed
  after update of "user_key", "member_key", "role", "joined_at" on members begin
  update digests set digest = row_digest(new."user_key", new."member_key", new."role", new."joined_at")
    where "of" = 24 and row_key = new.key;
end;
create trigger members_digest_of_gone after delete on members
  begin delete from digests where "of" = 24 and row_key = old.key; end;
insert into members (id, user_key, member_key, role, joined_at, created_at, updated_at)
  select id, coalesce(reads_for, key), key, case when reads_for is null then 'owner' else 'reader' end, created_at,
    created_at, created_at
  from users;

update users set reads_for = null where reads_for is not null;

-- A token has the rights of an operator if an operator made it. An OAuth client acts in the account that was shown.
alter table tokens add column operator integer not null default 0;
update tokens set operator = (select operator from users where key = user_key);
alter table oauth_grants add column account_key integer references users on delete cascade;

-- Who changed what.
create table audit_entries (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  actor text not null,
  via text not null,
  address text,
  action text not null,
  subject_type text not null,
  subject_id text,
  subject text,
  role text,
  created_at integer not null
) strict;
create index audit_entries_by_account on audit_entries (user_key, created_at);
create index audit_entries_by_time on audit_entries (created_at);

-- The last API requests of each token.
create table token_requests (
  key integer primary key autoincrement,
  id text not null,
  token_key integer not null references tokens on delete cascade,
  user_key integer not null,
  method text not null,
  path text not null,
  status integer not null,
  error text,
  created_at integer not null
) strict;
create index token_requests_by_token on token_requests (token_key, created_at);

-- Emails with invitations of the last day, for a limit that removing an invitation does not lift.
create table invitation_mails (
  account_key integer not null references users on delete cascade,
  recipient_hash text not null,
  sent_at integer not null
) strict;
create index invitation_mails_by_account on invitation_mails (account_key, sent_at);

-- The signed-in user who asked for an export receives its link.
alter table privacy_requests add column requester_key integer;

-- Images of campaigns: files of the spool. The file of a deleted image is noted, so that it is removed after a crash,
-- too.
create table images (
  key integer primary key,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  name text not null,
  content_type text not null,
  width integer not null,
  height integer not null,
  size integer not null,
  hash blob not null,
  spool text not null,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index images_by_hash on images (user_key, hash);
create index images_by_creation on images (user_key, created_at);
create index images_by_size on images (user_key, size);

create table images_gone (
  spool text primary key
) strict, without rowid;
create trigger images_leave_files after delete on images
  begin insert or ignore into images_gone values (old.spool); end;

create table image_uses (
  image_key integer not null references images on delete cascade,
  campaign_key integer not null references campaigns on delete cascade,
  primary key (image_key, campaign_key)
) strict, without rowid;
create index image_uses_by_campaign on image_uses (campaign_key);

-- The look and the default sender of an account.
create table brands (
  key integer primary key,
  user_key integer not null unique references users on delete cascade,
  sender_name text,
  from_address text,
  logo text,
  colour text,
  postal_address text,
  updated_at integer not null
) strict;

-- Sending IP addresses. A recipient that was tried on a day counts once in the daily limits of that day.
alter table deliveries add column source text;
alter table deliveries add column tried_day integer;
alter table attempts add column source text;
create table source_addresses (
  key integer primary key,
  address text not null unique
) strict;

-- TLS of each attempt, certificates of link hosts, hosts without an address, missing DKIM records.
alter table deliveries add column security text;
alter table attempts add column security text;
alter table records add column certificate_until integer;
alter table records add column missing_address integer not null default 0;
alter table dkim_keys add column missed_at integer;

-- A campaign is sent first to contacts who opened or clicked lately.
create table readers (
  audience_key integer not null,
  contact_key integer not null,
  seen_at integer not null,
  primary key (audience_key, contact_key)
) strict, without rowid;
create trigger readers_gone after delete on contacts begin
  delete from readers where audience_key = old.audience_key and contact_key = old.key;
end;
insert into readers (audience_key, contact_key, seen_at)
  select c.audience_key, c.key, max(max(coalesce(e.first_opened_at, 0), coalesce(e.first_clicked_at, 0)))
  from outbound_emails e join contacts c on c.key = e.contact_key
  where e.contact_key is not null and (e.first_opened_at is not null or e.first_clicked_at is not null)
  group by c.audience_key, c.key;

create table written_first (
  campaign_key integer not null references campaigns on delete cascade,
  contact_key integer not null,
  primary key (campaign_key, contact_key)
) strict, without rowid;
alter table campaigns add column readers_to integer not null default 0;
update campaigns set readers_to = 9007199254740991 where started_at is not null;

-- Results by hour are kept for two months, so that days are made in the zone of the reader. Older days are days of UTC.
alter table receiver_tallies add column hours text;
create table outcome_hours (
  user_key integer not null references users on delete cascade,
  hour integer not null,
  delivered integer not null,
  deferred integer not null,
  refused integer not null,
  primary key (user_key, hour)
) strict, without rowid;
alter table users add column utc_days_before integer;
update users set utc_days_before = (
  select coalesce(min(iif(hour % 24 <> 0, hour, null)), max(hour) + 24) / 24 * 86400000
  from receiver_tallies where user_key = users.key);

-- The result of each backup and each restore test.
create table backup_runs (
  key integer primary key autoincrement,
  id text not null unique,
  kind text not null,
  target text not null,
  name text,
  started_at integer not null,
  ended_at integer not null,
  octets integer,
  files integer,
  rows integer,
  way text,
  fault text
) strict;
create index backup_runs_by_target on backup_runs (target, kind, ended_at);
create index backup_runs_by_end on backup_runs (ended_at);

-- Emails that are sent later, and labels of emails.
alter table outbound_emails add column tags text;
alter table outbound_emails add column metadata text;
alter table outbound_emails add column scheduled_at integer;
alter table outbound_emails add column cancelled_at integer;
alter table outbound_emails add column stream text;
create index outbound_emails_scheduled on outbound_emails (scheduled_at) where status = 'scheduled';

-- Emails that are accepted with one request. They can share a body.
create table outbound_batches (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  idempotency_key text,
  payload_hash blob,
  syntax text,
  content text,
  spool text,
  accepted integer not null,
  suppressed integer not null,
  refused integer not null,
  others text not null,
  created_at integer not null,
  updated_at integer not null
) strict;
create index outbound_batches_by_creation on outbound_batches (user_key, created_at);
create unique index outbound_batches_by_idempotency on outbound_batches (user_key, idempotency_key)
  where idempotency_key is not null;
create index outbound_batches_kept on outbound_batches (created_at) where content is not null or spool is not null;
create trigger outbound_batches_digest_of_new after insert on outbound_batches begin
  delete from digests where "of" = 25 and row_key = new.key;
  insert into digests values (25, new.key, row_digest(new."content"));
end;
create trigger outbound_batches_digest_of_changed after update of "content" on outbound_batches begin
  update digests set digest = row_digest(new."content") where "of" = 25 and row_key = new.key;
end;
create trigger outbound_batches_digest_of_gone after delete on outbound_batches
  begin delete from digests where "of" = 25 and row_key = old.key; end;
alter table outbound_emails add column batch_key integer references outbound_batches;
alter table outbound_emails add column batch_index integer;
create index outbound_emails_by_batch on outbound_emails (batch_key, batch_index) where batch_key is not null;

-- Webhooks in the form of another program, with its credentials.
alter table webhooks add column format text not null default 'standard';
alter table webhooks add column username text;
alter table webhooks add column sealed_password blob;
`
