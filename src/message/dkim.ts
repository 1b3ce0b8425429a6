// DKIM signatures (RFC 6376, RFC 8301): relaxed/relaxed, rsa-sha256, over a fixed list of fields (D32).
//
// Each field is listed once more than it occurs, so that another one cannot be added to a signed message.
//
// There are two signers, which generate the same field. `signFields` signs bytes: its input is the canonical fields of
// the header and the hash of the canonical body, so that a campaign computes most of both once (D129). `sign` is the
// library dkim-signer, for notifications of this server. The tests compare the two. The library is correct only for
// CRLF messages with an ASCII body that is not empty and has no form feeds or vertical tabs. compose.ts generates only
// such messages, and `sign` throws for others rather than sign wrongly.
import { createHash, hash, sign as signBytes, type KeyObject } from 'node:crypto'
import { DKIMCanonicalizer, DKIMSign } from 'dkim-signer'
import { foldLines } from 'nodemailer/lib/mime-funcs'
import { scan } from './bytes.ts'

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

const FOLDED = /\r\n|\t|  /
/** A field's value on one line (RFC 6376 §3.4.2). */
function relaxedValue(raw: string): string {
  const value = FOLDED.test(raw) ? raw.replaceAll('\r\n', '').replace(/[ \t]+/g, ' ') : raw
  return value.slice(value.startsWith(' ') ? 1 : 0, value.length - (value.endsWith(' ') ? 1 : 0))
}

/**
 * The header text to hash, and the names for `h=`. Each name is listed once more than it occurs: a verifier uses the
 * occurrences from the bottom up and misses one for the last name. So it detects a field that was added later (RFC 6376
 * §5.4.2, §8.15).
 */
function seal(header: string, names: string): Canonical {
  const found = canonicalFields(header, names.toLowerCase().split(':'))
  return {
    headers: [...found.values()].flat().join(''),
    // The signer may fold the long list at these spaces.
    fieldNames: [...found].map(([name, { length }]) => listed(name, length)).join(': '),
  }
}

/** A name as `h=` lists it: once more than it occurs. */
const listed = (name: string, count: number): string => `${`${name}:`.repeat(count)}${name}`

/** The canonical fields with these lower-case names. Each name is in the result. */
function canonicalFields(header: string, names: readonly string[]): Map<string, string[]> {
  const found = new Map<string, string[]>(names.map((name) => [name, []]))
  for (const field of header.split(/\r\n(?![ \t])/)) {
    const colon = field.indexOf(':')
    const name = field.slice(0, Math.max(colon, 0)).trimEnd().toLowerCase()
    found.get(name)?.unshift(`${name}:${relaxedValue(field.slice(colon + 1))}\r\n`)
  }
  return found
}

const NEEDS_WORK = /\t|  | \r| $/
/** Reduces the white space of whole lines (RFC 6376 §3.4.4). Returns the same string if it is reduced already. */
export const relaxedLines = (lines: string): string =>
  NEEDS_WORK.test(lines) ? lines.replace(/[ \t]+/g, ' ').replace(/ (?=\r\n|$)/g, '') : lines

/** The index of the empty lines at the end. */
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

/** The selector, followed by the time in seconds. Throws for names that are not A-labels. */
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

const STEP = 64 * 1024

/**
 * The DKIM-Signature field of a large message, with its line end: the same bytes as from `sign`. Throws as `sign` does.
 */
export const signLarge = (message: Buffer, signature: Signature): string =>
  signBytesOf(message, signature, (body) => hashOfBody(body, true))

/**
 * The DKIM-Signature field of a message from SMTP submission: any bytes, in lines that end with CRLF, with or without a
 * body. Throws when a line end is not CRLF.
 */
export const signRelayed = (message: Buffer, signature: Signature): string =>
  signBytesOf(message, signature, (body) => hashOfBody(body, false))

function signBytesOf(message: Buffer, signature: Signature, hashOf: (body: Buffer) => string): string {
  const split = message.indexOf('\r\n\r\n')
  if (split < 0) throw notSignable()
  // latin1 keeps every byte, so that text other than UTF-8 is signed as it is.
  const fields = signedFieldsOf(message.toString('latin1', 0, split))
  return signFields([fields], hashOf(message.subarray(split + 4)), signature)
}

/** The canonical fields of a header that a signature covers, by lower-case name, the last of equal names first. */
export type SignedFields = ReadonlyMap<string, readonly string[]>

const SIGNED_NAMES = SIGNED_FIELDS.map((name) => name.toLowerCase())

/** The signed fields of a header, whose bytes are given as latin1 characters. Throws if a line end is not CRLF. */
export function signedFieldsOf(header: string): SignedFields {
  if (BARE_LINE_END.test(header)) throw notSignable()
  return canonicalFields(header, SIGNED_NAMES)
}

/**
 * The DKIM-Signature field, with its line end, over the fields of a header and the hash of its relaxed body in base64.
 * A header may be given in several parts, the first of them at the top.
 */
export function signFields(parts: readonly SignedFields[], bodyHash: string, signature: Signature): string {
  let fields = ''
  let counts = ''
  for (const name of SIGNED_NAMES) {
    let count = 0
    for (let at = parts.length - 1; at >= 0; at--)
      for (const field of parts[at]!.get(name) ?? []) {
        fields += field
        count++
      }
    counts += `${count} `
  }
  const { after, before, canonicalAfter, canonicalBefore } = emptyField(signature, counts)
  const hashed = `${fields}${canonicalBefore}${bodyHash}${canonicalAfter}`
  const value = signBytes('RSA-SHA256', Buffer.from(hashed, 'latin1'), signature.privateKey).toString('base64')
  return `${before}${bodyHash}${after}${folded(value)}\r\n`
}

/** A signature in lines of 75 characters. The first has ` b=` in front. */
function folded(value: string): string {
  let lines = value.slice(0, 73)
  for (let at = 73; at < value.length; at += 75) lines += `\r\n ${value.slice(at, at + 75)}`
  return lines
}

/** A DKIM-Signature field without the hash and the signature: the texts before and after the hash. */
interface EmptyField {
  key: string
  before: string
  after: string
  canonicalBefore: string
  canonicalAfter: string
}

/** As long as a hash in base64, of a character that no other tag of the field has. */
const NO_HASH = '+'.repeat(44)
let lastField: EmptyField | undefined

/**
 * The field for a signature and for the number of each signed field in the mail. The last one is kept: the messages of
 * a campaign that are signed within a second have the same. Lines are folded at spaces only, so that the hash does not
 * change where.
 */
function emptyField(signature: Signature, counts: string): EmptyField {
  const keySelector = selectorAndTime(signature)
  const key = `${signature.domain}; ${keySelector}; ${counts}`
  if (lastField?.key === key) return lastField
  const each = counts.split(' ').map(Number)
  const names = SIGNED_NAMES.map((name, index) => listed(name, each[index]!)).join(': ')
  const tags = ['v=1', 'a=rsa-sha256', 'c=relaxed/relaxed', `d=${signature.domain}`, 'q=dns/txt', `s=${keySelector}`]
  const hashes = [`bh=${NO_HASH}`, `h=${names}`]
  const field = `${foldLines(`DKIM-Signature: ${[...tags, ...hashes].join('; ')}`, 76)};\r\n b=`
  const [before = '', after = ''] = field.split(NO_HASH)
  const canonical = `dkim-signature:${relaxedValue(field.slice(field.indexOf(':') + 1))}`
  const [canonicalBefore = '', canonicalAfter = ''] = canonical.split(NO_HASH)
  lastField = { key, before, after, canonicalBefore, canonicalAfter }
  return lastField
}

const [TAB, LF, CR, SPACE] = [9, 10, 13, 32]
/** Space for the line ends and the space before the first byte of a step. */
const RESERVE = 16

/**
 * The SHA-256 in base64 of a body of printable ASCII in lines that end with CRLF, without tabs, runs of spaces and
 * spaces before line ends. Undefined for any other body, and for a blank one.
 */
export function hashOfCanonical(body: Buffer): string | undefined {
  if (scan(body) !== 0) return undefined
  let end = body.length
  // Empty lines at the end are ignored. A last line without CRLF gets one.
  while (end >= 4 && body[end - 1] === LF && body[end - 3] === LF) end -= 2
  if (end < 3 || body[end - 1] !== LF || body[end - 2] !== CR) return undefined
  return hash('sha256', body.subarray(0, end), 'base64')
}

/**
 * The hash of the relaxed body (RFC 6376 §3.4.4) in base64. Each byte is looked at once: the canonical form is written
 * a step at a time. `plain`: throws for anything but visible ASCII.
 */
function hashOfBody(body: Buffer, plain: boolean): string {
  const canonical = hashOfCanonical(body)
  if (canonical !== undefined) return canonical
  const digest = createHash('sha256')
  const output = Buffer.allocUnsafe(Math.min(body.length, STEP) + RESERVE)
  const most = plain ? 126 : 255
  let visible = false
  let space = false
  // Pending line ends: empty lines count only if another line follows.
  let ends = 0
  for (let from = 0; from < body.length; from += STEP) {
    const to = Math.min(from + STEP, body.length)
    let end = 0
    for (let at = from; at < to; at++) {
      const byte = body[at]!
      if (byte <= SPACE || byte > most) {
        if (byte === SPACE || byte === TAB) {
          space = true
          continue
        }
        if (byte === CR && body[at + 1] === LF) continue
        if (byte === LF && body[at - 1] === CR) {
          ends++
          // White space at the end of a line is ignored.
          space = false
          continue
        }
        if (plain || byte === CR || byte === LF) throw notSignable()
      }
      if (ends > 2) {
        digest.update(output.subarray(0, end)).update('\r\n'.repeat(ends))
        end = ends = 0
      }
      for (; ends > 0; ends--) {
        output[end++] = CR
        output[end++] = LF
      }
      if (space) {
        output[end++] = SPACE
        space = false
      }
      output[end++] = byte
      visible = true
    }
    digest.update(output.subarray(0, end))
  }
  if (!visible && plain) throw notSignable()
  // A body that has only empty lines counts as empty.
  return (visible ? digest.update('\r\n') : digest).digest('base64')
}
