// The history of imports into an audience: who brought a list in, what became of its rows, and the lines that were
// refused. It is written in the transaction of the contacts, so that it never says more or less than was done.
//
// Guarantees: an audience has at most 500 imports, of which each keeps at most 1,000 refused lines and 256 KB of them,
// for 30 days. Refused lines are personal data: they go with their audience, and an erasure marks the address in them.
import { DAY } from '../base/clock.ts'
import { forLine } from '../base/clean-text.ts'
import { newId } from '../base/ids.ts'
import { jsonOf } from '../base/json.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'

export type PastImport = RowOf<'list_imports'>

/** A row of a list that was not imported. */
export interface RefusedLine {
  line: number
  detail: string
  /** Its cells as they were; none when they are not known. */
  cells: string[]
}

/** What an import notes of itself. */
export interface ImportNote {
  by: string
  file: string
  /** The import that this lot belongs to; undefined: a new one. */
  continues?: number | undefined
  /** Rows that were left out before the lot was made, and how many of them were refused. */
  passed?: number | undefined
  refusedCount?: number | undefined
  /** Those of the refused rows that are known, and the titles of their cells. */
  refused?: readonly RefusedLine[] | undefined
  titles?: readonly string[] | undefined
  /** The line of each entry of the lot, by which a problem is named. */
  lines?: readonly number[] | undefined
}

const KEPT_IMPORTS = 500
const MAX_LINES = 1000
const MAX_OCTETS = 256 * 1024
const KEPT = 30 * DAY

const COUNTS = ['created', 'updated', 'unsubscribed', 'suppressed', 'skipped'] as const
export type NotedCounts = Record<(typeof COUNTS)[number], number>

/** As many of the lines as are kept, as JSON; null when there are none. */
function keptLines(before: string | null, lines: readonly RefusedLine[]): string | null {
  const kept = ((before === null ? undefined : jsonOf(before)) ?? []) as RefusedLine[]
  let octets = Buffer.byteLength(before ?? '')
  for (const line of lines) {
    octets += Buffer.byteLength(JSON.stringify(line)) + 1
    if (kept.length >= MAX_LINES || octets > MAX_OCTETS) break
    kept.push(line)
  }
  return kept.length === 0 ? null : JSON.stringify(kept)
}

const byKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('list_imports').selectAll().where('key', '=', arg.key),
)

export const pastByKey = (reader: Reader, key: number): PastImport | undefined => reader.first(byKey({ key }))

/** The name of a file without what does not belong into one line. */
export const nameForHistory = (name: string): string => forLine(name).slice(0, MAX_NAME)
const MAX_NAME = 255

/** Notes a lot: makes a new import, or adds to the one that it continues. `problems` are those of the lot itself. */
export function noteImport(
  tx: Tx,
  { key: audience_key, user_key }: { key: number; user_key: number },
  note: ImportNote,
  { counts, problems }: { counts: NotedCounts; problems: readonly RefusedLine[] },
  now: number,
): PastImport {
  const { by, continues, file, refused = [], titles } = note
  const { passed = refused.length, refusedCount = refused.length } = note
  const before = continues === undefined ? undefined : pastByKey(tx, continues)
  const lines = keptLines(before?.refused ?? null, [...refused, ...problems])
  const sums = Object.fromEntries(COUNTS.map((name) => [name, (before?.[name] ?? 0) + counts[name]])) as NotedCounts
  const set = {
    ...sums,
    skipped: sums.skipped + passed + problems.length,
    refused_count: (before?.refused_count ?? 0) + refusedCount + problems.length,
    titles: before?.titles ?? (lines === null ? null : JSON.stringify(titles ?? ['email'])),
    refused: lines,
    refused_until: lines === null ? null : (before?.refused_until ?? now + KEPT),
    updated_at: now,
  }
  if (before) return tx.one(db.updateTable('list_imports').set(set).where('key', '=', before.key).returningAll())
  const row = { id: newId(now), user_key, audience_key, made_by: by, file, ...set, created_at: now }
  const made = tx.one(db.insertInto('list_imports').values(row).returningAll())
  tx.run(
    raw(
      `delete from list_imports where audience_key = ? and key <=
         (select key from list_imports where audience_key = ? order by key desc limit 1 offset ${KEPT_IMPORTS})`,
      [audience_key, audience_key],
    ),
  )
  return made
}

/** Deletes refused lines that were kept long enough. */
export const forgetRefused = (store: Store, now: number): Promise<unknown> =>
  store.write((tx) =>
    tx.run(
      db
        .updateTable('list_imports')
        .set({ refused: null, titles: null, refused_until: null })
        .where('refused_until', '<=', now),
    ),
  )

/** The refused lines that an import still keeps, with the titles of their cells. */
export function refusedOf({ refused, titles }: Pick<PastImport, 'refused' | 'titles'>): {
  titles: string[]
  lines: RefusedLine[]
} {
  const read = (text: string | null): unknown[] => {
    const value = text === null ? undefined : jsonOf(text)
    return Array.isArray(value) ? value : []
  }
  return { titles: read(titles) as string[], lines: read(refused) as RefusedLine[] }
}
