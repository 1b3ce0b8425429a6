// What the server did in the last hour, in steps of ten seconds: kept in memory, drawn by the console.
import { performance, type EventLoopUtilization } from 'node:perf_hooks'
import { HOUR, SECOND, type Clock } from '../base/clock.ts'
import { counters, type Counter } from '../base/counters.ts'
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'

/** A step ends every so many ms. */
export const STEP = 10 * SECOND
const KEPT = HOUR / STEP
/** Waiting mail is counted no further: the count would hold up everybody. */
const MOST_WAITING = 10_000

export interface Sample {
  /** The end of the step (ms). */
  at: number
  /** Recipients whose mail waits, up to 10,000. */
  waiting: number
  delivered: number
  deferred: number
  refused: number
  received: number
  /** Octets that the process occupies. */
  memory: number
  /** The share of the step in which the main thread worked, 0 to 1. */
  busy: number
}

type Sums = Pick<Sample, 'delivered' | 'deferred' | 'refused' | 'received'>

const sumOf = (counter: Counter, ...outcomes: string[]): number =>
  counter.values().reduce((sum, [{ outcome }, value]) => (outcomes.includes(outcome!) ? sum + value : sum), 0)

const sumsNow = (): Sums => ({
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

  /** Ends a step when it is time; may be called as often as one likes. */
  look(): void {
    const at = this.#clock.now()
    if (at < this.#next) return
    this.#next = at + STEP
    const sums = sumsNow()
    const loop = performance.eventLoopUtilization()
    const since = (name: keyof Sums): number => sums[name] - this.#sums[name]
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

  /** The oldest first. */
  all(): readonly Sample[] {
    return this.#kept
  }

  #waiting(): number {
    const counted = raw<{ n: number }>(
      `select count(*) as n from (select 1 from deliveries where status = 'queued' limit ${MOST_WAITING})`,
    )
    return this.#store.first(counted)!.n
  }
}
