// Imports a list of the console through the API, in parts, as one import of the history. Gets the preview of the import
// from the API, too.
import { nameForHistory } from '../campaigns/import-with-status.ts'
import { listImports } from './api-contacts.ts'
import { count } from '../views/html/widgets.ts'
import { number, thingOf, type Answer, type Visit } from '../views/html/visit.ts'
import type { HeldContacts } from './upload.ts'

/** Contacts in one request to the API. */
const AT_ONCE = 500
/** The limits of the history: rejected lines, and bytes of them. */
const MAX_REFUSED = 1000
const MAX_BYTES = 256 * 1024
const MAX_CELL = 2000
const MAX_DETAIL = 1000

const COUNTS = ['created', 'updated', 'unsubscribed', 'suppressed', 'skipped', 'rejected_count'] as const
export type ImportSums = Record<(typeof COUNTS)[number], number>

interface ImportedList {
  list: HeldContacts
  existing: 'update' | 'keep'
  evidence: string
}

type SentList = { sums: ImportSums; id: string } | { errors: Answer['errors'] }

const cut = (cell: string): string => (cell.length > MAX_CELL ? `${cell.slice(0, MAX_CELL - 1)}…` : cell)

/** The attributes of the first part of an import about omitted rows. */
function leftOut({ columns, errors, failed, items, rows }: HeldContacts) {
  let bytes = 0
  const refused = errors
    .slice(0, MAX_REFUSED)
    .map(({ cells, line, reason }) => ({
      line,
      detail: reason.slice(0, MAX_DETAIL),
      row: cells.slice(0, 200).map(cut),
    }))
    .filter((each) => (bytes += JSON.stringify(each).length) <= MAX_BYTES)
  return {
    rejected: refused,
    rejected_count: failed,
    omitted_count: rows - items.length,
    headers: columns.headless ? ['email'] : columns.titles.slice(0, 200).map(cut),
  }
}

/** Sends all parts of a list, and sums their counts. */
async function send(
  visit: Visit,
  id: string,
  { evidence, existing, list }: ImportedList,
  dry: boolean,
): Promise<SentList> {
  const sums: ImportSums = { created: 0, updated: 0, unsubscribed: 0, suppressed: 0, skipped: 0, rejected_count: 0 }
  let made = ''
  for (let from = 0; from < list.items.length; from += AT_ONCE) {
    const contacts = list.items.slice(from, from + AT_ONCE).map(({ item, line }) => ({ ...item, line }))
    const part = dry
      ? { dry_run: true }
      : { file: nameForHistory(list.file), ...(made === '' ? leftOut(list) : { continues: made }) }
    const answer = await visit.ask('POST', `/audiences/${id}/list-imports`, {
      type: 'contacts',
      attributes: { contacts, existing, ...(evidence === '' ? {} : { evidence }), ...part },
    })
    // Contacts of earlier parts stay, and the history has them.
    if (!answer.one) return made === '' ? answer : { sums, id: made }
    made = answer.one.id
    for (const name of COUNTS) sums[name] += number(thingOf(listImports, answer.one), name)
  }
  return { sums, id: made }
}

/** Returns the counts of a dry run. */
export const wouldDo = async (
  visit: Visit,
  id: string,
  imported: ImportedList,
): Promise<ImportSums | { errors: Answer['errors'] }> => {
  const sent = await send(visit, id, imported, true)
  return 'errors' in sent ? sent : sent.sums
}

/** Imports. Returns the id of the import and a sentence. */
export async function importContactList(
  visit: Visit,
  id: string,
  imported: ImportedList,
): Promise<{ id: string; said: string } | { errors: Answer['errors'] }> {
  const sent = await send(visit, id, imported, false)
  if ('errors' in sent) return sent
  const { created, suppressed, unsubscribed, updated } = sent.sums
  const parts = [
    `${count(created)} added`,
    ...(updated > 0 ? [`${count(updated)} updated`] : []),
    ...(unsubscribed > 0 ? [`${count(unsubscribed)} unsubscribed`] : []),
    ...(suppressed > 0 ? [`${count(suppressed)} suppressed`] : []),
  ]
  return { id: sent.id, said: `${parts.join(', ')}.` }
}
