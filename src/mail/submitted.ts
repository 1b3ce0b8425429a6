// The source of mail that was submitted by the API or by SMTP: each email has its own body and one or more recipients.
import type { Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import type { Signing } from '../message/letters.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'
import type { Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import { claimSubmitted } from '../delivery/queue/claim.ts'
import { composeJob, type LetterDeps } from '../delivery/wire/letter.ts'
import { emailOf, moveEmail, settle, type Delivery } from '../delivery/results/settle.ts'
import { domainStop, reasonOf, stopsNow, type Stop } from '../suppressions/stops.ts'
import type { Claim, LetterJob, MailTransaction, MailSource, MailPlan } from '../delivery/queue/transaction.ts'

export interface SubmittedDeps extends LetterDeps {
  store: Store
  clock: Clock
  log: Log
}

const emailNow = statement<{ key: number }>()((arg) =>
  db.selectFrom('outbound_emails').select('key').where('key', '=', arg.key),
)

export class SubmittedMail implements MailSource {
  readonly settle = settle
  readonly #deps: SubmittedDeps

  constructor(deps: SubmittedDeps) {
    this.#deps = deps
  }

  claim(tx: Tx, claim: Claim): MailTransaction[] {
    return claimSubmitted(tx, this, this.#deps.keyring, claim)
  }

  look(transaction: MailTransaction): MailPlan {
    const { clock, keyring, store } = this.#deps
    const stops = stopsNow(transaction.known, store, keyring, transaction.deliveries, clock.now()).map(verdictOf)
    const stopped = stops.includes(undefined) ? this.unwanted(transaction) : undefined
    return { ended: stopped ? stops.map((stop) => stop ?? stopped) : stops, job: this.#job }
  }

  readonly #job = (transaction: MailTransaction, signature: Signing): LetterJob | undefined =>
    composeJob(this.#deps, transaction, signature)

  unwanted({ email, known }: MailTransaction): Verdict | undefined {
    const { store } = this.#deps
    const untouched = known.removals === store.generation('outbound_emails', 'removed')
    if (!untouched && !store.first(emailNow({ key: email.key })))
      return ownVerdict('rejected', '5.7.1', 'The email was deleted.', { stage: 'compose' })
    return domainStop(store, email)
  }

  /**
   * The receiving server has all bytes and may answer late: the status becomes `sent`, so that the owner sees it (D25).
   */
  handed(deliveries: readonly Delivery[]): void {
    const { clock, log, store } = this.#deps
    const primary = deliveries.find(({ role }) => role === 'to')
    if (!primary) return
    store
      .writeSoon((tx) => {
        const email = tx.first(emailOf({ key: primary.email_key }))
        if (email) moveEmail(tx, { email, delivery: primary, now: clock.now() }, 'handed')
      })
      .catch((thrown: unknown) => void log.fault('submitted email', thrown))
  }
}

/** The verdict for an address that was suppressed after the email was accepted: it is not sent (D25). */
const verdictOf = (stop: Stop | undefined): Verdict | undefined =>
  stop && {
    ...ownVerdict('suppressed', '5.7.1', `The address was suppressed after the email was accepted (${stop.reason}).`, {
      stage: 'compose',
    }),
    suppression: reasonOf(stop),
  }
