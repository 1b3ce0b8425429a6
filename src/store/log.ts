// The write-ahead log of the database: how it is emptied without waiting, and who prevents it.
import { readFileSync, statSync } from 'node:fs'
import type Database from 'better-sqlite3'
import { must } from '../base/errors.ts'

/** Past this size doctor, /metrics and the server's log name the log and who keeps it from beginning again. */
export const LONG_LOG = 256 * 1024 * 1024

interface CheckpointResult {
  busy: 0 | 1
  log: number
  checkpointed: number
}

/**
 * Copies the log into the database as far as readers allow. True when all of it is copied: then the log begins again at
 * the next commit. Waits for nobody (D118).
 */
export const emptied = (database: Database.Database): boolean => isWhole(checkpoint(database, 'PASSIVE'))

/** As `emptied`, and cuts the log to nothing; false when another process reads an older state or writes now. */
export function truncated(database: Database.Database): boolean {
  // What a reader prevents is known without a lock: TRUNCATE holds up every writer while it waits.
  return emptied(database) && checkpoint(database, 'TRUNCATE').busy === 0
}

const isWhole = ({ busy, checkpointed, log }: CheckpointResult): boolean => busy === 0 && checkpointed === log

function checkpoint(database: Database.Database, mode: 'PASSIVE' | 'TRUNCATE'): CheckpointResult {
  const patience = Number(database.pragma('busy_timeout', { simple: true }))
  database.pragma('busy_timeout = 0')
  try {
    return must((database.pragma(`wal_checkpoint(${mode})`) as CheckpointResult[])[0], 'The outcome of a checkpoint')
  } finally {
    database.pragma(`busy_timeout = ${patience}`)
  }
}

/** How far the log was copied into the database, and of how many pages. */
export interface CheckpointProgress {
  done: number
  of: number
}

/** Copies the log as far as readers allow; see `emptied`. */
export function progressOf(database: Database.Database): CheckpointProgress {
  const { checkpointed, log } = checkpoint(database, 'PASSIVE')
  return { done: checkpointed, of: log }
}

/**
 * The age of the oldest reader: while one holds an older state, the log is copied up to that state and no further. Each
 * look takes microseconds when nothing new can be copied.
 */
export class LogWatch {
  #stuck: { done: number; since: number } | undefined

  /** Notes how far the log was copied at a time (ms); returns for how long a reader has held it, 0: none does. */
  look({ done, of }: CheckpointProgress, now: number): number {
    if (done >= of) this.#stuck = undefined
    else if (this.#stuck?.done !== done) this.#stuck = { done, since: now }
    return this.heldFor(now)
  }

  heldFor(now: number): number {
    return this.#stuck === undefined ? 0 : now - this.#stuck.since
  }
}

/** A process that reads the database and so keeps the log from beginning again. */
export interface Holder {
  pid: number
  /** Its program; undefined when the system does not say. */
  name: string | undefined
  /** How long the process has run (ms): its transaction is not older. undefined when the system does not say. */
  age: number | undefined
}

/** The locks of readers in the file -shm: one octet for each mark. */
const MARKS = { first: 123, last: 127 }

/** Other processes that hold a read transaction on a database now; none where there is no /proc. */
export function holdersOf(file: string): Holder[] {
  const inode = statSync(`${file}-shm`, { throwIfNoEntry: false, bigint: true })?.ino
  const locks = inode === undefined ? '' : textOf('/proc/locks')
  const pids = locks.split('\n').flatMap((line) => {
    const [, kind, , , pid, place, first, last] = line.trim().split(/\s+/)
    const reads = kind === 'POSIX' && place?.endsWith(`:${inode}`) && Number(first) <= MARKS.last
    return reads && Number(last) >= MARKS.first ? [Number(pid)] : []
  })
  return [...new Set(pids)].filter((pid) => pid > 0 && pid !== process.pid).map(holderOf)
}

function holderOf(pid: number): Holder {
  const name = textOf(`/proc/${pid}/comm`).trim() || undefined
  // The fields after the name, which may hold spaces: the 22nd of all is the start, in hundredths since the boot.
  const started = Number(textOf(`/proc/${pid}/stat`).split(') ').at(-1)?.split(' ')[19])
  const uptime = Number(textOf('/proc/uptime').split(' ')[0])
  const age = started > 0 && uptime > 0 ? Math.max(0, uptime * 1000 - started * 10) : undefined
  return { pid, name, age }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

/** Such as "sqlite3 (process 4711, running for 2 h)". */
export const holderText = ({ age, name, pid }: Holder): string =>
  `${name ?? 'a program'} (process ${pid}${age === undefined ? '' : `, running for ${spanOf(age)}`})`

export function spanOf(ms: number): string {
  const seconds = Math.round(ms / 1000)
  if (seconds < 120) return `${seconds} s`
  return seconds < 7200 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`
}
