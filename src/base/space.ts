// Free space on the disk of the data directory. When less than a reserve is free, nothing new is accepted (D73): the
// delivery, the settling and the erasure of mail that was accepted before still need to write.
import { statfsSync } from 'node:fs'
import type { Config } from './config.ts'
import type { Troubles } from './trouble.ts'

export class Space {
  readonly #dataDir: string
  readonly #reserve: () => number

  /** `reserve` gives the reserve in octets at each check; 0 turns it off. */
  constructor({ dataDir, reserve }: { dataDir: string; reserve: () => number }) {
    this.#dataDir = dataDir
    this.#reserve = reserve
  }

  /** Free octets for this user, Infinity when the system gives no answer. Read each time; it takes microseconds. */
  get free(): number {
    return spaceOn(this.#dataDir).octets
  }

  get reserve(): number {
    return this.#reserve()
  }

  /** Whether nothing new may be accepted now: too few octets, or too few inodes for new files. */
  get low(): boolean {
    const reserve = this.#reserve()
    if (reserve === 0) return false
    const { inodes, octets } = spaceOn(this.#dataDir)
    return octets < reserve || inodes < FEW_INODES
  }
}

/** Reports or clears the trouble of a disk below its reserve. */
export function noteSpace({ space, troubles }: { space: Pick<Space, 'low'>; troubles: Troubles }): void {
  if (space.low) troubles.report('storage', 'The disk is nearly full: nothing new is accepted until there is room.')
  else troubles.clear('storage')
}

/** Below this many free inodes a disk counts as full: large mail and SQLite's own files need new ones. */
export const FEW_INODES = 1000

/**
 * What is free on the disk that holds a directory; Infinity when the system gives no answer, and for the inodes of a
 * file system that makes them as needed.
 */
function spaceOn(directory: string): { octets: number; inodes: number } {
  try {
    const { bavail, bsize, ffree, files } = statfsSync(directory)
    return { octets: bavail * bsize, inodes: files > 0 ? ffree : Infinity }
  } catch {
    return { octets: Infinity, inodes: Infinity }
  }
}

/** Free inodes of a directory's disk. */
export const freeInodesOn = (directory: string): number => spaceOn(directory).inodes

/** Free octets of the disk that holds a directory. */
export const freeOn = (directory: string): number => spaceOn(directory).octets

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

/** The reserve in octets: as configured, at least twice the largest message; 0 when it is turned off. */
export function reserveOf({ inbound, storage }: Pick<Config, 'inbound' | 'storage'>): number {
  return storage.reserve === 0 ? 0 : Math.max(storage.reserve, 2 * inbound.max_message_bytes)
}
