// Reads the body of a message in one of the usual forms without the streams of the library: one text, or a text and an
// html page as alternatives, in UTF-8. The text is the same as the library's (a test compares them). The library reads
// every message that different programs could read differently.
import { fromQuotedPrintable, parseTree, type MimePart } from './mime-tree.ts'

export interface PlainBody {
  text: string | null
  html: string | null
}

/** Larger messages are rare, and the library reads them piece by piece. */
const MAX = 256 * 1024
const TEXT = /^text\/(plain|html)(?: *; *charset *= *(?:"(?:utf-8|us-ascii)"|utf-8|us-ascii))?$/i
const ALTERNATIVES = /^multipart\/alternative *; *boundary *= *(?:"([\w'()+,./:=?-]{1,70})"|([\w'()+,./:-]{1,70}))$/i
const ENCODING = /^(?:7bit|8bit|quoted-printable|base64)$/i
/** Lines that a reader may take for a field about how to read a part; `isClear` compares their number. */
const FAMILY = /^[\t ]*content-(?:type|transfer-encoding|disposition)\b/gim
/** Quoted-printable that is ambiguous (RFC 2045 §6.7): white space at a line's end, or a lone "=". */
const LOOSE = /[\t ]\r?$|=(?![0-9A-F]{2}|\r\n)/im
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

/** Text and html of a message; undefined when the library must read it. */
export function plainBody(message: Buffer): PlainBody | undefined {
  if (message.length > MAX) return undefined
  const tree = parseTree(message)
  if (!isClear(message, tree)) return undefined
  const [single, ...others] = tree.children.length === 0 ? [tree] : tree.children
  if (others.length === 0) return single === tree ? withText(message, tree) : undefined
  const boundary = boundaryOf(tree)
  if (boundary === undefined || others.length > 1 || !standsThrice(message, tree, boundary)) return undefined
  const [first, second] = tree.children as [MimePart, MimePart]
  if (!isClear(message, first) || !isClear(message, second)) return undefined
  const text = withText(message, first)
  const page = withText(message, second)
  if (text?.html !== null || page?.text !== null) return undefined
  return { text: text.text, html: page.html }
}

/** The value of the only field of that name; "" when there is none, undefined when there are several. */
function valueOf({ fields }: MimePart, name: string): string | undefined {
  const values = fields.filter((field) => field.name.toLowerCase() === name).map(({ value }) => value.trim())
  return values.length > 1 ? undefined : (values[0] ?? '')
}

/** Whether each line that some reader could take for a field of `FAMILY` is one of the fields that we read. */
function isClear(message: Buffer, node: MimePart): boolean {
  const header = message.toString('latin1', node.at, node.start)
  const named = ['content-type', 'content-transfer-encoding'].filter((name) => valueOf(node, name) !== '')
  // oxlint-disable-next-line no-control-regex
  return (header.match(FAMILY)?.length ?? 0) === named.length && !/[\0\x0b\x0c]/.test(header)
}

function boundaryOf(tree: MimePart): string | undefined {
  const match = ALTERNATIVES.exec(valueOf(tree, 'content-type') ?? '')
  const encoding = valueOf(tree, 'content-transfer-encoding')
  return match && encoding !== undefined && /^(?:[78]bit)?$/i.test(encoding) ? (match[1] ?? match[2]) : undefined
}

/** Whether the boundary is in the body three times, each time as a whole line: before, between and after the parts. */
function standsThrice(message: Buffer, { end, start }: MimePart, boundary: string): boolean {
  const pieces = message.toString('latin1', start, end).split(`--${boundary}`)
  if (pieces.length !== 4) return false
  const [before, first, second, after] = pieces as [string, string, string, string]
  const line = (piece: string): boolean => piece.startsWith('\r\n') && piece.endsWith('\r\n') && piece.length > 4
  return before === '' && line(first) && line(second) && /^--(?:\r\n)?$/.test(after)
}

/** Text or html of a leaf. */
function withText(message: Buffer, node: MimePart): PlainBody | undefined {
  const type = valueOf(node, 'content-type')
  const encoding = valueOf(node, 'content-transfer-encoding')
  if (type === undefined || encoding === undefined) return undefined
  const [, subtype] = TEXT.exec(type || 'text/plain') ?? []
  // Different readers treat a part without any octet differently.
  if (subtype === undefined || node.start >= node.end || node.children.length > 0 || !ENCODING.test(encoding || '7bit'))
    return undefined
  const octets = contentOf(message, node, encoding.toLowerCase())
  const text = octets && (octets.toString().replaceAll('\r\n', '\n').replaceAll('\0', '') || null)
  if (text === undefined) return undefined
  return subtype.toLowerCase() === 'html' ? { text: null, html: text } : { text, html: null }
}

/** A leaf's octets, its transfer encoding undone; undefined when it is not written strictly. */
function contentOf(message: Buffer, { end, start }: MimePart, encoding: string): Buffer | undefined {
  const octets = message.subarray(start, end)
  if (encoding === 'base64') {
    const text = octets.toString('latin1').replaceAll('\r\n', '')
    return BASE64.test(text) ? Buffer.from(text, 'base64') : undefined
  }
  if (encoding !== 'quoted-printable') return octets
  const text = octets.toString('latin1')
  return LOOSE.test(text) ? undefined : fromQuotedPrintable(text)
}
