// The fourth migration: audiences, contacts, campaigns, and the columns of campaign mail in outbound mail and the event
// log.
//
// Contacts follow the suppressions of their audience's domain by triggers: whichever process writes a suppression, the
// contact changes in the same transaction. An email of a campaign is a row of outbound_emails like any other, but
// smaller: the parts that its emails share are columns of the campaign.

export const campaigns = `
create table audiences (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  name text not null,
  description text,
  contacts_count integer not null,
  deleted_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index audiences_by_creation on audiences (user_key, created_at);
create index audiences_by_domain on audiences (domain_key);
create index audiences_gone on audiences (deleted_at) where deleted_at is not null and contacts_count > 0;

create table contacts (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  audience_key integer not null references audiences,
  email text not null,
  name text,
  preferences text,
  custom_fields text,
  status text not null,
  status_at integer not null,
  created_at integer not null,
  updated_at integer not null
) strict;
create unique index contacts_by_email on contacts (audience_key, email);
create index contacts_by_audience on contacts (audience_key);
create index contacts_by_creation on contacts (audience_key, created_at);

create table campaigns (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  audience_key integer not null references audiences,
  name text not null,
  subject text not null,
  body_html text not null,
  body_text text,
  from_address text,
  reply_to text,
  test_mode integer not null,
  test_recipient_email text,
  scheduled_at integer,
  track_opens integer,
  track_clicks integer,
  opens_tracked integer not null,
  clicks_tracked integer not null,
  status text not null,
  failure text,
  recipients integer,
  last_contact integer,
  walked_to integer not null,
  enqueued integer not null,
  started_at integer,
  finished_at integer,
  deleted_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index campaigns_by_creation on campaigns (user_key, created_at);
create index campaigns_under_way on campaigns (status) where status in ('scheduled', 'sending');

alter table outbound_emails add column campaign_key integer references campaigns;
alter table outbound_emails add column contact_key integer;
create index outbound_emails_by_campaign on outbound_emails (campaign_key, status, delivered_at) where campaign_key is not null;
alter table events add column campaign_key integer;
create index events_by_campaign on events (campaign_key, type) where campaign_key is not null;

create trigger contacts_counted after insert on contacts begin
  update audiences set contacts_count = contacts_count + 1 where key = new.audience_key;
end;
create trigger contacts_uncounted after delete on contacts begin
  update audiences set contacts_count = contacts_count - 1 where key = old.audience_key;
end;

create trigger contacts_follow_suppression after insert on suppressions
when new.reason in ('unsubscribe', 'hard_bounce', 'complaint') begin
  update contacts set
    status = case new.reason when 'unsubscribe' then 'unsubscribed' when 'hard_bounce' then 'bounced' else 'complained' end,
    status_at = new.updated_at, updated_at = new.updated_at
  where email = new.email and audience_key in (select key from audiences where domain_key = new.domain_key)
    and status in ('subscribed', 'unsubscribed')
    and status is not case new.reason when 'unsubscribe' then 'unsubscribed' else '' end;
end;
create trigger contacts_follow_release after delete on suppressions
when old.reason in ('unsubscribe', 'hard_bounce', 'complaint') begin
  update contacts set
    status = iif(exists (select 1 from suppressions s
      where s.domain_key = old.domain_key and s.email = old.email and s.reason = 'unsubscribe'), 'unsubscribed', 'subscribed'),
    status_at = old.updated_at, updated_at = old.updated_at
  where email = old.email and audience_key in (select key from audiences where domain_key = old.domain_key)
    and status = case old.reason when 'unsubscribe' then 'unsubscribed' when 'hard_bounce' then 'bounced' else 'complained' end;
end;
`
