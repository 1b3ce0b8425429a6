// Pages that follow what happens: one stream of server-sent events for each browser. It says only that something has
// changed; the page asks for its own part again. Streams are few, and told at most once a second.
import type { Context } from 'hono'
import { SECOND, type Clock } from '../base/clock.ts'
import { CAMPAIGN_MAIL } from '../outbound/delivery/settle.ts'
import { EVENTS } from '../store/events.ts'
import type { Store } from '../store/database.ts'

const MAX_STREAMS = 200
/** For proxies that end what is silent. */
const SILENCE = 25 * SECOND

export class Live {
  readonly #clock: Clock
  readonly #streams = new Set<ReadableStreamDefaultController<Uint8Array>>()
  readonly #encoder = new TextEncoder()
  #cancel: (() => void) | undefined
  #told = 0
  #changed = false

  constructor({ clock, store }: { clock: Clock; store: Store }) {
    this.#clock = clock
    for (const news of [EVENTS, CAMPAIGN_MAIL]) store.on(news, () => this.#hear())
  }

  /** Answers a stream; 503 when there are too many. */
  stream(context: Context): Response {
    if (this.#streams.size >= MAX_STREAMS)
      return context.text('Too many pages follow what happens.\n', 503, { 'Retry-After': '30' })
    let mine: ReadableStreamDefaultController<Uint8Array>
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        mine = controller
        this.#streams.add(controller)
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

  /** Ends every stream: the server stops. */
  close(): void {
    this.#cancel?.()
    for (const each of this.#streams) each.close()
    this.#streams.clear()
  }

  #hear(): void {
    if (this.#streams.size === 0 || this.#changed) return
    this.#changed = true
    this.#cancel?.()
    this.#cancel = undefined
    this.#schedule()
  }

  #schedule(): void {
    if (this.#cancel || this.#streams.size === 0) return
    const now = this.#clock.now()
    const at = this.#changed ? Math.max(now, this.#told + SECOND) : now + SILENCE
    this.#cancel = this.#clock.wake(at, () => {
      this.#cancel = undefined
      this.#tell(this.#changed ? 'event: changed\ndata: 1\n\n' : ': still here\n\n')
      this.#changed = false
      this.#told = this.#clock.now()
      this.#schedule()
    })
  }

  #tell(text: string): void {
    const octets = this.#encoder.encode(text)
    for (const each of this.#streams)
      try {
        // Who does not read is left behind.
        if ((each.desiredSize ?? 0) < -100) throw new Error('The stream is not read.')
        each.enqueue(octets)
      } catch {
        this.#streams.delete(each)
      }
  }
}
