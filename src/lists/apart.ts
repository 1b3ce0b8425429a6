// Uploaded lists, read in a worker thread: the work and memory of reading grow with what is in them (D125, D126).
import { reasonIn, workersOf } from '../webui/apart.ts'
import type { Form } from '../webui/place.ts'
import type { ImportWishes } from './contact-columns.ts'
import type { SuppressionWishes } from './suppression-columns.ts'
import type { HeldContacts, HeldLook, HeldSuppressions, ListJob, ListReadApart, Upload } from './upload.ts'

const MAX_FILE = 5 * 1024 * 1024
const LARGER = 'the import of "postrider contacts" or "postrider suppression" takes larger ones.'

const TOO_LARGE = `The file has more than 5 MB; ${LARGER}`

/** The file of a form, a pasted list, or the list that an earlier form held; otherwise a sentence about the error. */
export async function uploadIn(given: Form): Promise<Upload | string> {
  const file = given.file('file')
  const text = given.get('held') || given.get('pasted')
  if (!file && text.trim() === '') return 'Choose a file, or paste its lines.'
  if (file && file.size > MAX_FILE) return TOO_LARGE
  if (file) return { file: file.name, bytes: new Uint8Array(await file.arrayBuffer()) }
  const bytes = new TextEncoder().encode(text)
  return bytes.length > MAX_FILE ? TOO_LARGE : { file: given.get('held_name'), bytes }
}

const read = workersOf<ListJob, ListReadApart>(new URL('./list-worker.ts', import.meta.url))
const failed = (thrown: unknown): string =>
  reasonIn(thrown, `Reading the file takes too much time or memory; ${LARGER}`)

/** A list of people; otherwise a sentence about the error. */
export const contactsApart = (upload: Upload, contacts: ImportWishes): Promise<HeldContacts | string> =>
  (read({ ...upload, contacts }) as Promise<HeldContacts | string>).catch(failed)

/** The columns of a list of people; otherwise a sentence about the error. */
export const lookApart = (upload: Upload, contacts: ImportWishes): Promise<HeldLook | string> =>
  (read({ ...upload, contacts, look: true }) as Promise<HeldLook | string>).catch(failed)

/** A list of suppressions; otherwise a sentence about the error. */
export const suppressionsApart = (
  upload: Upload,
  suppressions: SuppressionWishes,
  now: number,
): Promise<HeldSuppressions | string> =>
  (read({ ...upload, suppressions, now }) as Promise<HeldSuppressions | string>).catch(failed)
