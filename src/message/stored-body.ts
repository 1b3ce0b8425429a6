// The body of an email as it is stored. As a file of the spool it is one line of JSON, followed by the bytes of the
// texts, so that large texts need no escaping and parsing. Files with the texts in the JSON are read, too: earlier
// versions wrote them, and texts that UTF-8 cannot hold are still written so.
import { isAscii } from 'node:buffer'
import type { Unsubscribe } from './list-unsubscribe.ts'
import type { Attachment } from './mime.ts'
import type { MailText } from './part-text.ts'

/** The position of a part of the email: in the job, or in a file. */
export type StoredText = { text: string } | { file: string }

export interface StoredAttachment extends Attachment {
  /** Base64 when in the job, bytes when in a file. */
  content: StoredText
  size: number
}

export type StoredBody = WrittenBody | SubmittedBody

/** The body of a composed email. */
export interface WrittenBody {
  html: string
  text: string | null
  /** The sender's own header fields. */
  headers?: [name: string, value: string][]
  attachments?: StoredAttachment[]
  unsubscribe?: Unsubscribe
  raw?: never
}

/** The body of an email from SMTP submission, which is sent as its bytes are. */
export interface SubmittedBody {
  /** The API's texts of the bytes. */
  html: MailText
  text: MailText
  headers?: never
  unsubscribe?: never
  attachments?: StoredAttachment[]
  /** The bytes, in the job as latin1 characters. */
  raw: StoredText
}

const LF = 10

/** A text behind the line, by the number of its bytes. */
interface Behind {
  octets: number
}

const isBehind = (text: unknown): text is Behind => typeof text === 'object' && text !== null && 'octets' in text

export function writeBody(body: WrittenBody): Buffer<ArrayBuffer> {
  const texts = [body.html, body.text].map((text) =>
    text !== null && text.isWellFormed() ? { text, octets: Buffer.byteLength(text) } : { text, octets: undefined },
  )
  const [html, text] = texts.map((each) => (each.octets === undefined ? each.text : { octets: each.octets }))
  const line = `${JSON.stringify({ ...body, html, text })}\n`
  const lineBytes = Buffer.byteLength(line)
  const whole = Buffer.allocUnsafeSlow(texts.reduce((sum, { octets = 0 }) => sum + octets, lineBytes))
  let at = whole.write(line)
  // ASCII is copied, not encoded.
  for (const { octets, text: behind } of texts)
    if (octets !== undefined && behind !== null)
      at += whole.write(behind, at, octets === behind.length ? 'latin1' : 'utf8')
  return whole
}

/** The body in a file. Throws when the file is not one of these. */
export function readBody(file: Buffer): StoredBody {
  const end = file.indexOf(LF)
  const body = JSON.parse(textOf(end < 0 ? file : file.subarray(0, end))) as StoredBody
  let at = end + 1
  const own = <Text>(text: Text | Behind): Text | string => {
    if (!isBehind(text)) return text
    const octets = file.subarray(at, at + text.octets)
    if (octets.length !== text.octets) throw new Error('A text of a body is cut off.')
    at += text.octets
    return textOf(octets)
  }
  return { ...body, html: own(body.html), text: own(body.text) } as StoredBody
}

const textOf = (octets: Buffer): string => octets.toString(isAscii(octets) ? 'latin1' : 'utf8')
