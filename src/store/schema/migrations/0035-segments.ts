// Segments of audiences, the recipients of campaigns to them, and the results by which a campaign is paused.

export const segments = `
create table segments (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  audience_key integer not null references audiences,
  name text not null,
  description text,
  rules text not null,
  deleted_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index segments_by_creation on segments (audience_key, created_at);
create trigger segments_digest_of_new after insert on segments begin
  delete from digests where "of" = 30 and row_key = new.key;
  insert into digests values (30, new.key, row_digest(new."audience_key", new."name", new."description", new."rules"));
end;
create trigger segments_digest_of_changed after update of "audience_key", "name", "description", "rules" on segments begin
  update digests set digest = row_digest(new."audience_key", new."name", new."description", new."rules")
    where "of" = 30 and row_key = new.key;
end;
create trigger segments_digest_of_gone after delete on segments
  begin delete from digests where "of" = 30 and row_key = old.key; end;

alter table campaigns add column segment_key integer references segments;
alter table campaigns add column scheduled_by integer references users on delete set null;
create index campaigns_by_segment on campaigns (segment_key) where segment_key is not null;
create table segment_matches (
  campaign_key integer not null references campaigns on delete cascade,
  first integer not null,
  contact_key integer not null,
  primary key (campaign_key, first, contact_key)
) strict, without rowid;

-- The rules of segments read the emails of each contact: one entry for each email, and one with the facts of those that
-- were opened, clicked or bounced, which are few.
create index outbound_emails_by_contact on outbound_emails (contact_key, campaign_key) where contact_key is not null;
create index outbound_emails_reactions
  on outbound_emails (contact_key, campaign_key, first_opened_at, first_clicked_at, bounced_at, sent_at)
  where contact_key is not null
    and (first_opened_at is not null or first_clicked_at is not null or bounced_at is not null);

create table campaign_tallies (
  campaign_key integer primary key references campaigns on delete cascade,
  deliveries integer not null,
  bounces integer not null,
  complaints integer not null
) strict;
`
