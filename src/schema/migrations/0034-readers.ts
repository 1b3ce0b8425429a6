// A campaign is written first to contacts who opened or clicked lately: they are known by the audience in the order of
// its walk. Whom a campaign has written to first is kept until its walk has passed them.

export const readers = `
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
`
