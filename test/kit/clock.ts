// A clock that tests turn by hand.
import type { Cancel, Clock } from '../../src/base/clock.ts'

interface Alarm {
  at: number
  run: () => void
}

export class ManualClock implements Clock {
  #now: number
  #alarms = new Set<Alarm>()

  /** Begins at 2026-01-15 12:00 UTC unless told otherwise. */
  constructor(now = Date.UTC(2026, 0, 15, 12)) {
    this.#now = now
  }

  now(): number {
    return this.#now
  }

  wake(at: number, run: () => void): Cancel {
    const alarm = { at, run }
    if (at <= this.#now) queueMicrotask(() => this.#alarms.delete(alarm) && run())
    this.#alarms.add(alarm)
    return () => void this.#alarms.delete(alarm)
  }

  /** Moves time forward, waking in order whoever is due, each at its own time. */
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
   * Moves time forward in one step: whoever fell due on the way is woken once, at the end. For spans of days, in which
   * those who look around every second would be woken a hundred thousand times for nothing.
   */
  leap(milliseconds: number): void {
    this.#now += milliseconds
    const due = [...this.#alarms].filter(({ at }) => at <= this.#now).toSorted((a, b) => a.at - b.at)
    for (const alarm of due) if (this.#alarms.delete(alarm)) alarm.run()
  }

  /** When the next alarm is due; null when nobody waits. */
  get nextAlarm(): number | null {
    return this.#alarms.size === 0 ? null : Math.min(...[...this.#alarms].map(({ at }) => at))
  }
}
