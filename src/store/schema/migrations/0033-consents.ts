// Contacts that have not confirmed their subscription, unsubscribing from one audience, and the proof of consent.
// Triggers keep the consents of a contact in step with its status: whichever process changes it, none is missed.

const GRANTED = `('confirmed', 'single', 'asserted', 'imported')`

const counts = (row: 'new' | 'old', sign: '+' | '-'): string =>
  ['subscribed', 'unsubscribed', 'bounced', 'complained', 'pending']
    .map((status) => `${status}_count = ${status}_count ${sign} (${row}.status = '${status}')`)
    .join(', ')

const moved = ['subscribed', 'unsubscribed', 'bounced', 'complained', 'pending']
  .map((status) => `${status}_count = ${status}_count + (new.status = '${status}') - (old.status = '${status}')`)
  .join(', ')

const today = `insert into audience_days (audience_key, day, subscribed)
    select key, new.status_at / 86400000, subscribed_count from audiences where key = new.audience_key
    on conflict (audience_key, day) do update set subscribed = excluded.subscribed;`

export const consents = `
alter table audiences add column pending_count integer not null default 0;
-- The language of its subscribers, for those whose own language is unknown.
alter table audiences add column language text;

alter table contacts add column language text;
-- The contact unsubscribed from this audience alone, without a suppression.
alter table contacts add column left_audience integer not null default 0;
alter table contacts add column subscribed_at integer;
update contacts set subscribed_at = iif(status = 'subscribed', status_at, created_at);

drop trigger contacts_counted;
create trigger contacts_counted after insert on contacts begin
  update audiences set contacts_count = contacts_count + 1, ${counts('new', '+')} where key = new.audience_key;
  ${today}
end;
drop trigger contacts_moved;
create trigger contacts_moved after update of status on contacts when old.status is not new.status begin
  update audiences set ${moved} where key = new.audience_key;
  ${today}
end;
drop trigger contacts_uncounted;
create trigger contacts_uncounted after delete on contacts begin
  update audiences set contacts_count = contacts_count - 1, ${counts('old', '-')} where key = old.audience_key;
end;

drop trigger contacts_follow_release;
create trigger contacts_follow_release after delete on suppressions
when old.reason in ('unsubscribe', 'hard_bounce', 'complaint') begin
  update contacts set
    status = iif(left_audience = 1 or exists (select 1 from suppressions s
      where s.domain_key = old.domain_key and s.email = old.email and s.reason = 'unsubscribe'), 'unsubscribed', 'subscribed'),
    status_at = old.updated_at, updated_at = old.updated_at
  where email = old.email and audience_key in (select key from audiences where domain_key = old.domain_key)
    and status = case old.reason when 'unsubscribe' then 'unsubscribed' when 'hard_bounce' then 'bounced' else 'complained' end
    and (left_audience = 0 or status is not 'unsubscribed');
end;
create trigger contacts_subscribed after update of status on contacts
when new.status = 'subscribed' and old.status in ('pending', 'unsubscribed') begin
  update contacts set subscribed_at = new.status_at where key = new.key;
end;

create table consents (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  audience_key integer not null references audiences,
  contact_key integer references contacts on delete set null,
  recipient_hash text,
  state text not null,
  source text not null,
  form_key integer,
  form_version integer,
  language text,
  text text,
  page text,
  origin text,
  request_client text,
  confirm_client text,
  message_id text,
  evidence text,
  person text,
  requested_at integer,
  confirmed_at integer,
  ended_at integer,
  restored_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index consents_of_audience on consents (audience_key, created_at);
create index consents_of_contact on consents (contact_key) where contact_key is not null;
create index consents_of_recipient on consents (user_key, recipient_hash) where recipient_hash is not null;
create index consents_ended on consents (ended_at) where ended_at is not null;
create trigger consents_digest_of_new after insert on consents begin
  delete from digests where "of" = 26 and row_key = new.key;
  insert into digests values (26, new.key, row_digest(new."text", new."evidence"));
end;
create trigger consents_digest_of_changed after update of "text", "evidence" on consents begin
  update digests set digest = row_digest(new."text", new."evidence") where "of" = 26 and row_key = new.key;
end;
create trigger consents_digest_of_gone after delete on consents
  begin delete from digests where "of" = 26 and row_key = old.key; end;

create trigger consents_withdrawn after update of status on contacts
when new.status in ('unsubscribed', 'complained') and old.status is not new.status begin
  update consents set ended_at = new.status_at, updated_at = new.status_at
  where contact_key = new.key and ended_at is null and state in ${GRANTED};
end;
create trigger consents_restored after update of status on contacts
when new.status = 'subscribed' and old.status in ('unsubscribed', 'complained') begin
  update consents set ended_at = null, restored_at = new.status_at, updated_at = new.status_at
  where ended_at is not null and key = (
    select max(key) from consents where contact_key = new.key and state in ${GRANTED});
end;
-- Consents from before this version have no hash. They cannot prove anything without the contact.
create trigger consents_of_removed before delete on contacts begin
  delete from consents where contact_key = old.key and recipient_hash is null;
end;

insert into consents (id, user_key, audience_key, contact_key, state, source, ended_at, created_at, updated_at)
  select lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-7' || substr(hex(randomblob(2)), 2) || '-a' ||
      substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))),
    user_key, audience_key, key, 'asserted', 'before', iif(status in ('unsubscribed', 'complained'), status_at, null),
    created_at, created_at
  from contacts;
`
