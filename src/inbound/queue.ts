// The messages that wait to be examined, in memory. Customers are served in turn, so that a busy customer delays no
// other.
import { customerOf } from '../base/network.ts'
import type { RowOf } from '../schema/tables.ts'

/** A message that is examined, with the attempts of its claim. */
export type InboundMessage = Omit<RowOf<'inbound_messages'>, 'authentication' | 'next_attempt_at'>

/** The most messages in a queue. */
const MAX_MESSAGES = 100_000
/** The most octets of messages in a queue, of all customers and of one. Beyond that only the key is kept. */
export interface OctetBounds {
  all: number
  ofOne: number
}

/** A message that waits. */
export interface WaitingMessage {
  key: number
  /** Address of the client that sent it. */
  client: string
  /** The message itself, when memory holds it; otherwise the database is asked for it. */
  message?: InboundMessage | undefined
}

interface OfCustomer {
  waiting: Map<number, WaitingMessage>
  octets: number
}

const octetsOf = ({ message }: WaitingMessage): number => message?.content?.length ?? 0

export class MessageQueue {
  readonly #byCustomer = new Map<string, OfCustomer>()
  readonly #customers = new Map<number, string>()
  readonly #bounds: OctetBounds
  #octets = 0

  constructor(bounds: OctetBounds = { all: Infinity, ofOne: Infinity }) {
    this.#bounds = bounds
  }

  /** The number of octets of the messages. */
  get octets(): number {
    return this.#octets
  }

  /** The number of messages. */
  get size(): number {
    return this.#customers.size
  }

  has(key: number): boolean {
    return this.#customers.has(key)
  }

  sizeOf(customer: string): number {
    return this.#byCustomer.get(customer)?.waiting.size ?? 0
  }

  /** Whether there is room for another message. */
  get hasRoom(): boolean {
    return this.size < MAX_MESSAGES
  }

  /** Adds a message as the last of its customer. */
  add(waits: WaitingMessage): void {
    if (this.has(waits.key)) return
    const customer = customerOf(waits.client)
    const own = this.#byCustomer.get(customer) ?? { waiting: new Map<number, WaitingMessage>(), octets: 0 }
    const octets = octetsOf(waits)
    const fits = this.#octets + octets <= this.#bounds.all && own.octets + octets <= this.#bounds.ofOne
    const { client, key } = waits
    own.waiting.set(key, fits ? waits : { key, client })
    if (fits) this.#count(own, octets)
    this.#byCustomer.set(customer, own)
    this.#customers.set(key, customer)
  }

  /** Removes and returns at most `limit` messages, one of each customer in turn, at most `roomOf` of a customer. */
  take(limit: number, roomOf: (customer: string) => number): WaitingMessage[] {
    const taken: WaitingMessage[] = []
    const counts = new Map<string, number>()
    for (const [customer, own] of this.#byCustomer) {
      if (taken.length >= limit) break
      const count = counts.get(customer) ?? 0
      if (count >= roomOf(customer)) continue
      counts.set(customer, count + 1)
      const [first] = own.waiting.values()
      if (!first) continue
      own.waiting.delete(first.key)
      this.#customers.delete(first.key)
      this.#count(own, -octetsOf(first))
      taken.push(first)
      // A customer that is removed and added again comes after the others, in this loop as well.
      this.#byCustomer.delete(customer)
      if (own.waiting.size > 0) this.#byCustomer.set(customer, own)
    }
    return taken
  }

  #count(own: OfCustomer, octets: number): void {
    own.octets += octets
    this.#octets += octets
  }
}
