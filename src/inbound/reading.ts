// Processes received messages: claim -> read and evaluate (examine.ts, workers) -> record. The claim is written as an
// attempt before the work, so that a message that crashes the process is found by its attempts. Messages that an ended
// process had claimed, or that filled the heap of their thread, are suspects: they are read one at a time, those of an
// ended process alone. If a message ends the process or thread again, it is kept unread as parse_rejected (D139).
//
// A new message is handed over from memory (`take`). It is either claimed already, if the readers can take it next, or
// leased while it waits in a queue of this process. The database is read only for messages that are not in memory:
// after a start, after a wait, and beyond the bounds of the queue.
//
// After a problem of this machine a message is retried, first after 10 seconds, at most after 10 minutes (D72). Results
// that cannot be written are kept in memory and written later. No message is claimed until then.
import { MINUTE, SECOND } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOf, must } from '../base/errors.ts'
import { PersistentWrites } from '../base/retry-until-written.ts'
import type { Keyring } from '../base/keyring.ts'
import { Loop } from '../base/loop.ts'
import { customerOf } from '../base/network.ts'
import type { Store, Tx } from '../store/database.ts'
import { due, earliest, lease, leased, named, release, suspected, suspects, unclaim } from './claims.ts'
import { Examiner, isSuspect, Killed, LARGE, Later, NoCapacity, Unproven, type ExamineDeps } from './examine.ts'
import type { ReportReceiver } from '../parts/received.ts'
import { MessageQueue, type InboundMessage, type WaitingMessage } from './queue.ts'
import { isForReports } from './recipients.ts'
import { record, type JudgedReading, type RecordDeps } from './record.ts'
import { ReportTurns, type ReportTurnsDeps } from './report-turns.ts'

export interface ReadDeps extends ExamineDeps, ReportTurnsDeps {
  config: ExamineDeps['config'] & Pick<Config, 'retention'>
  reports: ReportReceiver
  store: Store
  keyring: Keyring
  gate: RecordDeps['gate']
}

/** The most messages in readers at once. Messages in progress for more than a second (DNS, slow lane) do not count. */
const WINDOW = 32
const YOUNG = SECOND
/**
 * The most of these from one customer: for each reader, and in all if there is one reader. A job may use a quarter of a
 * second before it moves to the slow lane: behind four of them another customer's message waits for a second.
 */
const OF_ONE_PER_READER = 4
const YOUNG_OF_ONE = 8
/** The most claimed messages that wait for a reader, of all customers and of one: readers never wait for a commit. */
const MAX_READY = 64
const READY_OF_ONE = 16
/** The most messages examined or recorded at once, the most bytes of them in memory, and the most of one customer. */
const MAX_HELD = 512
const MAX_BYTES = 64 * 1024 * 1024
const MAX_OF_ONE = MAX_HELD / 8
/** The most bytes of messages that wait in memory without a claim. */
const WAITING_BYTES = { all: 16 * 1024 * 1024, ofOne: 4 * 1024 * 1024 }
/** The most due messages that one query reads. */
const LOOKED_AT = 2000

/**
 * How often the process may end while it reads the same message. The first end may have another reason. The second time
 * the message was read alone. A small message takes little memory: it is the reason only after many ends, so that mail
 * is read despite kills and power cuts.
 */
const mostClaims = ({ size }: InboundMessage): number => (size >= LARGE ? 2 : 10)
const FIRST_WAIT = 10 * SECOND
const LAST_WAIT = 10 * MINUTE

interface ReadingInHand {
  since: number
  /** The message may take much memory. */
  large: boolean
  alone: boolean
  bytes: number
  customer: string
  /** False if the message was examined and its result is being written. */
  inReader: boolean
  done: Promise<void>
}

interface Suspect {
  key: number
  at: number
  /**
   * No other message is read at the same time: the process ended while this one was read. A full heap ends only its own
   * thread.
   */
  alone: boolean
}

/** How a message is stored for its examination: claimed by readers, leased by a queue in memory, or due. */
export type StoredAs = 'claimed' | 'leased' | 'due'

export class InboundEngine {
  readonly #deps: ReadDeps
  readonly #loop: Loop
  readonly #examiner: Examiner
  /**
   * Messages that wait for a claim, claimed messages that wait for a reader, and messages that wait for the slow lane.
   */
  readonly #waiting = new MessageQueue(WAITING_BYTES)
  readonly #ready = new MessageQueue()
  readonly #slowed = new MessageQueue(WAITING_BYTES)
  readonly #held = new Map<number, ReadingInHand>()
  /** The keys in `#waiting` that were due in the database. No others are read while there are any. */
  readonly #found = new Set<number>()
  /** From this time on the database may have due messages. */
  #due = 0
  /** The last wait of each message that could not be examined. */
  readonly #waits = new Map<number, number>()
  /** The messages that are read one at a time, and when each is due. */
  #suspects: Suspect[] = []
  /** One of them while it is examined. */
  #suspect: ReadingInHand | undefined
  /** Other messages have their turn until this time. */
  #turnOfOthers = 0
  /** Messages outside all queues, because their claim is being written. */
  #claiming = 0
  #warm = false
  readonly #writes: PersistentWrites
  /** Messages whose results cannot be written at present. */
  #unwritten = 0
  readonly #reports: ReportTurns
  #started = false
  #stopping = false

  constructor(deps: ReadDeps) {
    this.#deps = deps
    this.#examiner = new Examiner(deps)
    this.#reports = new ReportTurns(deps)
    this.#writes = new PersistentWrites(deps)
    const { clock, log } = deps
    this.#loop = new Loop({ name: 'inbound', clock, log, run: (now) => this.#run(now) })
  }

  /** Releases the messages that an ended process had claimed, and starts. */
  async start(): Promise<void> {
    const { clock, store } = this.#deps
    const now = clock.now()
    await store.write((tx) => tx.run(release(now)))
    this.#suspects = store.all(suspects).map(({ key }) => ({ key, at: now, alone: true }))
    this.#started = true
    this.#loop.start()
  }

  /** Call it when the database may have due messages that this engine does not know. */
  ring(): void {
    this.#due = 0
    this.#loop.ring()
  }

  /** How to store a new message of this client. Call it in the transaction that stores the message. */
  storageFor(client: string): StoredAs {
    const customer = customerOf(client)
    if (!this.#started || this.#stopping || !this.#waiting.hasCapacity) return 'due'
    const claimable = this.#waiting.sizeOf(customer) === 0 && !this.#isAlone(this.#deps.clock.now())
    return claimable && this.#capacityToClaim() > 0 && this.#readyCapacityOf(customer) > 0 ? 'claimed' : 'leased'
  }

  /** Takes a new message that was stored as `storedAs`. Call it after the commit. */
  take(message: InboundMessage, storedAs: StoredAs): void {
    if (storedAs === 'due' || this.#stopping) return this.ring()
    const { client, key } = message
    if (storedAs === 'leased') {
      this.#waiting.add({ key, client, message })
      return this.#loop.ring()
    }
    this.#ready.add({ key, client, message })
    this.#next()
  }

  /** Ends within `patience` real ms: messages without a written result are read again after the next start. */
  async stop(patience: number): Promise<void> {
    this.#stopping = true
    this.#writes.tryOften()
    const cut = setTimeout(() => this.#writes.giveUp(), patience)
    await this.#loop.stop()
    await Promise.all([...this.#held.values()].map(({ done }) => done))
    // These were not read, so the next process must not treat them as suspects.
    const unread = this.#ready.take(Infinity, () => Infinity)
    const { clock } = this.#deps
    if (unread.length > 0)
      await this.#written('messages that were not read', (tx) => {
        for (const { key } of unread) tx.run(unclaim(key, clock.now()))
      })
    clearTimeout(cut)
  }

  async #run(now: number): Promise<number | null> {
    // The end of a write wakes the loop.
    if (this.#unwritten > 0) return null
    await this.#find(now)
    const next = this.#dueSuspect(now)
    const suspect = next?.alone && !this.#isQuiet(now) ? undefined : next
    const wanted = this.#isAlone(now) ? [] : this.#wanted()
    if (wanted.length > 0 || suspect) await this.#claim(wanted, suspect, now)
    const blocked = !this.#pump(now)
    const wake = Math.min(
      this.#found.size > 0 ? Infinity : this.#due,
      ...(this.#suspect ? [] : this.#suspects.map(({ at }) => Math.max(at, this.#turnOfOthers))).filter(
        (at) => at > now,
      ),
      blocked || this.#dueSuspect(now) ? now + YOUNG : Infinity,
    )
    return wake === Infinity ? null : wake
  }

  /** Puts due messages of the database into the queue. */
  async #find(now: number): Promise<void> {
    const { store } = this.#deps
    if (now < this.#due || this.#found.size > 0 || !this.#waiting.hasCapacity) return
    const found = store.all(due(now, LOOKED_AT))
    if (found.length === 0) {
      this.#due = store.first(earliest)?.at ?? Infinity
      return
    }
    const known = found.filter(({ key }) => this.#isKnown(key)).map(({ key }) => key)
    for (const each of found) {
      if (this.#isKnown(each.key)) continue
      this.#waiting.add(each)
      this.#found.add(each.key)
    }
    // They have waited in memory for longer than a lease.
    if (known.length > 0) await store.writeSoon((tx) => tx.run(lease(now, known)))
  }

  #isKnown(key: number): boolean {
    return this.#held.has(key) || [this.#waiting, this.#ready, this.#slowed].some((queue) => queue.has(key))
  }

  /** Removes from the queues the messages to claim next. */
  #wanted(): WaitingMessage[] {
    const capacity = this.#capacityToClaim()
    const capacityOf = (customer: string): number => this.#readyCapacityOf(customer)
    const wanted = capacity > 0 ? this.#waiting.take(capacity, capacityOf) : []
    for (const { key } of wanted) this.#found.delete(key)
    const slowCapacity = Math.min(capacity - wanted.length, this.#examiner.slowCapacity)
    return slowCapacity > 0 ? [...wanted, ...this.#slowed.take(slowCapacity, capacityOf)] : wanted
  }

  #capacityToClaim(): number {
    let bytes = this.#ready.bytes
    for (const held of this.#held.values()) bytes += held.bytes
    return bytes >= MAX_BYTES || this.#held.size >= MAX_HELD || this.#unwritten > 0 ? 0 : MAX_READY - this.#ready.size
  }

  #readyCapacityOf(customer: string): number {
    return READY_OF_ONE - this.#ready.sizeOf(customer)
  }

  async #claim(wanted: WaitingMessage[], suspect: Suspect | undefined, now: number): Promise<void> {
    const { store } = this.#deps
    // If a process ends before its first thread runs, a message cannot be the reason. So messages of an ended process
    // are only claimed after that.
    if (!this.#warm && this.#suspects.length > 0) await this.#examiner.warm()
    this.#warm = true
    const held = new Map(wanted.flatMap(({ key, message }) => (message ? [[key, message] as const] : [])))
    const others = wanted.flatMap(({ key, message }) => (message ? [] : [key]))
    this.#claiming = wanted.length
    try {
      const claimed = await store.writeSoon((tx) => ({
        leased: held.size > 0 ? tx.all(leased([...held.keys()])) : [],
        named: others.length > 0 ? named(tx, now, others) : [],
        suspect: suspect && suspected(tx, now, suspect.key),
      }))
      const messages = claimed.leased.map(({ key }) => ({ ...must(held.get(key), 'The message'), attempts: 1 }))
      for (const message of [...messages, ...claimed.named])
        this.#ready.add({ key: message.key, client: message.client, message })
      if (!suspect) return
      this.#suspects.splice(this.#suspects.indexOf(suspect), 1)
      if (!claimed.suspect) return
      this.#suspect = this.#begin(claimed.suspect, now, suspect.alone)
    } catch (thrown) {
      for (const each of wanted) this.#waiting.add(each)
      throw thrown
    } finally {
      this.#claiming = 0
    }
  }

  /** The next suspect, if no suspect is being read. */
  #dueSuspect(now: number): Suspect | undefined {
    if (this.#suspect || now < this.#turnOfOthers) return undefined
    const due = this.#suspects.filter(({ at }) => at <= now)
    return due.find(({ alone }) => alone) ?? due[0]
  }

  /** Whether a message is read alone, or will be when no reader works. */
  #isAlone(now: number): boolean {
    return this.#suspect ? this.#suspect.alone && works(this.#suspect, now) : this.#dueSuspect(now)?.alone === true
  }

  /** Whether no reader works. A small message that has been in progress for longer waits for DNS. */
  #isQuiet(now: number): boolean {
    return ![...this.#held.values()].some((held) => works(held, now))
  }

  /** Gives claimed messages to readers. Returns false if some wait until others have been in progress for longer. */
  #pump(now: number): boolean {
    if (this.#unwritten > 0 || this.#stopping) return true
    if (this.#isAlone(now)) return this.#ready.size + this.#waiting.size === 0
    const counts = new Map<string, { all: number; young: number }>()
    let young = 0
    for (const { customer, inReader, since } of this.#held.values()) {
      const own = counts.get(customer) ?? { all: 0, young: 0 }
      const isYoung = inReader && since > now - YOUNG
      if (isYoung) young++
      counts.set(customer, { all: own.all + 1, young: own.young + (isYoung ? 1 : 0) })
    }
    const ofOne = Math.max(YOUNG_OF_ONE, OF_ONE_PER_READER * this.#deps.workers.size)
    const capacityOf = (customer: string): number => {
      const own = counts.get(customer)
      return own ? Math.min(MAX_OF_ONE - own.all, ofOne - own.young) : ofOne
    }
    const capacity = Math.min(Math.max(WINDOW, 2 * ofOne) - young, MAX_HELD - this.#held.size)
    if (capacity > 0)
      for (const { message } of this.#ready.take(capacity, capacityOf))
        this.#begin(must(message, 'A claimed message'), now)
    return this.#ready.size === 0
  }

  #begin(message: InboundMessage, now: number, alone = false): ReadingInHand {
    const { client, content, key, size } = message
    const customer = customerOf(client)
    const inHand: ReadingInHand = {
      since: now,
      large: size >= LARGE,
      alone,
      bytes: content?.length ?? 0,
      customer,
      inReader: true,
      done: Promise.resolve(),
    }
    this.#held.set(key, inHand)
    inHand.done = this.#read(message, inHand)
      .catch((thrown) => void this.#deps.log.fault(`reading message ${message.id}`, thrown))
      .finally(() => {
        this.#held.delete(key)
        if (isSuspect(message)) this.#endSuspect()
        this.#next()
      })
    return inHand
  }

  #endSuspect(): void {
    const alone = this.#suspect?.alone
    this.#suspect = undefined
    const others = this.#ready.size + this.#waiting.size + this.#claiming
    if (alone && others > 0) this.#turnOfOthers = this.#deps.clock.now() + YOUNG
  }

  /** Call it when a message is ready, or when a reader or the capacity of a message is free. */
  #next(): void {
    const now = this.#deps.clock.now()
    const blocked = !this.#pump(now)
    const more = this.#due <= now || this.#waiting.size + this.#slowed.size + this.#suspects.length > 0
    if (blocked || more) this.#loop.ring()
  }

  async #read(message: InboundMessage, inHand: ReadingInHand): Promise<void> {
    const read = await this.#examined(message)
    inHand.inReader = false
    this.#next()
    if (read === 'later') return this.#putBack(message)
    if (read === 'no capacity') return this.#putBack(message, this.#slowed)
    if (read === 'killed') return void this.#suspects.push({ key: message.key, at: 0, alone: false })
    this.#waits.delete(message.key)
    const { clock, spool } = this.#deps
    const write = (what: JudgedReading) =>
      this.#written(`inbound message ${message.id}`, (tx) => record(tx, this.#deps, message, what, clock.now()))
    let dropped: string | null | undefined
    try {
      dropped = await write(read)
    } catch (thrown) {
      this.#deps.log.fault(`recording message ${message.id}`, thrown)
      dropped = await write({ kind: 'rejected', reason: 'It cannot be read.', header: null, judgement: read.judgement })
    }
    if (typeof dropped === 'string') await spool.remove(dropped)
  }

  async #examined(message: InboundMessage): Promise<JudgedReading | 'later' | 'no capacity' | 'killed'> {
    if (message.attempts > mostClaims(message))
      return { kind: 'rejected', reason: 'The server ended each time while it read it.', header: null, judgement: null }
    try {
      const judged = await this.#examiner.examine(message)
      return isForReports(message)
        ? { ...judged, aggregate: await this.#reports.read(message, judged.judgement) }
        : judged
    } catch (thrown) {
      if (thrown instanceof NoCapacity) return 'no capacity'
      if (thrown instanceof Killed) return 'killed'
      if (thrown instanceof Unproven) this.#waits.set(message.key, thrown.wait)
      if (!(thrown instanceof Later)) this.#deps.log.fault(`examining message ${message.id}`, thrown)
      return 'later'
    }
  }

  /**
   * Releases a message as if it had not been claimed. It is retried when `list` has capacity for it. Without list, or
   * if an ended process had claimed the message, it is retried after a wait that doubles each time.
   */
  async #putBack(message: InboundMessage, list?: MessageQueue): Promise<void> {
    const { clock, log } = this.#deps
    const { client, id, key } = message
    const suspect = isSuspect(message)
    const listed = suspect ? undefined : list
    const last = this.#waits.get(key) ?? FIRST_WAIT / 2
    const wait = listed ? LAST_WAIT : Math.min(last * 2, Math.max(last, LAST_WAIT))
    if (!listed) this.#waits.set(key, wait)
    log.warn('message_processing_delayed', { id, wait })
    const at = clock.now() + (this.#stopping ? 0 : wait)
    await this.#written(`inbound message ${id}`, (tx) => tx.run(unclaim(key, at)))
    listed?.add({ key, client })
    if (suspect) this.#suspects.push({ key, at, alone: this.#suspect?.alone ?? false })
    else this.#due = Math.min(this.#due, at)
    this.#loop.ring()
  }

  /**
   * Writes as soon as the store can. Resolves with undefined if the process stops first. Throws the errors of `work`
   * itself.
   */
  async #written<T>(what: string, work: (tx: Tx) => T): Promise<T | undefined> {
    const { store } = this.#deps
    const tried = await this.#writes.write(
      () => what,
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

const works = ({ inReader, large, since }: ReadingInHand, now: number): boolean =>
  inReader && (large || since > now - YOUNG)

/** Whether the store cannot write at present. */
const isTrouble = (thrown: unknown): boolean =>
  /^(?:SQLITE_(?:FULL|IOERR|BUSY|LOCKED|READONLY|CANTOPEN|NOMEM|CORRUPT|NOTADB|PROTOCOL|PERM|AUTH)|E[A-Z]+$)/.test(
    codeOf(thrown),
  )
