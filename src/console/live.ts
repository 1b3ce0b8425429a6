// Live pages: one stream of server-sent events for each browser. An event contains only that data has changed in the
// account that the user views, and the page then requests its live part again. An operator receives events of every
// account. A stream ends with its session, and the streams of one user are limited. Streams are notified one after the
// other, each at most once per second. The pauses between them grow with the time that pages take to draw, so that open
// pages take only a small part of the main thread from email.
import type { Context } from 'hono'
import { SECOND, type Clock } from '../base/clock.ts'
import { SESSIONS } from '../users/sessions.ts'
import type { Person } from '../users/browser-session.ts'
import { CAMPAIGN_MAIL } from '../delivery/results/settle.ts'
import { EVENTS } from '../store/events.ts'
import type { Store } from '../store/database.ts'

const MAX_STREAMS = 200
/** The maximum number of streams for one user. A browser needs one for all its pages. */
const MAX_OF_PERSON = 10
/** Proxies close an idle connection, so a keep-alive is written after this time. */
const SILENCE = 25 * SECOND
/** After a page that took n ms, the next stream is notified n times this many ms later. */
const PAUSE = 40
/** The weight of the newest page in the moving average of the drawing time. */
const WEIGHT = 0.2

interface Stream {
  controller: ReadableStreamDefaultController<Uint8Array>
  /** Returns the user of the stream, or undefined after the session has ended. */
  who: () => Person | undefined
  /** The key of the user. */
  person: number
  /** The key of the account whose changes are notified, or undefined for every account. */
  account: number | undefined
  /** The time of the last notification. */
  notifiedAt: number
  /** Whether there was a change for this stream since then. */
  news: boolean
  /** The time of the last write. */
  written: number
}

/** The account whose changes a user receives. Undefined: an operator receives those of every account. */
const accountOf = (person: Person): number | undefined => (person.user.operator === 1 ? undefined : person.account.key)

export class Live {
  readonly #clock: Clock
  /** In the order of their last notification, oldest first. */
  readonly #streams = new Set<Stream>()
  readonly #encoder = new TextEncoder()
  #cancel: (() => void) | undefined
  /** Whether the next wake-up is for a change rather than a keep-alive. */
  #awaited = false
  /** The average time to draw a page (ms), and the earliest time of the next notification. */
  #cost = 0
  #next = 0

  constructor({ clock, store }: { clock: Clock; store: Store }) {
    this.#clock = clock
    for (const news of [EVENTS, CAMPAIGN_MAIL]) store.on(news, (about) => this.#hear(about))
    store.on(SESSIONS, (about) => {
      for (const stream of this.#streams) if (about.has(stream.person)) this.#present(stream)
    })
  }

  /**
   * Responds with an event stream, with 401 without a session, or with 503 if there are too many, in total or of one
   * user.
   */
  stream(context: Context, who: () => Person | undefined): Response {
    const follower = who()
    if (!follower) return context.text('Sign in first.\n', 401)
    const person = follower.user.key
    const own = [...this.#streams].filter((each) => each.person === person).length
    if (this.#streams.size >= MAX_STREAMS || own >= MAX_OF_PERSON)
      return context.text('Too many pages are open.\n', 503, { 'Retry-After': '30' })
    const now = this.#clock.now()
    let mine: Stream
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        mine = {
          controller,
          who,
          person,
          account: accountOf(follower),
          notifiedAt: now - SECOND,
          news: false,
          written: now,
        }
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

  #hear(about: ReadonlySet<number>): void {
    for (const stream of this.#streams) {
      if (stream.account === undefined || about.has(stream.account)) stream.news = true
    }
    if (this.#awaited) return
    this.#cancel?.()
    this.#cancel = undefined
    this.#schedule()
  }

  /** Whether the session of a stream still exists, and which account it views. Otherwise the stream is closed. */
  #present(stream: Stream): boolean {
    const person = stream.who()
    stream.account = person && accountOf(person)
    if (person) return true
    this.#streams.delete(stream)
    stream.controller.close()
    return false
  }

  /** The stream with a pending change whose last notification is the oldest. */
  #waiting(): Stream | undefined {
    for (const stream of this.#streams) if (stream.news) return stream
    return undefined
  }

  #schedule(): void {
    if (this.#cancel || this.#streams.size === 0) return
    const now = this.#clock.now()
    const first = this.#waiting()
    this.#awaited = first !== undefined
    const at = first ? Math.max(now, this.#next, first.notifiedAt + SECOND) : now + SILENCE
    this.#cancel = this.#clock.wake(at, () => {
      this.#cancel = undefined
      this.#tell()
      this.#schedule()
    })
  }

  #tell(): void {
    const now = this.#clock.now()
    const first = this.#waiting()
    if (first && this.#present(first)) {
      this.#streams.delete(first)
      this.#streams.add(Object.assign(first, { notifiedAt: now, news: false }))
      this.#write(first, 'event: changed\ndata: 1\n\n')
      this.#next = now + this.#cost * PAUSE
    }
    for (const each of this.#streams)
      if (each.written <= now - SILENCE && this.#present(each)) this.#write(each, ': still here\n\n')
  }

  #write(stream: Stream, text: string): void {
    stream.written = this.#clock.now()
    try {
      // A client that does not read is disconnected, so that its unsent data does not fill the memory.
      if ((stream.controller.desiredSize ?? 0) < -100) throw new Error('The stream is not read.')
      stream.controller.enqueue(this.#encoder.encode(text))
    } catch {
      this.#streams.delete(stream)
    }
  }
}
