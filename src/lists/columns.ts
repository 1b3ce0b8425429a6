// The columns of a list. Each has a use: chosen by a user or an application, or found by its title, the export format
// of a service (`--from`) and `--map`. A contact list is read by the uses of its columns, however they were found. A
// suppression list shares the mapping of titles and the address column.
import { forTerminal } from '../base/clean-text.ts'
import { OperatorError } from '../base/errors.ts'
import { isOneOf } from '../base/one-of.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import { MAX_KEYS, STANDINGS, type Standing } from '../campaigns/import-with-status.ts'
import type { Preset } from './programs.ts'
import { quotedTitles } from './status-like.ts'
import {
  emailColumns,
  FIRST,
  flagColumn,
  isMark,
  LAST,
  NAME,
  plain,
  standingsOf,
  statusColumn,
  type Standings,
  type Wrong,
} from './words.ts'

export interface Columns {
  /** There are no titles: the first line is a contact. */
  headless: boolean
  titles: string[]
  /** The use of each column. */
  uses: string[]
  email: number
  /** Columns that are joined to one name. */
  names: number[]
  standings: Standings
  /** Columns with JSON objects. */
  objects: { index: number; member: 'preferences' | 'custom_fields' }[]
  /** The name of the custom field per column, or undefined. */
  fields: (string | undefined)[]
  /** The columns without a chosen use. If one looks like a status, the import stops (status-like.ts). */
  open: number[]
}

type NamedSource = { name: string; file: string }
/** The column titles of each field, several for a status. '' means no column. */
export type FieldMap = ReadonlyMap<string, readonly string[]>

/** The limit of the API. */
export const MAX_KEY = 200
/** The maximum number of titles in a message. */
const LISTED = 12

/** The uses of a column, in addition to a custom field ("field:city"). */
export const USES = [
  'email',
  'name',
  'first_name',
  'last_name',
  'status',
  'subscribed',
  'unsubscribed',
  'none',
] as const
const FIELD = 'field:'
/** A use of a column: one of the words above, or a custom field with its name. */
export const USE = new RegExp(`^(?:${USES.join('|')}|field:[^]+)$`)

export const fieldUse = (name: string): string => `${FIELD}${name}`
/** The name of the custom field, or undefined for another use. */
export const fieldIn = (use: string): string | undefined =>
  use.startsWith(FIELD) ? use.slice(FIELD.length) : undefined

/** Uses of columns that contain yes, no or a date. */
const FLAGS: readonly Standing[] = STANDINGS.filter((standing) => standing !== 'unconfirmed')
export const STATUS_FIELDS: readonly string[] = ['status', ...FLAGS]
/** Fields of --map that are not custom fields. */
const RESERVED = new Set(['email', 'name', 'first_name', 'last_name', ...STATUS_FIELDS])

/** Throws an OperatorError about a list. */
const refused = (source: { name: string }, sentence: string): never => {
  throw new OperatorError(`${source.name} ${sentence} Nothing was imported.`)
}

const listed = (titles: readonly string[]): string =>
  `${titles
    .slice(0, LISTED)
    .map((title) => forTerminal(title).slice(0, 60))
    .join(', ')}${titles.length > LISTED ? ' …' : ''}`

/** The fields of --map and the indexes of their columns. Throws an OperatorError. */
export function mapColumns(source: { name: string }, titles: string[], map: FieldMap): Map<string, number[]> {
  const found = new Map<string, number[]>()
  const all = [...map].flatMap(([field, columns]) => columns.map((column) => [field, column] as const))
  for (const [field, column] of all) {
    if (column === '') continue
    const exact = titles.flatMap((title, index) => (title === column ? [index] : []))
    const close = titles.flatMap((title, index) => (plain(title) === plain(column) ? [index] : []))
    const [place, more] = exact.length > 0 ? exact : close
    if (place === undefined || more !== undefined)
      throw new OperatorError(
        `--map ${forTerminal(field)}=${forTerminal(column)}: ${source.name} has ${more === undefined ? 'no column' : 'several columns'} with that name; its columns are: ${listed(titles)}. Nothing was imported.`,
      )
    found.set(field, [...(found.get(field) ?? []), place])
  }
  return found
}

/** Throws an OperatorError with the remedy if columns look like a status but are unknown. */
export function checkStatus(
  { name }: { name: string },
  found: readonly { title: string }[],
  status: string,
  remedy: (title: string) => string,
): void {
  const [first, second] = found
  if (!first) return
  const looks = second ? ['columns', 'look', 'are'] : ['a column', 'looks', 'is']
  throw new OperatorError(
    `${name} has ${looks[0]} ${quotedTitles(found)} that ${looks[1]} like a ${status} but ${looks[2]} unknown, so nothing was imported. ${remedy(forTerminal(first.title).slice(0, 60))}`,
  )
}

/** Whether a file has no column names: its first line is an address. */
export const isHeadless = ([title = '', ...more]: readonly string[]): boolean =>
  more.length === 0 && contactAddress(title) !== undefined

/** Throws an OperatorError if one of the titles is an address. */
export function checkTitles(source: { name: string }, titles: readonly string[]): void {
  if (titles.some((title) => contactAddress(title) !== undefined))
    refused(source, 'starts with a contact; its first line must contain the column names, including "email".')
}

/** The limit of the API. */
const MAX_EMAIL = 320

/** Returns the address of a record, or the error in it. `columns`: the number of columns in the first line. */
export function addressIn(record: readonly string[], at: number, columns: number): string | Wrong {
  if (record.length !== columns) return { problem: `has ${record.length} columns, the first line has ${columns}` }
  const text = record[at]!.trim()
  if (text === '') return { problem: 'has no email address' }
  if (Buffer.byteLength(text) > MAX_EMAIL) return { problem: 'is too long for an email address' }
  return contactAddress(text) ?? { problem: `"${forTerminal(text)}" is not an email address` }
}

/** The uses of the columns of a list. */
interface GivenUses {
  uses: readonly string[]
  /** The columns of the name, if not in the order of their uses. */
  names?: number[]
  /** Columns with a status in addition to their use. */
  status?: readonly number[]
  open: number[]
}

/** Columns by their uses. A column with unsubscribe times always counts. Throws an OperatorError. */
export function columnsBy(
  source: NamedSource,
  titles: string[],
  { names, open, status = [], uses }: GivenUses,
): Columns {
  if (uses.length !== titles.length) refused(source, 'has different columns now; map them again.')
  const indexesOf = (use: string): number[] => uses.flatMap((each, index) => (each === use ? [index] : []))
  const [email, second] = indexesOf('email')
  if (email === undefined) return refused(source, 'has no email address column; choose one.')
  if (second !== undefined) refused(source, 'has two email address columns; choose one.')
  const fields = uses.map((use, index) =>
    use === 'first_name' || use === 'last_name' ? titles[index] || undefined : fieldIn(use),
  )
  const custom = fields.filter((field) => field !== undefined)
  const twice = custom.find((field, index) => custom.indexOf(field) !== index)
  if (twice !== undefined)
    refused(source, `has two columns for the field "${forTerminal(twice).slice(0, MAX_KEY)}"; rename or skip one.`)
  if (custom.length > MAX_KEYS)
    refused(source, `has more than ${MAX_KEYS} columns in addition to email and name; remove or skip some.`)
  if (custom.some((field) => field.length > MAX_KEY))
    refused(source, `has a field name longer than ${MAX_KEY} characters; shorten it.`)
  const columns = uses.flatMap((use, index) => {
    const title = titles[index]!
    if (use === 'status' || isMark(title) || status.includes(index)) return [statusColumn(index, title)]
    return isOneOf(FLAGS, use) ? [flagColumn(index, title, use)] : []
  })
  return {
    headless: false,
    titles,
    uses: [...uses],
    email,
    names: names ?? ['name', 'first_name', 'last_name'].flatMap(indexesOf),
    standings: { whole: standingsOf([], source.file).whole, columns },
    objects: uses.flatMap((use, index) => {
      const word = use === fieldUse(titles[index]!) ? plain(titles[index]!) : ''
      if (word !== 'attributes' && word !== 'preferences') return []
      return [{ index, member: word === 'preferences' ? 'preferences' : 'custom_fields' } as const]
    }),
    fields,
    open,
  }
}

export const headlessColumns = (titles: string[], file: string): Columns => ({
  headless: true,
  titles,
  uses: ['email'],
  email: 0,
  names: [],
  standings: standingsOf([], file),
  objects: [],
  fields: [undefined],
  open: [],
})

/** Chosen uses, in order or by the titles of their columns. Other columns are skipped. */
export function chosenUses(
  titles: readonly string[],
  chosen: readonly string[] | ReadonlyMap<string, string>,
): GivenUses {
  if (!('get' in chosen)) return { uses: chosen, open: [] }
  return {
    uses: titles.map((title) => chosen.get(title) ?? 'none'),
    open: titles.flatMap((title, index) => (chosen.has(title) || isMark(title) ? [] : [index])),
  }
}

/** The uses that the titles suggest. Throws an OperatorError if a column is missing or ambiguous. */
export function titledUses(
  source: NamedSource,
  titles: string[],
  { map, page, preset }: { map: FieldMap; page?: true; preset?: Preset | undefined },
): GivenUses {
  const say = (field: string): string =>
    page ? `rename the right one to "${field}"` : `select it with --map ${field}=COLUMN`
  const mapped = mapColumns(source, titles, map)
  const given = new Map([...mapped].flatMap(([field, all]) => all.map((index) => [index, field] as const)))
  const find = (known: ReadonlySet<string>): number[] =>
    titles.flatMap((title, index) => (!given.has(index) && known.has(plain(title)) ? [index] : []))
  const free = titles.flatMap((_, index) => (given.has(index) ? [] : [index]))
  const emails = mapped.get('email') ?? (preset ? presetEmails(preset, find) : emailColumns(titles, free))
  if (emails.length === 0)
    refused(
      source,
      preset
        ? `is not in the format of ${preset.called}: it has no column ${preset.email.join(' or ')}; its columns are: ${listed(titles)}.`
        : `has no column "email"; ${say('email')}. Its first line is: ${listed(titles)}.`,
    )
  if (emails.length > 1)
    refused(
      source,
      `has two columns "${emails.map((index) => forTerminal(titles[index]!)).join('" and "')}"; ${say('email')}.`,
    )
  const names = namesOf(map, mapped, find, preset, titles)
  if (names.wholes.length > 1) refused(source, `has two columns "name"; ${say('name')}.`)
  const detected = standingsOf(titles, source.file).columns.map(({ index }) => index)
  const none = map.get('status')?.includes('') === true
  const status = STATUS_FIELDS.some((field) => map.has(field))
    ? detected.filter((index) => !none && !given.has(index))
    : detected
  const ignored = new Set(preset?.ignore.map(plain) ?? [])
  const uses = titles.map((title, index) => {
    const field = given.get(index)
    if (field === 'first_name' || field === 'last_name') return 'name'
    if (field !== undefined) return RESERVED.has(field) ? field : fieldUse(field)
    if (index === emails[0]) return 'email'
    if (names.wholes.includes(index)) return 'name'
    if (status.includes(index)) return 'status'
    if (title === '' || ignored.has(plain(title))) return 'none'
    const at = names.all.indexOf(index)
    return at < 0 ? fieldUse(title) : at === 0 ? 'first_name' : 'last_name'
  })
  const open = uses.flatMap((use, index) => {
    const field = fieldIn(use) ?? (use.endsWith('_name') ? titles[index] : undefined)
    const said = given.has(index) || ['attributes', 'preferences'].includes(plain(titles[index]!))
    return field === undefined || said || preset?.fields?.includes(field) ? [] : [index]
  })
  return { uses, names: names.all, status, open: none ? [] : open }
}

/** The address columns of an export format. */
const presetEmails = ({ email }: Preset, find: (known: ReadonlySet<string>) => number[]): number[] =>
  email.map((title) => find(new Set([plain(title)]))).find((some) => some.length > 0) ?? []

/** `wholes`: columns with a full name. First and last names are custom fields too. */
function namesOf(
  map: FieldMap,
  mapped: ReadonlyMap<string, number[]>,
  find: (known: ReadonlySet<string>) => number[],
  preset: Preset | undefined,
  titles: readonly string[],
): { all: number[]; wholes: number[] } {
  if (map.has('name')) return { all: mapped.get('name') ?? [], wholes: [] }
  if (mapped.has('first_name') || mapped.has('last_name'))
    return { all: ['first_name', 'last_name'].flatMap((field) => mapped.get(field) ?? []), wholes: [] }
  const titled = (title: string | undefined): number[] =>
    title === undefined ? [] : find(new Set([plain(title)])).slice(0, 1)
  const known = [...titled(preset?.first), ...titled(preset?.last)]
  if (known.length > 0) return { all: known, wholes: known.filter((index) => NAME.has(plain(titles[index]!))) }
  const wholes = find(NAME)
  if (wholes.length > 0) return { all: wholes, wholes }
  return { all: [...find(FIRST).slice(0, 1), ...find(LAST).slice(0, 1)], wholes: [] }
}

/** Guesses the uses of columns from their titles if the list cannot be mapped. */
export const looseUses = (titles: readonly string[], file: string): string[] => {
  const status = new Set(standingsOf(titles, file).columns.map(({ index }) => index))
  const name = titles.findIndex((title) => NAME.has(plain(title)))
  return titles.map((title, index) =>
    title === '' ? 'none' : status.has(index) ? 'status' : index === name ? 'name' : fieldUse(title),
  )
}
