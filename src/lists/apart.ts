// Uploaded lists, read in a worker thread: work and memory grow with their contents.
import { reasonIn, workersOf } from '../views/html/apart.ts'
import type { Form } from '../views/html/place.ts'
import type { ImportWishes } from './contact-columns.ts'
import type { SuppressionWishes } from './suppression-columns.ts'
import type { HeldContacts, HeldSuppressions, ListJob, ListReadApart, Upload } from './upload.ts'

const MAX_FILE = 5 * 1024 * 1024
const LARGER = 'import larger files with "postrider contacts import" or "postrider suppression import".'

const TOO_LARGE = `The file is larger than 5 MB; ${LARGER}`

/**
 * Returns the file of a form, a pasted list, or the list that an earlier form contained. Returns an error sentence
 * otherwise.
 */
export async function uploadIn(given: Form): Promise<Upload | string> {
  const file = given.file('file')
  const text = given.get('held') || given.get('pasted')
  if (!file && text.trim() === '') return 'Choose a file or paste its rows.'
  if (file && file.size > MAX_FILE) return TOO_LARGE
  if (file) return { file: file.name, bytes: new Uint8Array(await file.arrayBuffer()) }
  const bytes = new TextEncoder().encode(text)
  return bytes.length > MAX_FILE ? TOO_LARGE : { file: given.get('held_name'), bytes }
}

const read = workersOf<ListJob, ListReadApart>(new URL('./list-worker.ts', import.meta.url))
const failed = (thrown: unknown): string =>
  reasonIn(thrown, `The file takes too much time or memory to read; ${LARGER}`)

/** Returns a contact list, or an error sentence. */
export const contactsApart = (upload: Upload, contacts: ImportWishes): Promise<HeldContacts | string> =>
  (read({ ...upload, contacts }) as Promise<HeldContacts | string>).catch(failed)

/** Returns a suppression list, or an error sentence. */
export const suppressionsApart = (
  upload: Upload,
  suppressions: SuppressionWishes,
  now: number,
): Promise<HeldSuppressions | string> =>
  (read({ ...upload, suppressions, now }) as Promise<HeldSuppressions | string>).catch(failed)
