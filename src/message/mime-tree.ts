// The structure of a received message (RFC 2045, RFC 2046) as a tree of byte ranges, with limits that no normal mail
// reaches. It copies nothing and decodes only the parts asked for, so that a hostile message costs no more than its own
// size.
import { upTo } from '../base/text.ts'

/** The limits of a message (D47). */
export const MAX_DEPTH = 32
export const MAX_PARTS = 500
export const MAX_FIELDS = 1000
export const MAX_HEADER = 256 * 1024

/** A message that is not MIME or exceeds a limit; the text says how. */
export class MalformedMessage extends Error {}

/** The most boundaries with comments in a message; real mail has none. */
const MAX_COMMENTED = 2

const LF = 0x0a
const CR = 0x0d
const TAB = 0x09
const SPACE = 0x20
const DASH = 0x2d

export interface HeaderField {
  /** The name in the letter case of the message. */
  name: string
  /** Unfolded, not decoded; octets as latin1 characters. */
  value: string
}

export interface MimePart {
  fields: HeaderField[]
  /** Lower case; "text/plain" when the part names none. */
  type: string
  params: ReadonlyMap<string, string>
  encoding: string
  /** Offset of the header. */
  at: number
  /** Offsets of the body. */
  start: number
  end: number
  children: MimePart[]
}

/** The value of the first field of that name, trimmed; undefined when there is none. */
export function fieldOf({ fields }: Pick<MimePart, 'fields'>, name: string): string | undefined {
  const wanted = name.toLowerCase()
  return fields.find((field) => field.name.toLowerCase() === wanted)?.value.trim()
}

interface ParseBudget {
  parts: number
  /** Lines that look like a boundary but are not one. */
  lookalikes: number
  /** Boundaries with comments, each of which has its parts read twice. */
  commented: number
}

const MAX_LOOKALIKES = 1_000_000

/** Parses a message into a tree. Throws MalformedMessage when it exceeds a limit. */
export function parseTree(message: Buffer): MimePart {
  return parseNode(
    message,
    { start: 0, end: message.length, depth: 0, fallback: 'text/plain' },
    { parts: 0, lookalikes: 0, commented: 0 },
  )
}

/** The offset at which a header's body begins; `end` when there is no empty line. Reads no further than the limit. */
function bodyStart(message: Buffer, start: number, end: number): number {
  const last = Math.min(end, start + MAX_HEADER + 2)
  const emptyLine = (at: number): number =>
    message[at] === LF ? at + 1 : message[at] === CR && message[at + 1] === LF ? at + 2 : 0
  for (let at = start; at < last;) {
    const body = emptyLine(at)
    if (body > 0) return Math.min(body, end)
    const line = message.indexOf(LF, at)
    if (line < 0 || line >= last) break
    at = line + 1
  }
  return end
}

/** The fields of a header block (RFC 5322 §2.2), at most 1,001 of them. Lines that are not fields are skipped. */
export function parseFields(block: string): HeaderField[] {
  const fields: HeaderField[] = []
  for (const line of block.split(/\r?\n(?![ \t])/)) {
    const [, name, value] = /^([\x21-\x39\x3b-\x7e]+)[ \t]*:([\s\S]*)$/.exec(line) ?? []
    if (name === undefined || value === undefined) continue
    fields.push({ name, value: value.replace(/\r?\n(?=[ \t])/g, '').trim() })
    if (fields.length > MAX_FIELDS) break
  }
  return fields
}

/** The place of a part in its message. */
interface PartPlace {
  start: number
  end: number
  /** Parts around it. */
  depth: number
  /** The type of a part that names no type (RFC 2045 §5.2, RFC 2046 §5.1.5). */
  fallback: string
}

function parseNode(message: Buffer, { depth, end, fallback, start }: PartPlace, budget: ParseBudget): MimePart {
  if (depth > MAX_DEPTH) throw new MalformedMessage(`Its parts are nested more than ${MAX_DEPTH} deep.`)
  if (++budget.parts > MAX_PARTS) throw new MalformedMessage(`It has more than ${MAX_PARTS} parts.`)
  const body = bodyStart(message, start, end)
  if (body - start > MAX_HEADER) throw new MalformedMessage(`Its header is larger than ${MAX_HEADER / 1024} KB.`)
  const fields = parseFields(message.toString('latin1', start, body))
  if (fields.length > MAX_FIELDS) throw new MalformedMessage(`The header has more than ${MAX_FIELDS} fields.`)
  const { value, params } = parseParameters(fieldOf({ fields }, 'content-type') ?? fallback)
  const type = /^[\w.+-]+\/[\w.+-]+$/.test(value) ? value.toLowerCase() : fallback
  const encoding = upTo(fieldOf({ fields }, 'content-transfer-encoding') ?? '7bit', /[\s;]/).toLowerCase()
  const node: MimePart = { fields, type, params, encoding, at: start, start: body, end, children: [] }
  if (type.startsWith('multipart/')) {
    const inside = type === 'multipart/digest' ? 'message/rfc822' : 'text/plain'
    for (const boundary of boundariesOf(params.get('boundary') ?? '', budget))
      for (const [from, to] of partsBetween(message, body, end, boundary, budget))
        node.children.push(parseNode(message, { start: from, end: to, depth: depth + 1, fallback: inside }, budget))
  } else if (isMessage(type) && (encoding === '7bit' || encoding === '8bit' || encoding === 'binary'))
    node.children.push(parseNode(message, { start: body, end, depth: depth + 1, fallback: 'text/plain' }, budget))
  return node
}

/** A message inside a message. */
export const isMessage = (type: string): boolean => type === 'message/rfc822' || type === 'message/global'

/**
 * The readings of a boundary parameter: as written, and without comments (RFC 5322 §3.2.2). Some programs remove
 * comments, others treat them as a part of the boundary. Parts are found by both readings.
 */
function boundariesOf(written: string, budget: ParseBudget): string[] {
  if (written.includes('(') && ++budget.commented > MAX_COMMENTED)
    throw new MalformedMessage(`More than ${MAX_COMMENTED} of its boundaries have comments.`)
  let bare = ''
  let depth = 0
  for (let at = 0; at < written.length; at++) {
    const character = written.charAt(at)
    if (character === '\\' && depth > 0) at++
    else if (character === '(') depth++
    else if (character === ')' && depth > 0) depth--
    else if (depth === 0) bare += character
  }
  return [...new Set([written, bare.trim()])].filter((boundary) => boundary !== '')
}

/** The byte ranges between the boundary lines; a last part without a closing line runs to the end. */
function* partsBetween(
  message: Buffer,
  start: number,
  end: number,
  boundary: string,
  budget: ParseBudget,
): Iterable<[number, number]> {
  // The search includes the line end before the boundary: otherwise a body of dashes would match at every octet.
  const mark = Buffer.from(`\n--${boundary}`, 'latin1')
  const first = mark.subarray(1).compare(message, start, Math.min(end, start + mark.length - 1)) === 0
  let open: number | undefined
  for (let at = first ? start - 1 : message.indexOf(mark, start); at + mark.length <= end;) {
    if (at < 0 && !(first && at === start - 1)) break
    const line = boundaryLine(message, at + mark.length, end)
    if (line) {
      if (open !== undefined) yield [open, withoutLineEnd(message, open, at + 1)]
      open = line.closing || line.next === undefined ? undefined : line.next
      if (line.closing) return
    } else if (++budget.lookalikes > MAX_LOOKALIKES)
      throw new MalformedMessage(`More than ${MAX_LOOKALIKES} of its lines look like a boundary and are not one.`)
    // One line end may serve this boundary and the next.
    at = message.indexOf(mark, at + mark.length)
  }
  if (open !== undefined && open <= end) yield [open, end]
}

/**
 * Reads the rest of a boundary line, which must be white space:
 * otherwise it belongs to a longer boundary of another part.
 */
function boundaryLine(message: Buffer, after: number, end: number): { closing: boolean; next?: number } | undefined {
  const closing = after + 1 < end && message[after] === DASH && message[after + 1] === DASH
  for (let at = closing ? after + 2 : after; at < end; at++) {
    const octet = message[at]
    if (octet === LF) return { closing, next: at + 1 }
    if (octet !== SPACE && octet !== TAB && octet !== CR) return undefined
  }
  return { closing }
}

/** The line end before a boundary belongs to the boundary (RFC 2046 §5.1.1). */
function withoutLineEnd(message: Buffer, start: number, at: number): number {
  const line = message[at - 1] === LF ? (message[at - 2] === CR ? at - 2 : at - 1) : at
  return Math.max(start, line)
}

/**
 * Splits `text/plain; charset="utf-8"` into value and parameters (RFC 2045 §5.1). Of repeated names the first counts.
 */
export function parseParameters(text: string): { value: string; params: ReadonlyMap<string, string> } {
  const params = new Map<string, string>()
  const [value = ''] = text.split(';', 1)
  // Text that is not a parameter ("; ;", "; flowed") is skipped.
  const parameter = /;\s*(?:([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\[\s\S])*)"?[^;]*|([^;]*))|[^;]*)/y
  parameter.lastIndex = value.length
  for (let match = parameter.exec(text); match; match = parameter.exec(text)) {
    const [, key, quoted, bare = ''] = match
    if (key === undefined) continue
    const name = key.toLowerCase()
    if (!params.has(name)) params.set(name, quoted?.replace(/\\([\s\S])/g, '$1') ?? bare.trim())
    if (params.size > 100) break
  }
  return { value: value.trim(), params }
}

/** The nodes of a message, the root first, without those of messages inside it. */
export function partsOf(tree: MimePart): MimePart[] {
  return [tree, ...(isMessage(tree.type) ? [] : tree.children.flatMap(partsOf))]
}

/** All nodes, the root first, those of messages inside it too. */
export function* nodesOf(node: MimePart): Iterable<MimePart> {
  yield node
  for (const child of node.children) yield* nodesOf(child)
}

/** A part's content, decoded from its transfer encoding or from `as`; made of at most `max` octets of the message. */
export function octetsOf(message: Buffer, { start, end, encoding }: MimePart, max: number, as = encoding): Buffer {
  const bytes = message.subarray(start, Math.min(end, start + max))
  if (as === 'base64') return Buffer.from(bytes.toString('latin1').replace(/[^A-Za-z0-9+/=]/g, ''), 'base64')
  return as === 'quoted-printable' ? fromQuotedPrintable(bytes.toString('latin1')) : bytes
}

/**
 * A part's content as text, its transfer encoding undone; at most `max` octets of the message are decoded. It is read
 * as UTF-8 where possible, else in the charset that the part names.
 */
export function textOf(message: Buffer, node: MimePart, max: number): string {
  const { params } = node
  const decoded = octetsOf(message, node, max)
  const charset = params.get('charset') ?? 'utf-8'
  const text = decoded.toString('utf8')
  // ISO-2022 text is valid ASCII, so it would pass as UTF-8.
  if (!text.includes('\ufffd') && !/^iso-2022-/i.test(charset)) return text
  try {
    return new TextDecoder(charset, { fatal: true }).decode(decoded)
  } catch {
    return decoded.toString('latin1')
  }
}

/** The octets of quoted-printable text (RFC 2045 §6.7); malformed escapes stay as they are. */
export const fromQuotedPrintable = (text: string): Buffer =>
  Buffer.from(
    text
      .replace(/(?<![ \t])[ \t]+(?=\r?\n)/g, '')
      .replace(/=\r?\n/g, '')
      .replace(/=([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(parseInt(hex, 16))),
    'latin1',
  )
