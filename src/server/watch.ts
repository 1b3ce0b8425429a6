// The server's checks every second: its files exist, the disk has room, writes finish, the figures of its work, and
// changes of the database by commands.
import { join } from 'node:path'
import { sizeOf } from '../checks/figures.ts'
import { MINUTE, SECOND } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { keyFault } from '../base/keyring.ts'
import { noteSpace } from '../base/space.ts'
import { holdersOf, holderText, LONG_LOG } from '../store/log.ts'
import { DATABASE } from '../store/open.ts'
import { followSettings } from '../warmup/settings.ts'
import type { ServerParts } from './wiring.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Store } from '../store/database.ts'

// Reports whether the database can be written. A server with nothing to write would not notice that writing works
// again, so a test write is made as long as the last commit has failed.

/** Returns the function to call at each check. */
function watchWrites(store: Store, troubles: Troubles): () => void {
  let failed = false
  return () => {
    const { failing } = store
    if (failing) {
      troubles.report('store', 'The database cannot be written.', failing)
      // Its error is reported at the next check.
      store.prove().catch(() => {})
    } else if (failed) troubles.clear('store')
    failed = failing !== undefined
  }
}

/** Reports whether the file of the key is still the one that the server runs with. Returns the function to call. */
function watchKey({ clock, config, keyring, troubles }: ServerParts): () => void {
  let judged = -Infinity
  return () => {
    // By the time that passes, not by the date.
    if (clock.elapsed() - judged < MINUTE) return
    judged = clock.elapsed()
    const fault = keyFault(config.data_dir, keyring)
    if (fault === undefined) troubles.clear('key')
    else
      troubles.report(
        'key',
        `The file of the key of this installation is gone or not as it was: backups fail, and after a stop no DKIM key can be opened.`,
        new Error(fault),
      )
  }
}

const EVERY = SECOND

/** Checks until the returned function is called. `end` is called once, when the server cannot continue. */
export function startWatch(parts: ServerParts, end: (reason: OperatorError) => void): () => void {
  const { clock, deps, inbound, letters, loops, operator, store, time, troubles } = parts
  const lookAtLog = watchLog(parts)
  const lookAtKey = watchKey(parts)
  const lookAtWrites = watchWrites(store, troubles)
  const lookAtWarmup = followSettings(parts, () => loops.engine.allowancesChanged())
  let cancel = clock.wake(clock.now() + EVERY, watch)
  function watch(): void {
    try {
      look()
    } catch (thrown) {
      if (thrown instanceof OperatorError) return end(thrown)
      // The disk does not answer at present.
      troubles.report('store', 'The database cannot be read.', thrown)
    }
    tellOperator()
    cancel = clock.wake(clock.now() + EVERY, watch)
  }
  function look(): void {
    store.demandPresence()
    noteSpace(parts)
    lookAtWrites()
    time
      .look()
      .then((set) => set && lookAgain())
      .catch((thrown: unknown) => troubles.report('store', 'The database cannot be written.', thrown))
    deps.samples.look()
    lookAtLog()
    lookAtKey()
    lookAtWarmup()
    if (store.changedOutside()) lookAgain()
  }
  function tellOperator(): void {
    try {
      operator.look()
    } catch (thrown) {
      troubles.report('store', 'The database cannot be read.', thrown)
    }
  }
  function lookAgain(): void {
    letters.lookAgain()
    const { backups, dispatcher, engine, notices, polling, privacy, runner, watcher } = loops
    for (const loop of [notices, engine, polling, dispatcher, runner, privacy, watcher, backups, inbound.engine])
      loop.ring()
  }
  return () => cancel()
}

/** Says in the log, once for each time, that the write-ahead log has grown long, and who keeps it so. */
function watchLog({ clock, config, log, store }: ServerParts): () => void {
  const file = join(config.data_dir, DATABASE)
  let said = false
  return () => {
    const octets = sizeOf(`${file}-wal`)
    if (octets <= LONG_LOG) return void (said = false)
    const held = store.logHeldFor(clock.now())
    if (said || held === 0) return
    said = true
    const by = holdersOf(file).map(holderText).join(', ') || 'unknown'
    log.warn('the write-ahead log is long: another process reads the database', { octets, seconds: held / SECOND, by })
  }
}
