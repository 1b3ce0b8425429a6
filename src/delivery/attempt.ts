// One attempt at one mail transaction: find or open a connection, and have the email composed, signed and sent over it.
// The result is a verdict for each recipient. A thrown error is an internal error, and not a verdict on the email.
import { codeOf, DAMAGED, messageOf, must } from '../base/errors.ts'
import { isLocal } from '../base/local-trouble.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import type { ConnectOptions } from '../smtp/client.ts'
import { ownVerdict, waitsForRecord, waitsForUs, type Verdict } from '../smtp/verdict.ts'
import type { OpenKeys } from '../domains/keys.ts'
import { aboutTheHost, endsHost, endsSession, maybeTheMail } from './wire/finish-attempt.ts'
import { connectAlong, isStillProven, isVerdict, leaveOut, type WayDeps } from './wire/connect.ts'
import { damaged, damageOf, envelopeOf } from './wire/letter.ts'
import type { Lane } from './pacing/lanes.ts'
import {
  isWithdrawal,
  type LetterJob,
  type MailTransaction,
  type MailPlan,
  type Withdrawal,
} from './queue/transaction.ts'
import type { DeliveryWorkers, WorkerSession, Sending } from './wire/workers.ts'
import { SECOND, type Clock } from '../base/clock.ts'
import type { Delivery } from './results/settle.ts'
import { pairs } from '../base/lists.ts'

export interface AttemptDeps extends WayDeps {
  keyring: Keyring
  keys: OpenKeys
  log: Log
  workers: DeliveryWorkers
}

/** A session and the number of emails it has carried. */
export interface Connection {
  session: WorkerSession
  mails: number
  /** The receiving server replied to one of the emails, and the reply was about that email. */
  worked: boolean
}

export interface Attempted {
  verdicts: Verdict[]
  /** The connection that was used, even if it cannot carry more mail. */
  connection: Connection | undefined
  /** The host of a relay ended the session and is left out, but other hosts of the relay work. */
  elsewhere?: boolean
  /** Set if the source of the email withdraws it. Then there are no verdicts. */
  withdrawn?: Withdrawal
}

/** The functions of the engine that an attempt needs. */
export interface SessionKeeper {
  /** Closes a connection. Resolves when it is closed. */
  leave(connection: Connection): Promise<void>
  /** Whether the engine is stopping: then no connection is opened. */
  closing(): boolean
}

/** The lane and the connection of an attempt. */
export interface Circumstances {
  lane: Lane
  /** An open connection to the lane's receiving servers, or undefined to open one. */
  open: Connection | undefined
  sessions: SessionKeeper
}

/** One attempt. After an internal error the email waits, without a verdict on the email (D72). */
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

/** A deleted email cannot be composed, because its files are gone: this is not a problem of this server. */
function afterFault(log: Log, work: MailTransaction, thrown: unknown): Verdict {
  try {
    const unwanted = work.source.unwanted(work)
    if (unwanted && !isWithdrawal(unwanted)) return unwanted
  } catch (alsoThrown) {
    log.fault(`failed delivery of ${work.email.message_id}`, alsoThrown)
  }
  const { id } = work.email
  if (codeOf(thrown) === DAMAGED) return damaged(log, id, `Email ${id} is not sent: ${messageOf(thrown)}`)
  // Local problems are reported once for all mail (pacing/feedback.ts).
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
  const { verdicts } = attempted
  return {
    ...attempted,
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

/** The job for the composer, with the signing key of the sending domain, or a verdict if the email cannot be signed. */
export function letterFor(
  { clock, keys }: Pick<AttemptDeps, 'clock' | 'keys'>,
  work: MailTransaction,
  job: MailPlan['job'],
): LetterJob | Verdict {
  const { email, signingKey } = work
  const at = { stage: 'compose' } as const
  if (signingKey && 'unseen' in signingKey) return waitsForRecord(at, signingKey.unseen)
  const key = signingKey && keys.get(signingKey.key)
  if (!key) return ownVerdict('rejected', '5.7.0', `The DKIM key of ${email.domain} was erased.`, at)
  const made = job(work, { domain: email.domain, selector: key.selector, keyId: key.keyId, time: clock.now() })
  return made ?? ownVerdict('rejected', '5.6.0', 'The body of this email is no longer stored.', at)
}

/**
 * Whether an email is kept apart from others (workers.ts): its body is large, or an earlier attempt met a problem of
 * this server, which the email may have caused.
 */
const isKeptApart = ({ deliveries, email }: MailTransaction): boolean =>
  (email.content === null && email.spool !== null) ||
  (email.batch_content === null && email.batch_spool !== null) ||
  deliveries.some(({ trouble_since }) => trouble_since !== null)

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
  // A connection that was cut while it was idle does not show what the receiving server accepts: it is replaced. So is
  // a connection whose TLSA records have changed or are gone.
  if (connection && !(fits(connection) && (await isStillProven(deps, lane.domain, route, connection.session)))) {
    await sessions.leave(connection)
    connection = undefined
  }
  const { balance } = deps.workers
  const isRetry = work.deliveries.some(({ attempts }) => attempts > 1)
  const connecting = { ...deps, balance, isRetry, open: (options: ConnectOptions) => deps.workers.open(options, apart) }
  let tried = 0
  for (;;) {
    const reused = connection !== undefined
    if (!connection) {
      tried++
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
    const lost = route.hosts[0]?.relay && !connection.worked ? verdicts.find(endsHost) : undefined
    const elsewhere = lost !== undefined && leaveOut(connecting, route, connection.session, lost)
    // Each host of a relay is tried once.
    const isRetried = reused || (elsewhere && tried < route.hosts.length)
    // A reused session that has ended, or was cut while idle, is not about this email, which is retried on a new one.
    if (!isRetried || !ended || sessions.closing() || (!connection.worked && verdicts.some(maybeTheMail))) {
      connection.worked ||= !verdicts.some((verdict) => endsSession(verdict) || aboutTheHost(verdict))
      return { connection, verdicts, elsewhere }
    }
    // The old connection is closed first: until then it counts against the receiving server's limit of connections.
    await sessions.leave(connection)
    connection = undefined
  }
}

// Sends one email on an open session: one transaction, and further transactions for the recipients beyond the server's
// limit.

/** RFC 5321 §4.5.3.1.10: 452, or 552 from older servers. */
const tooMany = ({ code, enhanced, stage, text }: Verdict): boolean =>
  stage === 'rcpt' && ((code === 452 && enhanced !== '4.2.2') || (code === 552 && /too many recipients/i.test(text)))

/**
 * After this time (ms) without an answer, the source of an email is notified that the receiving server has all bytes
 * (D25).
 */
const PATIENCE = 2 * SECOND

export interface SendDeps {
  clock: Clock
  keyring: Keyring
}

/**
 * One transaction, and further transactions for the recipients beyond the server's limit. Rejects if the email cannot
 * be composed, or if its thread has ended.
 */
export async function sendToAll(
  { clock, keyring }: SendDeps,
  session: WorkerSession,
  work: MailTransaction,
  letter: LetterJob,
): Promise<Verdict[]> {
  const { source } = work
  const verdicts = new Map<Delivery, Verdict>()
  let rest = work.deliveries
  for (;;) {
    const tried = rest
    const sending = session.send(letter, envelopeOf({ ...work, deliveries: tried }, keyring))
    const stop =
      source.handed &&
      watch(clock, sending, (taken) => source.handed?.(tried.filter((_, index) => taken.includes(index))))
    const answers = await sending.verdicts.finally(stop)
    const answered = pairs(rest, answers)
    for (const [delivery, answer] of answered) verdicts.set(delivery, answer)
    const left = answered.flatMap(([delivery, answer]) => (tooMany(answer) ? delivery : []))
    if (left.length === 0 || left.length === rest.length || !session.usable) break
    rest = left
  }
  return work.deliveries.map((delivery) => must(verdicts.get(delivery), 'The verdict of a recipient'))
}

/**
 * Calls `tell` when the receiving server has the bytes and has not answered yet. Checks every PATIENCE until the
 * answer.
 */
function watch(clock: Clock, sending: Sending, tell: (taken: readonly number[]) => void): () => void {
  let over = false
  const later = () =>
    clock.wake(clock.now() + PATIENCE, () => {
      // A thread that has ended does not answer. The email already has its verdict then.
      sending.handed().then(
        (taken) => {
          if (over) return
          if (taken.length > 0) tell(taken)
          else cancel = later()
        },
        () => undefined,
      )
    })
  let cancel = later()
  return () => {
    over = true
    cancel()
  }
}
