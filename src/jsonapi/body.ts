// Reads the body of a request within limits: one of its route, one for all bodies in progress, and one for each owner
// (D74, D112). Memory is reserved for bytes that have arrived, because a client can announce any length. JSON is
// checked while it arrives.
import { isAscii } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { codeOf, refuse, Refusal } from '../base/errors.ts'
import { HeldMemory, release, type Budget } from '../base/memory.ts'
import { inOwnTurn } from '../base/semaphore.ts'
import { JsonGuard } from './json-guard.ts'

/** The maximum size of a body in bytes, unless the route has another limit (D74). */
export const USUAL_BODY = 1024 * 1024
/** An email of 40 MB, as base64 in JSON (D5). */
export const MAIL_BODY = 60 * 1024 * 1024
/** A body up to this announced length is assembled once, after it has arrived. */
const SMALL_BODY = 1024 * 1024
/** Bytes of the first buffer for a larger body. Each later one is twice as large. */
const FIRST_BUFFER = 16 * 1024
/** While it is parsed, a body is in memory twice: as bytes and as text. */
const COPIES = 2

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** Bytes of the budget that one owner can hold: a sixteenth, and at least one email of the maximum size. */
export const shareOf = (budget: number): number => Math.max(budget / 16, MAIL_BODY * COPIES)

export interface BodyLimits {
  most: number
  /** Shared by all requests in progress. */
  budget: Budget
  /** The owner whose part of the budget is used: an account, or the IP address of a client that is not signed in. */
  owner?: string
  /**
   * Node's message behind the request, if it came from a socket. The body is read from it, which costs much less than a
   * Request.
   */
  incoming?: IncomingMessage | undefined
  /** Checks the JSON. The usual limits by default. */
  guard?: JsonGuard
}

/**
 * Runs `use` with the text of a JSON body. Its part of the budget is reserved until `use` returns. Throws a Refusal:
 * 413 beyond the limit (with or without Content-Length), 503 if too many bodies are in progress, 400 if the body is not
 * UTF-8, has too many values, or is incomplete.
 */
export function withBody<T>(
  request: Request | undefined,
  limits: BodyLimits,
  use: (text: string) => Promise<T> | T,
): Promise<T> {
  const { guard = new JsonGuard() } = limits
  return withBytes(
    request,
    limits,
    async (bytes) => {
      const text = await inOwnTurn(bytes.length, () => decoded(bytes))
      release(bytes)
      // A small body is not checked while it arrives, so its text is.
      if (!guard.begun) guard.read(text)
      return use(text)
    },
    guard,
  )
}

/** Runs `use` with the bytes of a body, as `withBody`. Only `guard` checks their content. */
export async function withBytes<T>(
  request: Request | undefined,
  { budget, incoming, most, owner = '' }: BodyLimits,
  use: (bytes: Buffer<ArrayBuffer>) => Promise<T> | T,
  guard?: JsonGuard,
): Promise<T> {
  const tooLarge = () =>
    refuse('payload_too_large', `The request body is too large. The limit of this endpoint is ${most} bytes.`)
  const announced = incoming ? incoming.headers['content-length'] : request?.headers.get('content-length')
  const length = Number(announced ?? Number.NaN)
  if (length > most) throw tooLarge()
  const held = new HeldMemory(budget, owner)
  try {
    const hold = (bytes: number): void => held.more(bytes * COPIES)
    return await use(await whole(collect(request, { incoming, most, expected: length, tooLarge, hold, guard })))
  } finally {
    held.end()
  }
}

/** A client that disconnects before its body is complete causes a refusal instead of an internal error. */
async function whole<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (thrown) {
    if (thrown instanceof Refusal || !isCut(thrown)) throw thrown
    throw refuse('invalid_document', 'The request body is incomplete. Send the request again.')
  }
}

const isCut = (thrown: unknown): boolean =>
  /^(?:ECONNRESET|EPIPE|ABORT_ERR|ERR_STREAM_PREMATURE_CLOSE)$/.test(codeOf(thrown)) ||
  (thrown instanceof Error && (thrown.name === 'AbortError' || /prematurely closed|aborted/i.test(thrown.message)))

function decoded(bytes: Buffer): string {
  if (isAscii(bytes)) return bytes.toString('latin1')
  try {
    return utf8.decode(bytes)
  } catch {
    throw refuse('invalid_document', 'The request body is not valid UTF-8. Encode it as UTF-8.', { pointer: '' })
  }
}

interface Collecting extends Pick<BodyLimits, 'incoming'> {
  most: number
  /** Content-Length, or NaN if the client does not send it. */
  expected: number
  tooLarge: () => Error
  hold: (bytes: number) => void
  guard: JsonGuard | undefined
}

/** Reads a body piece by piece. A large one is read into one buffer, so that it is in memory only once. */
async function collect(request: Request | undefined, reading: Collecting): Promise<Buffer<ArrayBuffer>> {
  const { expected, guard, hold, incoming, most, tooLarge } = reading
  if (expected <= SMALL_BODY) {
    if (incoming && !incoming.readableDidRead) return small(incoming, hold)
    hold(expected)
    return request ? Buffer.from(await request.arrayBuffer()) : Buffer.alloc(0)
  }
  const atMost = Math.min(most, expected || most)
  let buffer = Buffer.alloc(0)
  let size = 0
  for await (const chunk of piecesOf(request, incoming)) {
    const needed = size + chunk.length
    if (needed > most) throw tooLarge()
    guard?.push(chunk)
    if (needed > buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, Math.min(atMost, Math.max(FIRST_BUFFER, needed * 2))))
      hold(larger.length - buffer.length)
      const [before, filled] = [buffer, size]
      await inOwnTurn(filled, () => larger.set(before.subarray(0, filled)))
      release(before)
      buffer = larger
    }
    buffer.set(chunk, size)
    size = needed
  }
  return buffer.subarray(0, size)
}

/** The pieces of a body. After a refusal, the server reads the rest, because it still has to answer. */
const piecesOf = (request: Request | undefined, incoming: IncomingMessage | undefined): AsyncIterable<Uint8Array> =>
  incoming && !incoming.readableDidRead
    ? (incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>)
    : (request?.body ?? new Blob().stream())

/** Reads a small body. After a refusal in between, the server reads the rest, too. */
function small(incoming: IncomingMessage, hold: (bytes: number) => void): Promise<Buffer<ArrayBuffer>> {
  return new Promise((resolve, reject) => {
    const pieces: Buffer<ArrayBuffer>[] = []
    const take = (piece: Buffer<ArrayBuffer>): void => {
      try {
        hold(piece.length)
        pieces.push(piece)
      } catch (thrown) {
        incoming.off('data', take)
        incoming.pause()
        reject(thrown as Error)
      }
    }
    incoming.on('data', take)
    incoming.once('end', () => resolve(pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces)))
    incoming.once('error', reject)
    // The connection closed early, without an error event. After the end of the body, this has no effect.
    incoming.once('close', () => reject(Object.assign(new Error('The request was cut.'), { code: 'ECONNRESET' })))
  })
}
