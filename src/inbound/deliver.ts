// Reads what has been received: claim -> read and judge (workers) -> record. A message is claimed by writing the attempt first, so that
// one that takes the process down with it is known for it; after three attempts it is kept as parse_rejected, unread.
//
// Reading is work: one message at a time in each thread, within a time limit. Judging waits for DNS: many at once in one thread.
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf } from '../base/errors.ts'
import { gate } from '../base/gate.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { TookTooLong, type Pool } from '../base/pool.ts'
import type { Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import { record, type InboundMessage, type Read } from './record.ts'
import type { Content, InboundJob, InboundResult, Judgement, Reading } from './reader.ts'

export interface ReadDesk {
  store: Store
  spool: Spool
  clock: Clock
  keyring: Keyring
  log: Log
  config: Pick<Config, 'hostname'>
  reader: Pool<InboundJob, InboundResult>
  judge: Pool<InboundJob, InboundResult>
}

/** Messages at once. */
const WINDOW = 32

const LEASE = 10 * MINUTE
const RETRY = MINUTE
const MAX_ATTEMPTS = 3
/** A mail is read within 2 seconds, a large one within a second more for each so many octets. */
const PATIENCE = 2 * SECOND
const OCTETS_PER_SECOND = 8 * 1024 * 1024
/** Time passes faster than work is done where the machine is busy: a message that took too long is read once more, in so many times
 *  the time, before it is called unreadable. */
const SECOND_CHANCE = 5

const due = (now: number, limit: number) =>
  raw<InboundMessage>(
    `update inbound_messages set attempts = attempts + 1, next_attempt_at = ?
     where key in (select key from inbound_messages where next_attempt_at <= ? order by next_attempt_at limit ?) returning *`,
    [now + LEASE, now, limit],
  )

const earliest = raw<{ at: number | null }>(
  'select min(next_attempt_at) as at from inbound_messages where next_attempt_at is not null',
)

export class InboundEngine {
  readonly #desk: ReadDesk
  readonly #loop: Loop
  readonly #running = new Set<Promise<void>>()
  readonly #inTurn: ReturnType<typeof gate>

  constructor(desk: ReadDesk) {
    this.#desk = desk
    this.#inTurn = gate(desk.reader.size)
    const { clock, log } = desk
    this.#loop = new Loop({ name: 'inbound', clock, log, run: (now) => this.#run(now) })
  }

  /** Starts with what a process that is no more had claimed. */
  async start(): Promise<void> {
    const { clock, store } = this.#desk
    await store.write((tx) =>
      tx.run(raw('update inbound_messages set next_attempt_at = ? where next_attempt_at is not null', [clock.now()])),
    )
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    await Promise.all(this.#running)
  }

  async #run(now: number): Promise<number | null> {
    const { store } = this.#desk
    const room = WINDOW - this.#running.size
    const next = store.first(earliest)?.at ?? null
    // A message that was read rings too: most rings find nothing to claim, and cost no transaction.
    if (room <= 0 || next === null || next > now) return room > 0 ? next : null
    for (const message of await store.writeSoon((tx) => tx.all(due(now, room)))) {
      const run = this.#read(message)
        .catch((thrown) => void this.#desk.log.fault(`reading message ${message.id}`, thrown))
        .finally(() => {
          this.#running.delete(run)
          this.#loop.ring()
        })
      this.#running.add(run)
    }
    return this.#running.size >= WINDOW ? null : (store.first(earliest)?.at ?? null)
  }

  async #read(message: InboundMessage): Promise<void> {
    const { clock, spool, store } = this.#desk
    const content = message.content ?? { file: spool.path(message.spool!) }
    const [reading, judgement] = await Promise.all([this.#reading(message, content), this.#judged(message, content)])
    const dropped = await store.writeSoon((tx) => {
      if (reading) return record(tx, this.#desk, message, { ...reading, judgement } satisfies Read, clock.now())
      tx.run(raw('update inbound_messages set next_attempt_at = ? where key = ?', [clock.now() + RETRY, message.key]))
      return null
    })
    if (dropped !== null) await spool.remove(dropped)
  }

  /** What the message says; undefined: to be tried once more. */
  async #reading({ attempts, cut, id, size, virus }: InboundMessage, content: Content): Promise<Reading | undefined> {
    const { log, reader } = this.#desk
    const headerOnly = cut === 1 || virus !== null
    const patience = PATIENCE + (size / OCTETS_PER_SECOND) * SECOND
    const read = async (limit: number): Promise<Reading> =>
      (await this.#inTurn(() => reader.run({ task: 'read', content, headerOnly }, limit))) as Reading
    try {
      return await read(patience).catch((thrown: unknown) => {
        if (!(thrown instanceof TookTooLong)) throw thrown
        log.warn('message read slowly', { id, patience })
        return read(patience * SECOND_CHANCE)
      })
    } catch (thrown) {
      log.warn('message not read', { id, error: messageOf(thrown), attempts })
      if (thrown instanceof TookTooLong) return { kind: 'rejected', reason: 'Reading it took too long.', header: null }
      return attempts < MAX_ATTEMPTS
        ? undefined
        : { kind: 'rejected', reason: `It cannot be read: ${messageOf(thrown)}`, header: null }
    }
  }

  /** What SPF, DKIM, DMARC and ARC say of it; null when nobody can tell. */
  async #judged(
    { client, cut, helo, id, mail_from: mailFrom }: InboundMessage,
    content: Content,
  ): Promise<Judgement | null> {
    const { config, judge, log } = this.#desk
    if (cut === 1) return null
    const job = { task: 'judge', content, client, helo, mailFrom, hostname: config.hostname } as const
    return judge.run(job, MINUTE).then(
      (judgement) => judgement as Judgement,
      (thrown: unknown) => {
        log.warn('message not authenticated', { id, error: messageOf(thrown) })
        return null
      },
    )
  }
}
