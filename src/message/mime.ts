// MIME structure (RFC 2045, RFC 2046, RFC 2183, RFC 2387): a message body as a tree of parts, written out as pieces of text.
// Pieces and not one string, because a mail may have 40 MB.
import { release } from '../base/memory.ts'
import { headerField } from './headers.ts'
import { encodeQuotedPrintable } from './quoted-printable.ts'

/** A part: its header fields and its body, each piece ending with CRLF. */
export interface Part {
  header: string
  body: () => Iterable<string>
}

const MAX_PLAIN_LINE = 998
/** Bytes encoded at a time: a multiple of 57, which make a line of 76. */
const BASE64_STEP = 57 * 4096

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
  if (/[^\t\r\n\x20-\x7e]/.test(text) || /^(?:From |\.)/m.test(text) || /[ \t]\r$/m.test(text) || !/\S/.test(text))
    return false
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

/** A part of bytes in base64. `bytes` is asked when its turn comes, so that one attachment at a time is in memory. */
export function attachmentPart(
  { filename, contentType, contentId, disposition }: Attachment,
  bytes: () => Buffer,
): Part {
  // A message inside a message may not be encoded (RFC 2046 §5.2.1), and as it came it could break the signature.
  const type = /^(?:message|multipart)\//i.test(contentType) ? 'application/octet-stream' : contentType
  return {
    header:
      headerField('Content-Type', `${type}${fallback('name', filename)}`) +
      headerField('Content-Disposition', `${disposition}${parameter('filename', filename)}`) +
      (contentId === null ? '' : headerField('Content-ID', `<${contentId}>`)) +
      'Content-Transfer-Encoding: base64\r\n',
    *body() {
      const content = bytes()
      if (content.length === 0) yield '\r\n'
      for (let at = 0; at < content.length; at += BASE64_STEP)
        yield content
          .subarray(at, at + BASE64_STEP)
          .toString('base64')
          .replace(/.{1,76}/g, '$&\r\n')
      release(content)
    },
  }
}

const isSimple = (value: string): boolean => /^[\x20-\x7e]*$/.test(value) && value.length <= 60 && !value.includes('=?')
const quoted = (key: string, value: string): string => `; ${key}="${value.replace(/["\\]/g, '\\$&')}"`

/** `; name="report.pdf"`; a plain ASCII likeness of what is not short ASCII, for readers that know no better. */
function fallback(key: string, value: string): string {
  return quoted(key, isSimple(value) ? value : value.replace(/[^\x20-\x7e]|["\\?]/g, '_').slice(0, 60))
}

/** `; filename="report.pdf"`; what is not short ASCII as RFC 2231 has it. Never both under one key: that is a defect. */
function parameter(key: string, value: string): string {
  if (isSimple(value)) return quoted(key, value)
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
  const whole =
    pieces.length === 1
      ? [`${key}*=utf-8''${pieces[0]}`]
      : pieces.map((piece, index) => `${key}*${index}*=${index === 0 ? "utf-8''" : ''}${piece}`)
  return ['', ...whole].join('; ')
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
