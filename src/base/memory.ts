// Memory: how much there is, and what threads and budgets may take of it (D131). Large buffers are freed at once when
// they are no longer needed: the garbage collector frees memory outside its heap late, when several mails of 40 MB may
// have gathered.

import { availableParallelism, totalmem } from 'node:os'
import { refuse } from './errors.ts'

const LARGE = 1024 * 1024
/** Seconds to wait after a 503 for lack of memory. */
const RETRY_AFTER = '5'

/** Below so many octets a pool has one thread. */
const SMALL = 384 * LARGE
/** The heap of a thread may have this part of the memory, and at least so many MB: its program and one large mail. */
const HEAP_PART = 8
const LEAST_HEAP_MB = 64

/**
 * The memory of the process, in octets: that of the machine, or less where its control group is limited (memory.max of
 * v2, memory.limit_in_bytes of v1).
 */
export function memoryHere(): number {
  const limit = process.constrainedMemory()
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem()
}

/** Whether there is so little memory that one large thing is done at a time. */
export const isSmall = (memory = memoryHere()): boolean => memory < SMALL

/** The size of a pool: a thread for each core and at least `least`; one where there is little memory. */
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
 * A limit in octets for all objects of one kind in memory, such as request bodies under way (D74), with a share that
 * one owner of such objects may hold at most (D112).
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

  /** Reserves octets; false when too few are left, in all or of the owner's share. */
  take(octets: number, owner = ''): boolean {
    const owned = (this.#owners.get(owner) ?? 0) + octets
    if (this.#taken + octets > this.#most || owned > this.#share) return false
    this.#taken += octets
    this.#owners.set(owner, owned)
    return true
  }

  /** Returns octets that `take` reserved. */
  giveBack(octets: number, owner = ''): void {
    this.#taken -= octets
    const left = (this.#owners.get(owner) ?? 0) - octets
    if (left > 0) this.#owners.set(owner, left)
    else this.#owners.delete(owner)
  }

  get taken(): number {
    return this.#taken
  }
}

/** The owner of what an account holds, whichever token or session sends it. */
export const ownerOf = (userKey: number): string => `account ${userKey}`

/** What one owner holds of a budget at a moment; `end` gives all of it back. */
export class HeldMemory {
  readonly #budget: Budget
  readonly #owner: string
  #octets = 0

  constructor(budget: Budget, owner: string) {
    this.#budget = budget
    this.#owner = owner
  }

  /** Reserves more octets. Throws a Refusal (503) when too few are left. */
  more(octets: number): void {
    if (!this.#budget.take(octets, this.#owner))
      throw refuse('overloaded', 'Too many large requests are under way; send this one again in a moment.', undefined, {
        'Retry-After': RETRY_AFTER,
      })
    this.#octets += octets
  }

  end(): void {
    this.#budget.giveBack(this.#octets, this.#owner)
    this.#octets = 0
  }
}
