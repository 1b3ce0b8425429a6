// Sign-up forms.

const digest = (of: number, table: string, columns: string): string => {
  const list = columns
    .split(' ')
    .map((name) => `new."${name}"`)
    .join(', ')
  const names = columns
    .split(' ')
    .map((name) => `"${name}"`)
    .join(', ')
  return `
create trigger ${table}_digest_of_new after insert on ${table} begin
  delete from digests where "of" = ${of} and row_key = new.key;
  insert into digests values (${of}, new.key, row_digest(${list}));
end;
create trigger ${table}_digest_of_changed after update of ${names} on ${table} begin
  update digests set digest = row_digest(${list}) where "of" = ${of} and row_key = new.key;
end;
create trigger ${table}_digest_of_gone after delete on ${table}
  begin delete from digests where "of" = ${of} and row_key = old.key; end;`
}

/** A form closes with its audience, inbox or domain, whichever way deletes it. */
const closedWith = (table: string, column: string): string => `
create trigger forms_close_with_${table} after update of deleted_at on ${table}
when new.deleted_at is not null and old.deleted_at is null begin
  update forms set status = 'closed', paused_reason = null, status_at = new.deleted_at, updated_at = new.deleted_at
  where ${column} = new.key and status <> 'closed';
end;`

export const forms = `
create table forms (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  domain_key integer not null references domains,
  audience_key integer references audiences,
  inbox_key integer references inboxes on delete set null,
  name text not null,
  slug text not null unique,
  status text not null,
  paused_reason text,
  opt_in text not null,
  single_reason text,
  title text,
  intro text,
  consent_text text,
  consent_checkbox integer not null,
  button text,
  confirm_note text,
  controller text,
  privacy_url text,
  language text not null,
  translations text not null,
  fields text not null,
  origins text not null,
  requested_url text,
  confirmed_url text,
  from_address text,
  reply_to text,
  welcome_subject text,
  welcome_html text,
  honeypot text not null,
  version integer not null,
  requested_count integer not null default 0,
  confirmed_count integer not null default 0,
  refused_count integer not null default 0,
  expired_count integer not null default 0,
  stopped_count integer not null default 0,
  status_at integer not null,
  deleted_at integer,
  created_at integer not null,
  updated_at integer not null
) strict;
create index forms_by_creation on forms (user_key, created_at);
create index forms_of_audience on forms (audience_key);
${digest(27, 'forms', 'user_key domain_key audience_key inbox_key name slug opt_in single_reason title intro consent_text consent_checkbox button confirm_note controller privacy_url language translations fields origins requested_url confirmed_url from_address reply_to welcome_subject welcome_html honeypot')}
${closedWith('audiences', 'audience_key')}
${closedWith('inboxes', 'inbox_key')}
${closedWith('domains', 'domain_key')}

create table form_versions (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  form_key integer not null references forms,
  version integer not null,
  texts text not null,
  created_by text not null,
  created_at integer not null,
  unique (form_key, version)
) strict;
${digest(28, 'form_versions', 'user_key form_key version texts')}

create table signups (
  key integer primary key autoincrement,
  id text not null unique,
  user_key integer not null references users on delete cascade,
  form_key integer not null references forms,
  consent_key integer not null references consents on delete cascade,
  email text not null,
  typed text not null,
  language text not null,
  state text not null,
  email_id text,
  expires_at integer not null,
  created_at integer not null,
  updated_at integer not null
) strict;
create index signups_due on signups (expires_at);
create index signups_of_form on signups (form_key, email);
create index signups_of_email on signups (email_id) where email_id is not null;
create index signups_of_consent on signups (consent_key);
create index signups_waiting on signups (form_key) where state = 'waiting';
create index consents_by_creation on consents (user_key, created_at);
create index consents_of_form on consents (form_key, created_at) where form_key is not null;
alter table consents add column released integer not null default 0;
-- The loop of the sign-ups reads the rows that are due. Whichever process settles the email, none is missed.
create trigger signups_follow_email after update of status on outbound_emails
when new.status in ('bounced', 'complained') and old.status is not new.status begin
  update signups set state = new.status, expires_at = 0, updated_at = new.updated_at
  where email_id = new.id and state = 'sent';
end;
-- A sign-up ends with its request: its address is deleted. A request ends at the latest when its contact is removed,
-- whichever way removes it.
create trigger signups_end after update of state, contact_key on consents
when old.state = 'requested' and (new.state is not 'requested' or new.contact_key is null) begin
  delete from signups where consent_key = new.key;
  update consents set state = 'expired' where key = new.key and state = 'requested';
end;
${digest(29, 'signups', 'user_key form_key consent_key email typed')}
`
