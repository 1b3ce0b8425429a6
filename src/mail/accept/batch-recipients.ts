// Accepts one email for many recipients, each of whom gets an email of their own. The body is stored once, and the
// values of a recipient are filled in when their email is composed.
import { createHash } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import { DAY, dayOf } from '../../base/clock.ts'
import { must, Refusal } from '../../base/errors.ts'
import { newId } from '../../base/ids.ts'
import { knownAddress } from '../../message/address.ts'
import { bulkLane } from '../../message/lane-names.ts'
import type { WrittenBody } from '../../message/stored-body.ts'
import { writeValues, type Syntax } from '../../message/variables.ts'
import { enqueuePage } from '../../delivery/queue/enqueue.ts'
import { suppressRecipient, type EmailKeys } from '../../delivery/results/settle.ts'
import { slotFor } from '../../reputation/agents.ts'
import type { Tx } from '../../store/database.ts'
import { db, raw } from '../../store/query.ts'
import { reasonOf, stopsOf, stopWords, type Stop } from '../../suppressions/stops.ts'
import type { OtherResult } from '../batches.ts'
import { dueAt, SCHEDULED } from '../schedule.ts'
import {
  admit,
  foreignId,
  requireSubscription,
  sameMailbox,
  suppressedProblem,
  type NewEmail,
  type SendingDomain,
  type Submission,
} from './admit.ts'
import {
  addBatch,
  batchBeforeIn,
  dropFiles,
  finishBatch,
  hasKey,
  isRefusedItem,
  keyOf,
  knownBatch,
  problemsAt,
  RefusedItems,
  type Batch,
  type BatchKey,
  type BatchOptions,
  type BatchItem,
  type SubmittedBatch,
} from './batch.ts'
import { checkOf, type BatchRecipient, type SharedEmail } from './batch-values.ts'
import {
  COLUMNS,
  countRecipients,
  payloadHash,
  rowOf,
  storeBody,
  type Files,
  type NewEmailRow,
  type SubmitDeps,
} from './submit.ts'

export interface RecipientBatch extends BatchOptions {
  email: SharedEmail
  syntax: Syntax
  recipients: readonly BatchItem<BatchRecipient>[]
}

/** Recipients that are checked before other work has its turn. */
const AT_ONCE = 50

/** A recipient whose email can be stored. */
interface ReadyRecipient {
  index: number
  id: string
  given: BatchRecipient
  subject: string
  metadata: Readonly<Record<string, string>> | null
}

/** Submits one email for many recipients. Throws a Refusal. */
export async function submitToRecipients(
  deps: SubmitDeps,
  userKey: number,
  batch: RecipientBatch,
): Promise<SubmittedBatch> {
  const { clock, spool, store } = deps
  requireSubscription(store, userKey)
  const batchKey = keyOf(userKey, batch, hasKey(batch) ? await hashOf(batch) : undefined)
  const earlier = knownBatch(store, batchKey)
  if (earlier) return { batch: earlier, replayed: true }
  const refused = new RefusedItems(batch.strict, batch.recipients)
  const now = clock.now()
  const id = newId(now)
  const given: NewEmail = { ...batch.email, to: '' }
  const submission: Submission = { userKey, from: knownAddress(given.from), recipients: [], given }
  const files = await storeBody(deps, submission, id).catch((thrown: unknown) => {
    throw inEmail(thrown)
  })
  const unwritten = new Set(files.names)
  try {
    const duplicates: OtherResult[] = []
    const ready = await readyRecipients(batch, must(files.body, 'The body of a batch'), { duplicates, now, refused })
    const submitted = await store.write((tx): SubmittedBatch => {
      const same = batchBeforeIn(tx, batchKey, now)
      if (same) return { batch: same, replayed: true }
      const accepting = { batch, batchKey, files, id, now, submission, refused, others: [...duplicates] }
      const written = acceptAll(tx, deps, accepting, ready)
      if (written.spool !== null) tx.afterCommit(() => unwritten.clear())
      return { batch: written, replayed: false }
    })
    await Promise.all([...unwritten].map((name) => spool.remove(name)))
    return submitted
  } catch (thrown) {
    await dropFiles(spool, unwritten, thrown)
    throw thrown
  }
}

interface CheckingRecipients {
  duplicates: OtherResult[]
  now: number
  refused: RefusedItems
}

/**
 * Finds duplicates, and checks what the values of each recipient make of the email. Throws a Refusal if the batch is
 * strict and a recipient is refused.
 */
async function readyRecipients(
  { email, recipients, syntax }: RecipientBatch,
  body: WrittenBody,
  { duplicates, now, refused }: CheckingRecipients,
): Promise<ReadyRecipient[]> {
  const check = checkOf(syntax, email, body)
  const seen = new Map<string, number>()
  const ready: ReadyRecipient[] = []
  for (const [index, given] of recipients.entries()) {
    if (index % AT_ONCE === AT_ONCE - 1) await turn()
    if (isRefusedItem(given)) continue
    const mailbox = sameMailbox(knownAddress(given.to))
    const before = seen.get(mailbox)
    if (before !== undefined) {
      duplicates.push({ index, duplicate_of: before })
      continue
    }
    seen.set(mailbox, index)
    const { metadata, problems, subject } = check(given)
    if (problems.length > 0) refused.add(index, problemsAt(`recipients/${index}`, new Refusal(problems)))
    else ready.push({ index, id: newId(now), given, subject, metadata })
  }
  refused.check()
  return ready
}

interface AcceptingAll {
  batch: RecipientBatch
  batchKey: BatchKey
  files: Files
  id: string
  now: number
  submission: Submission
  refused: RefusedItems
  /** The results of items without an email of this batch. */
  others: OtherResult[]
}

/** Checks all recipients and writes their emails, with few statements for all of them. Throws a Refusal. */
function acceptAll(tx: Tx, deps: SubmitDeps, accepting: AcceptingAll, ready: readonly ReadyRecipient[]): Batch {
  const { batch, batchKey, files, id, now, others, refused, submission } = accepting
  const { domain, scheduledAt } = judged(tx, deps, submission, now)
  const within = new RefusedItems(batch.strict)
  const { open, repeated, stopped } = sorted(
    tx,
    deps,
    { ...accepting, refused: within },
    { domain, ready, scheduledAt },
  )
  within.check()
  const count = (recipients: number): void => countRecipients(tx, deps, submission, recipients, now)
  const counted = batch.strict ? open.length : countSome(count, open, within)
  if (batch.strict) count(counted)
  const sent = open.slice(0, counted)

  const key = addBatch(tx, batchKey, id, now)
  const emails = [...stopped, ...sent].toSorted((one, other) => one.index - other.index)
  if (emails.length > 0) {
    const row = rowOf({ place: { batch: key, index: 0 }, hash: null, id, now, submission }, domain, scheduledAt)
    writeEmails(tx, row, domain.name, emails)
    queueAll(tx, deps, row, { sent, stopped, scheduledAt })
    const spool = files.names.length > 0 ? JSON.stringify(files.names) : null
    const shared = { syntax: batch.syntax, content: files.content, spool }
    tx.run(db.updateTable('outbound_batches').set(shared).where('key', '=', key))
  }
  others.push(...refused.results, ...within.results)
  return finishBatch(tx, key, { accepted: sent.length + repeated, suppressed: stopped.length, others })
}

type StoppedRecipient = ReadyRecipient & { stop: Stop }

/** Sorts the recipients into those who get the email, and those who are suppressed. The others are refused. */
function sorted(
  tx: Tx,
  { keyring }: SubmitDeps,
  { batch, now, others, refused, submission }: AcceptingAll,
  {
    domain,
    ready,
    scheduledAt,
  }: { domain: SendingDomain; ready: readonly ReadyRecipient[]; scheduledAt: number | undefined },
): { open: ReadyRecipient[]; stopped: StoppedRecipient[]; repeated: number } {
  const { on_suppressed, stream } = batch.email
  const repeats = repeatsOf(tx, submission.userKey, ready, now)
  const open: ReadyRecipient[] = []
  const stopped: StoppedRecipient[] = []
  const stops = stopsOf(
    tx,
    keyring,
    ready.map(({ given }) => ({ domain_key: domain.key, address: knownAddress(given.to).address })),
    now,
    stream === 'bulk' ? 'marketing' : 'all',
  )
  for (const [at, one] of ready.entries()) {
    const { given, index } = one
    const before = repeats.get(index)
    const stop = stops[at]
    const [problem] = [
      ...foreignId(domain.name, given.message_id),
      ...(stop && on_suppressed !== 'record' ? [suppressedProblem(given.to, domain.name, stop)] : []),
    ]
    if (before !== undefined) others.push({ index, id: before })
    else if (problem) refused.add(index, problemsAt(`recipients/${index}`, new Refusal([problem])))
    // The queue records the stops of a scheduled email when it is due.
    else if (stop && scheduledAt === undefined) stopped.push({ ...one, stop })
    else open.push(one)
  }
  return { open, stopped, repeated: repeats.size }
}

interface QueueingAll {
  sent: readonly ReadyRecipient[]
  stopped: readonly StoppedRecipient[]
  scheduledAt: number | undefined
}

/** Puts the emails into the queue, and records the suppressed recipients. */
function queueAll(tx: Tx, deps: SubmitDeps, row: NewEmailRow, { scheduledAt, sent, stopped }: QueueingAll): void {
  const { agent_id, created_at: now, domain_key, user_key } = row
  const lanes = new Set<string>()
  // An agent sends at the pace of its pool.
  const slot = (): number | undefined =>
    agent_id !== null && scheduledAt === undefined ? slotFor(tx, user_key, agent_id, now) : undefined
  const queued = (list: readonly ReadyRecipient[], due: () => number | undefined) =>
    list.map(({ given, id }) => {
      const { address, domain } = knownAddress(given.to)
      const lane = row.stream === 'bulk' ? bulkLane(domain) : domain
      lanes.add(lane)
      return { id, address, lane, due: due() }
    })
  const common = { domain_key, at: now, expires_at: (scheduledAt ?? now) + deps.config.delivery.lifetime }
  enqueuePage(tx, { ...common, due: scheduledAt === undefined ? now : null }, queued(sent, slot))
  const never = queued(stopped, () => undefined)
  enqueuePage(tx, { ...common, due: null }, never)
  suppressAll(tx, stopped, now)
  if (scheduledAt === undefined) tx.afterCommit(() => lanes.forEach((lane) => deps.ring(lane)))
  else tx.signal(SCHEDULED, user_key)
}

/** The sending domain and the time of the shared email. Throws a Refusal. */
function judged(tx: Tx, { keyring }: SubmitDeps, submission: Submission, now: number) {
  try {
    const scheduledAt = dueAt(submission.given.scheduled_at, now)
    return { domain: admit(tx, keyring, submission, now).domain, scheduledAt }
  } catch (thrown) {
    throw inEmail(thrown)
  }
}

/** A refusal of the shared email, with pointers below the attribute `email`. */
const inEmail = (thrown: unknown): unknown =>
  thrown instanceof Refusal ? new Refusal(problemsAt('email', thrown), thrown.headers) : thrown

/** Counts as many recipients as the limits allow, and refuses the others. Returns how many were counted. */
function countSome(
  count: (recipients: number) => void,
  open: readonly ReadyRecipient[],
  refused: RefusedItems,
): number {
  let counted = 0
  let why: Refusal | undefined
  for (let step = open.length; step > 0;)
    try {
      count(step)
      counted += step
      step = Math.min(step, open.length - counted)
    } catch (thrown) {
      if (!(thrown instanceof Refusal) || thrown.code !== 'volume_exceeded') throw thrown
      why = thrown
      step = Math.floor(step / 2)
    }
  for (const { index } of open.slice(counted)) refused.add(index, problemsAt(`recipients/${index}`, why))
  return counted
}

/** The ids of emails that were accepted before with the same Message-ID and recipient, by the index of the item. */
function repeatsOf(tx: Tx, userKey: number, ready: readonly ReadyRecipient[], now: number): Map<number, string> {
  const today = dayOf(now)
  const keys = ready.flatMap(({ given: { repeatKey }, index }) =>
    repeatKey ? [today, today - 1].map((day) => [index, repeatKey(day)] as const) : [],
  )
  if (keys.length === 0) return new Map()
  const found = tx.all(
    raw<{ at: number; id: string }>(
      `select j.value ->> 0 as at, e.id from json_each(?) j cross join outbound_emails e
       where e.user_key = ? and e.idempotency_key = j.value ->> 1 and e.created_at > ?`,
      [JSON.stringify(keys), userKey, now - DAY],
    ),
  )
  return new Map(found.map(({ at, id }) => [at, id]))
}

/** The columns in which the emails of a batch differ. */
const OWN = ['id', 'batch_index', 'to', 'subject', 'message_id', 'idempotency_key', 'metadata'] as const
type Own = (typeof OWN)[number]
const isOwn = (column: string): column is Own => OWN.some((own) => own === column)

const INSERT_EMAILS = `insert into outbound_emails (${COLUMNS.map((name) => `"${name}"`).join(', ')})
  select ${COLUMNS.map((name) => (isOwn(name) ? `value ->> ${OWN.indexOf(name)}` : '?')).join(', ')} from json_each(?) where true`

const INSERT_VALUES = `insert into outbound_bodies (email_key, content)
  select e.key, j.value ->> 1 from json_each(?) j cross join outbound_emails e where e.id = j.value ->> 0`

/** Writes emails with their values. `row` has the columns that they share. */
function writeEmails(tx: Tx, row: NewEmailRow, domain: string, emails: readonly ReadyRecipient[]): void {
  const today = dayOf(row.created_at)
  const rows = emails.map(({ given, id, index, metadata, subject }) => {
    const own: Record<Own, unknown> = {
      id,
      batch_index: index,
      to: given.to,
      subject,
      message_id: given.message_id ?? `<${id}@${domain}>`,
      idempotency_key: given.repeatKey?.(today) ?? null,
      metadata: metadata && Object.keys(metadata).length > 0 ? JSON.stringify(metadata) : null,
    }
    return OWN.map((name) => own[name])
  })
  const shared = COLUMNS.filter((name) => !isOwn(name)).map((name) => row[name])
  tx.run(raw(INSERT_EMAILS, [...shared, JSON.stringify(rows)]))
  tx.run(raw(INSERT_VALUES, [JSON.stringify(emails.map(({ given, id }) => [id, writeValues(given.variables)]))]))
}

/** Records suppressed recipients, each with its event. */
function suppressAll(tx: Tx, stopped: readonly StoppedRecipient[], now: number): void {
  const stops = new Map(stopped.map(({ id, stop }) => [id, stop]))
  const rows = tx.all(
    raw<EmailKeys & { id: string; delivery: number }>(
      `select e.key, e.id, e.user_key, e.domain_key, e.campaign_key, e.agent_id, v.key as delivery
       from json_each(?) j cross join outbound_emails e join deliveries v on v.email_key = e.key where e.id = j.value`,
      [JSON.stringify([...stops.keys()])],
    ),
  )
  for (const { delivery: key, id, ...email } of rows) {
    const stop = must(stops.get(id), 'The stop of a recipient')
    const why = `The address is suppressed: ${stopWords(stop)}.`
    suppressRecipient(tx, { email, delivery: { key, role: 'to' }, now }, why, reasonOf(stop))
  }
}

async function hashOf({ email, recipients, strict, syntax }: RecipientBatch): Promise<Buffer> {
  const hash = createHash('sha256').update(payloadHash({ ...email, to: '' }))
  hash.update(JSON.stringify([syntax, strict]))
  for (const [index, item] of recipients.entries()) {
    if (index % AT_ONCE === AT_ONCE - 1) await turn()
    const {
      metadata = null,
      message_id = null,
      to,
      variables,
    } = isRefusedItem(item) ? { to: JSON.stringify(item.problems), variables: {} } : item
    const inOrder = (values: object | null) => Object.entries(values ?? {}).toSorted(([a], [b]) => (a < b ? -1 : 1))
    hash.update(JSON.stringify([to, message_id, inOrder(variables), inOrder(metadata)]))
  }
  return hash.digest()
}
