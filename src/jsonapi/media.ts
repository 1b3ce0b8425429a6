// Media types (specification "Wire conventions", D4). One parser reads Accept and Content-Type (RFC 9110 §8.3.1,
// §12.5.1). Parameter values may be quoted and contain commas and semicolons. `q` is a weight, not a parameter of the
// type.
import { refuse } from '../base/errors.ts'

export const JSON_API = 'application/vnd.api+json'

interface MediaType {
  name: string
  parameters: Map<string, string>
  q: number
}

/** Splits at a separator outside quoted strings. */
function split(text: string, separator: string): string[] {
  const parts: string[] = []
  let start = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (quoted && character === '\\') i++
    else if (character === '"') quoted = !quoted
    else if (character === separator && !quoted) {
      parts.push(text.slice(start, i))
      start = i + 1
    }
  }
  parts.push(text.slice(start))
  return parts
}

function parseMediaType(text: string, weighted: boolean): MediaType {
  const [name = '', ...rest] = split(text, ';').map((part) => part.trim())
  const parameters = new Map<string, string>()
  let q = 1
  for (const part of rest) {
    if (part === '') continue
    const at = part.indexOf('=')
    const key = (at < 0 ? part : part.slice(0, at)).trim().toLowerCase()
    const value = at < 0 ? '' : part.slice(at + 1).trim()
    // Parameters after q are extensions of Accept, not of the media type (RFC 9110 §12.5.1).
    if (weighted && key === 'q') {
      q = /^(?:0(?:\.\d{0,3})?|1(?:\.0{0,3})?)$/.test(value) ? Number(value) : 1
      break
    }
    parameters.set(key, value)
  }
  return { name: name.toLowerCase(), parameters, q }
}

const onlyProfile = ({ parameters }: MediaType): boolean => [...parameters.keys()].every((key) => key === 'profile')

/** Throws 406 if Accept names the JSON:API type, but only with parameters that this server does not support. */
export function checkAccept(accept: string | undefined): void {
  if (!accept) return
  const instances = split(accept, ',')
    .map((instance) => parseMediaType(instance, true))
    .filter(({ name }) => name === JSON_API)
  if (instances.length === 0 || instances.some((instance) => onlyProfile(instance) && instance.q > 0)) return
  throw refuse(
    'not_acceptable',
    `The Accept header does not allow ${JSON_API} without parameters other than profile. Add it.`,
    {
      header: 'Accept',
    },
  )
}

/** Throws 415 unless the body is JSON:API with no media type parameter but profile. */
export function checkContentType(contentType: string | undefined): void {
  const type = parseMediaType(contentType ?? '', false)
  if (type.name === JSON_API && onlyProfile(type)) return
  throw refuse(
    'unsupported_media_type',
    `The Content-Type is not supported. Send ${JSON_API} without parameters other than profile.`,
    {
      header: 'Content-Type',
    },
  )
}
