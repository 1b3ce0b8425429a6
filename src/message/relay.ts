// Prepares a message from SMTP submission for sending: its bytes as they arrived, with tracking where the mail allows
// it, and signed.
import { stuffDots } from './compose.ts'
import { signRelayed, type Signature } from './dkim.ts'
import { headerField, encodedWords, unstructured } from './headers.ts'
import { MalformedMessage, parseTree, partsOf, type MimePart } from './mime-tree.ts'
import { MAX_PLAIN_LINE } from './bytes.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'
import { inSevenBits, SEALED, type Fixed } from './reencode.ts'
import { track, type Tracking } from './tracking.ts'
import { fromQuotedPrintable } from './transfer.ts'
import { isAscii } from 'node:buffer'
import { decoded, utf8 } from './charset.ts'

export interface RelayChanges {
  tracking: Tracking | null
  /** Fields of this server, put in front. */
  extra: readonly (readonly [name: string, value: string])[]
  /** For a server without 8BITMIME (RFC 6152). */
  sevenBit: boolean
  /** For a server without SMTPUTF8 (RFC 6531). */
  asciiHeader: boolean
}

/** The message with this server's additions, not signed, or the reason if no form of it is acceptable to the server. */
export function withChanges(message: Buffer, { asciiHeader, extra, sevenBit, tracking }: RelayChanges): Buffer | Fixed {
  const tracked = tracking ? trackMessage(message, tracking) : message
  const plain = asciiHeader ? withAsciiHeader(tracked) : tracked
  if (!plain) return 'fields'
  const narrow = sevenBit ? inSevenBits(plain) : plain
  if (typeof narrow === 'string') return narrow
  const fields = extra.map(([name, value]) => headerField(name, value)).join('')
  return fields === '' ? narrow : Buffer.concat([Buffer.from(fields), narrow])
}

/**
 * The bytes that follow DATA, final dot included, or the reason if no form of the message is acceptable to the server.
 */
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

/** The message with tracking in its html parts. A part in which tracking is impossible is not changed. */
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

/** A page's body with tracking, in its transfer encoding, or undefined if that is impossible. */
function trackPage(message: Buffer, { encoding, end, start }: MimePart, tracking: Tracking): Buffer | undefined {
  // The last line end must remain, because the final dot follows it.
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
      return encodeQuotedPrintable(
        track(fromQuotedPrintable(Buffer.from(raw, 'latin1')).toString('latin1'), tracking),
        'latin1',
      )
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

// The header of a submitted mail for a server without SMTPUTF8 (RFC 6531): raw UTF-8 in free text and in display names
// becomes encoded words (RFC 2047). Addresses and identifiers cannot be encoded like that.

const ADDRESSES =
  /^(?:(?:resent-)?(?:from|sender|to|cc|bcc|reply-to)|disposition-notification-to|return-receipt-to|errors-to|mail-followup-to|mail-reply-to)$/
/** Fields whose syntax does not allow encoded words. */
const STRUCTURED =
  /^(?:(?:resent-)?(?:message-id|date)|references|in-reply-to|received|return-path|mime-version|content-(?:type|disposition|id|transfer-encoding|location)|dkim-signature|arc-.*|authentication-results|list-(?:unsubscribe|subscribe|help|owner|archive|post)(?:-post)?|auto-submitted)$/

/** The same message with a header in ASCII, or undefined if that is impossible. */
export function withAsciiHeader(message: Buffer): Buffer | undefined {
  const end = message.indexOf('\r\n\r\n') + 2
  if (end < 2 || isAscii(message.subarray(0, end))) return message
  const fields = message.toString('latin1', 0, end).split(/(?<=\r\n)(?![ \t])/)
  const header: string[] = []
  for (const field of fields) {
    const narrow = isAscii(Buffer.from(field, 'latin1')) ? field : asciiField(field)
    if (narrow === undefined) return undefined
    header.push(narrow)
  }
  return Buffer.concat([Buffer.from(header.join(''), 'latin1'), message.subarray(end)])
}

function asciiField(field: string): string | undefined {
  const colon = field.indexOf(':')
  const name = field.slice(0, colon).trim()
  const value = field
    .slice(colon + 1)
    .replace(/\r\n/g, '')
    .trim()
  const key = name.toLowerCase()
  if (!isAscii(Buffer.from(name, 'latin1')) || STRUCTURED.test(key)) return undefined
  if (!ADDRESSES.test(key)) return unstructured(name, decoded(value))
  const addresses = asciiAddresses(utf8(value))
  return addresses === undefined ? undefined : `${name}: ${addresses}\r\n`
}

/**
 * A backslash and its next character are part of a word, so that an escaped quote begins no quoted string. Otherwise
 * the search for a missing closing quote would start again at every escaped quote.
 */
const TOKEN = /"(?:[^"\\]|\\[\s\S])*"|\((?:[^()\\]|\\[\s\S])*\)|<[^<>]*>|(?:[^\s"()<>,;:\\]|\\[\s\S])+|\s+|[\s\S]/g
// oxlint-disable-next-line no-control-regex
const WIDE = /[^\0-\x7f]/

/**
 * A list of addresses with its names and comments in encoded words (RFC 2047 §5), or undefined if an address itself is
 * not ASCII.
 */
function asciiAddresses(value: string): string | undefined {
  const tokens = value.match(TOKEN) ?? []
  let list = ''
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at]!
    if (!WIDE.test(token)) {
      list += token
      continue
    }
    if (token.startsWith('(')) {
      list += `\r\n (${encodedWords(token.slice(1, -1).replace(/\\([\s\S])/g, '$1'), 2)})`
      continue
    }
    // Clients drop white space between encoded words (RFC 2047 §6.2), so adjacent words that need encoding become one.
    let words = wordOf(token)
    while (words !== undefined && /^\s+$/.test(tokens[at + 1] ?? '')) {
      const following = tokens[at + 2] ?? ''
      if (!WIDE.test(following) || /^[<(]/.test(following)) break
      const next = wordOf(following)
      words = next === undefined ? undefined : `${words} ${next}`
      at += 2
    }
    if (words === undefined || tokens[at + 1]?.startsWith('@')) return undefined
    list += `\r\n ${encodedWords(words, 1)} `
  }
  return list.trim()
}

/** A word of a display name, or undefined for an address, and for a character that a display name cannot have. */
function wordOf(token: string): string | undefined {
  if (token.startsWith('"') && token.length > 1) return token.slice(1, -1).replace(/\\([\s\S])/g, '$1')
  return /[<@]/.test(token) ? undefined : token
}
