// A clock that tests turn by hand.
import type { Cancel, Clock } from '../../src/base/clock.ts'

interface Alarm {
  at: number
  run: () => void
}

export class ManualClock implements Clock {
  #now: number
  #set = 0
  #alarms = new Set<Alarm>()

  /** The clock begins at 2026-01-15 12:00 UTC unless `now` is given. */
  constructor(now = Date.UTC(2026, 0, 15, 12)) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  /** The time that passed by `advance` and `leap`, without `set`. */
  elapsed(): number {
    return this.#now - this.#set
  }

  /** Sets the date, as NTP or an operator does. Alarms do not become due, and sleepers keep their waits. */
  set(now: number): void {
    const by = now - this.#now
    this.#set += by
    for (const alarm of this.#alarms) alarm.at += by
    this.#now = now
  }

  wake(at: number, run: () => void): Cancel {
    const alarm = { at, run }
    if (at <= this.#now) queueMicrotask(() => this.#alarms.delete(alarm) && run())
    this.#alarms.add(alarm)
    return () => void this.#alarms.delete(alarm)
  }

  /** Moves time forward. Alarms that are due run in order, each at its own time. */
  advance(milliseconds: number): void {
    const end = this.#now + milliseconds
    for (;;) {
      const [next] = [...this.#alarms].filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)
      if (!next) break
      this.#alarms.delete(next)
      this.#now = Math.max(this.#now, next.at)
      next.run()
    }
    this.#now = end
  }

  /**
   * Moves time forward in one step: each alarm that became due runs once, at the end. It is for spans of days, in which
   * code that wakes every second would run a hundred thousand times.
   */
  leap(milliseconds: number): void {
    this.#now += milliseconds
    const due = [...this.#alarms].filter(({ at }) => at <= this.#now).toSorted((a, b) => a.at - b.at)
    for (const alarm of due) if (this.#alarms.delete(alarm)) alarm.run()
  }

  /** When the next alarm is due, or null. */
  get nextAlarm(): number | null {
    return this.#alarms.size === 0 ? null : Math.min(...[...this.#alarms].map(({ at }) => at))
  }
}
