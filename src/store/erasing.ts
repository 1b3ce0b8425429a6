// Finds an address that is to be erased: in plain text in upper or lower case, and in the encoded forms of the address.
//
// Guarantees: only the whole address matches, not a part of a longer one (xann@there.test, ann@there.test.example).
import { domainToUnicode } from 'node:url'
import { jsonOf } from '../base/json.ts'
import { namesIn } from '../base/one-of.ts'
import { columnsOf, ownedBy, TABLES, type TableName } from './schema/tables.ts'
import type { Reader, Tx } from './database.ts'
import { raw, type Query } from './query.ts'

export interface Erasing {
  userKey: number
  /** Lower case. */
  address: string
  /** "#<hash>": replaces the address where it must still be recognised. */
  hash: string
  /** Replaces the address everywhere else. */
  mark: string
  /** The time of the erasure in ms. */
  at: number
}

const MARK_DIGITS = 12
const MARK_DOMAIN = '@erased.invalid'

/** The mark for an address with this hash ("#…"): an address at erased.invalid. */
export const markOf = (hash: string): string => `erased-${hash.slice(1, 1 + MARK_DIGITS)}${MARK_DOMAIN}`
/** Whether a value is such a mark. */
export const isMark = (address: string): boolean => address.endsWith(MARK_DOMAIN)

/** Letters and digits. Text in other scripts may follow an address without a space. It is not a part of the address. */
const WORD = '[a-z0-9]'
/** Escapes that may come right before an address and are not a part of it: JSON's \n, =3C, %3A. */
const ESCAPE = String.raw`\\[bfnrt]|\\u[0-9a-f]{4}|[%=](?:[01][0-9a-f]|2[0-9acf]|3[a-f]|40|5[bcde]|60|7[b-f])`
const BEFORE = `(?:(?<=${ESCAPE})|(?<!${WORD}|${WORD}[._'+-]))`
const AFTER = `(?!${WORD}|(?:[-.]|[%=]2e)${WORD})`
/** The encoded forms of characters that encodings change. */
const FORMS: Record<string, string> = {
  '@': String.raw`(?:@|[%=]40|&#0*64;|&#x0*40;|&commat;|\\u0040)`,
  '.': String.raw`(?:\.|[%=]2e|&#0*46;|&#x0*2e;)`,
  '+': String.raw`(?:\+|[%=]2b)`,
  _: '(?:_|[%=]5f)',
  '-': '(?:-|[%=]2d)',
  '"': String.raw`(?:\\?"|[%=]22|&quot;|&#0*34;|&#x0*22;)`,
}
const BASE64 = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'
const IN_BASE64 = /^[A-Za-z0-9+/_-]*$/

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

/**
 * A pattern for a character, in bytes read as Latin-1 or (`octets` false) in text. It includes upper case for other
 * scripts, which SQLite and a pattern of bytes do not fold.
 */
function characterForm(character: string, octets: boolean): string {
  if (character < '\x80') return FORMS[character] ?? escaped(character)
  const read = (text: string): string => (octets ? Buffer.from(text).toString('latin1') : text)
  return `(?:${[...new Set([character, character.toUpperCase()])].map((each) => escaped(read(each))).join('|')})`
}

/** The address with its domain in ASCII and in Unicode (RFC 5890), and a quoted local part also without its quotes. */
function spellings(address: string): string[] {
  const at = address.lastIndexOf('@')
  const [, bare] = /^"([a-z0-9][^"\\\s<>(),;:@[\]]*)"$/i.exec(address.slice(0, at)) ?? []
  if (bare !== undefined) return [address, ...spellings(bare + address.slice(at))]
  const own = domainToUnicode(address.slice(at + 1))
  const both = own === '' || address.endsWith(`@${own}`) ? [address] : [address, `${address.slice(0, at)}@${own}`]
  // The letters of a local part may be stored as they were given, in their decomposed form.
  return [...new Set(both.flatMap((each) => [each, each.normalize('NFD')]))]
}

const looseForm = (address: string, octets: boolean): string =>
  `(?:${spellings(address)
    .map((each) => each.replace(/[^]/gu, (character) => characterForm(character, octets)))
    .join('|')})`
const plainForm = (address: string, octets: boolean): string => BEFORE + looseForm(address, octets) + AFTER

/** Pattern for UTF-16 in either byte order, which files from Windows may use. */
const wideForm = (address: string): string =>
  spellings(address)
    .map((each) => escaped(Buffer.from(each, 'utf16le').subarray(0, -1).toString('latin1')))
    .join('|')

/**
 * Pattern for the address inside base64 text, in either case. The text differs with the address's position in a group
 * of three bytes (`shift`).
 */
function base64Form(octets: Buffer, shift: number): { pattern: RegExp; offset: number } {
  const cased = [...octets].map((byte) => (byte >= 0x61 && byte <= 0x7a ? [byte, byte - 0x20] : [byte]))
  const first = Math.ceil((shift * 8) / 6)
  const classes: string[] = []
  for (let at = first; 6 * at + 6 <= 8 * (shift + octets.length); at++) {
    const byte = Math.floor((6 * at) / 8)
    const right = 10 - ((6 * at) % 8)
    const values = cased[byte - shift]!.flatMap((high) =>
      (cased[byte - shift + 1] ?? [0]).map((low) => (((high << 8) | low) >> right) & 0x3f),
    )
    const letters = new Set(values.map((value) => BASE64.charAt(value)))
    const all = [...letters].map((letter) => (letter === '+' ? '+\\-' : letter === '/' ? '\\/_' : letter))
    classes.push(`[${all.join('')}]`)
  }
  return { pattern: new RegExp(classes.join(''), 'g'), offset: first % 4 }
}

interface Forms {
  address: string
  plain: RegExp
  loose: RegExp
  wide: RegExp
  marked: RegExp
  base64: { pattern: RegExp; offset: number }[]
}

let last: Forms | undefined

function formsOf(address: string): Forms {
  if (last?.address === address) return last
  // Bytes are read as Latin-1.
  const written = spellings(address).flatMap((each) => [
    Buffer.from(each),
    Buffer.from(each, 'utf16le').subarray(0, -1),
  ])
  last = {
    address,
    plain: new RegExp(plainForm(address, true), 'i'),
    loose: new RegExp(looseForm(address, true), 'i'),
    wide: new RegExp(wideForm(address), 'i'),
    marked: new RegExp(plainForm(address, false), 'gi'),
    base64: written.flatMap((octets) => [0, 1, 2].map((shift) => base64Form(octets, shift))),
  }
  return last
}

/** Decodes the base64 text around a match: true when it holds exactly the address, not a longer one. */
function decodes(text: string, at: number, length: number, offset: number, { plain, wide }: Forms): boolean {
  let from = at - offset
  if (from < 0 || !IN_BASE64.test(text.slice(from, at))) return true
  for (let step = 0; step < 2 && from >= 4 && IN_BASE64.test(text.slice(from - 4, from)); step++) from -= 4
  const context = /^[A-Za-z0-9+/_-]{0,8}/.exec(text.slice(at + length, at + length + 8))![0]
  const decoded = Buffer.from(text.slice(from, at + length) + context, 'base64').toString('latin1')
  return plain.test(decoded) || wide.test(decoded)
}

/**
 * Whether bytes hold the address in any form. Lines are joined first, because base64 and quoted-printable fold lines.
 * `loose`: an occurrence inside a longer word counts too, for files in which the bytes of two columns are adjacent.
 */
export function betrays(bytes: Uint8Array, address: string, loose = false): boolean {
  const forms = formsOf(address)
  const { base64, wide } = forms
  const plain = loose ? forms.loose : forms.plain
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
  if (plain.test(text) || wide.test(text)) return true
  const joined = text.replace(/=?\r?\n/g, '')
  const folded = joined.length < text.length
  // In plain text a line end separates words. Only the soft breaks of quoted-printable are joined.
  if (folded && text.includes('=') && plain.test(text.replace(/=\r?\n/g, ''))) return true
  return base64.some(({ offset, pattern }) => {
    for (const { 0: found, index } of joined.matchAll(pattern))
      if (decodes(joined, index, found.length, offset, forms)) return true
    return false
  })
}

export const names = (text: string | null, address: string): boolean =>
  text !== null && betrays(Buffer.from(text), address)

/** The text with every occurrence of the address replaced by the mark. */
export const redact = (text: string, { address, mark }: Pick<Erasing, 'address' | 'mark'>): string =>
  text.replace(formsOf(address).marked, mark)

/**
 * For one mailbox or a JSON list of them: a mailbox that holds the address becomes the mark, without its display name.
 */
export function redactMailboxes(text: string, erasing: Pick<Erasing, 'address' | 'mark'>): string {
  const one = (mailbox: string): string => (names(mailbox, erasing.address) ? erasing.mark : mailbox)
  if (!text.startsWith('[')) return one(text)
  const list = jsonOf(text) as string[] | undefined
  return list === undefined ? redact(text, erasing) : JSON.stringify(list.map(one))
}

const redactOrNull = (text: string | null, erasing: Erasing): string | null =>
  text === null ? null : redact(text, erasing)

/** A part of the address that no encoding of text changes: SQL searches for it first, as a fast filter. */
export function needleOf(address: string): string {
  // An international domain has two spellings, so only the local part is used.
  const same = spellings(address).length > 1 ? address.slice(0, address.lastIndexOf('@')) : address
  const [longest = '@'] = (same.match(/[a-z0-9]+/g) ?? []).toSorted((a, b) => b.length - a.length)
  return longest
}

/** SQL that filters by `needleOf`. SQLite's lower() handles ASCII only, which is enough for a needle. */
export const holds = (column: string): string => `instr(lower(${column}), ?) > 0`

/** Rows that one transaction reads. */
const AT_ONCE = 500

/** A part of an account's rows: at most `most` rows with keys above `after`. */
interface ErasingSlice {
  table: TableName
  /** SQL for the account's rows, as in the description of a table. */
  owned?: string
  userKey: number
  after: number
  most?: number
}

/** The last key of a slice, or null if it has no row. */
export function sliceEnd(
  reader: Reader,
  { after, most = AT_ONCE, table, owned = ownedBy(table), userKey }: ErasingSlice,
): number | null {
  return reader.one(
    raw<{ last: number | null }>(
      `select max(key) as last from (select key from ${table} where ${owned} and key > ? order by key limit ${most})`,
      [userKey, after],
    ),
  ).last
}

/** One step through a table. Returns the key at which the next step continues, or null at the end. */
export type ErasingStep = (tx: Tx, erasing: Erasing, after: number) => number | null

/** A step that replaces the address by the mark in columns of an account's rows. */
export function redacting(table: TableName, columns: readonly string[], owned = ownedBy(table)): ErasingStep {
  const quoted = columns.map((name) => `"${name}"`)
  return (tx, erasing, after) => {
    const { address, userKey } = erasing
    const end = sliceEnd(tx, { table, owned, userKey, after })
    if (end === null) return null
    const needle = needleOf(address)
    const rows = tx.all(
      raw<Record<string, string | null> & { key: number }>(
        `select key, ${quoted.join(', ')} from ${table}
         where ${owned} and key > ? and key <= ? and (${quoted.map(holds).join(' or ')})`,
        [userKey, after, end, ...columns.map(() => needle)],
      ),
    )
    for (const row of rows) {
      const clean = columns.map((name) => redactOrNull(row[name] ?? null, erasing))
      if (columns.every((name, index) => row[name] === clean[index])) continue
      tx.run(
        raw(`update ${table} set ${quoted.map((name) => `${name} = ?`).join(', ')} where key = ?`, [...clean, row.key]),
      )
    }
    return end
  }
}

/** The steps for every column that is described as marked. */
export const markingSteps: readonly ErasingStep[] = namesIn(TABLES).flatMap((table) => {
  const columns = columnsOf(table, ({ person }) => person === 'mark')
  return columns.length === 0 ? [] : [redacting(table, columns)]
})

/** A query that uses an account and an address several times, as `asked.user`, `asked.address` and `asked.needle`. */
export const about = <Row>(sql: string, userKey: number, address: string): Query<Row> =>
  raw<Row>(
    `with asked(user, address, needle) as (values (?, ?, ?)) ${sql
      .replaceAll('asked.user', '(select user from asked)')
      .replaceAll('asked.address', '(select address from asked)')
      .replaceAll('asked.needle', '(select needle from asked)')}`,
    [userKey, address, needleOf(address)],
  )
