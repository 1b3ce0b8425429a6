// Waits for what happens in its own time (sockets, worker threads): looks again at once, then every few milliseconds,
// so that whoever is waited for has the processor. It ends with what it waits for; its limit is for what never comes,
// and says nothing of how fast a machine is.
import { inspect } from 'node:util'
import { setImmediate as turn, setTimeout as pause } from 'node:timers/promises'

/** Looks at the very next turns of the event loop; later ones come after a pause that grows to this many real ms. */
const AT_ONCE = 8
const LONGEST_PAUSE = 10
/** In ms; POSTRIDER_PATIENCE sets it for runs of other sizes. */
export const LIMIT = Number(process.env['POSTRIDER_PATIENCE'] ?? 180_000)

/**
 * Resolves with the first truthy value of `look`; throws when there is none for minutes. `state` tells what is there
 * instead.
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
