// An uploaded list as the console's worker thread reads it (apart.ts).
import { OperatorError } from '../base/errors.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import type { ContactWithStatus, Standing } from '../campaigns/import-with-status.ts'
import { escapeHtml } from '../message/template.ts'
import type { Entry } from '../suppressions/import-with-status.ts'
import { looseUses } from './columns.ts'
import { contactReading, type ImportWishes } from './contact-columns.ts'
import { heldSource } from './csv-source.ts'
import { checkErrors, judge, type Judged, type Kind } from './import.ts'
import { PRESETS, programOf, type PresetName } from './programs.ts'
import { counted, listIn, type ReadableList } from './rows.ts'
import { quotedTitles } from './status-like.ts'
import { suppressionsIn, type SuppressionColumns, type SuppressionWishes } from './suppression-columns.ts'
import { meaningOf, plain, type Standings, type StatusColumn } from './words.ts'

export interface Upload {
  bytes: Uint8Array
  /** The file name, by which exports of some services are recognised (D71). */
  file: string
}
export type ListJob = Upload &
  ({ contacts: ImportWishes; suppressions?: undefined } | { suppressions: SuppressionWishes; now: number })

/** A list, and the list as text for a page. It is escaped here, which takes seconds for a list of only "&". */
export type Held<Columns, Item> = Judged<Columns, Item> & { file: string; escaped: string }
export type HeldContacts = Held<ContactColumns, ContactWithStatus>
export type HeldSuppressions = Held<SuppressionColumns, Entry>

/**
 * A value in a status column, the number of rows with it, and its meaning, or undefined if unknown. For a column with
 * yes, no or dates: the first value of each meaning.
 */
export interface StatusValue {
  title: string
  value: string
  rows: number
  meaning: Standing | undefined
}

/** The columns of a contact list, with suggested uses. */
export interface ContactColumns {
  headless: boolean
  titles: string[]
  uses: string[]
  /** The status of the whole list, by its file name, and the status columns. */
  standings: Pick<Standings, 'whole' | 'columns'>
  values: StatusValue[]
  /** The service that exported the list, detected by its column titles. */
  program?: PresetName
  /** Why the columns cannot be mapped automatically. The list must not be imported then. */
  problem?: string
}

export type ListReadApart = HeldContacts | HeldSuppressions | string

const NAME = 'The file'
const LARGER = 'import larger files with "postrider contacts import" or "postrider suppression import"'
/** The maximum number of columns on a page. */
const MAX_COLUMNS = 200
/** The maximum number of status values on a page, and their maximum length. */
const MAX_VALUES = 40
const MAX_VALUE = 100

async function held<C extends { headless: boolean }, Item>(
  { bytes, file }: Upload,
  kind: Kind<C, Item>,
): Promise<Held<C, Item>> {
  const read = await listIn(heldSource(NAME, file, bytes))
  const list: ReadableList = { ...read, rows: () => counted(NAME, read.rows(), LARGER) }
  return {
    ...(await judge(list, kind, Infinity)),
    file,
    escaped: escapeHtml(new TextDecoder(read.encoding).decode(bytes)),
  }
}

/** Reads a contact list and its status values. A list whose columns cannot be mapped has a problem. */
const contactsHeld =
  (wishes: ImportWishes): Kind<ContactColumns, ContactWithStatus> =>
  (source, first) => {
    if (first.length > MAX_COLUMNS)
      throw new OperatorError(`${NAME} has more than ${MAX_COLUMNS} columns; remove some. Nothing was imported.`)
    const titles = first.map((title) => title.trim())
    const program = wishes.preset || wishes.uses ? undefined : programOf(titles)
    const values: StatusValue[] = []
    const more = { values, ...(program ? { program } : {}) }
    let reading: ReturnType<typeof contactReading>
    try {
      reading = contactReading(source, first, { ...wishes, preset: program ? PRESETS[program] : wishes.preset })
    } catch (thrown) {
      // The first line is a contact, which would be lost as column titles.
      if (!(thrown instanceof OperatorError) || titles.some((title) => contactAddress(title) !== undefined))
        throw thrown
      const [what = ''] = thrown.message.split(/[;.] /, 1)
      const problem = wishes.uses ? thrown.message : `${what}. Choose a use for every column.`
      const chosen = titles.map((_, at) => (Array.isArray(wishes.uses) && wishes.uses[at]) || '')
      const uses = chosen.includes('') ? looseUses(titles, source.file) : chosen
      const standings = { whole: 'subscribed' as const, columns: [] }
      return {
        columns: { ...more, headless: false, titles, uses, standings, problem },
        read: () => null,
      }
    }
    const { headless, standings, uses } = reading.columns
    const columns: ContactColumns = { ...more, headless, titles, uses, standings }
    const add = valuesInto(values, titles.length)
    return {
      columns,
      end() {
        const { found } = reading.like
        for (const { index } of found) uses[index] = ''
        if (found.length > 0)
          columns.problem = `Choose a use for ${quotedTitles(found)}: ${found.length === 1 ? 'it looks' : 'they look'} like a subscription status, and people who unsubscribed would be subscribed.`
      },
      read(record) {
        for (const column of standings.columns) add(record, column)
        return reading.read(record)
      },
    }
  }

/** Adds the values of status columns to a list. */
function valuesInto(values: StatusValue[], width: number) {
  const found = new Map<string, StatusValue>()
  return (record: readonly string[], column: StatusColumn): void => {
    const value = (record[column.index] ?? '').trim()
    const meaning = meaningOf(value, column)
    const known = meaning !== undefined && column.flag
    const name = JSON.stringify([column.index, meaning, known ? '' : plain(value)])
    const one = found.get(name)
    if (one) one.rows++
    else if (values.length < MAX_VALUES && value.length <= MAX_VALUE && record.length === width) {
      const first = { title: column.title, value, rows: 1, meaning }
      found.set(name, first)
      values.push(first)
    }
  }
}

/** Reads an uploaded list, or returns a sentence about the error. Contact lists may have any number of invalid rows. */
export async function readUpload(job: ListJob): Promise<ListReadApart> {
  try {
    if (!job.suppressions) return await held(job, contactsHeld(job.contacts))
    const list = await held(job, suppressionsIn(job.suppressions, job.now))
    checkErrors(NAME, list, '')
    return list
  } catch (thrown) {
    if (thrown instanceof OperatorError) return thrown.message
    throw thrown
  }
}
