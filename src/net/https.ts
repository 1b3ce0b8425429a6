// The one client of HTTPS: asks another server, with limited time and octets. An answer that does not come, or is not
// whole, is a value with a fault in it. Where a stranger named the host, the checked address is the address that the
// socket connects to, so that a DNS answer cannot change in between (guard.ts).
import { request as plainRequest, type ClientRequest, type IncomingHttpHeaders } from 'node:http'
import { Agent, request } from 'node:https'
import { createSecureContext } from 'node:tls'
import { SECOND } from '../base/clock.ts'
import { codeOf, messageOf } from '../base/errors.ts'
import { trusting } from '../base/tls.ts'
import type { LookupFunction } from 'node:net'
import { addressRefused, ForbiddenAddress, guardedLookup, type Guard } from './guard.ts'

interface HttpsHead {
  /** 0 when no status line came. */
  status: number
  headers: IncomingHttpHeaders
}

export interface HttpsAnswer extends HttpsHead {
  /** What was kept of the body. */
  octets: Buffer
  /** Undefined when the body was read to its end, or was not wanted. */
  fault: HttpsFault | undefined
}

/** Why there is no whole answer. */
export interface HttpsFault {
  /**
   * `refused`: the URL is not asked, the error's message is the end of a sentence; `late`: the time was over; `large`:
   * the body has more octets than `most`; `cut`: it ended before it was whole; `failed`: everything else.
   */
  kind: 'refused' | 'late' | 'large' | 'cut' | 'failed'
  error: Error
}

export interface HttpsRequest {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | 'PROPFIND' | 'MOVE' | undefined
  headers: Record<string, string | number>
  /** A stream is sent as it comes. When it throws, the request is cut off, and `ask` throws the same. */
  body?: string | Uint8Array | AsyncIterable<Uint8Array> | undefined
  /** The signal of `within`, which limits the time. */
  signal: AbortSignal
  /** Checks where a host leads that a stranger named. */
  guard?: Guard
  /** The certificate authorities (PEM) beside the well-known ones. */
  authorities?: () => string | undefined
  /** The connections of `keptConnections`; else the request has one of its own. */
  agent?: Agent
  /** Whether a URL with http: is asked too. */
  plain?: true
  /** The most octets of a body. */
  most: number
  /** How many of them are kept, when not all. */
  kept?: number
  /** Whether the body is read. */
  wanted?: (head: HttpsHead) => boolean
  /** Is told of octets before they are kept; throws when no more may be kept. */
  arrived?: ((octets: number) => void) | undefined
  /** Is told of octets of the body that were handed to the system. */
  sent?: ((octets: number) => void) | undefined
}

/** Makes one request. Throws only what `arrived` and the stream of a body throw. */
export function ask(url: URL, asking: HttpsRequest): Promise<HttpsAnswer> {
  const { arrived, body, guard, method, most, kept = most, signal, wanted } = asking
  const forbidden = guard && addressRefused(guard, url)
  if (forbidden !== undefined) return Promise.resolve(unasked(new ForbiddenAddress(forbidden)))
  if (signal.aborted) return Promise.resolve(unasked(signal.reason as Error, 'late'))
  return new Promise((resolve, reject) => {
    let head: HttpsHead = { status: 0, headers: {} }
    const chunks: Buffer[] = []
    let size = 0
    const end = (fault?: HttpsFault): void =>
      resolve({ ...head, octets: Buffer.concat(chunks, Math.min(size, kept)), fault })
    let outgoing: ClientRequest
    try {
      outgoing = open(url, asking)
    } catch (thrown) {
      return end({ kind: 'failed', error: thrown as Error })
    }
    const fail = (kind: HttpsFault['kind'], error: Error): void => {
      end({ kind, error })
      outgoing.destroy()
    }
    // Not an option of the request: Node emits nothing then where a server switches protocols and the socket is closed.
    signal.addEventListener('abort', () => fail('late', signal.reason as Error))
    const tooLarge = (): void => fail('large', new Error('its answer is too large'))
    outgoing.on('error', (error) => fail('failed', error))
    outgoing.on('response', (incoming) => {
      head = { status: incoming.statusCode ?? 0, headers: incoming.headers }
      incoming.on('error', (error) => fail('cut', error))
      if (wanted?.(head) === false) {
        end()
        return void outgoing.destroy()
      }
      const whole = kept === most && method !== 'HEAD'
      if (whole && Number(incoming.headers['content-length'] ?? 0) > most) return tooLarge()
      incoming.on('data', (chunk: Buffer) => {
        try {
          arrived?.(chunk.length)
        } catch (thrown) {
          reject(thrown as Error)
          return void outgoing.destroy()
        }
        if (size < kept) chunks.push(chunk)
        size += chunk.length
        if (size > most) tooLarge()
      })
      return void incoming.on('end', () => {
        end()
        // The server has answered before it had all of the body: it wants no more of it.
        if (!outgoing.writableEnded) outgoing.destroy()
      })
    })
    if (body === undefined || typeof body === 'string') return void outgoing.end(body)
    pour(body, outgoing, asking).catch((thrown: unknown) => {
      reject(thrown as Error)
      outgoing.destroy()
    })
    return undefined
  })
}

/** Octets that are written before the socket is waited for. */
const PIECE = 64 * 1024

/** Writes a body as fast as the socket takes it; ends early, without a throw, when the request is over. */
async function pour(
  body: Uint8Array | AsyncIterable<Uint8Array>,
  outgoing: ClientRequest,
  { sent }: HttpsRequest,
): Promise<void> {
  for await (const whole of body instanceof Uint8Array ? [body] : body)
    for (let at = 0; at < whole.length; at += PIECE) {
      const piece = whole.subarray(at, at + PIECE)
      if (outgoing.destroyed) return
      if (!outgoing.write(piece)) await drained(outgoing)
      sent?.(piece.length)
    }
  outgoing.end()
}

/** Waits until a request takes more octets, or is over. */
function drained(outgoing: ClientRequest): Promise<void> {
  return new Promise((done) => {
    const either = (): void => {
      outgoing.off('drain', either).off('close', either)
      done()
    }
    outgoing.on('drain', either).on('close', either)
  })
}

/** Begins a request; its body is not sent yet. Throws for what Node refuses, and where authorities cannot be read. */
function open(url: URL, { agent, authorities, guard, headers, method, plain }: HttpsRequest): ClientRequest {
  const lookup = guard ? { lookup: guardedLookup(guard) } : {}
  const connecting = agent ? { agent } : { agent: false as const, ...lookup, ...trusting(authorities?.()) }
  const options = { method, headers, ...connecting }
  return plain && url.protocol === 'http:' ? plainRequest(url, options) : request(url, options)
}

/** Connections kept for more requests, closed with `destroy`. Where the operator named the host, no guard is needed. */
export function keptConnections(guard: Guard | LookupFunction | undefined, authorities: string | undefined): Agent {
  // The context is made once: a context with a list of authorities takes milliseconds, and the list would be part of
  // every socket's name.
  const context = authorities === undefined ? {} : { secureContext: createSecureContext(trusting(authorities)) }
  return new Agent({
    keepAlive: true,
    maxFreeSockets: 1000,
    ...(guard && { lookup: typeof guard === 'function' ? guard : guardedLookup(guard) }),
    ...context,
  })
}

/** Runs requests with a signal that ends them after `timeout` ms. */
export async function within<T>(timeout: number, run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const abort = new AbortController()
  const late = (): void => abort.abort(new Error(`no whole answer within ${timeout / SECOND} s`))
  const timer = setTimeout(late, timeout)
  try {
    return await run(abort.signal)
  } finally {
    clearTimeout(timer)
  }
}

/** Octets that must move within the time of `whileMoving`. */
const LEAST_MOVED = 64 * 1024

export interface Movement {
  /** Octets that moved. */
  moved: (octets: number) => void
  /** Whether it is ourselves that nothing moves for: the time stands still. */
  held: (on: boolean) => void
}

/**
 * Runs something with a signal that ends it when `timeout` ms pass in which less than 64 KB moved: so it may take long,
 * but not for ever.
 */
export async function whileMoving<T>(
  timeout: number,
  run: (signal: AbortSignal, movement: Movement) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  let since = 0
  let standing = false
  const timer = setTimeout(() => {
    if (standing) timer.refresh()
    else abort.abort(new Error(`nothing moved for ${timeout / SECOND} s`))
  }, timeout)
  const moved = (octets: number): void => {
    since += octets
    if (since < LEAST_MOVED) return
    since = 0
    timer.refresh()
  }
  const held = (on: boolean): void => {
    standing = on
    timer.refresh()
  }
  try {
    return await run(abort.signal, { moved, held })
  } finally {
    clearTimeout(timer)
  }
}

export interface Following {
  /** The most redirects. */
  redirects: number
  /** Milliseconds for all of it. */
  timeout: number
  /** Why a text is not a URL that is asked, as the end of a sentence. */
  wrong: (text: string) => string | undefined
  /** Asks one URL. */
  ask: (url: URL, signal: AbortSignal) => Promise<HttpsAnswer>
}

/** The answer at the end of redirects; each URL on the way is checked. */
export function follow(text: string, { ask: askOne, redirects, timeout, wrong }: Following): Promise<HttpsAnswer> {
  return within(timeout, async (signal) => {
    let next = text
    for (let hop = 0; hop <= redirects; hop++) {
      const why = wrong(next)
      if (why !== undefined) return unasked(new Error(why))
      const url = new URL(next)
      const answer = await askOne(url, signal)
      const { fault, headers, status } = answer
      if (fault || status < 300 || status >= 400 || headers.location === undefined) return answer
      next = URL.parse(headers.location, url)?.href ?? headers.location
    }
    return unasked(new Error(redirects === 0 ? 'is redirected' : `is redirected more than ${redirects} times`))
  })
}

/** Why a text is not a URL with https: and without credentials, as the end of a sentence. */
export function httpsUrlFault(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url) return 'is not a URL'
  if (url.protocol !== 'https:') return 'must be an https URL'
  return url.username || url.password ? 'must not hold credentials' : undefined
}

const unasked = (error: Error, kind: HttpsFault['kind'] = 'refused'): HttpsAnswer => ({
  status: 0,
  headers: {},
  octets: Buffer.alloc(0),
  fault: { kind, error },
})

const WORDS: Record<string, string> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the connection was reset',
  EPIPE: 'the connection was closed',
  ETIMEDOUT: 'no connection in time',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
  ENOTFOUND: 'the host name has no address',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate chain is self-signed',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the certificate comes from an unknown authority',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another host',
}

/** The reason of a fault in words; the message of an error that has none may repeat what the server sent. */
export const wordsFor = ({ error }: HttpsFault): string => WORDS[codeOf(error)] ?? messageOf(error)
