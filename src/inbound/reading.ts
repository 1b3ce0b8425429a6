// Processes received messages: claim -> read and judge (examine.ts, workers) -> record. The claim is written as an
// attempt before the work: a message that makes the process crash is found by its attempts. Messages that an ended
// process had claimed are examined one at a time; after ten such claims a message is kept unread as parse_rejected.
//
// Faults of this machine end no message: it is tried again, first after 10 seconds, at most after 10 minutes (D72).
// Results that cannot be written are kept in memory and written later; until then nothing more is claimed.
import { HOUR, MINUTE, SECOND } from '../base/clock.ts'
import { codeOf } from '../base/errors.ts'
import { Insistence } from '../base/insist.ts'
import type { Keyring } from '../base/keyring.ts'
import { Loop } from '../base/loop.ts'
import { customerOf } from '../base/network.ts'
import type { Store, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { Examiner, Later, type ExamineDeps } from './examine.ts'
import { record, type InboundMessage, type Read } from './record.ts'

export interface ReadDeps extends ExamineDeps {
  store: Store
  keyring: Keyring
}

/** The most messages examined at once. Those under way for more than a second (DNS, the slow lane) do not count. */
const WINDOW = 32
const YOUNG = SECOND
/** The most of these from one client; and how many due messages one query looks at. */
const YOUNG_OF_ONE = 8
const LOOKED_AT = 500
/** The most messages held in all, the most octets of them in memory, and the most from one client. */
const MAX_HELD = 512
const MAX_OCTETS = 64 * 1024 * 1024
const MAX_OF_ONE = MAX_HELD / 8

/** Longer than any examination takes: only a start releases claimed messages. */
const LEASE = HOUR
/**
 * A process may end for many reasons.
 * When it ended this often with the same message in hand, the message may be the reason.
 */
const MAX_CLAIMS = 10
const FIRST_WAIT = 10 * SECOND
const LAST_WAIT = 10 * MINUTE

/** Claims due messages, clients in turn, each up to its limit, less the `held` ones: a busy client delays no other.
 *  Only the first few hundred due messages are looked at. */
const due = (now: number, limit: number, held: Record<string, number>) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ?
     where key in (
       select waiting.key from (
         select key, next_attempt_at, client, row_number() over (partition by client order by next_attempt_at) as place
         from (select key, next_attempt_at, client from inbound_messages
               where next_attempt_at <= ? and attempts = 0 order by next_attempt_at limit ${LOOKED_AT})
       ) as waiting left join json_each(?) as held on held.key = client
       where place + coalesce(held.value, 0) <= ${YOUNG_OF_ONE}
       order by place + coalesce(held.value, 0), waiting.next_attempt_at limit ?) returning *`,
    [now + LEASE, now, JSON.stringify(held), limit],
  )

/** Claims one of the messages that an ended process had claimed: the one that was in hand the fewest times. */
const suspect = (now: number) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ?
     where key = (select key from inbound_messages where next_attempt_at <= ? and attempts > 0
                  order by attempts, next_attempt_at limit 1) returning *`,
    [now + LEASE, now],
  )

const anySuspect = raw<{ key: number }>(
  'select key from inbound_messages where next_attempt_at is not null and attempts > 0 limit 1',
)

const earliest = (also: boolean) =>
  raw<{ at: number | null }>(
    `select min(next_attempt_at) as at from inbound_messages where next_attempt_at is not null${also ? '' : ' and attempts = 0'}`,
  )

interface Held {
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
  readonly #held = new Map<number, Held>()
  /** The last wait of each message that could not be examined. */
  readonly #waits = new Map<number, number>()
  /** True while such a message of an ended process is examined. */
  #suspect = false
  #warm = false
  readonly #insistence: Insistence
  /** Messages whose results cannot be written at present. */
  #unwritten = 0
  #stopping = false

  constructor(deps: ReadDeps) {
    this.#deps = deps
    this.#examiner = new Examiner(deps)
    this.#insistence = new Insistence(deps)
    const { clock, log } = deps
    this.#loop = new Loop({ name: 'inbound', clock, log, run: (now) => this.#run(now) })
  }

  /** Releases the messages that an ended process had claimed, and starts. */
  async start(): Promise<void> {
    const { clock, store } = this.#deps
    await store.write((tx) =>
      tx.run(raw('update inbound_messages set next_attempt_at = ? where next_attempt_at is not null', [clock.now()])),
    )
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  /** Ends within `patience` real ms: messages without a written result are read again after the next start. */
  async stop(patience: number): Promise<void> {
    this.#stopping = true
    this.#insistence.end()
    const cut = setTimeout(() => this.#insistence.giveUp(), patience)
    await this.#loop.stop()
    await Promise.all([...this.#held.values()].map(({ done }) => done))
    clearTimeout(cut)
  }

  async #run(now: number): Promise<number | null> {
    const { store } = this.#deps
    // The loop is rung when a write ends.
    if (this.#unwritten > 0) return null
    const room = this.#room(now)
    if (room <= 0) return this.#held.size < MAX_HELD ? now + YOUNG : null
    const next = store.first(earliest(!this.#suspect))?.at ?? null
    // Each examined message rings the loop: most rings find nothing to claim, and should cost no transaction.
    if (next === null || next > now) return next
    // Where a process ends before its first thread runs, the message in hand is not the reason: none is claimed so
    // early.
    if (!this.#warm && store.first(anySuspect)) await this.#examiner.warm()
    this.#warm = true
    const claimed = await store.writeSoon((tx) => [
      ...tx.all(due(now, room, this.#young(now))),
      ...(this.#suspect ? [] : tx.all(suspect(now))),
    ])
    for (const message of claimed) this.#take(message, now)
    // Due messages that were not claimed wait for others of their client.
    const at = store.first(earliest(!this.#suspect))?.at ?? null
    return at === null || at > now ? at : now + YOUNG
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
    const done = (crowd >= MAX_OF_ONE ? this.#putBack(message) : this.#read(message))
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
    if (!read) return this.#putBack(message)
    this.#waits.delete(message.key)
    const { clock, spool } = this.#deps
    const write = (what: Read) => this.#written(message, (tx) => record(tx, this.#deps, message, what, clock.now()))
    let dropped: string | null | undefined
    try {
      dropped = await write(read)
    } catch (thrown) {
      this.#deps.log.fault(`recording message ${message.id}`, thrown)
      dropped = await write({ kind: 'rejected', reason: 'It cannot be read.', header: null, judgement: read.judgement })
    }
    if (typeof dropped === 'string') await spool.remove(dropped)
  }

  /** Undefined: it must be tried later. */
  async #examined(message: InboundMessage): Promise<Read | undefined> {
    if (message.attempts > MAX_CLAIMS)
      return { kind: 'rejected', reason: 'The server ended each time while it read it.', header: null, judgement: null }
    try {
      return await this.#examiner.examine(message)
    } catch (thrown) {
      if (!(thrown instanceof Later)) this.#deps.log.fault(`examining message ${message.id}`, thrown)
      return undefined
    }
  }

  /** Releases a message to be tried later, as if it had not been claimed. */
  async #putBack({ id, key }: InboundMessage): Promise<void> {
    const { clock, log } = this.#deps
    const wait = Math.min((this.#waits.get(key) ?? FIRST_WAIT / 2) * 2, LAST_WAIT)
    this.#waits.set(key, wait)
    log.warn('message waits', { id, wait })
    await this.#written({ id }, (tx) =>
      tx.run(
        raw('update inbound_messages set next_attempt_at = ?, attempts = max(attempts - 1, 0) where key = ?', [
          clock.now() + (this.#stopping ? 0 : wait),
          key,
        ]),
      ),
    )
  }

  /** Writes as soon as the store can; undefined when the process ends before. Throws the errors of `work` itself. */
  async #written<T>({ id }: Pick<InboundMessage, 'id'>, work: (tx: Tx) => T): Promise<T | undefined> {
    const { store } = this.#deps
    const tried = await this.#insistence.run(
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
