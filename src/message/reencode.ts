// Changes the transfer encoding of parts of a message (RFC 2045 §6): lines too long for SMTP, and 8-bit text for a
// server that takes only 7 bits. Signed parts are left as they are.
import { fieldOf, isMessage, MalformedMessage, nodesOf, parseTree, type Node } from './mime-tree.ts'
import { MAX_PLAIN_LINE } from './octets.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'

/** A signed or encrypted part must not change (RFC 1847). */
export const SEALED = /^multipart\/(?:signed|encrypted)$/

/** Encodes parts with lines over 998 octets again; undefined when that is impossible or does not help. */
export function withShortLines(message: Buffer): Buffer | undefined {
  const text = reencoded(message, (body) => hasLongLine(body))
  return text && !hasLongLine(text.toString('latin1')) ? text : undefined
}

/** The message in 7 bits, except for its header; undefined when that is impossible. */
export const inSevenBits = (message: Buffer): Buffer | undefined =>
  reencoded(message, (body) => NOT_ASCII.test(body), true)

// oxlint-disable-next-line no-control-regex
const NOT_ASCII = /[^\x00-\x7f]/
const hasLongLine = (text: string): boolean => text.split('\r\n').some((line) => line.length > MAX_PLAIN_LINE)

interface Edit {
  from: number
  to: number
  text: string
}

function reencoded(message: Buffer, needs: (body: string) => boolean, sevenBit = false): Buffer | undefined {
  let nodes: Node[]
  try {
    nodes = [...nodesOf(parseTree(message))]
  } catch (thrown) {
    if (thrown instanceof MalformedMessage) return undefined
    throw thrown
  }
  if (nodes.some(({ type }) => SEALED.test(type))) return undefined
  const edits = nodes.flatMap((node) => editsOf(message, node, needs, sevenBit)).toSorted((a, b) => a.from - b.from)
  const pieces: Buffer[] = []
  let done = 0
  for (const { from, text, to } of edits) {
    pieces.push(message.subarray(done, from), Buffer.from(text, 'latin1'))
    done = to
  }
  return Buffer.concat([...pieces, message.subarray(done)])
}

function editsOf(message: Buffer, node: Node, needs: (body: string) => boolean, sevenBit: boolean): Edit[] {
  if (node.children.length > 0 || isMessage(node.type)) {
    // The encoding of a multipart only describes its parts (RFC 2045 §6.4).
    const wide = sevenBit && /^(?:8bit|binary)$/.test(node.encoding)
    return wide ? [headerEdit(message, node, '7bit')] : []
  }
  const body = message.toString('latin1', node.start, node.end)
  if (!needs(body)) return []
  const last = body.endsWith('\r\n') ? '\r\n' : ''
  const content = body.slice(0, body.length - last.length)
  const asText = node.type.startsWith('text/') && node.encoding !== 'base64'
  const bare = fieldOf(node, 'content-transfer-encoding') === undefined || /^(?:7bit|8bit|binary)$/.test(node.encoding)
  // Quoted-printable parts stay; base64 parts are only cut into shorter lines.
  if (!bare && node.encoding !== 'base64') return []
  const text = asText
    ? encodeQuotedPrintable(content, 'latin1')
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
function headerEdit(message: Buffer, { at, start }: Node, encoding: string): Edit {
  const header = message.toString('latin1', at, start)
  const field = `Content-Transfer-Encoding: ${encoding}\r\n`
  if (FIELD.test(header)) return { from: at, to: start, text: header.replace(FIELD, field) }
  // Inserted before the empty line, if the part has one.
  const end = header.endsWith('\r\n\r\n') || header === '\r\n' ? header.length - 2 : header.length
  return { from: at, to: start, text: `${header.slice(0, end)}${field}${header.slice(end) || '\r\n'}` }
}
