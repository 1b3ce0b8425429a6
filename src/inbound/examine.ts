// Reads and evaluates a received message in worker threads. An error that the message causes becomes its result. After
// a problem of this machine (no thread, no descriptor, an unreadable file) the message is examined later.
import { keepNewest } from '../base/maps.ts'
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf, must } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { customerOf } from '../base/network.ts'
import { JobFailed, NoWorker, OutOfMemory, PutBack, TookTooLong, type Effort, type Pool } from '../base/threads/pool.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Spool } from '../store/spool.ts'
import type { Examined, InboundJob, InboundResult, Judgement, Reading } from './reader.ts'
import type { InboundMessage } from './queue.ts'
import { isForReports } from './recipients.ts'
import type { JudgedReading } from './record.ts'

export interface ExamineDeps {
  spool: Spool
  clock: Clock
  log: Log
  config: Pick<Config, 'hostname'>
  troubles: Troubles
  workers: Pick<Pool<InboundJob, InboundResult>, 'run' | 'size'>
  /** CPU time in ms for reading and evaluating a small message. */
  budget?: number
}

/** Many times the CPU time for normal mail, even on a slow machine, and the additional time per megabyte. */
const BUDGET = 10 * SECOND
const BUDGET_PER_MB = SECOND
/** A message of this size may take long without being suspect, and much memory. */
export const LARGE = 1024 * 1024
/** The most slow messages at once. Others are retried later. */
const MAX_SLOW = 64
/** After a small message that took long, all mail of its client uses the slow lane for this time. */
const MEMORY = 10 * MINUTE
const MAX_CLIENTS = 10_000
const NO_MEMORY = 'Reading it takes more memory than the server may use.'

/** The message must be examined later, because there is no result yet. */
export class Later extends Error {}

/** DNS did not answer about a report, whose author may be authenticated later: after `wait` ms. */
export class Unproven extends Later {
  readonly wait: number

  constructor(wait: number) {
    super('DNS gave no answer about the author of a report')
    this.wait = wait
  }
}

/** Too many slow messages are being examined at present. */
export class NoCapacity extends Later {}

/** The thread ended while it read a message, which must be read alone. */
export class Killed extends Error {}

/** Whether the thread or the process ended during an earlier reading of a message. */
export const isSuspect = ({ attempts }: InboundMessage): boolean => attempts > 1

export class Examiner {
  readonly #deps: ExamineDeps
  readonly #slow = new Set<InboundMessage>()
  /** Clients whose mail took long, each with the time until which this is remembered. */
  readonly #heavy = new Map<string, number>()

  constructor(deps: ExamineDeps) {
    this.#deps = deps
  }

  /** Resolves when a worker thread runs, or if no thread can be started now. */
  async warm(): Promise<void> {
    const content = Buffer.from('\r\n')
    await this.#deps.workers.run({ task: 'read', content, headerOnly: true, mailFrom: '' }).catch(() => undefined)
  }

  /** How many more slow messages can be examined at present. */
  get slowCapacity(): number {
    return MAX_SLOW - this.#slow.size
  }

  /** Reads and evaluates a message. Throws Later or Killed. */
  async examine(message: InboundMessage): Promise<JudgedReading> {
    const effort = this.#effort(message)
    try {
      const examined = message.cut === 1 || isSuspect(message) ? undefined : await this.#examined(message, effort)
      if (examined) return { ...examined.reading, judgement: examined.judgement }
      // One after the other, because each may use all of the memory.
      const read = await this.#reading(message, effort)
      return { ...read, judgement: await this.#judged(message, effort) }
    } finally {
      this.#slow.delete(message)
    }
  }

  #effort(message: InboundMessage): Effort {
    const { budget = BUDGET, clock } = this.#deps
    const client = customerOf(message.client)
    return {
      cpu: budget + (message.size / (1024 * 1024)) * BUDGET_PER_MB,
      slow: (this.#heavy.get(client) ?? 0) > clock.now(),
      heapOnce: true,
      outlasts: () => {
        if (message.size < LARGE) this.#remember(client, clock.now() + MEMORY)
        if (this.#slow.size >= MAX_SLOW && !this.#slow.has(message)) return false
        this.#slow.add(message)
        return true
      },
    }
  }

  #remember(client: string, until: number): void {
    this.#heavy.delete(client)
    this.#heavy.set(client, until)
    keepNewest(this.#heavy, MAX_CLIENTS)
  }

  #content({ content, spool }: InboundMessage): Uint8Array | { file: string } {
    return content ?? { file: this.#deps.spool.path(must(spool, 'The file of a message')) }
  }

  /**
   * Reads and evaluates in one job, or undefined if that failed: then each is tried separately, to find out which
   * fails.
   */
  async #examined(message: InboundMessage, effort: Effort): Promise<Examined | undefined> {
    const { log, workers } = this.#deps
    const { client, id } = message
    try {
      const job = { task: 'examine', ...this.#envelope(message), ...this.#contents(message) } as const
      const examined = (await workers.run(job, effort)) as Examined
      this.#noteBeyond(message, examined.judgement)
      return examined
    } catch (thrown) {
      if (thrown instanceof PutBack) throw new NoCapacity(messageOf(thrown), { cause: thrown })
      log.warn('message_examination_failed', { id, client, error: messageOf(thrown) })
      if (thrown instanceof OutOfMemory) throw new Killed(messageOf(thrown), { cause: thrown })
      return undefined
    }
  }

  #envelope(message: InboundMessage) {
    const { clock, config } = this.#deps
    const { client, helo, mail_from: mailFrom } = message
    const forTlsReports = isForReports(message, 'tls')
    return { client, helo, mailFrom, hostname: config.hostname, now: clock.now(), forTlsReports }
  }

  #contents(message: InboundMessage) {
    const headerOnly = message.cut === 1 || message.virus !== null
    return { content: this.#content(message), headerOnly, mailFrom: message.mail_from }
  }

  #noteBeyond({ client, id }: InboundMessage, { beyond }: Judgement): void {
    if (beyond !== null) this.#deps.log.warn('message_limits_exceeded', { id, client, beyond })
  }

  async #reading(message: InboundMessage, effort: Effort): Promise<Reading> {
    const { workers } = this.#deps
    try {
      return (await workers.run({ task: 'read', ...this.#contents(message) }, effort)) as Reading
    } catch (thrown) {
      return { kind: 'rejected', reason: this.#reason(message, 'read', thrown), header: null }
    }
  }

  /** The results of SPF, DKIM, DMARC and ARC, or null if the whole message was not kept. */
  async #judged(message: InboundMessage, effort: Effort): Promise<Judgement | null> {
    const { workers } = this.#deps
    if (message.cut === 1) return null
    const envelope = { task: 'judge', ...this.#envelope(message) } as const
    try {
      const judged = (await workers.run({ ...envelope, content: this.#content(message) }, effort)) as Judgement
      this.#noteBeyond(message, judged)
      return judged
    } catch (thrown) {
      const unjudged = this.#reason(message, 'judged', thrown)
      try {
        return (await workers.run({ ...envelope, content: null, unjudged }, { ...effort, slow: false })) as Judgement
      } catch (again) {
        this.#reason(message, 'judged', again)
        return null
      }
    }
  }

  /**
   * Why a message is not read or evaluated, as text for its recipient. Throws Later if the message is not the reason.
   */
  #reason({ client, id }: InboundMessage, what: string, thrown: unknown): string {
    const { log, troubles } = this.#deps
    // For a malformed message the reader returns a result and does not throw.
    const ofMachine = thrown instanceof JobFailed ? what === 'read' || thrown.code !== '' : thrown instanceof NoWorker
    log.warn(what === 'read' ? 'message_read_failed' : 'message_evaluation_failed', {
      id,
      client,
      error: messageOf(thrown),
    })
    if (ofMachine) troubles.report('reading', 'Received messages cannot be parsed. They stay in the queue.', thrown)
    if (ofMachine) throw new Later(messageOf(thrown), { cause: thrown })
    if (thrown instanceof PutBack) throw new NoCapacity(messageOf(thrown), { cause: thrown })
    if (thrown instanceof OutOfMemory) return what === 'read' ? NO_MEMORY : 'judging took too much memory'
    if (thrown instanceof TookTooLong) return what === 'read' ? 'Reading it took too long.' : 'judging took too long'
    return what === 'read' ? 'It cannot be read.' : 'it cannot be judged'
  }
}
