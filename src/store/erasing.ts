// An address that is to be forgotten, as the tables look for it: in plain text without case, and in the forms that encodings give it.
import { raw, type Query } from './query.ts'

export interface Erasing {
  userKey: number
  /** Lower case. */
  address: string
  /** "#<hash>": what stays of it where it must still be recognised. */
  hash: string
  /** What stands in its place elsewhere. */
  mark: string
}

/** Where a base64 text begins within a group of three octets, the octets of an address look different. */
const ALIGNMENTS = [0, 1, 2]

/** The octets that betray an address inside a mail: itself, and what base64 and quoted-printable make of it. */
export function tracesOf(address: string): Buffer[] {
  const plain = [address, address.replace('@', '=40'), address.replace('@', '%40')]
  const forms = [address, address.charAt(0).toUpperCase() + address.slice(1), address.toUpperCase()]
  const base64 = forms.flatMap((form) =>
    ALIGNMENTS.map((shift) => {
      const bytes = Buffer.concat([Buffer.alloc(shift), Buffer.from(form)])
      const whole = bytes.length - (bytes.length % 3)
      // Only characters that depend on the address alone.
      return bytes
        .subarray(0, whole)
        .toString('base64')
        .slice(shift === 0 ? 0 : 4)
    }),
  )
  return [...new Set([...plain, ...base64])].filter((text) => text.length >= 6).map((text) => Buffer.from(text))
}

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')

const patterns = new Map<string, RegExp>()
const PATTERNS = 100

/**
 * The address by itself, not as a part of another (ann@x.test in joann@x.test or ann@x.test.org): in plain text, or with its @ as
 * percent-encoding and quoted-printable have it. The letters of an escape before it ("\n", "%3C", "=3C") are no part of an address.
 */
function patternOf(address: string): RegExp {
  let pattern = patterns.get(address)
  if (!pattern) {
    const forms = [address, address.replace('@', '%40'), address.replace('@', '=40')].map(escaped)
    const any = `(?:${forms.join('|')})`
    // The address is looked for first: what stands before it is looked at only where it is.
    const before = String.raw`(?:(?<![a-z0-9][._+~-]{0,64})|(?<=\\[nrtbf])|(?<=[=%][0-9a-f]{2}))`
    pattern = new RegExp(String.raw`(?=${any})${before}${any}(?!-*[a-z0-9]|\.[a-z0-9])`, 'gi')
    if (patterns.size >= PATTERNS) patterns.clear()
    patterns.set(address, pattern)
  }
  pattern.lastIndex = 0
  return pattern
}

/** Whether a text holds the address. SQL knows it as `says(text, address)`. */
export const says = (text: string, address: string): boolean => patternOf(address).test(text)

const BASE64_RUN = /[A-Za-z0-9+/]{8,}/g
/** A run of base64 may have letters before it that belong to something else. */
const OFFSETS = [0, 1, 2, 3]

/** Whether octets hold the address in any form: in plain text, in quoted-printable with its soft line ends, in base64, in UTF-16. */
export function betrays(bytes: Uint8Array, address: string): boolean {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('latin1')
  const form = Buffer.from(address).toString('latin1')
  const spoken = (each: string): boolean => says(each, form) || says(each.replaceAll('\0', ''), form)
  if (spoken(text) || spoken(text.replace(/=\r?\n/g, ''))) return true
  // Line ends go, in a mail and in JSON.
  const runs = text.replace(/(?:\\r)?\\n|\r?\n/g, '').match(BASE64_RUN) ?? []
  return runs.some((run) => OFFSETS.some((at) => spoken(Buffer.from(run.slice(at), 'base64').toString('latin1'))))
}

/** The text with the mark wherever the address stood. */
export function redact(text: string, { address, mark }: Pick<Erasing, 'address' | 'mark'>): string {
  return text.replace(patternOf(address), mark)
}

/** SQL that is true where a column holds `asked.address` (see `about`); most rows are told apart without leaving SQLite. */
export const names = (column: string): string =>
  `(instr(lower(${column}), asked.address) > 0 and says(${column}, asked.address))`

/** SQL that is true where a column holds the address, which is its one parameter. */
export const holds = (column: string): string => `says(${column}, ?)`

/** SQL that names an account and an address several times, as `asked.user` and `asked.address`. */
export const about = <Row>(sql: string, userKey: number, address: string): Query<Row> =>
  raw<Row>(
    `with asked(user, address) as (values (?, ?)) ${sql
      .replaceAll('asked.user', '(select user from asked)')
      .replaceAll('asked.address', '(select address from asked)')}`,
    [userKey, address],
  )
