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
    return freeOn(this.#dataDir)
  }

  get reserve(): number {
    return this.#reserve()
  }

  /** Whether nothing new may be accepted now: too few octets, or too few inodes for new files. */
  get low(): boolean {
    const reserve = this.#reserve()
    return reserve > 0 && (this.free < reserve || freeInodesOn(this.#dataDir) < FEW_INODES)
  }
}

/** Reports or clears the trouble of a disk below its reserve. */
export function noteSpace({ space, troubles }: { space: Pick<Space, 'low'>; troubles: Troubles }): void {
  if (space.low) troubles.report('storage', 'The disk is nearly full: nothing new is accepted until there is room.')
  else troubles.clear('storage')
}

/** Below this many free inodes a disk counts as full: large mail and SQLite's own files need new ones. */
export const FEW_INODES = 1000

/** Free inodes of a directory's disk; Infinity when the system gives no answer, or makes inodes as needed. */
export function freeInodesOn(directory: string): number {
  try {
    const { ffree, files } = statfsSync(directory)
    return files > 0 ? ffree : Infinity
  } catch {
    return Infinity
  }
}

/** Free octets of the disk that holds a directory; Infinity when the system gives no answer. */
export function freeOn(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  } catch {
    return Infinity
  }
}

/** The reserve in octets: as configured, at least twice the largest message; 0 when it is turned off. */
export function reserveOf({ inbound, storage }: Pick<Config, 'inbound' | 'storage'>): number {
  return storage.reserve === 0 ? 0 : Math.max(storage.reserve, 2 * inbound.max_message_bytes)
}
