// Imports lists of any size and kind. A list is read twice: first to check all of it, then to import it with a thousand
// entries per transaction. If more than a tenth of its rows are invalid, the import is rejected.
import { counted } from '../base/text.ts'
import { iso, type Clock } from '../base/clock.ts'
import { messageOf, OperatorError } from '../base/errors.ts'
import { namesIn } from '../base/one-of.ts'
import type { Progress } from '../views/command/terminal.ts'
import type { ListSource } from './csv-source.ts'
import type { ReadableList, ListRow } from './rows.ts'
import type { Wrong } from './words.ts'

const LOT = 1000
/** The maximum number of errors in a result. */
export const MAX_ERRORS = 1000
const SAMPLES = 5

/** The columns of a list, and the meaning of its records: an item, an error, or null for a record to skip. */
export interface ListReading<Columns, Item> {
  columns: Columns
  read(record: readonly string[]): Item | Wrong | null
  /** Called after the last record. Throws an OperatorError if a column of the list cannot be mapped. */
  end?: () => void
}

/** How a kind of list is read, from its first record. Throws an OperatorError. */
export type Kind<Columns, Item> = (
  source: ReadableList['source'],
  first: readonly string[],
) => ListReading<Columns, Item>

export interface RowError {
  line: number
  reason: string
}

export interface Judged<Columns, Item> {
  columns: Columns
  rows: number
  failed: number
  /** The first records as they are. */
  head: string[][]
  items: { line: number; item: Item }[]
  /** Each with its cells as they were. */
  errors: (RowError & { cells: string[] })[]
}

/** The rows of a list after its titles. The first result has no row when the first line has titles. */
async function* meaningsOf<Columns extends { headless: boolean }, Item>(
  list: ReadableList,
  kind: Kind<Columns, Item>,
  read?: (bytes: number) => void,
): AsyncIterable<{ columns: Columns; row?: ListRow; meaning: Item | Wrong | null }> {
  let reading: ListReading<Columns, Item> | undefined
  let width = 0
  for await (const given of list.rows(read)) {
    // A spreadsheet writes its empty rows as delimiters.
    if (given.record.every((cell) => cell.trim() === '')) continue
    const titles = reading === undefined
    if (titles) width = given.record.length
    const row = { ...given, record: fitted(given.record, width) }
    reading ??= kind(list.source, row.record)
    const { columns } = reading
    if (titles && !columns.headless) yield { columns, meaning: null }
    else yield { columns, row, meaning: reading.read(row.record) }
  }
  reading?.end?.()
}

/** Returns a record with a cell for each column: some applications omit empty cells at the end, or add some. */
function fitted(record: string[], width: number): string[] {
  if (record.length < width) return [...record, ...Array<string>(width - record.length).fill('')]
  return record.slice(width).every((cell) => cell.trim() === '') ? record.slice(0, width) : record
}

const isWrong = (meaning: unknown): meaning is Wrong =>
  typeof meaning === 'object' && meaning !== null && 'problem' in meaning

/** Reads a whole list, and keeps at most `most` items and errors. Throws an OperatorError. */
export async function judge<Columns extends { headless: boolean }, Item>(
  list: ReadableList,
  kind: Kind<Columns, Item>,
  most = SAMPLES,
): Promise<Judged<Columns, Item>> {
  const judged: Omit<Judged<Columns, Item>, 'columns'> = { rows: 0, failed: 0, head: [], items: [], errors: [] }
  let found: Columns | undefined
  for await (const { columns, meaning, row } of meaningsOf(list, kind)) {
    found = columns
    if (!row) continue
    if (++judged.rows <= SAMPLES) judged.head.push(row.record)
    if (isWrong(meaning)) {
      judged.failed++
      if (judged.errors.length < most)
        judged.errors.push({ line: row.line, reason: meaning.problem, cells: row.record })
    } else if (meaning !== null && judged.items.length < most) judged.items.push({ line: row.line, item: meaning })
  }
  if (!found)
    throw new OperatorError(
      `${list.source.name} is empty; its first line must contain the column names, including "email".`,
    )
  return { ...judged, columns: found }
}

/** Whether so many rows are invalid that the columns are probably mapped wrongly. */
export const tooWrong = ({ failed, rows }: { failed: number; rows: number }): boolean => failed * 10 > rows

/**
 * Throws an OperatorError if more than a tenth of the rows are invalid. The error includes alternatives to fixing them.
 */
export function checkErrors(
  name: string,
  judged: Pick<Judged<unknown, unknown>, 'errors' | 'failed' | 'rows'>,
  what: string,
): void {
  const { errors, failed, rows } = judged
  if (!tooWrong(judged)) return
  const some = errors.slice(0, 3).map(({ line, reason }) => `line ${line} ${reason}`)
  throw new OperatorError(
    `${name} has ${counted(failed, 'invalid row')} out of ${rows} (${some.join('; ')}${failed > some.length ? '; …' : ''}), so nothing was imported; fix ${failed === 1 ? 'it' : 'them'}${what}.`,
  )
}

export interface ListImport<Columns, Item, Outcome extends string> {
  list: ReadableList & { source: ListSource }
  kind: Kind<Columns, Item>
  /** Counts that are zero. */
  counts: Record<Outcome | 'skipped', number>
  /** Imports a batch. Problems have their index in the batch. */
  importBatch: (
    lot: Item[],
    lines: number[],
  ) => Promise<{ counts: Record<Outcome | 'skipped', number>; problems?: { index: number; reason: string }[] }>
  bar: Progress
  clock: Clock
}

export type Imported<Outcome extends string> = Record<Outcome | 'skipped', number> & {
  /** Rows with errors. The skipped rows include them. */
  errors: RowError[]
  /** The number of errors that are not listed. */
  more_errors?: number
  /** The list is one page of several. */
  incomplete?: true
}

/** Imports a list. If it is interrupted, imported entries stay, and a second import adds the others. */
export async function importList<Columns extends { headless: boolean }, Item, Outcome extends string>({
  bar,
  importBatch,
  clock,
  counts: none,
  kind,
  list,
}: ListImport<Columns, Item, Outcome>): Promise<Imported<Outcome>> {
  const counts: Record<Outcome | 'skipped', number> = { ...none }
  const errors: RowError[] = []
  let unlisted = 0
  let lot: { item: Item; line: number }[] = []
  const wrong = (line: number, reason: string): void => {
    counts.skipped++
    if (errors.length < MAX_ERRORS) errors.push({ line, reason })
    else unlisted++
  }
  const flush = async (): Promise<void> => {
    const sent = lot
    lot = []
    const imported = await importBatch(
      sent.map(({ item }) => item),
      sent.map(({ line }) => line),
    )
    for (const name of namesIn(counts)) counts[name] += imported.counts[name]
    for (const { index, reason } of imported.problems ?? []) wrong(sent[index]!.line, reason)
  }
  list.source.checkUnchanged()
  try {
    for await (const { meaning, row } of meaningsOf(list, kind, (bytes) => bar.add(bytes))) {
      if (!row) continue
      if (meaning === null) counts.skipped++
      else if (isWrong(meaning)) wrong(row.line, meaning.problem)
      else lot.push({ item: meaning, line: row.line })
      if (lot.length >= LOT) await flush()
    }
    await flush()
  } catch (thrown) {
    const done = namesIn(counts).reduce((sum, name) => sum + (name === 'skipped' ? 0 : counts[name]), 0)
    if (done === 0) throw thrown
    throw new OperatorError(
      `The import stopped at ${iso(clock.now())} after ${counted(done, 'entry', 'entries')} (${messageOf(thrown)}); import the file again to continue with the rest.`,
      { cause: thrown },
    )
  }
  return {
    ...counts,
    errors,
    ...(unlisted > 0 ? { more_errors: unlisted } : {}),
    ...(list.incomplete ? { incomplete: true as const } : {}),
  }
}
