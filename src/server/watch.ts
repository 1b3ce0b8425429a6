// The server's checks every second: its files exist, the disk has space, writes finish, samples for the page Load, and
// changes of the database by commands.
import { join } from 'node:path'
import { sizeOf } from '../checks/figures.ts'
import { MINUTE, SECOND } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { keyFault } from '../base/keyring.ts'
import { noteSpace } from '../base/space.ts'
import { holdersOf, holderText, LONG_LOG } from '../store/log.ts'
import { DATABASE } from '../store/open.ts'
import type { ServingMark } from './serving.ts'
import type { ServerParts } from './wiring.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Store } from '../store/database.ts'

// Reports whether the database can be written. An idle server would not notice that writing works
// again, so it makes a test write while the last commit has failed.

/** Returns the function to call at each check. */
function watchWrites(store: Store, troubles: Troubles): () => void {
  let failed = false
  return () => {
    const { failing } = store
    if (failing) {
      troubles.report('store', 'The database is not writable.', failing)
      // Its error is reported at the next check.
      store.prove().catch(() => {})
    } else if (failed) troubles.clear('store')
    failed = failing !== undefined
  }
}

/** Reports whether the key file still contains the key in use. Returns the function to call. */
function watchKey({ clock, config, keyring, troubles }: ServerParts): () => void {
  let judged = -Infinity
  return () => {
    // By elapsed time, not by the date.
    if (clock.elapsed() - judged < MINUTE) return
    judged = clock.elapsed()
    const fault = keyFault(config.data_dir, keyring)
    if (fault === undefined) troubles.clear('key')
    else
      troubles.report(
        'key',
        'The installation key file is missing or has changed: backups fail, and after a restart no DKIM key can be decrypted.',
        new Error(fault),
      )
  }
}

const EVERY = SECOND

/** Checks until the returned function is called. `end` is called once, when the server cannot continue. */
export function startWatch(parts: ServerParts, mark: ServingMark, end: (reason: OperatorError) => void): () => void {
  const { clock, deps, inbound, integrity, letters, loops, operator, store, time, troubles } = parts
  const lookAtLog = watchLog(parts)
  const lookAtKey = watchKey(parts)
  const lookAtWrites = watchWrites(store, troubles)
  const looks = deps.subjects.flatMap(({ everySecond }) => everySecond?.(deps.partDeps) ?? [])
  integrity.start()
  let cancel = clock.wake(clock.now() + EVERY, watch)
  function watch(): void {
    try {
      look()
    } catch (thrown) {
      if (thrown instanceof OperatorError) return end(thrown)
      // The disk does not answer at present.
      troubles.report('store', 'The database is not readable.', thrown)
    }
    tellOperator()
    cancel = clock.wake(clock.now() + EVERY, watch)
  }
  function look(): void {
    store.demandPresence()
    mark.look()
    noteSpace(parts)
    lookAtWrites()
    time
      .look()
      .then((set) => set && lookAgain())
      .catch((thrown: unknown) => troubles.report('store', 'The database is not writable.', thrown))
    deps.samples.look()
    lookAtLog()
    lookAtKey()
    integrity.look()
    for (const lookAtPart of looks) lookAtPart()
    if (store.changedOutside()) lookAgain()
  }
  function tellOperator(): void {
    try {
      operator.look()
    } catch (thrown) {
      troubles.report('store', 'The database is not readable.', thrown)
    }
  }
  function lookAgain(): void {
    letters.lookAgain()
    const { backups, dispatcher, engine, notices, ofParts, polling, privacy, runner } = loops
    for (const loop of [notices, engine, polling, dispatcher, runner, privacy, backups, inbound.engine, ...ofParts])
      loop.ring?.()
  }
  return () => cancel()
}

/** Logs once that the write-ahead log has become large, and which process keeps it from being reset. */
function watchLog({ clock, config, log, store }: ServerParts): () => void {
  const file = join(config.data_dir, DATABASE)
  let logged = false
  return () => {
    const size = sizeOf(`${file}-wal`)
    if (size <= LONG_LOG) return void (logged = false)
    const held = store.logHeldFor(clock.now())
    if (logged || held === 0) return
    logged = true
    const processes = holdersOf(file).map(holderText).join(', ') || 'unknown'
    log.warn('wal_file_large', { bytes: size, seconds: held / SECOND, processes })
  }
}
