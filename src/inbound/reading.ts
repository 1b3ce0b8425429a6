// Processes received messages: claim -> read and judge (examine.ts, workers) -> record. The claim is written as an
// attempt before the work: so a message that makes the process crash is found by its attempts. Messages that an ended
// process had claimed are examined one at a time; after ten such claims a message is kept unread as parse_rejected.
//
// After a fault of this machine a message is tried again, first after 10 seconds, at most after 10 minutes (D72).
// Results that cannot be written are kept in memory and written later; until then nothing more is claimed.
import { MINUTE, SECOND } from '../base/clock.ts'
import { codeOf } from '../base/errors.ts'
import { PersistentWrites } from '../base/retry-until-written.ts'
import type { Keyring } from '../base/keyring.ts'
import { Loop } from '../base/loop.ts'
import { customerOf } from '../base/network.ts'
import type { Store, Tx } from '../store/database.ts'
import { anySuspect, due, earliest, named, release, suspect, unclaim } from './claims.ts'
import { Examiner, Later, NoRoom, type ExamineDeps } from './examine.ts'
import { record, type InboundMessage, type JudgedReading } from './record.ts'

// Keys of messages that wait until other messages have ended, by the customer that sent them. Customers are served in
// turn.
//
// The lists are in memory and bounded. They only shorten a wait: each message also has a due time in the database, so
// that a message on no list (after a restart, or beyond the bound) is found at that time.

/** The most keys in one list of waiting messages. */
const MAX_KEYS = 100_000

export class Waiting {
  readonly #byCustomer = new Map<string, Set<number>>()
  #size = 0

  add(customer: string, key: number): void {
    if (this.#size >= MAX_KEYS) return
    const keys = this.#byCustomer.get(customer) ?? new Set()
    if (keys.has(key)) return
    this.#byCustomer.set(customer, keys.add(key))
    this.#size++
  }

  /** The number of keys. */
  get size(): number {
    return this.#size
  }

  /** Removes and returns at most `limit` keys, one of each customer in turn, and at most `roomOf` of a customer. */
  take(limit: number, roomOf: (customer: string) => number): number[] {
    const taken: number[] = []
    const counts = new Map<string, number>()
    for (const [customer, keys] of this.#byCustomer) {
      if (taken.length >= limit) break
      const count = counts.get(customer) ?? 0
      if (count >= roomOf(customer)) continue
      counts.set(customer, count + 1)
      const key = keys.values().next().value!
      keys.delete(key)
      taken.push(key)
      // A customer that is removed and added again comes after the others, in this loop as well.
      this.#byCustomer.delete(customer)
      if (keys.size > 0) this.#byCustomer.set(customer, keys)
    }
    this.#size -= taken.length
    return taken
  }
}

export interface ReadDeps extends ExamineDeps {
  store: Store
  keyring: Keyring
}

/** The most messages examined at once. Messages under way for more than a second (DNS, slow lane) do not count. */
const WINDOW = 32
const YOUNG = SECOND
/** The most of these from one client. */
const YOUNG_OF_ONE = 8
/** The most claimed messages in all, the most octets of them in memory, and the most from one customer. */
const MAX_HELD = 512
const MAX_OCTETS = 64 * 1024 * 1024
const MAX_OF_ONE = MAX_HELD / 8

/**
 * A process may end for many reasons.
 * When it ended this often while it examined the same message, the message may be the reason.
 */
const MAX_CLAIMS = 10
const FIRST_WAIT = 10 * SECOND
const LAST_WAIT = 10 * MINUTE

interface ReadingInHand {
  since: number
  octets: number
  client: string
  customer: string
  done: Promise<void>
}

export class InboundEngine {
  readonly #deps: ReadDeps
  readonly #loop: Loop
  readonly #examiner: Examiner
  readonly #held = new Map<number, ReadingInHand>()
  /** The last wait of each message that could not be examined. */
  readonly #waits = new Map<number, number>()
  /** Messages that wait for other messages of their customer, and messages that wait for a place in the slow lane. */
  readonly #crowded = new Waiting()
  readonly #slowed = new Waiting()
  /** True while a message that an ended process had claimed is examined. */
  #suspect = false
  #warm = false
  readonly #writes: PersistentWrites
  /** Messages whose results cannot be written at present. */
  #unwritten = 0
  #stopping = false

  constructor(deps: ReadDeps) {
    this.#deps = deps
    this.#examiner = new Examiner(deps)
    this.#writes = new PersistentWrites(deps)
    const { clock, log } = deps
    this.#loop = new Loop({ name: 'inbound', clock, log, run: (now) => this.#run(now) })
  }

  /** Releases the messages that an ended process had claimed, and starts. */
  async start(): Promise<void> {
    const { clock, store } = this.#deps
    await store.write((tx) => tx.run(release(clock.now())))
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  /** Ends within `patience` real ms: messages without a written result are read again after the next start. */
  async stop(patience: number): Promise<void> {
    this.#stopping = true
    this.#writes.tryOften()
    const cut = setTimeout(() => this.#writes.giveUp(), patience)
    await this.#loop.stop()
    await Promise.all([...this.#held.values()].map(({ done }) => done))
    clearTimeout(cut)
  }

  async #run(now: number): Promise<number | null> {
    const { store } = this.#deps
    // `ring` is called when a write ends.
    if (this.#unwritten > 0) return null
    const room = this.#room(now)
    if (room <= 0) return this.#held.size < MAX_HELD ? now + YOUNG : null
    const woken = this.#woken(now, room)
    const next = store.first(earliest(!this.#suspect))?.at ?? null
    // Each examined message wakes the loop: mostly there is nothing to claim, and then a transaction is not needed.
    if (woken.length === 0 && (next === null || next > now)) return next
    // When a process ends before its first thread runs, a message cannot be the reason: so before that, none of the
    // messages of an ended process is claimed.
    if (!this.#warm && store.first(anySuspect)) await this.#examiner.warm()
    this.#warm = true
    const claimed = await store.writeSoon((tx) => [
      ...(woken.length > 0 ? tx.all(named(now, woken)) : []),
      ...tx.all(due(now, room - woken.length, this.#young(now), YOUNG_OF_ONE)),
      ...(this.#suspect ? [] : tx.all(suspect(now))),
    ])
    for (const message of claimed) this.#take(message, now)
    // Due messages that were not claimed wait for other messages of their client.
    const at = store.first(earliest(!this.#suspect))?.at ?? null
    return at === null || at > now ? at : now + YOUNG
  }

  /** Keys of waiting messages for which there is room now, at most `room`. */
  #woken(now: number, room: number): number[] {
    if (this.#crowded.size + this.#slowed.size === 0) return []
    const rooms = new Map<string, { all: number; young: number }>()
    for (const { customer, since } of this.#held.values()) {
      const { all, young } = rooms.get(customer) ?? { all: MAX_OF_ONE, young: YOUNG_OF_ONE }
      rooms.set(customer, { all: all - 1, young: since > now - YOUNG ? young - 1 : young })
    }
    const roomOf = (customer: string): number => {
      const { all, young } = rooms.get(customer) ?? { all: MAX_OF_ONE, young: YOUNG_OF_ONE }
      return Math.min(all, young)
    }
    const crowded = this.#crowded.take(room, roomOf)
    return [...crowded, ...this.#slowed.take(Math.min(room - crowded.length, this.#examiner.slowRoom), roomOf)]
  }

  /** The number of recent messages by client. */
  #young(now: number): Record<string, number> {
    const counts: Record<string, number> = Object.create(null) as Record<string, number>
    for (const { client, since } of this.#held.values())
      if (since > now - YOUNG) counts[client] = (counts[client] ?? 0) + 1
    return counts
  }

  #room(now: number): number {
    const held = [...this.#held.values()]
    const young = held.filter(({ since }) => since > now - YOUNG).length
    const octets = held.reduce((sum, each) => sum + each.octets, 0)
    return octets >= MAX_OCTETS ? 0 : Math.min(WINDOW - young, MAX_HELD - held.length)
  }

  #take(message: InboundMessage, now: number): void {
    const { key } = message
    if (this.#held.has(key)) return
    const customer = customerOf(message.client)
    const suspected = message.attempts > 1
    this.#suspect ||= suspected
    const crowd = [...this.#held.values()].filter((each) => each.customer === customer).length
    const done = (crowd >= MAX_OF_ONE ? this.#putBack(message, this.#crowded) : this.#read(message))
      .catch((thrown) => void this.#deps.log.fault(`reading message ${message.id}`, thrown))
      .finally(() => {
        this.#held.delete(key)
        if (suspected) this.#suspect = false
        this.#loop.ring()
      })
    const { client } = message
    this.#held.set(key, { since: now, octets: message.content?.length ?? 0, client, customer, done })
  }

  async #read(message: InboundMessage): Promise<void> {
    const read = await this.#examined(message)
    if (read === 'later') return this.#putBack(message)
    if (read === 'no room') return this.#putBack(message, this.#slowed)
    this.#waits.delete(message.key)
    const { clock, spool } = this.#deps
    const write = (what: JudgedReading) =>
      this.#written(message, (tx) => record(tx, this.#deps, message, what, clock.now()))
    let dropped: string | null | undefined
    try {
      dropped = await write(read)
    } catch (thrown) {
      this.#deps.log.fault(`recording message ${message.id}`, thrown)
      dropped = await write({ kind: 'rejected', reason: 'It cannot be read.', header: null, judgement: read.judgement })
    }
    if (typeof dropped === 'string') await spool.remove(dropped)
  }

  async #examined(message: InboundMessage): Promise<JudgedReading | 'later' | 'no room'> {
    if (message.attempts > MAX_CLAIMS)
      return { kind: 'rejected', reason: 'The server ended each time while it read it.', header: null, judgement: null }
    try {
      return await this.#examiner.examine(message)
    } catch (thrown) {
      if (thrown instanceof NoRoom) return 'no room'
      if (!(thrown instanceof Later)) this.#deps.log.fault(`examining message ${message.id}`, thrown)
      return 'later'
    }
  }

  /** Releases a message as if it had not been claimed. It is tried again when `list` has room for it. Without list, or
   *  when an ended process had claimed the message, it is tried again after a wait that doubles each time. */
  async #putBack({ attempts, client, id, key }: InboundMessage, list?: Waiting): Promise<void> {
    const { clock, log } = this.#deps
    const listed = attempts > 1 ? undefined : list
    const wait = listed ? LAST_WAIT : Math.min((this.#waits.get(key) ?? FIRST_WAIT / 2) * 2, LAST_WAIT)
    if (!listed) this.#waits.set(key, wait)
    log.warn('message waits', { id, wait })
    await this.#written({ id }, (tx) => tx.run(unclaim(key, clock.now() + (this.#stopping ? 0 : wait))))
    listed?.add(customerOf(client), key)
  }

  /** Writes as soon as the store can; undefined when the process stops first. Throws the errors of `work` itself. */
  async #written<T>({ id }: Pick<InboundMessage, 'id'>, work: (tx: Tx) => T): Promise<T | undefined> {
    const { store } = this.#deps
    const tried = await this.#writes.write(
      () => `inbound message ${id}`,
      () =>
        store.writeSoon(work).then(
          (value) => ({ value }),
          (thrown: unknown) => {
            if (isTrouble(thrown)) throw thrown
            return { thrown }
          },
        ),
      (failing) => void (this.#unwritten += failing ? 1 : -1),
    )
    if (tried && 'thrown' in tried) throw tried.thrown
    return tried?.value
  }
}

/** Whether the store can write nothing at all at present. */
const isTrouble = (thrown: unknown): boolean =>
  /^(?:SQLITE_(?:FULL|IOERR|BUSY|LOCKED|READONLY|CANTOPEN|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH)|E[A-Z]+$)/.test(
    codeOf(thrown),
  )
