// The server sends notification emails itself, with its own retries and without a domain (D66). Notifications about the
// whole server go to the operator, who may not be a user.
export const notices = `
alter table notices rename to notices_before;
create table notices (
  key integer primary key,
  id text not null unique,
  user_key integer references users on delete cascade,
  recipient text,
  domain_key integer references domains,
  subject text not null,
  text text not null,
  mailed integer not null,
  attempts integer not null default 0,
  next_attempt_at integer,
  response text,
  created_at integer not null,
  check (user_key is not null or recipient is not null)
) strict;
insert into notices (key, id, user_key, domain_key, subject, text, mailed, next_attempt_at, created_at)
  select key, id, user_key, domain_key, subject, text, mailed, case when mailed = 0 then created_at end, created_at from notices_before;
drop table notices_before;
create index notices_due on notices (next_attempt_at) where next_attempt_at is not null;
create index notices_by_user on notices (user_key);
`
