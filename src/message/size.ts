// How large a mail will be once it is encoded, told without composing it: what "under 40 MB" is measured by.
import { textPart } from './mime.ts'
import { mostOctets } from './octets.ts'

/** Octets that a message may not reach. */
export const MAX_MESSAGE = 40 * 1024 * 1024

/** Above this many characters of html nobody reads a text made of it, and making it would take long. */
export const MAX_CONVERTED = 1024 * 1024

/** Header fields of ours, the signature, part headers and boundaries, generously. */
const FRAME = 4096
const PART = 1024

export interface Sized {
  html: string
  text: string | null
  headers: readonly (readonly [string, string])[]
  attachments: readonly { size: number }[]
}

/** An upper bound: within some kilobytes of the truth, but for attachments of ASCII text, which are counted as their longest form. */
export function encodedSize({ html, text, headers, attachments }: Sized): number {
  const parts = attachments.reduce((sum, { size }) => sum + mostOctets(size) + PART, 0)
  const own = headers.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0)
  // Where even the worst case fits nothing needs to be encoded to know.
  const texts = html.length + (text ?? html).length
  const rest = FRAME + parts + own
  if (rest + texts * 9.2 < MAX_MESSAGE) return rest + texts
  // A text that will be made from the html is no longer than what it is made from.
  return rest + textOctets(html) + textOctets(text ?? html.slice(0, MAX_CONVERTED))
}

const textOctets = (text: string): number =>
  [...textPart('plain', text).body()].reduce((sum, piece) => sum + piece.length, 0)
