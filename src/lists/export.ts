// Exports lists as CSV (RFC 4180) or JSON, which can be imported without changes. Audiences: email, name, status, and a
// column for each custom field whose values are all plain text. Other values are JSON in "attributes" and
// "preferences". Domains: their suppressions.
import { hasControls } from '../base/clean-text.ts'
import { iso } from '../base/clock.ts'
import { jsonOf } from '../base/json.ts'
import type { Audience } from '../campaigns/audiences.ts'
import { suppressionsAfter, type Suppression } from '../suppressions/suppressions.ts'
import { isPlainStatus, looksLikeStatus } from './status-like.ts'
import { hasMeaning, plain } from './words.ts'
import type { Terminal } from '../views/command/terminal.ts'
import type { Store, Reader } from '../store/database.ts'
import { csvRecord } from '../base/csv.ts'
import type { SqlCondition } from '../store/list.ts'
import { db, raw, sql } from '../store/query.ts'
import type { Contact } from '../campaigns/contacts.ts'
import { stricter, type Standing } from '../campaigns/import-with-status.ts'

/** Whether an import reads this title as a custom field. */
const titled = (key: string): boolean =>
  key === key.trim() &&
  key !== '' &&
  !key.includes('@') &&
  !hasMeaning(key) &&
  !looksLikeStatus(key) &&
  !NAMED.has(plain(key))
const NAMED = new Set(['attributes', 'preferences'])
/** The maximum number of columns that an import accepts. */
const MAX_COLUMNS = 90

/** Whether every CSV reader returns this text unchanged, and an import does not take it for a status. */
const isPlain = (value: unknown): value is string =>
  typeof value === 'string' &&
  value !== '' &&
  !isPlainStatus(value.trim()) &&
  !hasControls(value.replaceAll(/\r\n|\n|\t/g, ''))

/** Writes a list page by page, as CSV or as JSON. */
async function writeList<Entry>(
  terminal: Terminal,
  titles: readonly string[],
  pages: Iterable<Entry[]>,
  shown: { cells: (entry: Entry) => (string | null)[]; json: (entry: Entry) => object },
): Promise<void> {
  let before = '['
  if (!terminal.json) await terminal.raw(csvRecord(titles))
  for (const page of pages)
    if (!terminal.json) await terminal.raw(page.map((entry) => csvRecord(shown.cells(entry))).join(''))
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

/** `only`: the contacts that meet a condition. */
export async function exportContacts(
  store: Store,
  audience: Audience,
  terminal: Terminal,
  only?: SqlCondition,
): Promise<void> {
  const fields = fieldsOf(store, audience.key, MAX_COLUMNS * 2)
    .filter(titled)
    .slice(0, MAX_COLUMNS)
  const titles = ['email', 'name', 'status', ...fields, 'attributes', 'preferences']
  await writeList(
    terminal,
    titles,
    pagesOf((key) => contactsAfter(store, audience, key, only)),
    { cells: (contact) => cellsOf(contact, fields), json: documentOf },
  )
}

/** Also returns null for corrupt JSON, which `postrider verify` reports. */
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

/**
 * The suppressions of a domain, oldest first. Entries of erased addresses are skipped, because they have no address.
 */
export const exportSuppressions = (store: Store, domain: { key: number }, terminal: Terminal): Promise<void> =>
  writeList(
    terminal,
    TITLES,
    pagesOf((key) => suppressionsAfter(store, domain.key, key)),
    { cells: (entry) => TITLES.map((title) => entryOf(entry)[title]), json: entryOf },
  )

// Reads the contacts of an audience page by page, each with its status. A suppression of the domain takes precedence:
// an export must not list a contact as "subscribed" if it cannot get emails.

const PAGE = 500

export type AudienceContact = Pick<Contact, 'key' | 'email' | 'name' | 'status' | 'custom_fields' | 'preferences'> & {
  /**
   * Suppressed manually or by an import, without expiry: 2 for all mail, 1 for campaigns, 0 if neither. `status`
   * contains other reasons.
   */
  kept_away: 0 | 1 | 2
}

export function contactsAfter(
  reader: Reader,
  { domain_key, key }: Audience,
  after: number,
  only?: SqlCondition,
): AudienceContact[] {
  const keys = only && reader.all(keysAfter(key, after, only)).map((each) => each.key)
  return reader.all(
    db
      .selectFrom('contacts as c')
      .select(['c.key', 'c.email', 'c.name', 'c.status', 'c.custom_fields', 'c.preferences'])
      .select((eb) =>
        eb
          .selectFrom('suppressions as s')
          .select((inner) =>
            inner.fn
              .coalesce(inner.fn.max(inner.case().when('s.scope', '=', 'all').then(2).else(1).end()), inner.lit(0))
              .as('kept'),
          )
          .whereRef('s.email', '=', 'c.email')
          .where('s.domain_key', '=', domain_key)
          .where('s.reason', 'in', ['manual', 'list_import'])
          .where('s.expires_at', 'is', null)
          .as('kept_away'),
      )
      .where('c.audience_key', '=', key)
      .where('c.key', '>', after)
      .$if(keys !== undefined, (query) =>
        query.where(sql<boolean>`c.key in (select value from json_each(${JSON.stringify(keys)}))`),
      )
      .orderBy('c.key')
      .limit(PAGE),
  ) as AudienceContact[]
}

/** The next contacts that meet a condition. */
const keysAfter = (audienceKey: number, after: number, { parameters, sql: condition }: SqlCondition) =>
  raw<{ key: number }>(
    `select key from contacts where audience_key = ? and key > ? and (${condition}) order by key limit ${PAGE}`,
    [audienceKey, after, ...parameters],
  )

export function standing({ kept_away, status }: AudienceContact): Standing {
  // An import elsewhere must not subscribe a contact that has not confirmed.
  if (status === 'pending') return 'unconfirmed'
  const kept: Standing = kept_away === 2 ? 'blocked' : kept_away === 1 ? 'unsubscribed' : 'subscribed'
  return stricter(status, kept)
}

/** The names of custom fields with text values, in alphabetical order, at most `most`. */
export function fieldsOf(reader: Reader, audienceKey: number, most: number): string[] {
  const found = raw<{ key: string }>(
    `select distinct j.key as key from contacts c, json_each(c.custom_fields) j
     where c.audience_key = ? and c.custom_fields is not null and j.type = 'text' order by j.key limit ?`,
    [audienceKey, most],
  )
  return reader.all(found).map(({ key }) => key)
}
