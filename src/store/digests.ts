// Digests of the texts of mails. SQLite's own check does not cover the text inside rows, so triggers keep a digest of
// it in a table of its own, where no statement can forget it; `verify` computes it again. Rows of version 0.1.0 have no
// digest and are not checked.
import { createHash } from 'node:crypto'
import type Database from 'better-sqlite3'

interface Digested {
  /** Its number in the table of digests; must never change. */
  of: number
  table: string
  key: string
  columns: readonly string[]
  /** SQL for rows without a digest: a campaign's mails have no text of their own. */
  unless?: string
}

const DIGESTED: readonly Digested[] = [
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

const list = (columns: readonly string[], of = ''): string => columns.map((name) => `${of}"${name}"`).join(', ')

/** SQL of a migration: the table and its triggers. */
export const digestSchema = `
create table digests (
  "of" integer not null,
  row_key integer not null,
  digest blob not null,
  primary key ("of", row_key)
) strict, without rowid;
${DIGESTED.map(({ columns, key, of, table, unless }) => {
  const keep = `insert or replace into digests values (${of}, new.${key}, row_digest(${list(columns, 'new.')}))`
  return `
create trigger ${table}_digest_of_new after insert on ${table} ${unless === undefined ? '' : `when not (new.${unless})`}
  begin ${keep}; end;
create trigger ${table}_digest_of_changed after update of ${list(columns)} on ${table}
  when exists (select 1 from digests where "of" = ${of} and row_key = new.${key}) begin ${keep}; end;
create trigger ${table}_digest_of_gone after delete on ${table}
  begin delete from digests where "of" = ${of} and row_key = old.${key}; end;`
}).join('')}
`

/** Defines the SQL function `row_digest` on a connection; the triggers need it. */
export function defineDigest(database: Database.Database): void {
  database.function('row_digest', { varargs: true, deterministic: true }, (...values: unknown[]) => {
    const hash = createHash('sha256')
    for (const value of values as (string | Uint8Array | null)[]) {
      // Lengths and nulls are hashed too: otherwise "ab", "c" would equal "a", "bc".
      const length = typeof value === 'string' ? Buffer.byteLength(value) : value?.length
      hash.update(`${length ?? '-'}:`).update(value ?? '')
    }
    return hash.digest()
  })
}

/** One sentence for each row whose texts differ from their digest. Reads every text. */
export function damagedRows(database: Database.Database): string[] {
  return DIGESTED.flatMap(({ columns, key, of, table }) => {
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
