// The page of subscribers: the requests that they make there, and limits of the emails that they get from it.

export const recipients = `
create table recipient_requests (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null,
  kind text not null,
  email text,
  recipient_hash text not null,
  language text not null,
  state text not null,
  reason text,
  due_at integer not null,
  answered_at integer,
  emailed_at integer,
  request_key integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index recipient_requests_of_user on recipient_requests (user_key, state, due_at);
create index recipient_requests_by_hash on recipient_requests (user_key, recipient_hash);
create index recipient_requests_by_request on recipient_requests (request_key) where request_key is not null;

create table recipient_emails (
  key integer primary key autoincrement,
  recipient_hash text not null,
  kind text not null,
  audience_key integer,
  sent_at integer not null
) strict;
create index recipient_emails_by_hash on recipient_emails (recipient_hash, sent_at);
create index recipient_emails_by_time on recipient_emails (sent_at);
`
