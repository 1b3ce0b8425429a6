// Events are deleted after a while (retention.events), but their counts stay as sums of a few bytes each. Owners can
// choose a daily summary.
export const space = `
create table event_sums (
  email_key integer not null,
  type text not null,
  delivery integer not null,
  machine integer not null,
  campaign_key integer,
  times integer not null,
  primary key (email_key, type, delivery, machine)
) strict, without rowid;
create index event_sums_by_campaign on event_sums (campaign_key, type) where campaign_key is not null;
alter table users add column summary text not null default 'none';
alter table users add column summary_at integer;
`
