// Imports suppressions from a file, and exports them. An import reads the file twice, as for contacts: when more than a
// tenth of its rows are wrong, nothing is written.
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { bringSuppression, type Brought } from '../suppressions/import-with-status.ts'
import { suppressionsAfter } from '../suppressions/suppressions.ts'
import { checkErrors, type RowError } from './contacts-import.ts'
import type { Source } from './csv-source.ts'
import { csvLine, formOf, rowsOf, type Row } from './csv.ts'
import { jsonRows, looksLikeJson } from './json-rows.ts'
import type { Deps } from '../commands/open.ts'
import {
  entryOf,
  suppressionColumns,
  type Entry,
  type SuppressionColumns,
  type SuppressionWishes,
} from './suppression-columns.ts'
import type { Progress, Terminal } from '../commands/terminal.ts'

const LOT = 1000
const MAX_ERRORS = 1000

export interface SuppressionsImported {
  created: number
  /** Entries that existed, but for less mail or for a shorter time. */
  updated: number
  skipped: number
  errors: RowError[]
  more_errors?: number
  /** The file is one page of several. */
  incomplete?: true
}

interface Sending {
  key: number
  user_key: number
}

type Rows = (read?: (bytes: number) => void) => AsyncIterable<Row>

async function rowsIn(source: Source, more: () => void): Promise<Rows> {
  if (await looksLikeJson(source)) return () => jsonRows(source, more)
  const form = await formOf(source)
  return (read) => rowsOf(source, form, read)
}

export async function importSuppressions(
  deps: Deps,
  domain: Sending,
  source: Source,
  wishes: SuppressionWishes & { force: boolean },
  bar: Progress,
): Promise<SuppressionsImported> {
  const total: SuppressionsImported = { created: 0, updated: 0, skipped: 0, errors: [] }
  const rows = await rowsIn(source, () => (total.incomplete = true))
  const now = deps.clock.now()
  const errors: RowError[] = []
  const checked = { rows: 0, failed: 0 }
  for await (const { columns, row } of entries(source, rows(), wishes)) {
    checked.rows++
    const entry = entryOf(row.record, columns, now)
    if (entry === null || !('problem' in entry)) continue
    checked.failed++
    if (errors.length < 3) errors.push({ line: row.line, reason: entry.problem })
  }
  if (!wishes.force) checkErrors(source, { ...checked, errors })
  source.checkUnchanged()
  let lot: Entry[] = []
  const flush = async (): Promise<void> => {
    const sent = lot
    lot = []
    for (const outcome of await bringLot(deps, domain, sent, now)) total[outcome]++
  }
  for await (const { columns, row } of entries(
    source,
    rows((bytes) => bar.add(bytes)),
    wishes,
  )) {
    const entry = entryOf(row.record, columns, now)
    if (entry === null) total.skipped++
    else if (!('problem' in entry)) lot.push(entry)
    else {
      total.skipped++
      if (total.errors.length < MAX_ERRORS) total.errors.push({ line: row.line, reason: entry.problem })
      else total.more_errors = (total.more_errors ?? 0) + 1
    }
    if (lot.length >= LOT) await flush()
  }
  await flush()
  return total
}

async function* entries(
  source: Source,
  rows: AsyncIterable<Row>,
  wishes: SuppressionWishes,
): AsyncIterable<{ columns: SuppressionColumns; row: Row }> {
  let columns: SuppressionColumns | undefined
  for await (const row of rows) {
    const first = columns === undefined
    columns ??= suppressionColumns(source, row.record, wishes)
    if (!first || columns.headless) yield { columns, row }
  }
  if (!columns)
    throw new OperatorError(`${source.name} is empty; its first line names the columns, one of them "email".`)
}

const bringLot = (
  { keyring, store }: Deps,
  { key, user_key }: Sending,
  lot: readonly Entry[],
  now: number,
): Promise<Brought[]> =>
  store.write((tx) =>
    lot.map(({ email, ...entry }) =>
      bringSuppression(tx, keyring, { user_key, domain_key: key, address: email, ...entry }, now),
    ),
  )

const TITLES = ['email', 'reason', 'scope', 'source', 'expires_at', 'created_at'] as const

/**
 * The suppressions of a domain as CSV, oldest first. Entries of erased addresses are left out, because they have no
 * address any more.
 */
export async function exportSuppressions({ store }: Deps, domain: Sending, terminal: Terminal): Promise<void> {
  const page = (after: number) => suppressionsAfter(store, domain.key, after)
  let before = '['
  if (!terminal.json) await terminal.raw(csvLine(TITLES))
  for (let some = page(0); some.length > 0; some = page(some.at(-1)!.key)) {
    const shown = some.map((entry) => ({
      email: entry.email,
      reason: entry.reason,
      scope: entry.scope,
      source: entry.source,
      expires_at: entry.expires_at === null ? null : iso(entry.expires_at),
      created_at: iso(entry.created_at),
    }))
    if (!terminal.json) await terminal.raw(shown.map((row) => csvLine(TITLES.map((title) => row[title]))).join(''))
    else await terminal.raw(before + shown.map((row) => JSON.stringify(row)).join(','))
    before = ','
  }
  if (terminal.json) await terminal.raw(before === '[' ? '[]\n' : ']\n')
}
