// An uploaded list as the console's worker thread reads it (apart.ts).
import { OperatorError } from '../base/errors.ts'
import type { ContactWithStatus } from '../campaigns/import-with-status.ts'
import type { Entry } from '../suppressions/import-with-status.ts'
import { contactsIn, type Columns, type ImportWishes } from './contact-columns.ts'
import { heldSource } from './csv-source.ts'
import { checkErrors, judge, type Judged, type Kind } from './import.ts'
import { counted, listIn, type ReadableList } from './rows.ts'
import { suppressionsIn, type SuppressionColumns, type SuppressionWishes } from './suppression-columns.ts'

export interface Upload {
  bytes: Uint8Array
  /** The name of the file: some programs say there what the list is (D71). */
  file: string
}
export type ListJob = Upload &
  ({ contacts: ImportWishes; suppressions?: undefined } | { suppressions: SuppressionWishes; now: number })

/** All of a list, and the list as text. */
export type Held<Columns, Item> = Judged<Columns, Item> & { file: string; text: string }
export type HeldContacts = Held<Columns, ContactWithStatus>
export type HeldSuppressions = Held<SuppressionColumns, Entry>

const NAME = 'The file'
const LARGER = 'the import of "postrider contacts" or "postrider suppression" takes larger ones'

async function held<C extends { headless: boolean }, Item>(
  { bytes, file }: Upload,
  kind: Kind<C, Item>,
): Promise<Held<C, Item>> {
  const read = await listIn(heldSource(NAME, file, bytes))
  const list: ReadableList = { ...read, rows: () => counted(NAME, read.rows(), LARGER) }
  return {
    ...(await judge(list, kind, Infinity)),
    file,
    text: new TextDecoder(read.encoding).decode(bytes),
  }
}

/** A list that is uploaded; otherwise a sentence about the error. Only of people a page shows first what is wrong. */
export async function readUpload(job: ListJob): Promise<HeldContacts | HeldSuppressions | string> {
  try {
    if (!job.suppressions) return await held(job, contactsIn(job.contacts))
    const list = await held(job, suppressionsIn(job.suppressions, job.now))
    checkErrors(NAME, list, '')
    return list
  } catch (thrown) {
    if (thrown instanceof OperatorError) return thrown.message
    throw thrown
  }
}
