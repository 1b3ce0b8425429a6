// Exports lists as CSV (RFC 4180) or JSON; an import of the file gives the same. Of an audience: email, name, status,
// and a column for each custom field whose values are all plain text; other values are JSON in "attributes" and
// "preferences". And the suppressions of a domain.
import { iso } from '../base/clock.ts'
import { jsonOf } from '../base/json.ts'
import type { Audience } from '../campaigns/audiences.ts'
import { contactsAfter, fieldsOf, standing, type RollContact } from '../campaigns/audience-pages.ts'
import { suppressionsAfter } from '../suppressions/suppressions.ts'
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
  typeof value === 'string' && value !== '' && !/[\p{Cc}]/u.test(value.replaceAll(/\r\n|\n|\t/g, ''))

export async function exportContacts(store: Store, audience: Audience, terminal: Terminal): Promise<void> {
  const fields = fieldsOf(store, audience.key, MAX_COLUMNS * 2)
    .filter(titled)
    .slice(0, MAX_COLUMNS)
  if (terminal.json) return exportJson(store, audience, terminal)
  await terminal.raw(csvLine(['email', 'name', 'status', ...fields, 'attributes', 'preferences']))
  for (
    let page = contactsAfter(store, audience, 0);
    page.length > 0;
    page = contactsAfter(store, audience, page.at(-1)!.key)
  )
    await terminal.raw(page.map((contact) => csvLine(cellsOf(contact, fields))).join(''))
}

/** Null also for damaged JSON, which `postrider verify` reports. */
const objectOf = (text: string | null): Record<string, unknown> | null =>
  text === null ? null : ((jsonOf(text) ?? null) as Record<string, unknown> | null)

function cellsOf(contact: RollContact, fields: readonly string[]): (string | null)[] {
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

async function exportJson(store: Store, audience: Audience, terminal: Terminal): Promise<void> {
  let before = '['
  for (
    let page = contactsAfter(store, audience, 0);
    page.length > 0;
    page = contactsAfter(store, audience, page.at(-1)!.key)
  )
    for (const contact of page) {
      const { custom_fields, email, name, preferences } = contact
      const shown = {
        email,
        name,
        status: standing(contact),
        custom_fields: objectOf(custom_fields),
        preferences: objectOf(preferences),
      }
      await terminal.raw(`${before}${JSON.stringify(shown)}`)
      before = ','
    }
  await terminal.raw(before === '[' ? '[]\n' : ']\n')
}

const TITLES = ['email', 'reason', 'scope', 'source', 'expires_at', 'created_at'] as const

/**
 * The suppressions of a domain as CSV, oldest first. Entries of erased addresses are left out, because they have no
 * address any more.
 */
export async function exportSuppressions(store: Store, domain: { key: number }, terminal: Terminal): Promise<void> {
  const page = (after: number) => suppressionsAfter(store, domain.key, after)
  let before = '['
  if (!terminal.json) await terminal.raw(csvLine(TITLES))
  for (let some = page(0); some.length > 0; some = page(some.at(-1)!.key)) {
    const shown = some.map((entry) => ({
      email: entry.email,
      reason: entry.reason,
      scope: entry.scope,
      source: entry.source,
      expires_at: entry.expires_at === null ? null : iso(entry.expires_at),
      created_at: iso(entry.created_at),
    }))
    if (!terminal.json) await terminal.raw(shown.map((row) => csvLine(TITLES.map((title) => row[title]))).join(''))
    else await terminal.raw(before + shown.map((row) => JSON.stringify(row)).join(','))
    before = ','
  }
  if (terminal.json) await terminal.raw(before === '[' ? '[]\n' : ']\n')
}
