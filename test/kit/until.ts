// Waits for what happens in its own time (sockets, worker threads): looks again at once, then every few milliseconds, so that whoever is
// waited for has the processor; with an end.
import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises'

/** Looks at the very next turns of the event loop; later ones come after a pause that grows to this many real ms. */
const AT_ONCE = 8
const LONGEST_PAUSE = 10

/** Resolves with the first truthy value of `look`; throws after `limit` real milliseconds. */
export async function until<T>(
  look: () => T | Promise<T>,
  what = 'the expected',
  limit = 20_000,
): Promise<NonNullable<T>> {
  const end = performance.now() + limit
  for (let looks = 1; ; looks++) {
    const value = await look()
    if (value) return value as NonNullable<T>
    if (performance.now() > end) throw new Error(`${what} did not come within ${limit} ms`)
    await (looks < AT_ONCE ? turn() : pause(Math.min(Math.ceil((looks - AT_ONCE + 1) / 5), LONGEST_PAUSE)))
  }
}
