// One server to a data directory. The lock is an exclusive transaction on a small database of its own: the system drops it
// when the process ends, however it ends.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf } from '../base/errors.ts'
import { sqliteAddon } from './addon.ts'

/** Takes the lock of a data directory; undefined when another process has it, else the function that gives it back. */
export function takeLock(dataDir: string): (() => void) | undefined {
  const database = new Database(join(dataDir, 'serve.lock'), { timeout: 0, ...sqliteAddon(dataDir) })
  try {
    database.exec('begin exclusive')
    return () => database.close()
  } catch (thrown) {
    database.close()
    if (codeOf(thrown) === 'SQLITE_BUSY') return undefined
    throw thrown
  }
}
