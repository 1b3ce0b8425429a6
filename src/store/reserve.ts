// A file that reserves space in the data directory. On a disk without a free byte, SQLite cannot even create its shared
// memory, so the server could not start. Then the file is deleted, and created again when there is space.
import { closeSync, existsSync, fsyncSync, openSync, rmSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { freeOn } from '../base/space.ts'
import { DATABASE } from './open.ts'

export const RESERVE_FILE = 'room'

const STEP = 1024 * 1024
/** Bytes: the shared memory and the log of SQLite for a start, and the library that an executable unpacks. */
export const RESERVE = 8 * STEP

/** Frees the room on a full disk, before anything is opened. */
export function freeReserve(dataDir: string, free = freeOn(dataDir)): void {
  if (free < RESERVE / 2) rmSync(join(dataDir, RESERVE_FILE), { force: true })
}

/** The space for a new installation (9 MB), and more than that for its first emails. */
const NEW = 4 * RESERVE

/** Throws an OperatorError if a new installation would fill the disk. Call it before any file is created. */
export function demandSpaceForNew(dataDir: string, free = freeOn(dataDir)): void {
  if (free >= NEW || existsSync(join(dataDir, DATABASE))) return
  const mb = (bytes: number): number => Math.floor(bytes / STEP)
  throw new OperatorError(
    `The disk of ${dataDir} has ${mb(free)} MB free, but a new installation needs ${mb(NEW)} MB; free some space, or use another disk. Nothing was changed.`,
  )
}

/**
 * Creates the reserve file if it is missing and the disk has more than the reserve. Otherwise it waits for free space.
 */
export function keepReserve(dataDir: string, reserve: number, free = freeOn(dataDir)): void {
  const file = join(dataDir, RESERVE_FILE)
  if (existsSync(file) || free < reserve + 4 * RESERVE) return
  try {
    const made = openSync(file, 'wx', 0o600)
    try {
      // Written, because a file of holes takes no space.
      for (let written = 0; written < RESERVE; written += STEP) writeSync(made, Buffer.alloc(STEP, 1))
      fsyncSync(made)
    } finally {
      closeSync(made)
    }
  } catch {
    rmSync(file, { force: true })
  }
}
