// Digests of rows whose texts are sent, pushed to webhooks or shown, or that grant access. SQLite's own check does not
// detect a change of the bytes of such texts. Triggers keep a digest of each row in a separate table, so that no
// statement can forget it. `verify` compares the rows with their digests. Rows of version 0.1.0 have no digest and
// count as intact.
import { rowsText } from '../base/text.ts'
import { createHash } from 'node:crypto'
import type Database from 'better-sqlite3'
import { must } from '../base/errors.ts'
import { namesIn } from '../base/one-of.ts'
import { columnsOf, TABLES } from './schema/tables.ts'
import { sql } from './query.ts'

interface Digested {
  /** The number of the table in `digests`. */
  of: number
  table: string
  key: string
  columns: readonly string[]
}

/** Every table whose texts have digests, with the columns that they cover. */
export const DIGESTED: readonly Digested[] = namesIn(TABLES)
  .flatMap((table) => {
    const { by = 'key', digest } = TABLES[table]
    const columns = columnsOf(table, ({ digested }) => digested === true)
    return digest === undefined ? [] : [{ of: digest, table, key: by, columns }]
  })
  .toSorted((a, b) => a.of - b.of)

const list = (columns: readonly string[], of: string): string => columns.map((name) => `${of}"${name}"`).join(', ')

type Value = string | number | Uint8Array | null

function digestOf(values: readonly Value[]): Buffer {
  const hash = createHash('sha256')
  for (const value of values) {
    const bytes = typeof value === 'number' ? String(value) : value
    // Lengths and nulls are part of the digest: "ab", "c" differs from "a", "bc".
    const length = typeof bytes === 'string' ? Buffer.byteLength(bytes) : bytes?.length
    hash.update(`${length ?? '-'}:`).update(bytes ?? '')
  }
  return hash.digest()
}

const digested = (table: string): Digested =>
  must(
    DIGESTED.find((each) => each.table === table),
    `The digests of ${table}`,
  )

/**
 * Whether a row is unchanged since it was written. `row` holds every column that its digest covers. `digest` is null
 * for a row of version 0.1.0, which counts as intact.
 */
export function isIntact(table: string, row: Record<string, unknown>, digest: Uint8Array | null): boolean {
  if (digest === null) return true
  const { columns } = digested(table)
  return digestOf(columns.map((name) => row[name] as Value)).equals(digest)
}

/** The digest of a row of a query, by the row's key ("c.key"), or null for a row of version 0.1.0. */
export const storedDigest = (table: string, key: string) =>
  sql<Uint8Array | null>`(select digest from digests where "of" = ${sql.lit(digestNumber(table))} and row_key = ${sql.ref(key)})`

export const digestNumber = (table: string): number => digested(table).of

/** Makes `row_digest` known to a connection. The triggers need it. */
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
    return [`Texts in ${table} are corrupt: ${rowsText(rows.map((row) => row.key))}`]
  })
}
