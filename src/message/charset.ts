// Text of received mail in Unicode: in the charset that the mail names, or in the one that its bytes
// show (D223).
import { isUtf8 } from 'node:buffer'
import libmime from 'libmime'
import { decode } from 'libmime/lib/charset.js'
import { forLine } from '../base/clean-text.ts'

/**
 * Charset names, without punctuation, that do not define bytes above 127: those of ASCII (IANA character sets
 * registry), and those of mail clients that do not know the charset (RFC 1428).
 */
const SAYS_NOTHING = new Set(
  `ascii usascii us iso646us iso646irv1991 isoir6 ansix341968 ansix341986 ibm367 cp367 csascii 646
   unknown unknown8bit xunknown default none 7bit 8bit binary xuserdefined`.split(/\s+/),
)
/** The charset of old messages without a charset name, the same as in web browsers. */
const FALLBACK = 'windows-1252'
/** They begin two-byte characters in ISO-2022-JP (RFC 1468). */
const ESCAPES = ['\x1b$B', '\x1b$@']
/** The most characters of a header field that are decoded. */
const MAX_VALUE = 64 * 1024
/**
 * The first bytes of a page, in which its charset is searched. WHATWG HTML requires 1024, but word processors write
 * more.
 */
const HEAD_OF_PAGE = 4096

/**
 * A charset that a message names, or undefined if it does not define bytes above 127, is unknown, or hides markup
 * (UTF-7).
 */
export function knownCharset(charset: string | undefined): string | undefined {
  const name = charset?.trim() ?? ''
  if (/^utf-?8$/i.test(name)) return 'utf-8'
  if (name === '' || name.length > 40 || SAYS_NOTHING.has(name.toLowerCase().replace(/[^a-z0-9]/g, '')))
    return undefined
  return libmime.createDecodeStream(name).supported ? name : undefined
}

/** Bytes as text. Without a usable charset: ISO-2022-JP if its escapes are there, UTF-8 if valid, else windows-1252. */
export function textIn(bytes: Buffer, charset: string | undefined): string {
  const named = knownCharset(charset)
  if (named !== undefined) return decode(bytes, named).toWellFormed()
  if (!isUtf8(bytes)) return decode(bytes, FALLBACK)
  return decode(bytes, ESCAPES.some((escape) => bytes.includes(escape)) ? 'iso-2022-jp' : 'utf-8')
}

/** An HTML page as text. Without a usable charset, the one that its `meta` element names (WHATWG HTML, prescan). */
export function pageIn(bytes: Buffer, charset: string | undefined): string {
  if (knownCharset(charset) !== undefined) return textIn(bytes, charset)
  const head = bytes.toString('latin1', 0, HEAD_OF_PAGE).replace(/<!--[\s\S]*?-->/g, '')
  const [, named] = /<meta\b[^>]{0,500}?\bcharset\s{0,9}=\s{0,9}["']?\s{0,9}([\w.:+-]{1,40})/i.exec(head) ?? []
  // Its bytes are ASCII, so it cannot be UTF-16.
  return textIn(bytes, named !== undefined && /^(?:utf-?16|utf-?32|ucs)/i.test(named) ? undefined : named)
}

/** latin1 characters read as UTF-8 bytes. Unchanged if the bytes are not UTF-8, or the text is in Unicode. */
export function utf8(latin1: string): string {
  if (WIDE.test(latin1)) return latin1
  const bytes = Buffer.from(latin1, 'latin1')
  return isUtf8(bytes) ? bytes.toString() : latin1
}

const WIDE = /[\u0100-\uffff]/

/** A field's bytes, as latin1 characters, as text. A text in Unicode stays as it is. */
function fieldIn(value: string, charset: string | undefined): string {
  if (WIDE.test(value)) return value
  const bytes = Buffer.from(value, 'latin1')
  return textIn(bytes, isUtf8(bytes) || knownCharset(charset) === 'utf-8' ? undefined : charset)
}

const WORD = /=\?([\w.:+-]+)(?:\*[\w-]*)?\?([bq])\?([^?]*)\?=/gi

/**
 * A header field's value in Unicode: encoded words decoded, control characters removed. `charset` is that of the
 * message's text: old clients write their fields in it, without encoded words.
 */
export function decoded(value: string, charset?: string): string {
  const text = fieldIn(value.slice(0, MAX_VALUE), charset)
  const named = text.replace(WORD, (word, name: string, encoding: string, content: string) => {
    if (knownCharset(name) !== undefined) return word
    const guess = libmime.decodeWord('utf-8', encoding, content).includes('\ufffd') ? FALLBACK : 'utf-8'
    return `=?${guess}?${encoding}?${content}?=`
  })
  return forLine(libmime.decodeWords(named)).toWellFormed()
}
