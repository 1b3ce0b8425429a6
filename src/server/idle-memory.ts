// Returns memory to the system while the server is idle: shortly after the start, after a burst of work, and from time
// to time (D131). malloc keeps freed fragments: 40 MB after a start, more after a campaign.
import { MINUTE, SECOND, type Cancel, type Clock } from '../base/clock.ts'
import { collector, trimmer } from '../base/native.ts'

/** The delay after the start, when the memory needed for it is free. */
const AFTER_START = 3 * SECOND
const LOOK = MINUTE
const EVERY = 10 * MINUTE
/** The main thread is idle while it works for less than this part of a minute. */
const IDLE = 0.05

export interface IdleMemory {
  clock: Clock
  /** Undefined if the C library cannot return memory. */
  trim?: (() => void) | undefined
  /** Collects the garbage of the main thread, which is blocked until then. */
  collect?: () => void
  /** The part of the time since the last call in which the main thread worked. */
  load?: () => number
}

/** Starts the checks. The returned function stops them. */
export function giveBackWhenIdle({
  clock,
  load = loadOfThread(),
  trim = trimmer(),
  collect = collector(),
}: IdleMemory): Cancel {
  if (!trim) return () => {}
  // The start is work.
  let worked = true
  let last = clock.elapsed()
  let cancel: Cancel
  const give = (): void => {
    if (worked) collect()
    trim()
    worked = false
    last = clock.elapsed()
  }
  const look = (): void => {
    const idle = load() < IDLE
    if (!idle) worked = true
    else if (worked || clock.elapsed() - last >= EVERY) give()
    cancel = clock.wake(clock.now() + LOOK, look)
  }
  const afterStart = (): void => {
    const idle = load() < IDLE
    if (idle) give()
    // On a slow machine, the start takes longer.
    cancel = clock.wake(clock.now() + (idle ? LOOK : SECOND), idle ? look : afterStart)
  }
  cancel = clock.wake(clock.now() + AFTER_START, afterStart)
  return () => cancel()
}

function loadOfThread(): () => number {
  let before = performance.eventLoopUtilization()
  return () => {
    const now = performance.eventLoopUtilization()
    const { utilization } = performance.eventLoopUtilization(now, before)
    before = now
    return utilization
  }
}
