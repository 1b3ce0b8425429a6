// The end of an attempt: every claimed delivery is settled or goes back into the queue. Also here: the conclusions from
// verdicts about the exchanger, as opposed to the mail.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import type { Stage, Verdict } from '../smtp/verdict.ts'
import { deliveryMachine } from '../states/delivery.ts'
import type { Store, Tx } from '../store/database.ts'
import { move } from '../store/move.ts'
import type { Consignment } from './claim.ts'
import { withdraw } from './bulk.ts'
import { settle } from './settle.ts'

/** How long (ms) the results of campaign mail wait for each other, to share one commit. */
const PATIENCE = 20

export interface ConcludeDesk {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'delivery' | 'log'>
}

/** Settles each delivery by its verdict. While the server stops, deliveries without an answer go back as if untried. */
export async function conclude(
  desk: ConcludeDesk,
  work: Consignment,
  verdicts: readonly Verdict[],
  stopping: boolean,
): Promise<void> {
  const { clock, config, log, store } = desk
  const now = clock.now()
  const untried = ({ code, handed, kind }: Verdict): boolean =>
    stopping && (kind === 'deferred' || kind === 'waiting') && code === null && !handed
  const lean = work.email.campaign_key === null ? undefined : { user_key: work.email.user_key }
  const write = (run: (tx: Tx) => void): Promise<void> => (lean ? store.writeSoon(run, PATIENCE) : store.write(run))
  await write((tx) => {
    for (const [index, delivery] of work.deliveries.entries()) {
      const verdict = verdicts[index]!
      if (untried(verdict))
        move(tx, deliveryMachine, delivery.key, 'lapse', { leased_until: null, next_attempt_at: now })
      else settle(tx, { delivery, verdict, now, config, lean })
    }
  })
  for (const [index, { address }] of work.deliveries.entries()) {
    const { kind, code, enhanced, text, host, tls } = verdicts[index]!
    if (!isTold(kind, config.log.deliveries)) continue
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

/** Whether a result gets a line in the log, by the setting `log.deliveries`. */
const isTold = (kind: Verdict['kind'], wanted: Config['log']['deliveries']): boolean =>
  wanted === 'all' || (wanted === 'failures' && kind !== 'delivered')

/** Puts back or drops a mail that its campaign does not want sent. */
export async function withdrawn({ clock, store }: ConcludeDesk, { deliveries, email }: Consignment): Promise<void> {
  await store.write((tx) => {
    for (const { key } of deliveries) withdraw(tx, key, email.campaign_key!, clock.now())
  })
}

/** Puts claimed mail back into the queue, as if it had not been claimed. */
export async function putBack({ clock, store }: ConcludeDesk, waiting: readonly Consignment[]): Promise<void> {
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

/** A deferral that any other mail to this exchanger would have met too. */
export const aboutTheHost = ({ code, kind, stage }: Verdict): boolean =>
  kind === 'deferred' && (code === 421 || HOST_STAGES.includes(stage))

/**
 * The exchanger refused or cut the connection before it took charge of the mail:
 * another connection may still work (D64).
 */
export const refusesConnection = ({ code, handed, kind, stage }: Verdict): boolean =>
  kind === 'deferred' &&
  !handed &&
  stage !== 'dns' &&
  stage !== 'auth' &&
  (code === 421 || HOST_STAGES.includes(stage) || (stage === 'mail' && code !== null))

const THROTTLED =
  /too many (?:connections|messages|mails|sessions)|rate.?limit|throttl|unexpected volume|too (?:fast|quickly)|slow down/i

/**
 * A deferral by which the receiver asks for less mail at once.
 * Greylisting does not: it is about one mail, not the sender.
 */
export const wantsPatience = ({ code, enhanced, kind, text }: Verdict): boolean =>
  // X.2.X is about one mailbox (RFC 3463 §3.3).
  kind === 'deferred' && code !== null && !enhanced?.startsWith('4.2.') && THROTTLED.test(text)
