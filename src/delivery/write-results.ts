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

export class ResultWriter {
  readonly #deps: ConcludeDeps
  readonly #ring: () => void
  readonly #writes: PersistentWrites
  #stopping = false

  /** `ring` wakes the queue when a lane may claim again, or has mail that is due at another time. */
  constructor(deps: ConcludeDeps & { troubles: Troubles }, ring: () => void) {
    this.#deps = deps
    this.#ring = ring
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
   * Call it when the time for stopping is over: mails whose results cannot be written are named in the log.
   * They may be sent again after the next start.
   */
  giveUp(): void {
    this.#writes.giveUp()
  }

  async settle(lane: Lane, work: MailTransaction, verdicts: readonly Verdict[]): Promise<void> {
    await this.#write(lane, [work], () => conclude(this.#deps, work, verdicts, this.#stopping))
    // Deferred mail becomes due again: the lane must know when.
    if (verdicts.some(({ kind }) => kind === 'deferred' || kind === 'waiting')) this.#lookAgain(lane)
    this.#ring()
  }

  /** Settles several mails with the same verdict. */
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

  /** Puts back a mail that its source withdraws, for now or for ever. */
  async withdraw(lane: Lane, work: MailTransaction, withdrawal: Withdrawal): Promise<void> {
    await this.#write(lane, [work], () => withdraw(this.#deps, withdrawal))
    // A campaign may have resumed by now.
    this.#lookAgain(lane)
    this.#ring()
  }

  /** Puts claimed mail that was not tried back into the queue. */
  async release(lane: Lane, waiting: readonly MailTransaction[]): Promise<void> {
    // The mail is due when the lane's pause ends. Set before the write: otherwise the lane, which has no mail now,
    // could be dropped during the write.
    lane.due = this.#deps.clock.now()
    await this.#write(lane, waiting, () => putBack(this.#deps, waiting))
  }

  #lookAgain(lane: Lane): void {
    try {
      lane.due = groupDue(this.#deps.store, LANES, lane.name)
    } catch {
      // The database cannot be read now: the next round reads it again.
      lane.due = this.#deps.clock.now()
    }
  }

  async #write(lane: Lane, work: readonly MailTransaction[], write: () => Promise<void>): Promise<void> {
    const what = (): string => work.map(({ email }) => email.message_id).join(' ')
    await this.#writes.write(what, write, (failing) => {
      lane.unwritten += failing ? 1 : -1
      if (!failing) this.#ring()
    })
  }
}
