// Invitations of people, and when each person was here last: until now only their open sessions said so. Who is
// locked out gets no link to sign in.

export const invitations = `
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
`
