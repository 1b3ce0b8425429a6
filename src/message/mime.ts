// Writes MIME parts (RFC 2045, RFC 2046, RFC 2183, RFC 2387): a body as a tree of parts, given out as pieces of text.
// Pieces rather than one string, because a message may have 40 MB.
import { release } from '../base/memory.ts'
import { headerField } from './headers.ts'
import { CHANGED, encodeBytes, encodingOf, MAX_PLAIN_LINE, type Encoding, scan, TRAILING, WIDE } from './bytes.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'

/** A part: its header fields and its body, each piece ending with CRLF. The header is read just before the body. */
export interface Part {
  readonly header: string
  body: () => Iterable<string>
}

/**
 * A text part in UTF-8, in the simplest transfer encoding that keeps it intact (RFC 2045 §6).
 * Any line ends are accepted.
 */
export function textPart(subtype: 'plain' | 'html', content: string): Part {
  const lines = content.includes('\r') ? content.replace(/\r\n?|\n/g, '\r\n') : content.replaceAll('\n', '\r\n')
  const whole = lines.endsWith('\r\n') ? lines : `${lines}\r\n`
  const plain = isPlain(whole)
  return {
    header:
      `Content-Type: text/${subtype}; charset=utf-8\r\n` +
      `Content-Transfer-Encoding: ${plain ? '7bit' : 'quoted-printable'}\r\n`,
    body() {
      if (plain) return [whole]
      const encoded = encodeQuotedPrintable(whole)
      // Signers and verifiers disagree about a body without visible characters. A soft line break is visible.
      return [/\S/.test(encoded) ? encoded : `=\r\n${encoded}`]
    },
  }
}

/** Where a text is looked at as bytes: memory of its own for each would cost as much as the look. */
const SCRATCH = Buffer.allocUnsafeSlow(128 * 1024)

/** True when text needs no encoding: printable ASCII, short lines, no line that other software would change. */
function isPlain(text: string): boolean {
  if (Buffer.byteLength(text) !== text.length) return false
  const octets = text.length <= SCRATCH.length ? SCRATCH.subarray(0, SCRATCH.write(text, 'latin1')) : Buffer.from(text)
  if ((scan(octets) & (WIDE | TRAILING)) !== 0 || CHANGED.test(text) || !/\S/.test(text)) return false
  let start = 0
  for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n', start)) {
    if (end - start > MAX_PLAIN_LINE) return false
    start = end + 2
  }
  return true
}

export interface Attachment {
  filename: string
  contentType: string
  /** Without angle brackets. Set for files that the html shows by a cid: URL. */
  contentId: string | null
  disposition: 'attachment' | 'inline'
}

/** A part of bytes. `bytes` is called when the part is written, so that only one attachment at a time is in memory. */
export function attachmentPart(
  { filename, contentType, contentId, disposition }: Attachment,
  bytes: () => Buffer,
): Part {
  // A message inside a message may not be encoded (RFC 2046 §5.2.1), and unencoded it could break the signature.
  const type = /^(?:message|multipart)\//i.test(contentType) ? 'application/octet-stream' : contentType
  const read = (): { content: Buffer; encoding: Encoding } => {
    const content = bytes()
    return { content, encoding: encodingOf(type, content) }
  }
  let taken: ReturnType<typeof read> | undefined
  return {
    get header() {
      taken ??= read()
      return (
        structuredField('Content-Type', [type, nameFallback(filename)]) +
        structuredField('Content-Disposition', [disposition, ...fileName(filename)]) +
        (contentId === null ? '' : headerField('Content-ID', `<${contentId}>`)) +
        `Content-Transfer-Encoding: ${taken.encoding}\r\n`
      )
    },
    *body() {
      const { content, encoding } = taken ?? read()
      taken = undefined
      yield* encodeBytes(content, encoding)
      release(content)
    },
  }
}

/** A field, folded only between its parameters: not all readers unfold inside a quoted name. */
function structuredField(name: string, [value, ...parameters]: readonly string[]): string {
  let field = `${name}: ${value}`
  let end = field.length
  for (const parameter of parameters) {
    const stays = end + parameter.length + 3 <= 76
    field += stays ? `; ${parameter}` : `;\r\n ${parameter}`
    end = (stays ? end + 2 : 1) + parameter.length
  }
  return `${field}\r\n`
}

/** A name that fits on a line, even with each character quoted, and does not look like an encoded word. */
const isSimple = (value: string): boolean => /^[\x20-\x7e]{0,400}$/.test(value) && !value.includes('=?')
const quoted = (key: string, value: string): string => `${key}="${value.replace(/["\\]/g, '\\$&')}"`

/** `name="report.pdf"`. Characters outside ASCII become "_", for old clients. */
const nameFallback = (value: string): string =>
  quoted('name', isSimple(value) ? value : value.replace(/[^\x20-\x7e]|["\\?]/g, '_').slice(0, 60))

/** `filename="report.pdf"`, or the form of RFC 2231 when it is not ASCII. Never both: that would be a defect. */
function fileName(value: string): string[] {
  if (isSimple(value)) return [quoted('filename', value)]
  const pieces: string[] = []
  let piece = ''
  for (const character of value) {
    const encoded = encodeURIComponent(character).replace(
      /[!'()*]/,
      (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
    )
    // No cut inside a character: readers decode each piece alone.
    if (piece.length + encoded.length > 50) {
      pieces.push(piece)
      piece = ''
    }
    piece += encoded
  }
  pieces.push(piece)
  if (pieces.length === 1) return [`filename*=utf-8''${pieces[0]}`]
  return pieces.map((text, index) => `filename*${index}*=${index === 0 ? "utf-8''" : ''}${text}`)
}

/**
 * Joins parts into one (RFC 2046 §5.1). A single part is returned as it is. Encoded text cannot hold the boundary's
 * "=_".
 */
export function multipart(kind: 'alternative' | 'related' | 'mixed', seed: string, parts: readonly Part[]): Part {
  const [only, second] = parts
  if (only !== undefined && second === undefined) return only
  const boundary = `=_${kind.slice(0, 3)}_${seed}`
  const type = kind === 'related' ? '; type="text/html"' : ''
  return {
    header: `Content-Type: multipart/${kind}${type};\r\n boundary="${boundary}"\r\n`,
    *body() {
      for (const part of parts) {
        yield `--${boundary}\r\n${part.header}\r\n`
        yield* part.body()
      }
      yield `--${boundary}--\r\n`
    },
  }
}
