// Writes the results of claimed mail to the store. Until the store has a result, only this process knows it: every
// write is repeated until it succeeds, and a lane with unwritten results claims no mail (base/retry-until-written.ts).
import { PersistentWrites } from '../base/retry-until-written.ts'
import type { Troubles } from '../base/trouble.ts'
import type { Verdict } from '../smtp/verdict.ts'
import { groupDue } from '../store/due.ts'
import { LANES } from './queue/claim.ts'
import { conclude, putBack, withdraw, type ConcludeDeps } from './wire/finish-attempt.ts'
import type { Lane } from './pacing/lanes.ts'
import type { MailTransaction, Withdrawal } from './queue/transaction.ts'

/** The functions of the lanes that the writer needs. */
export interface LaneKnowledge {
  /** Wakes the queue when a lane may claim again, or has mail that is due at another time. */
  ring(): void
  of(name: string): Lane
  /** The lane to which untried mail of a lane goes back, or undefined if that is the lane itself. */
  unboundOf(lane: Lane): Lane | undefined
}

export class ResultWriter {
  readonly #deps: ConcludeDeps
  readonly #lanes: LaneKnowledge
  readonly #writes: PersistentWrites
  #stopping = false

  constructor(deps: ConcludeDeps & { troubles: Troubles }, lanes: LaneKnowledge) {
    this.#deps = deps
    this.#lanes = lanes
    this.#writes = new PersistentWrites(deps)
  }

  /**
   * Call it when the engine stops: deliveries without an answer go back as untried, and unfinished writes are repeated
   * more often.
   */
  end(): void {
    this.#stopping = true
    this.#writes.tryOften()
  }

  /**
   * Call it when the time for stopping is over: emails whose results cannot be written are logged. They may be sent
   * again after the next start.
   */
  giveUp(): void {
    this.#writes.giveUp()
  }

  async settle(lane: Lane, work: MailTransaction, verdicts: readonly Verdict[]): Promise<void> {
    await this.#write(lane, [work], () => conclude(this.#deps, work, verdicts, this.#stopping))
    // The lane must know when deferred mail is due again.
    if (verdicts.some(({ kind }) => kind === 'deferred' || kind === 'waiting')) this.#lookAgain(lane)
    this.#lanes.ring()
  }

  /** Settles several emails with the same verdict. */
  async settleAll(lane: Lane, works: readonly MailTransaction[], verdict: Verdict): Promise<void> {
    await Promise.all(
      works.map((work) =>
        this.settle(
          lane,
          work,
          work.deliveries.map(() => verdict),
        ),
      ),
    )
  }

  /** Puts back an email that its source withdraws, temporarily or permanently. */
  async withdraw(lane: Lane, work: MailTransaction, withdrawal: Withdrawal): Promise<void> {
    await this.#write(lane, [work], () => withdraw(this.#deps, work, withdrawal))
    // A campaign may have resumed by now.
    this.#lookAgain(lane)
    this.#lanes.ring()
  }

  /** Puts claimed mail without an attempt back into the queue. */
  async release(lane: Lane, waiting: readonly MailTransaction[]): Promise<void> {
    // The mail is due when the lane's pause ends. Set before the write: otherwise the lane, which has no mail now,
    // could be dropped during the write.
    const now = this.#deps.clock.now()
    lane.due = now
    const unbound = this.#lanes.unboundOf(lane)
    if (unbound) unbound.due = now
    await this.#write(lane, waiting, () => putBack(this.#deps, waiting))
  }

  /**
   * Reads when mail is due for a lane, and for the lane that untried mail goes back to. A lane without mail may have
   * been forgotten during the write, so that it is another object by now.
   */
  #lookAgain(lane: Lane): void {
    for (const each of [this.#lanes.of(lane.name), this.#lanes.unboundOf(lane)])
      if (each)
        try {
          each.due = groupDue(this.#deps.store, LANES, each.name)
        } catch {
          // The database cannot be read now: the next round reads it again.
          each.due = this.#deps.clock.now()
        }
  }

  async #write(lane: Lane, work: readonly MailTransaction[], write: () => Promise<void>): Promise<void> {
    const what = (): string => work.map(({ email }) => email.message_id).join(' ')
    await this.#writes.write(what, write, (failing) => {
      lane.unwritten += failing ? 1 : -1
      if (!failing) this.#lanes.ring()
    })
  }
}
