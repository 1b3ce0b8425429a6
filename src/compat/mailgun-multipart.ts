// Reads forms (RFC 7578, WHATWG URL) as lists of fields. Files stay parts of the body's bytes, because the parser of
// the runtime copies them several times.
import { isUtf8 } from 'node:buffer'
import { knownCharset, textIn } from '../message/charset.ts'
import { parseParameters } from '../message/mime-tree.ts'
import { CompatError, invalid } from './kit.ts'

/** A file of a form. */
export interface FormFile {
  filename: string
  /** Its media type, or '' without one. */
  type: string
  bytes: Buffer
}

const MAX_PART_HEADER = 16 * 1024
const LINE = Buffer.from('\r\n')

const malformed = (): CompatError => {
  const detail = 'The body must be a form: application/x-www-form-urlencoded or multipart/form-data.'
  return new CompatError(400, [{ code: 'invalid_document', detail, field: undefined }])
}

/** The fields of a form in their order. Throws a CompatError. */
export function fieldsIn(bytes: Buffer, contentType: string): [name: string, value: string | FormFile][] {
  const { params, value } = parseParameters(contentType)
  if (/^application\/x-www-form-urlencoded$/i.test(value)) return urlencoded(bytes, params.get('charset'))
  const boundary = params.get('boundary') ?? ''
  if (!/^multipart\/form-data$/i.test(value) || boundary === '') throw malformed()
  return partsIn(bytes, boundary).map(({ header, content }) => fieldOf(header, content))
}

/** Bytes as text in the charset of a field, which is UTF-8 by default. Throws a CompatError. */
function decoded(name: string, bytes: Buffer, charset = 'utf-8'): string {
  const known = /^(?:us-)?ascii$/i.test(charset) ? 'utf-8' : knownCharset(charset)
  if (known === undefined)
    throw invalid(name, `The charset "${charset.slice(0, 40)}" of "${name}" is not known. Send the form in UTF-8.`)
  if (known !== 'utf-8') return textIn(bytes, known)
  if (!isUtf8(bytes)) throw invalid(name, `"${name}" is not valid UTF-8. Send the form in UTF-8.`)
  return bytes.toString()
}

function urlencoded(bytes: Buffer, charset: string | undefined): [string, string][] {
  const fields: [string, string][] = []
  for (let at = 0; at < bytes.length;) {
    const [end, equals] = [indexOr(bytes, '&', at, bytes.length), bytes.indexOf('=', at)]
    const middle = equals >= 0 && equals < end ? equals : end
    const name = decoded('name', unescaped(bytes.subarray(at, middle)), charset)
    if (end > at) fields.push([name, decoded(name, unescaped(bytes.subarray(middle + 1, end)), charset)])
    at = end + 1
  }
  return fields
}

function indexOr(bytes: Buffer, text: string, from: number, without: number): number {
  const index = bytes.indexOf(text, from)
  return index < 0 ? without : index
}

const [PERCENT, PLUS, SPACE] = [0x25, 0x2b, 0x20]

/** The bytes that an urlencoded text stands for. */
function unescaped(text: Buffer): Buffer {
  if (!text.includes(PERCENT) && !text.includes(PLUS)) return text
  const out = Buffer.allocUnsafe(text.length)
  let length = 0
  for (let at = 0; at < text.length; at++) {
    const byte = text[at] ?? 0
    const high = byte === PERCENT ? hexOf(text[at + 1]) : -1
    const low = high < 0 ? -1 : hexOf(text[at + 2])
    if (low >= 0) {
      out[length++] = high * 16 + low
      at += 2
    } else out[length++] = byte === PLUS ? SPACE : byte
  }
  return out.subarray(0, length)
}

/** The value of a hexadecimal digit, or -1. */
function hexOf(byte = 0): number {
  if (byte >= 0x30 && byte <= 0x39) return byte - 0x30
  const letter = (byte | 0x20) - 0x61
  return letter >= 0 && letter < 6 ? letter + 10 : -1
}

/** The parts of a multipart body. Throws a CompatError. */
function partsIn(bytes: Buffer, boundary: string): { header: Buffer; content: Buffer }[] {
  const between = Buffer.from(`\r\n--${boundary}`)
  const parts: { header: Buffer; content: Buffer }[] = []
  const first = between.subarray(LINE.length)
  if (!bytes.subarray(0, first.length).equals(first)) throw malformed()
  for (let at = first.length; ;) {
    if (bytes.toString('latin1', at, at + 2) === '--') return parts
    const end = bytes.indexOf(between, at)
    const head = bytes.subarray(at, at + MAX_PART_HEADER).indexOf('\r\n\r\n')
    const from = at + head + 2 * LINE.length
    if (end < 0 || head <= 0 || from > end || !bytes.subarray(at, at + LINE.length).equals(LINE)) throw malformed()
    parts.push({ header: bytes.subarray(at + LINE.length, at + head), content: bytes.subarray(from, end) })
    at = end + between.length
  }
}

/** A parameter of Content-Disposition, as browsers, curl and clients with RFC 5987 write it. */
function parameterIn(params: ReadonlyMap<string, string>, name: 'name' | 'filename'): string | undefined {
  const extended = params.get(`${name}*`)
  return extended === undefined
    ? params.get(name)?.replace(/%(?:22|0d|0a)/gi, (code) => percentDecoded(`utf-8''${code}`))
    : percentDecoded(extended)
}

/** A value of RFC 5987, such as utf-8''%c3%a4. */
function percentDecoded(extended: string): string {
  const [, text = ''] = /^utf-8'[\w-]*'(.*)$/i.exec(extended) ?? []
  try {
    return decodeURIComponent(text)
  } catch {
    throw malformed()
  }
}

function fieldOf(header: Buffer, content: Buffer): [string, string | FormFile] {
  const lines = decoded('name', header).split('\r\n')
  const valueOf = (field: string): string | undefined =>
    lines
      .find((line) => line.toLowerCase().startsWith(`${field}:`))
      ?.slice(field.length + 1)
      .trim()
  const { params, value } = parseParameters(valueOf('content-disposition') ?? '')
  const name = /^form-data$/i.test(value) ? parameterIn(params, 'name') : undefined
  if (name === undefined) throw malformed()
  const encoding = valueOf('content-transfer-encoding') ?? 'binary'
  const isBase64 = /^base64$/i.test(encoding)
  if (!isBase64 && !/^(?:7bit|8bit|binary)$/i.test(encoding))
    throw invalid(name, `"${name}" must not have the Content-Transfer-Encoding "${encoding.slice(0, 40)}".`)
  const bytes = isBase64 ? Buffer.from(content.toString('latin1'), 'base64') : content
  const type = valueOf('content-type') ?? ''
  const filename = parameterIn(params, 'filename')
  if (filename !== undefined) return [name, { filename, type, bytes }]
  return [name, decoded(name, bytes, parseParameters(type).params.get('charset'))]
}
