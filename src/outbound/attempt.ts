// One attempt to deliver one consignment: compose and sign, find or open a connection, talk SMTP. The result is a
// verdict for each recipient. A thrown error is a fault of this program and says nothing about the mail.
import { isAscii } from 'node:buffer'
import { SECOND } from '../base/clock.ts'
import { messageOf } from '../base/errors.ts'
import { release } from '../base/memory.ts'
import type { Log } from '../base/log.ts'
import type { Pool } from '../base/pool.ts'
import type { CampaignRecipient } from '../message/campaign.ts'
import type { CampaignJob, ComposeJob, Signing } from '../message/worker.ts'
import type { SmtpSession } from '../smtp/client.ts'
import { ownVerdict, waitsForUs, type Verdict } from '../smtp/verdict.ts'
import type { OpenKeys } from '../domains/keys.ts'
import type { Store } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { ClaimedEmail, Consignment } from './claim.ts'
import { connectAlong, type ConnectDesk } from './connect.ts'
import type { Lane } from './lanes.ts'
import { emailOf, moveEmail, type Delivery } from './settle.ts'
import { suppressedFor } from './suppressions.ts'
import { composeJob, envelopeOf, trackingBase, type LetterDesk } from './letter.ts'

export interface AttemptDesk extends ConnectDesk, LetterDesk {
  store: Store
  config: ConnectDesk['config'] & LetterDesk['config']
  keys: OpenKeys
  log: Log
  composer: Pool<ComposeJob | CampaignJob, Uint8Array<ArrayBuffer>>
  /**
   * Gives the content of a campaign's mail, or says not to send it:
   * not now (`hold`), never (`drop`), not to this recipient (a verdict).
   */
  bulk: Bulk
}

export interface Bulk {
  letter(work: BulkWork): BulkLetter | Verdict | 'hold' | 'drop'
  /** Whether a campaign has stopped sending; asked again once a connection is open. */
  halted(campaign: number): 'hold' | 'drop' | undefined
}

/** A claimed mail of a campaign. It has exactly one recipient. */
export interface BulkWork {
  email: ClaimedEmail
  delivery: Delivery
  /** The URL that tracked links start with. */
  base: string
}

export interface BulkLetter {
  /** The name of its template. */
  campaign: string
  recipient: CampaignRecipient
}

/** A session and how many mails it has carried. */
export interface Connection {
  session: SmtpSession
  mails: number
}

export interface Attempted {
  verdicts: Verdict[]
  /** The connection that was used, whether it can carry more mail or not. */
  connection: Connection | undefined
  /** The campaign does not want the mail sent; then there are no verdicts. */
  withdrawn?: 'hold' | 'drop'
}

/** Calls to the code that keeps the list of open sessions. */
export interface Sessions {
  opened(session: SmtpSession): void
  leave(connection: Connection): void
  /** True once no new connection may be opened. */
  closing(): boolean
}

/** One attempt. After a fault of this program the mail waits for this server, without a verdict on the mail (D72). */
export async function attemptOrWait(
  desk: AttemptDesk,
  lane: Lane,
  work: Consignment,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  try {
    return await attempt(desk, lane, work, open, sessions)
  } catch (thrown) {
    desk.log.fault(`delivery of ${work.email.message_id}`, thrown)
    const verdict = waitsForUs({ stage: 'compose' }, messageOf(thrown))
    return { verdicts: work.deliveries.map(() => verdict), connection: open }
  }
}

async function attempt(
  desk: AttemptDesk,
  lane: Lane,
  work: Consignment,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  // A campaign checks suppressions itself.
  if (work.email.campaign_key !== null) return attemptFree(desk, lane, work, open, sessions)
  const blocked = work.deliveries.map((delivery) => suppressedNow(desk, delivery))
  const free = work.deliveries.filter((_, index) => blocked[index] === undefined)
  if (free.length === 0) return { verdicts: blocked as Verdict[], connection: open }
  const { connection, verdicts } = await attemptFree(desk, lane, { ...work, deliveries: free }, open, sessions)
  return { connection, verdicts: blocked.map((verdict) => verdict ?? verdicts.shift()!) }
}

/** An address that was suppressed after the mail was accepted is not written to (D25). */
function suppressedNow({ clock, keyring, store }: AttemptDesk, { address, domain_key }: Delivery): Verdict | undefined {
  const entry = suppressedFor(store, keyring, domain_key, address, clock.now())
  return (
    entry &&
    ownVerdict('suppressed', '5.7.1', `The address was suppressed after the mail was accepted (${entry.reason}).`, {
      stage: 'compose',
    })
  )
}

async function attemptFree(
  desk: AttemptDesk,
  lane: Lane,
  work: Consignment,
  open: Connection | undefined,
  sessions: Sessions,
): Promise<Attempted> {
  const letter = await composed(desk, work)
  if (typeof letter === 'string') return { verdicts: [], connection: open, withdrawn: letter }
  if ('kind' in letter) return { verdicts: work.deliveries.map(() => letter), connection: open }
  const wire = Buffer.from(letter.buffer, letter.byteOffset, letter.byteLength)
  const attempted = await talk(desk, lane, work, wire, open, sessions)
  // After an early answer the socket may still read this buffer: then it is left to the garbage collector.
  if (attempted.connection?.session.flushed) release(wire)
  return attempted
}

const emailNow = statement<{ key: number }>()((arg) =>
  db.selectFrom('outbound_emails').select('key').where('key', '=', arg.key),
)

const domainNow = statement<{ key: number }>()((arg) =>
  db.selectFrom('domains').select(['status', 'deleted_at']).where('key', '=', arg.key),
)

/** A domain that was removed or suspended sends nothing from that moment on, not even mail that is claimed already. */
function stoppedBy(store: Store, { email }: Consignment): Verdict | undefined {
  const at = { stage: 'compose' } as const
  if (email.campaign_key === null && !store.first(emailNow({ key: email.key })))
    return ownVerdict('rejected', '5.7.1', 'The mail was deleted.', at)
  const domain = store.first(domainNow({ key: email.domain_key }))
  if (!domain || domain.deleted_at !== null)
    return ownVerdict('rejected', '5.7.1', `The sending domain ${email.domain} was removed.`, at)
  if (domain.status === 'suspended')
    return ownVerdict('deferred', '4.7.1', `The sending domain ${email.domain} is suspended.`, at)
  return undefined
}

async function composed(
  desk: AttemptDesk,
  work: Consignment,
  sevenBit = false,
): Promise<Uint8Array<ArrayBuffer> | Verdict | 'hold' | 'drop'> {
  const { composer, keys } = desk
  const { email } = work
  const at = { stage: 'compose' } as const
  // A campaign's mails are checked later, when a connection is open: they are many, and wait only moments.
  const stopped = email.campaign_key === null ? stoppedBy(desk.store, work) : undefined
  if (stopped) return stopped
  const key = work.signingKey === undefined ? undefined : keys.get(work.signingKey)
  if (!key) return ownVerdict('rejected', '5.7.0', `The DKIM key of ${email.domain} was erased.`, at)
  const signature = { domain: email.domain, selector: key.selector, keyId: key.keyId, time: desk.clock.now() }
  const job = email.campaign_key === null ? composeJob(desk, work, signature) : campaignJob(desk, work, signature)
  if (!job) return ownVerdict('rejected', '5.6.0', 'The body of this mail is no longer kept.', at)
  if (typeof job === 'string' || 'kind' in job) return job
  return composer.run(sevenBit ? { ...job, sevenBit } : job)
}

function campaignJob(
  desk: AttemptDesk,
  { deliveries, email }: Consignment,
  signature: Signing,
): CampaignJob | Verdict | 'hold' | 'drop' {
  const letter = desk.bulk.letter({ email, delivery: deliveries[0]!, base: trackingBase(desk.config, email) })
  if (typeof letter === 'string' || 'kind' in letter) return letter
  return { ...letter, signature }
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
      const session = await connectAlong(desk, lane.domain, lane.route!, policy)
      if ('kind' in session) return { connection: undefined, verdicts: work.deliveries.map(() => session) }
      sessions.opened(session)
      connection = { session, mails: 0 }
    }
    const halted = work.email.campaign_key !== null ? desk.bulk.halted(work.email.campaign_key) : undefined
    if (halted) return { connection, verdicts: [], withdrawn: halted }
    const stopped = stoppedBy(desk.store, work)
    if (stopped) return { connection, verdicts: work.deliveries.map(() => stopped) }
    const fit = await fitFor(connection.session, desk, work, wire)
    if ('kind' in fit) return { connection, verdicts: work.deliveries.map(() => fit) }
    const verdicts = await sendToAll(desk, connection.session, work, fit)
    connection.mails++
    // The server had closed an idle connection, which says nothing about this mail: try once more on a new connection.
    const stale =
      reused &&
      verdicts.every(({ code, handed, stage }) => !handed && stage === 'mail' && (code === null || code === 421))
    if (!stale || sessions.closing()) return { connection, verdicts }
    sessions.leave(connection)
    connection = undefined
  }
}

/**
 * The octets in the form that the server takes: a mail from SMTP submission may be 8-bit, and is recoded to 7 bits for
 * a server without 8BITMIME (RFC 6152 §3).
 */
async function fitFor(
  session: SmtpSession,
  desk: AttemptDesk,
  work: Consignment,
  wire: Buffer,
): Promise<Buffer | Verdict> {
  if (session.takesEightBits || isAscii(wire)) return wire
  const letter = await composed(desk, work, true)
  if (typeof letter === 'string') return wire
  if ('kind' in letter) return letter
  if (letter.length > 0) return Buffer.from(letter.buffer, letter.byteOffset, letter.byteLength)
  return ownVerdict('bounced', '5.6.3', 'The server takes only 7 bits, and the mail is signed with 8.', {
    stage: 'compose',
  })
}

/** RFC 5321 §4.5.3.1.10: 452, or 552 from older servers. */
const tooMany = ({ code, enhanced, stage, text }: Verdict): boolean =>
  stage === 'rcpt' && ((code === 452 && enhanced !== '4.2.2') || (code === 552 && /too many recipients/i.test(text)))

/** When the answer to the final dot takes longer than this (ms), the mail is called sent. */
const PATIENCE = 2 * SECOND

/**
 * The exchanger has the octets, but its answer takes long: the mail becomes `sent`, so that its owner sees it (D25).
 * Not for campaigns: they have many mails, and their owner looks at totals.
 */
function noteHanded({ clock, log, store }: AttemptDesk, deliveries: readonly Delivery[]): void {
  const primary = deliveries.find(({ role }) => role === 'to')
  if (!primary) return
  store
    .writeSoon((tx) => {
      const email = tx.first(emailOf({ key: primary.email_key }))
      if (email?.campaign_key === null) moveEmail(tx, email, 'handed', clock.now(), primary)
    })
    .catch((thrown: unknown) => void log.fault('a mail that was handed over', thrown))
}

/** Sends in one SMTP transaction, and in further ones for recipients beyond the server's limit for one. */
async function sendToAll(desk: AttemptDesk, session: SmtpSession, work: Consignment, wire: Buffer): Promise<Verdict[]> {
  const verdicts = new Map<Delivery, Verdict>()
  let rest = work.deliveries
  for (;;) {
    const tried = rest
    const answers = await session.send(envelopeOf({ ...work, deliveries: tried }, desk.keyring), wire, (taken) =>
      desk.clock.wake(desk.clock.now() + PATIENCE, () =>
        noteHanded(
          desk,
          taken.map((index) => tried[index]!),
        ),
      ),
    )
    for (const [index, delivery] of rest.entries()) verdicts.set(delivery, answers[index]!)
    const left = rest.filter((_, index) => tooMany(answers[index]!))
    if (left.length === 0 || left.length === rest.length || !session.usable) break
    rest = left
  }
  return work.deliveries.map((delivery) => verdicts.get(delivery)!)
}
