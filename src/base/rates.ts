// Rate limits: a token bucket per key, in memory (D8). A full bucket is like no bucket, so it can be deleted.
import type { Clock } from './clock.ts'
import { SECOND } from './clock.ts'
import { counters } from './counters.ts'

export interface Rate {
  allowed: boolean
  limit: number
  remaining: number
  /** Seconds until the bucket is full again. For a rejected request, until another request fits. */
  reset: number
}

interface Bucket {
  tokens: number
  at: number
}

/** With more keys than this, the full buckets are dropped. */
const SWEEP_ABOVE = 10_000

export class RateLimit {
  readonly #buckets = new Map<string, Bucket>()
  readonly #clock: Clock
  readonly #perSecond: number
  readonly #burst: number

  /** `perSecond` 0 turns the limit off. */
  constructor(clock: Clock, perSecond: number, burst: number) {
    this.#clock = clock
    this.#perSecond = perSecond
    this.#burst = burst
  }

  get isOff(): boolean {
    return this.#perSecond === 0
  }

  take(key: string): Rate {
    if (this.isOff) return { allowed: true, limit: this.#burst, remaining: this.#burst, reset: 0 }
    const now = this.#clock.now()
    const bucket = this.#buckets.get(key) ?? { tokens: this.#burst, at: now }
    bucket.tokens = Math.min(this.#burst, bucket.tokens + (Math.max(0, now - bucket.at) / SECOND) * this.#perSecond)
    bucket.at = now
    const allowed = bucket.tokens >= 1
    if (allowed) bucket.tokens -= 1
    else counters.limited.add()
    this.#buckets.set(key, bucket)
    if (this.#buckets.size > SWEEP_ABOVE) this.#sweep(now)
    const missing = allowed ? this.#burst - bucket.tokens : 1 - bucket.tokens
    return {
      allowed,
      limit: this.#burst,
      remaining: Math.floor(bucket.tokens),
      reset: Math.ceil(missing / this.#perSecond),
    }
  }

  #sweep(now: number): void {
    const fullAfter = (this.#burst / this.#perSecond) * SECOND
    for (const [key, { at }] of this.#buckets) if (now - at > fullAfter) this.#buckets.delete(key)
  }
}
