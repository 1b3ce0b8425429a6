// A received message as workers see it: read and judged, whatever it is. What the message does to its worker is told of it; what the machine
// lacks (a thread, a descriptor, a file that cannot be read now) is not, and leaves it to be examined later.
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { messageOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { customerOf } from '../base/network.ts'
import { JobFailed, NoWorker, PutBack, TookTooLong, type Effort, type Pool } from '../base/pool.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Spool } from '../store/spool.ts'
import type { InboundJob, InboundResult, Judgement, Reading } from './reader.ts'
import type { InboundMessage, Read } from './record.ts'

export interface ExamineDesk {
  spool: Spool
  clock: Clock
  log: Log
  config: Pick<Config, 'hostname'>
  troubles: Troubles
  workers: Pool<InboundJob, InboundResult>
  /** CPU time, in ms, that reading and judging a small message may take each. */
  budget?: number
}

/** Tens of times what honest mail takes, on a slow machine too; and for each megabyte more. */
const BUDGET = 10 * SECOND
const BUDGET_PER_MB = SECOND
/** What outlasts others may be of this size without a reason. */
const LARGE = 1024 * 1024
/** Messages that may take long at once; the others come again later. */
const MAX_SLOW = 64
/** For so long all mail of a client whose small mail took long goes the slow way. */
const MEMORY = 10 * MINUTE
const MAX_CLIENTS = 10_000

/** The message is examined later: nothing is known of it. */
export class Later extends Error {}

export class Examiner {
  readonly #desk: ExamineDesk
  readonly #slow = new Set<InboundMessage>()
  /** Clients whose mail took long, and until when that is remembered. */
  readonly #heavy = new Map<string, number>()

  constructor(desk: ExamineDesk) {
    this.#desk = desk
  }

  /** Throws Later. */
  async examine(message: InboundMessage): Promise<Read> {
    const effort = this.#effort(message)
    try {
      const [read, judgement] = await Promise.all([this.#reading(message, effort), this.#judged(message, effort)])
      return { ...read, judgement }
    } finally {
      this.#slow.delete(message)
    }
  }

  #effort(message: InboundMessage): Effort {
    const { budget = BUDGET, clock } = this.#desk
    const client = customerOf(message.client)
    return {
      cpu: budget + (message.size / (1024 * 1024)) * BUDGET_PER_MB,
      slow: (this.#heavy.get(client) ?? 0) > clock.now(),
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
    if (this.#heavy.size > MAX_CLIENTS) this.#heavy.delete(this.#heavy.keys().next().value!)
  }

  #content({ content, spool }: InboundMessage): Uint8Array | { file: string } {
    return content ?? { file: this.#desk.spool.path(spool!) }
  }

  async #reading(message: InboundMessage, effort: Effort): Promise<Reading> {
    const { workers } = this.#desk
    const headerOnly = message.cut === 1 || message.virus !== null
    try {
      return (await workers.run({ task: 'read', content: this.#content(message), headerOnly }, effort)) as Reading
    } catch (thrown) {
      return { kind: 'rejected', reason: this.#reason(message, 'read', thrown), header: null }
    }
  }

  /** What SPF, DKIM, DMARC and ARC say of it; null when there is nothing to judge. */
  async #judged(message: InboundMessage, effort: Effort): Promise<Judgement | null> {
    const { config, log, workers } = this.#desk
    if (message.cut === 1) return null
    const { client, helo, id, mail_from: mailFrom } = message
    const envelope = { task: 'judge', client, helo, mailFrom, hostname: config.hostname } as const
    try {
      const judged = (await workers.run({ ...envelope, content: this.#content(message) }, effort)) as Judgement
      if (judged.beyond !== null) log.warn('message beyond limits', { id, client, beyond: judged.beyond })
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

  /** Why a message is not read or judged, in words for its recipient. Throws Later where that is no matter of the message. */
  #reason({ client, id }: InboundMessage, what: string, thrown: unknown): string {
    const { log, troubles } = this.#desk
    // What is wrong with a message its reader answers, and does not throw.
    const ofMachine = thrown instanceof JobFailed ? what === 'read' || thrown.code !== '' : thrown instanceof NoWorker
    log.warn(`message not ${what}`, { id, client, error: messageOf(thrown) })
    if (ofMachine) troubles.report('reading', 'Received mail cannot be read; it waits.', thrown)
    if (ofMachine || thrown instanceof PutBack) throw new Later(messageOf(thrown), { cause: thrown })
    if (thrown instanceof TookTooLong) return what === 'read' ? 'Reading it took too long.' : 'judging took too long'
    return what === 'read' ? 'It cannot be read.' : 'it cannot be judged'
  }
}
