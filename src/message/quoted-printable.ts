// Quoted-printable (RFC 2045 §6.7) over bytes. Written for speed: for most messages only the signature takes more time.

const HEX = Buffer.from('0123456789ABCDEF')
const MAX_LINE = 76
const [CR, LF, TAB, SPACE, EQUALS, DOT, F] = [13, 10, 9, 32, 61, 46, 70]

/**
 * Encodes text whose line ends are CRLF. Lines are at most 76 bytes. Bytes other than printable ASCII are escaped. With
 * 'latin1' each character is one byte. With `lines` a soft line break follows each LF that has no CR.
 */
export function encodeQuotedPrintable(text: string, as: 'utf8' | 'latin1' = 'utf8', lines = false): string {
  const input = Buffer.from(text, as)
  // Every byte may become three, and each 73 a soft line break of three. With `lines` each byte may have one.
  const room = input.length * (lines ? 6 : 3)
  const output = Buffer.allocUnsafe(room + Math.ceil((input.length * 3) / (MAX_LINE - 3)) * 3 + 3)
  let at = 0
  let column = 0
  for (let i = 0; i < input.length; i++) {
    const byte = input[i]!
    if (byte === CR && input[i + 1] === LF) {
      output[at++] = CR
      output[at++] = LF
      column = 0
      i++
      continue
    }
    const atEnd = i + 1 === input.length || (input[i + 1] === CR && input[i + 2] === LF)
    // Other software may strip white space at a line's end, and change "From " and "." at its start.
    const literal =
      byte > SPACE && byte < 127 && byte !== EQUALS
        ? column > 0 || (byte !== DOT && byte !== F)
        : (byte === SPACE || byte === TAB) && !atEnd
    if (column + (literal ? 1 : 3) > MAX_LINE - (atEnd ? 0 : 1)) {
      output[at++] = EQUALS
      output[at++] = CR
      output[at++] = LF
      column = 0
      i--
      continue
    }
    if (literal) {
      output[at++] = byte
      column++
    } else {
      output[at++] = EQUALS
      output[at++] = HEX[byte >> 4]!
      output[at++] = HEX[byte & 15]!
      column += 3
    }
    if (lines && byte === LF && !atEnd) {
      output[at++] = EQUALS
      output[at++] = CR
      output[at++] = LF
      column = 0
    }
  }
  return output.toString('latin1', 0, at)
}

const SOFT = '=\r\n'

/**
 * Encodes a piece of a text so that any other piece can follow: the result ends with a line end, a soft one if the text
 * has none.
 */
export function encodePiece(text: string, lines = false): string {
  if (text === '') return ''
  // The letter at the end reserves space on the last line for the soft line break, which replaces it.
  const body = encodeQuotedPrintable(`${text}x`, 'utf8', lines).slice(0, -1)
  return body.endsWith(SOFT) ? body : body + SOFT
}

/** The most bytes of `encodeQuotedPrintable` for a text with any line ends. */
export function quotedPrintableSize(text: string): number {
  const input = Buffer.from(text)
  let size = 3
  let column = 0
  for (let i = 0; i < input.length; i++) {
    const byte = input[i]!
    if (byte === LF || byte === CR) {
      size += 2
      column = 0
      continue
    }
    const next = input[i + 1]
    const literal =
      byte > SPACE && byte < 127 && byte !== EQUALS
        ? column > 0 || (byte !== DOT && byte !== F)
        : (byte === SPACE || byte === TAB) && next !== undefined && next !== CR && next !== LF
    const width = literal ? 1 : 3
    if (column + width >= MAX_LINE) {
      size += 3
      column = 0
    }
    column += width
    size += width
  }
  return size
}
