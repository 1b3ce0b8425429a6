// Changes the transfer encoding of parts of a message (RFC 2045 §6): when lines are too long for SMTP, and when a part
// has 8-bit bytes and the server takes only 7 bits. A message with a signed or encrypted part is not changed.
import { isAscii } from 'node:buffer'
import { fieldOf, isMessage, MalformedMessage, nodesOf, parseTree, type MimePart } from './mime-tree.ts'
import { MAX_PLAIN_LINE } from './bytes.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'
import { fromQuotedPrintable } from './transfer.ts'
import { TOO_LARGE } from './too-large.ts'

/** A signed or encrypted part must not change (RFC 1847). */
export const SEALED = /^multipart\/(?:signed|encrypted)$/

/**
 * Why a message cannot be re-encoded:
 * - `signed`: a part is signed or encrypted.
 * - `unreadable`: the message exceeds the limits.
 * - `whole`: the type of a part allows no encoding (RFC 2045 §6.4).
 * - `fields`: the header has addresses or identifiers that are not ASCII.
 */
export type Fixed = 'signed' | 'unreadable' | 'whole' | 'fields'

/** Why a worker thread returns no message. */
export type Unfit = Fixed | 'large'

/** The answer to the sender for each reason: the enhanced code (RFC 3463, RFC 6531) and a sentence. */
export const UNFIT: Readonly<Record<Unfit, readonly [enhanced: string, text: string]>> = {
  signed: [
    '5.6.3',
    'The server does not accept 8-bit data (8BITMIME), and the message is signed, so it cannot be re-encoded.',
  ],
  unreadable: [
    '5.6.3',
    'The server does not accept 8-bit data (8BITMIME), and the message has too many parts or levels to re-encode.',
  ],
  whole: [
    '5.6.3',
    'The server does not accept 8-bit data (8BITMIME), and a part has a type that must not be encoded (RFC 2045 §6.4).',
  ],
  fields: [
    '5.6.9',
    'The server does not accept non-ASCII headers (SMTPUTF8), and an address or identifier in a header has no ASCII form.',
  ],
  large: ['5.3.4', TOO_LARGE],
}

/** A worker thread returns bytes. A message has more than one byte, so a single byte is the code of a reason. */
const REASONS = ['signed', 'unreadable', 'whole', 'fields', 'large'] as const satisfies readonly Unfit[]
/** The byte for a reason. */
export const octetOf = (reason: Unfit): Uint8Array<ArrayBuffer> => new Uint8Array([REASONS.indexOf(reason)])
/** The reason for a byte, or undefined for the bytes of a message. */
export const reasonOf = (bytes: Uint8Array): Unfit | undefined =>
  bytes.length === 1 ? REASONS.find((_, byte) => byte === bytes[0]) : undefined

/** Re-encodes parts with lines longer than 998 bytes, or undefined if that is impossible or does not help. */
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
  // A part that is encoded already only gets new line breaks. A part in an unknown encoding is not changed.
  if (!bare && !quoted && node.encoding !== 'base64') return []
  const text = asText
    ? encodeQuotedPrintable(
        quoted ? fromQuotedPrintable(Buffer.from(content, 'latin1')).toString('latin1') : content,
        'latin1',
      )
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
