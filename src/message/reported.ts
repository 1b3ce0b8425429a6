// What a report tells of one recipient, and how its words are read: bounded, in one line, without control characters; and whether
// a mail says of itself that a program answered.
import { fieldOf, type Node } from './mime-tree.ts'

/** One recipient that a report tells of. */
export interface ReportedRecipient {
  /** The final recipient, '' when the report names none. */
  address: string
  /** As it was written to, where the report tells (Original-Recipient). */
  original: string | null
  /** An enhanced status code such as "5.1.1"; 5.0.0, nothing more is known (RFC 3463 §3.1), when the report tells none. */
  status: string | null
  /** The SMTP code that the diagnostic begins with, else null. */
  code: number | null
  /** What the server said. */
  text: string
  /** Who said it. */
  host: string | null
}

const MAX_WORDS = 1000
/** A failure of which nothing more is known. */
export const UNDEFINED_STATUS = '5.0.0'

/** The SMTP code of a diagnostic: what it begins with, or what is quoted in it. */
export const codeIn = (text: string): number | null =>
  Number(/(?:^|[\s:;<('])([45][0-5]\d)(?=:|[\s-]+\S|$)/.exec(text)?.[1] ?? 0) || null

/** The enhanced status code that stands in a text: no address of a host, no version of a program. */
export const statusIn = (text: string): string | null =>
  /(?:^|[\s(#:-])([45]\.\d{1,3}\.\d{1,3})(?!\w|\.\d)/.exec(text)?.[1] ?? null

/** Text from outside in one line, without control characters, cut. */
export const clean = (text: string): string =>
  text
    .slice(0, MAX_WORDS * 4)
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim()
    .slice(0, MAX_WORDS)

/** `rfc822; <ann@example.org>` without its type. */
export const untyped = (value: string): string => value.slice(0, MAX_WORDS * 4).replace(/^[\w.-]{1,40}\s*;\s*/, '')

const ADDRESS = /<?([^\s<>;"(),:]{1,64}@[^\s<>;"(),:@]{1,255})>?/

/** The address of "rfc822; <ann@example.org>" in lower case; null when there is none. */
export function addressIn(value: string | undefined): string | null {
  const text = (value ?? '').slice(0, MAX_WORDS)
  const plain = /^utf-8\s*;/i.test(text) ? fromUtf8Address(untyped(text)) : untyped(text)
  return ADDRESS.exec(plain)?.[1]?.toLowerCase() ?? null
}

/** An Original-Recipient. Some servers copy ORCPT as it came, in xtext (RFC 3461 §4): only "+" and "=" of an address need it. */
export const originalIn = (value: string | undefined): string | null =>
  addressIn(
    value?.slice(0, MAX_WORDS).replace(/\+(2B|3D)/gi, (_, hex: string) => (hex === '3D' || hex === '3d' ? '=' : '+')),
  )

/** RFC 6533 §3: \x{e9} stands for a character outside ASCII. */
const fromUtf8Address = (text: string): string =>
  text.replace(/\\x\{([0-9A-Fa-f]{2,6})\}/g, (all, hex: string) => {
    const point = parseInt(hex, 16)
    return point > 0x20 && point <= 0x10ffff ? String.fromCodePoint(point) : all
  })

/** The value of a field as people see it, its encoded words (RFC 2047) undone, cut. A word that cannot be read stays as it is. */
export const readable = (value: string): string =>
  clean(
    value
      .slice(0, MAX_WORDS)
      // White space between two encoded words is no part of the text.
      .replace(/\?=\s{1,100}(?==\?)/g, '?=')
      .replace(/=\?([\w-]{1,40})(?:\*[\w-]{1,40})?\?([bq])\?([^?\s]{0,500})\?=/gi, decodedWord),
  )

function decodedWord(word: string, charset: string, encoding: string, text: string): string {
  const octets =
    encoding.toLowerCase() === 'b'
      ? Buffer.from(text, 'base64')
      : Buffer.from(
          text
            .replace(/_/g, ' ')
            .replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
          'latin1',
        )
  try {
    return new TextDecoder(charset).decode(octets)
  } catch {
    return word
  }
}

/** An answer that no person wrote (RFC 3834 §5), or that says so in its subject. */
export function isAutoReply(tree: Node): boolean {
  const submitted = fieldOf(tree, 'auto-submitted')?.toLowerCase()
  if (submitted !== undefined && !/^no(?:$|[\s;(])/.test(submitted)) return true
  if (/^auto[_-]?reply$/i.test(fieldOf(tree, 'precedence') ?? '')) return true
  if (['x-autoreply', 'x-autorespond', 'x-auto-response-suppress'].some((name) => fieldOf(tree, name) !== undefined))
    return true
  return /^(?:auto(?:matic|mated)?[ -]?(?:reply|response)|out of (?:the )?office|vacation)\b/i.test(
    readable(fieldOf(tree, 'subject') ?? ''),
  )
}
