// The emails of a campaign: compiled once, then filled and signed for each recipient (D129). The common parts are
// encoded at compile time, also in the canonical form that DKIM hashes. Only values, links and addresses are encoded
// per email. Every encoded piece consists of whole lines: it ends with a line break, a soft one if the text has none
// (RFC 2045 §6.7). So pieces can be joined without counting columns, and the canonical form of a body is that of its
// pieces, one after the other (RFC 6376 §3.4.4 changes white space within lines only, apart from empty lines at the
// end). Lines of a body never begin with a dot, because the encoding of a piece avoids it.
import { hash } from 'node:crypto'
import { withoutLineEnds } from '../base/clean-text.ts'
import { must } from '../base/errors.ts'
import type { Address } from './address.ts'
import { cutHtml, plainTags } from './html-tags.ts'
import { endOfBody } from './html-tokens.ts'
import { isBlank, rfc5322Date, stuffDots, textFor } from './compose.ts'
import { relaxedLines, signedFieldsOf, signFields, type Signature, type SignedFields } from './dkim.ts'
import { withFooter } from './footer.ts'
import { addressField, headerField, unstructured } from './headers.ts'
import { encodePiece } from './quoted-printable.ts'
import {
  cutTemplate,
  escapeHtml,
  fill,
  placesOfTags,
  tagsOf,
  valueOf,
  type Piece,
  type Tag,
  type TemplateValues,
} from './template.ts'
import { MAX_LINK, MAX_MESSAGE, MAX_SUBJECT, TooLarge } from './too-large.ts'
import { isHarmless, pixelOf, readTargets, trackedUrl } from './tracking.ts'

/** The parts that all emails of a campaign share. */
export interface CampaignTemplate {
  /** Identifies the compiled form. */
  id: string
  from: Address
  replyTo: Address[]
  subject: string
  html: string
  text: string | null
  /** A footer is added to a text without a way to unsubscribe: with a working link, or as words only. */
  footer?: 'link' | 'words'
  /** `Feedback-ID` and other fields that are the same in all emails. */
  extra: [name: string, value: string][]
  /** Null when neither opens nor clicks are tracked. */
  tracking: { base: string; key: string; opens: boolean; clicks: boolean } | null
  /** Letters and digits for the MIME boundary. */
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

/** Lines as they are sent, and in the relaxed form of DKIM, which often has the same bytes. */
interface Lines<Octets = string> {
  wire: Octets
  canonical: Octets
}

/** Lines that are the same in all emails. */
type Segment = Lines<Buffer>

/** Encoded lines of only one recipient's email. Equal tags of a template share one, which is encoded once. */
type Insert = (recipient: CampaignRecipient) => string

export interface CompiledCampaign {
  subject: Piece[]
  /** The fields that are the same in all emails, with the empty line that ends the header. */
  head: string
  headFields: SignedFields
  body: (Segment | Insert)[]
  inserts: readonly Insert[]
}

/** An email to sign. All text is bytes as latin1 characters. */
export interface FilledCampaign {
  header: string
  fields: readonly SignedFields[]
  body: (Buffer | string)[]
  /** The body in the relaxed form of DKIM, apart from empty lines at its end, or undefined if it is the same. */
  canonical: (Buffer | string)[] | undefined
}

const lines = (text: string): string => text.replace(/\r\n?|\n/g, '\r\n')
const SOFT = '=\r\n'
const [LF, CR] = [10, 13]
const encoded = (text: string): string => encodePiece(lines(text))

/** Compiles a template: cuts subject and bodies at their merge tags, and encodes the common parts. */
export function compileCampaign(template: CampaignTemplate): CompiledCampaign {
  const { extra, footer, from, replyTo, seed, subject, tracking } = template
  const { html: written, text } = footer ? withFooter(template, footer === 'link') : template
  const html = plainTags(written)
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
  const head = utf8AsLatin1(
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

/** Text as its bytes in UTF-8, in latin1 characters. Only an address may be other than ASCII. */
const utf8AsLatin1 = (text: string): string =>
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
  // An empty body, or one of tags without values, has one soft line break.
  if (pieces.some((piece) => typeof piece === 'string' || !('tag' in piece))) return made
  const values = [...known.values()]
  return [...made, (recipient) => (values.some((each) => each(recipient) !== '') ? '' : SOFT)]
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
    const url = fill(link, values, undefined, MAX_LINK)
    // The filled target may not be a web address. It may even be a script URL from a field of the contact.
    const web = tracked && tracking !== null && /^https?:/i.test(url) && URL.canParse(url)
    const target = web ? trackedUrl(tracking, delivery, url) : isHarmless(url) ? url : ''
    return encoded(`"${escapeHtml(target)}"`)
  }
}

/** Joins neighbouring lines that are the same in all emails. */
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
  let pixel = tracking?.opens ? endOfBody(html) : Infinity
  const literal = (to: number): void => {
    if (pixel <= to) {
      const at = Math.max(pixel, done)
      pieces.push(...cutHtml(html.slice(done, at)), { pixel: true })
      done = at
      pixel = Infinity
    }
    pieces.push(...cutHtml(html.slice(done, to)))
  }
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
    const link = cutHtml(url)
    // An unsubscribe link is never tracked.
    const leaves = tagsOf(link).some((name) => /^unsubscribe_(?:url|mailto)$/.test(name))
    const tracked = tracking?.clicks === true && trackable && !leaves
    // Without tags and tracking, the sender's link stays as it is.
    if (!tracked && tag === first) continue
    literal(start)
    pieces.push({ link, tracked })
    done = end
  }
  literal(html.length)
  return pieces
}

/**
 * The email for one recipient (RFC 5322), to be signed by `signCampaign`. Its size is the sum of its parts, and each
 * part is created once. Throws TooLarge before the whole email is in memory.
 */
export function fillCampaign(compiled: CompiledCampaign, recipient: CampaignRecipient): FilledCampaign {
  const { date, extra, messageId, to, values } = recipient
  const own = utf8AsLatin1(
    addressField('To', [to]) +
      unstructured('Subject', fill(compiled.subject, values, withoutLineEnds, MAX_SUBJECT)) +
      headerField('Message-ID', messageId) +
      `Date: ${rfc5322Date(date)}\r\n` +
      extra.map(([name, value]) => headerField(name, value)).join(''),
  )
  const made = new Map<Insert, Lines>()
  let size = own.length + compiled.head.length
  for (const insert of compiled.inserts) {
    const wire = insert(recipient)
    size += wire.length
    if (size >= MAX_MESSAGE) throw new TooLarge()
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
  if (own.length + compiled.head.length + sizeOf(body) >= MAX_MESSAGE) throw new TooLarge()
  return {
    header: stuffDots(own) + compiled.head,
    fields: [signedFieldsOf(own), compiled.headFields],
    body,
    canonical: same ? undefined : canonical,
  }
}

/** Bytes reserved in front of an email for its DKIM-Signature field, which is computed last. */
const HEADROOM = 2560
const END = '.\r\n'

/** Returns the signed email in one buffer, with the final dot of DATA. */
export function signCampaign(mail: FilledCampaign, signature: Signature): Uint8Array<ArrayBuffer> {
  const { body, canonical, fields, header } = mail
  const start = HEADROOM + header.length
  const buffer = Buffer.allocUnsafeSlow(start + sizeOf(body) + END.length)
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

export const sizeOfBody = ({ body }: FilledCampaign): number => sizeOf(body)

/** Writes pieces one after the other. Returns where they end. */
function put(buffer: Buffer, start: number, pieces: readonly (Buffer | string)[]): number {
  let at = start
  for (const piece of pieces) {
    if (typeof piece === 'string') buffer.write(piece, at, 'latin1')
    else buffer.set(piece, at)
    at += piece.length
  }
  return at
}

/** Lines without the empty ones at their end. A body that has only empty lines counts as empty (RFC 6376 §3.4.4). */
function withoutEmptyEnd(lines: Buffer): Buffer {
  let end = lines.length
  while (end >= 2 && lines[end - 1] === LF && lines[end - 2] === CR) end -= 2
  return lines.subarray(0, end === 0 ? 0 : end + 2)
}
