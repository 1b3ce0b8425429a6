// MIME structure (RFC 2045, RFC 2046, RFC 2183, RFC 2387): a message body as a tree of parts, written out as pieces of text.
// Pieces and not one string, because a mail may have 40 MB.
import { release } from '../base/memory.ts'
import { headerField } from './headers.ts'
import { CHANGED, encodeBytes, encodingOf, MAX_PLAIN_LINE, type Encoding } from './octets.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'

/** A part: its header fields and its body, each piece ending with CRLF; the header is asked for just before the body. */
export interface Part {
  readonly header: string
  body: () => Iterable<string>
}

/** A text part in the plainest encoding that carries it unharmed. */
export function textPart(subtype: 'plain' | 'html', content: string): Part {
  const lines = content.replace(/\r\n?|\n/g, '\r\n')
  const whole = lines.endsWith('\r\n') ? lines : `${lines}\r\n`
  const plain = isPlain(whole)
  return {
    header:
      `Content-Type: text/${subtype}; charset=utf-8\r\n` +
      `Content-Transfer-Encoding: ${plain ? '7bit' : 'quoted-printable'}\r\n`,
    body() {
      if (plain) return [whole]
      const encoded = encodeQuotedPrintable(whole)
      // A body without a visible character is where signers and verifiers disagree; a soft line break is visible.
      return [/\S/.test(encoded) ? encoded : `=\r\n${encoded}`]
    },
  }
}

/** True when text may go as it is: printable ASCII, short lines, no line that software on the way would change. */
function isPlain(text: string): boolean {
  if (/[^\t\r\n\x20-\x7e]/.test(text) || CHANGED.test(text) || /[ \t]\r$/m.test(text) || !/\S/.test(text)) return false
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
  /** Without angle brackets; set for what the html shows by cid:. */
  contentId: string | null
  disposition: 'attachment' | 'inline'
}

/** A part of bytes. They are asked for when its turn comes, so that one attachment at a time is in memory. */
export function attachmentPart(
  { filename, contentType, contentId, disposition }: Attachment,
  bytes: () => Buffer,
): Part {
  // A message inside a message may not be encoded (RFC 2046 §5.2.1), and as it came it could break the signature.
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

/** A field whose parameters are folded between them: inside a quoted name not all readers unfold. */
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

/** A name that fits on a line, even with each character quoted, and looks encoded to nobody. */
const isSimple = (value: string): boolean => /^[\x20-\x7e]{0,400}$/.test(value) && !value.includes('=?')
const quoted = (key: string, value: string): string => `${key}="${value.replace(/["\\]/g, '\\$&')}"`

/** `name="report.pdf"`; a plain ASCII likeness of what is not ASCII, for readers that know no better. */
const nameFallback = (value: string): string =>
  quoted('name', isSimple(value) ? value : value.replace(/[^\x20-\x7e]|["\\?]/g, '_').slice(0, 60))

/** `filename="report.pdf"`; what is not ASCII as RFC 2231 has it. Never both under one key: that is a defect. */
function fileName(value: string): string[] {
  if (isSimple(value)) return [quoted('filename', value)]
  const pieces = ['']
  for (const character of value) {
    const encoded = encodeURIComponent(character).replace(
      /[!'()*]/,
      (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`,
    )
    // No cut inside a character: readers decode piece by piece.
    if (pieces.at(-1)!.length + encoded.length > 50) pieces.push('')
    pieces[pieces.length - 1] += encoded
  }
  if (pieces.length === 1) return [`filename*=utf-8''${pieces[0]}`]
  return pieces.map((piece, index) => `filename*${index}*=${index === 0 ? "utf-8''" : ''}${piece}`)
}

/** Parts under one roof. The boundary holds "=_", which neither base64 nor quoted-printable can. */
export function multipart(kind: 'alternative' | 'related' | 'mixed', seed: string, parts: readonly Part[]): Part {
  if (parts.length === 1) return parts[0]!
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
