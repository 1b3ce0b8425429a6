// Contact lists: the meaning of the columns, and of each record as a contact, or the error in it.
import { forTerminal, hasControls } from '../base/clean-text.ts'
import { OperatorError } from '../base/errors.ts'
import { isOneOf } from '../base/one-of.ts'
import {
  LONE_SURROGATE,
  MAX_KEYS,
  MAX_OBJECT,
  STANDINGS,
  type ContactWithStatus,
  type Standing,
} from '../campaigns/import-with-status.ts'
import {
  addressIn,
  checkStatus,
  checkTitles,
  chosenUses,
  columnsBy,
  headlessColumns,
  isHeadless,
  MAX_KEY,
  STATUS_FIELDS,
  titledUses,
  type Columns,
  type FieldMap,
} from './columns.ts'
import type { Kind } from './import.ts'
import type { Preset } from './programs.ts'
import { StatusLike } from './status-like.ts'
import { plain, standingIn, type Wrong } from './words.ts'

/** Limits, the same as in the API. */
const MAX_NAME = 255

export interface ImportWishes {
  preset?: Preset | undefined
  map: FieldMap
  /** The use of each column (columns.ts), in order or by its title. It replaces the meaning of the titles. */
  uses?: readonly string[] | ReadonlyMap<string, string>
  /** The meanings of unknown values in status columns, by the value in its plain form. */
  words?: ReadonlyMap<string, Standing>
  /** The title of the column with the dates on which contacts agreed. */
  consentDate?: string | undefined
  /** The file came through a page, which has no --map: a column has to be renamed in the file. */
  page?: true
}

/** Reads options such as "pending=unconfirmed" (value=status), keyed by the plain value. Throws an OperatorError. */
export const readWords = (given: readonly string[]): Map<string, Standing> =>
  new Map(
    given.map((text) => {
      const at = text.lastIndexOf('=')
      const standing = text.slice(at + 1)
      if (at < 0 || !isOneOf(STANDINGS, standing))
        throw new OperatorError(
          `--status must be VALUE=STATUS, with one of ${STANDINGS.join(', ')}, not "${forTerminal(text)}".`,
        )
      return [plain(text.slice(0, at)), standing]
    }),
  )

/** Reads options such as "city=Ort" (field=column). Throws an OperatorError. */
export function readMap(given: readonly string[]): Map<string, string[]> {
  const map = new Map<string, string[]>()
  for (const text of given) {
    const at = text.indexOf('=')
    const field = text.slice(0, at).trim()
    if (at < 1 || field === '')
      throw new OperatorError(`--map must be field=column, such as name="Full name", not "${forTerminal(text)}".`)
    const before = map.get(field) ?? []
    if (before.length > 0 && !STATUS_FIELDS.includes(field))
      throw new OperatorError(`--map names the field ${forTerminal(field)} twice; use it once.`)
    map.set(field, [...before, text.slice(at + 1).trim()])
  }
  return map
}

/**
 * Reads the records of a contact list. The first row of an address is used, unless a later one marks it as
 * unsubscribed. `like` finds columns that look like a status.
 */
export function contactReading(source: { name: string; file: string }, first: readonly string[], wishes: ImportWishes) {
  const known = columnsOf(source, first, wishes)
  const columns: Columns = {
    ...known,
    standings: { ...known.standings, words: wishes.words, fix: wishes.page ? 'words' : 'option' },
  }
  const dates = consentDates(source, columns.titles, wishes.consentDate)
  const seen = new Set<string>()
  const like = new StatusLike(columns.titles, columns.open, columns.standings.columns.length > 0)
  return {
    columns,
    like,
    read(record: readonly string[]): ContactWithStatus | Wrong | null {
      like.see(record)
      const contact = contactOf(record, columns)
      if ('problem' in contact) return contact
      const isFirst = !seen.has(contact.email)
      seen.add(contact.email)
      const at = dates(record)
      if (typeof at === 'object') return at
      if (at !== undefined) contact.consent_at = at
      return isFirst || contact.status !== 'subscribed' ? contact : null
    },
  }
}

/** Reads a contact list, except one with a column that looks like a status but is unknown. */
export const contactsIn =
  (wishes: ImportWishes): Kind<Columns, ContactWithStatus> =>
  (source, first) => {
    const { like, ...reading } = contactReading(source, first, wishes)
    return {
      ...reading,
      end: () =>
        checkStatus(source, like.found, 'subscription status', (title) =>
          wishes.page
            ? 'Set the use of every column in "columns": status, subscribed, unsubscribed, none or field:NAME.'
            : `Map it: --map "subscribed=${title}" if yes means subscribed, --map "unsubscribed=${title}" if yes means unsubscribed, --map "status=${title}" for values such as "active", --map "${title}=${title}" for a custom field.`,
        ),
    }
  }

/** Returns a function for the date of consent in a record. Throws an OperatorError without the column. */
function consentDates(source: { name: string }, titles: readonly string[], title: string | undefined) {
  const index = title === undefined ? -1 : titles.findIndex((each) => plain(each) === plain(title))
  if (title !== undefined && index < 0)
    throw new OperatorError(
      `${source.name} has no column "${forTerminal(title)}"; set --consent-date to one of its titles.`,
    )
  return (record: readonly string[]): number | undefined | Wrong => {
    const cell = record[index]?.trim() ?? ''
    if (cell === '') return undefined
    // Only ISO 8601: whether 03/04 is in March or in April is unknown.
    const at = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?)?$/.test(cell)
      ? Date.parse(cell)
      : Number.NaN
    return Number.isNaN(at)
      ? { problem: `has "${forTerminal(cell.slice(0, 40))}" as the date of consent, not a date such as 2026-05-04` }
      : at
  }
}

/** The meaning of the columns, from the first record. Throws an OperatorError. */
function columnsOf(source: { name: string; file: string }, first: readonly string[], wishes: ImportWishes): Columns {
  const titles = first.map((title) => title.trim())
  const { map, preset, uses } = wishes
  if (!isHeadless(titles)) {
    checkTitles(source, titles)
    return columnsBy(source, titles, uses ? chosenUses(titles, uses) : titledUses(source, titles, wishes))
  }
  if (!uses && (map.size > 0 || preset))
    throw new OperatorError(
      `${source.name} has no column names, so --map and --from cannot be used; remove them. Nothing was imported.`,
    )
  return headlessColumns(titles, source.file)
}

/** One record as a contact, or the reason why it is not one. */
function contactOf(record: readonly string[], columns: Columns): ContactWithStatus | Wrong {
  const { email: at, fields, names, objects, standings } = columns
  const email = addressIn(record, at, fields.length)
  if (typeof email === 'object') return email
  const name = names
    .map((index) => record[index]!.trim())
    .filter((part) => part !== '')
    .join(' ')
  if (Buffer.byteLength(name) > MAX_NAME || hasControls(name))
    return { problem: 'has a name that is too long or contains control characters' }
  const standing = standingIn(record, standings)
  if (typeof standing === 'object') return standing
  const members: Record<'preferences' | 'custom_fields', [string, unknown][]> = { preferences: [], custom_fields: [] }
  for (const { index, member } of objects) {
    const object = objectIn(record[index]!)
    if (object === undefined) return { problem: `${forTerminal(columns.titles[index]!)} is not a JSON object` }
    if (object) members[member].push(...Object.entries(object))
  }
  for (const [index, title] of fields.entries())
    if (
      title !== undefined &&
      record[index] !== '' &&
      !objects.some((one) => one.index === index && objectIn(record[index]!))
    )
      members.custom_fields.push([title, record[index]!])
  const [preferences, custom_fields] = [members.preferences, members.custom_fields].map(objectOf)
  const problem = faultOf(preferences ?? null) ?? faultOf(custom_fields ?? null)
  if (problem !== undefined) return { problem }
  return { email, name: name === '' ? null : name, preferences, custom_fields, status: standing }
}

/** Returns null for plain text, and undefined for text that starts like an object but is not valid JSON. */
function objectIn(cell: string): Record<string, unknown> | null | undefined {
  const text = cell.trim()
  if (!text.startsWith('{')) return null
  try {
    return JSON.parse(text) as Record<string, unknown>
  } catch {
    return undefined
  }
}

const objectOf = (entries: [string, unknown][]): Record<string, unknown> | null =>
  entries.length === 0 ? null : Object.fromEntries(entries)

function faultOf(object: Record<string, unknown> | null): string | undefined {
  if (object === null) return undefined
  const keys = Object.keys(object)
  if (keys.length > MAX_KEYS) return `has more than ${MAX_KEYS} custom fields`
  if (keys.some((key) => key === '' || key.length > MAX_KEY))
    return `has a field without a name, or with a name longer than ${MAX_KEY} characters`
  const text = JSON.stringify(object)
  if (LONE_SURROGATE.test(text)) return 'has a field that is not valid Unicode'
  return Buffer.byteLength(text) > MAX_OBJECT ? 'has more than 64 KB of custom fields' : undefined
}
