// Digests of rows whose texts are sent, pushed to webhooks or shown, or give somebody a right. SQLite's own check does
// not see a change of the octets of such texts. Triggers keep a digest of each row in a separate table, so that no
// statement can forget it; `verify` compares the rows with their digests. Rows of version 0.1.0 have no digest and
// count as intact.
import { createHash } from 'node:crypto'
import type Database from 'better-sqlite3'

interface Digested {
  /** The number of the table in `digests`; must never change. */
  of: number
  table: string
  key: string
  columns: readonly string[]
  /** SQL for rows without a digest: a campaign's mails have no text of their own. */
  unless?: string
}

/** The tables with digests in the first migration of version 0.2.0; the text of that migration is made of them. */
const FIRST: readonly Digested[] = [
  { of: 1, table: 'outbound_bodies', key: 'email_key', columns: ['content'] },
  {
    of: 2,
    table: 'outbound_emails',
    key: 'key',
    columns: ['from', 'to', 'cc', 'bcc', 'reply_to', 'subject', 'message_id'],
    unless: 'campaign_key is not null',
  },
  { of: 3, table: 'inbound_messages', key: 'key', columns: ['mail_from', 'recipients', 'received', 'content'] },
  {
    of: 4,
    table: 'inbound_emails',
    key: 'key',
    columns: ['sender', 'recipients', 'subject', 'from', 'to', 'message_id'],
  },
  { of: 5, table: 'inbound_bodies', key: 'message_key', columns: ['headers', 'text', 'html', 'attachments'] },
]

const rows = (of: number, table: string, columns: string): Digested => ({
  of,
  table,
  key: 'key',
  columns: columns.split(' '),
})

/** The other tables whose texts are sent, pushed to webhooks or shown, or give somebody a right. */
const SECOND: readonly Digested[] = [
  rows(6, 'users', 'email name password_hash plan operator reads_for sealed_totp'),
  rows(7, 'tokens', 'user_key name scopes hash agent_id daily expires_at'),
  rows(8, 'domains', 'name mail_from_prefix tls_policy tracking_redirect_mode'),
  rows(9, 'dkim_keys', 'domain_key selector public_key sealed_private_key'),
  rows(10, 'records', 'domain_key record_type name value'),
  rows(11, 'inboxes', 'user_key domain_key name address'),
  rows(12, 'webhooks', 'user_key domain_key name url events sealed_secret sealed_previous'),
  rows(13, 'audiences', 'user_key domain_key name description'),
  rows(14, 'contacts', 'email name preferences custom_fields'),
  rows(15, 'campaigns', 'name subject body_html body_text from_address reply_to test_recipient_email'),
  rows(16, 'suppressions', 'domain_key email reason source scope'),
  rows(17, 'oauth_clients', 'name redirect_uris'),
  rows(18, 'oauth_grants', 'client_key user_key redirect_uri challenge resource code_hash'),
  rows(19, 'passkeys', 'user_key name public_key transports'),
  rows(20, 'sessions', 'user_key open_as hash'),
  rows(21, 'notices', 'user_key recipient subject text'),
  rows(22, 'privacy_requests', 'user_key kind recipient_hash sealed_recipient'),
  rows(23, 'outbound_webhooks', 'webhook_key event payload'),
]

/** Every table whose texts have digests, with the columns that they cover. */
export const DIGESTED: readonly Digested[] = [...FIRST, ...SECOND]

const list = (columns: readonly string[], of = ''): string => columns.map((name) => `${of}"${name}"`).join(', ')

const firstTriggers = FIRST.map(({ columns, key, of, table, unless }) => {
  const keep = `insert or replace into digests values (${of}, new.${key}, row_digest(${list(columns, 'new.')}))`
  return `
create trigger ${table}_digest_of_new after insert on ${table} ${unless === undefined ? '' : `when not (new.${unless})`}
  begin ${keep}; end;
create trigger ${table}_digest_of_changed after update of ${list(columns)} on ${table}
  when exists (select 1 from digests where "of" = ${of} and row_key = new.${key}) begin ${keep}; end;
create trigger ${table}_digest_of_gone after delete on ${table}
  begin delete from digests where "of" = ${of} and row_key = old.${key}; end;`
}).join('')

/** The table and its first triggers, as a migration. */
export const digestSchema = `
create table digests (
  "of" integer not null,
  row_key integer not null,
  digest blob not null,
  primary key ("of", row_key)
) strict, without rowid;
${firstTriggers}
`

/**
 * The conflict clause of the statement that fires a trigger replaces the conflict clauses inside the trigger. These
 * triggers have none, so that they work in the same way for "insert … on conflict" and for "update or replace".
 */
const upsertTriggers = SECOND.map(({ columns, key, of, table }) => {
  const place = `"of" = ${of} and row_key = new.${key}`
  const digest = `row_digest(${list(columns, 'new.')})`
  return `
create trigger ${table}_digest_of_new after insert on ${table}
  begin delete from digests where ${place}; insert into digests values (${of}, new.${key}, ${digest}); end;
create trigger ${table}_digest_of_changed after update of ${list(columns)} on ${table}
  begin update digests set digest = ${digest} where ${place}; end;
create trigger ${table}_digest_of_gone after delete on ${table}
  begin delete from digests where "of" = ${of} and row_key = old.${key}; end;`
}).join('')

/** The triggers of the other tables, and the digests of their existing rows; needs `defineDigest`. */
export const widerDigestSchema = `${upsertTriggers}
${SECOND.map(
  ({ columns, key, of, table }) =>
    `insert or replace into digests select ${of}, ${key}, row_digest(${list(columns)}) from ${table};`,
).join('\n')}
`

type Value = string | number | Uint8Array | null

function digestOf(values: readonly Value[]): Buffer {
  const hash = createHash('sha256')
  for (const value of values) {
    const octets = typeof value === 'number' ? String(value) : value
    // Lengths and nulls are part of the digest: "ab", "c" differs from "a", "bc".
    const length = typeof octets === 'string' ? Buffer.byteLength(octets) : octets?.length
    hash.update(`${length ?? '-'}:`).update(octets ?? '')
  }
  return hash.digest()
}

/**
 * Whether a row is unchanged since it was written. `row` holds every column that its digest covers; `digest` is null
 * for a row of version 0.1.0, which counts as intact.
 */
export function isIntact(table: string, row: Record<string, unknown>, digest: Uint8Array | null): boolean {
  if (digest === null) return true
  const { columns } = DIGESTED.find((each) => each.table === table)!
  return digestOf(columns.map((name) => row[name] as Value)).equals(digest)
}

/** The number of a table in the table of digests. */
export const digestNumber = (table: string): number => DIGESTED.find((each) => each.table === table)!.of

/** Makes `row_digest` known to a connection; the triggers need it. */
export function defineDigest(database: Database.Database): void {
  database.function('row_digest', { varargs: true, deterministic: true }, (...values: unknown[]) =>
    digestOf(values as Value[]),
  )
}

/** One sentence for each row whose texts differ from their digest. Reads every text. */
export function damagedRows(database: Database.Database): string[] {
  const known = database.prepare(`select 1 from sqlite_schema where name = 'digests'`).get()
  // The copy of a database of an older version has no digests.
  if (known === undefined) return []
  return DIGESTED.flatMap(({ columns, key, of, table }) => {
    if (!database.prepare('select 1 from digests where "of" = ? limit 1').get(of)) return []
    const rows = database
      .prepare(
        `select t.${key} as key from digests d join ${table} t on t.${key} = d.row_key
         where d."of" = ${of} and d.digest <> row_digest(${list(columns, 't.')}) limit 20`,
      )
      .all() as { key: number }[]
    if (rows.length === 0) return []
    return [`Texts in ${table} are damaged: row ${rows.map((row) => row.key).join(', ')}`]
  })
}
