// Exports lists as CSV (RFC 4180) or JSON; an import of the file gives the same. Of an audience: email, name, status,
// and a column for each custom field whose values are all plain text; other values are JSON in "attributes" and
// "preferences". And the suppressions of a domain.
import { hasControls } from '../base/clean-text.ts'
import { iso } from '../base/clock.ts'
import { jsonOf } from '../base/json.ts'
import type { Audience } from '../campaigns/audiences.ts'
import { contactsAfter, fieldsOf, standing, type AudienceContact } from '../campaigns/audience-pages.ts'
import { suppressionsAfter, type Suppression } from '../suppressions/suppressions.ts'
import { csvLine } from './rows.ts'
import { hasMeaning, plain } from './words.ts'
import type { Terminal } from '../commands/terminal.ts'
import type { Store } from '../store/database.ts'

/** Whether an import reads this title as a custom field. */
const titled = (key: string): boolean =>
  key === key.trim() && key !== '' && !key.includes('@') && !hasMeaning(key) && !NAMED.has(plain(key))
const NAMED = new Set(['attributes', 'preferences'])
/** The most columns that an import accepts. */
const MAX_COLUMNS = 90

/** Whether every CSV reader returns this text unchanged. */
const isPlain = (value: unknown): value is string =>
  typeof value === 'string' && value !== '' && !hasControls(value.replaceAll(/\r\n|\n|\t/g, ''))

/** Writes a list page by page, as CSV or as JSON. */
async function writeList<Entry>(
  terminal: Terminal,
  titles: readonly string[],
  pages: Iterable<Entry[]>,
  shown: { cells: (entry: Entry) => (string | null)[]; json: (entry: Entry) => object },
): Promise<void> {
  let before = '['
  if (!terminal.json) await terminal.raw(csvLine(titles))
  for (const page of pages)
    if (!terminal.json) await terminal.raw(page.map((entry) => csvLine(shown.cells(entry))).join(''))
    else
      for (const entry of page) {
        await terminal.raw(`${before}${JSON.stringify(shown.json(entry))}`)
        before = ','
      }
  if (terminal.json) await terminal.raw(before === '[' ? '[]\n' : ']\n')
}

/** All pages of a list that is read after a key. */
function* pagesOf<Entry extends { key: number }>(after: (key: number) => Entry[]): Iterable<Entry[]> {
  for (let page = after(0); page.length > 0; page = after(page.at(-1)!.key)) yield page
}

export async function exportContacts(store: Store, audience: Audience, terminal: Terminal): Promise<void> {
  const fields = fieldsOf(store, audience.key, MAX_COLUMNS * 2)
    .filter(titled)
    .slice(0, MAX_COLUMNS)
  const titles = ['email', 'name', 'status', ...fields, 'attributes', 'preferences']
  await writeList(
    terminal,
    titles,
    pagesOf((key) => contactsAfter(store, audience, key)),
    { cells: (contact) => cellsOf(contact, fields), json: documentOf },
  )
}

/** Null also for damaged JSON, which `postrider verify` reports. */
const objectOf = (text: string | null): Record<string, unknown> | null =>
  text === null ? null : ((jsonOf(text) ?? null) as Record<string, unknown> | null)

function cellsOf(contact: AudienceContact, fields: readonly string[]): (string | null)[] {
  const custom = new Map(Object.entries(objectOf(contact.custom_fields) ?? {}))
  const cells = fields.map((field) => {
    const value = custom.get(field)
    if (!isPlain(value)) return null
    custom.delete(field)
    return value
  })
  const rest = custom.size === 0 ? null : JSON.stringify(Object.fromEntries(custom))
  return [contact.email, contact.name, standing(contact), ...cells, rest, contact.preferences]
}

const documentOf = (contact: AudienceContact) => ({
  email: contact.email,
  name: contact.name,
  status: standing(contact),
  custom_fields: objectOf(contact.custom_fields),
  preferences: objectOf(contact.preferences),
})

const TITLES = ['email', 'reason', 'scope', 'source', 'expires_at', 'created_at'] as const

const entryOf = ({ created_at, email, expires_at, reason, scope, source }: Suppression) => ({
  email,
  reason,
  scope,
  source,
  expires_at: expires_at === null ? null : iso(expires_at),
  created_at: iso(created_at),
})

/** The suppressions of a domain, oldest first. Entries of erased addresses are left out: they have no address. */
export const exportSuppressions = (store: Store, domain: { key: number }, terminal: Terminal): Promise<void> =>
  writeList(
    terminal,
    TITLES,
    pagesOf((key) => suppressionsAfter(store, domain.key, key)),
    { cells: (entry) => TITLES.map((title) => entryOf(entry)[title]), json: entryOf },
  )
