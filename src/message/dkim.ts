// DKIM signatures (RFC 6376, RFC 8301): relaxed/relaxed, rsa-sha256, over a fixed list of fields (D32).
//
// Each field is listed once more than it occurs, so that nobody can add another one to a signed mail.
//
// The signer is the library dkim-signer. It is correct only for CRLF messages with an ASCII body that is not empty and
// holds no form feeds or vertical tabs. compose.ts makes no others, and `sign` refuses them rather than sign wrongly.
// The library holds several copies of a message: one above LARGE octets is signed by `signLarge`, which makes the same
// field.
import { createHash, sign as signOctets, type KeyObject } from 'node:crypto'
import { DKIMCanonicalizer, DKIMSign } from 'dkim-signer'
import { foldLines } from 'nodemailer/lib/mime-funcs'

/** The fields that a signature covers, present or not. */
export const SIGNED_FIELDS = [
  'From',
  'To',
  'Cc',
  'Subject',
  'Date',
  'Message-ID',
  'Reply-To',
  'In-Reply-To',
  'References',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
  'List-Unsubscribe',
  'List-Unsubscribe-Post',
  'List-Id',
  'Feedback-ID',
  'CFBL-Address',
] as const

const HEADER_LIST = SIGNED_FIELDS.join(':')

interface Canonical {
  headers: string
  fieldNames: string
}

/** A field's value on one line (RFC 6376 §3.4.2). */
function relaxedValue(raw: string): string {
  const value = raw.replaceAll('\r\n', '').replace(/[ \t]+/g, ' ')
  return value.slice(value.startsWith(' ') ? 1 : 0, value.length - (value.endsWith(' ') ? 1 : 0))
}

/**
 * The header text to hash, and the names for `h=`. Each name is listed once more than it occurs: a verifier takes the
 * occurrences from the bottom up, finds none for the last name, and so notices a field that was added later
 * (RFC 6376 §5.4.2, §8.15).
 */
function seal(header: string, names: string): Canonical {
  const found = new Map<string, string[]>(
    names
      .toLowerCase()
      .split(':')
      .map((name) => [name, []]),
  )
  for (const field of header.split(/\r\n(?![ \t])/)) {
    const colon = field.indexOf(':')
    const name = field.slice(0, Math.max(colon, 0)).trimEnd().toLowerCase()
    found.get(name)?.unshift(`${name}:${relaxedValue(field.slice(colon + 1))}\r\n`)
  }
  return {
    headers: [...found.values()].flat().join(''),
    // The signer may fold the long list at these spaces.
    fieldNames: [...found].map(([name, { length }]) => `${`${name}:`.repeat(length)}${name}`).join(': '),
  }
}

const NEEDS_WORK = /\t|  | \r| $/
/** Reduces the white space of whole lines (RFC 6376 §3.4.4). */
const relaxedLines = (lines: string): string =>
  NEEDS_WORK.test(lines) ? lines.replace(/[ \t]+/g, ' ').replace(/ (?=\r\n|$)/g, '') : lines

/** The index at which the empty lines at the end begin. */
function endOfText(lines: string): number {
  let end = lines.length
  while (lines.endsWith('\r\n', end)) end -= 2
  return end
}

// Replaces the library's canonical forms. Its body form takes quadratic time for a run of empty lines. Its header form
// leaves out a listed field that is absent or empty, hashes a field twice that is listed twice, and is computed twice
// for each message.
DKIMCanonicalizer.relaxedBody = (body) => {
  const lines = relaxedLines(body)
  return `${lines.slice(0, endOfText(lines))}\r\n`
}
let last: { header: string; names: string; result: Canonical } | undefined
DKIMCanonicalizer.relaxedHeaders = (header, names) => {
  if (last?.header !== header || last.names !== names) last = { header, names, result: seal(header, names) }
  // A copy, because the signer adds to the object it gets.
  return { ...last.result }
}

export interface Signature {
  /** The From domain, as A-label. */
  domain: string
  selector: string
  /** A parsed key: reading a PEM costs as much as signing. */
  privateKey: KeyObject
  /** Time of signing in milliseconds. */
  time: number
}

/** The selector, followed by the time in seconds; throws for names that are not A-labels. */
function selectorAndTime({ domain, selector, time }: Signature): string {
  if (!/^[a-z0-9.-]+$/.test(domain) || !/^[a-z0-9.-]+$/i.test(selector))
    throw new Error('DKIM: domain and selector must be A-labels.')
  return `${selector}; t=${Math.floor(time / 1000)}`
}

const notSignable = (): Error => new Error('DKIM: the message is not in the form that can be signed.')
const BARE_LINE_END = /\r(?!\n)|(?<!\r)\n/
const NOT_PLAIN = /[^\t\r\n\x20-\x7e]/

/**
 * The message with its DKIM-Signature field in front.
 * Throws when the message is outside the signer's limits (see above).
 */
export function sign(message: string, signature: Signature): string {
  const keySelector = selectorAndTime(signature)
  const split = message.indexOf('\r\n\r\n')
  const body = message.slice(split + 4)
  if (split < 0 || !/\S/.test(body) || NOT_PLAIN.test(body) || BARE_LINE_END.test(message)) throw notSignable()
  const { domain: domainName, privateKey } = signature
  return `${DKIMSign(message, { privateKey, domainName, keySelector, headerFieldNames: HEADER_LIST })}\r\n${message}`
}

/** From this many octets on a message is signed without a copy of it. */
export const LARGE = 1024 * 1024
const STEP = 64 * 1024

/**
 * The DKIM-Signature field of a large message, with its line end:
 * the same octets as from `sign`. Throws as `sign` does.
 */
export const signLarge = (message: Buffer, signature: Signature): string =>
  signOctetsOf(message, signature, (body) => hashOfBody(body, true))

/**
 * The DKIM-Signature field of a message from SMTP submission: any octets, in lines that end with CRLF, with or without
 * a body. Throws when a line end is not CRLF.
 */
export const signRelayed = (message: Buffer, signature: Signature): string =>
  signOctetsOf(message, signature, (body) => hashOfBody(body, false))

function signOctetsOf(message: Buffer, signature: Signature, hashOf: (body: Buffer) => string): string {
  const keySelector = selectorAndTime(signature)
  const split = message.indexOf('\r\n\r\n')
  if (split < 0) throw notSignable()
  // latin1 keeps every octet, so that text other than UTF-8 is signed as it is.
  const header = message.toString('latin1', 0, split)
  if (BARE_LINE_END.test(header)) throw notSignable()
  const { fieldNames, headers } = seal(header, HEADER_LIST)
  const tags = ['v=1', 'a=rsa-sha256', 'c=relaxed/relaxed', `d=${signature.domain}`, 'q=dns/txt', `s=${keySelector}`]
  const hashes = [`bh=${hashOf(message.subarray(split + 4))}`, `h=${fieldNames}`]
  const field = `${foldLines(`DKIM-Signature: ${[...tags, ...hashes].join('; ')}`, 76)};\r\n b=`
  const hashed = `${headers}dkim-signature:${relaxedValue(field.slice(field.indexOf(':') + 1))}`
  const value = signOctets('RSA-SHA256', Buffer.from(hashed, 'latin1'), signature.privateKey).toString('base64')
  return `${field}${value.replace(/^.{73}|.{75}/g, '$&\r\n ').trim()}\r\n`
}

/**
 * The hash of the relaxed body (RFC 6376 §3.4.4), computed in steps of whole lines.
 * `plain`: throws for anything but visible ASCII.
 */
function hashOfBody(body: Buffer, plain: boolean): string {
  const hash = createHash('sha256')
  let visible = false
  // Empty lines count only when another line follows.
  let empty = 0
  for (let at = 0; at < body.length;) {
    const line = body.indexOf('\r\n', at + STEP)
    const end = line < 0 ? body.length : line + 2
    const text = body.toString('latin1', at, end)
    if ((plain && NOT_PLAIN.test(text)) || BARE_LINE_END.test(text)) throw notSignable()
    const lines = relaxedLines(text)
    const full = endOfText(lines)
    if (full > 0) {
      visible = true
      hash.update('\r\n'.repeat(empty)).update(lines.slice(0, full), 'latin1')
      empty = 0
    }
    empty += (lines.length - full) / 2
    at = end
  }
  if (!visible && plain) throw notSignable()
  // A body that has only empty lines counts as empty.
  return (visible ? hash.update('\r\n') : hash).digest('base64')
}
