// What each column of a list of people is: as the titles say it, and as a person or a program chose it. A choice gives
// the same reading as titles of that meaning would.
import { contactAddress } from '../campaigns/contacts.ts'
import { MAX_KEYS } from '../campaigns/import-with-status.ts'
import { forTerminal } from '../base/clean-text.ts'
import { OperatorError } from '../base/errors.ts'
import { isMark, NAME, plain, standingsOf, statusColumn, type Standings } from './words.ts'

export interface Columns {
  /** There are no titles: the first line is a contact. */
  headless: boolean
  titles: string[]
  email: number
  /** Columns that are joined to one name. */
  names: number[]
  standings: Standings
  /** Columns with JSON objects. */
  objects: { index: number; member: 'preferences' | 'custom_fields' }[]
  /** Names of the custom fields by column; undefined for other columns. */
  fields: (string | undefined)[]
}

/** The limit of the API. */
export const MAX_KEY = 200

/** What a column can be, beside a custom field ("field:city"). */
export const USES = ['email', 'name', 'first_name', 'last_name', 'status', 'none'] as const
const FIELD = 'field:'
/** A use of a column: one of the words above, or a custom field with its name. */
export const USE = /^(?:email|name|first_name|last_name|status|none|field:[^]+)$/

export const fieldUse = (name: string): string => `${FIELD}${name}`
/** The name of the custom field; undefined for another use. */
export const fieldIn = (use: string): string | undefined =>
  use.startsWith(FIELD) ? use.slice(FIELD.length) : undefined

/** Columns with JSON objects, by their titles. */
export const objectColumns = (open: readonly { index: number; title: string }[]): Columns['objects'] =>
  open.flatMap(({ index, title }) => {
    const word = plain(title)
    if (word !== 'attributes' && word !== 'preferences') return []
    return [{ index, member: word === 'preferences' ? 'preferences' : 'custom_fields' } as const]
  })

/** The uses of columns that were understood. */
export function usesOf({ email, fields, names, standings, titles }: Columns): string[] {
  const status = new Set(standings.columns.map(({ index }) => index))
  return titles.map((title, index) => {
    if (index === email) return 'email'
    if (status.has(index)) return 'status'
    const at = names.indexOf(index)
    const field = fields[index]
    if (at >= 0) return field === undefined ? 'name' : at === 0 ? 'first_name' : 'last_name'
    return field === undefined ? 'none' : fieldUse(field)
  })
}

/** The uses of columns that are not understood, as far as a title says it. */
export const looseUses = (titles: readonly string[], file: string): string[] => {
  const status = new Set(standingsOf(titles, file).columns.map(({ index }) => index))
  let named = false
  return titles.map((title, index) => {
    if (title === '') return 'none'
    if (status.has(index)) return 'status'
    if (!NAME.has(plain(title)) || named) return fieldUse(title)
    named = true
    return 'name'
  })
}

/** Columns with chosen uses. A column of the time at which somebody left counts, whatever was chosen. Throws. */
export function chosenColumns(
  source: { name: string; file: string },
  titles: string[],
  uses: readonly string[],
): Columns {
  const wrong = (sentence: string): never => {
    throw new OperatorError(`${source.name} ${sentence} Nothing was imported.`)
  }
  if (titles.some((title) => contactAddress(title) !== undefined))
    wrong('begins with a contact; its first line must name the columns.')
  if (uses.length !== titles.length) wrong('has other columns than those that were chosen; choose them again.')
  const indexesOf = (use: string): number[] => uses.flatMap((each, index) => (each === use ? [index] : []))
  const [email, second] = indexesOf('email')
  if (email === undefined) return wrong('needs a column of addresses; say which one it is.')
  if (second !== undefined) return wrong('has one column of addresses; say of two which one it is.')
  const status = new Set(indexesOf('status'))
  const told = standingsOf(
    titles.map((title, index) => (status.has(index) || isMark(title) ? title : '')),
    source.file,
  )
  const known = new Set(told.columns.map(({ index }) => index))
  const more = titles.flatMap((title, index) =>
    status.has(index) && !known.has(index) ? [statusColumn(index, title)] : [],
  )
  const columns = [...told.columns, ...more]
  const fields = titles.map((title, index) => {
    const use = uses[index] ?? 'none'
    return use === 'first_name' || use === 'last_name' ? title || undefined : fieldIn(use)
  })
  const custom = fields.filter((field) => field !== undefined)
  const twice = custom.find((field, index) => custom.indexOf(field) !== index)
  if (twice !== undefined) wrong(`has two columns for the field "${forTerminal(twice).slice(0, MAX_KEY)}"; choose one.`)
  if (custom.length > MAX_KEYS) wrong(`has more than ${MAX_KEYS} columns beside email and name; leave some out.`)
  if (custom.some((field) => field.length > MAX_KEY))
    wrong(`has a field whose name is over ${MAX_KEY} characters; shorten it.`)
  return {
    headless: false,
    titles,
    email,
    names: ['name', 'first_name', 'last_name'].flatMap(indexesOf),
    standings: { ...told, columns },
    objects: objectColumns(
      titles.map((title, index) => ({ index, title })).filter(({ index }) => fields[index] !== undefined),
    ),
    fields,
  }
}
