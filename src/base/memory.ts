// Memory: the amount in this machine, and the limits of threads and budgets (D131). Large buffers are freed as soon as
// they are no longer needed: the garbage collector frees memory outside its heap late, after several emails of 40 MB
// may have accumulated.

import { availableParallelism, totalmem } from 'node:os'
import { refuse } from './errors.ts'

const LARGE = 1024 * 1024
/** Seconds to wait after a 503 for lack of memory. */
const RETRY_AFTER = '5'

/** Below so many bytes a pool has one thread. */
const SMALL = 384 * LARGE
/** The heap of a thread may have this part of the memory, and at least so many MB: its program and one large mail. */
const HEAP_PART = 8
const LEAST_HEAP_MB = 64

/**
 * The memory of the process, in bytes: that of the machine, or less where its control group is limited (memory.max of
 * v2, memory.limit_in_bytes of v1).
 */
export function memoryHere(): number {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Whether there is so little memory that one large thing is done at a time. */
export const isSmall = (memory = memoryHere()): boolean => memory < SMALL

/** The size of a pool: a thread for each core and at least `least`, or one thread if there is little memory. */
export const threadsHere = (least: number, cores = availableParallelism(), memory = memoryHere()): number =>
  isSmall(memory) ? 1 : Math.max(least, cores)

/** The JavaScript heap of a thread in MB: `wanted`, or less where there is little memory. */
export const heapHere = (wanted: number, memory = memoryHere()): number =>
  Math.min(wanted, Math.max(LEAST_HEAP_MB, Math.floor(memory / HEAP_PART / LARGE)))

/**
 * The young generation of a thread's heap, in MB. Jobs leave much short-lived garbage: with V8's own size, up to 100 MB
 * gather in each thread.
 */
export const youngHere = (memory = memoryHere()): number => (memory < 2 * SMALL ? 8 : 16)

/** Frees the memory of a buffer of 1 MB or more. It must own its ArrayBuffer and must not be read again. */
export function release(bytes: Uint8Array): void {
  const { buffer } = bytes
  if (bytes.byteLength >= LARGE && buffer instanceof ArrayBuffer && !buffer.detached) buffer.transfer(0)
}

/**
 * A limit in bytes for all objects of one kind in memory, such as current request bodies (D74), with a lower limit for
 * each owner of such objects (D112).
 */
export class Budget {
  readonly #most: number
  readonly #share: number
  readonly #owners = new Map<string, number>()
  #taken = 0

  constructor(most: number, share = most) {
    this.#most = most
    this.#share = share
  }

  /** Reserves bytes, or false if too few are left, in all or of the owner's share. */
  take(size: number, owner = ''): boolean {
    const owned = (this.#owners.get(owner) ?? 0) + size
    if (this.#taken + size > this.#most || owned > this.#share) return false
    this.#taken += size
    this.#owners.set(owner, owned)
    return true
  }

  /** Returns bytes that `take` reserved. */
  giveBack(size: number, owner = ''): void {
    this.#taken -= size
    const left = (this.#owners.get(owner) ?? 0) - size
    if (left > 0) this.#owners.set(owner, left)
    else this.#owners.delete(owner)
  }

  get taken(): number {
    return this.#taken
  }
}

/** The owner for an account, the same for all its tokens and sessions. */
export const ownerOf = (userKey: number): string => `account ${userKey}`

/** The memory that one owner holds of a budget. `end` releases all of it. */
export class HeldMemory {
  readonly #budget: Budget
  readonly #owner: string
  #bytes = 0

  constructor(budget: Budget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  /** Reserves more bytes. Throws a Refusal (503) when too few are left. */
  more(size: number): void {
    if (!this.#budget.take(size, this.#owner))
      throw refuse('overloaded', 'Too many large requests are in progress. Send this one again later.', undefined, {
        'Retry-After': RETRY_AFTER,
      })
    this.#bytes += size
  }

  end(): void {
    this.#budget.giveBack(this.#bytes, this.#owner)
    this.#bytes = 0
  }
}
