// The facts of a report about one recipient, and parsers for its text: bounded, one line, without control characters.
// Also detects automatic messages.
import { forLog } from '../base/clean-text.ts'
import { fieldOf, type MimePart } from './mime-tree.ts'

export interface ReportedRecipient {
  /** The final recipient, or '' if the report omits it. */
  address: string
  /** The address we wrote to, when the report has it (Original-Recipient). */
  original: string | null
  /**
   * An enhanced status code such as "5.1.1". Without one in the report, 5.0.0 (RFC 3463 §3.1: other undefined status).
   */
  status: string | null
  /** The SMTP code at the beginning of the diagnostic, otherwise null. */
  code: number | null
  /** The server's answer. */
  text: string
  host: string | null
}

const MAX_WORDS = 1000
/** The status of a failure without further facts. */
export const UNDEFINED_STATUS = '5.0.0'

/** The SMTP code at the beginning of a diagnostic or quoted in it, or null. */
export const codeIn = (text: string): number | null =>
  Number(/(?:^|[\s:;<('#])([45][0-5]\d)(?=:|[\s-]+\S|$)/.exec(text)?.[1] ?? 0) || null

/** The enhanced status code in a text, or null. IP addresses and version numbers do not count. */
export const statusIn = (text: string): string | null =>
  /(?:^|[\s(#:-])([45]\.\d{1,3}\.\d{1,3})(?!\w|\.\d)/.exec(text)?.[1] ?? null

/** Foreign text as one line without control characters, cut to a limit. */
export const clean = (text: string): string =>
  forLog(text.slice(0, MAX_WORDS * 4), MAX_WORDS * 4)
    .replace(/\s+/g, ' ')
    .slice(0, MAX_WORDS)

/** A value such as `rfc822; <ann@example.org>` without its type. */
export const untyped = (value: string): string => value.slice(0, MAX_WORDS * 4).replace(/^[\w.-]{1,40}\s*;\s*/, '')

const ADDRESS = /<?((?:"(?:[^"\\]|\\.){1,64}"|[^\s<>;"(),:]{1,64})@[^\s<>;"(),:@]{1,255})>?/

/** The address of `rfc822; <ann@example.org>` in lower case, or null. */
export function addressIn(value: string | undefined): string | null {
  const text = (value ?? '').slice(0, MAX_WORDS)
  const plain = /^utf-8\s*;/i.test(text) ? fromUtf8Address(untyped(text)) : untyped(text)
  return ADDRESS.exec(plain)?.[1]?.toLowerCase() ?? null
}

/**
 * The address of an Original-Recipient. Some servers copy ORCPT as xtext (RFC 3461 §4). In addresses only "+" and "="
 * need it.
 */
export const originalIn = (value: string | undefined): string | null =>
  addressIn(
    value?.slice(0, MAX_WORDS).replace(/\+(2B|3D)/gi, (_, hex: string) => (hex === '3D' || hex === '3d' ? '=' : '+')),
  )

/** RFC 6533 §3: \x{e9} is a character outside ASCII. */
const fromUtf8Address = (text: string): string =>
  text.replace(/\\x\{([0-9A-Fa-f]{2,6})\}/g, (all, hex: string) => {
    const point = parseInt(hex, 16)
    return point > 0x20 && point <= 0x10ffff ? String.fromCodePoint(point) : all
  })

/** A field's value in readable form: encoded words (RFC 2047) decoded, shortened. Undecodable words stay. */
export const readable = (value: string): string =>
  clean(
    value
      .slice(0, MAX_WORDS)
      // White space between two encoded words is not a part of the text (RFC 2047 §6.2).
      .replace(/\?=\s{1,100}(?==\?)/g, '?=')
      .replace(/=\?([\w-]{1,40})(?:\*[\w-]{1,40})?\?([bq])\?([^?\s]{0,500})\?=/gi, decodedWord),
  )

function decodedWord(word: string, charset: string, encoding: string, text: string): string {
  const bytes =
    encoding.toLowerCase() === 'b'
      ? Buffer.from(text, 'base64')
      : Buffer.from(
          text
            .replace(/_/g, ' ')
            .replace(/=([0-9A-F]{2})/gi, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
          'latin1',
        )
  try {
    return new TextDecoder(charset).decode(bytes)
  } catch {
    return word
  }
}

/** Whether a message was generated automatically (RFC 3834 §5), by its fields or its subject. */
export function isAutoReply(tree: MimePart): boolean {
  const submitted = fieldOf(tree, 'auto-submitted')?.toLowerCase()
  if (submitted !== undefined && !/^no(?:$|[\s;(])/.test(submitted)) return true
  return fieldOf(tree, 'x-auto-response-suppress') !== undefined || isAnswer(tree)
}

/**
 * Whether a message is an automatic reply, such as an absence notice. The mark "auto-generated" alone does not count,
 * because failure reports have it, too.
 */
export function isAnswer(tree: MimePart): boolean {
  if (/^auto-(?:replied|generated *\()/i.test(fieldOf(tree, 'auto-submitted') ?? '')) return true
  if (/^auto[_-]?reply$/i.test(fieldOf(tree, 'precedence') ?? '')) return true
  if (['x-autoreply', 'x-autorespond'].some((name) => fieldOf(tree, name) !== undefined)) return true
  return /^(?:auto(?:matic|mated)?[ -]?(?:reply|response)|out of (?:the )?office|vacation)\b/i.test(
    readable(fieldOf(tree, 'subject') ?? ''),
  )
}
