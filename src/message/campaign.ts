// The mail of a campaign: compiled once, filled and signed for each recipient (D129). What is the same in all mails is
// encoded at compile time, and brought into the canonical form that DKIM hashes; for each mail only values, links and
// addresses are. Every encoded piece is whole lines: it ends with a line break, a soft one where the text has none (RFC
// 2045 §6.7). So pieces can be joined without counting columns, and the canonical form of a body is that of its pieces,
// one after the other (RFC 6376 §3.4.4 changes white space within lines only, apart from empty lines at the end).
// No line of a body begins with a dot, because the encoding of a piece allows none.
import { hash } from 'node:crypto'
import { withoutLineEnds } from '../base/clean-text.ts'
import { must } from '../base/errors.ts'
import type { Address } from './address.ts'
import { isBlank, rfc5322Date, stuffDots, textFor } from './compose.ts'
import { relaxedLines, signedFieldsOf, signFields, type Signature, type SignedFields } from './dkim.ts'
import { addressField, headerField, unstructured } from './headers.ts'
import { encodePiece } from './quoted-printable.ts'
import {
  cutTemplate,
  escapeHtml,
  fill,
  placesOfTags,
  valueOf,
  type Piece,
  type Tag,
  type TemplateValues,
} from './template.ts'
import { endOfBody, isHarmless, pixelOf, readTargets, trackedUrl } from './tracking.ts'

/** The parts that all mails of a campaign share. */
export interface CampaignTemplate {
  /** Identifies the compiled form. */
  id: string
  from: Address
  replyTo: Address[]
  subject: string
  html: string
  text: string | null
  /** `Feedback-ID` and other fields that are the same in all mails. */
  extra: [name: string, value: string][]
  /** Null when neither opens nor clicks are tracked. */
  tracking: { base: string; key: string; opens: boolean; clicks: boolean } | null
  /** The MIME boundary is made from it; letters and digits. */
  seed: string
}

/** The parts that only one recipient's mail has. */
export interface CampaignRecipient {
  to: Address
  messageId: string
  date: number
  delivery: number
  values: TemplateValues
  /** Fields that only this mail has: List-Unsubscribe, CFBL-Address. */
  extra: [name: string, value: string][]
}

/** A piece of the html or the text: literal text, a merge tag, a link to fill (tracked or not), the tracking pixel. */
type BodyPiece = string | Tag | { link: Piece[]; tracked: boolean } | { pixel: true }

/** Lines as they are sent, and in the relaxed form of DKIM; often the same octets. */
interface Lines<Octets = string> {
  wire: Octets
  canonical: Octets
}

/** Lines that are the same in all mails. */
type Segment = Lines<Buffer>

/** Encoded lines that only one recipient's mail has. Equal places of a template have the same one: it is made once. */
type Insert = (recipient: CampaignRecipient) => string

export interface CompiledCampaign {
  subject: Piece[]
  /** The fields that are the same in all mails, with the empty line that ends the header. */
  head: string
  headFields: SignedFields
  body: (Segment | Insert)[]
  inserts: readonly Insert[]
}

/** A mail to sign; all text is octets as latin1 characters. */
export interface FilledCampaign {
  header: string
  fields: readonly SignedFields[]
  body: (Buffer | string)[]
  /** The body in the relaxed form of DKIM, apart from empty lines at its end; undefined when it is the same. */
  canonical: (Buffer | string)[] | undefined
}

const lines = (text: string): string => text.replace(/\r\n?|\n/g, '\r\n')
const SOFT = '=\r\n'
const [LF, CR] = [10, 13]
const encoded = (text: string): string => encodePiece(lines(text))

/** Compiles a template: cuts subject and bodies at their merge tags, and encodes what is the same in all mails. */
export function compileCampaign(template: CampaignTemplate): CompiledCampaign {
  const { extra, from, html, replyTo, seed, subject, text, tracking } = template
  const boundary = `=_alt_${seed}`
  const plain = insertsOf(cutTemplate(textFor(html, text)), tracking, (value) => value)
  const [type, body] = isBlank(html)
    ? [partHeader('plain'), [...plain, '\r\n']]
    : [
        `Content-Type: multipart/alternative;\r\n boundary="${boundary}"\r\n`,
        [
          `--${boundary}\r\n${partHeader('plain')}\r\n`,
          ...plain,
          `\r\n--${boundary}\r\n${partHeader('html')}\r\n`,
          ...insertsOf(htmlPieces(html, tracking), tracking, escapeHtml),
          `\r\n--${boundary}--\r\n`,
        ],
      ]
  const head = octets(
    addressField('From', [from]) +
      (replyTo.length > 0 ? addressField('Reply-To', replyTo) : '') +
      'MIME-Version: 1.0\r\n' +
      extra.map(([name, value]) => headerField(name, value)).join('') +
      type,
  )
  return {
    subject: cutTemplate(subject),
    head: `${stuffDots(head)}\r\n`,
    headFields: signedFieldsOf(head),
    body: joined(body),
    inserts: [...new Set(body.filter((piece) => typeof piece === 'function'))],
  }
}

/** Text as its octets in UTF-8, in latin1 characters; only an address may be other than ASCII. */
const octets = (text: string): string =>
  Buffer.byteLength(text) === text.length ? text : Buffer.from(text).toString('latin1')

const partHeader = (subtype: string): string =>
  `Content-Type: text/${subtype}; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n`

/** Encodes the literal text of a body, and makes each other piece a function of the recipient. */
function insertsOf(
  pieces: BodyPiece[],
  tracking: CampaignTemplate['tracking'],
  form: (value: string) => string,
): (string | Insert)[] {
  const known = new Map<string, Insert>()
  const insert = (piece: Exclude<BodyPiece, string>): Insert => {
    const name = JSON.stringify(piece)
    const found = known.get(name) ?? insertOf(piece, tracking, form)
    known.set(name, found)
    return found
  }
  const made = pieces.map((piece) => (typeof piece === 'string' ? encoded(piece) : insert(piece)))
  // A body of tags without any value, or of nothing, has one soft line break.
  if (pieces.some((piece) => typeof piece === 'string' || !('tag' in piece))) return made
  return [(recipient) => made.map((each) => (typeof each === 'string' ? each : each(recipient))).join('') || SOFT]
}

function insertOf(
  piece: Exclude<BodyPiece, string>,
  tracking: CampaignTemplate['tracking'],
  form: (value: string) => string,
): Insert {
  if ('tag' in piece) return ({ values }) => encoded(valueOf(values, piece, form))
  if ('pixel' in piece) return ({ delivery }) => encoded(pixelOf(must(tracking, 'Tracking'), delivery))
  const { link, tracked } = piece
  return ({ delivery, values }) => {
    const url = fill(link, values)
    // The filled target may not be a web address; it may even be a script URL from a field of the contact.
    const web = tracked && tracking !== null && /^https?:/i.test(url) && URL.canParse(url)
    const target = web ? trackedUrl(tracking, delivery, url) : isHarmless(url) ? url : ''
    return encoded(`"${escapeHtml(target)}"`)
  }
}

/** Joins neighbouring lines that are the same in all mails. */
function joined(pieces: (string | Insert)[]): (Segment | Insert)[] {
  const body: (Segment | Insert)[] = []
  let text = ''
  const end = (): void => {
    const wire = Buffer.from(text, 'latin1')
    const canonical = relaxedLines(text)
    if (text !== '') body.push({ wire, canonical: canonical === text ? wire : Buffer.from(canonical, 'latin1') })
    text = ''
  }
  for (const piece of pieces)
    if (typeof piece === 'string') text += piece
    else {
      end()
      body.push(piece)
    }
  end()
  return body
}

/** Cuts the html at its merge tags, at the links to track, and at the place of the pixel. */
function htmlPieces(html: string, tracking: CampaignTemplate['tracking']): BodyPiece[] {
  const pieces: BodyPiece[] = []
  let done = 0
  const tags = placesOfTags(html)
  let tag = 0
  for (const { end, start, trackable, url } of readTargets(html)) {
    // A merge tag is never cut in two:
    // a link inside a tag's name is not a link, and a link that ends inside a tag has no known address.
    while ((tags[tag]?.end ?? Infinity) <= start) tag++
    const over = (tags[tag]?.start ?? end) < start
    const first = tag
    while ((tags[tag]?.end ?? Infinity) <= end) tag++
    if (over || (tags[tag]?.start ?? end) < end) continue
    // An unsubscribe link is never tracked.
    const leaves = /\{\{\s*unsubscribe_(?:url|mailto)\s*\}\}/.test(url)
    const tracked = tracking?.clicks === true && trackable && !leaves
    // Without tags and tracking, the sender's link stays as it is.
    if (!tracked && tag === first) continue
    pieces.push(...cutTemplate(html.slice(done, start)), { link: cutTemplate(url), tracked })
    done = end
  }
  const rest = html.slice(done)
  if (!tracking?.opens) return [...pieces, ...cutTemplate(rest)]
  const at = endOfBody(rest)
  return [...pieces, ...cutTemplate(rest.slice(0, at)), { pixel: true }, ...cutTemplate(rest.slice(at))]
}

/** The mail of one recipient (RFC 5322), to be signed by `signCampaign`. */
export function fillCampaign(compiled: CompiledCampaign, recipient: CampaignRecipient): FilledCampaign {
  const { date, extra, messageId, to, values } = recipient
  const own = octets(
    addressField('To', [to]) +
      unstructured('Subject', fill(compiled.subject, values, withoutLineEnds)) +
      headerField('Message-ID', messageId) +
      `Date: ${rfc5322Date(date)}\r\n` +
      extra.map(([name, value]) => headerField(name, value)).join(''),
  )
  const made = new Map<Insert, Lines>()
  for (const insert of compiled.inserts) {
    const wire = insert(recipient)
    made.set(insert, { wire, canonical: relaxedLines(wire) })
  }
  const body: (Buffer | string)[] = []
  const canonical: (Buffer | string)[] = []
  let same = true
  for (const piece of compiled.body) {
    const lines = typeof piece === 'function' ? must(made.get(piece), 'The lines of an insert') : piece
    same &&= lines.canonical === lines.wire
    body.push(lines.wire)
    canonical.push(lines.canonical)
  }
  return {
    header: stuffDots(own) + compiled.head,
    fields: [signedFieldsOf(own), compiled.headFields],
    body,
    canonical: same ? undefined : canonical,
  }
}

/** Octets reserved in front of a mail for its DKIM-Signature field, which is computed last. */
const HEADROOM = 2560
const END = '.\r\n'

/** The octets that follow DATA, final dot included: the signed mail in one buffer, which `room` gives. */
export function signCampaign(
  mail: FilledCampaign,
  signature: Signature,
  room = (octets: number): Buffer<ArrayBuffer> => Buffer.allocUnsafeSlow(octets),
): Uint8Array<ArrayBuffer> {
  const { body, canonical, fields, header } = mail
  const start = HEADROOM + header.length
  const buffer = room(start + sizeOf(body) + END.length)
  buffer.write(header, HEADROOM, 'latin1')
  const end = put(buffer, start, body)
  buffer.write(END, end, 'latin1')
  const relaxed = canonical ? Buffer.allocUnsafe(sizeOf(canonical)) : buffer.subarray(start, end)
  if (canonical) put(relaxed, 0, canonical)
  const field = signFields(fields, hash('sha256', withoutEmptyEnd(relaxed), 'base64'), signature)
  const from = HEADROOM - field.length
  if (from < 0) throw new Error('The signature of a campaign is longer than the room for it.')
  buffer.write(field, from, 'latin1')
  return new Uint8Array(buffer.buffer, from, end + END.length - from)
}

const sizeOf = (pieces: readonly (Buffer | string)[]): number => pieces.reduce((sum, { length }) => sum + length, 0)

/** Writes pieces one after the other; returns where they end. */
function put(buffer: Buffer, start: number, pieces: readonly (Buffer | string)[]): number {
  let at = start
  for (const piece of pieces) {
    if (typeof piece === 'string') buffer.write(piece, at, 'latin1')
    else buffer.set(piece, at)
    at += piece.length
  }
  return at
}

/** Lines without the empty ones at their end; a body that has only empty lines counts as empty (RFC 6376 §3.4.4). */
function withoutEmptyEnd(lines: Buffer): Buffer {
  let end = lines.length
  while (end >= 2 && lines[end - 1] === LF && lines[end - 2] === CR) end -= 2
  return lines.subarray(0, end === 0 ? 0 : end + 2)
}
