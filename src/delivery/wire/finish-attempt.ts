// The end of an attempt: every claimed delivery is settled or goes back into the queue. This file also decides whether
// a verdict is about the receiving server or about the email.
import type { Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { asksForLess, CROWDED, MAIL_STAGES } from '../../smtp/about-server.ts'
import type { Stage, Verdict } from '../../smtp/verdict.ts'
import { deliveryMachine } from '../../store/states/delivery.ts'
import type { Store, Tx } from '../../store/database.ts'
import { move } from '../../store/move.ts'
import { emailOf, untried, type EmailKeys } from '../results/settle.ts'
import { unclaim } from '../queue/claim.ts'
import type { MailTransaction, Withdrawal } from '../queue/transaction.ts'
import { pairs } from '../../base/lists.ts'

export interface ConcludeDeps {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'delivery' | 'log'>
}

/**
 * Settles each delivery by its verdict. While the server stops, deliveries without an answer go back as if not
 * attempted.
 */
export async function conclude(
  deps: ConcludeDeps,
  work: MailTransaction,
  verdicts: readonly Verdict[],
  stopping: boolean,
): Promise<void> {
  const { clock, config, log, store } = deps
  const now = clock.now()
  const unanswered = ({ code, handed, kind }: Verdict): boolean =>
    stopping && (kind === 'deferred' || kind === 'waiting') && code === null && !handed
  const { email, source } = work
  const { results: gathered } = source
  const results = pairs(work.deliveries, verdicts)
  if (gathered && !verdicts.some(unanswered))
    await Promise.all(
      results.map(([delivery, verdict]) => gathered.add({ delivery, email, verdict, now, config, slot: work.slot })),
    )
  else
    await store.write((tx) => {
      for (const [delivery, verdict] of results) {
        if (unanswered(verdict)) {
          work.slot?.settled(tx, delivery, verdict, now)
          move(tx, deliveryMachine, delivery.key, 'lapse', {
            leased_until: null,
            next_attempt_at: now,
            ...untried(delivery),
          })
        } else source.settle(tx, { delivery, email: asNow(tx, email), verdict, now, config, slot: work.slot })
      }
    })
  for (const [{ address }, verdict] of results) {
    const { kind, code, enhanced, text, host, tls } = verdict
    if (!isTold(kind, config.log.deliveries) || unanswered(verdict)) continue
    log.info('delivery_attempted', {
      message_id: work.email.message_id,
      to: address,
      result: kind,
      code,
      enhanced,
      response: text,
      host,
      tls,
    })
  }
}

/**
 * Reads the keys of the email again, because an address in the name of its agent may have been erased since the claim.
 */
const asNow = (tx: Tx, email: EmailKeys): EmailKeys =>
  email.agent_id === null ? email : (tx.first(emailOf({ key: email.key })) ?? email)

/** Whether a result is logged, by the setting `log.deliveries`. */
const isTold = (kind: Verdict['kind'], wanted: Config['log']['deliveries']): boolean =>
  wanted === 'all' || (wanted === 'failures' && kind !== 'delivered')

/** Puts back claimed mail that its source withdraws. */
export const withdraw = (
  { clock, store }: ConcludeDeps,
  { deliveries, slot }: MailTransaction,
  withdrawal: Withdrawal,
): Promise<void> =>
  store.write((tx) => {
    slot?.giveBack(tx, deliveries)
    withdrawal.putBack(tx, clock.now())
  })

/** Puts claimed mail back into the queue, as if it had not been claimed. */
export async function putBack({ clock, store }: ConcludeDeps, waiting: readonly MailTransaction[]): Promise<void> {
  const now = clock.now()
  await store.write((tx) => {
    for (const work of waiting) unclaim(tx, work, now)
  })
}

/**
 * Stages whose failure is about the receiving server and not the email. Not `starttls`: the sending domain may require
 * TLS.
 */
const HOST_STAGES: readonly Stage[] = ['dns', 'connect', 'greeting', 'ehlo', 'auth']

/** Whether an answer ends the session, or is about too many connections, or too many emails on one. */
const closes = ({ code, text }: Verdict): boolean => code === 421 || (code !== null && CROWDED.test(text))

/** A deferral that would also affect any other email. */
export const aboutTheHost = (verdict: Verdict): boolean =>
  verdict.kind === 'deferred' && !asksForLess(verdict) && (closes(verdict) || HOST_STAGES.includes(verdict.stage))

/**
 * Whether a verdict is about one recipient domain only: the receiving server closed the session after the RCPT command,
 * and not because of too many connections or emails.
 */
export const aboutTheDomain = (verdict: Verdict): boolean =>
  aboutTheHost(verdict) && ['rcpt', 'data', 'final dot'].includes(verdict.stage) && !CROWDED.test(verdict.text)

/**
 * The receiving server refused or cut the connection, and not because of the email: another connection may work (D64).
 */
export const refusesConnection = (verdict: Verdict): boolean =>
  aboutTheHost(verdict) ? !verdict.handed && verdict.stage !== 'dns' && verdict.stage !== 'auth' : maybeTheMail(verdict)

/** A 4xx answer to MAIL is about the connection or about the email. Attempts on other connections show which. */
export const maybeTheMail = (verdict: Verdict): boolean =>
  verdict.kind === 'deferred' &&
  verdict.stage === 'mail' &&
  verdict.code !== null &&
  !closes(verdict) &&
  !asksForLess(verdict)

/** Whether a host of a relay closed the session or did not answer: other mail could fare the same there. */
export const endsHost = (verdict: Verdict): boolean =>
  verdict.kind === 'deferred' &&
  !asksForLess(verdict) &&
  (closes(verdict) || (verdict.code === null && MAIL_STAGES.includes(verdict.stage)))

/** The verdict ends a session that has carried mail before: the email is retried on a new session. */
export const endsSession = (verdict: Verdict): boolean =>
  refusesConnection(verdict) ||
  (verdict.kind === 'deferred' && !verdict.handed && verdict.code === null && MAIL_STAGES.includes(verdict.stage))
