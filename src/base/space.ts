// Free space on the disk of the data directory. Below a reserve nothing new is promised (D73): what was promised has to be delivered, settled
// and erased, and all of that writes.
import { statfsSync } from 'node:fs'
import type { Config } from './config.ts'
import type { Troubles } from './trouble.ts'

export class Space {
  readonly #dataDir: string
  readonly #reserve: () => number

  /** `reserve` in octets is asked for at each look; 0 turns the reserve off. */
  constructor({ dataDir, reserve }: { dataDir: string; reserve: () => number }) {
    this.#dataDir = dataDir
    this.#reserve = reserve
  }

  /** Free octets for this user, Infinity while the disk does not tell. Looked up each time: it costs some microseconds. */
  get free(): number {
    return freeOn(this.#dataDir)
  }

  get reserve(): number {
    return this.#reserve()
  }

  /** Whether nothing new may be promised now. */
  get low(): boolean {
    return this.free < this.#reserve()
  }
}

/** Notes whether the disk is below its reserve. */
export function noteSpace({ space, troubles }: { space: Pick<Space, 'low'>; troubles: Troubles }): void {
  if (space.low) troubles.report('storage', 'The disk is nearly full: nothing new is taken until there is room.')
  else troubles.clear('storage')
}

/** Free octets of the disk that holds a directory; Infinity when it cannot be asked. */
export function freeOn(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  } catch {
    return Infinity
  }
}

/** Free octets below which nothing new is promised: room for the largest message twice, whatever the configuration says. */
export function reserveOf({ inbound, storage }: Pick<Config, 'inbound' | 'storage'>): number {
  return storage.reserve === 0 ? 0 : Math.max(storage.reserve, 2 * inbound.max_message_bytes)
}
