// The mail of a campaign: compiled once, filled for each recipient. Literal text is encoded at compile time; for each
// mail only values, links and addresses are encoded and inserted. Every encoded piece ends with a line break, a soft
// one where the text has none (RFC 2045 §6.7), so that pieces can be joined without counting columns.
import { withoutLineEnds } from '../base/clean-text.ts'
import type { Address } from './address.ts'
import { isBlank, rfc5322Date, textFor } from './compose.ts'
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

/** A piece of a body: encoded text, a merge tag, a link to fill (tracked or not), the tracking pixel. */
type BodyPiece = string | Tag | { link: Piece[]; tracked: boolean } | { pixel: true }

export interface CompiledCampaign {
  template: CampaignTemplate
  subject: Piece[]
  head: string
  /** Null: the mail has only the text. */
  html: BodyPiece[] | null
  text: BodyPiece[]
}

const lines = (text: string): string => text.replace(/\r\n?|\n/g, '\r\n')
const SOFT = '=\r\n'
const encoded = (text: string): string => encodePiece(lines(text))

/** Compiles a template: cuts subject and bodies at their merge tags and encodes the literal text. */
export function compileCampaign(template: CampaignTemplate): CompiledCampaign {
  const { extra, from, html, replyTo, subject, text, tracking } = template
  return {
    template,
    subject: cutTemplate(subject),
    head:
      addressField('From', [from]) +
      (replyTo.length > 0 ? addressField('Reply-To', replyTo) : '') +
      'MIME-Version: 1.0\r\n' +
      extra.map(([name, value]) => headerField(name, value)).join(''),
    html: isBlank(html) ? null : encodePieces(htmlPieces(html, tracking)),
    text: encodePieces(cutTemplate(textFor(html, text))),
  }
}

const encodePieces = (pieces: BodyPiece[]): BodyPiece[] =>
  pieces.map((piece) => (typeof piece === 'string' ? encoded(piece) : piece))

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

/** The message for one recipient (RFC 5322), unsigned: ASCII, CRLF line ends. */
export function fillCampaign(compiled: CompiledCampaign, recipient: CampaignRecipient): string {
  const { date, extra, messageId, to, values } = recipient
  const { head, html, subject, template, text } = compiled
  const boundary = `=_alt_${template.seed}`
  const plain = part(
    'plain',
    fillBody(compiled, text, recipient, (value) => value),
  )
  return (
    addressField('To', [to]) +
    unstructured('Subject', fill(subject, values, withoutLineEnds)) +
    headerField('Message-ID', messageId) +
    `Date: ${rfc5322Date(date)}\r\n` +
    extra.map(([name, value]) => headerField(name, value)).join('') +
    head +
    (html === null
      ? plain
      : `Content-Type: multipart/alternative;\r\n boundary="${boundary}"\r\n\r\n--${boundary}\r\n${plain}` +
        `--${boundary}\r\n${part('html', fillBody(compiled, html, recipient, escapeHtml))}--${boundary}--\r\n`)
  )
}

const part = (subtype: string, body: string): string =>
  `Content-Type: text/${subtype}; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n${body === '' ? SOFT : body}\r\n`

function fillBody(
  { template: { tracking } }: CompiledCampaign,
  pieces: BodyPiece[],
  { delivery, values }: CampaignRecipient,
  form: (value: string) => string,
): string {
  let body = ''
  for (const piece of pieces) {
    if (typeof piece === 'string') body += piece
    else if ('tag' in piece) body += encoded(valueOf(values, piece, form))
    else if ('pixel' in piece) body += encoded(pixelOf(tracking!, delivery))
    else {
      const url = fill(piece.link, values)
      // The filled target may not be a web address; it may even be a script URL from a field of the contact.
      const web = piece.tracked && URL.canParse(url) && /^https?:/i.test(url)
      const target = web ? trackedUrl(tracking!, delivery, url) : isHarmless(url) ? url : ''
      body += encoded(`"${escapeHtml(target)}"`)
    }
  }
  return body
}
