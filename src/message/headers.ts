// Header fields for the wire: RFC 2047 words for text that is not ASCII, folded at white space (RFC 5322 §2.2.3), no
// line longer than 998 bytes for any input. CR, LF and NUL were rejected before. Here they become spaces as well, so
// that no caller can inject a field.
import { foldLines } from 'nodemailer/lib/mime-funcs'
import { forHeader } from '../base/clean-text.ts'
import type { Address } from './address.ts'

/** A line with an encoded word ends here (RFC 2047 §2). Other lines do when white space allows it. */
const LINE = 76
/** `=?UTF-8?Q?` and `?=`. */
const FRAME = 12
/** A longer word does not fit on the line of its field name. */
const LONGEST_WORD = 900

// oxlint-disable-next-line no-control-regex
const isAscii = (text: string): boolean => /^[\u0000-\u007f]*$/.test(text)

/** Text that needs no encoded words: ASCII that does not look encoded, with every word short enough for a line. */
const isPlain = (text: string): boolean =>
  isAscii(text) && !text.includes('=?') && !text.split(/\s/).some((word) => word.length > LONGEST_WORD)

/**
 * Encoded words on as many lines as they need, the first at `column`. Each word has complete characters (RFC 2047 §5).
 */
export function encodedWords(text: string, column: number): string {
  // Base64 is the shorter form where most characters are not ASCII.
  const base64 = text.replace(/[^\u0080-\uffff]/g, '').length * 3 > text.length
  const words: string[] = []
  let space = LINE - column - FRAME
  let word = ''
  let bytes = 0
  const end = (): void => {
    words.push(base64 ? `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=` : `=?UTF-8?Q?${word}?=`)
    space = LINE - 1 - FRAME
    word = ''
    bytes = 0
  }
  for (const character of text.toWellFormed()) {
    const next = base64 ? character : inQ(character)
    const length = Buffer.byteLength(next)
    if (word !== '' && (base64 ? Math.ceil((bytes + length) / 3) * 4 : bytes + length) > space) end()
    word += next
    bytes += length
  }
  if (word !== '' || words.length === 0) end()
  return words.join('\r\n ')
}

/** A character as any encoded word may hold it, even in a phrase (RFC 2047 §5 (3)). */
function inQ(character: string): string {
  if (character === ' ') return '_'
  if (/[A-Za-z0-9!*+/-]/.test(character)) return character
  return [...Buffer.from(character)].map((byte) => `=${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}

/** Folds text at single spaces, so that no space is lost and no line is blank. The first line begins at `column`. */
function fold(text: string, column: number): string {
  let folded = ''
  let end = column
  for (const [index, word] of text.split(/(?<=\S) (?=\S)/).entries()) {
    const stays = index === 0 || end + 1 + word.length <= LINE
    folded += index === 0 ? word : stays ? ` ${word}` : `\r\n ${word}`
    end = (stays ? end : 0) + (index === 0 ? 0 : 1) + word.length
  }
  return folded
}

/** One header field, folded (RFC 5322 §2.2.3), with its line end. */
export function headerField(name: string, value: string): string {
  const line = `${name}: ${value}`.trimEnd()
  // Folding inside a long run of white space would make lines of white space only (RFC 5322 §3.2.2).
  const whole = line.length <= LINE || (line.length <= 998 && /[ \t]{60}/.test(value))
  return `${whole ? line : foldLines(line, LINE)}\r\n`
}

/**
 * A field of free text (Subject).
 * Encoded (RFC 2047) if it is not ASCII, looks encoded, or has a word too long for a line.
 */
export function unstructured(name: string, text: string): string {
  const value = forHeader(text)
  if (isPlain(value) && !/[ \t]{60}/.test(value)) return headerField(name, value)
  return `${name}: ${encodedWords(value, name.length + 2)}\r\n`
}

/**
 * A field of addresses with display names (RFC 5322 §3.4), separated by commas. In a long list each has its own line.
 */
export function addressField(name: string, addresses: readonly Address[]): string {
  const list = addresses.map((address, index) => formatAddress(address, index === 0 ? name.length + 2 : 1))
  const line = `${name}: ${list.join(', ')}`
  return `${line.length <= LINE && !line.includes('\r\n') ? line : `${name}: ${list.join(',\r\n ')}`}\r\n`
}

const ATOMS = /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?: [A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*$/

/** `Ann <a@b.example>`, `"Ann, B." <…>` or `=?UTF-8?Q?…?= <…>`, on a line with `column` characters already. */
function formatAddress({ name, address }: Address, column: number): string {
  if (name === '') return address
  const text = forHeader(name)
  const phrase = ATOMS.test(text) ? text : `"${text.replace(/["\\]/g, '\\$&')}"`
  const shown = isPlain(text) && isPlain(phrase) ? fold(phrase, column) : encodedWords(text, column)
  const lastLine = shown.lastIndexOf('\n') + 1
  const end = (lastLine === 0 ? column : 0) + shown.length - lastLine
  // 4: the two brackets, the space before them and a comma.
  return `${shown}${end + address.length + 4 <= LINE ? ' ' : '\r\n '}<${address}>`
}

// The sender's own header fields: which names and values are allowed (specification "Custom headers", D29).

export const MAX_HEADERS = 10
const MAX_NAME = 126
const MAX_VALUE = 995
const MAX_BOTH = 996

/** The header field that declares an email as written by a machine. */
export const AI_DISCLOSURE = ['AI-Disclosure', 'mode=ai-generated'] as const

const RESERVED = new Set(
  (
    'To From Subject Cc Bcc Reply-To Date Message-ID MIME-Version Content-Type Content-Disposition Return-Path Feedback-To ' +
    'X-Complaint-To List-Unsubscribe List-Unsubscribe-Post ' +
    // Beyond the specification: fields that would break the mail or that only servers may write.
    'Sender Received DKIM-Signature Authentication-Results Content-Transfer-Encoding Delivered-To Content-ID ' +
    `Content-Description Feedback-ID CFBL-Address CFBL-Feedback-ID ${AI_DISCLOSURE[0]}`
  )
    .toLowerCase()
    .split(' '),
)
const RESERVED_PREFIXES = ['arc-', 'resent-', 'x-postrider-']

export interface HeaderFault {
  code: 'reserved_header' | 'invalid' | 'too_long'
  message: string
}

/** The fault of a header field of the sender, or undefined if it is allowed. Names are compared without case. */
export function headerFault(name: string, value: unknown): HeaderFault | undefined {
  const lower = name.toLowerCase()
  if (RESERVED.has(lower) || RESERVED_PREFIXES.some((prefix) => lower.startsWith(prefix)))
    return { code: 'reserved_header', message: `is a reserved header, because the server sets "${name}"` }
  if (name.length > MAX_NAME) return { code: 'too_long', message: `must have a name of at most ${MAX_NAME} characters` }
  if (!/^[\x21-\x39\x3b-\x7e]+$/.test(name))
    return { code: 'invalid', message: 'must have a name of printable ASCII without colons or spaces' }
  if (typeof value !== 'string') return { code: 'invalid', message: 'must have a string as its value' }
  if (value.length > MAX_VALUE)
    return { code: 'too_long', message: `must have a value of at most ${MAX_VALUE} characters` }
  if (name.length + value.length > MAX_BOTH)
    return { code: 'too_long', message: `must have at most ${MAX_BOTH} characters in name and value together` }
  if (!/^[\x20-\x7e]*$/.test(value))
    return { code: 'invalid', message: 'must have a value of printable ASCII without line breaks' }
  if (value.trim() === '') return { code: 'invalid', message: 'must have a value that is not blank' }
  return undefined
}
