// Imports contacts from a file of any size. The file is read twice: first to check that it is readable and to count
// wrong rows, then to import it, a thousand contacts in each transaction. An address that occurs twice counts once;
// when one of its rows says unsubscribed, the contact is unsubscribed.
import { iso } from '../base/clock.ts'
import { messageOf, OperatorError } from '../base/errors.ts'
import { namesIn } from '../base/one-of.ts'
import type { Audience } from '../campaigns/audiences.ts'
import { bringContacts, noCounts, type BroughtContact, type BroughtCounts } from '../campaigns/import-with-status.ts'
import type { Source } from './csv-source.ts'
import { formOf, rowsOf, type CsvForm, type Row } from './csv.ts'
import { columnsOf, contactOf, type Columns, type Wishes } from './import-columns.ts'
import type { Deps } from '../commands/open.ts'
import { Seen } from './address-set.ts'
import type { Progress } from '../commands/terminal.ts'

const LOT = 1000
/** The most errors that an answer lists. */
const MAX_ERRORS = 1000
const SAMPLES = 5

export interface RowError {
  line: number
  reason: string
}

export interface FileImported extends BroughtCounts {
  /** Rows with errors; the skipped rows include them. */
  errors: RowError[]
  /** The number of errors that are not listed. */
  more_errors?: number
}

export interface Checked {
  form: CsvForm
  columns: Columns
  rows: number
  failed: number
  errors: RowError[]
  samples: (Row & { contact: BroughtContact })[]
}

/**
 * The rows of a file after its titles, with the meaning of its columns. The first result has no row when the first line
 * has titles.
 */
async function* contactsOf(
  source: Source,
  form: CsvForm,
  wishes: Wishes,
  read?: (bytes: number) => void,
): AsyncIterable<{ columns: Columns; row?: Row }> {
  let columns: Columns | undefined
  for await (const row of rowsOf(source, form, read)) {
    const first = columns === undefined
    columns ??= columnsOf(source, row.record, wishes)
    yield first && !columns.headless ? { columns } : { columns, row }
  }
}

/** Reads the whole file without an import. Throws an OperatorError. */
export async function checkFile(source: Source, wishes: Wishes): Promise<Checked> {
  const form = await formOf(source)
  const checked: Omit<Checked, 'columns'> & { columns?: Columns } = {
    form,
    rows: 0,
    failed: 0,
    errors: [],
    samples: [],
  }
  for await (const { columns, row } of contactsOf(source, form, wishes)) {
    checked.columns = columns
    if (!row) continue
    checked.rows++
    const contact = contactOf(row.record, columns)
    if ('reason' in contact) {
      checked.failed++
      if (checked.errors.length < SAMPLES) checked.errors.push({ line: row.line, reason: contact.reason })
    } else if (checked.samples.length < SAMPLES) checked.samples.push({ ...row, contact })
  }
  const { columns } = checked
  if (!columns)
    throw new OperatorError(`${source.name} is empty; its first line names the columns, one of them "email".`)
  return { ...checked, columns }
}

export interface FileImport {
  audience: Audience
  source: Source
  /** The result of `checkFile`. */
  checked: Checked
  wishes: Wishes
  bar: Progress
  /** Only a test: nothing is written. */
  dry: boolean
}

/** Throws an OperatorError, before anything is written, when more than a tenth of the rows are wrong. */
export function checkErrors(
  source: Source,
  { errors, failed, rows }: Pick<Checked, 'errors' | 'failed' | 'rows'>,
): void {
  if (failed * 10 <= rows) return
  const some = errors.slice(0, 3).map(({ line, reason }) => `line ${line} ${reason}`)
  throw new OperatorError(
    `${failed} of the ${rows} rows of ${source.name} are in error (${some.join('; ')}${failed > some.length ? '; …' : ''}), so that nothing was imported; mend them, name the right columns with --map, or import the others with --force.`,
  )
}

export async function importFile(
  deps: Deps,
  { audience, bar, checked: { form }, dry, source, wishes }: FileImport,
): Promise<FileImported> {
  const total: FileImported = { ...noCounts(), errors: [] }
  const seen = new Seen()
  let lot: { contact: BroughtContact; line: number }[] = []
  const wrong = (line: number, reason: string): void => {
    total.skipped++
    if (total.errors.length < MAX_ERRORS) total.errors.push({ line, reason })
    else total.more_errors = (total.more_errors ?? 0) + 1
  }
  const flush = async (): Promise<void> => {
    const sent = lot
    lot = []
    const contacts = sent.map(({ contact }) => contact)
    const { counts, problems } = await bringContacts(deps, audience, contacts, dry)
    for (const name of namesIn(counts)) total[name] += counts[name]
    for (const { index, reason } of problems) wrong(sent[index]!.line, reason)
  }
  source.checkUnchanged()
  try {
    for await (const { columns, row } of contactsOf(source, form, wishes, (bytes) => bar.add(bytes))) {
      if (!row) continue
      const contact = contactOf(row.record, columns)
      if ('reason' in contact) wrong(row.line, contact.reason)
      else if (!seen.add(contact.email) && contact.standing === 'subscribed') total.skipped++
      else lot.push({ contact, line: row.line })
      if (lot.length >= LOT) await flush()
    }
    await flush()
  } catch (thrown) {
    throw interrupted(thrown, deps, total)
  }
  return total
}

/** The error of an interrupted import: imported contacts stay, and a second import adds the others. */
function interrupted(thrown: unknown, { clock }: Deps, total: BroughtCounts): unknown {
  const done = total.created + total.updated + total.unsubscribed + total.suppressed
  if (done === 0) return thrown
  return new OperatorError(
    `The import ended at ${iso(clock.now())} after ${done} contacts (${messageOf(thrown)}); import the file again, and it goes on with the rest.`,
    { cause: thrown },
  )
}
