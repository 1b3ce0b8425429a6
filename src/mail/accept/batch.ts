// Accepts several emails with one request, each with a body of its own, in one transaction. With "strict", any fault
// refuses all of them. With "permissive", the faulty ones are reported and the others accepted.
import { createHash } from 'node:crypto'
import { DAY } from '../../base/clock.ts'
import { codeOf, Refusal, refuse, type Problem } from '../../base/errors.ts'
import { newId } from '../../base/ids.ts'
import { semaphore } from '../../base/semaphore.ts'
import { knownAddress } from '../../message/address.ts'
import type { Reader, Tx } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import { endRepeats, UNANSWERED, type OtherResult } from '../batches.ts'
import { recipientsOf, requireSubscription, type NewEmail, type Submission } from './admit.ts'
import { accept, payloadHash, storeBody, type Files, type SubmitDeps } from './submit.ts'

export type Batch = RowOf<'outbound_batches'>

/** An item of a batch in its checked form, or its problems. */
export type BatchItem<Value> = Value | { problems: readonly Problem[] }

export const isRefusedItem = <Value extends object>(
  item: BatchItem<Value>,
): item is Extract<BatchItem<Value>, { problems: readonly Problem[] }> => 'problems' in item

export interface BatchOptions {
  /** Any fault refuses the whole batch. */
  strict: boolean
  idempotency_key?: string | null | undefined
  /** Without a key: the token whose equal request is a repeat until the client has read the answer to this one. */
  unansweredOf?: string | undefined
}

export interface SubmittedBatch {
  batch: Batch
  /** The idempotency key was used before with the same payload. `batch` is the earlier batch. */
  replayed: boolean
}

/** The most problems that are collected before a batch is refused. */
const MOST_PROBLEMS = 100

/** Collects the problems of the items. In a strict batch they are thrown. */
export class RefusedItems {
  readonly strict: boolean
  readonly #problems = new Map<number, readonly Problem[]>()

  /** Throws a Refusal if the batch is strict and an item has problems already. */
  constructor(strict: boolean, items: readonly BatchItem<object>[] = []) {
    this.strict = strict
    for (const [index, item] of items.entries()) if (isRefusedItem(item)) this.add(index, item.problems)
    this.check()
  }

  add(index: number, problems: readonly Problem[]): void {
    this.#problems.set(index, problems)
  }

  /** Throws what was found so far, if the batch is strict. */
  check(): void {
    if (!this.strict || this.#problems.size === 0) return
    const inOrder = [...this.#problems].toSorted(([one], [other]) => one - other)
    throw new Refusal(inOrder.flatMap(([, problems]) => problems).slice(0, MOST_PROBLEMS))
  }

  get results(): OtherResult[] {
    return [...this.#problems].map(([index, problems]) => ({
      index,
      errors: problems.map(({ code, detail, source }) => ({ code, detail, pointer: source?.pointer ?? null })),
    }))
  }
}

/** The problems of a refused item, with pointers below the item. Other errors are thrown. */
export function problemsAt(place: string, thrown: unknown): readonly Problem[] {
  if (!(thrown instanceof Refusal)) throw thrown
  return thrown.problems.map((problem) => {
    const { pointer } = problem.source ?? {}
    if (pointer === undefined) return { ...problem, source: { pointer: `/data/attributes/${place}` } }
    const below = pointer.replace(/^\/data(?:\/attributes)?/, '')
    return { ...problem, source: { pointer: `/data/attributes/${place}${below}` } }
  })
}

const byIdempotencyKey = statement<{ user_key: number; idempotency_key: string }>()((arg) =>
  db
    .selectFrom('outbound_batches')
    .selectAll()
    .where('user_key', '=', arg.user_key)
    .where('idempotency_key', '=', arg.idempotency_key),
)

/** The idempotency key of a batch with the hash of its payload, or neither. */
export interface BatchKey {
  userKey: number
  given: { key: string; hash: Buffer } | undefined
}

/** Whether a batch with these options needs the hash of its payload. */
export const hasKey = ({ idempotency_key, unansweredOf }: BatchOptions): boolean =>
  typeof idempotency_key === 'string' || unansweredOf !== undefined

export const keyOf = (
  userKey: number,
  { idempotency_key, unansweredOf }: BatchOptions,
  hash: Buffer | undefined,
): BatchKey => {
  const key = idempotency_key ?? (hash && `${UNANSWERED}${unansweredOf} ${hash.toString('base64url')}`)
  return { userKey, given: typeof key === 'string' && hash ? { key, hash } : undefined }
}

/** The same as in the transaction, before work is done. An answer may end the repeats until then. */
export const knownBatch = (reader: Reader, key: BatchKey): Batch | undefined =>
  key.given?.key.startsWith(UNANSWERED) ? undefined : batchBefore(reader, key)

/** The earlier batch with this key, in the transaction of the new one. Throws 409 if its payload was different. */
export function batchBeforeIn(tx: Tx, key: BatchKey, now: number): Batch | undefined {
  const batch = batchBefore(tx, key)
  if (!batch?.idempotency_key?.startsWith(UNANSWERED) || now - batch.created_at < DAY) return batch
  endRepeats(tx, batch.id)
  return undefined
}

/** The earlier batch with this key. Throws 409 if its payload was different. */
function batchBefore(reader: Reader, { given, userKey }: BatchKey): Batch | undefined {
  const batch = given && reader.first(byIdempotencyKey({ user_key: userKey, idempotency_key: given.key }))
  // A batch with an erased recipient has no hash to compare with.
  if (batch && !(batch.payload_hash && given.hash.equals(batch.payload_hash)))
    throw refuse(
      'idempotency_conflict',
      'This idempotency_key was used with other content. Use a new key for a new batch.',
      { pointer: '/data/attributes/idempotency_key' },
    )
  return batch
}

/** Adds a batch without emails. Returns its key. */
export const addBatch = (tx: Tx, { given, userKey }: BatchKey, id: string, now: number): number =>
  tx.run(
    db.insertInto('outbound_batches').values({
      id,
      user_key: userKey,
      idempotency_key: given?.key ?? null,
      payload_hash: given?.hash ?? null,
      accepted: 0,
      suppressed: 0,
      refused: 0,
      others: '[]',
      created_at: now,
      updated_at: now,
    }),
  ).key

/** Writes the counts and the items without an email of the batch. Returns the batch. */
export function finishBatch(
  tx: Tx,
  key: number,
  { accepted, others, suppressed }: { accepted: number; suppressed: number; others: readonly OtherResult[] },
): Batch {
  const refused = others.filter((other) => 'errors' in other).length
  return tx.one(
    db
      .updateTable('outbound_batches')
      .set({ accepted, suppressed, refused, others: JSON.stringify(others) })
      .where('key', '=', key)
      .returningAll(),
  )
}

/** Bodies of a batch that are decoded and stored at once. */
const AT_ONCE = 4

interface PreparedEmail {
  index: number
  id: string
  submission: Submission
  files: Files
}

/** Submits emails that each have a body. Throws a Refusal. */
export async function submitEmails(
  deps: SubmitDeps,
  userKey: number,
  items: readonly BatchItem<NewEmail>[],
  options: BatchOptions,
): Promise<SubmittedBatch> {
  const { clock, spool, store } = deps
  requireSubscription(store, userKey)
  const key = keyOf(userKey, options, hasKey(options) ? hashOf(items) : undefined)
  const earlier = knownBatch(store, key)
  if (earlier) return { batch: earlier, replayed: true }
  const refused = new RefusedItems(options.strict, items)
  const now = clock.now()
  const unwritten = new Set<string>()
  try {
    const prepared = await prepareAll(deps, userKey, items, { now, refused, unwritten })
    const submitted = await store.write((tx): SubmittedBatch => {
      const same = batchBeforeIn(tx, key, now)
      return same ? { batch: same, replayed: true } : writeAll(tx, deps, { key, now, prepared, refused, unwritten })
    })
    await Promise.all([...unwritten].map((name) => spool.remove(name)))
    return submitted
  } catch (thrown) {
    await dropFiles(spool, unwritten, thrown)
    throw thrown
  }
}

interface PreparingEmails {
  now: number
  refused: RefusedItems
  /** The names of files without a row. */
  unwritten: Set<string>
}

/** Stores the bodies. Throws a Refusal if the batch is strict and an item is refused. */
async function prepareAll(
  deps: SubmitDeps,
  userKey: number,
  items: readonly BatchItem<NewEmail>[],
  { now, refused, unwritten }: PreparingEmails,
): Promise<PreparedEmail[]> {
  const prepared: PreparedEmail[] = []
  const inTurn = semaphore(AT_ONCE)
  const prepare = async (index: number, given: NewEmail): Promise<void> => {
    const id = newId(now)
    const submission = { userKey, from: knownAddress(given.from), recipients: recipientsOf(given), given }
    try {
      const files = await storeBody(deps, submission, id)
      for (const name of files.names) unwritten.add(name)
      prepared.push({ index, id, submission, files })
    } catch (thrown) {
      refused.add(index, problemsAt(`emails/${index}`, thrown))
    }
  }
  const done = await Promise.allSettled(
    items.flatMap((item, index) => (isRefusedItem(item) ? [] : [inTurn(() => prepare(index, item))])),
  )
  for (const each of done) if (each.status === 'rejected') throw each.reason
  refused.check()
  return prepared.toSorted((one, other) => one.index - other.index)
}

interface WritingEmails extends PreparingEmails {
  key: BatchKey
  prepared: readonly PreparedEmail[]
}

/** Writes the batch and its emails. Throws a Refusal if the batch is strict and an item is refused. */
function writeAll(tx: Tx, deps: SubmitDeps, { key, now, prepared, refused, unwritten }: WritingEmails): SubmittedBatch {
  const batch = addBatch(tx, key, newId(now), now)
  const others: OtherResult[] = []
  const kept: string[] = []
  let suppressed = 0
  // The queue sends them: otherwise one request could take the connections that other email needs.
  const queued = { ...deps, claimNew: undefined }
  const within = new RefusedItems(refused.strict)
  for (const { files, id, index, submission } of prepared)
    try {
      const { given } = submission
      const hash = typeof given.idempotency_key === 'string' ? payloadHash(given) : null
      const place = { batch, index }
      const { email, replayed } = accept(tx, queued, { submission, files, place, hash, id, now, claims: [] })
      if (replayed) others.push({ index, id: email.id })
      else kept.push(...files.names)
      if (email.status === 'suppressed') suppressed++
    } catch (thrown) {
      const problems = problemsAt(`emails/${index}`, thrown)
      within.add(index, refused.strict ? problems.map(withinBatch) : problems)
    }
  within.check()
  const accepted = prepared.length - within.results.length - suppressed
  tx.afterCommit(() => {
    for (const name of kept) unwritten.delete(name)
  })
  others.push(...refused.results, ...within.results)
  return { batch: finishBatch(tx, batch, { accepted, suppressed, others }), replayed: false }
}

/** The limits count the earlier emails of a batch, and a strict batch is not accepted. */
const withinBatch = (problem: Problem): Problem =>
  problem.code === 'volume_exceeded'
    ? { ...problem, detail: `${problem.detail} This counts the earlier emails of this batch, which were not accepted.` }
    : problem

/**
 * Removes files of emails that were not stored. A commit whose sync failed may exist after a restart, and then needs
 * its files.
 */
export async function dropFiles(spool: SubmitDeps['spool'], names: Iterable<string>, thrown: unknown): Promise<void> {
  if (!codeOf(thrown).startsWith('SQLITE_IOERR')) await Promise.all([...names].map((name) => spool.remove(name)))
}

function hashOf(items: readonly BatchItem<NewEmail>[]): Buffer {
  const hash = createHash('sha256')
  for (const item of items) hash.update(isRefusedItem(item) ? JSON.stringify(item.problems) : payloadHash(item))
  return hash.digest()
}
