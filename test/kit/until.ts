// Waits for a result that arrives at an unknown time (sockets, worker threads): it checks again at once, then every few
// milliseconds, so that other threads and processes get the CPU. It ends as soon as the result is there. The limit is
// only for a result that never arrives. It is not a test of the machine's speed.
import { readFileSync } from 'node:fs'
import { inspect } from 'node:util'
import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises'

/** The first checks are in the next turns of the event loop. Later checks follow pauses that grow to these real ms. */
const AT_ONCE = 8
const LONGEST_PAUSE = 10
/** The longest wait in ms. POSTRIDER_PATIENCE sets another one. */
export const LIMIT = Number(process.env['POSTRIDER_PATIENCE'] ?? 180_000)

/**
 * Resolves with the first truthy value of `look`. Throws if there is no such value within LIMIT. `state` returns the
 * present state for the error message.
 */
export async function until<T>(
  look: () => T | Promise<T>,
  what = 'the expected',
  state?: () => unknown,
): Promise<NonNullable<T>> {
  const end = performance.now() + LIMIT
  for (let looks = 1; ; looks++) {
    const value = await look()
    if (value) return value as NonNullable<T>
    if (performance.now() > end) {
      const instead = state ? `: ${inspect(await state(), { depth: 8 })}` : ''
      throw new Error(`${what} did not come within ${LIMIT} ms${instead}`)
    }
    await (looks < AT_ONCE ? turn() : pause(Math.min(Math.ceil((looks - AT_ONCE + 1) / 5), LONGEST_PAUSE)))
  }
}

/** Whether a process is gone, or (Linux) only waits for its parent to look at its end. */
export function isOver(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return true
  }
}
