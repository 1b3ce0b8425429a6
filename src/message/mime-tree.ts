// The structure of a received message (RFC 2045, RFC 2046) as a tree of byte ranges, with limits that normal messages
// never reach. It copies no bytes and decodes only the requested parts, so that a hostile message costs no more than
// its own size.
import { isUtf8 } from 'node:buffer'
import { textIn } from './charset.ts'
import { decodeTransfer, transferEncodingOf, type TransferEncoding } from './transfer.ts'

/** The limits of a message (D47). */
export const MAX_DEPTH = 32
export const MAX_PARTS = 500
export const MAX_FIELDS = 1000
export const MAX_HEADER = 256 * 1024

/** A message that is not MIME or exceeds a limit. The text has the reason. */
export class MalformedMessage extends Error {}

/** The most boundaries with comments in a message. Real messages never have any. */
const MAX_COMMENTED = 2

const LF = 0x0a
const CR = 0x0d
const TAB = 0x09
const SPACE = 0x20
const DASH = 0x2d
const COLON = 0x3a

export interface HeaderField {
  /** The name in the letter case of the message. */
  name: string
  /** Unfolded, not decoded: bytes as latin1 characters. */
  value: string
}

export interface MimePart {
  fields: HeaderField[]
  /** Lower case. The default is "text/plain". */
  type: string
  params: ReadonlyMap<string, string>
  encoding: TransferEncoding
  /** Offset of the header. */
  at: number
  /** Offsets of the body. */
  start: number
  end: number
  children: MimePart[]
}

/** The value of the first field of that name, trimmed, or undefined. */
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
    { start: 0, end: message.length, depth: 0, whole: true, fallback: 'text/plain' },
    { parts: 0, lookalikes: 0, commented: 0 },
  )
}

/**
 * The offset at which a header's body begins: behind the empty line, or at the first line that is not a field (RFC 5322
 * §2.1), so that a body without an empty line is not lost. In front of a whole message's fields, other lines are
 * skipped if an empty line follows the fields. `end` when there is no body. Reads no further than the limit.
 */
function bodyStart(message: Buffer, { end, start, whole }: PartPlace): number {
  const last = Math.min(end, start + MAX_HEADER + 2)
  let fields = 0
  let skipped = false
  for (let at = start; at < last;) {
    const body = message[at] === LF ? at + 1 : message[at] === CR && message[at + 1] === LF ? at + 2 : 0
    if (body > 0) return skipped && fields === 0 ? start : Math.min(body, end)
    const folded = fields > 0 && (message[at] === SPACE || message[at] === TAB)
    if (isField(message, at, last)) fields++
    else if (!folded) {
      if (fields > 0 || !whole) return at
      // Mailboxes have a line "From ann@example.org Thu Jan  1 …" in front of each message.
      skipped ||= !/^>?From /.test(message.toString('latin1', at, at + 6))
    }
    const line = message.indexOf(LF, at)
    if (line < 0 || line >= last) break
    at = line + 1
  }
  return skipped ? start : end
}

/** Whether a line begins with a field's name (RFC 5322 §2.2). A boundary line does not, even with a colon in it. */
function isField(message: Buffer, start: number, end: number): boolean {
  let at = start
  if (message[at] === DASH && message[at + 1] === DASH) return false
  const isOfName = (byte = 0): boolean => byte > SPACE && byte < 0x7f && byte !== COLON
  while (at < end && isOfName(message[at])) at++
  if (at === start) return false
  while (at < end && (message[at] === SPACE || message[at] === TAB)) at++
  return message[at] === COLON
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

interface PartPlace {
  start: number
  end: number
  /** Parts around it. */
  depth: number
  /** It is a message, whole or inside another one, and no part of a multipart. */
  whole: boolean
  /** The type of a part that names no type (RFC 2045 §5.2, RFC 2046 §5.1.5). */
  fallback: string
}

function parseNode(message: Buffer, place: PartPlace, budget: ParseBudget): MimePart {
  const { depth, end, fallback, start } = place
  if (depth > MAX_DEPTH) throw new MalformedMessage(`Its parts are nested more than ${MAX_DEPTH} deep.`)
  if (++budget.parts > MAX_PARTS) throw new MalformedMessage(`It has more than ${MAX_PARTS} parts.`)
  const body = bodyStart(message, place)
  if (body - start > MAX_HEADER) throw new MalformedMessage(`Its header is larger than ${MAX_HEADER / 1024} KB.`)
  const fields = parseFields(message.toString('latin1', start, body))
  if (fields.length > MAX_FIELDS) throw new MalformedMessage(`The header has more than ${MAX_FIELDS} fields.`)
  const { params, type = fallback } = contentTypeOf(fieldOf({ fields }, 'content-type') ?? fallback)
  const encoding = transferEncodingOf(fieldOf({ fields }, 'content-transfer-encoding') ?? '')
  const node: MimePart = { fields, type, params, encoding, at: start, start: body, end, children: [] }
  if (type.startsWith('multipart/')) {
    const inside = type === 'multipart/digest' ? 'message/rfc822' : 'text/plain'
    for (const [from, to] of partsWithin(message, node, budget))
      node.children.push(
        parseNode(message, { start: from, end: to, depth: depth + 1, whole: false, fallback: inside }, budget),
      )
  } else if (isMessage(type) && (encoding === '7bit' || encoding === '8bit' || encoding === 'binary'))
    node.children.push(
      parseNode(message, { start: body, end, depth: depth + 1, whole: true, fallback: 'text/plain' }, budget),
    )
  return node
}

/**
 * The type that a Content-Type field names, in lower case, and its parameters. No type if the field is malformed, which
 * then counts as the default (RFC 2045 §5.2). Tolerated: no semicolon after the type, and a multipart of no kind.
 */
function contentTypeOf(value: string): { type?: string; params: ReadonlyMap<string, string> } {
  const [whole, name] = TYPE.exec(value) ?? []
  if (whole === undefined || name === undefined) return { params: parseParameters(value).params }
  const { params } = parseParameters(value.slice(whole.length).replace(/^[\s,]*(?=[\w*-]+\s*=)/, ';'))
  return { type: name.includes('/') ? name.toLowerCase() : 'multipart/mixed', params }
}

const TYPE = /^\s*([\w.+-]+\/[\w.+-]+|multipart)(?=\s*(?:$|[;(,])|\s+[\w*-]+\s*=)/i

export const isMessage = (type: string): boolean => type === 'message/rfc822' || type === 'message/global'

/**
 * The readings of a boundary parameter: as written, and without comments (RFC 5322 §3.2.2). Some clients remove
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

/**
 * The byte ranges of a multipart's parts. Without a boundary that matches, the boundary in the body itself is used:
 * some clients quote or escape it wrongly, or write the field twice.
 */
function* partsWithin(message: Buffer, node: MimePart, budget: ParseBudget): Iterable<[number, number]> {
  const { end, params, start } = node
  let found = false
  for (const boundary of boundariesOf(params.get('boundary') ?? '', budget))
    for (const part of partsBetween(message, start, end, boundary, budget)) {
      found = true
      yield part
    }
  const used = found ? undefined : usedBoundary(message.toString('latin1', start, Math.min(end, start + PREAMBLE)))
  if (used !== undefined) yield* partsBetween(message, start, end, used, budget)
}

/** The first bytes of a body, in which its boundary line is searched. */
const PREAMBLE = 16 * 1024

/** The boundary of the first line that looks like one, with a field for MIME behind it. */
const usedBoundary = (body: string): string | undefined =>
  /^--([\w'()+,./:=?-]{1,70})[ \t]*\r?\nContent-[\w-]{1,40}[ \t]*:/im.exec(body)?.[1]

/** The byte ranges between the boundary lines. A last part without a closing line extends to the end. */
function* partsBetween(
  message: Buffer,
  start: number,
  end: number,
  boundary: string,
  budget: ParseBudget,
): Iterable<[number, number]> {
  // The search includes the line end before the boundary: otherwise a body of dashes would match at every byte.
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
  // Text that is not a parameter (`; ;`, `; flowed`) is skipped.
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

/**
 * A part's content, decoded from its transfer encoding or from `as`. At most `max` bytes of the message are decoded.
 */
export const decodedBytes = (message: Buffer, { start, end, encoding }: MimePart, max: number, as = encoding): Buffer =>
  decodeTransfer(message.subarray(start, Math.min(end, start + max)), as)

/**
 * A part's content as text, its transfer encoding undone. At most `max` bytes of the message are decoded. Reports often
 * name another charset than theirs: it is read as UTF-8 where possible, else in the charset that the part names.
 */
export function textOf(message: Buffer, node: MimePart, max: number): string {
  const bytes = decodedBytes(message, node, max)
  const charset = node.params.get('charset')
  // ISO-2022 text is valid ASCII, so it would pass as UTF-8.
  return textIn(bytes, isUtf8(bytes) && !/^iso-2022-/i.test(charset ?? '') ? undefined : charset)
}
