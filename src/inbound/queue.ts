// Messages in memory that wait to be examined. Customers are served in turn, so that a busy customer delays no other.
import { customerOf } from '../base/network.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { semaphore, type TaskTurns } from '../base/semaphore.ts'
import type { InboundJob, InboundResult } from './reader.ts'
import type { Pool } from '../base/threads/pool.ts'

/** A message that is examined, with the attempts of its claim. */
export type InboundMessage = Omit<RowOf<'inbound_messages'>, 'authentication' | 'next_attempt_at'>

/** The most messages in a queue. */
const MAX_MESSAGES = 100_000
/** The most bytes of messages in a queue, of all customers and of one. Beyond that only the key is kept. */
export interface ByteLimits {
  all: number
  ofOne: number
}

export interface WaitingMessage {
  key: number
  /** Address of the client that sent it. */
  client: string
  /** The message itself, if it is in memory, otherwise it is read from the database. */
  message?: InboundMessage | undefined
}

interface OfCustomer {
  waiting: Map<number, WaitingMessage>
  bytes: number
}

const bytesOf = ({ message }: WaitingMessage): number => message?.content?.length ?? 0

export class MessageQueue {
  readonly #byCustomer = new Map<string, OfCustomer>()
  readonly #customers = new Map<number, string>()
  readonly #bounds: ByteLimits
  #bytes = 0

  constructor(bounds: ByteLimits = { all: Infinity, ofOne: Infinity }) {
    this.#bounds = bounds
  }

  /** The number of bytes of the messages. */
  get bytes(): number {
    return this.#bytes
  }

  get size(): number {
    return this.#customers.size
  }

  has(key: number): boolean {
    return this.#customers.has(key)
  }

  sizeOf(customer: string): number {
    return this.#byCustomer.get(customer)?.waiting.size ?? 0
  }

  /** Whether there is capacity for another message. */
  get hasCapacity(): boolean {
    return this.size < MAX_MESSAGES
  }

  add(waits: WaitingMessage): void {
    if (this.has(waits.key)) return
    const customer = customerOf(waits.client)
    const own = this.#byCustomer.get(customer) ?? { waiting: new Map<number, WaitingMessage>(), bytes: 0 }
    const bytes = bytesOf(waits)
    const fits = this.#bytes + bytes <= this.#bounds.all && own.bytes + bytes <= this.#bounds.ofOne
    const { client, key } = waits
    own.waiting.set(key, fits ? waits : { key, client })
    if (fits) this.#count(own, bytes)
    this.#byCustomer.set(customer, own)
    this.#customers.set(key, customer)
  }

  /** Removes and returns at most `limit` messages, one of each customer in turn, at most `capacityOf` of a customer. */
  take(limit: number, capacityOf: (customer: string) => number): WaitingMessage[] {
    const taken: WaitingMessage[] = []
    const counts = new Map<string, number>()
    for (const [customer, own] of this.#byCustomer) {
      if (taken.length >= limit) break
      const count = counts.get(customer) ?? 0
      if (count >= capacityOf(customer)) continue
      counts.set(customer, count + 1)
      const [first] = own.waiting.values()
      if (!first) continue
      own.waiting.delete(first.key)
      this.#customers.delete(first.key)
      this.#count(own, -bytesOf(first))
      taken.push(first)
      // A customer that is removed and added again comes after the others, in this loop as well.
      this.#byCustomer.delete(customer)
      if (own.waiting.size > 0) this.#byCustomer.set(customer, own)
    }
    return taken
  }

  #count(own: OfCustomer, bytes: number): void {
    own.bytes += bytes
    this.#bytes += bytes
  }
}

// Limits how many messages are read at once: for clients that wait (downloads of attachments, SMTP submission), and on
// servers with little memory.

type ReaderPool = Pick<Pool<InboundJob, InboundResult>, 'run'>

/** The most messages in files: each takes as much memory as it has bytes. */
const FILES = 2
/**
 * The most messages in memory. This is more than the number of threads: between two jobs of a thread the main thread
 * makes a turn of its event loop with a commit, and messages that are read together share a commit.
 */
const SMALL = 16

export const unlimited: TaskTurns = (work) => work()

/** The reader with these limits on jobs of each kind at once. Further jobs wait in order. */
export function inTurns(reader: ReaderPool, files = semaphore(FILES), small = semaphore(SMALL)): ReaderPool {
  return {
    run(job, effort) {
      const turn = job.content !== null && 'file' in job.content ? files : small
      return turn(() => reader.run(job, effort))
    },
  }
}
