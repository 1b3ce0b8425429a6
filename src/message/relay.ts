// Prepares a mail from SMTP submission for sending: its octets as they arrived, with tracking where the mail allows it,
// and signed.
import { withAsciiHeader } from './ascii-header.ts'
import { stuffDots } from './compose.ts'
import { signRelayed, type Signature } from './dkim.ts'
import { headerField } from './headers.ts'
import { MalformedMessage, parseTree, partsOf, type MimePart } from './mime-tree.ts'
import { MAX_PLAIN_LINE } from './octets.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'
import { inSevenBits, SEALED, type Fixed } from './reencode.ts'
import { track, type Tracking } from './tracking.ts'

export interface RelayChanges {
  tracking: Tracking | null
  /** Fields of this server, put in front. */
  extra: readonly (readonly [name: string, value: string])[]
  /** For a server without 8BITMIME (RFC 6152). */
  sevenBit: boolean
  /** For a server without SMTPUTF8 (RFC 6531). */
  asciiHeader: boolean
}

/** The message with what this server adds, not signed; or why the mail has no form that the server accepts. */
export function withChanges(message: Buffer, { asciiHeader, extra, sevenBit, tracking }: RelayChanges): Buffer | Fixed {
  const tracked = tracking ? trackMessage(message, tracking) : message
  const plain = asciiHeader ? withAsciiHeader(tracked) : tracked
  if (!plain) return 'fields'
  const narrow = sevenBit ? inSevenBits(plain) : plain
  if (typeof narrow === 'string') return narrow
  const fields = extra.map(([name, value]) => headerField(name, value)).join('')
  return fields === '' ? narrow : Buffer.concat([Buffer.from(fields), narrow])
}

/** The octets that follow DATA, final dot included; or why the mail has no form that the server accepts. */
export function relayed(message: Buffer, changes: RelayChanges, signature: Signature): Uint8Array<ArrayBuffer> | Fixed {
  const whole = withChanges(message, changes)
  if (typeof whole === 'string') return whole
  const field = Buffer.from(signRelayed(whole, signature))
  const dots = whole.includes('\r\n.') || whole[0] === DOT
  const text = dots ? Buffer.from(stuffDots(whole.toString('latin1')), 'latin1') : whole
  // A buffer of its own, because it is transferred to another thread.
  const wire = new Uint8Array(field.length + text.length + END.length)
  wire.set(field)
  wire.set(text, field.length)
  wire.set(END, field.length + text.length)
  return wire
}

const DOT = 0x2e
const END = Buffer.from('.\r\n')

/** The message with tracking in its html parts; a part in which tracking is impossible stays as it is. */
function trackMessage(message: Buffer, tracking: Tracking): Buffer {
  const pages = pagesOf(message)
  const pieces: Buffer[] = []
  let done = 0
  for (const page of pages) {
    const text = trackPage(message, page, tracking)
    if (text === undefined) continue
    pieces.push(message.subarray(done, page.start), text)
    done = page.end
  }
  return done === 0 ? message : Buffer.concat([...pieces, message.subarray(done)])
}

function pagesOf(message: Buffer): MimePart[] {
  let tree: MimePart
  try {
    tree = parseTree(message)
  } catch (thrown) {
    if (thrown instanceof MalformedMessage) return []
    throw thrown
  }
  const parts = partsOf(tree)
  if (parts.some(({ type }) => SEALED.test(type))) return []
  return parts.filter((part) => part.type === 'text/html' && !isAttachment(part) && readsAsAscii(part))
}

const isAttachment = ({ fields }: MimePart): boolean =>
  fields.some(({ name, value }) => /^content-disposition$/i.test(name) && /^\s*attachment\b/i.test(value))

/** Whether its charset writes markup as ASCII. */
const readsAsAscii = ({ params }: MimePart): boolean =>
  !/^(?:utf-?(?:7|16|32)|iso-2022|ucs)/i.test(params.get('charset') ?? '')

/** A page's body with tracking, in its transfer encoding; undefined when that is impossible. */
function trackPage(message: Buffer, { encoding, end, start }: MimePart, tracking: Tracking): Buffer | undefined {
  // The last line end must stay: the final dot follows it.
  const whole = message.toString('latin1', start, end)
  const last = whole.endsWith('\r\n') ? '\r\n' : ''
  const raw = whole.slice(0, whole.length - last.length)
  const text = trackBody(raw, encoding, tracking)
  return text === undefined ? undefined : Buffer.from(text + last, 'latin1')
}

/** The same for a body as latin1 characters. */
function trackBody(raw: string, encoding: string, tracking: Tracking): string | undefined {
  switch (encoding) {
    case 'base64': {
      const page = track(Buffer.from(raw, 'base64').toString('latin1'), tracking)
      return Buffer.from(page, 'latin1')
        .toString('base64')
        .replace(/.{76}(?!$)/g, '$&\r\n')
    }
    case 'quoted-printable':
      return encodeQuotedPrintable(track(decodeQuotedPrintable(raw), tracking), 'latin1')
    case '7bit':
    case '8bit':
    case 'binary': {
      const text = track(raw, tracking)
      return text.split('\r\n').some((line) => line.length > MAX_PLAIN_LINE) ? undefined : text
    }
    default:
      return undefined
  }
}

const decodeQuotedPrintable = (text: string): string =>
  text
    .replace(/(?<![ \t])[ \t]+(?=\r?\n)/g, '')
    .replace(/=\r?\n/g, '')
    .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16)))
