// Accepts a mail: makes the checks that need the store, writes the email, its body and one delivery per recipient in
// one transaction, and wakes the queue. When the promise resolves, the mail is on the disk.
import type { Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import { codeOf, refuseAttribute, type Refusal } from '../../base/errors.ts'
import type { Budget } from '../../base/memory.ts'
import { newId } from '../../base/ids.ts'
import type { Keyring } from '../../base/keyring.ts'
import { useTokenDay } from '../../identity/token-days.ts'
import { useVolume } from '../../accounts/usage.ts'
import { parseAddress } from '../../message/address.ts'
import { messageIdOf } from '../../message/identity.ts'
import { encodedSize, MAX_MESSAGE } from '../../message/size.ts'
import type { Store, Tx } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
import { BODY_ABOVE, SPOOL_ABOVE, type Spool } from '../../store/spool.ts'
import { admit, requireSendingDomain, type SendingDomain, type Submission } from './admit.ts'
import { storeAttachments, withAttachments } from './attachments.ts'
import { slotFor } from '../../reputation/agents.ts'
import { refusePaused } from '../../reputation/pauses.ts'
import { claimedNew } from '../../delivery/queue/claim.ts'
import { enqueue, enqueueClaimed } from '../../delivery/queue/enqueue.ts'
import type { Delivery } from '../../delivery/results/settle.ts'
import type { ClaimNew, NewClaim } from '../../delivery/queue/transaction.ts'
import { filesOf } from '../../base/spooled.ts'
import { writeBody, type SubmittedBody, type WrittenBody } from '../../message/stored-body.ts'
import type { Email, NewEmail, SubmittedMessage } from './email.ts'
import type { FetchDeps } from '../../net/fetch.ts'
import { acceptedBefore, payloadHash } from './idempotency.ts'
import { recipientsOf, type OneOrMore, type Recipient } from './recipients.ts'

export interface SubmitDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  spool: Spool
  config: Pick<Config, 'delivery' | 'plans'>
  fetching: FetchDeps
  /** The limit in which fetched attachments stand, if there is one (D112). */
  bodies?: Budget | undefined
  /** Tells the queue that mail for a lane is due. */
  ring: (lane: string) => void
  /** Claims room on a lane, so that the mail goes out from memory; absent: every mail waits in the queue. */
  claimNew?: ClaimNew | undefined
}

export interface Submitted {
  email: Email
  /** The idempotency key was used before with the same payload: `email` is the earlier email. */
  replayed: boolean
  /** The body as it was stored; undefined for a repeat, and for a mail from SMTP submission. */
  body?: WrittenBody
}

type Times =
  `${'sent' | 'delivered' | 'bounced' | 'complained' | 'rejected' | 'suppressed' | 'failed' | 'first_opened' | 'first_clicked'}_at`
type NewEmailRow = Omit<Email, 'key' | 'campaign_key' | 'contact_key' | Times>
const COLUMNS = (
  'id user_key domain_key from to cc bcc reply_to subject agent_id track_opens track_clicks opens_tracked clicks_tracked ' +
  'ai_disclosure message_id idempotency_key payload_hash status queued_at created_at updated_at'
).split(' ') as (keyof NewEmailRow)[]

const insertEmail = statement<NewEmailRow>()((arg) =>
  db
    .insertInto('outbound_emails')
    .values(Object.fromEntries(COLUMNS.map((column) => [column, arg[column]])) as NewEmailRow)
    .returningAll(),
)

const insertBody = statement<{ email_key: number; content: string | null; spool: string | null }>()((arg) =>
  db.insertInto('outbound_bodies').values({ email_key: arg.email_key, content: arg.content, spool: arg.spool }),
)

/** Submits one mail. Throws a Refusal (403, 404, 409, 422). */
export async function submitEmail(deps: SubmitDeps, userKey: number, given: NewEmail): Promise<Submitted> {
  const { clock, spool, store } = deps
  const hash = typeof given.idempotency_key === 'string' ? (given.message?.hash ?? payloadHash(given)) : null
  // An unknown domain is reported before a conflict of keys (D3).
  if (hash) requireSendingDomain(store, userKey, given.from)
  // For a received message only the transaction checks the key: nothing is fetched before it, and the message's file is
  // removed when the message is a repeat.
  const earlier = hash && !given.message && acceptedBefore(store, userKey, given.idempotency_key!, hash)
  if (earlier) return { email: earlier, replayed: true }
  const submission: Submission = { userKey, from: parseAddress(given.from)!, recipients: recipientsOf(given), given }

  const now = clock.now()
  const id = given.message?.id ?? newId(now)
  const files = await storeBody(deps, submission, id)
  const drop = async (thrown?: unknown): Promise<void> => {
    // A commit whose sync failed may exist after a restart: then its files are needed. If it does not exist, they are
    // moved into quarantine.
    if (!codeOf(thrown).startsWith('SQLITE_IOERR')) await Promise.all(files.names.map((name) => spool.remove(name)))
  }
  const claims: NewClaim[] = []
  try {
    const submitted = await store.write((tx) => accept(tx, deps, { submission, files, hash, id, now, claims }))
    // The new files of a repeat are not needed.
    if (submitted.replayed) await drop()
    return submitted.replayed || !files.body ? submitted : { ...submitted, body: files.body }
  } catch (thrown) {
    for (const claim of claims) claim.cancel()
    await drop(thrown)
    throw thrown
  }
}

/** The body in the row, or the names of its files in the spool. */
interface Files {
  content: string | null
  names: string[]
  body?: WrittenBody
}

interface Accepting {
  submission: Submission
  files: Files
  /** Of the payload, when a key was given. */
  hash: Buffer | null
  id: string
  now: number
  /** The claims that were made for the mail, for the case that it is not stored. */
  claims: NewClaim[]
}

/** Checks a mail and writes it with its body and its deliveries. Throws a Refusal. */
function accept(tx: Tx, deps: SubmitDeps, accepting: Accepting): Submitted {
  const { files, hash, now, submission } = accepting
  const { given, recipients, userKey } = submission
  const same = hash && acceptedBefore(tx, userKey, given.idempotency_key!, hash)
  if (same) return { email: same, replayed: true }
  const domain = admit(tx, deps.keyring, submission, now)
  useVolume(tx, deps.config, userKey, recipients.length, now)
  if (given.cappedToken !== undefined) useTokenDay(tx, given.cappedToken, recipients.length, now)
  if (given.program !== undefined) refusePaused(tx, userKey, given.program)
  // An agent sends at the pace of its pool.
  const due = typeof given.agent_id === 'string' ? slotFor(tx, userKey, given.agent_id, now) : now
  const email = tx.one(insertEmail(rowOf(accepting, domain)))
  const spool = files.names.length > 0 ? JSON.stringify(files.names) : null
  tx.run(insertBody({ email_key: email.key, content: files.content, spool }))
  const expires_at = now + deps.config.delivery.lifetime
  const common = { email_key: email.key, domain_key: domain.key, at: now, expires_at }
  const mail = { ...email, content: files.content, spool }
  const lanes = new Map<string, ClaimedLane | undefined>()
  for (const { address, role } of recipients) {
    const lane = address.domain
    if (!lanes.has(lane)) lanes.set(lane, due <= now ? claimOn(tx, deps, accepting, lane) : undefined)
    const delivery = { ...common, role, address: address.address, lane }
    const claimed = lanes.get(lane)
    if (claimed) {
      const { lane, place } = claimed.claim
      claimed.deliveries.push(enqueueClaimed(tx, { ...delivery, lane }, place))
    } else enqueue(tx, { ...delivery, due })
  }
  for (const [lane, claimed] of lanes) {
    const work = claimed && claimedNew(tx, claimed.claim, mail, claimed.deliveries)
    tx.afterCommit(() => (work ? claimed.claim.take(work) : deps.ring(lane)))
  }
  return { email, replayed: false }
}

/** The recipients of a mail on a lane that has room for it. */
interface ClaimedLane {
  claim: NewClaim
  deliveries: Delivery[]
}

function claimOn(
  tx: Tx,
  { claimNew }: SubmitDeps,
  { claims, submission }: Accepting,
  lane: string,
): ClaimedLane | undefined {
  const recipients = submission.recipients.filter(({ address }) => address.domain === lane).length
  const claim = claimNew?.(tx, lane, recipients)
  if (claim) claims.push(claim)
  return claim && { claim, deliveries: [] }
}

function rowOf({ hash, id, now, submission }: Accepting, domain: SendingDomain): NewEmailRow {
  const { given, recipients, userKey } = submission
  const text = (value: OneOrMore): string | null =>
    value?.length ? JSON.stringify(typeof value === 'string' ? [value] : value) : null
  const named = (role: Recipient['role']): string[] =>
    recipients.filter((recipient) => recipient.role === role).map((recipient) => recipient.text)
  return {
    id,
    user_key: userKey,
    domain_key: domain.key,
    from: given.from,
    to: given.to,
    cc: text(named('cc')),
    bcc: text(named('bcc')),
    reply_to: text(given.reply_to),
    subject: given.subject,
    agent_id: given.agent_id ?? null,
    track_opens: flag(given.track_opens),
    track_clicks: flag(given.track_clicks),
    opens_tracked: (flag(given.track_opens) ?? domain.open_tracking_enabled) && domain.open_tracking_enabled,
    clicks_tracked: (flag(given.track_clicks) ?? domain.click_tracking_enabled) && domain.click_tracking_enabled,
    ai_disclosure: flag(given.ai_disclosure),
    message_id: given.message?.messageId ?? messageIdOf(id, domain.name),
    idempotency_key: given.idempotency_key ?? null,
    payload_hash: hash,
    status: 'queued',
    queued_at: now,
    created_at: now,
    updated_at: now,
  }
}

const flag = (value: boolean | null | undefined): 0 | 1 | null =>
  value === null || value === undefined ? null : value ? 1 : 0

/**
 * Stores attachments and large bodies in the spool.
 * Before the transaction, because writing files takes longer than a row.
 */
async function storeBody(deps: SubmitDeps, submission: Submission, id: string): Promise<Files> {
  const { given, userKey } = submission
  const { clock, keyring, spool, store } = deps
  if (given.message) return storeMessage(spool, id, given.message)
  const body: WrittenBody = {
    html: given.html,
    text: given.text ?? null,
    headers: (given.headers ?? []).map(([name, value]) => [name, value]),
  }
  const isLarge = body.html.length + (body.text?.length ?? 0) > BODY_ABOVE
  if (!isLarge && !given.attachments?.length) {
    const content = JSON.stringify(body)
    if (content.length <= BODY_ABOVE) return { content, names: [], body }
  }
  // Checked here before the disk is written, and again inside the transaction, where the result is final.
  admit(store, keyring, submission, clock.now())
  const parts = { html: body.html, text: body.text, headers: body.headers ?? [] }
  const judgeSize = (attachments: readonly { size: number }[]): void => {
    const size = encodedSize({ ...parts, attachments })
    if (size >= MAX_MESSAGE) throw tooLarge(size)
  }
  const fits = (octets: number): void => {
    if (octets >= MAX_MESSAGE) throw tooLarge(octets)
  }
  return withAttachments(deps, given.attachments ?? [], { userKey, fits }, async (received) => {
    judgeSize(received)
    const { stored, files } = await storeAttachments(spool, id, received)
    const whole = { ...body, attachments: stored }
    const content = isLarge ? '' : JSON.stringify(whole)
    if (!isLarge && content.length <= BODY_ABOVE) return { content, names: files, body: whole }
    return { content: null, names: [await spool.put(id, writeBody(whole)), ...files], body: whole }
  })
}

const tooLarge = (size: number): Refusal =>
  refuseAttribute(
    'message_too_large',
    'attachments',
    `The mail would have ${(size / 1024 / 1024).toFixed(1)} MB or more once encoded; it must stay under 40 MB.`,
  )

/** Stores the octets with the facts that were read from them; a large message is a file of the spool already. */
async function storeMessage(
  spool: Spool,
  id: string,
  { attachments, html, octets, text }: SubmittedMessage,
): Promise<Files> {
  const raw = Buffer.isBuffer(octets) ? { text: octets.toString('latin1') } : { file: octets.spooled }
  const listed = attachments.map((attachment) => ({ ...attachment, content: { text: '' } }))
  const content = JSON.stringify({ html, text, attachments: listed, raw } satisfies SubmittedBody)
  const names = 'file' in raw ? [raw.file] : []
  if (content.length <= SPOOL_ABOVE) return { content, names }
  return { content: null, names: [await spool.put(id, content), ...names] }
}

/** Deletes an email with its body and deliveries. A delivered mail is not recalled. */
export async function deleteEmail({ store, spool }: Pick<SubmitDeps, 'store' | 'spool'>, key: number): Promise<void> {
  const files = await store.write((tx) => {
    const body = tx.first(db.selectFrom('outbound_bodies').select('spool').where('email_key', '=', key))
    tx.run(db.deleteFrom('outbound_emails').where('key', '=', key))
    return filesOf(body?.spool ?? null)
  })
  await Promise.all(files.map((file) => spool.remove(file)))
}
