// Changes the transfer encoding of parts of a message (RFC 2045 §6): when lines are too long for SMTP, and when a part
// has 8-bit octets and the server takes only 7 bits. A message with a signed or encrypted part is not changed.
import { isAscii } from 'node:buffer'
import {
  fieldOf,
  fromQuotedPrintable,
  isMessage,
  MalformedMessage,
  nodesOf,
  parseTree,
  type MimePart,
} from './mime-tree.ts'
import { MAX_PLAIN_LINE } from './octets.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'

/** A signed or encrypted part must not change (RFC 1847). */
export const SEALED = /^multipart\/(?:signed|encrypted)$/

/**
 * Why a message cannot be re-encoded: a part is signed or encrypted; the message exceeds the limits; the type of a part
 * allows no encoding (RFC 2045 §6.4); the header has addresses or identifiers that are not ASCII.
 */
export type Fixed = 'signed' | 'unreadable' | 'whole' | 'fields'

/** The answer to the sender for each reason: the enhanced code (RFC 3463, RFC 6531) and a sentence. */
export const UNFIT: Readonly<Record<Fixed, readonly [enhanced: string, text: string]>> = {
  signed: ['5.6.3', 'The server takes only 7 bits, and the mail is signed with 8.'],
  unreadable: [
    '5.6.3',
    'The server takes only 7 bits, and the mail has more parts or levels than can be encoded again.',
  ],
  whole: ['5.6.3', 'The server takes only 7 bits, and a part holds 8 whose type may not be encoded (RFC 2045 §6.4).'],
  fields: [
    '5.6.9',
    'The server takes no header fields with other than ASCII characters (SMTPUTF8), and an address or identifier in one has no other form.',
  ],
}

/** A worker thread answers in octets. A mail has more than one octet, so that one octet can stand for a reason. */
const REASONS = ['signed', 'unreadable', 'whole', 'fields'] as const satisfies readonly Fixed[]
/** The octet that stands for a reason. */
export const octetOf = (reason: Fixed): Uint8Array<ArrayBuffer> => new Uint8Array([REASONS.indexOf(reason)])
/** The reason that an octet stands for; undefined for the octets of a mail. */
export const reasonOf = (octets: Uint8Array): Fixed | undefined =>
  octets.length === 1 ? REASONS.find((_, octet) => octet === octets[0]) : undefined

/** Re-encodes parts with lines longer than 998 octets; undefined when that is impossible or does not help. */
export function withShortLines(message: Buffer): Buffer | undefined {
  const text = reencoded(message, (body) => hasLongLine(body))
  return typeof text === 'object' && !hasLongLine(text.toString('latin1')) ? text : undefined
}

/** The message with bodies in 7 bits (its header is not changed), or the reason why that is impossible. */
export const inSevenBits = (message: Buffer): Buffer | Fixed =>
  isAscii(message) ? message : reencoded(message, (body) => NOT_ASCII.test(body), true)

// oxlint-disable-next-line no-control-regex
const NOT_ASCII = /[^\x00-\x7f]/
const hasLongLine = (text: string): boolean => text.split('\r\n').some((line) => line.length > MAX_PLAIN_LINE)

const COMPOSITE = /^(?:multipart|message)\//

interface Edit {
  from: number
  to: number
  text: string
}

function reencoded(message: Buffer, needs: (body: string) => boolean, sevenBit = false): Buffer | Fixed {
  let nodes: MimePart[]
  try {
    nodes = [...nodesOf(parseTree(message))]
  } catch (thrown) {
    if (thrown instanceof MalformedMessage) return 'unreadable'
    throw thrown
  }
  if (nodes.some(({ type }) => SEALED.test(type))) return 'signed'
  const edits: Edit[] = []
  for (const node of nodes) {
    const some = editsOf(message, node, needs, sevenBit)
    if (some === 'whole') return some
    edits.push(...some)
  }
  edits.sort((a, b) => a.from - b.from)
  const pieces: Buffer[] = []
  let done = 0
  for (const { from, text, to } of edits) {
    pieces.push(message.subarray(done, from), Buffer.from(text, 'latin1'))
    done = to
  }
  return Buffer.concat([...pieces, message.subarray(done)])
}

function editsOf(
  message: Buffer,
  node: MimePart,
  needs: (body: string) => boolean,
  sevenBit: boolean,
): Edit[] | 'whole' {
  if (node.children.length > 0 || isMessage(node.type)) {
    // The encoding of a multipart only describes its parts (RFC 2045 §6.4).
    const wide = sevenBit && /^(?:8bit|binary)$/.test(node.encoding)
    return wide ? [headerEdit(message, node, '7bit')] : []
  }
  const body = message.toString('latin1', node.start, node.end)
  if (!needs(body)) return []
  // A multipart without a boundary, or a message/* type such as message/delivery-status: encoding it is forbidden
  // (RFC 2045 §6.4), and readers would not decode it.
  if (COMPOSITE.test(node.type)) return 'whole'
  const last = body.endsWith('\r\n') ? '\r\n' : ''
  const content = body.slice(0, body.length - last.length)
  const quoted = node.encoding === 'quoted-printable'
  const asText = quoted || (node.type.startsWith('text/') && node.encoding !== 'base64')
  const bare = fieldOf(node, 'content-transfer-encoding') === undefined || /^(?:7bit|8bit|binary)$/.test(node.encoding)
  // A part that is encoded already only gets new line breaks; a part in an unknown encoding is not changed.
  if (!bare && !quoted && node.encoding !== 'base64') return []
  const text = asText
    ? encodeQuotedPrintable(quoted ? fromQuotedPrintable(content).toString('latin1') : content, 'latin1')
    : Buffer.from(content, node.encoding === 'base64' ? 'base64' : 'latin1')
        .toString('base64')
        .replace(/.{76}(?!$)/g, '$&\r\n')
  return [
    headerEdit(message, node, asText ? 'quoted-printable' : 'base64'),
    { from: node.start, to: node.end, text: text + last },
  ]
}

const FIELD = /^content-transfer-encoding[ \t]*:[^\r\n]*(?:\r\n[ \t][^\r\n]*)*\r\n/im

/** The header of a part with its encoding replaced. */
function headerEdit(message: Buffer, { at, start }: MimePart, encoding: string): Edit {
  const header = message.toString('latin1', at, start)
  const field = `Content-Transfer-Encoding: ${encoding}\r\n`
  if (FIELD.test(header)) return { from: at, to: start, text: header.replace(FIELD, field) }
  // Inserted before the empty line, if the part has one.
  const end = header.endsWith('\r\n\r\n') || header === '\r\n' ? header.length - 2 : header.length
  return { from: at, to: start, text: `${header.slice(0, end)}${field}${header.slice(end) || '\r\n'}` }
}
