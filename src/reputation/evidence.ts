// Imports of what Microsoft and Google say of this server's mail (DV81): the rows of a file replace those of the same
// address, or domain, and day.
import { DAY } from '../base/clock.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { readGmail, readSnds, type EvidenceKind, type GmailRow, type ReadEvidence } from './evidence-csv.ts'

export interface ImportedEvidence {
  kind: EvidenceKind
  /** Rows that were kept. */
  rows: number
  /** Lines that were left out, and the first of them with the reason. */
  skipped: number
  lines: ReadEvidence<unknown>['wrong']
  /** Headings of columns that were left out. */
  columns: string[]
}

/** Rows that one transaction writes, so that other writes wait for little. */
const AT_ONCE = 1000
/** Days that are kept. */
const KEPT = 400 * DAY

export interface EvidenceFile {
  octets: Uint8Array
  /** How messages call it. */
  name: string
}

/** Imports a file of SNDS. Throws an OperatorError when it is none. */
export async function importSnds(store: Store, file: EvidenceFile, now: number): Promise<ImportedEvidence> {
  const read = readSnds(file.octets, file.name, now)
  for (const part of partsOf(read.rows))
    await store.write((tx) => {
      for (const row of part) tx.run(db.replaceInto('snds_rows').values({ ...row, imported_at: now }))
    })
  await store.write((tx) => tx.run(db.deleteFrom('snds_rows').where('day', '<', Math.floor((now - KEPT) / DAY))))
  return answerOf('snds', read, read.rows.length)
}

/**
 * Imports a file of Google's Postmaster Tools; a line of a domain of others is left out. Throws an
 * OperatorError for another file.
 */
export async function importGmail(
  store: Store,
  file: EvidenceFile,
  { domain, now }: { domain?: string | undefined; now: number },
): Promise<ImportedEvidence> {
  const read = readGmail(file.octets, file.name, { domain, now })
  const keys = sendingDomains(store)
  const foreign = read.rows.filter((row) => !keys.has(row.domain))
  for (const part of partsOf(read.rows.filter((row) => keys.has(row.domain))))
    await store.write((tx) => {
      for (const { domain: name, ...row } of part)
        for (const domain_key of keys.get(name) ?? [])
          tx.run(db.replaceInto('gmail_rows').values({ ...row, domain_key, imported_at: now }))
    })
  await store.write((tx) => tx.run(db.deleteFrom('gmail_rows').where('day', '<', Math.floor((now - KEPT) / DAY))))
  const { lines, ...answer } = answerOf('gmail', read, read.rows.length - foreign.length)
  const names = [...new Set(foreign.map((row) => row.domain))].slice(0, 10)
  return {
    ...answer,
    skipped: read.skipped + foreign.length,
    lines: [
      ...lines,
      ...names.map((name) => ({ line: 0, why: `${JSON.stringify(name)} is not a sending domain here` })),
    ],
  }
}

const answerOf = (kind: EvidenceKind, read: ReadEvidence<unknown>, rows: number): ImportedEvidence => ({
  kind,
  rows,
  skipped: read.skipped,
  lines: read.wrong,
  columns: read.unknown,
})

function* partsOf<Row>(rows: readonly Row[]): Generator<Row[]> {
  for (let at = 0; at < rows.length; at += AT_ONCE) yield rows.slice(at, at + AT_ONCE)
}

/** The keys of the sending domains by name: several accounts may have one of a name. */
function sendingDomains(reader: Reader): Map<GmailRow['domain'], number[]> {
  const all = reader.all(db.selectFrom('domains').select(['key', 'name']).where('deleted_at', 'is', null))
  return new Map(
    [...Map.groupBy(all, ({ name }) => name)].map(([name, domains]) => [name, domains.map(({ key }) => key)]),
  )
}
