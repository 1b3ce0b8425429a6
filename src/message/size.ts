// The size of an email once it is encoded, computed without composing it, for the limit of 40 MB.
import { mostBytes } from './bytes.ts'
import { quotedPrintableSize } from './quoted-printable.ts'
import { MAX_MESSAGE } from './too-large.ts'

export { MAX_MESSAGE } from './too-large.ts'

/** The most characters of html that are converted to text: more would take long. */
export const MAX_CONVERTED = 1024 * 1024

/** A generous number of bytes for our header fields, the signature, and each part's header and boundary. */
const FRAME = 4096
const PART = 1024
/** The most bytes that a byte of text becomes in quoted-printable, soft line breaks included. */
const MOST_ENCODED = 3.2

export interface Sized {
  html: string
  text: string | null
  headers: readonly (readonly [string, string])[]
  attachments: readonly { size: number }[]
}

/**
 * The upper limit of an email's size in bytes. Near the limit of 40 MB it is exact to some kilobytes. Below that, texts
 * are assumed to have their longest form instead of being read.
 */
export function encodedSize({ html, text, headers, attachments }: Sized): number {
  const parts = attachments.reduce((sum, { size }) => sum + mostBytes(size) + PART, 0)
  const own = headers.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0)
  // If even the worst case fits, the texts need not be encoded.
  const rest = FRAME + parts + own
  const most = rest + (Buffer.byteLength(html) + Buffer.byteLength(text ?? html)) * MOST_ENCODED
  if (most < MAX_MESSAGE) return most
  // A text made from the html is no longer than the html.
  return rest + quotedPrintableSize(html) + quotedPrintableSize(text ?? html.slice(0, MAX_CONVERTED))
}
