// Pages that follow what happens: one stream of server-sent events for each browser. It says only that something has
// changed; the page asks for its own part again.
//
// Guarantees: streams are told one after the other, each at most once a second, and with pauses that grow with what the
// pages cost, so that people who watch take a small share of the main thread from mail.
import type { Context } from 'hono'
import { SECOND, type Clock } from '../base/clock.ts'
import { CAMPAIGN_MAIL } from '../outbound/delivery/settle.ts'
import { EVENTS } from '../store/events.ts'
import type { Store } from '../store/database.ts'

const MAX_STREAMS = 200
/** For proxies that end what is silent. */
const SILENCE = 25 * SECOND
/** After a page that took a ms, so many ms pass before the next stream is told. */
const PAUSE = 40
/** How much the last page counts in what pages cost. */
const WEIGHT = 0.2

interface Stream {
  controller: ReadableStreamDefaultController<Uint8Array>
  /** When it was told last, and up to which news. */
  told: number
  news: number
  /** When anything was written last. */
  written: number
}

export class Live {
  readonly #clock: Clock
  /** Those that were told longest ago first. */
  readonly #streams = new Set<Stream>()
  readonly #encoder = new TextEncoder()
  #cancel: (() => void) | undefined
  /** The wake-up is for news. */
  #awaited = false
  #news = 0
  /** What a page costs at present (ms), and the earliest time at which the next stream is told. */
  #cost = 0
  #next = 0

  constructor({ clock, store }: { clock: Clock; store: Store }) {
    this.#clock = clock
    for (const news of [EVENTS, CAMPAIGN_MAIL]) store.on(news, () => this.#hear())
  }

  /** Answers a stream; 503 when there are too many. */
  stream(context: Context): Response {
    if (this.#streams.size >= MAX_STREAMS)
      return context.text('Too many pages follow what happens.\n', 503, { 'Retry-After': '30' })
    const now = this.#clock.now()
    let mine: Stream
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        mine = { controller, told: now - SECOND, news: this.#news, written: now }
        this.#streams.add(mine)
        controller.enqueue(this.#encoder.encode('retry: 5000\n\n'))
        this.#schedule()
      },
      cancel: () => void this.#streams.delete(mine),
    })
    return context.body(body, 200, {
      'Content-Type': 'text/event-stream',
      'Cache-Control': 'no-store',
      'X-Accel-Buffering': 'no',
    })
  }

  /** A page that a stream had asked for was drawn in so many ms. */
  took(ms: number): void {
    this.#cost += (ms - this.#cost) * WEIGHT
  }

  /** Ends every stream: the server stops. */
  close(): void {
    this.#cancel?.()
    for (const { controller } of this.#streams) controller.close()
    this.#streams.clear()
  }

  #hear(): void {
    this.#news++
    if (this.#streams.size === 0 || this.#awaited) return
    this.#cancel?.()
    this.#cancel = undefined
    this.#schedule()
  }

  #schedule(): void {
    const [first] = this.#streams
    if (this.#cancel || !first) return
    const now = this.#clock.now()
    // The stream that was told longest ago is the first to have missed an event.
    this.#awaited = first.news < this.#news
    const at = this.#awaited ? Math.max(now, this.#next, first.told + SECOND) : now + SILENCE
    this.#cancel = this.#clock.wake(at, () => {
      this.#cancel = undefined
      this.#tell()
      this.#schedule()
    })
  }

  #tell(): void {
    const now = this.#clock.now()
    const [first] = this.#streams
    if (first && first.news < this.#news) {
      this.#streams.delete(first)
      this.#streams.add(Object.assign(first, { told: now, news: this.#news }))
      this.#write(first, 'event: changed\ndata: 1\n\n')
      this.#next = now + this.#cost * PAUSE
    }
    for (const each of this.#streams) if (each.written <= now - SILENCE) this.#write(each, ': still here\n\n')
  }

  #write(stream: Stream, text: string): void {
    stream.written = this.#clock.now()
    try {
      // Who does not read is left behind.
      if ((stream.controller.desiredSize ?? 0) < -100) throw new Error('The stream is not read.')
      stream.controller.enqueue(this.#encoder.encode(text))
    } catch {
      this.#streams.delete(stream)
    }
  }
}
