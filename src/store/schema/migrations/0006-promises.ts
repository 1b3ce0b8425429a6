// The sixth migration: columns for surviving failures of the machine, and triggers that keep digests of the texts of
// mail. A campaign's emails have no text of their own, and no digest.

const DIGESTED = [
  [1, 'outbound_bodies', 'email_key', '', ['content']],
  [
    2,
    'outbound_emails',
    'key',
    'when not (new.campaign_key is not null)',
    ['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'message_id'],
  ],
  [3, 'inbound_messages', 'key', '', ['mail_from', 'recipients', 'received', 'content']],
  [4, 'inbound_emails', 'key', '', ['sender', 'recipients', 'subject', 'from', 'to', 'message_id']],
  [5, 'inbound_bodies', 'message_key', '', ['headers', 'text', 'html', 'attachments']],
] as const

const list = (columns: readonly string[], of = ''): string => columns.map((name) => `${of}"${name}"`).join(', ')

const triggers = DIGESTED.map(([of, table, key, when, columns]) => {
  const keep = `insert or replace into digests values (${of}, new.${key}, row_digest(${list(columns, 'new.')}))`
  return `
create trigger ${table}_digest_of_new after insert on ${table} ${when}
  begin ${keep}; end;
create trigger ${table}_digest_of_changed after update of ${list(columns)} on ${table}
  when exists (select 1 from digests where "of" = ${of} and row_key = new.${key}) begin ${keep}; end;
create trigger ${table}_digest_of_gone after delete on ${table}
  begin delete from digests where "of" = ${of} and row_key = old.${key}; end;`
}).join('')

export const promises = `
alter table deliveries add column trouble_since integer;
alter table agents add column paused_at integer;

create table digests (
  "of" integer not null,
  row_key integer not null,
  digest blob not null,
  primary key ("of", row_key)
) strict, without rowid;
${triggers}
`
