// Allows one server per data directory. The lock is an exclusive transaction on a small separate database: the system
// releases it when the process ends, for whatever reason. It is taken before any other file is opened. The file of the
// lock is never written, so that a full disk does not prevent the lock.
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, OperatorError } from '../base/errors.ts'
import { sqliteAddon } from './addon.ts'
import { makeDataDir } from './open.ts'

/** Keeps a reference to each lock: otherwise it would be garbage-collected, and so closed. */
const held = new Set<Database.Database>()

/**
 * Takes the lock of a data directory. Returns the function that releases it, undefined when another process has it.
 * Throws an OperatorError when the directory or the lock's file cannot be used.
 */
export function takeLock(dataDir: string): (() => void) | undefined {
  makeDataDir(dataDir)
  const file = join(dataDir, 'serve.lock')
  let database: Database.Database | undefined
  try {
    const lock = (database = new Database(file, { timeout: 0, ...sqliteAddon(dataDir) }))
    // Writes nothing to the disk, not even a journal.
    lock.pragma('journal_mode = memory')
    lock.exec('begin exclusive')
    held.add(lock)
    return () => {
      held.delete(lock)
      lock.close()
    }
  } catch (thrown) {
    database?.close()
    if (codeOf(thrown) === 'SQLITE_BUSY') return undefined
    if (thrown instanceof OperatorError) throw thrown
    throw new OperatorError(
      `${file} cannot be locked (${codeOf(thrown)}); see that the disk has room and is not read-only, and that Postrider runs as the owner of ${dataDir}.`,
    )
  }
}
