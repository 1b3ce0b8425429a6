// Watches the system clock (D120): at the start it is compared with the last recorded time, then every second with the
// time that passed. After a jump ahead, no data expires until the date is trusted. If the clock is set back, the times
// of queued work move with it.
import { DAY, iso, MINUTE, SECOND, SET_BACK, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { BELIEVED_AFTER, GAP, isSynchronised, readSign, sentenceOf, writeSign, type Sign } from '../base/doubt.ts'
import type { Log } from '../base/log.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Store } from '../store/database.ts'
import { bringBack, lengthen, NEWEST } from '../store/set-back.ts'

export interface TimeDeps {
  store: Store
  clock: Clock
  config: Pick<Config, 'data_dir' | 'delivery'>
  log: Log
  troubles: Troubles
  /** A file that the system touches when a time server has set the clock. */
  timeMarker: string | undefined
}

export class Timekeeper {
  readonly #deps: TimeDeps
  #doubted: Sign['doubted'] = null
  #signed = 0
  /** The date and the time that had passed, at the last look. */
  #last: { now: number; elapsed: number }

  constructor(deps: TimeDeps) {
    this.#deps = deps
    this.#last = { now: deps.clock.now(), elapsed: deps.clock.elapsed() }
  }

  /** Whether the date is in doubt. If so, no data expires. */
  get doubtful(): boolean {
    return this.#doubted !== null
  }

  /** At the start, before anything is sent: compares the date with the last sign of life. */
  async begin(): Promise<void> {
    const { clock, config, store } = this.#deps
    const now = clock.now()
    const sign = readSign(config.data_dir)
    const seen = sign?.seen ?? store.first(NEWEST)?.at ?? undefined
    this.#doubted = sign?.doubted ?? null
    if (seen === undefined || seen - now > SET_BACK || sign === undefined) await this.#setBack(now, (seen ?? now) - now)
    if (seen !== undefined && now - seen >= GAP) await this.#jumped(now, seen)
    this.#look(now)
    this.#last = { now, elapsed: clock.elapsed() }
  }

  /** Called every second. Returns true when the date was set: every loop looks again then. */
  async look(): Promise<boolean> {
    const { clock } = this.#deps
    const { elapsed, now } = { now: clock.now(), elapsed: clock.elapsed() }
    // The elapsed time of a real clock has fractions of a millisecond, which no column of a time can hold.
    const by = Math.round(now - this.#last.now - (elapsed - this.#last.elapsed))
    const before = this.#last.now
    this.#last = { now, elapsed }
    if (by < -SET_BACK) await this.#setBack(now, -by)
    else if (by >= GAP) await this.#jumped(now, before)
    this.#look(now)
    return Math.abs(by) > SET_BACK
  }

  /** Waits and lifetimes that were made by a clock that ran ahead are brought back. */
  async #setBack(now: number, ahead: number): Promise<void> {
    const { config, log, store } = this.#deps
    const by = Math.max(0, ahead)
    const count = await store.write((tx) => bringBack(tx, { now, by, lifetime: config.delivery.lifetime }))
    // The clock was corrected, so its earlier date is no longer in doubt.
    if (by > SET_BACK) this.#doubted = null
    if (by > SET_BACK || count > 0)
      log.warn('clock_set_back', { seconds: Math.round(by / SECOND), emails_rescheduled: count })
    this.#sign(now)
  }

  /** Time since `before` in which the server did not run expires no data. While the date is in doubt, nor does age. */
  async #jumped(now: number, before: number): Promise<void> {
    const { config, log, store } = this.#deps
    const by = now - before
    const count = await store.write((tx) => lengthen(tx, { now, by, lifetime: config.delivery.lifetime }))
    this.#doubted ??= { since: now, before }
    log.warn('clock_jump_suspected', { last_seen: iso(before), days: Math.round(by / DAY), emails_extended: count })
    this.#sign(now)
  }

  /** Ends the doubt when its time is over, reports a doubt as a problem, and records the current time. */
  #look(now: number): void {
    const { log, timeMarker, troubles } = this.#deps
    const doubted = this.#doubted
    if (doubted && (now - doubted.since >= BELIEVED_AFTER || isSynchronised(timeMarker, doubted, now))) {
      this.#doubted = null
      log.warn('clock_accepted', { date: iso(now) })
      this.#sign(now)
    }
    if (this.#doubted) troubles.report('clock', sentenceOf(this.#doubted))
    else troubles.clear('clock')
    if (now - this.#signed >= MINUTE || now < this.#signed) this.#sign(now)
  }

  #sign(now: number): void {
    this.#signed = now
    writeSign(this.#deps.config.data_dir, { seen: now, doubted: this.#doubted })
  }
}
