// The server's checks every second: its files exist, the disk has room, writes finish, the figures of its work, and
// changes of the database by commands.
import { SECOND } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { noteSpace } from '../base/space.ts'
import type { Parts } from './parts.ts'
import { watchWrites } from './writable.ts'

const EVERY = SECOND

/** Checks until the returned function is called. `end` is called once, when the server cannot continue. */
export function startWatch(parts: Parts, end: (reason: OperatorError) => void): () => void {
  const { clock, deps, inbound, letters, loops, operator, store, troubles } = parts
  const lookAtWrites = watchWrites(store, troubles)
  let cancel = clock.wake(clock.now() + EVERY, watch)
  function watch(): void {
    try {
      look()
    } catch (thrown) {
      if (thrown instanceof OperatorError) return end(thrown)
      // The disk does not answer at present.
      troubles.report('store', 'The database cannot be read.', thrown)
    }
    cancel = clock.wake(clock.now() + EVERY, watch)
  }
  function look(): void {
    store.demandPresence()
    noteSpace(parts)
    lookAtWrites()
    operator.look()
    deps.samples.look()
    if (!store.changedOutside()) return
    letters.lookAgain()
    const { dispatcher, engine, notices, polling, privacy, runner } = loops
    for (const loop of [notices, engine, polling, dispatcher, runner, privacy, inbound.engine]) loop.ring()
  }
  return () => cancel()
}
