// Allows one server per data directory. The lock is an exclusive transaction on a small separate database: the system
// releases it when the process ends, for whatever reason. It is taken before any other file is opened. The file of the
// lock is never written, so that a full disk does not prevent the lock.
import { readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { afterLast } from '../base/text.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { unusableError } from '../base/unusable.ts'
import { sqliteAddon } from './addon.ts'
import { DATABASE, makeDataDir } from './open.ts'

/** One server at a time, and one backup by its side. */
export type LockName = 'serve.lock' | 'backup.lock'

/** Keeps a reference to each lock: otherwise it would be garbage-collected, and so closed. */
const held = new Set<Database.Database>()

/**
 * Takes the lock of a data directory. Returns the function that releases it, undefined when another process has it.
 * Throws an OperatorError when the directory or the lock's file cannot be used.
 */
export function takeLock(dataDir: string, name: LockName = 'serve.lock'): (() => void) | undefined {
  makeDataDir(dataDir)
  const file = join(dataDir, name)
  let database: Database.Database | undefined
  try {
    const lock = (database = new Database(file, { timeout: 0, ...sqliteAddon(dataDir) }))
    // Writes nothing to the disk, not even a journal.
    lock.pragma('journal_mode = memory')
    lock.exec('begin exclusive')
    if (name === 'serve.lock' && isServed(dataDir)) {
      lock.close()
      return undefined
    }
    held.add(lock)
    return () => {
      held.delete(lock)
      lock.close()
    }
  } catch (thrown) {
    database?.close()
    if (codeOf(thrown) === 'SQLITE_BUSY') return undefined
    if (thrown instanceof OperatorError) throw thrown
    throw (
      unusableError(thrown, dataDir) ??
      new OperatorError(`${file} cannot be locked (${codeOf(thrown)}); see whether its disk is failing.`)
    )
  }
}

/** Where SQLite puts the lock of an exclusive transaction: its PENDING_BYTE. */
const EXCLUSIVE = '1073741824'

/**
 * Whether another process has the database open and holds a lock file whose name was taken from it: the file can be
 * moved or removed, its lock cannot. Linux alone says who holds locks; elsewhere false.
 */
function isServed(dataDir: string): boolean {
  const shared = statSync(join(dataDir, `${DATABASE}-shm`), { throwIfNoEntry: false, bigint: true })?.ino
  if (shared === undefined) return false
  const locks = locksOfSystem()
  return locks.some(
    ({ first, inode, kind, pid }) =>
      kind === 'WRITE' &&
      first === EXCLUSIVE &&
      pid !== String(process.pid) &&
      locks.some((other) => other.pid === pid && other.inode === String(shared)) &&
      hasOpenEmpty(pid, inode),
  )
}

function locksOfSystem(): { kind: string; pid: string; inode: string; first: string }[] {
  try {
    const lines = readFileSync('/proc/locks', 'utf8').trim().split('\n')
    return lines.map((line) => {
      const [, , , kind = '', pid = '', place = '', first = ''] = line.trim().split(/\s+/)
      return { kind, pid, inode: afterLast(place, ':'), first }
    })
  } catch {
    return []
  }
}

/**
 * Whether a process has a file open that is empty, as a lock file is and a database that is written is not; a backup
 * under way, which also has the database open, is not a server.
 */
function hasOpenEmpty(pid: string, inode: string): boolean {
  try {
    return readdirSync(`/proc/${pid}/fd`).some((fd) => {
      const file = statSync(`/proc/${pid}/fd/${fd}`, { throwIfNoEntry: false, bigint: true })
      if (file === undefined || String(file.ino) !== inode || file.size > 0n) return false
      return !/\/backup\.lock(?: \(deleted\))?$/.test(readlinkSync(`/proc/${pid}/fd/${fd}`))
    })
  } catch {
    return false
  }
}
