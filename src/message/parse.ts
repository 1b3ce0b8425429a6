// A received message for its reader: decoded header fields, addresses, threading, text and html in Unicode, and a list
// of the attachments. Their bytes are not kept: they are read from the message again on request.
import libmime from 'libmime'
import { MailParser, type AttachmentStream, type MessageText } from 'mailparser'
import { forLine } from '../base/clean-text.ts'
import { fieldOf, type MimePart } from './mime-tree.ts'
import { plainBody } from './plain-body.ts'

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
  /** By lower-case name; a list where a field is repeated. */
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

/** Text and html are cut at this many characters; the raw message has all. */
const MAX_TEXT = 5 * 1024 * 1024
const MAX_VALUE = 64 * 1024
const MAX_REFERENCES = 1000
const CHUNK = 64 * 1024

/** latin1 characters read as UTF-8 octets; unchanged when the octets are not UTF-8. */
export const utf8 = (latin1: string): string => {
  const text = Buffer.from(latin1, 'latin1').toString('utf8')
  return text.includes('\ufffd') ? latin1 : text
}

/** A field's value in Unicode: encoded words decoded, control characters gone. */
export function decoded(value: string): string {
  return forLine(libmime.decodeWords(utf8(value.slice(0, MAX_VALUE)))).toWellFormed()
}

/** Reads the header of a message. */
export function parseHeader(tree: MimePart): ParsedHeader {
  const headers: Record<string, string | string[]> = Object.create(null) as Record<string, string | string[]>
  for (const { name, value } of tree.fields) {
    const key = name.toLowerCase()
    const text = decoded(value)
    const earlier = headers[key]
    headers[key] = earlier === undefined ? text : Array.isArray(earlier) ? [...earlier, text] : [earlier, text]
  }
  const list = (name: string): string[] => splitAddresses(fieldOf(tree, name)).map(decoded)
  const first = (name: string): string | null => {
    const value = fieldOf(tree, name)
    return value === undefined ? null : decoded(value)
  }
  return {
    headers,
    subject: first('subject'),
    from: first('from'),
    to: list('to'),
    cc: list('cc'),
    reply_to: list('reply-to'),
    message_id: idsOf(fieldOf(tree, 'message-id'))[0] ?? first('message-id'),
    in_reply_to: idsOf(fieldOf(tree, 'in-reply-to'))[0] ?? first('in-reply-to'),
    references: idsOf(fieldOf(tree, 'references')),
  }
}

/** Message identifiers with their angle brackets (RFC 5322 §3.6.4). */
const idsOf = (value: string | undefined): string[] =>
  (value?.slice(0, MAX_VALUE).match(/<[^<>\s]+>/g) ?? []).slice(0, MAX_REFERENCES).map(utf8)

/**
 * Splits an address list (RFC 5322 §3.4) at commas outside quotes, comments and brackets. A group gives its members.
 */
export function splitAddresses(value: string | undefined): string[] {
  if (value === undefined) return []
  const parts: string[] = []
  let part = ''
  let quoted = false
  let depth = 0
  let bracket = ''
  for (let at = 0; at < Math.min(value.length, MAX_VALUE); at++) {
    const character = value.charAt(at)
    if (character === '\\') part += value.charAt(at++)
    else if (character === '"' && depth === 0) quoted = !quoted
    else if (!quoted && character === '(') depth++
    else if (!quoted && character === ')' && depth > 0) depth--
    else if (!quoted && depth === 0 && bracket === '' && (character === '<' || character === '[')) bracket = character
    else if (!quoted && character === (bracket === '<' ? '>' : ']')) bracket = ''
    else if (
      !quoted &&
      depth === 0 &&
      bracket === '' &&
      (character === ',' || character === ';' || character === ':')
    ) {
      // The text before a colon is a group's name.
      if (character !== ':') parts.push(part)
      part = ''
      continue
    }
    part += value[at] ?? ''
  }
  return [...parts, part].map((each) => each.trim()).filter((each) => each !== '')
}

/** Reads the parts of a message. `take` gets each attachment in order, and reads or skips its content. */
async function walk(
  message: Buffer,
  take: (attachment: AttachmentStream, index: number) => Promise<boolean>,
): Promise<MessageText | undefined> {
  const parser = new MailParser({
    skipHtmlToText: true,
    skipTextToHtml: true,
    skipImageLinks: true,
    skipTextLinks: true,
    checksumAlgo: false,
  })
  let text: MessageText | undefined
  let index = 0
  const feed = async (): Promise<void> => {
    for (let at = 0; at < message.length; at += CHUNK)
      if (parser.destroyed) return
      else if (!parser.write(message.subarray(at, at + CHUNK)))
        await new Promise<void>((resolve) => {
          const goOn = (): void => {
            parser.off('drain', goOn).off('close', goOn)
            resolve()
          }
          parser.on('drain', goOn).on('close', goOn)
        })
    parser.end()
  }
  const fed = feed()
  for await (const part of parser as AsyncIterable<AttachmentStream | MessageText>) {
    if (part.type === 'text') text = part
    else {
      const more = await take(part, ++index)
      part.release?.()
      if (!more) {
        parser.destroy()
        return text
      }
    }
  }
  await fed
  return text
}

/** Octets at the beginning of a file that show its type. */
const HEAD = 64

/**
 * Reads the body of a message and the list of its attachments.
 * `inspect` is called for each attachment with its first octets.
 */
export async function parseBody(
  message: Buffer,
  inspect?: (attachment: InboundAttachment, head: Buffer) => void,
): Promise<ParsedBody> {
  const plain = plainBody(message)
  return plain ? { ...plain, attachments: [] } : readWhole(message, inspect)
}

/** Reads the body only with the library, even if `plainBody` could read it. */
export async function readWhole(
  message: Buffer,
  inspect?: (attachment: InboundAttachment, head: Buffer) => void,
): Promise<ParsedBody> {
  const attachments: InboundAttachment[] = []
  const text = await walk(message, async (attachment, index) => {
    let size = 0
    let head = Buffer.alloc(0)
    for await (const chunk of bytesOf(attachment)) {
      size += chunk.length
      if (head.length < HEAD) head = Buffer.concat([head, chunk.subarray(0, HEAD)])
    }
    const found: InboundAttachment = {
      id: String(index),
      filename: attachment.filename ? oneLine(attachment.filename) : null,
      content_type: oneLine(attachment.contentType || 'application/octet-stream'),
      size,
      content_id: attachment.cid ? oneLine(attachment.cid) : null,
      disposition: attachment.contentDisposition === 'inline' || attachment.related ? 'inline' : 'attachment',
    }
    attachments.push(found)
    inspect?.(found, head)
    return true
  })
  return { text: whole(text?.text), html: whole(text?.html), attachments }
}

/** The bytes of one attachment; undefined when the message has none of that number. */
export async function attachmentOf(message: Buffer, id: string): Promise<Buffer | undefined> {
  let found: Buffer | undefined
  await walk(message, async (attachment, index) => {
    const wanted = String(index) === id
    const chunks: Buffer[] = []
    for await (const chunk of bytesOf(attachment)) if (wanted) chunks.push(chunk)
    if (wanted) found = Buffer.concat(chunks)
    return !wanted
  })
  return found
}

const oneLine = (text: string): string => forLine(text).slice(0, 1000).toWellFormed()

const bytesOf = ({ content }: AttachmentStream): AsyncIterable<Buffer> => content as unknown as AsyncIterable<Buffer>

/** Text cut to its limit; null when it is absent or empty. */
const whole = (text: string | boolean | undefined): string | null =>
  typeof text === 'string' ? text.slice(0, MAX_TEXT).replaceAll('\0', '').toWellFormed() || null : null
