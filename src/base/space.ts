// Free space on the disk of the data directory. If less than a reserve is free, new mail is not accepted (D73): the
// delivery and the erasure of mail that was accepted before still need space.
import { statfsSync } from 'node:fs'
import type { Config } from './config.ts'
import type { Troubles } from './trouble.ts'

export class Space {
  readonly #dataDir: string
  readonly #reserve: () => number

  /** `reserve` returns the reserve in bytes for each check. 0 disables it. */
  constructor({ dataDir, reserve }: { dataDir: string; reserve: () => number }) {
    this.#dataDir = dataDir
    this.#reserve = reserve
  }

  /** Free bytes for this user, or Infinity if the system does not report them. Read each time, in microseconds. */
  get free(): number {
    return spaceOn(this.#dataDir).bytes
  }

  get reserve(): number {
    return this.#reserve()
  }

  /** Whether the disk is too full to accept mail: too few free bytes, or too few inodes for new files. */
  get low(): boolean {
    const reserve = this.#reserve()
    if (reserve === 0) return false
    const { inodes, bytes } = spaceOn(this.#dataDir)
    return bytes < reserve || inodes < FEW_INODES
  }
}

/** Reports or clears the problem of a disk below its reserve. */
export function noteSpace({ space, troubles }: { space: Pick<Space, 'low'>; troubles: Troubles }): void {
  if (space.low) troubles.report('storage', 'The disk is nearly full: nothing new is accepted until space is free.')
  else troubles.clear('storage')
}

/** Below this many free inodes a disk counts as full: large mail and SQLite's own files need new ones. */
export const FEW_INODES = 1000

/**
 * The free space on the disk of a directory. Infinity if the system does not report it, and for inodes of a file system
 * that creates them as needed.
 */
function spaceOn(directory: string): { bytes: number; inodes: number } {
  try {
    const { bavail, bsize, ffree, files } = statfsSync(directory)
    return { bytes: bavail * bsize, inodes: files > 0 ? ffree : Infinity }
  } catch {
    return { bytes: Infinity, inodes: Infinity }
  }
}

export const freeInodesOn = (directory: string): number => spaceOn(directory).inodes

export const freeOn = (directory: string): number => spaceOn(directory).bytes

/** Magic numbers of statfs(2): tmpfs and ramfs. */
const MEMORY = [0x01021994, 0x858458f6]

/** Whether the files of a directory are in memory. */
export function isMemory(directory: string): boolean {
  try {
    return MEMORY.includes(statfsSync(directory).type >>> 0)
  } catch {
    return false
  }
}

/** The reserve in bytes: as configured, at least twice the largest message, or 0 if it is turned off. */
export function reserveOf({ inbound, storage }: Pick<Config, 'inbound' | 'storage'>): number {
  return storage.reserve === 0 ? 0 : Math.max(storage.reserve, 2 * inbound.max_message_bytes)
}
