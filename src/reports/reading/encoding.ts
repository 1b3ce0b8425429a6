// The text of an XML report in pieces: octets that are wrong in their encoding become U+FFFD, and are told.
import { isAscii, isUtf8 } from 'node:buffer'
import { UnreadableReport } from './report.ts'

/** Octets that are decoded at a time. */
const STEP = 64 * 1024
/** The XML declaration is looked for in so many octets. */
const DECLARATION = 256

export interface DecodedText {
  pieces: Iterable<string>
  /** Whether octets were replaced; asked when all pieces were read. */
  replaced: () => boolean
}

type XmlEncoding = 'utf-8' | 'utf-16le' | 'utf-16be' | 'latin1' | 'windows-1252'

const NAMES: Record<string, XmlEncoding> = {
  '': 'utf-8',
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  // ASCII is a part of UTF-8. A text in UTF-16 has a mark: without it, the declaration could not be read.
  'us-ascii': 'utf-8',
  ascii: 'utf-8',
  'utf-16': 'utf-8',
  'iso-8859-1': 'latin1',
  latin1: 'latin1',
  'windows-1252': 'windows-1252',
  cp1252: 'windows-1252',
}

/** The encoding by its mark, else by the XML declaration. */
function encodingOf(octets: Buffer): XmlEncoding {
  if (octets[0] === 0xff && octets[1] === 0xfe) return 'utf-16le'
  if (octets[0] === 0xfe && octets[1] === 0xff) return 'utf-16be'
  const head = octets.toString('latin1', 0, DECLARATION)
  if (head.startsWith('\xef\xbb\xbf')) return 'utf-8'
  const [, name = ''] = /^\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([\w.:-]{0,40})["']/.exec(head) ?? []
  const found = Object.hasOwn(NAMES, name.toLowerCase()) ? NAMES[name.toLowerCase()] : undefined
  if (found === undefined) throw new UnreadableReport('malformed', false)
  return found
}

/** Whether text begins in one of the two forms of UTF-16. */
export const isUtf16 = (octets: Buffer): boolean =>
  (octets[0] === 0xff && octets[1] === 0xfe) || (octets[0] === 0xfe && octets[1] === 0xff)

function* decode(octets: Buffer, encoding: XmlEncoding, seen: (piece: string) => void): Iterable<string> {
  const decoder = encoding === 'latin1' ? undefined : new TextDecoder(encoding)
  for (let at = 0; at < octets.length; at += STEP) {
    const slice = octets.subarray(at, at + STEP)
    const piece = decoder ? decoder.decode(slice, { stream: at + STEP < octets.length }) : slice.toString('latin1')
    seen(piece)
    yield piece
  }
}

export function textOfXml(octets: Buffer): DecodedText {
  const encoding = encodingOf(octets)
  let replaced = encoding === 'utf-8' && !isAscii(octets) && !isUtf8(octets)
  const pieces = decode(octets, encoding, (piece) => {
    if (encoding.startsWith('utf-16')) replaced ||= piece.includes('\ufffd')
  })
  return { pieces, replaced: () => replaced }
}
