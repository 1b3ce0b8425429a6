// The only HTTPS client: sends requests to other servers, with limited time and bytes. A failed or incomplete response
// is returned as a value with a fault. If an untrusted sender chose the host, the socket connects to the address that
// was checked, so that a DNS answer cannot change in between (guard.ts).
import { request as plainRequest, type ClientRequest, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'
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
  /** The part of the body that was kept. */
  octets: Buffer
  /** Undefined if the body was read completely, or was not requested. */
  fault: HttpsFault | undefined
}

/** Why there is no complete response. */
export interface HttpsFault {
  /**
   * The reason of a failure:
   * - `refused`: the URL is not allowed. The error's message is the end of a sentence.
   * - `late`: the request timed out.
   * - `large`: the body has more bytes than `most`.
   * - `cut`: the body is incomplete.
   * - `failed`: any other error.
   */
  kind: 'refused' | 'late' | 'large' | 'cut' | 'failed'
  error: Error
}

export interface HttpsRequest {
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'DELETE' | undefined
  headers: Record<string, string | number>
  body?: string | Uint8Array | undefined
  /** The signal of `within`, which limits the time. */
  signal: AbortSignal
  /** Checks the addresses of a host that an untrusted user chose. */
  guard?: Guard
  /** The certificate authorities (PEM) in addition to the well-known ones. */
  authorities?: () => string | undefined
  /** The connections of `keptConnections`. Without it, the request opens its own connection. */
  agent?: Agent
  /** Whether http: URLs are allowed, too. */
  plain?: true
  /** The most bytes of a body. */
  most: number
  /** How many of them are kept, when not all. */
  kept?: number
  /** Whether the body is read. */
  wanted?: (head: HttpsHead, incoming: IncomingMessage) => boolean
  /** Called with a number of bytes before they are kept. Throws to stop the download. */
  arrived?: ((bytes: number) => void) | undefined
  /** Called with the number of bytes of the body that were handed to the system. */
  sent?: ((bytes: number) => void) | undefined
}

/** Makes one request. Only errors of `arrived` are thrown. */
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
    // Not an option of the request: if a server switches protocols and the socket is closed, Node emits no event then.
    signal.addEventListener('abort', () => fail('late', signal.reason as Error))
    const tooLarge = (): void => fail('large', new Error('the response is too large'))
    outgoing.on('error', (error) => fail('failed', error))
    outgoing.on('response', (incoming) => {
      head = { status: incoming.statusCode ?? 0, headers: incoming.headers }
      incoming.on('error', (error) => fail('cut', error))
      if (wanted?.(head, incoming) === false) {
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

/** Bytes that are written before the socket is waited for. */
const PIECE = 64 * 1024

/** Writes a body as fast as the socket accepts it. Returns early, without an error, when the request is over. */
async function pour(body: Uint8Array, outgoing: ClientRequest, { sent }: HttpsRequest): Promise<void> {
  for (let at = 0; at < body.length; at += PIECE) {
    const piece = body.subarray(at, at + PIECE)
    if (outgoing.destroyed) return
    if (!outgoing.write(piece)) await drained(outgoing)
    sent?.(piece.length)
  }
  outgoing.end()
}

/** Waits until a request accepts more bytes, or is over. */
function drained(outgoing: ClientRequest): Promise<void> {
  return new Promise((done) => {
    const either = (): void => {
      outgoing.off('drain', either).off('close', either)
      done()
    }
    outgoing.on('drain', either).on('close', either)
  })
}

/** Opens a request without its body. Throws if Node rejects the options, or if the authorities cannot be read. */
function open(url: URL, { agent, authorities, guard, headers, method, plain }: HttpsRequest): ClientRequest {
  const lookup = guard ? { lookup: guardedLookup(guard) } : {}
  const connecting = agent ? { agent } : { agent: false as const, ...lookup, ...trusting(authorities?.()) }
  const options = { method, headers, ...connecting }
  return plain && url.protocol === 'http:' ? plainRequest(url, options) : request(url, options)
}

/** Connections kept for more requests, closed with `destroy`. Where the operator named the host, no guard is needed. */
export function keptConnections(guard: Guard | LookupFunction | undefined, authorities: string | undefined): Agent {
  // Cached: creating a context with a list of authorities takes milliseconds, and the list would be part of every
  // socket's name.
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
  const late = (): void => abort.abort(new Error(`no complete response within ${timeout / SECOND} s`))
  const timer = setTimeout(late, timeout)
  try {
    return await run(abort.signal)
  } finally {
    clearTimeout(timer)
  }
}

/** Bytes that must move within the time of `whileMoving`. */
const LEAST_MOVED = 64 * 1024

export interface Movement {
  /** Bytes that moved. */
  moved: (bytes: number) => void
  /** Pauses the timer while this server itself delays the transfer. */
  held: (on: boolean) => void
}

/**
 * Runs a task with a signal that aborts it when less than 64 KB moved in `timeout` ms. So a transfer can take long, but
 * not stall.
 */
export async function whileMoving<T>(
  timeout: number,
  run: (signal: AbortSignal, movement: Movement) => Promise<T>,
): Promise<T> {
  const abort = new AbortController()
  let since = 0
  let paused = false
  const timer = setTimeout(() => {
    if (paused) timer.refresh()
    else abort.abort(new Error(`no data for ${timeout / SECOND} s`))
  }, timeout)
  const moved = (bytes: number): void => {
    since += bytes
    if (since < LEAST_MOVED) return
    since = 0
    timer.refresh()
  }
  const held = (on: boolean): void => {
    paused = on
    timer.refresh()
  }
  try {
    return await run(abort.signal, { moved, held })
  } finally {
    clearTimeout(timer)
  }
}

export interface Following {
  redirects: number
  /** Milliseconds for all of it. */
  timeout: number
  /** Returns why a text is not an allowed URL, as the end of a sentence. */
  wrong: (text: string) => string | undefined
  ask: (url: URL, signal: AbortSignal) => Promise<HttpsAnswer>
}

/** The answer at the end of redirects. Each URL on the way is checked. */
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

/** Returns why a text is not a URL with https: and without credentials, as the end of a sentence. */
export function httpsUrlFault(text: string): string | undefined {
  const url = URL.parse(text)
  if (!url) return 'is not a URL'
  if (url.protocol !== 'https:') return 'must be an HTTPS URL'
  return url.username || url.password ? 'must not contain credentials' : undefined
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
  ETIMEDOUT: 'the connection timed out',
  EHOSTUNREACH: 'there is no route to the host',
  ENETUNREACH: 'there is no route to the network',
  ENOTFOUND: 'the host name has no address',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate chain is self-signed',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the certificate is not from a trusted CA, or its chain is incomplete',
  CERT_HAS_EXPIRED: 'the certificate has expired',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the certificate is for another host',
}

/**
 * The reason of a failure in words. Without known words it is the error's message, which can repeat text from the
 * server.
 */
export const wordsFor = ({ error }: HttpsFault): string => WORDS[codeOf(error)] ?? messageOf(error)
