// The text of an XML report in pieces. Bytes that are invalid in its encoding become U+FFFD and are reported.
import { UnreadableReport } from './report.ts'

/** Bytes that are decoded at a time. */
const STEP = 64 * 1024
/** The XML declaration is in the first bytes. */
const DECLARATION = 256

export interface DecodedText {
  pieces: Iterable<string>
  /** Whether bytes were replaced. Call it after all pieces were read. */
  replaced: () => boolean
}

/** Whether text starts with the byte order mark of UTF-16. */
export const isUtf16 = (bytes: Buffer): boolean =>
  (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff)

/** A decoder by the byte order mark, otherwise by the XML declaration. */
function decoderOf(bytes: Buffer): TextDecoder {
  if (isUtf16(bytes)) return new TextDecoder(bytes[0] === 0xff ? 'utf-16le' : 'utf-16be')
  const head = bytes.toString('latin1', 0, DECLARATION)
  const [, name = 'utf-8'] = /^\s*<\?xml\b[^>]*?\bencoding\s*=\s*["']([\w.:-]{1,40})["']/.exec(head) ?? []
  // Text with a readable declaration and without a mark is not UTF-16, and ASCII is part of UTF-8.
  if (/^(?:utf-16|us-ascii|ascii)/i.test(name)) return new TextDecoder('utf-8')
  try {
    return new TextDecoder(name)
  } catch {
    throw new UnreadableReport('malformed', false)
  }
}

export function textOfXml(bytes: Buffer): DecodedText {
  const decoder = decoderOf(bytes)
  let replaced = false
  function* decode(): Iterable<string> {
    for (let at = 0; at < bytes.length; at += STEP) {
      const piece = decoder.decode(bytes.subarray(at, at + STEP), { stream: at + STEP < bytes.length })
      replaced ||= piece.includes('\ufffd')
      yield piece
    }
  }
  return { pieces: decode(), replaced: () => replaced }
}
