// Accepts an email: makes the checks that need the store, writes the email, its body and one delivery per recipient in
// one transaction, and wakes the queue. When the promise resolves, the email is on the disk.
import { DAY, dayOf, type Clock } from '../../base/clock.ts'
import type { Config } from '../../base/config.ts'
import { codeOf, refuseAttribute, type Refusal, refuse } from '../../base/errors.ts'
import type { Budget } from '../../base/memory.ts'
import { newId } from '../../base/ids.ts'
import type { Keyring } from '../../base/keyring.ts'
import { useTokenDay } from '../../users/tokens.ts'
import { useVolume } from '../../users/plan.ts'
import { parseAddress, type Address } from '../../message/address.ts'
import { bulkLane } from '../../message/lane-names.ts'
import { messageIdOf } from '../../message/identity.ts'
import { encodedSize, MAX_MESSAGE } from '../../message/size.ts'
import type { Store, Tx, Reader } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
import { BODY_ABOVE, SPOOL_ABOVE, type Spool } from '../../store/spool.ts'
import {
  admit,
  requireSendingDomain,
  writtenBody,
  type SendingDomain,
  type Submission,
  type Email,
  type NewEmail,
  type SubmittedMessage,
  recipientsOf,
  type OneOrMore,
  type Recipient,
} from './admit.ts'
import { dropUnusedBodies } from '../shared-bodies.ts'
import { dueAt, SCHEDULED } from '../schedule.ts'
import { storeAttachments, withAttachments } from './attachments.ts'
import { slotFor } from '../../reputation/agents.ts'
import { refusePaused } from '../../reputation/pauses.ts'
import { claimedNew } from '../../delivery/queue/claim.ts'
import { enqueue, enqueueClaimed, enqueueLater } from '../../delivery/queue/enqueue.ts'
import { suppressRecipient, type Delivery } from '../../delivery/results/settle.ts'
import { reasonOf, stopWords } from '../../suppressions/stops.ts'
import type { ClaimNew, NewClaim } from '../../delivery/queue/transaction.ts'
import { filesOf } from '../../base/spooled.ts'
import { writeBody, type SubmittedBody, type WrittenBody } from '../../message/stored-body.ts'
import type { FetchDeps } from '../../net/fetch.ts'
import { createHash } from 'node:crypto'

export interface SubmitDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  spool: Spool
  config: Pick<Config, 'delivery' | 'plans'>
  fetching: FetchDeps
  /** The budget of fetched attachments, if there is one (D112). */
  bodies?: Budget | undefined
  /** Notifies the queue that mail for a lane is due. */
  ring: (lane: string) => void
  /** Claims capacity on a lane, so that the email is sent from memory. Without it, every email is queued. */
  claimNew?: ClaimNew | undefined
}

/** What writing an email needs, without what is needed before its transaction. */
export type AcceptDeps = Pick<SubmitDeps, 'keyring' | 'ring' | 'claimNew'> & {
  config: Pick<Config, 'delivery' | 'plans'>
}

export interface Submitted {
  email: Email
  /** The idempotency key was used before with the same payload. `email` is the earlier email. */
  replayed: boolean
  /** The body as it was stored, or undefined for a repeat and for an email from SMTP submission. */
  body?: WrittenBody
}

type Times =
  `${'sent' | 'delivered' | 'bounced' | 'complained' | 'rejected' | 'suppressed' | 'failed' | 'first_opened' | 'first_clicked' | 'cancelled'}_at`
export type NewEmailRow = Omit<Email, 'key' | 'campaign_key' | 'contact_key' | Times>
export const COLUMNS = (
  'id user_key domain_key from to cc bcc reply_to subject agent_id track_opens track_clicks opens_tracked clicks_tracked ' +
  'ai_disclosure message_id idempotency_key payload_hash status tags metadata scheduled_at stream batch_key batch_index queued_at created_at updated_at'
).split(' ') as (keyof NewEmailRow)[]

const insertEmail = statement<NewEmailRow>()((arg) =>
  db
    .insertInto('outbound_emails')
    .values(Object.fromEntries(COLUMNS.map((column) => [column, arg[column]])) as NewEmailRow)
    .returningAll(),
)

const emailByRow = (key: number) => db.selectFrom('outbound_emails').selectAll().where('key', '=', key)

const insertBody = statement<{ email_key: number; content: string | null; spool: string | null }>()((arg) =>
  db.insertInto('outbound_bodies').values({ email_key: arg.email_key, content: arg.content, spool: arg.spool }),
)

/** Submits one email. Throws a Refusal (403, 404, 409, 422). */
export async function submitEmail(deps: SubmitDeps, userKey: number, given: NewEmail): Promise<Submitted> {
  const { clock, spool, store } = deps
  const hash = typeof given.idempotency_key === 'string' ? (given.message?.hash ?? payloadHash(given)) : null
  // An unknown domain is reported before a conflict of keys (D3).
  if (hash) requireSendingDomain(store, userKey, given.from)
  // For a received message only the transaction checks the key, because there is nothing to fetch. The message's file
  // is removed if the message is a repeat.
  const earlier = hash && !given.message && acceptedBefore(store, userKey, given.idempotency_key!, hash)
  if (earlier) return { email: earlier, replayed: true }
  const submission: Submission = { userKey, from: parseAddress(given.from)!, recipients: recipientsOf(given), given }

  const now = clock.now()
  const id = given.message?.id ?? newId(now)
  const files = await storeBody(deps, submission, id)
  const drop = async (thrown?: unknown): Promise<void> => {
    // A commit whose sync failed may exist after a restart. In that case its files are needed. If it does not exist,
    // they are moved into quarantine.
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
export interface Files {
  content: string | null
  names: string[]
  body?: WrittenBody
}

export interface Accepting {
  submission: Submission
  files: Files
  /** The batch, and the position in it. */
  place?: { batch: number; index: number }
  /** Hash of the payload, if a key was given. */
  hash: Buffer | null
  id: string
  now: number
  /** The claims that were made for the email, to cancel them if it is not stored. */
  claims: NewClaim[]
}

/** Checks an email and writes it with its body and its deliveries. Throws a Refusal before anything is written. */
export function accept(tx: Tx, deps: AcceptDeps, accepting: Accepting): Submitted {
  const { files, hash, now, submission } = accepting
  const { given, recipients, userKey } = submission
  const same = hash && acceptedBefore(tx, userKey, given.idempotency_key!, hash)
  if (same) return { email: same, replayed: true }
  const scheduledAt = dueAt(given.scheduled_at, now)
  const { domain, stops: found } = admit(tx, deps.keyring, submission, now)
  // The queue records the stops of a scheduled email when it is due: they can have ended by then.
  const stops = scheduledAt === undefined ? found : []
  const wanted = recipients.filter((_, index) => stops[index] === undefined)
  countRecipients(tx, deps, submission, wanted.length, now)
  // An agent sends at the pace of its pool.
  const due = scheduledAt ?? (typeof given.agent_id === 'string' ? slotFor(tx, userKey, given.agent_id, now) : now)
  const inserted = tx.one(insertEmail(rowOf(accepting, domain, scheduledAt)))
  const spool = files.names.length > 0 ? JSON.stringify(files.names) : null
  tx.run(insertBody({ email_key: inserted.key, content: files.content, spool }))
  const expires_at = (scheduledAt ?? now) + deps.config.delivery.lifetime
  const common = { email_key: inserted.key, domain_key: domain.key, at: now, expires_at }
  const bulk = given.stream === 'bulk'
  const laneOf = ({ domain }: Address): string => (bulk ? bulkLane(domain) : domain)
  const later = ({ address, role }: Recipient): number =>
    enqueueLater(tx, { ...common, role, address: address.address, lane: laneOf(address) })
  for (const [index, recipient] of recipients.entries()) {
    const stop = stops[index]
    if (!stop) continue
    const delivery = { key: later(recipient), role: recipient.role }
    const words = `The address is suppressed: ${stopWords(stop)}.`
    suppressRecipient(tx, { email: inserted, delivery, now }, words, reasonOf(stop))
  }
  const email = wanted.length === recipients.length ? inserted : tx.one(emailByRow(inserted.key))
  if (scheduledAt !== undefined) {
    wanted.forEach(later)
    tx.signal(SCHEDULED, userKey)
    return { email, replayed: false }
  }
  const mail = { ...email, content: files.content, spool }
  const lanes = new Map<string, ClaimedLane | undefined>()
  for (const { address, role } of wanted) {
    const lane = laneOf(address)
    // Bulk email always goes through the queue, where other email comes first.
    if (!lanes.has(lane))
      lanes.set(lane, due <= now && !bulk ? claimOn(tx, deps, accepting, { lane, wanted }) : undefined)
    const delivery = { ...common, role, address: address.address, lane }
    const claimed = lanes.get(lane)
    if (claimed) {
      const { lane, slot } = claimed.claim
      claimed.deliveries.push(enqueueClaimed(tx, { ...delivery, lane }, slot))
    } else enqueue(tx, { ...delivery, due })
  }
  for (const [lane, claimed] of lanes) {
    const work = claimed && claimedNew(tx, claimed.claim, mail, claimed.deliveries)
    tx.afterCommit(() => (work ? claimed.claim.take(work) : deps.ring(lane)))
  }
  return { email, replayed: false }
}

/** Counts recipients in the volume and in the limit of the token. Throws a Refusal, and then counts no recipient. */
export function countRecipients(
  tx: Tx,
  { config }: Pick<SubmitDeps, 'config'>,
  { given, userKey }: { given: Pick<NewEmail, 'agent_id' | 'begin' | 'cappedToken' | 'program'>; userKey: number },
  recipients: number,
  now: number,
): void {
  given.begin?.()
  for (const agent of [given.program, given.agent_id]) if (typeof agent === 'string') refusePaused(tx, userKey, agent)
  useVolume(tx, config, userKey, recipients, now)
  try {
    if (given.cappedToken !== undefined) useTokenDay(tx, given.cappedToken, recipients, now)
  } catch (refusal) {
    useVolume(tx, config, userKey, -recipients, now)
    throw refusal
  }
}

/** The recipients of an email on a lane that has capacity for it. */
interface ClaimedLane {
  claim: NewClaim
  deliveries: Delivery[]
}

function claimOn(
  tx: Tx,
  { claimNew }: AcceptDeps,
  { claims }: Accepting,
  { lane, wanted }: { lane: string; wanted: readonly Recipient[] },
): ClaimedLane | undefined {
  const recipients = wanted.filter(({ address }) => address.domain === lane).length
  const claim = claimNew?.(tx, lane, recipients)
  if (claim) claims.push(claim)
  return claim && { claim, deliveries: [] }
}

export function rowOf(
  { hash, id, now, place, submission }: Omit<Accepting, 'claims' | 'files'>,
  domain: SendingDomain,
  scheduledAt: number | undefined,
): NewEmailRow {
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
    message_id: given.message?.messageId ?? given.message_id ?? messageIdOf(id, domain.name),
    idempotency_key: given.idempotency_key ?? null,
    payload_hash: hash,
    status: scheduledAt === undefined ? 'queued' : 'scheduled',
    tags: given.tags?.length ? JSON.stringify(given.tags) : null,
    metadata: given.metadata && Object.keys(given.metadata).length > 0 ? JSON.stringify(given.metadata) : null,
    scheduled_at: scheduledAt ?? null,
    stream: given.stream ?? 'transactional',
    batch_key: place?.batch ?? null,
    batch_index: place?.index ?? null,
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
export async function storeBody(deps: SubmitDeps, submission: Submission, id: string): Promise<Files> {
  const { given, userKey } = submission
  const { clock, keyring, spool, store } = deps
  if (given.message) return storeMessage(spool, id, given.message)
  const body = writtenBody(given)
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
  const fits = (bytes: number): void => {
    if (bytes >= MAX_MESSAGE) throw tooLarge(bytes)
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

export const tooLarge = (size: number): Refusal =>
  refuseAttribute(
    'message_too_large',
    'attachments',
    `The email would have at least ${(size / 1024 / 1024).toFixed(1)} MB when encoded, and the limit is 40 MB. Make its attachments smaller.`,
  )

/** Stores the bytes with the facts that were read from them. A large message is a file of the spool already. */
async function storeMessage(
  spool: Spool,
  id: string,
  { attachments, html, bytes, text }: SubmittedMessage,
): Promise<Files> {
  const raw = Buffer.isBuffer(bytes) ? { text: bytes.toString('latin1') } : { file: bytes.spooled }
  const listed = attachments.map((attachment) => ({ ...attachment, content: { text: '' } }))
  const content = JSON.stringify({ html, text, attachments: listed, raw } satisfies SubmittedBody)
  const names = 'file' in raw ? [raw.file] : []
  if (content.length <= SPOOL_ABOVE) return { content, names }
  return { content: null, names: [await spool.put(id, content), ...names] }
}

/** Deletes an email with its body and deliveries. A delivered email is not recalled. */
export async function deleteEmail({ store, spool }: Pick<SubmitDeps, 'store' | 'spool'>, key: number): Promise<void> {
  const files = await store.write((tx) => {
    const body = tx.first(db.selectFrom('outbound_bodies').select('spool').where('email_key', '=', key))
    const email = tx.first(db.selectFrom('outbound_emails').select('batch_key').where('key', '=', key))
    tx.run(db.deleteFrom('outbound_emails').where('key', '=', key))
    return [...filesOf(body?.spool ?? null), ...dropUnusedBodies(tx, [email?.batch_key])]
  })
  await Promise.all(files.map((file) => spool.remove(file)))
}

// Idempotency keys (D30): a repeat with the same payload returns the first email, and one with another payload is
// rejected.

const byIdempotencyKey = statement<{ user_key: number; idempotency_key: string }>()((arg) =>
  db
    .selectFrom('outbound_emails')
    .selectAll()
    .where('user_key', '=', arg.user_key)
    .where('idempotency_key', '=', arg.idempotency_key),
)

const emailByKey = (reader: Reader, userKey: number, key: string): Email | undefined =>
  reader.first(byIdempotencyKey({ user_key: userKey, idempotency_key: key }))

/** An idempotency key that Postrider makes, and that is valid for 24 hours. `keyOn`: the key of a day (UTC). */
export function keyForDay(
  { clock, store }: Pick<SubmitDeps, 'clock' | 'store'>,
  userKey: number,
  keyOn: (day: number) => string,
): string {
  const now = clock.now()
  const day = dayOf(now)
  const earlier = emailByKey(store, userKey, keyOn(day - 1))
  return earlier && now - earlier.created_at < DAY ? keyOn(day - 1) : keyOn(day)
}

/** The earlier email with this key. Throws 409 if its payload was different. */
export function acceptedBefore(reader: Reader, userKey: number, key: string, hash: Buffer): Email | undefined {
  const email = emailByKey(reader, userKey, key)
  // An email that was erased has no hash to compare with.
  if (email && !(email.payload_hash && hash.equals(email.payload_hash)))
    throw refuse(
      'idempotency_conflict',
      'This idempotency_key was used with other content. Use a new key for a new email.',
      {
        pointer: '/data/attributes/idempotency_key',
      },
    )
  return email
}

/**
 * A hash of the payload by meaning: the order of members does not matter, absent equals null, one value equals a list
 * of one.
 */
export function payloadHash(given: NewEmail): Buffer {
  const list = (value: OneOrMore): readonly string[] => (typeof value === 'string' ? [value] : (value ?? []))
  const {
    from,
    to,
    subject,
    html,
    text,
    agent_id,
    track_opens,
    track_clicks,
    ai_disclosure,
    attachments = [],
    headers = [],
  } = given
  const hash = createHash('sha256').update(
    JSON.stringify({
      from,
      to,
      subject,
      html,
      text: text ?? null,
      cc: list(given.cc),
      bcc: list(given.bcc),
      reply_to: list(given.reply_to),
      agent_id: agent_id ?? null,
      track_opens: track_opens ?? null,
      track_clicks: track_clicks ?? null,
      ai_disclosure: ai_disclosure ?? null,
      headers: headers.toSorted(([a], [b]) => (a < b ? -1 : 1)),
      attachments: attachments.map((attachment) => ({ ...attachment, content: undefined })),
      // Absent in the hashes of earlier versions.
      ...(given.scheduled_at && { scheduled_at: given.scheduled_at }),
      ...(given.message_id && { message_id: given.message_id }),
      ...(given.tags?.length && { tags: given.tags }),
      ...(given.on_suppressed === 'record' && { on_suppressed: given.on_suppressed }),
      ...(given.stream === 'bulk' && { stream: given.stream }),
      ...(given.unsubscribe && { unsubscribe: given.unsubscribe }),
      ...(given.metadata && { metadata: Object.entries(given.metadata).toSorted(([a], [b]) => (a < b ? -1 : 1)) }),
    }),
  )
  for (const { content } of attachments) {
    const text = Buffer.isBuffer(content) ? content.toString('base64') : (content ?? '')
    hash.update(`\n${text.length}\n`).update(text)
  }
  return hash.digest()
}
