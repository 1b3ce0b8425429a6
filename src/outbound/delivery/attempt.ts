// One attempt at one mail transaction: compose and sign, find or open a connection, talk SMTP. The result is a
// verdict for each recipient. A thrown error is a fault of this program and says nothing about the mail.
import { isAscii } from 'node:buffer'
import { messageOf } from '../../base/errors.ts'
import type { Keyring } from '../../base/keyring.ts'
import { release } from '../../base/memory.ts'
import type { Log } from '../../base/log.ts'
import type { Pool } from '../../base/pool.ts'
import { reasonOf, UNFIT } from '../../message/reencode.ts'
import type { ComposeJob } from '../../message/worker.ts'
import type { SmtpSession } from '../../smtp/client.ts'
import { ownVerdict, waitsForRecord, waitsForUs, type Verdict } from '../../smtp/verdict.ts'
import type { OpenKeys } from '../../domains/keys.ts'
import { aboutTheHost, endsSession, maybeTheMail } from './conclude.ts'
import { connectAlong, type ConnectDeps } from './connect.ts'
import { damaged, damageOf } from './intact.ts'
import type { Lane } from './lanes.ts'
import { sendToAll } from './send-all.ts'
import { isWithdrawal, type LetterJob, type MailTransaction, type Wanted, type Withdrawal } from './transaction.ts'

export interface AttemptDeps extends ConnectDeps {
  keyring: Keyring
  keys: OpenKeys
  log: Log
  composer: Pool<LetterJob, Uint8Array<ArrayBuffer>>
}

/** A session and how many mails it has carried. */
export interface Connection {
  session: SmtpSession
  mails: number
  /** The exchanger gave an answer to one of them that was about the mail. */
  worked: boolean
}

export interface Attempted {
  verdicts: Verdict[]
  /** The connection that was used, whether it can carry more mail or not. */
  connection: Connection | undefined
  /** Its source does not want the mail sent; then there are no verdicts. */
  withdrawn?: Withdrawal
}

/** Calls to the code that keeps the list of open sessions. */
export interface Sessions {
  opened(session: SmtpSession): void
  /** Resolves when it is closed. */
  leave(connection: Connection): Promise<void>
  /** No new connection is opened any more. */
  closing(): boolean
}

/** One attempt. After a fault of this program the mail waits for this server, without a verdict on the mail (D72). */
export async function attemptOrWait(
  deps: AttemptDeps,
  lane: Lane,
  work: MailTransaction,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  try {
    const damage = damageOf(work)
    if (damage !== undefined) {
      const verdict = damaged(deps.log, work.email.id, damage)
      return { verdicts: work.deliveries.map(() => verdict), connection: open }
    }
    return await attempt(deps, lane, work, open, sessions)
  } catch (thrown) {
    const verdict = afterFault(deps.log, work, thrown)
    return { verdicts: work.deliveries.map(() => verdict), connection: open }
  }
}

/** A mail that was deleted takes its files with it: composing it fails then, which is no trouble of this server. */
function afterFault(log: Log, work: MailTransaction, thrown: unknown): Verdict {
  try {
    const unwanted = work.source.unwanted(work)
    if (unwanted && !isWithdrawal(unwanted)) return unwanted
  } catch (alsoThrown) {
    log.fault(`why ${work.email.message_id} was not delivered`, alsoThrown)
  }
  log.fault(`delivery of ${work.email.message_id}`, thrown)
  return waitsForUs({ stage: 'compose' }, messageOf(thrown))
}

async function attempt(
  deps: AttemptDeps,
  lane: Lane,
  work: MailTransaction,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  const wanted = work.source.look(work)
  if (isWithdrawal(wanted)) return { verdicts: [], connection: open, withdrawn: wanted }
  const { ended, job } = wanted
  const free = work.deliveries.filter((_, index) => ended[index] === undefined)
  if (free.length === 0) return { verdicts: ended as Verdict[], connection: open }
  const attempted = await attemptFree(deps, lane, { ...work, deliveries: free }, job, open, sessions)
  if (free.length === work.deliveries.length || attempted.withdrawn) return attempted
  const { connection, verdicts } = attempted
  return { connection, verdicts: ended.map((verdict) => verdict ?? verdicts.shift()!) }
}

async function attemptFree(
  deps: AttemptDeps,
  lane: Lane,
  work: MailTransaction,
  job: Wanted['job'],
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  const letter = await composed(deps, work, job)
  if ('kind' in letter) return { verdicts: work.deliveries.map(() => letter), connection: open }
  const wire = Buffer.from(letter.buffer, letter.byteOffset, letter.byteLength)
  const attempted = await talk(deps, lane, work, { job, wire }, open, sessions)
  // After an early answer the socket may still read this buffer: then it is left to the garbage collector.
  if (attempted.connection?.session.flushed) release(wire)
  return attempted
}

/** A mail as octets, and how it is composed in another form. */
interface Letter {
  wire: Buffer
  job: Wanted['job']
}

async function composed(
  { clock, composer, keys }: AttemptDeps,
  work: MailTransaction,
  job: Wanted['job'],
  form: Pick<ComposeJob, 'sevenBit' | 'asciiHeader'> = {},
): Promise<Uint8Array<ArrayBuffer> | Verdict> {
  const { email, signingKey } = work
  const at = { stage: 'compose' } as const
  if (signingKey && 'unseen' in signingKey) return waitsForRecord(at, signingKey.unseen)
  const key = signingKey && keys.get(signingKey.key)
  if (!key) return ownVerdict('rejected', '5.7.0', `The DKIM key of ${email.domain} was erased.`, at)
  const made = job(work, { domain: email.domain, selector: key.selector, keyId: key.keyId, time: clock.now() })
  if (!made) return ownVerdict('rejected', '5.6.0', 'The body of this mail is no longer kept.', at)
  return composer.run({ ...made, ...form })
}

async function talk(
  deps: AttemptDeps,
  lane: Lane,
  work: MailTransaction,
  letter: Letter,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  const policy = work.email.tls_policy
  let connection = open
  // One that was cut while it was idle says nothing any more of what the exchanger takes.
  if (connection && (!connection.session.usable || (policy === 'Require' && connection.session.tls === null))) {
    void sessions.leave(connection)
    connection = undefined
  }
  for (;;) {
    const reused = connection !== undefined
    if (!connection) {
      const session = await connectAlong(deps, lane.domain, lane.route!, policy)
      if ('kind' in session) return { connection: undefined, verdicts: work.deliveries.map(() => session) }
      sessions.opened(session)
      connection = { session, mails: 0, worked: false }
    }
    const unwanted = work.source.unwanted(work)
    if (unwanted && isWithdrawal(unwanted)) return { connection, verdicts: [], withdrawn: unwanted }
    if (unwanted) return { connection, verdicts: work.deliveries.map(() => unwanted) }
    const fit = await fitFor(connection.session, deps, work, letter)
    if ('kind' in fit) return { connection, verdicts: work.deliveries.map(() => fit) }
    const verdicts = await sendToAll(deps, connection.session, work, fit)
    connection.mails++
    const ended = verdicts.every(endsSession)
    // The session is at its end, or was cut while it was idle: that says nothing about this mail.
    if (!reused || !ended || sessions.closing() || (!connection.worked && verdicts.some(maybeTheMail))) {
      connection.worked ||= !verdicts.some((verdict) => endsSession(verdict) || aboutTheHost(verdict))
      return { connection, verdicts }
    }
    // An exchanger that counts connections counts the old one until it is closed.
    await sessions.leave(connection)
    connection = undefined
  }
}

/**
 * The octets as a server takes them: a mail that came by SMTP may hold 8 bits, and is made 7 for one without 8BITMIME
 * (RFC 6152 §3); its header may hold UTF-8, which becomes encoded words for one without SMTPUTF8.
 */
async function fitFor(
  session: SmtpSession,
  deps: AttemptDeps,
  work: MailTransaction,
  { job, wire }: Letter,
): Promise<Buffer | Verdict> {
  if (isAscii(wire)) return wire
  const wideHeader = !isAscii(wire.subarray(0, wire.indexOf('\r\n\r\n')))
  // To an address that is not ASCII the server says no for itself.
  const asciiHeader =
    wideHeader && !session.takes('SMTPUTF8') && work.deliveries.every(({ address }) => isAscii(Buffer.from(address)))
  const sevenBit = !session.takes('8BITMIME')
  if (!sevenBit && !asciiHeader) return wire
  const letter = await composed(deps, work, job, { sevenBit, asciiHeader })
  if ('kind' in letter) return letter
  const reason = reasonOf(letter)
  if (reason === undefined) return Buffer.from(letter.buffer, letter.byteOffset, letter.byteLength)
  return ownVerdict('bounced', ...UNFIT[reason], { stage: 'compose' })
}
