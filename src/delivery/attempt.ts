// One attempt at one mail transaction: find or open a connection, and have the mail composed, signed and sent over it.
// The result is a verdict for each recipient. A thrown error is a fault of this program, and not a verdict on the mail.
import { codeOf, DAMAGED, messageOf, must } from '../base/errors.ts'
import { isLocal } from '../base/local-trouble.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { ConnectOptions } from '../smtp/client.ts'
import { ownVerdict, waitsForRecord, waitsForUs, type Verdict } from '../smtp/verdict.ts'
import type { OpenKeys } from '../domains/keys.ts'
import { aboutTheHost, endsSession, maybeTheMail } from './wire/finish-attempt.ts'
import { connectAlong, isStillProven, isVerdict, type WayDeps } from './wire/connect.ts'
import { damaged, damageOf } from './wire/intact.ts'
import type { Lane } from './pacing/lanes.ts'
import { sendToAll } from './wire/send-all.ts'
import {
  isWithdrawal,
  type LetterJob,
  type MailTransaction,
  type MailPlan,
  type Withdrawal,
} from './queue/transaction.ts'
import type { DeliveryWorkers, WorkerSession } from './wire/workers.ts'

export interface AttemptDeps extends WayDeps {
  keyring: Keyring
  keys: OpenKeys
  log: Log
  workers: DeliveryWorkers
}

/** A session and how many mails it has carried. */
export interface Connection {
  session: WorkerSession
  mails: number
  /** The exchanger gave an answer to one of the mails, and the answer was about that mail. */
  worked: boolean
}

export interface Attempted {
  verdicts: Verdict[]
  /** The connection that was used, whether it can carry more mail or not. */
  connection: Connection | undefined
  /** Set when the source of the mail withdraws it; then there are no verdicts. */
  withdrawn?: Withdrawal
}

/** The functions of the engine that an attempt needs. */
export interface SessionKeeper {
  /** Closes a connection; resolves when it is closed. */
  leave(connection: Connection): Promise<void>
  /** Whether the engine stops: no new connection is opened any more. */
  closing(): boolean
}

/** The lane and the connection of an attempt. */
export interface Circumstances {
  lane: Lane
  /** An open connection to the lane's exchangers; undefined: one is opened. */
  open: Connection | undefined
  sessions: SessionKeeper
}

/** One attempt. After a fault of this program the mail waits for this server, without a verdict on the mail (D72). */
export async function attemptOrWait(
  deps: AttemptDeps,
  work: MailTransaction,
  circumstances: Circumstances,
): Promise<Attempted> {
  const { open } = circumstances
  try {
    const damage = damageOf(work)
    if (damage !== undefined) {
      const verdict = damaged(deps.log, work.email.id, damage)
      return { verdicts: work.deliveries.map(() => verdict), connection: open }
    }
    return await attempt(deps, work, circumstances)
  } catch (thrown) {
    const verdict = afterFault(deps.log, work, thrown)
    return { verdicts: work.deliveries.map(() => verdict), connection: open }
  }
}

/** When a mail was deleted, its files are gone and it cannot be composed: this is not a trouble of this server. */
function afterFault(log: Log, work: MailTransaction, thrown: unknown): Verdict {
  try {
    const unwanted = work.source.unwanted(work)
    if (unwanted && !isWithdrawal(unwanted)) return unwanted
  } catch (alsoThrown) {
    log.fault(`why ${work.email.message_id} was not delivered`, alsoThrown)
  }
  const { id } = work.email
  if (codeOf(thrown) === DAMAGED) return damaged(log, id, `Mail ${id} is not sent: ${messageOf(thrown)}`)
  // Local trouble is reported, once for all mail that it meets (pacing/feedback.ts).
  if (!isLocal(thrown)) log.fault(`delivery of ${work.email.message_id}`, thrown)
  return waitsForUs({ stage: 'compose' }, messageOf(thrown))
}

async function attempt(deps: AttemptDeps, work: MailTransaction, circumstances: Circumstances): Promise<Attempted> {
  const { open } = circumstances
  const wanted = work.source.look(work)
  if (isWithdrawal(wanted)) return { verdicts: [], connection: open, withdrawn: wanted }
  const { ended, job } = wanted
  const free = work.deliveries.filter((_, index) => ended[index] === undefined)
  if (free.length === 0) return { verdicts: ended as Verdict[], connection: open }
  const attempted = await attemptFree(deps, { ...work, deliveries: free }, job, circumstances)
  if (free.length === work.deliveries.length || attempted.withdrawn) return attempted
  const { connection, verdicts } = attempted
  return {
    connection,
    verdicts: ended.map((verdict) => verdict ?? must(verdicts.shift(), 'The verdict of a recipient')),
  }
}

async function attemptFree(
  deps: AttemptDeps,
  work: MailTransaction,
  job: MailPlan['job'],
  circumstances: Circumstances,
): Promise<Attempted> {
  const letter = letterFor(deps, work, job)
  if (isVerdict(letter)) return { verdicts: work.deliveries.map(() => letter), connection: circumstances.open }
  return talk(deps, work, letter, circumstances)
}

/** The job for the composer, with the signing key of the sending domain; a verdict when the mail cannot be signed. */
function letterFor({ clock, keys }: AttemptDeps, work: MailTransaction, job: MailPlan['job']): LetterJob | Verdict {
  const { email, signingKey } = work
  const at = { stage: 'compose' } as const
  if (signingKey && 'unseen' in signingKey) return waitsForRecord(at, signingKey.unseen)
  const key = signingKey && keys.get(signingKey.key)
  if (!key) return ownVerdict('rejected', '5.7.0', `The DKIM key of ${email.domain} was erased.`, at)
  const made = job(work, { domain: email.domain, selector: key.selector, keyId: key.keyId, time: clock.now() })
  return made ?? ownVerdict('rejected', '5.6.0', 'The body of this mail is no longer kept.', at)
}

/**
 * Whether a mail is kept apart from others (workers.ts): its body is large, or an earlier attempt met trouble of this
 * server, which the mail may have caused.
 */
const isKeptApart = ({ deliveries, email }: MailTransaction): boolean =>
  (email.content === null && email.spool !== null) || deliveries.some(({ trouble_since }) => trouble_since !== null)

async function talk(
  deps: AttemptDeps,
  work: MailTransaction,
  letter: LetterJob,
  { lane, open, sessions }: Circumstances,
): Promise<Attempted> {
  const policy = work.email.tls_policy
  const route = must(lane.route, 'The route of a lane')
  const apart = isKeptApart(work)
  const fits = ({ session }: Connection): boolean =>
    session.usable && session.apart === apart && !(policy === 'Require' && session.tls === null)
  let connection = open
  // A connection that was cut while it was idle does not show what the exchanger accepts: it is replaced.
  // Nor is one used whose exchanger is proven by other TLSA records by now, or by none.
  if (connection && !(fits(connection) && (await isStillProven(deps, lane.domain, route, connection.session)))) {
    await sessions.leave(connection)
    connection = undefined
  }
  const connecting = { ...deps, open: (options: ConnectOptions) => deps.workers.open(options, apart) }
  for (;;) {
    const reused = connection !== undefined
    if (!connection) {
      const session = await connectAlong(connecting, lane.domain, route, policy)
      if (isVerdict(session)) return { connection: undefined, verdicts: work.deliveries.map(() => session) }
      connection = { session, mails: 0, worked: false }
    }
    const unwanted = work.source.unwanted(work)
    if (unwanted && isWithdrawal(unwanted)) return { connection, verdicts: [], withdrawn: unwanted }
    if (unwanted) return { connection, verdicts: work.deliveries.map(() => unwanted) }
    const answered = await sendToAll(deps, connection.session, work, letter).catch((thrown: unknown) =>
      afterFault(deps.log, work, thrown),
    )
    if (!Array.isArray(answered)) return { connection, verdicts: work.deliveries.map(() => answered) }
    const { source } = connection.session
    const verdicts = source === undefined ? answered : answered.map((verdict) => ({ ...verdict, source }))
    connection.mails++
    const ended = verdicts.every(endsSession)
    // A reused session that has ended, or was cut while idle, says nothing about this mail: it is tried on a new one.
    if (!reused || !ended || sessions.closing() || (!connection.worked && verdicts.some(maybeTheMail))) {
      connection.worked ||= !verdicts.some((verdict) => endsSession(verdict) || aboutTheHost(verdict))
      return { connection, verdicts }
    }
    // The old connection is closed first: until then it counts against the exchanger's limit of connections.
    await sessions.leave(connection)
    connection = undefined
  }
}
