// Texts that stand in a message as they are: what the API shows of a received or submitted mail is then not stored a
// second time, but read from the mail's octets.
import { parseTree, partsOf, type MimePart } from './mime-tree.ts'

/** A text that is the content of a part; `part` is its index in `partsOf`. */
export interface PartText {
  part: number
}

/** A text of a mail: itself, the part that holds it, or none. */
export type MailText = string | PartText | null

const AS_IS = new Set(['7bit', '8bit', 'binary'])

/** The text of a part without a transfer encoding and with ASCII alone, lines ended by LF; undefined for others. */
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

/** A text of a received message from its two columns; `message` is asked for only when it stands there. */
export const storedText = (text: string | null, part: number | null, message: () => Uint8Array): string | null =>
  mailText(part === null ? text : { part }, () => Buffer.from(message()))

/** A text itself; null when the message no longer has its part. `message` is asked for only when it is needed. */
export function mailText(text: MailText, message: () => Buffer): string | null {
  if (text === null || typeof text === 'string') return text
  try {
    const octets = message()
    const node = partsOf(parseTree(octets))[text.part]
    return (node && asciiOf(octets, node)) ?? null
  } catch {
    // A damaged body: the rest of the mail is still shown.
    return null
  }
}
