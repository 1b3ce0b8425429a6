// Audiences know how many of their contacts have each status, and how many were subscribed at the end of each day on
// which that changed; both are kept by triggers, so that no page counts contacts. And the history of imports.
//
// A trigger on a deletion has no time: the day's number is corrected by the next change, and a page ends with the
// present number.

export const lists = `
alter table audiences add column subscribed_count integer not null default 0;
alter table audiences add column unsubscribed_count integer not null default 0;
alter table audiences add column bounced_count integer not null default 0;
alter table audiences add column complained_count integer not null default 0;
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

create table list_imports (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  audience_key integer not null references audiences,
  made_by text not null,
  file text not null,
  created integer not null,
  updated integer not null,
  unsubscribed integer not null,
  suppressed integer not null,
  skipped integer not null,
  refused_count integer not null,
  titles text,
  refused text,
  refused_until integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index list_imports_by_audience on list_imports (audience_key, key);
create index list_imports_kept on list_imports (refused_until) where refused_until is not null;
`
