// Allows one server per data directory. The lock is an exclusive transaction on a small separate database: the system
// releases it when the process stops, for any reason. It is taken before any other file is opened. The file of the lock
// is never written, so a full disk does not prevent the lock.
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
    // The disk is not written, not even a journal.
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
      new OperatorError(`${file} cannot be locked (${codeOf(thrown)}); check its disk.`)
    )
  }
}

/** Where SQLite puts the lock of an exclusive transaction: its PENDING_BYTE. */
const EXCLUSIVE = '1073741824'

/**
 * Whether another process has the database open and holds a lock file that has lost its name: the file can be moved or
 * removed, but its lock persists. Only Linux shows the holders of locks. On other systems the result is false.
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

/** The process id of the server that has the lock of a data directory, or undefined. Only Linux shows it. */
export function lockHolder(dataDir: string): number | undefined {
  const lock = statSync(join(dataDir, 'serve.lock'), { throwIfNoEntry: false })
  if (!lock) return undefined
  const alike = locksOfSystem().filter(
    ({ first, inode, kind }) => kind === 'WRITE' && first === EXCLUSIVE && inode === String(lock.ino),
  )
  // Files of several volumes can have the same inode number. On btrfs the device differs from that of stat(2).
  const [major, minor] = [(lock.dev >>> 8) & 0xfff, (lock.dev & 0xff) | ((lock.dev >>> 12) & 0xfff00)]
  const device = [major, minor].map((part) => part.toString(16).padStart(2, '0')).join(':')
  const [holder] = alike.length > 1 ? alike.filter((each) => each.device === device) : alike
  return holder && Number(holder.pid) > 0 ? Number(holder.pid) : undefined
}

function locksOfSystem(): { kind: string; pid: string; device: string; inode: string; first: string }[] {
  try {
    const lines = readFileSync('/proc/locks', 'utf8').trim().split('\n')
    return lines.map((line) => {
      const [, , , kind = '', pid = '', file = '', first = ''] = line.trim().split(/\s+/)
      const inode = afterLast(file, ':')
      return { kind, pid, device: file.slice(0, -inode.length - 1), inode, first }
    })
  } catch {
    return []
  }
}

/**
 * Whether a process has an empty file open: a lock file is empty, a database is not. So a running backup, which also
 * has the database open, does not count as a server.
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
