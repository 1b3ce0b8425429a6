// Header fields as they go on the wire: RFC 2047 words for what is not ASCII, folded at white space (RFC 5322 §2.2.3), no
// line longer than 998 octets whatever comes in. CR, LF and NUL are refused long before; here they become spaces, so that no
// caller can inject a field.
import { encodeWord, foldLines } from 'nodemailer/lib/mime-funcs'
import type { Address } from './address.ts'

/** An encoded word may be 75 characters long (RFC 2047 §2). */
const WORD = 64
/** A word longer than this cannot stand on a line beside its field name. */
const LONGEST_WORD = 900

// oxlint-disable-next-line no-control-regex
const clean = (text: string): string => text.replace(/[\u0000-\u0008\u000a-\u001f\u007f]+/g, ' ')
// oxlint-disable-next-line no-control-regex
const isAscii = (text: string): boolean => /^[\u0000-\u007f]*$/.test(text)
const encode = (text: string): string =>
  // Base64 is the shorter form where most characters are not ASCII.
  encodeWord(text, text.replace(/[^\u0080-\uffff]/g, '').length * 3 > text.length ? 'B' : 'Q', WORD)

/** One header field with its line end. */
export function headerField(name: string, value: string): string {
  const line = `${name}: ${value}`.trimEnd()
  // Folding inside a long run of white space would leave lines of nothing else (RFC 5322 §3.2.2).
  const whole = line.length <= 76 || (line.length <= 998 && /[ \t]{60}/.test(value))
  return `${whole ? line : foldLines(line, 76)}\r\n`
}

/** Free text (Subject): encoded when it is not ASCII, looks encoded, or has a word that no line could hold. */
export function unstructured(name: string, text: string): string {
  const value = clean(text)
  const plain =
    isAscii(value) &&
    !value.includes('=?') &&
    !/[ \t]{60}/.test(value) &&
    !value.split(/\s/).some((word) => word.length > LONGEST_WORD)
  if (plain) return headerField(name, value)
  return `${name}: ${encode(value).replaceAll('?= =?', '?=\r\n =?')}\r\n`
}

/** Addresses with display names, separated by commas; a long list has one address a line. */
export function addressField(name: string, addresses: readonly Address[]): string {
  const list = addresses.map(formatAddress)
  const line = list.join(', ')
  return `${name}: ${name.length + line.length + 2 <= 76 ? line : list.join(',\r\n ')}\r\n`
}

const ATOMS = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/

/** `Ann <a@b.example>`, `"Ann, B." <…>` or `=?UTF-8?Q?…?= <…>`. */
export function formatAddress({ name, address }: Address): string {
  if (name === '') return address
  const text = clean(name)
  // A phrase is not folded; a long one goes as encoded words, which are.
  const short = text.length <= 200
  if (short && ATOMS.test(text) && !text.includes('=?')) return `${text} <${address}>`
  if (short && isAscii(text) && !text.includes('=?')) return `"${text.replace(/["\\]/g, '\\$&')}" <${address}>`
  return `${encode(text).replaceAll('?= =?', '?=\r\n =?')} <${address}>`
}
