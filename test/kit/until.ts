// Waits for what happens in its own time (sockets, worker threads): looks again at each turn of the event loop, with an end.
import { setImmediate as turn } from 'node:timers/promises'

/** Resolves with the first truthy value of `look`; throws after `limit` real milliseconds. */
export async function until<T>(
  look: () => T | Promise<T>,
  what = 'the expected',
  limit = 20_000,
): Promise<NonNullable<T>> {
  const end = performance.now() + limit
  for (;;) {
    const value = await look()
    if (value) return value as NonNullable<T>
    if (performance.now() > end) throw new Error(`${what} did not come within ${limit} ms`)
    await turn()
  }
}
