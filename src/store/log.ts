// The write-ahead log of the database: empties it without waiting, and finds the processes that prevent it.
import { span } from '../base/text.ts'
import { readFileSync, statSync, closeSync, fstatSync, readSync } from 'node:fs'
import type Database from 'better-sqlite3'
import { must } from '../base/errors.ts'
import { openPlain, readPlain } from '../base/plain-file.ts'

/**
 * Above this size, doctor, /metrics and the server's log report the log and the process that keeps it from restarting.
 */
export const LONG_LOG = 256 * 1024 * 1024

interface CheckpointResult {
  busy: 0 | 1
  log: number
  checkpointed: number
}

/**
 * Copies the log into the database as far as readers allow. Returns true if all of it is copied: then the log restarts
 * at the next commit. Never waits (D118).
 */
export const emptied = (database: Database.Database): boolean => isWhole(checkpoint(database, 'PASSIVE'))

/** As `emptied`, and truncates the log. Returns false if another process reads an older state or is writing. */
export function truncated(database: Database.Database): boolean {
  // This finds readers without a lock. TRUNCATE alone would block every writer while it waits.
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

/** How many pages of the log were copied into the database, and the total. */
export interface CheckpointProgress {
  done: number
  of: number
}

/** Copies the log as far as readers allow (`emptied`). */
export function progressOf(database: Database.Database): CheckpointProgress {
  const { checkpointed, log } = checkpoint(database, 'PASSIVE')
  return { done: checkpointed, of: log }
}

/**
 * The age of the oldest reader: while it holds an older state, the log is copied only up to that state. A call takes
 * microseconds if there is no more to copy.
 */
export class LogWatch {
  #stuck: { done: number; since: number } | undefined

  /** Records how far the log was copied at a time (ms). Returns how long a reader has held it, or 0. */
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
  /** Its executable, or undefined if the system does not report it. */
  name: string | undefined
  /**
   * How long the process has run (ms), an upper limit for its transaction. Undefined if the system does not report it.
   */
  age: number | undefined
}

/** The locks of readers in the file -shm: one byte for each mark. */
const MARKS = { first: 123, last: 127 }

/** Other processes that hold a read transaction on a database now. Empty without /proc. */
export function holdersOf(file: string): Holder[] {
  const inode = statSync(`${file}-shm`, { throwIfNoEntry: false, bigint: true })?.ino
  const locks = inode === undefined ? '' : textOf('/proc/locks')
  const pids = locks.split('\n').flatMap((line) => {
    const [, kind, , , pid, device, first, last] = line.trim().split(/\s+/)
    const reads = kind === 'POSIX' && device?.endsWith(`:${inode}`) && Number(first) <= MARKS.last
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
  `${name ?? 'an application'} (process ${pid}${age === undefined ? '' : `, running for ${span(age)}`})`

// Reads the write-ahead log before SQLite does. SQLite reads up to the first frame with a wrong checksum and treats
// that frame as the end. After a crash this is right. After damage it is wrong: committed transactions may follow.
// (https://sqlite.org/walformat.html)

const HEADER = 32
const FRAME_HEADER = 24
/** The lowest bit is set if checksums are over big-endian words. */
const MAGIC = 0x377f0682

export interface LogDamage {
  /** Frames that SQLite will read. */
  readable: number
  /** Committed frames after them. */
  lost: number
}

/** The committed frames that damage has cut off from the log, or undefined. The database must be closed. */
export function scanLog(database: string): LogDamage | undefined {
  let file: number
  try {
    file = openPlain(`${database}-wal`)
  } catch {
    return undefined
  }
  try {
    return scan(file, indexOf(`${database}-shm`))
  } finally {
    closeSync(file)
  }
}

/**
 * The number of committed frames and their salt, from the index file that processes share.
 * It survives a killed process.
 */
function indexOf(path: string): { frames: number; salt: string } | undefined {
  try {
    const bytes = readPlain(path)
    return bytes.length < 48 ? undefined : { frames: bytes.readUInt32LE(16), salt: bytes.toString('hex', 32, 40) }
  } catch {
    return undefined
  }
}

function scan(file: number, index: { frames: number; salt: string } | undefined): LogDamage | undefined {
  const header = Buffer.alloc(HEADER)
  const size = fstatSync(file).size
  if (readSync(file, header, 0, HEADER, 0) < HEADER) return undefined
  const magic = header.readUInt32BE(0)
  if ((magic & ~1) >>> 0 !== MAGIC) return undefined
  const bigEndian = (magic & 1) === 1
  const page = header.readUInt32BE(8)
  const salt = header.toString('hex', 16, 24)
  const frame = Buffer.alloc(FRAME_HEADER + page)
  const sum: [number, number] = [0, 0]
  add(sum, header.subarray(0, 24), bigEndian)
  let readable = 0
  let commitsBehind = 0
  let lastCommitted = 0
  let sound = sum[0] === header.readUInt32BE(24) && sum[1] === header.readUInt32BE(28)
  for (let at = HEADER, number = 1; at + frame.length <= size; at += frame.length, number++) {
    readSync(file, frame, 0, frame.length, at)
    if (frame.toString('hex', 8, 16) !== salt) break
    const commits = frame.readUInt32BE(4) !== 0
    if (sound) {
      add(sum, frame.subarray(0, 8), bigEndian)
      add(sum, frame.subarray(FRAME_HEADER), bigEndian)
      sound = sum[0] === frame.readUInt32BE(16) && sum[1] === frame.readUInt32BE(20)
    }
    if (sound && commits) readable = number
    if (!sound && commits) {
      commitsBehind++
      lastCommitted = number
    }
  }
  // A power failure may leave the last transaction incomplete: one commit after the damage was perhaps never reported
  // as done. With two or more commits after the damage, the earlier ones were reported as done.
  const behind = commitsBehind > 1 ? lastCommitted - readable : 0
  const known = index?.salt === salt ? index.frames - readable : 0
  const lost = Math.max(behind, known)
  return lost > 0 ? { readable, lost } : undefined
}

/** SQLite's checksum: pairs of 32-bit words. */
function add(sum: [number, number], bytes: Buffer, bigEndian: boolean): void {
  let [one, two] = sum
  for (let at = 0; at < bytes.length; at += 8) {
    one = (one + (bigEndian ? bytes.readUInt32BE(at) : bytes.readUInt32LE(at)) + two) >>> 0
    two = (two + (bigEndian ? bytes.readUInt32BE(at + 4) : bytes.readUInt32LE(at + 4)) + one) >>> 0
  }
  sum[0] = one
  sum[1] = two
}
