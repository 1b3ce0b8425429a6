// Reads the body of a request within two limits, one of its route and one for all bodies in progress. Checks the body
// while it arrives.
import { refuse } from '../base/errors.ts'
import { release, type Budget } from '../base/memory.ts'
import { JsonGuard } from './json-guard.ts'

/** The most octets of a body, unless the route says otherwise (D74). */
export const USUAL_BODY = 1024 * 1024
/** A mail of 40 MB, as base64 in JSON (D5). */
export const MAIL_BODY = 60 * 1024 * 1024
/** A body up to this size is read in one piece. */
const SMALL_BODY = 256 * 1024
/** While it is parsed, a body is in memory twice: as octets and as text. */
const COPIES = 2
/** Seconds to wait after a 503 for lack of memory. */
const RETRY_AFTER = '5'

const utf8 = new TextDecoder('utf-8', { fatal: true })

export interface BodyLimits {
  /** Octets. */
  most: number
  /** Shared by all requests in progress. */
  budget: Budget
}

/**
 * Runs `use` with the body's text; its part of the budget is reserved until `use` ends. Throws a Refusal: 413 beyond
 * the limit (with or without Content-Length), 503 when too many bodies are in progress, 400 when the body is not UTF-8
 * or has too many values.
 */
export async function withBody<T>(
  request: Request,
  { budget, most }: BodyLimits,
  use: (text: string) => Promise<T> | T,
): Promise<T> {
  const tooLarge = () => refuse('payload_too_large', `The request body may be at most ${most} bytes here.`)
  const length = Number(request.headers.get('content-length') ?? Number.NaN)
  if (length > most) throw tooLarge()
  let held = 0
  const hold = (octets: number): void => {
    const more = octets * COPIES
    if (!budget.take(more))
      throw refuse('overloaded', 'Too many large requests are under way; send this one again in a moment.', undefined, {
        'Retry-After': RETRY_AFTER,
      })
    held += more
  }
  try {
    const guard = new JsonGuard()
    let bytes: Uint8Array
    if (length <= SMALL_BODY) {
      hold(length)
      bytes = new Uint8Array(await request.arrayBuffer())
      guard.push(bytes)
    } else bytes = await collect(request, { most, expected: length, tooLarge, hold, guard })
    const text = decoded(bytes)
    release(bytes)
    return await use(text)
  } finally {
    budget.giveBack(held)
  }
}

function decoded(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch {
    throw refuse('invalid_document', 'The request body is not UTF-8.', { pointer: '' })
  }
}

interface Collecting {
  most: number
  /** Content-Length; NaN when the client sends none. */
  expected: number
  tooLarge: () => Error
  hold: (octets: number) => void
  guard: JsonGuard
}

/** Reads a body piece by piece into one buffer, so that a large one is in memory only once. */
async function collect(request: Request, { expected, guard, hold, most, tooLarge }: Collecting): Promise<Uint8Array> {
  const first = expected || SMALL_BODY
  hold(first)
  let buffer = Buffer.allocUnsafeSlow(first)
  let size = 0
  for await (const chunk of request.body ?? []) {
    if (size + chunk.length > most) throw tooLarge()
    guard.push(chunk)
    if (size + chunk.length > buffer.length) {
      const larger = Math.min(most, (size + chunk.length) * 2)
      hold(larger - buffer.length)
      buffer = Buffer.concat([buffer.subarray(0, size)], larger)
    }
    buffer.set(chunk, size)
    size += chunk.length
  }
  return buffer.subarray(0, size)
}
