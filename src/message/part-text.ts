// References to texts in a message. The API's text of a received or submitted email is not stored a second time, but
// read from the message.
import { parseTree, partsOf, type MimePart } from './mime-tree.ts'

/** A text that is the content of a part. `part` is its index in `partsOf`. */
export interface PartText {
  part: number
}

/** A text of a message: the text itself, the part that contains it, or null. */
export type MailText = string | PartText | null

const AS_IS = new Set(['7bit', '8bit', 'binary'])

/** The text of a part without a transfer encoding and with ASCII alone, lines ended by LF, or undefined for others. */
function asciiOf(message: Buffer, { encoding, end, start }: MimePart): string | undefined {
  if (!AS_IS.has(encoding)) return undefined
  const text = message.toString('latin1', start, end)
  return /[^\0-\x7f]/.test(text) ? undefined : text.replaceAll('\r\n', '\n')
}

/** Replaces texts by the parts that hold exactly them. */
export function referTo<Texts extends { html: string | null; text: string | null }>(
  message: Buffer,
  tree: MimePart,
  texts: Texts,
): Omit<Texts, 'html' | 'text'> & { html: MailText; text: MailText } {
  const parts = partsOf(tree).map((node) => (node.children.length > 0 ? undefined : asciiOf(message, node)))
  const referred = (text: string | null): MailText => {
    const part = text === null ? -1 : parts.indexOf(text)
    return part < 0 ? text : { part }
  }
  return { ...texts, html: referred(texts.html), text: referred(texts.text) }
}

/** A text in two columns: itself, or the index of its part. */
export const textOf = (text: MailText): string | null => (typeof text === 'string' ? text : null)
export const partOf = (text: MailText): number | null => (typeof text === 'object' ? (text?.part ?? null) : null)

/**
 * A text of a received message from its two columns. `message` is called only if the text must be read from the
 * message.
 */
export const storedText = (text: string | null, part: number | null, message: () => Uint8Array): string | null =>
  mailText(part === null ? text : { part }, () => Buffer.from(message()))

/** The text itself, or null if the message no longer has its part. `message` is called only if it is needed. */
export function mailText(text: MailText, message: () => Buffer): string | null {
  if (text === null || typeof text === 'string') return text
  try {
    const bytes = message()
    const node = partsOf(parseTree(bytes))[text.part]
    return (node && asciiOf(bytes, node)) ?? null
  } catch {
    // A corrupt body: the rest of the email is still shown.
    return null
  }
}
