// One attempt to deliver one consignment: compose and sign, find or open a connection, talk. What comes of it is a verdict for
// each recipient; what is thrown is a fault of ours and says nothing about the mail.
import { messageOf } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import type { Log } from '../base/log.ts'
import { WorkerLost, type Pool } from '../base/pool.ts'
import type { ComposeJob } from '../message/worker.ts'
import type { SmtpSession } from '../smtp/client.ts'
import { cleanText } from '../smtp/reply.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'
import type { OpenKeys } from '../domains/keys.ts'
import type { Store } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { Spool } from '../store/spool.ts'
import type { Consignment } from './claim.ts'
import { connectLane, type ConnectDesk } from './connect.ts'
import type { Lane } from './lanes.ts'
import { composeJob, envelopeOf } from './letter.ts'

export interface AttemptDesk extends ConnectDesk {
  store: Store
  spool: Spool
  keyring: Keyring
  keys: OpenKeys
  log: Log
  composer: Pool<ComposeJob, Uint8Array<ArrayBuffer>>
}

/** A session and how many mails it has carried. */
export interface Connection {
  session: SmtpSession
  mails: number
}

export interface Attempted {
  verdicts: Verdict[]
  /** The connection that was used, fit for more or not. */
  connection: Connection | undefined
}

/** Hooks of whoever keeps account of open sessions. */
export interface Sessions {
  opened(session: SmtpSession): void
  leave(connection: Connection): void
  /** No new connection is opened any more. */
  readonly closing: boolean
}

export async function attempt(
  desk: AttemptDesk,
  lane: Lane,
  work: Consignment,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  const letter = await composed(desk, work)
  if ('kind' in letter) return { verdicts: work.deliveries.map(() => letter), connection: open }
  return talk(desk, lane, work, Buffer.from(letter.buffer), open, sessions)
}

const emailNow = statement<{ key: number }>()((arg) =>
  db.selectFrom('outbound_emails').select('key').where('key', '=', arg.key),
)

const domainNow = statement<{ key: number }>()((arg) =>
  db.selectFrom('domains').select(['status', 'deleted_at']).where('key', '=', arg.key),
)

/** A domain that was removed or suspended sends nothing from that moment on, also what the queue holds in its hands. */
function stoppedBy(store: Store, { email }: Consignment): Verdict | undefined {
  const at = { stage: 'compose' } as const
  if (!store.first(emailNow({ key: email.key }))) return ownVerdict('rejected', '5.7.1', 'The mail was deleted.', at)
  const domain = store.first(domainNow({ key: email.domain_key }))
  if (!domain || domain.deleted_at !== null)
    return ownVerdict('rejected', '5.7.1', `The sending domain ${email.domain} was removed.`, at)
  if (domain.status === 'suspended')
    return ownVerdict('deferred', '4.7.1', `The sending domain ${email.domain} is suspended.`, at)
  return undefined
}

async function composed(desk: AttemptDesk, work: Consignment): Promise<Uint8Array<ArrayBuffer> | Verdict> {
  const { composer, keys, log, spool } = desk
  const { email } = work
  const at = { stage: 'compose' } as const
  const stopped = stoppedBy(desk.store, work)
  if (stopped) return stopped
  const key = work.signingKey === undefined ? undefined : keys.get(work.signingKey)
  if (!key) return ownVerdict('rejected', '5.7.0', `The DKIM key of ${email.domain} was erased.`, at)
  const job = composeJob(work, key, spool)
  if (!job) return ownVerdict('rejected', '5.6.0', 'The body of this mail is no longer kept.', at)
  try {
    return await composer.run(job)
  } catch (thrown) {
    if (thrown instanceof WorkerLost) throw thrown
    log.fault(`composing ${email.message_id}`, thrown)
    return ownVerdict(
      'rejected',
      '5.6.0',
      `The mail could not be composed and signed: ${cleanText(messageOf(thrown))}`,
      at,
    )
  }
}

async function talk(
  desk: AttemptDesk,
  lane: Lane,
  work: Consignment,
  wire: Buffer,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  const policy = work.email.tls_policy
  let connection = open
  if (connection && policy === 'Require' && connection.session.tls === null) {
    sessions.leave(connection)
    connection = undefined
  }
  for (;;) {
    const reused = connection !== undefined
    if (!connection) {
      const session = await connectLane(desk, lane, policy)
      if ('kind' in session) return { connection: undefined, verdicts: work.deliveries.map(() => session) }
      sessions.opened(session)
      connection = { session, mails: 0 }
    }
    const stopped = stoppedBy(desk.store, work)
    if (stopped) return { connection, verdicts: work.deliveries.map(() => stopped) }
    const verdicts = await connection.session.send(envelopeOf(work, desk.keyring), wire)
    connection.mails++
    // The server had closed an idle connection: that says nothing about this mail.
    const stale =
      reused &&
      verdicts.every(({ code, handed, stage }) => !handed && stage === 'mail' && (code === null || code === 421))
    if (!stale || sessions.closing) return { connection, verdicts }
    sessions.leave(connection)
    connection = undefined
  }
}
