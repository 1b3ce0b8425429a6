// Reads the write-ahead log before SQLite does. SQLite reads up to the first frame with a wrong checksum and treats
// that frame as the end. After a crash this is right. After damage it is wrong: committed transactions may follow.
// (https://sqlite.org/walformat.html)
import { closeSync, fstatSync, readSync } from 'node:fs'
import { openPlain, readPlain } from '../base/plain-file.ts'

const HEADER = 32
const FRAME_HEADER = 24
/** The lowest bit says whether checksums are over big-endian words. */
const MAGIC = 0x377f0682

export interface LogDamage {
  /** Frames that SQLite will read. */
  readable: number
  /** Committed frames after them. */
  lost: number
}

/**
 * The committed frames that damage has cut off from the log; undefined when none.
 * No process may have the database open.
 */
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
  // A power cut may leave the last transaction half written: one commit after the damage was perhaps never reported as
  // done. With two or more commits after the damage, the earlier ones were reported as done.
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
