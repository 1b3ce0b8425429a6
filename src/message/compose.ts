// Composes an email for the wire (RFC 5322, RFC 2045 to 2047): 7-bit clean, CRLF line ends, no line over 998 bytes,
// exactly one of each required field. The result is within the limits of the DKIM signer (message/dkim.ts).
import { compile } from 'html-to-text'
import type { Address } from './address.ts'
import { addressField, headerField, unstructured } from './headers.ts'
import { attachmentPart, multipart, textPart, type Attachment, type Part } from './mime.ts'
import { MAX_CONVERTED } from './size.ts'
import { asBrowserReads, track, type Tracking } from './tracking.ts'
import { isBeyondBounds } from './html-bounds.ts'

export interface Mail {
  from: Address
  to: readonly Address[]
  cc: readonly Address[]
  replyTo: readonly Address[]
  subject: string
  html: string
  /** Null: the text is made from the html. */
  text: string | null
  attachments: readonly (Attachment & { bytes: () => Buffer })[]
  /** The Message-ID with angle brackets. */
  messageId: string
  date: number
  /** Fields of the sender and of this server, after the standard ones: name and value. */
  extra: readonly (readonly [name: string, value: string])[]
  tracking: Tracking | null
}

/** The whole message in pieces, each ending with CRLF. ASCII, unless an address is not. */
export function* compose(mail: Mail): Iterable<string> {
  const root = structure(mail)
  yield (
    addressField('From', [mail.from]) +
    addressField('To', mail.to) +
    (mail.cc.length > 0 ? addressField('Cc', mail.cc) : '') +
    (mail.replyTo.length > 0 ? addressField('Reply-To', mail.replyTo) : '') +
    unstructured('Subject', mail.subject) +
    headerField('Message-ID', mail.messageId) +
    headerField('Date', rfc5322Date(mail.date)) +
    'MIME-Version: 1.0\r\n' +
    mail.extra.map(([name, value]) => headerField(name, value)).join('') +
    root.header +
    '\r\n'
  )
  yield* root.body()
}

/** Whether a body is blank: mail clients would show an empty page instead of the other body. */
export const isBlank = (body: string): boolean => !/\S/.test(body)

/** The plain text of an email: its own, or generated from the html if it is missing or blank. */
export const textFor = (html: string, text: string | null): string =>
  text === null || isBlank(text) ? plainText(html) : text

/**
 * mixed( alternative( text, related( html, inline files ) ), other files ). A level with only one part is omitted, and
 * so is a blank html part.
 */
function structure({ attachments, html, messageId, text, tracking }: Mail): Part {
  const seed = messageId.replace(/[^A-Za-z0-9]/g, '').slice(0, 32)
  const plain = textPart('plain', textFor(html, text))
  if (isBlank(html))
    return multipart('mixed', seed, [plain, ...attachments.map((each) => attachmentPart(each, each.bytes))])
  const shown = attachments.filter(({ contentId, disposition }) => contentId !== null && disposition === 'inline')
  const attached = attachments.filter((attachment) => !shown.includes(attachment))
  const part = (attachment: Mail['attachments'][number]): Part => attachmentPart(attachment, attachment.bytes)
  const page = textPart('html', tracking ? track(html, tracking) : html)
  const related = multipart('related', seed, [page, ...shown.map(part)])
  const alternative = multipart('alternative', seed, [plain, related])
  return multipart('mixed', seed, [alternative, ...attached.map(part)])
}

/**
 * A link as the text part shows it: as a browser reads it, with blanks inside percent-encoded, so that mail clients
 * find its end. The library drops "mailto:", and without it an address with a subject is no longer a link.
 */
function linkInText(path: string, _: unknown, { attribs }: { attribs?: { href?: string } }): string {
  const href = asBrowserReads(attribs?.href ?? path)
  const shown = /^mailto:[^?]*$/i.test(href) ? href.slice('mailto:'.length) : href
  return shown.replace(TAG_OR_BLANK, (each) => (each.startsWith('{') ? each : '%20'))
}
const TAG_OR_BLANK = /\{\{[^{}]{1,400}\}\}| /g

// Compiled once: the library would read its options again for every page.
const toText = compile({
  wordwrap: 76,
  formatters: {
    cell(element, walk, builder) {
      if ('prev' in element && element.prev) builder.addInline(' ')
      walk(element.children, builder)
    },
  },
  selectors: [
    { selector: 'a', options: { pathRewrite: linkInText as (path: string) => string } },
    { selector: 'img', format: 'skip' },
    // The library writes all cells of a table one after the other, without a space.
    { selector: 'tr', format: 'block', options: { leadingLineBreaks: 1, trailingLineBreaks: 1 } },
    ...['td', 'th'].map((selector) => ({ selector, format: 'cell' })),
    // The preview text that inboxes show next to the subject (campaigns/body-parts.ts).
    { selector: 'div[data-preview]', format: 'skip' },
    // The library writes headings in capitals: {{NAME}} is another merge tag than {{name}}.
    ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ selector, options: { uppercase: false } })),
  ],
  limits: { maxInputLength: MAX_CONVERTED, maxDepth: 50, maxChildNodes: 10_000 },
})

/**
 * The text version of an html page, from at most MAX_CONVERTED characters. For a page with too many or too deeply
 * nested tags, it is just the text between the tags.
 */
export function plainText(html: string): string {
  const page = html.slice(0, MAX_CONVERTED)
  if (!isBeyondBounds(page)) return toText(page)
  return page
    .replace(/<[^<>]*>/g, ' ')
    .replace(/\s+/g, ' ')
    .trim()
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const two = (number: number): string => String(number).padStart(2, '0')

/** A time in ms as `Fri, 20 Nov 2026 16:53:57 +0000` (RFC 5322 §3.3). */
export function rfc5322Date(time: number): string {
  const date = new Date(time)
  const clock = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()].map(two).join(':')
  return `${DAYS[date.getUTCDay()]}, ${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()} ${clock} +0000`
}

/** Text as DATA carries it (RFC 5321 §4.5.2): a dot at a line's start is doubled. `text` must be whole lines. */
export function stuffDots(text: string): string {
  const inner = text.includes('\r\n.') ? text.replaceAll('\r\n.', '\r\n..') : text
  return inner.startsWith('.') ? `.${inner}` : inner
}
