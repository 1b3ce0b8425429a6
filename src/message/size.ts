// The size of a mail once it is encoded, computed without composing it, for the limit of 40 MB.
import { textPart } from './mime.ts'
import { mostOctets } from './octets.ts'

/** A message must have fewer octets than this. */
export const MAX_MESSAGE = 40 * 1024 * 1024

/** The most characters of html that a text is made from: more would take long. */
export const MAX_CONVERTED = 1024 * 1024

/** Octets allowed for our header fields, the signature, and each part's header and boundary; generous. */
const FRAME = 4096
const PART = 1024

export interface Sized {
  html: string
  text: string | null
  headers: readonly (readonly [string, string])[]
  attachments: readonly { size: number }[]
}

/**
 * The size in octets that a mail has at most, within some kilobytes. Attachments of ASCII text are counted in their
 * longest form.
 */
export function encodedSize({ html, text, headers, attachments }: Sized): number {
  const parts = attachments.reduce((sum, { size }) => sum + mostOctets(size) + PART, 0)
  const own = headers.reduce((sum, [name, value]) => sum + name.length + value.length + 4, 0)
  // When even the worst case fits, nothing needs to be encoded.
  const texts = html.length + (text ?? html).length
  const rest = FRAME + parts + own
  if (rest + texts * 9.2 < MAX_MESSAGE) return rest + texts
  // A text made from the html is no longer than the html.
  return rest + textOctets(html) + textOctets(text ?? html.slice(0, MAX_CONVERTED))
}

const textOctets = (text: string): number =>
  [...textPart('plain', text).body()].reduce((sum, piece) => sum + piece.length, 0)
