// Requests of the places that are reached by HTTPS: limited in time and octets, tried again where that may help, and
// their faults in sentences.
import type { Agent } from 'node:https'
import { MINUTE, SECOND, type Clock } from '../../base/clock.ts'
import { forLog } from '../../base/clean-text.ts'
import { codeOf } from '../../base/errors.ts'
import { ask, keptConnections, whileMoving, wordsFor, type HttpsAnswer, type HttpsRequest } from '../../net/https.ts'
import { heldWhile } from '../octets.ts'
import type { PlaceDeps } from './backend.ts'
import { PlaceFault, type PlaceReason } from './place-fault.ts'

/** Octets that are fetched or sent by one request. */
export const PIECE = 8 * 1024 * 1024
/** Of answers that are not octets of an object. */
const MOST_ANSWER = 16 * 1024 * 1024
/** How long nothing may move. */
const PATIENCE = MINUTE
/** What is waited before another try. */
const PAUSES = [SECOND, 4 * SECOND, 16 * SECOND]
/** The date of a server is this far from ours, at most, in a refusal that has nothing to do with it. */
const SKEW = 4 * MINUTE

export interface WebRequest {
  method: NonNullable<HttpsRequest['method']>
  url: URL
  headers: Record<string, string | number>
  body?: HttpsRequest['body']
  /** The most octets of the answer. */
  most?: number
}

export class Web {
  readonly #agent: Agent
  readonly #title: string
  readonly #clock: Clock
  readonly #patience: number

  constructor(title: string, { authorities, clock, lookup, patience = PATIENCE }: PlaceDeps) {
    this.#title = title
    this.#clock = clock
    this.#patience = patience
    this.#agent = keptConnections(lookup, authorities?.())
  }

  /** One request. Throws a PlaceFault when there is no whole answer, and what the stream of a body throws. */
  async once({ body, headers, method, most = MOST_ANSWER, url }: WebRequest): Promise<HttpsAnswer> {
    const answer = await whileMoving(this.#patience, (signal, { held, moved }) => {
      const asking = {
        method,
        headers,
        body: isStream(body) ? heldWhile(body, held) : body,
        most,
        signal,
        plain: true as const,
      }
      const agent = url.protocol === 'https:' ? { agent: this.#agent } : {}
      return ask(url, { ...asking, ...agent, arrived: moved, sent: moved })
    })
    if (answer.fault) throw this.#faultOf(answer)
    // Of a server that is overloaded or restarts.
    if ([429, 500, 502, 503, 504].includes(answer.status))
      throw new PlaceFault('refused', this.#title, `the server says ${answer.status}`, true)
    return answer
  }

  /** The same, up to four times where another try may help. `make` gives each its own request. */
  async again(make: () => Promise<WebRequest>): Promise<HttpsAnswer> {
    for (let tries = 0; ; tries++)
      try {
        return await this.once(await make())
      } catch (thrown) {
        const pause = PAUSES[tries]
        if (!(thrown instanceof PlaceFault && thrown.passing) || pause === undefined) throw thrown
        await new Promise<void>((done) => this.#clock.wake(this.#clock.now() + pause, done))
      }
  }

  /** The octets of an object from one on, by requests of 8 MB that are tried again. `make` gives the request. */
  async *ranges(name: string, from: number, make: (range: string) => Promise<WebRequest>): AsyncIterable<Uint8Array> {
    for (let at = from, tag: string | undefined; ;) {
      const answer = await this.again(async () => {
        const request = await make(`bytes=${at}-${at + PIECE - 1}`)
        return { ...request, most: PIECE }
      })
      const { headers, octets, status } = answer
      // Behind the last octet there is nothing.
      if (status === 416 || (status === 200 && octets.length === 0)) return
      if (status === 404) throw new PlaceFault('missing', this.#title, `there is no ${name}`)
      if (status !== 206 && !(status === 200 && at === 0)) throw this.refusal(answer)
      tag ??= headers.etag
      if (tag !== headers.etag) throw new PlaceFault('damaged', this.#title, `${name} was changed while it was fetched`)
      const size = status === 200 ? octets.length : Number(/\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1])
      at += octets.length
      if (octets.length === 0 || !(at <= size))
        throw new PlaceFault('damaged', this.#title, `${name} did not come whole`)
      yield octets
      if (at === size) return
    }
  }

  /** The fault of an answer with a status that is not wanted; `said` are words of the server. */
  refusal({ headers, status }: HttpsAnswer, said = ''): PlaceFault {
    const away = Math.abs(Date.parse(headers.date ?? '') - this.#clock.now())
    const words = [`the server says ${status}`, forLog(said, 200)].filter((part) => part !== '').join(': ')
    const named = (reason: PlaceReason): PlaceFault => new PlaceFault(reason, this.#title, words)
    if (status === 401 || status === 403)
      return away > SKEW
        ? new PlaceFault(
            'clock',
            this.#title,
            `${words}; its clock and ours differ by ${Math.round(away / MINUTE)} minutes`,
          )
        : named('key')
    if (status === 507 || status === 413) return named('space')
    if (status === 404 || status === 409 || (status >= 300 && status < 400)) return named('bucket')
    return named('refused')
  }

  close(): void {
    this.#agent.destroy()
  }

  #faultOf({ fault, status }: HttpsAnswer): PlaceFault {
    if (!fault) return new PlaceFault('refused', this.#title, `the server says ${status}`)
    const words = wordsFor(fault)
    const code = codeOf(fault.error)
    if (fault.kind === 'late') return new PlaceFault('slow', this.#title, words, true)
    if (fault.kind === 'large')
      return new PlaceFault('refused', this.#title, 'the answer of the server is larger than was asked for')
    if (/CERT|SELF_SIGNED|ISSUER|SIGNATURE/.test(code)) return new PlaceFault('certificate', this.#title, words)
    return new PlaceFault('unreachable', this.#title, words, true)
  }
}

const isStream = (body: WebRequest['body']): body is AsyncIterable<Uint8Array> =>
  typeof body === 'object' && Symbol.asyncIterator in body
