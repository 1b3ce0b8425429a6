// Finds the meaning of a file's columns: by title, by the known export format of a program (`--from`), or by the
// operator (`--map`). Then turns a record into a contact, or gives the reason why it is not one.
import { OperatorError } from '../base/errors.ts'
import {
  LONE_SURROGATE,
  MAX_KEYS,
  MAX_OBJECT,
  STANDINGS,
  type ContactWithStatus,
  type Standing,
} from '../campaigns/import-with-status.ts'
import { contactAddress } from '../campaigns/contacts.ts'
import { addressIn, Seen } from './addresses.ts'
import { chosenColumns, MAX_KEY, objectColumns, type Columns } from './chosen-columns.ts'
import type { Kind } from './import.ts'
import type { Preset } from './programs.ts'
import { forTerminal, hasControls } from '../base/clean-text.ts'
import {
  emailColumns,
  FIRST,
  flagColumn,
  isMark,
  LAST,
  NAME,
  plain,
  standingIn,
  standingsOf,
  statusColumn,
  type Standings,
  type Wrong,
} from './words.ts'

/** Limits, the same as in the API. */
const MAX_NAME = 255
/** The most titles that a message lists. */
const LISTED = 12

export interface ImportWishes {
  preset?: Preset | undefined
  /** Fields and the titles of their columns; '' means no column. */
  map: ReadonlyMap<string, string>
  /** What each column is (chosen-columns.ts), in order or by its title, in place of what the titles say. */
  uses?: readonly string[] | ReadonlyMap<string, string>
  /** What words of status columns mean that nobody knows, in their plain form. */
  words?: ReadonlyMap<string, Standing>
  /** The file came through a page, which has no --map: a title has to be changed in the file. */
  page?: true
}

/** Reads options such as "city=Ort" (field=column). Throws an OperatorError. */
export function readMap(given: readonly string[]): Map<string, string> {
  const map = new Map<string, string>()
  for (const text of given) {
    const at = text.indexOf('=')
    const field = text.slice(0, at).trim()
    if (at < 1 || field === '')
      throw new OperatorError(`--map must be field=column, such as name="Full name", not "${forTerminal(text)}".`)
    if (map.has(field)) throw new OperatorError(`--map names the field ${forTerminal(field)} twice; say it once.`)
    map.set(field, text.slice(at + 1).trim())
  }
  return map
}

const listed = (titles: readonly string[]): string =>
  `${titles
    .slice(0, LISTED)
    .map((title) => forTerminal(title).slice(0, 60))
    .join(', ')}${titles.length > LISTED ? ' …' : ''}`

/** How a list of people is read. An address counts once, except when a later row says that its person left. */
export const contactsIn =
  (wishes: ImportWishes): Kind<Columns, ContactWithStatus> =>
  (source, first) => {
    const known = columnsOf(source, first, wishes)
    const columns = { ...known, standings: { ...known.standings, words: wishes.words } }
    const seen = new Seen()
    return {
      columns,
      read(record) {
        const contact = contactOf(record, columns)
        if ('problem' in contact) return contact
        return seen.add(contact.email) || contact.standing !== 'subscribed' ? contact : null
      },
    }
  }

/** Whether a file has no titles: its first line is an address. */
const isHeadless = ([title = '', ...more]: readonly string[]): boolean =>
  more.length === 0 && contactAddress(title) !== undefined

/** The meaning of the columns, from the first record. Throws an OperatorError. */
function columnsOf(source: { name: string; file: string }, first: readonly string[], wishes: ImportWishes): Columns {
  const titles = first.map((title) => title.trim())
  const { uses } = wishes
  if (uses && !isHeadless(titles))
    return chosenColumns(source, titles, 'get' in uses ? titles.map((title) => uses.get(title) ?? 'none') : uses)
  if (isHeadless(titles)) return headlessColumns(source, titles, wishes)
  const wrong = (sentence: string): never => {
    throw new OperatorError(`${source.name} ${sentence} Nothing was imported.`)
  }
  if (titles.some((title) => contactAddress(title) !== undefined))
    wrong('begins with a contact; its first line must name the columns, one of them "email".')
  const { map, preset } = wishes
  const say = (field: string): string =>
    wishes.page ? `rename the right one to "${field}"` : `say which with --map ${field}=COLUMN`
  const mapped = mapColumns(source, titles, map)
  const ignored = new Set(preset?.ignore.map(plain) ?? [])
  const taken = new Set<number>(mapped.values())
  const open = titles
    .map((title, index) => ({ index, title, word: plain(title) }))
    .filter(({ index }) => !taken.has(index))
  const find = (known: ReadonlySet<string>): number[] =>
    open.filter(({ word }) => known.has(word)).map(({ index }) => index)

  const emails = mapped.has('email') ? [mapped.get('email')!] : emailsOf(titles, open, preset)
  if (emails.length === 0)
    wrong(
      preset
        ? `is not as ${preset.called} exports it: it has no column ${preset.email.join(' or ')}; its columns are: ${listed(titles)}.`
        : `has no column "email"; ${say('email')}. Its first line is: ${listed(titles)}.`,
    )
  if (emails.length > 1)
    wrong(`has two columns "${emails.map((index) => forTerminal(titles[index]!)).join('" and "')}"; ${say('email')}.`)
  const email = emails[0]!

  const names = namesOf(map, mapped, find, preset, titles)
  if (names.wholes.length > 1) wrong(`has two columns "name"; ${say('name')}.`)
  const standings = mappedStandings(map, mapped, titles, source.file)
  const objects = objectColumns(open)

  const given = new Map([...mapped].map(([field, index]) => [index, field]))
  const fields = titles.map((title, index) => {
    const field = given.get(index)
    if (field !== undefined) return RESERVED.has(field) ? undefined : field
    if (title === '' || index === email || names.wholes.includes(index) || ignored.has(plain(title))) return undefined
    return standings.columns.some((column) => column.index === index) ? undefined : title
  })
  const custom = fields.filter((title) => title !== undefined)
  const twice = custom.find((title, index) => custom.indexOf(title) !== index)
  if (twice !== undefined) wrong(`has two columns "${forTerminal(twice).slice(0, MAX_KEY)}"; rename one.`)
  if (custom.length > MAX_KEYS) wrong(`has more than ${MAX_KEYS} columns beside email and name; remove some.`)
  if (custom.some((title) => title.length > MAX_KEY)) wrong(`has a title of over ${MAX_KEY} characters; shorten it.`)
  return { headless: false, titles, email, names: names.all, standings, objects, fields }
}

function headlessColumns(
  source: { name: string; file: string },
  titles: string[],
  { map, preset }: ImportWishes,
): Columns {
  if (map.size > 0 || preset)
    throw new OperatorError(
      `${source.name} has no titles, so that --map and --from find nothing; leave them out. Nothing was imported.`,
    )
  const standings = standingsOf([], source.file)
  return { headless: true, titles, email: 0, names: [], standings, objects: [], fields: [undefined] }
}

const FLAGS = new Set<string>(STANDINGS.filter((standing) => standing !== 'subscribed' && standing !== 'unconfirmed'))
/** Fields of --map with a meaning of their own; all others are custom fields. */
const RESERVED = new Set(['email', 'name', 'first_name', 'last_name', 'status', ...FLAGS])

/** The fields of --map and the indexes of their columns. */
function mapColumns(source: { name: string }, titles: string[], map: ImportWishes['map']): Map<string, number> {
  const found = new Map<string, number>()
  for (const [field, column] of map) {
    if (column === '') continue
    const exact = titles.flatMap((title, index) => (title === column ? [index] : []))
    const close = titles.flatMap((title, index) => (plain(title) === plain(column) ? [index] : []))
    const [place, more] = exact.length > 0 ? exact : close
    if (place === undefined || more !== undefined)
      throw new OperatorError(
        `--map ${forTerminal(field)}=${forTerminal(column)}: ${source.name} has ${more === undefined ? 'no column' : 'several columns'} of that title; its columns are: ${listed(titles)}. Nothing was imported.`,
      )
    found.set(field, place)
  }
  return found
}

interface OpenColumn {
  index: number
  title: string
  word: string
}

/** The columns that may contain the mail address: those of the preset, else those with the clearest titles. */
function emailsOf(titles: readonly string[], open: readonly OpenColumn[], preset: Preset | undefined): number[] {
  if (preset) {
    const wanted = preset.email.map(plain)
    const found = wanted.map((word) => open.filter((column) => column.word === word)).find((some) => some.length > 0)
    return (found ?? []).map(({ index }) => index)
  }
  return emailColumns(
    titles,
    open.map(({ index }) => index),
  )
}

/** `wholes`: columns with a full name. First and last names are custom fields too. */
function namesOf(
  map: ImportWishes['map'],
  mapped: ReadonlyMap<string, number>,
  find: (known: ReadonlySet<string>) => number[],
  preset: Preset | undefined,
  titles: readonly string[],
): { all: number[]; wholes: number[] } {
  if (map.has('name')) return { all: mapped.has('name') ? [mapped.get('name')!] : [], wholes: [] }
  if (mapped.has('first_name') || mapped.has('last_name')) {
    const all = ['first_name', 'last_name'].flatMap((field) => mapped.get(field) ?? [])
    return { all, wholes: [] }
  }
  const titled = (title: string | undefined): number[] =>
    title === undefined ? [] : find(new Set([plain(title)])).slice(0, 1)
  const known = [...titled(preset?.first), ...titled(preset?.last)]
  if (known.length > 0) return { all: known, wholes: known.filter((index) => NAME.has(plain(titles[index]!))) }
  const wholes = find(NAME)
  if (wholes.length > 0) return { all: wholes, wholes }
  return { all: [...find(FIRST).slice(0, 1), ...find(LAST).slice(0, 1)], wholes: [] }
}

function mappedStandings(
  map: ImportWishes['map'],
  mapped: ReadonlyMap<string, number>,
  titles: readonly string[],
  file: string,
): Standings {
  const told = standingsOf(titles, file)
  if (!map.has('status') && ![...FLAGS].some((flag) => map.has(flag))) return told
  const status = mapped.get('status')
  const flags = [...FLAGS].flatMap((flag) =>
    mapped.has(flag) ? [flagColumn(mapped.get(flag)!, titles[mapped.get(flag)!]!, flag as Standing)] : [],
  )
  const said = status === undefined ? flags : [statusColumn(status, titles[status]!), ...flags]
  const marks = told.columns.filter(({ index, title }) => isMark(title) && !said.some((one) => one.index === index))
  return { ...told, columns: [...said, ...marks] }
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
    return { problem: 'has a name that is too long or holds control characters' }
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
  if (problem !== undefined) return { problem: problem }
  return { email, name: name === '' ? null : name, preferences, custom_fields, standing }
}

/** null: plain text. undefined: it begins like an object but is not valid JSON. */
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
    return `has a field without a name or with one of over ${MAX_KEY} characters`
  const text = JSON.stringify(object)
  if (LONE_SURROGATE.test(text)) return 'has a field that is not Unicode text'
  return Buffer.byteLength(text) > MAX_OBJECT ? 'has more than 64 KB of custom fields' : undefined
}
