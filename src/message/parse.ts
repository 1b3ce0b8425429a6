// A received message for its reader: decoded header fields, addresses, threading, text and html in Unicode, and a list
// of the attachments. Their bytes are not kept: they are read from the message again on request. The kind of each part
// is decided here once, on the tree of mime-tree.ts (D221).
import libmime from 'libmime'
import { forLine } from '../base/clean-text.ts'
import { decoded, pageIn, textIn, utf8 } from './charset.ts'
import { plainText } from './compose.ts'
import { mailboxesOf, shownMailbox } from './mailboxes.ts'
import { fieldOf, isMessage, decodedBytes, partsOf, type MimePart } from './mime-tree.ts'
import { escapeHtml } from './template.ts'

export interface InboundAttachment {
  /** Its number among the attachments, from "1". */
  id: string
  filename: string | null
  content_type: string
  size: number
  content_id: string | null
  disposition: 'attachment' | 'inline'
}

export interface ParsedHeader {
  /** By lower-case name. A list where a field is repeated. */
  headers: Record<string, string | string[]>
  subject: string | null
  from: string | null
  to: string[]
  cc: string[]
  reply_to: string[]
  message_id: string | null
  in_reply_to: string | null
  references: string[]
}

export interface ParsedBody {
  text: string | null
  html: string | null
  attachments: InboundAttachment[]
}

/** Text and html are cut at this many characters. The raw message has all. */
const MAX_TEXT = 5 * 1024 * 1024
const MAX_VALUE = 64 * 1024
const MAX_REFERENCES = 1000

export function parseHeader(tree: MimePart): ParsedHeader {
  const charset = partsOf(tree)
    .find(({ params }) => params.has('charset'))
    ?.params.get('charset')
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>
  for (const { name, value } of tree.fields) {
    const key = name.toLowerCase()
    const text = decoded(value, charset)
    const earlier = headers[key]
    headers[key] = earlier === undefined ? text : Array.isArray(earlier) ? [...earlier, text] : [earlier, text]
  }
  const list = (name: string): string[] => mailboxesOf(fieldOf(tree, name) ?? '', charset).map(shownMailbox)
  const first = (name: string): string | null => {
    const value = fieldOf(tree, name)
    return value === undefined ? null : decoded(value, charset)
  }
  return {
    headers,
    subject: first('subject'),
    from: list('from').join(', ') || first('from'),
    to: list('to'),
    cc: list('cc'),
    reply_to: list('reply-to'),
    message_id: idsOf(fieldOf(tree, 'message-id'))[0] ?? first('message-id'),
    in_reply_to: idsOf(fieldOf(tree, 'in-reply-to'))[0] ?? first('in-reply-to'),
    references: idsOf(fieldOf(tree, 'references')),
  }
}

const BARE_ID = /^[^\s<>@,;"()]+@[^\s<>@,;"()]+$/

/**
 * Message identifiers with their angle brackets (RFC 5322 §3.6.4), including those in encoded words. If all identifiers
 * of a field lack brackets, they are added (D220).
 */
function idsOf(value = ''): string[] {
  const text = value.includes('=?') ? decoded(value) : utf8(value.slice(0, MAX_VALUE))
  const words = text.split(/\s+/)
  const ids = words.every((word) => BARE_ID.test(word)) ? words.map((word) => `<${word}>`) : text.match(/<[^<>\s]+>/g)
  return (ids ?? []).slice(0, MAX_REFERENCES)
}

/** A leaf of a message as its reader has it. */
interface Content {
  node: MimePart
  /** The text or page that it is shown as, or undefined for a file alone. */
  shown: 'text' | 'page' | undefined
  /** Undefined if it is not listed among the attachments. */
  file: Omit<InboundAttachment, 'id' | 'size'> | undefined
  /** An alternative of another part: it is not added to the other format. */
  alternative: boolean
}

interface Around {
  related: boolean
  alternative: boolean
  /** Whether it can be the body: not one of several parts next to each other. */
  body: boolean
}

const ROOT: Around = { related: false, alternative: false, body: true }

/** The leaves of a message in their order. A message inside it is one file. */
function* contentsOf(node: MimePart, around = ROOT): Iterable<Content> {
  if (node.children.length === 0 || isMessage(node.type)) return yield contentOf(node, around)
  const related = node.type === 'multipart/related'
  const alternative = node.type === 'multipart/alternative'
  for (const [index, child] of node.children.entries())
    yield* contentsOf(child, {
      related: around.related || related,
      alternative: around.alternative || alternative,
      body: alternative || (related && index === 0),
    })
}

function contentOf(node: MimePart, { alternative, body, related }: Around): Content {
  const disposition = /^[\w-]+/.exec(fieldOf(node, 'content-disposition') ?? '')?.[0].toLowerCase()
  const filename = nameOf(node)
  const type = typeOf(node, filename, disposition)
  // A lone text part other than HTML is shown as it is (RFC 2046 §4.1.4). Next to other parts, it is an attachment or
  // an alternative.
  const alone = body && !alternative && !related && /^text\/(?:x-)?(?:markdown|enriched|richtext)$/.test(type)
  const kind =
    alone || /^(?:text\/plain|message\/delivery-status|multipart\/.*)$/.test(type)
      ? 'text'
      : type === 'text/html'
        ? 'page'
        : undefined
  const attached = kind === undefined || (disposition !== undefined && disposition !== 'inline')
  // A text with a name next to others is a file (RFC 2183 §2.3), shown if the message has no other text.
  const isFile = attached || (filename !== null && !body)
  const id = fieldOf(node, 'content-id')?.replace(/^<|>$/g, '').trim()
  return {
    node,
    shown: attached ? undefined : kind,
    alternative,
    file: isFile
      ? {
          filename,
          content_type: oneLine(type),
          content_id: id ? oneLine(id) : null,
          disposition: disposition === 'inline' || (related && id) ? 'inline' : 'attachment',
        }
      : undefined,
  }
}

/** The type of a leaf. A file's name decides if the field is not specific (RFC 2046 §4.5.1). */
function typeOf(node: MimePart, filename: string | null, disposition: string | undefined): string {
  const named = (fieldOf(node, 'content-type') ?? '').toLowerCase().startsWith(node.type) || isMessage(node.type)
  if (named && node.type !== 'application/octet-stream') return node.type
  if (filename !== null) return libmime.detectMimeType(filename)
  return disposition === 'attachment' ? 'application/octet-stream' : node.type
}

/** The file name of a part: RFC 2183, RFC 2231, or an encoded word. */
function nameOf(node: MimePart): string | null {
  for (const [field, key] of [
    ['content-disposition', 'filename'],
    ['content-type', 'name'],
  ] as const) {
    const value = fieldOf(node, field)
    if (value === undefined || !/name/i.test(value)) continue
    const { decodedParams, params } = libmime.parseHeaderValue(utf8(value), { stripComments: true })
    const name = params[key]
    if (name) return oneLine(decodedParams.includes(key) ? name : decoded(name)) || null
  }
  return null
}

/** Reads the body of a message and the list of its attachments. */
export function parseBody(message: Buffer, tree: MimePart): ParsedBody {
  const contents = [...contentsOf(tree)]
  const attachments = contents
    .flatMap(({ file, node }) => (file ? [{ ...file, size: bytesOf(message, node).length }] : []))
    .map((file, index) => ({ id: String(index + 1), ...file }))
  const bodies = contents.filter(({ file }) => !file)
  const shown = bodies.some(({ shown: kind }) => kind) ? bodies : contents
  const { html, text } = joined(shown.flatMap((each) => pieceOf(message, each)))
  // Content is shown in spite of a broken structure: only a message without a body is empty.
  const lost = text === null && html === null && attachments.length === 0
  return { text: lost ? beforeParts(message, tree) : text, html, attachments }
}

/** The body up to its parts, as it is, or null if it is blank. */
function beforeParts(message: Buffer, { children: [first], end, start }: MimePart): string | null {
  const text = textIn(message.subarray(start, first?.at ?? end), undefined).replaceAll('\r\n', '\n')
  const shown = first ? text.replace(/(?:^|\n)--[^\n]*\n?$/, '') : text
  return shown.trim() === '' ? null : whole(shown)
}

interface ShownText {
  kind: 'text' | 'page'
  text: string
  alternative: boolean
}

function pieceOf(message: Buffer, { alternative, node, shown: kind }: Content): ShownText[] {
  if (!kind) return []
  const bytes = bytesOf(message, node)
  const charset = node.params.get('charset')
  const text = (kind === 'page' ? pageIn(bytes, charset) : textIn(bytes, charset))
    .replace(/^\ufeff/, '')
    .replaceAll('\r\n', '\n')
  if (text === '') return []
  const isFlowed = node.type === 'text/plain' && /^flowed$/i.test(node.params.get('format') ?? '')
  const unfolded = isFlowed ? libmime.decodeFlowed(text, /^yes$/i.test(node.params.get('delsp') ?? '')) : text
  return [{ kind, text: unfolded, alternative }]
}

/** Both formats of a message. Parts next to each other are in both (RFC 2046 §5.1.3), if it has both. */
function joined(pieces: readonly ShownText[]): { text: string | null; html: string | null } {
  const has = (kind: ShownText['kind']): boolean => pieces.some((piece) => piece.kind === kind)
  const both = has('text') && has('page')
  const texts = pieces.flatMap(({ alternative, kind, text }) =>
    kind === 'text' ? [text] : both && !alternative ? [plainText(text)] : [],
  )
  const pages = pieces.flatMap(({ alternative, kind, text }) =>
    kind === 'page' ? [text] : both && !alternative ? [inHtml(text)] : [],
  )
  return { text: whole(texts.join('\n')), html: whole(pages.join('<br/>\n')) }
}

const inHtml = (text: string): string => `<p>${escapeHtml(text.trim()).replaceAll('\n', '<br/>\n')}</p>`

/** The bytes of one attachment, from its parsed description, or undefined if the message does not have it. */
export function attachmentOf(
  message: Buffer,
  tree: MimePart,
  { filename, id, size }: Pick<InboundAttachment, 'id' | 'filename' | 'size'>,
): Buffer | undefined {
  const files = [...contentsOf(tree)].filter(({ file }) => file)
  const isSame = ({ file, node }: Content): boolean =>
    file?.filename === filename && bytesOf(message, node).length === size
  const numbered = files[Number(id) - 1]
  // An earlier version may have counted otherwise.
  const found = numbered && isSame(numbered) ? numbered : (files.find(isSame) ?? numbered)
  return found && bytesOf(message, found.node)
}

const oneLine = (text: string): string => forLine(text).slice(0, 1000).toWellFormed()

const bytesOf = (message: Buffer, node: MimePart): Buffer => decodedBytes(message, node, node.end - node.start)

/** Text cut to its limit, or null if it is empty. */
const whole = (text: string): string | null => text.slice(0, MAX_TEXT).replaceAll('\0', '').toWellFormed() || null
