// Brings a list that was read in the console in through the API, in parts, as one import of the history; and asks the
// API first what the import would do.
import { nameForHistory } from '../campaigns/import-history.ts'
import { listImports } from './api-contacts.ts'
import { count } from '../webui/widgets.ts'
import { number, thingOf, type Answer, type Visit } from '../webui/visit.ts'
import type { HeldContacts } from './upload.ts'

/** Contacts in one request to the API. */
const AT_ONCE = 500
/** What the history takes: so many refused lines, and so much of a cell. */
const MAX_REFUSED = 1000
const MAX_OCTETS = 256 * 1024
const MAX_CELL = 2000
const MAX_DETAIL = 1000

const COUNTS = ['created', 'updated', 'unsubscribed', 'suppressed', 'skipped', 'refused_count'] as const
export type ImportSums = Record<(typeof COUNTS)[number], number>

interface BroughtList {
  list: HeldContacts
  existing: 'update' | 'keep'
}

type SentList = { sums: ImportSums; id: string } | { errors: Answer['errors'] }

const cut = (cell: string): string => (cell.length > MAX_CELL ? `${cell.slice(0, MAX_CELL - 1)}…` : cell)

/** What the first part of an import says of the rows that were left out. */
function leftOut({ columns, errors, failed, items, rows }: HeldContacts) {
  let octets = 0
  const refused = errors
    .slice(0, MAX_REFUSED)
    .map(({ cells, line, reason }) => ({
      line,
      detail: reason.slice(0, MAX_DETAIL),
      cells: cells.slice(0, 200).map(cut),
    }))
    .filter((each) => (octets += JSON.stringify(each).length) <= MAX_OCTETS)
  return {
    refused,
    refused_count: failed,
    left_out: rows - items.length,
    titles: columns.headless ? ['email'] : columns.titles.slice(0, 200).map(cut),
  }
}

/** Sends all of a list; the counts are those of its parts. */
async function send(visit: Visit, id: string, { existing, list }: BroughtList, dry: boolean): Promise<SentList> {
  const sums: ImportSums = { created: 0, updated: 0, unsubscribed: 0, suppressed: 0, skipped: 0, refused_count: 0 }
  let made = ''
  for (let from = 0; from < list.items.length; from += AT_ONCE) {
    const contacts = list.items.slice(from, from + AT_ONCE).map(({ item, line }) => ({ ...item, line }))
    const part = dry
      ? { dry_run: true }
      : { file: nameForHistory(list.file), ...(made === '' ? leftOut(list) : { continues: made }) }
    const answer = await visit.ask('POST', `/audiences/${id}/list-imports`, {
      type: 'contacts',
      attributes: { contacts, existing, ...part },
    })
    // What an earlier part brought stays, and the history says so.
    if (!answer.one) return made === '' ? answer : { sums, id: made }
    made = answer.one.id
    for (const name of COUNTS) sums[name] += number(thingOf(listImports, answer.one), name)
  }
  return { sums, id: made }
}

/** What an import would do. */
export const wouldDo = async (
  visit: Visit,
  id: string,
  brought: BroughtList,
): Promise<ImportSums | { errors: Answer['errors'] }> => {
  const sent = await send(visit, id, brought, true)
  return 'errors' in sent ? sent : sent.sums
}

/** Imports; gives the id of the import and a sentence. */
export async function bringContacts(
  visit: Visit,
  id: string,
  brought: BroughtList,
): Promise<{ id: string; said: string } | { errors: Answer['errors'] }> {
  const sent = await send(visit, id, brought, false)
  if ('errors' in sent) return sent
  const { created, suppressed, unsubscribed, updated } = sent.sums
  const parts = [
    `${count(created)} added`,
    ...(updated > 0 ? [`${count(updated)} updated`] : []),
    ...(unsubscribed > 0 ? [`${count(unsubscribed)} kept as unsubscribed`] : []),
    ...(suppressed > 0 ? [`${count(suppressed)} suppressed`] : []),
  ]
  return { id: sent.id, said: `${parts.join(', ')}.` }
}
