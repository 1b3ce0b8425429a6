// An uploaded list as the console's worker thread reads it (apart.ts).
import { OperatorError } from '../base/errors.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import type { ContactWithStatus, Standing } from '../campaigns/import-with-status.ts'
import { escapeHtml } from '../message/template.ts'
import type { Entry } from '../suppressions/import-with-status.ts'
import { looseUses, usesOf, type Columns } from './chosen-columns.ts'
import { contactsIn, type ImportWishes } from './contact-columns.ts'
import { heldSource } from './csv-source.ts'
import { checkErrors, judge, type Judged, type Kind } from './import.ts'
import { PRESETS, programOf, type PresetName } from './programs.ts'
import { counted, listIn, type ReadableList } from './rows.ts'
import { suppressionsIn, type SuppressionColumns, type SuppressionWishes } from './suppression-columns.ts'
import { meaningOf, plain, type StatusColumn } from './words.ts'

export interface Upload {
  bytes: Uint8Array
  /** The name of the file: some programs say there what the list is (D71). */
  file: string
}
export type ListJob = Upload &
  (
    | { contacts: ImportWishes; look?: true; suppressions?: undefined }
    | { suppressions: SuppressionWishes; now: number; look?: undefined }
  )

/** All of a list, and the list as text for a page: escaped here, which takes seconds for a list of nothing but "&". */
export type Held<Columns, Item> = Judged<Columns, Item> & { file: string; escaped: string }
export type HeldContacts = Held<Columns, ContactWithStatus>
export type HeldSuppressions = Held<SuppressionColumns, Entry>

/**
 * What stands in a status column: a value, how many rows have it, and what it means; undefined: nobody knows. Of a
 * column of yes, no or dates it is the first value of each meaning.
 */
export interface StatusValue {
  title: string
  value: string
  rows: number
  meaning: Standing | undefined
}

/** The columns of a list, as they may be chosen. */
export interface LookColumns {
  headless: boolean
  titles: string[]
  uses: string[]
  values: StatusValue[]
  /** What the whole list is, by its name. */
  whole: Standing
  /** The program that wrote the list, found by its titles. */
  program?: PresetName
  /** Why the titles say too little; the columns have to be chosen. */
  problem?: string
}
export type HeldLook = Held<LookColumns, never>

export type ListReadApart = HeldContacts | HeldSuppressions | HeldLook | string

const NAME = 'The file'
const LARGER = 'the import of "postrider contacts" or "postrider suppression" takes larger ones'
/** The most columns that a page shows. */
const MAX_COLUMNS = 200
/** The most values of status columns that a page asks about, and the longest of them. */
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

/** Reads only what the columns of a list are, and which words its status columns have. */
const lookIn =
  (wishes: ImportWishes): Kind<LookColumns, never> =>
  (source, first) => {
    if (first.length > MAX_COLUMNS)
      throw new OperatorError(`${NAME} has more than ${MAX_COLUMNS} columns; remove some. Nothing was imported.`)
    const titles = first.map((title) => title.trim())
    const columns: LookColumns = { headless: false, titles, uses: [], values: [], whole: 'subscribed' }
    const program = wishes.preset || wishes.uses ? undefined : programOf(titles)
    if (program) columns.program = program
    let asked: readonly StatusColumn[] = []
    try {
      const preset = program ? PRESETS[program] : wishes.preset
      const known = contactsIn({ ...wishes, preset })(source, first).columns
      columns.headless = known.headless
      columns.uses = known.headless ? ['email'] : usesOf(known)
      columns.whole = known.standings.whole
      asked = known.standings.columns
    } catch (thrown) {
      // The titles are a contact: to choose columns would lose it.
      if (!(thrown instanceof OperatorError) || titles.some((title) => contactAddress(title) !== undefined))
        throw thrown
      const [what = ''] = thrown.message.split(/[;.] /, 1)
      columns.problem = wishes.uses ? thrown.message : `${what}. Say what each column is.`
      columns.uses = titles.map((_, at) => (Array.isArray(wishes.uses) && wishes.uses[at]) || '')
      if (columns.uses.includes('')) columns.uses = looseUses(titles, source.file)
    }
    const { values } = columns
    const found = new Map<string, StatusValue>()
    return {
      columns,
      read(record) {
        for (const column of asked) {
          const value = (record[column.index] ?? '').trim()
          const meaning = meaningOf(value, column)
          const known = meaning !== undefined && column.flag
          const name = JSON.stringify([column.index, meaning, known ? '' : plain(value)])
          const one = found.get(name)
          if (one) one.rows++
          else if (values.length < MAX_VALUES && value.length <= MAX_VALUE && record.length === titles.length) {
            const first = { title: column.title, value, rows: 1, meaning }
            found.set(name, first)
            values.push(first)
          }
        }
        return null
      },
    }
  }

/** A list that is uploaded; otherwise a sentence about the error. Only of people a page shows first what is wrong. */
export async function readUpload(job: ListJob): Promise<ListReadApart> {
  try {
    if (job.look) return await held(job, lookIn(job.contacts))
    if (!job.suppressions) return await held(job, contactsIn(job.contacts))
    const list = await held(job, suppressionsIn(job.suppressions, job.now))
    checkErrors(NAME, list, '')
    return list
  } catch (thrown) {
    if (thrown instanceof OperatorError) return thrown.message
    throw thrown
  }
}
