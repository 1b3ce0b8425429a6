// Live pages: one stream of server-sent events for each browser. It only says that something has changed; the page then
// requests its live part again.
//
// Guarantees: streams are notified one after the other, each at most once a second. The pauses between them grow with
// the time that pages take to draw, so that open pages take only a small share of the main thread from mail.
import type { Context } from 'hono'
import { SECOND, type Clock } from '../base/clock.ts'
import { CAMPAIGN_MAIL } from '../outbound/delivery/settle.ts'
import { EVENTS } from '../store/events.ts'
import type { Store } from '../store/database.ts'

const MAX_STREAMS = 200
/** Proxies end a silent connection, so something is written after this time. */
const SILENCE = 25 * SECOND
/** After a page that took n ms, the next stream is notified n times this many ms later. */
const PAUSE = 40
/** The weight of the newest page in the moving average of the drawing time. */
const WEIGHT = 0.2

interface Stream {
  controller: ReadableStreamDefaultController<Uint8Array>
  /** The time of the last notification, and the value of #news then. */
  told: number
  news: number
  /** The time of the last write. */
  written: number
}

export class Live {
  readonly #clock: Clock
  /** In the order of their last notification, oldest first. */
  readonly #streams = new Set<Stream>()
  readonly #encoder = new TextEncoder()
  #cancel: (() => void) | undefined
  /** Whether the next wake-up is for news, not for silence. */
  #awaited = false
  #news = 0
  /** The average time to draw a page (ms), and the earliest time of the next notification. */
  #cost = 0
  #next = 0

  constructor({ clock, store }: { clock: Clock; store: Store }) {
    this.#clock = clock
    for (const news of [EVENTS, CAMPAIGN_MAIL]) store.on(news, () => this.#hear())
  }

  /** Answers with an event stream; 503 when there are too many. */
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

  /** Must be called after each redraw for a stream, with its duration. */
  took(ms: number): void {
    this.#cost += (ms - this.#cost) * WEIGHT
  }

  /** Ends every stream, because the server stops. */
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
    // The first stream had the oldest notification, so it is the first that can lack news.
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
      // A client that does not read is dropped, so that its unsent data does not fill the memory.
      if ((stream.controller.desiredSize ?? 0) < -100) throw new Error('The stream is not read.')
      stream.controller.enqueue(this.#encoder.encode(text))
    } catch {
      this.#streams.delete(stream)
    }
  }
}
