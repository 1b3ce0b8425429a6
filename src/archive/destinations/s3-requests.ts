// HTTPS requests to an S3 service: with limits in time and size, with retries, and with their errors as faults.
import type { Agent } from 'node:https'
import { MINUTE, SECOND, type Clock } from '../../base/clock.ts'
import { forLog } from '../../base/clean-text.ts'
import { codeOf } from '../../base/errors.ts'
import { counted } from '../../base/text.ts'
import { ask, keptConnections, whileMoving, wordsFor, type HttpsAnswer, type HttpsRequest } from '../../net/https.ts'
import type { DestinationDeps } from './backend.ts'
import { DestinationFault, type FaultReason } from './fault.ts'

/** The bytes of an object that one request transfers. */
export const PIECE = 8 * 1024 * 1024
/** The largest response other than an object. */
const MOST_RESPONSE = 16 * 1024 * 1024
/** How long no data may be transferred. */
const PATIENCE = MINUTE
const PAUSES = [SECOND, 4 * SECOND, 16 * SECOND]
/** If the clocks differ by more, a rejected signature is due to the clock. */
const SKEW = 4 * MINUTE

export interface S3Request {
  method: NonNullable<HttpsRequest['method']>
  url: URL
  headers: Record<string, string | number>
  body?: Uint8Array | undefined
  /** The largest response in bytes. */
  most?: number
}

export class S3Requests {
  readonly #agent: Agent
  readonly #title: string
  readonly #clock: Clock
  readonly #patience: number

  constructor(title: string, { authorities, clock, lookup, patience = PATIENCE }: DestinationDeps) {
    this.#title = title
    this.#clock = clock
    this.#patience = patience
    this.#agent = keptConnections(lookup, authorities?.())
  }

  /** Sends a request, with up to three retries of failures that may pass. `make` signs each attempt. */
  async send(make: () => Promise<S3Request>): Promise<HttpsAnswer> {
    for (let retries = 0; ; retries++)
      try {
        return await this.#once(await make())
      } catch (thrown) {
        const pause = PAUSES[retries]
        if (!(thrown instanceof DestinationFault && thrown.passing) || pause === undefined) throw thrown
        await new Promise<void>((done) => this.#clock.wake(this.#clock.now() + pause, done))
      }
  }

  async #once({ body, headers, method, most = MOST_RESPONSE, url }: S3Request): Promise<HttpsAnswer> {
    const answer = await whileMoving(this.#patience, (signal, { moved }) => {
      const agent = url.protocol === 'https:' ? { agent: this.#agent } : {}
      return ask(url, { method, headers, body, most, signal, plain: true, arrived: moved, sent: moved, ...agent })
    })
    if (answer.fault) throw this.#faultOf(answer)
    // The service is overloaded or restarts.
    if ([429, 500, 502, 503, 504].includes(answer.status))
      throw new DestinationFault('refused', this.#title, `the server returned ${answer.status}`, true)
    return answer
  }

  /** Downloads an object in ranges of 8 MB. `make` signs the request of a range. */
  async *download(name: string, make: (range: string) => Promise<S3Request>): AsyncIterable<Uint8Array> {
    for (let at = 0, tag: string | undefined; ;) {
      const answer = await this.send(async () => {
        const request = await make(`bytes=${at}-${at + PIECE - 1}`)
        return { ...request, most: PIECE }
      })
      const { headers, octets: bytes, status } = answer
      // The object is empty.
      if (status === 416 || (status === 200 && bytes.length === 0)) return
      if (status === 404) throw new DestinationFault('missing', this.#title, `${name} does not exist`)
      if (status !== 206 && !(status === 200 && at === 0)) throw this.refusal(answer)
      tag ??= headers.etag
      if (tag !== headers.etag)
        throw new DestinationFault('damaged', this.#title, `${name} changed during the download`)
      const size = status === 200 ? bytes.length : Number(/\/(\d+)$/.exec(headers['content-range'] ?? '')?.[1])
      at += bytes.length
      if (bytes.length === 0 || !(at <= size))
        throw new DestinationFault('damaged', this.#title, `the download of ${name} is incomplete`)
      yield bytes
      if (at === size) return
    }
  }

  /** The fault for a response with an error status. `text` is from the service. */
  refusal({ headers, status }: HttpsAnswer, text = ''): DestinationFault {
    const away = Math.abs(Date.parse(headers.date ?? '') - this.#clock.now())
    const words = [`the server returned ${status}`, forLog(text, 200)].filter((part) => part !== '').join(': ')
    const named = (reason: FaultReason): DestinationFault => new DestinationFault(reason, this.#title, words)
    if (status === 401 || status === 403)
      return away > SKEW
        ? new DestinationFault(
            'clock',
            this.#title,
            `${words}, and its clock differs from this machine's by ${counted(Math.round(away / MINUTE), 'minute')}`,
          )
        : named('key')
    if (status === 507 || status === 413) return named('space')
    if (status === 404 || status === 409 || (status >= 300 && status < 400)) return named('bucket')
    return named('refused')
  }

  close(): void {
    this.#agent.destroy()
  }

  #faultOf({ fault, status }: HttpsAnswer): DestinationFault {
    if (!fault) return new DestinationFault('refused', this.#title, `the server returned ${status}`)
    const words = wordsFor(fault)
    const code = codeOf(fault.error)
    if (fault.kind === 'late') return new DestinationFault('slow', this.#title, words, true)
    if (fault.kind === 'large')
      return new DestinationFault('refused', this.#title, "the server's response is larger than requested")
    if (/CERT|SELF_SIGNED|ISSUER|SIGNATURE/.test(code)) return new DestinationFault('certificate', this.#title, words)
    return new DestinationFault('unreachable', this.#title, words, true)
  }
}
