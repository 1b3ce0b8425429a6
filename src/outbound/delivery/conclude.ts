// The end of an attempt: every claimed delivery is settled or goes back into the queue. Also here: the conclusions from
// verdicts about the exchanger, as opposed to the mail.
import type { Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import type { Log } from '../../base/log.ts'
import type { Stage, Verdict } from '../../smtp/verdict.ts'
import { deliveryMachine } from '../../states/delivery.ts'
import type { Store, Tx } from '../../store/database.ts'
import { move } from '../../store/move.ts'
import { emailOf, type EmailKeys } from './settle.ts'
import type { MailTransaction, Withdrawal } from './transaction.ts'

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
  const untried = ({ code, handed, kind }: Verdict): boolean =>
    stopping && (kind === 'deferred' || kind === 'waiting') && code === null && !handed
  const { email, source } = work
  const write = (run: (tx: Tx) => void): Promise<void> =>
    source.patience > 0 ? store.writeSoon(run, source.patience) : store.write(run)
  await write((tx) => {
    for (const [index, delivery] of work.deliveries.entries()) {
      const verdict = verdicts[index]!
      if (untried(verdict))
        move(tx, deliveryMachine, delivery.key, 'lapse', {
          leased_until: null,
          next_attempt_at: now,
          attempts: delivery.attempts - 1,
        })
      else source.settle(tx, { delivery, email: asNow(tx, email), verdict, now, config })
    }
  })
  for (const [index, { address }] of work.deliveries.entries()) {
    const { kind, code, enhanced, text, host, tls } = verdicts[index]!
    if (!isTold(kind, config.log.deliveries) || untried(verdicts[index]!)) continue
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

/** The agent of a mail may have been renamed since it was claimed: an address in its name may have been erased. */
const asNow = (tx: Tx, email: EmailKeys): EmailKeys =>
  email.agent_id === null ? email : (tx.first(emailOf({ key: email.key })) ?? email)

/** Whether a result gets a line in the log, by the setting `log.deliveries`. */
const isTold = (kind: Verdict['kind'], wanted: Config['log']['deliveries']): boolean =>
  wanted === 'all' || (wanted === 'failures' && kind !== 'delivered')

/** Takes mail that its source does not want sent out of the claimed mail. */
export const withdraw = ({ clock, store }: ConcludeDeps, withdrawal: Withdrawal): Promise<void> =>
  store.write((tx) => withdrawal.putBack(tx, clock.now()))

/** Puts claimed mail back into the queue, as if it had not been claimed. */
export async function putBack({ clock, store }: ConcludeDeps, waiting: readonly MailTransaction[]): Promise<void> {
  const now = clock.now()
  await store.write((tx) => {
    for (const { deliveries } of waiting)
      for (const { attempts, key } of deliveries)
        move(tx, deliveryMachine, key, 'lapse', { leased_until: null, next_attempt_at: now, attempts: attempts - 1 })
  })
}

/**
 * Stages whose failure is about the exchanger and not the mail.
 * Not `starttls`: the sending domain may have asked for TLS.
 */
const HOST_STAGES: readonly Stage[] = ['dns', 'connect', 'greeting', 'ehlo', 'auth']

/** A receiver that says: fewer connections, or fewer mails on one. */
const CROWDED =
  /too many (?:concurrent |simultaneous )?(?:connections|sessions)|(?:messages?|mails?|recipients?) (?:per|in|for|on) (?:this |one |a |the )?(?:connection|session)/i

/** A receiver that says: not so much at once. */
const THROTTLED =
  /\brates?\b|rate.?limit|throttl|unexpected volume|too (?:fast|quickly)|slow down|too much mail|too many (?:messages|e-?mails|mails)/i

/** Stages at which an answer to one mail may say something of all. */
const MAIL_STAGES: readonly Stage[] = ['mail', 'rcpt', 'data', 'final dot']

/** A rate answer: the receiver takes mail, more slowly. Greylisting means one mail, not the sender. */
export const asksForLess = ({ code, enhanced, kind, stage, text }: Verdict): boolean =>
  // X.2.X is about the one mailbox (RFC 3463 §3.3).
  kind === 'deferred' &&
  code !== null &&
  MAIL_STAGES.includes(stage) &&
  !enhanced?.startsWith('4.2.') &&
  THROTTLED.test(text) &&
  !CROWDED.test(text)

/** What ends the session, or says that there are too many. */
const closes = ({ code, text }: Verdict): boolean => code === 421 || (code !== null && CROWDED.test(text))

/** A deferral that any other mail would have met as well. */
export const aboutTheHost = (verdict: Verdict): boolean =>
  verdict.kind === 'deferred' && !asksForLess(verdict) && (closes(verdict) || HOST_STAGES.includes(verdict.stage))

/**
 * Whether it says something of one recipient domain alone: the exchanger closed the session when it heard who the mail
 * is for, and did not say that there is too much of something.
 */
export const aboutTheDomain = (verdict: Verdict): boolean =>
  aboutTheHost(verdict) && ['rcpt', 'data', 'final dot'].includes(verdict.stage) && !CROWDED.test(verdict.text)

/** A connection that the exchanger refused or cut before the mail was its matter: another one may still work (D64). */
export const refusesConnection = (verdict: Verdict): boolean =>
  aboutTheHost(verdict) ? !verdict.handed && verdict.stage !== 'dns' && verdict.stage !== 'auth' : maybeTheMail(verdict)

/** 4xx at MAIL means the connection or the mail: which of them, other connections show. */
export const maybeTheMail = (verdict: Verdict): boolean =>
  verdict.kind === 'deferred' &&
  verdict.stage === 'mail' &&
  verdict.code !== null &&
  !closes(verdict) &&
  !asksForLess(verdict)

/** An answer, or none, by which a session that carried mail before is at its end: the mail is tried on a new one. */
export const endsSession = (verdict: Verdict): boolean =>
  refusesConnection(verdict) ||
  (verdict.kind === 'deferred' && !verdict.handed && verdict.code === null && MAIL_STAGES.includes(verdict.stage))
