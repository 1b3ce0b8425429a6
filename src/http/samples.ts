// Samples of the server's activity in the last hour, one per ten seconds, which the console draws. Kept in memory.
import { performance, type EventLoopUtilization } from 'node:perf_hooks'
import { HOUR, SECOND, type Clock } from '../base/clock.ts'
import { counters, type Counter } from '../base/counters.ts'
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** Milliseconds. */
export const STEP = 10 * SECOND
const KEPT = HOUR / STEP
/** The queue is counted up to this number, because a full count would block the event loop. */
const MOST_WAITING = 10_000

export interface Sample {
  /** The end of the step (ms). */
  at: number
  /** Queued recipients, up to 10,000. */
  waiting: number
  delivered: number
  deferred: number
  refused: number
  received: number
  /** Bytes of memory that the process uses. */
  memory: number
  /** The fraction of the step in which the main thread worked, 0 to 1. */
  busy: number
}

type MailSums = Pick<Sample, 'delivered' | 'deferred' | 'refused' | 'received'>

const sumOf = (counter: Counter, ...outcomes: string[]): number =>
  counter
    .values()
    .reduce((sum, [{ outcome }, value]) => (outcome !== undefined && outcomes.includes(outcome) ? sum + value : sum), 0)

const sumsNow = (): MailSums => ({
  delivered: sumOf(counters.mails, 'delivered'),
  deferred: sumOf(counters.mails, 'deferred'),
  refused: sumOf(counters.mails, 'bounced', 'failed', 'rejected'),
  received: sumOf(counters.inbound, 'received'),
})

export class Samples {
  readonly #store: Store
  readonly #clock: Clock
  readonly #kept: Sample[] = []
  #sums = sumsNow()
  #loop: EventLoopUtilization = performance.eventLoopUtilization()
  #next: number

  constructor({ clock, store }: { clock: Clock; store: Store }) {
    this.#clock = clock
    this.#store = store
    this.#next = clock.now() + STEP
  }

  /** Ends the step when its time is over. Further calls have no effect. */
  look(): void {
    const at = this.#clock.now()
    if (at < this.#next) return
    this.#next = at + STEP
    const sums = sumsNow()
    const loop = performance.eventLoopUtilization()
    const since = (name: keyof MailSums): number => sums[name] - this.#sums[name]
    this.#kept.push({
      at,
      waiting: this.#waiting(),
      delivered: since('delivered'),
      deferred: since('deferred'),
      refused: since('refused'),
      received: since('received'),
      memory: process.memoryUsage.rss(),
      busy: Math.round(performance.eventLoopUtilization(loop, this.#loop).utilization * 1000) / 1000,
    })
    if (this.#kept.length > KEPT) this.#kept.shift()
    this.#sums = sums
    this.#loop = loop
  }

  /** Oldest first. */
  all(): readonly Sample[] {
    return this.#kept
  }

  #waiting(): number {
    const counted = raw<{ n: number }>(
      `select count(*) as n from (select 1 from deliveries where status = 'queued' limit ${MOST_WAITING})`,
    )
    return this.#store.one(counted).n
  }
}
