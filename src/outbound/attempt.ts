// One attempt to deliver one consignment: compose and sign, find or open a connection, talk SMTP. The result is a
// verdict for each recipient. A thrown error is a fault of this program and says nothing about the mail.
import { isAscii } from 'node:buffer'
import { messageOf } from '../base/errors.ts'
import { release } from '../base/memory.ts'
import type { Log } from '../base/log.ts'
import type { Pool } from '../base/pool.ts'
import type { CampaignRecipient } from '../message/campaign.ts'
import { reasonOf, UNFIT } from '../message/reencode.ts'
import type { CampaignJob, ComposeJob, Signing } from '../message/worker.ts'
import type { SmtpSession } from '../smtp/client.ts'
import { ownVerdict, waitsForRecord, waitsForUs, type Verdict } from '../smtp/verdict.ts'
import type { OpenKeys } from '../domains/keys.ts'
import type { Store } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { ClaimedEmail, Consignment } from './claim.ts'
import { aboutTheHost, endsSession, maybeTheMail } from './conclude.ts'
import { connectAlong, type ConnectDesk } from './connect.ts'
import { damaged, damageOf } from './intact.ts'
import type { Lane } from './lanes.ts'
import { sendToAll } from './send-all.ts'
import type { Delivery } from './settle.ts'
import { stopsNow, type KnownStops, type Stop } from './stops.ts'
import { composeJob, trackingBase, type LetterDesk } from './letter.ts'

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
  /** What was found of its recipient when it was claimed. */
  known: KnownStops
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
  /** The exchanger gave an answer to one of them that was about the mail. */
  worked: boolean
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
  /** Resolves when it is closed. */
  leave(connection: Connection): Promise<void>
  /** No new connection is opened any more. */
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
    const damage = damageOf(work)
    if (damage !== undefined) {
      const verdict = damaged(desk.log, work.email.id, damage)
      return { verdicts: work.deliveries.map(() => verdict), connection: open }
    }
    return await attempt(desk, lane, work, open, sessions)
  } catch (thrown) {
    const verdict = afterFault(desk, work, thrown)
    return { verdicts: work.deliveries.map(() => verdict), connection: open }
  }
}

/** A mail that was deleted takes its files with it: composing it fails then, which is no trouble of this server. */
function afterFault({ log, store }: AttemptDesk, work: Consignment, thrown: unknown): Verdict {
  try {
    const stopped = stoppedBy(store, work)
    if (stopped) return stopped
  } catch (alsoThrown) {
    log.fault(`why ${work.email.message_id} was not delivered`, alsoThrown)
  }
  log.fault(`delivery of ${work.email.message_id}`, thrown)
  return waitsForUs({ stage: 'compose' }, messageOf(thrown))
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
  const { clock, keyring, store } = desk
  const blocked = stopsNow(work.known, store, keyring, work.deliveries, clock.now()).map(verdictOf)
  const free = work.deliveries.filter((_, index) => blocked[index] === undefined)
  if (free.length === 0) return { verdicts: blocked as Verdict[], connection: open }
  const { connection, verdicts } = await attemptFree(desk, lane, { ...work, deliveries: free }, open, sessions)
  return { connection, verdicts: blocked.map((verdict) => verdict ?? verdicts.shift()!) }
}

/** An address that was suppressed after the mail was accepted is not written to (D25). */
const verdictOf = (stop: Stop | undefined): Verdict | undefined =>
  stop &&
  ownVerdict('suppressed', '5.7.1', `The address was suppressed after the mail was accepted (${stop.reason}).`, {
    stage: 'compose',
  })

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
function stoppedBy(store: Store, { email, known }: Consignment): Verdict | undefined {
  const at = { stage: 'compose' } as const
  const untouched = known.removals === store.generation('outbound_emails', 'removed')
  if (email.campaign_key === null && !untouched && !store.first(emailNow({ key: email.key })))
    return ownVerdict('rejected', '5.7.1', 'The mail was deleted.', at)
  const domain = store.fact(domainNow({ key: email.domain_key }))
  if (!domain || domain.deleted_at !== null)
    return ownVerdict('rejected', '5.7.1', `The sending domain ${email.domain} was removed.`, at)
  if (domain.status === 'suspended')
    return ownVerdict('deferred', '4.7.1', `The sending domain ${email.domain} is suspended.`, at)
  return undefined
}

async function composed(
  desk: AttemptDesk,
  work: Consignment,
  form: Pick<ComposeJob, 'sevenBit' | 'asciiHeader'> = {},
): Promise<Uint8Array<ArrayBuffer> | Verdict | 'hold' | 'drop'> {
  const { composer, keys } = desk
  const { email } = work
  const at = { stage: 'compose' } as const
  // A campaign's mails are checked later, when a connection is open: they are many, and wait only moments.
  const stopped = email.campaign_key === null ? stoppedBy(desk.store, work) : undefined
  if (stopped) return stopped
  if (work.signingKey && 'unseen' in work.signingKey) return waitsForRecord(at, work.signingKey.unseen)
  const key = work.signingKey && keys.get(work.signingKey.key)
  if (!key) return ownVerdict('rejected', '5.7.0', `The DKIM key of ${email.domain} was erased.`, at)
  const signature = { domain: email.domain, selector: key.selector, keyId: key.keyId, time: desk.clock.now() }
  const job = email.campaign_key === null ? composeJob(desk, work, signature) : campaignJob(desk, work, signature)
  if (!job) return ownVerdict('rejected', '5.6.0', 'The body of this mail is no longer kept.', at)
  if (typeof job === 'string' || 'kind' in job) return job
  return composer.run({ ...job, ...form })
}

function campaignJob(
  desk: AttemptDesk,
  { deliveries, email, known }: Consignment,
  signature: Signing,
): CampaignJob | Verdict | 'hold' | 'drop' {
  const letter = desk.bulk.letter({ email, delivery: deliveries[0]!, known, base: trackingBase(desk.config, email) })
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
  // One that was cut while it was idle says nothing any more of what the exchanger takes.
  if (connection && (!connection.session.usable || (policy === 'Require' && connection.session.tls === null))) {
    void sessions.leave(connection)
    connection = undefined
  }
  for (;;) {
    const reused = connection !== undefined
    if (!connection) {
      const session = await connectAlong(desk, lane.domain, lane.route!, policy)
      if ('kind' in session) return { connection: undefined, verdicts: work.deliveries.map(() => session) }
      sessions.opened(session)
      connection = { session, mails: 0, worked: false }
    }
    const halted = work.email.campaign_key !== null ? desk.bulk.halted(work.email.campaign_key) : undefined
    if (halted) return { connection, verdicts: [], withdrawn: halted }
    const stopped = stoppedBy(desk.store, work)
    if (stopped) return { connection, verdicts: work.deliveries.map(() => stopped) }
    const fit = await fitFor(connection.session, desk, work, wire)
    if ('kind' in fit) return { connection, verdicts: work.deliveries.map(() => fit) }
    const verdicts = await sendToAll(desk, connection.session, work, fit)
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
  desk: AttemptDesk,
  work: Consignment,
  wire: Buffer,
): Promise<Buffer | Verdict> {
  if (isAscii(wire)) return wire
  const wideHeader = !isAscii(wire.subarray(0, wire.indexOf('\r\n\r\n')))
  // To an address that is not ASCII the server says no for itself.
  const asciiHeader =
    wideHeader && !session.takes('SMTPUTF8') && work.deliveries.every(({ address }) => isAscii(Buffer.from(address)))
  const sevenBit = !session.takes('8BITMIME')
  if (!sevenBit && !asciiHeader) return wire
  const letter = await composed(desk, work, { sevenBit, asciiHeader })
  if (typeof letter === 'string') return wire
  if ('kind' in letter) return letter
  const reason = reasonOf(letter)
  if (reason === undefined) return Buffer.from(letter.buffer, letter.byteOffset, letter.byteLength)
  return ownVerdict('bounced', ...UNFIT[reason], { stage: 'compose' })
}
