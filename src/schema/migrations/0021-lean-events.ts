// The log of events loses two indexes that nothing searches: by id, and by time (old events are found by their keys).
// Each mail writes two events, and each commit every page that it touches. SQLite drops a unique index only with its
// table, so the table is made again; keys are never used twice, as before.
export const leanEvents = `
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
`
