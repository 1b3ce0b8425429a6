// A file of room in the data directory. On a disk without a free octet SQLite cannot even make the memory that its
// processes share, so that a server could not start. Then the room is given up, and made again when there is space.
import { closeSync, existsSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { freeOn } from '../base/space.ts'
import { DATABASE } from './open.ts'

export const ROOM_FILE = 'room'

const STEP = 1024 * 1024
/** Octets: the shared memory and the log of SQLite for a start, and the library that an executable unpacks. */
export const ROOM = 8 * STEP

/** Frees the room on a full disk, before anything is opened. */
export function giveUpRoom(dataDir: string, free = freeOn(dataDir)): void {
  if (free < ROOM / 2) rmSync(join(dataDir, ROOM_FILE), { force: true })
}

/** What a new installation takes (9 MB), and as much again and more for its first mails. */
const NEW = 4 * ROOM

/** Throws an OperatorError where a new installation would fill the disk before it is whole; nothing is made yet. */
export function demandRoomForNew(dataDir: string, free = freeOn(dataDir)): void {
  if (free >= NEW || existsSync(join(dataDir, DATABASE))) return
  const mb = (octets: number): number => Math.floor(octets / STEP)
  throw new OperatorError(
    `The disk that holds ${dataDir} has ${mb(free)} MB free, and a new installation needs ${mb(NEW)}: free some space, or put the data on another disk. Nothing was changed.`,
  )
}

/** Makes the room where none is, and the disk has more than a reserve. Without space it stays away. */
export function keepRoom(dataDir: string, reserve: number, free = freeOn(dataDir)): void {
  const file = join(dataDir, ROOM_FILE)
  if (existsSync(file) || free < reserve + 4 * ROOM) return
  try {
    const made = openSync(file, 'wx', 0o600)
    try {
      // Written, because a file of holes takes no space.
      for (let written = 0; written < ROOM; written += STEP) writeSync(made, Buffer.alloc(STEP, 1))
      fsyncSync(made)
    } finally {
      closeSync(made)
    }
  } catch {
    rmSync(file, { force: true })
  }
}
