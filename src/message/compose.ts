// Composes a mail as it goes on the wire (RFC 5322, RFC 2045 to 2047): 7-bit clean, CRLF line ends, no line over 998 octets,
// exactly one of each required field. What it makes is within the bounds of the DKIM signer (message/dkim.ts).
import type { Address } from './address.ts'
import { addressField, headerField, unstructured } from './headers.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'

export interface Mail {
  from: Address
  to: readonly Address[]
  replyTo: readonly Address[]
  subject: string
  html: string
  text: string | null
  /** With angle brackets. */
  messageId: string
  date: number
  /** Fields of ours, put after the standard ones: name and value. */
  extra: readonly (readonly [name: string, value: string])[]
}

const MAX_PLAIN_LINE = 998

/** The whole message; ASCII unless an address is not. */
export function compose(mail: Mail): string {
  return (
    addressField('From', [mail.from]) +
    addressField('To', mail.to) +
    (mail.replyTo.length > 0 ? addressField('Reply-To', mail.replyTo) : '') +
    unstructured('Subject', mail.subject) +
    headerField('Message-ID', mail.messageId) +
    headerField('Date', rfc5322Date(mail.date)) +
    'MIME-Version: 1.0\r\n' +
    mail.extra.map(([name, value]) => headerField(name, value)).join('') +
    body(mail)
  )
}

function body({ html, text, messageId }: Mail): string {
  if (text === null) return textPart('html', html)
  // The message id is unique and holds no "=_", which quoted-printable cannot hold either.
  const boundary = `=_${messageId.replace(/[^A-Za-z0-9]/g, '').slice(0, 40)}`
  return (
    `Content-Type: multipart/alternative;\r\n boundary="${boundary}"\r\n\r\n` +
    `--${boundary}\r\n${textPart('plain', text)}--${boundary}\r\n${textPart('html', html)}--${boundary}--\r\n`
  )
}

/** A text part with its header, in the plainest encoding that carries it unharmed. Ends with CRLF. */
function textPart(subtype: 'plain' | 'html', content: string): string {
  const lines = content.replace(/\r\n?|\n/g, '\r\n')
  const whole = lines.endsWith('\r\n') ? lines : `${lines}\r\n`
  const plain = isPlain(whole)
  const encoded = plain ? whole : encodeQuotedPrintable(whole)
  return (
    `Content-Type: text/${subtype}; charset=utf-8\r\n` +
    `Content-Transfer-Encoding: ${plain ? '7bit' : 'quoted-printable'}\r\n\r\n` +
    // A body without a visible character is where signers and verifiers disagree; a soft line break is visible.
    (/\S/.test(encoded) ? encoded : '=\r\n'.repeat(plain ? 0 : 1) + encoded)
  )
}

/** True when text may go as it is: printable ASCII, short lines, no line that software on the way would change. */
function isPlain(text: string): boolean {
  if (/[^\t\r\n\x20-\x7e]/.test(text) || /^From /m.test(text) || !/\S/.test(text)) return false
  let start = 0
  for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n', start)) {
    if (end - start > MAX_PLAIN_LINE) return false
    start = end + 2
  }
  return true
}

const DAYS = ['Sun', 'Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat']
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']
const two = (number: number): string => String(number).padStart(2, '0')

/** `Fri, 20 Nov 2026 16:53:57 +0000` (RFC 5322 §3.3). */
export function rfc5322Date(time: number): string {
  const date = new Date(time)
  const clock = [date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()].map(two).join(':')
  return `${DAYS[date.getUTCDay()]}, ${date.getUTCDate()} ${MONTHS[date.getUTCMonth()]} ${date.getUTCFullYear()} ${clock} +0000`
}

/** The message as DATA carries it (RFC 5321 §4.5.2): dots at line starts doubled, the final dot at its end. */
export function toWire(message: string): Buffer {
  const stuffed = message.includes('\r\n.') ? message.replaceAll('\r\n.', '\r\n..') : message
  return Buffer.from(`${stuffed}.\r\n`, 'utf8')
}
