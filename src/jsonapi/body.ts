// Reads the body of a request within limits: one of its route, one for all bodies under way, and one for each owner
// (D74, D112). Memory is reserved for what has arrived, not for what was announced. JSON is checked while it arrives.
import { isAscii } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { codeOf, refuse, Refusal } from '../base/errors.ts'
import { HeldMemory, release, type Budget } from '../base/memory.ts'
import { JsonGuard } from './json-guard.ts'

/** The most octets of a body, unless the route says otherwise (D74). */
export const USUAL_BODY = 1024 * 1024
/** A mail of 40 MB, as base64 in JSON (D5). */
export const MAIL_BODY = 60 * 1024 * 1024
/** A body of this announced length is put together once, when it has arrived. */
const SMALL_BODY = 1024 * 1024
/** The first buffer of a larger body; each later one has twice the octets. */
const FIRST_BUFFER = 16 * 1024
/** While it is parsed, a body is in memory twice: as octets and as text. */
const COPIES = 2

const utf8 = new TextDecoder('utf-8', { fatal: true })

/** The octets of the budget that one owner may hold: a sixteenth, and at least one mail of the greatest length. */
export const shareOf = (budget: number): number => Math.max(budget / 16, MAIL_BODY * COPIES)

export interface BodyLimits {
  /** Octets. */
  most: number
  /** Shared by all requests in progress. */
  budget: Budget
  /** Whose share of the budget is used: an account, or the address of somebody who is not signed in. */
  owner?: string
  /**
   * The message of Node that the request stands for, when it came from a socket: the body is read from it, which costs
   * much less than a Request.
   */
  incoming?: IncomingMessage | undefined
}

/**
 * Runs `use` with the text of a JSON body; its part of the budget is reserved until `use` ends. Throws a Refusal: 413
 * beyond the limit (with or without Content-Length), 503 when too many bodies are in progress, 400 when the body is not
 * UTF-8, has too many values, or ends early.
 */
export function withBody<T>(
  request: Request | undefined,
  limits: BodyLimits,
  use: (text: string) => Promise<T> | T,
): Promise<T> {
  const guard = new JsonGuard()
  return withOctets(
    request,
    limits,
    (bytes) => {
      const text = decoded(bytes)
      release(bytes)
      // A small body was not looked at while it arrived: its text is, which is there anyway.
      if (!guard.begun) guard.read(text)
      return use(text)
    },
    guard,
  )
}

/** Runs `use` with the octets of a body, as `withBody`; what they mean is not looked at, except by `guard`. */
export async function withOctets<T>(
  request: Request | undefined,
  { budget, incoming, most, owner = '' }: BodyLimits,
  use: (octets: Buffer<ArrayBuffer>) => Promise<T> | T,
  guard?: JsonGuard,
): Promise<T> {
  const tooLarge = () => refuse('payload_too_large', `The request body may be at most ${most} bytes here.`)
  const announced = incoming ? incoming.headers['content-length'] : request?.headers.get('content-length')
  const length = Number(announced ?? Number.NaN)
  if (length > most) throw tooLarge()
  const held = new HeldMemory(budget, owner)
  try {
    const hold = (octets: number): void => held.more(octets * COPIES)
    return await use(await whole(collect(request, { incoming, most, expected: length, tooLarge, hold, guard })))
  } finally {
    held.end()
  }
}

/** A client that disconnects before its body is whole is not a fault of this program. */
async function whole<T>(reading: Promise<T>): Promise<T> {
  try {
    return await reading
  } catch (thrown) {
    if (thrown instanceof Refusal || !isCut(thrown)) throw thrown
    throw refuse('invalid_document', 'The request ended before its body was whole.')
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
    throw refuse('invalid_document', 'The request body is not UTF-8.', { pointer: '' })
  }
}

interface Collecting extends Pick<BodyLimits, 'incoming'> {
  most: number
  /** Content-Length; NaN when the client sends none. */
  expected: number
  tooLarge: () => Error
  hold: (octets: number) => void
  guard: JsonGuard | undefined
}

/** Reads a body piece by piece; a large one into one buffer, so that it is in memory only once. */
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
      larger.set(buffer.subarray(0, size))
      release(buffer)
      buffer = larger
    }
    buffer.set(chunk, size)
    size = needed
  }
  return buffer.subarray(0, size)
}

/** The pieces of a body. What a refused request has not read yet is left to the server, which still has to answer. */
const piecesOf = (request: Request | undefined, incoming: IncomingMessage | undefined): AsyncIterable<Uint8Array> =>
  incoming && !incoming.readableDidRead
    ? (incoming.iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>)
    : (request?.body ?? new Blob().stream())

/** The whole of a small body. A refusal in between leaves the rest to the server, too. */
function small(incoming: IncomingMessage, hold: (octets: number) => void): Promise<Buffer<ArrayBuffer>> {
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
    // A connection that ended before an error could be seen; after the end of the body it changes nothing.
    incoming.once('close', () => reject(Object.assign(new Error('The request was cut.'), { code: 'ECONNRESET' })))
  })
}
