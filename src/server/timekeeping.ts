// Watches the date of this machine (D120): at the start against the last sign of life, and each second against the
// time that passed. A date that jumped ahead ends nothing until it is believed; one that was set back takes what waits
// along.
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

  /** Whether the date is not believed: nothing is deleted for its age, and nothing ends by its time. */
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
    const by = now - this.#last.now - (elapsed - this.#last.elapsed)
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
    // It was set right: what it said before needs no belief any more.
    if (by > SET_BACK) this.#doubted = null
    if (by > SET_BACK || count > 0)
      log.warn('clock set back', { seconds: Math.round(by / SECOND), mails_brought_back: count })
    this.#sign(now)
  }

  /** The time since `before`, in which nothing ran, ends nothing; until the date is believed nothing is deleted. */
  async #jumped(now: number, before: number): Promise<void> {
    const { config, log, store } = this.#deps
    const by = now - before
    const count = await store.write((tx) => lengthen(tx, { now, by, lifetime: config.delivery.lifetime }))
    this.#doubted ??= { since: now, before }
    log.warn('clock in doubt', { last_seen: iso(before), days: Math.round(by / DAY), mails_lengthened: count })
    this.#sign(now)
  }

  /** Ends the doubt when its time is over, says that there is one, and leaves the sign of life. */
  #look(now: number): void {
    const { log, timeMarker, troubles } = this.#deps
    const doubted = this.#doubted
    if (doubted && (now - doubted.since >= BELIEVED_AFTER || isSynchronised(timeMarker, doubted, now))) {
      this.#doubted = null
      log.warn('clock believed', { date: iso(now) })
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
