// The end of an attempt: every claimed delivery is settled or goes back into the queue. This file also decides whether
// a verdict is about the exchanger or about the mail.
import type { Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import { asksForLess, CROWDED, MAIL_STAGES } from '../../smtp/about-server.ts'
import type { Stage, Verdict } from '../../smtp/verdict.ts'
import { deliveryMachine } from '../../states/delivery.ts'
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

/** Settles each delivery by its verdict. While the server stops, deliveries without an answer go back as if untried. */
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
      results.map(([delivery, verdict]) => gathered.add({ delivery, email, verdict, now, config, place: work.place })),
    )
  else
    await store.write((tx) => {
      for (const [delivery, verdict] of results) {
        if (unanswered(verdict)) {
          work.place?.settled(tx, delivery, verdict, now)
          move(tx, deliveryMachine, delivery.key, 'lapse', {
            leased_until: null,
            next_attempt_at: now,
            ...untried(delivery),
          })
        } else source.settle(tx, { delivery, email: asNow(tx, email), verdict, now, config, place: work.place })
      }
    })
  for (const [{ address }, verdict] of results) {
    const { kind, code, enhanced, text, host, tls } = verdict
    if (!isTold(kind, config.log.deliveries) || unanswered(verdict)) continue
    log.info('delivery', {
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

/** The mail's keys read again: since the claim, an address in the name of its agent may have been erased. */
const asNow = (tx: Tx, email: EmailKeys): EmailKeys =>
  email.agent_id === null ? email : (tx.first(emailOf({ key: email.key })) ?? email)

/** Whether a result gets a line in the log, by the setting `log.deliveries`. */
const isTold = (kind: Verdict['kind'], wanted: Config['log']['deliveries']): boolean =>
  wanted === 'all' || (wanted === 'failures' && kind !== 'delivered')

/** Puts back claimed mail that its source withdraws. */
export const withdraw = (
  { clock, store }: ConcludeDeps,
  { deliveries, place }: MailTransaction,
  withdrawal: Withdrawal,
): Promise<void> =>
  store.write((tx) => {
    place?.giveBack(tx, deliveries)
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
 * Stages whose failure is about the exchanger and not the mail.
 * Not `starttls`: the sending domain may have asked for TLS.
 */
const HOST_STAGES: readonly Stage[] = ['dns', 'connect', 'greeting', 'ehlo', 'auth']

/** Whether an answer ends the session, or says that there are too many connections, or too many mails on one. */
const closes = ({ code, text }: Verdict): boolean => code === 421 || (code !== null && CROWDED.test(text))

/** A deferral that any other mail would have got as well. */
export const aboutTheHost = (verdict: Verdict): boolean =>
  verdict.kind === 'deferred' && !asksForLess(verdict) && (closes(verdict) || HOST_STAGES.includes(verdict.stage))

/**
 * Whether a verdict is about one recipient domain only: the exchanger closed the session after it knew the recipient,
 * and did not say that there are too many connections or mails.
 */
export const aboutTheDomain = (verdict: Verdict): boolean =>
  aboutTheHost(verdict) && ['rcpt', 'data', 'final dot'].includes(verdict.stage) && !CROWDED.test(verdict.text)

/** The exchanger refused or cut the connection, and not because of the mail: another connection may work (D64). */
export const refusesConnection = (verdict: Verdict): boolean =>
  aboutTheHost(verdict) ? !verdict.handed && verdict.stage !== 'dns' && verdict.stage !== 'auth' : maybeTheMail(verdict)

/** A 4xx answer to MAIL is about the connection or about the mail; attempts on other connections show which. */
export const maybeTheMail = (verdict: Verdict): boolean =>
  verdict.kind === 'deferred' &&
  verdict.stage === 'mail' &&
  verdict.code !== null &&
  !closes(verdict) &&
  !asksForLess(verdict)

/** The verdict ends a session that has carried mail before: the mail is tried on a new session. */
export const endsSession = (verdict: Verdict): boolean =>
  refusesConnection(verdict) ||
  (verdict.kind === 'deferred' && !verdict.handed && verdict.code === null && MAIL_STAGES.includes(verdict.stage))
