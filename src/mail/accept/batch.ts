// Accepts several emails with one request, each with a body of its own, in one transaction. With "strict", any fault
// refuses all of them. With "permissive", the faulty ones are reported and the others accepted.
import { createHash } from 'node:crypto'
import { codeOf, Refusal, refuse, type Problem } from '../../base/errors.ts'
import { newId } from '../../base/ids.ts'
import { semaphore } from '../../base/semaphore.ts'
import { parseAddress } from '../../message/address.ts'
import type { Reader, Tx } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import type { OtherResult } from '../batches.ts'
import { recipientsOf, requireSubscription, type NewEmail, type Submission } from './admit.ts'
import { accept, payloadHash, storeBody, type Files, type SubmitDeps } from './submit.ts'

export type Batch = RowOf<'outbound_batches'>

/** An item of a batch in its checked form, or its problems. */
export type Item<Value> = Value | { problems: readonly Problem[] }

export const isRefusedItem = <Value extends object>(
  item: Item<Value>,
): item is Extract<Item<Value>, { problems: readonly Problem[] }> => 'problems' in item

export interface BatchOptions {
  /** Any fault refuses the whole batch. */
  strict: boolean
  idempotency_key?: string | null | undefined
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
  readonly #strict: boolean
  readonly #problems = new Map<number, readonly Problem[]>()

  constructor(strict: boolean) {
    this.#strict = strict
  }

  add(index: number, problems: readonly Problem[]): void {
    this.#problems.set(index, problems)
  }

  has(index: number): boolean {
    return this.#problems.has(index)
  }

  /** Throws what was found so far, if the batch is strict. */
  check(): void {
    if (!this.#strict || this.#problems.size === 0) return
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

/** The earlier batch with this key. Throws 409 if its payload was different. */
export function batchBefore(reader: Reader, userKey: number, key: string, hash: Buffer): Batch | undefined {
  const batch = reader.first(byIdempotencyKey({ user_key: userKey, idempotency_key: key }))
  // A batch with an erased recipient has no hash to compare with.
  if (batch && !(batch.payload_hash && hash.equals(batch.payload_hash)))
    throw refuse(
      'idempotency_conflict',
      'This idempotency_key was used with other content. Use a new key for a new batch.',
      { pointer: '/data/attributes/idempotency_key' },
    )
  return batch
}

interface NewBatchRow {
  id: string
  userKey: number
  idempotency_key: string | null | undefined
  hash: Buffer | undefined
  now: number
}

const insertBatch = ({ hash, id, idempotency_key, now, userKey }: NewBatchRow) =>
  db.insertInto('outbound_batches').values({
    id,
    user_key: userKey,
    idempotency_key: idempotency_key ?? null,
    payload_hash: hash ?? null,
    accepted: 0,
    suppressed: 0,
    refused: 0,
    others: '[]',
    created_at: now,
    updated_at: now,
  })

export const addBatch = (tx: Tx, row: NewBatchRow): number => tx.run(insertBatch(row)).key

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

interface Prepared {
  index: number
  id: string
  submission: Submission
  files: Files
}

/** Submits emails that each have a body. Throws a Refusal. */
export async function submitEmails(
  deps: SubmitDeps,
  userKey: number,
  items: readonly Item<NewEmail>[],
  { idempotency_key, strict }: BatchOptions,
): Promise<SubmittedBatch> {
  const { clock, spool, store } = deps
  requireSubscription(store, userKey)
  const hash = typeof idempotency_key === 'string' ? hashOf(items) : undefined
  const earlier = hash && batchBefore(store, userKey, idempotency_key!, hash)
  if (earlier) return { batch: earlier, replayed: true }
  const refused = new RefusedItems(strict)
  for (const [index, item] of items.entries()) if (isRefusedItem(item)) refused.add(index, item.problems)
  refused.check()

  const now = clock.now()
  const prepared: Prepared[] = []
  const turn = semaphore(AT_ONCE)
  const prepare = async (index: number, given: NewEmail): Promise<void> => {
    const id = newId(now)
    const submission = { userKey, from: parseAddress(given.from)!, recipients: recipientsOf(given), given }
    try {
      prepared.push({ index, id, submission, files: await storeBody(deps, submission, id) })
    } catch (thrown) {
      refused.add(index, problemsAt(`emails/${index}`, thrown))
    }
  }
  const stored = await Promise.allSettled(
    items.map((item, index) => (isRefusedItem(item) ? undefined : turn(() => prepare(index, item)))),
  )
  const unwritten = new Set(prepared.flatMap(({ files }) => files.names))
  try {
    for (const each of stored) if (each.status === 'rejected') throw each.reason
    refused.check()
    prepared.sort((one, other) => one.index - other.index)
    const submitted = await store.write((tx): SubmittedBatch => {
      const same = hash && batchBefore(tx, userKey, idempotency_key!, hash)
      if (same) return { batch: same, replayed: true }
      const key = addBatch(tx, { id: newId(now), userKey, idempotency_key, hash, now })
      const others: OtherResult[] = []
      const kept: string[] = []
      let suppressed = 0
      const within = new RefusedItems(strict)
      for (const { files, id, index, submission } of prepared)
        try {
          const key_ = submission.given.idempotency_key
          const own = typeof key_ === 'string' ? payloadHash(submission.given) : null
          const accepting = { submission, files, batch: { key, index }, hash: own, id, now, claims: [] }
          const { email, replayed } = accept(tx, { ...deps, claimNew: undefined }, accepting)
          if (replayed) others.push({ index, id: email.id })
          else kept.push(...files.names)
          if (email.status === 'suppressed') suppressed++
        } catch (thrown) {
          within.add(index, problemsAt(`emails/${index}`, thrown))
        }
      within.check()
      others.push(...refused.results, ...within.results)
      const accepted = items.length - suppressed - others.filter((other) => 'errors' in other).length
      tx.afterCommit(() => {
        for (const name of kept) unwritten.delete(name)
      })
      return { batch: finishBatch(tx, key, { accepted, suppressed, others }), replayed: false }
    })
    await Promise.all([...unwritten].map((name) => spool.remove(name)))
    return submitted
  } catch (thrown) {
    await dropFiles(spool, unwritten, thrown)
    throw thrown
  }
}

/**
 * Removes files of emails that were not stored. A commit whose sync failed may exist after a restart, and then needs
 * its files.
 */
export async function dropFiles(spool: SubmitDeps['spool'], names: Iterable<string>, thrown: unknown): Promise<void> {
  if (!codeOf(thrown).startsWith('SQLITE_IOERR')) await Promise.all([...names].map((name) => spool.remove(name)))
}

function hashOf(items: readonly Item<NewEmail>[]): Buffer {
  const hash = createHash('sha256')
  for (const item of items) hash.update(isRefusedItem(item) ? JSON.stringify(item.problems) : payloadHash(item))
  return hash.digest()
}
