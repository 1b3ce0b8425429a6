// Batches as the API shows them: the result of each item, and the emails by status. A scheduled batch can be cancelled.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse, type Code } from '../base/errors.ts'
import { jsonOf } from '../base/json.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { moveAll } from '../store/move.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { deliveryMachine } from '../store/states/delivery.ts'
import { emailMachine, type EmailStatus } from '../store/states/outbound-email.ts'
import { monthOf, useVolume } from '../users/plan.ts'

/** The result of an item that has no email of its own in the batch. */
export type OtherResult = { index: number } & (
  | { duplicate_of: number }
  /** An email that was accepted before, with the same Message-ID and recipient. */
  | { id: string }
  | { errors: { code: Code; detail: string; pointer: string | null }[] }
)

export interface BatchResult {
  index: number
  id?: string
  message_id?: string
  status?: EmailStatus
  duplicate_of?: number
  errors?: { code: string; detail: string; pointer: string | null }[]
}

type ResultRow = Pick<RowOf<'outbound_emails'>, 'id' | 'message_id' | 'status' | 'batch_index'>

/** The results of a batch in the order of its items. Deleted emails are missing. */
export function resultsOf(reader: Reader, { key, others }: { key: number; others: string }): BatchResult[] {
  const stored = jsonOf(others)
  const known = Array.isArray(stored) ? (stored as OtherResult[]) : []
  const own = reader.all(
    raw<ResultRow>(
      'select id, message_id, status, batch_index from outbound_emails where batch_key = ? order by batch_index',
      [key],
    ),
  )
  const ids = known.flatMap((other) => ('id' in other ? [other.id] : []))
  const earlier = new Map(
    ids.length === 0
      ? []
      : reader
          .all(
            raw<ResultRow>(
              'select id, message_id, status, batch_index from outbound_emails where id in (select value from json_each(?))',
              [JSON.stringify(ids)],
            ),
          )
          .map((row) => [row.id, row]),
  )
  const shown = ({ id, message_id, status }: ResultRow) => ({ id, message_id, status })
  const results = [
    ...own.map((row): BatchResult => ({ index: row.batch_index ?? 0, ...shown(row) })),
    ...known.flatMap((other): BatchResult[] => {
      if (!('id' in other)) return [other]
      const row = earlier.get(other.id)
      return row ? [{ index: other.index, ...shown(row) }] : []
    }),
  ]
  return results.toSorted((one, other) => one.index - other.index)
}

/** The idempotency key of a batch begins so while its client may not know that it was accepted. */
export const UNANSWERED = 'unanswered '

/** Ends the repeats of a batch without an idempotency key of its client, because the client knows its answer. */
export const endRepeats = (tx: Tx, id: string): void =>
  void tx.run(
    raw(`update outbound_batches set idempotency_key = null where id = ? and idempotency_key like '${UNANSWERED}%'`, [
      id,
    ]),
  )

/** The number of emails by status, for each batch. */
export function statusesOf(reader: Reader, keys: readonly number[]): Map<number, Partial<Record<EmailStatus, number>>> {
  const rows = reader.all(
    raw<{ batch_key: number; status: EmailStatus; emails: number }>(
      `select batch_key, status, count(*) as emails from outbound_emails
       where batch_key in (select value from json_each(?)) group by batch_key, status`,
      [JSON.stringify(keys)],
    ),
  )
  const counts = new Map<number, Partial<Record<EmailStatus, number>>>(keys.map((key) => [key, {}]))
  for (const { batch_key, emails, status } of rows)
    counts.set(batch_key, { ...counts.get(batch_key), [status]: emails })
  return counts
}

/** Cancels the scheduled emails of a batch, and returns their volume if it was counted this month. Throws 422. */
export function cancelBatch(
  { clock, config, store }: { clock: Clock; config: Pick<Config, 'plans'>; store: Store },
  key: number,
): Promise<RowOf<'outbound_batches'>> {
  const now = clock.now()
  return store.write((tx) => {
    const batch = tx.one(db.selectFrom('outbound_batches').selectAll().where('key', '=', key))
    const recipients = moveAll(tx, deliveryMachine, 'cancel', {
      set: 'updated_at = ?',
      where: `email_key in (select key from outbound_emails where batch_key = ? and status = 'scheduled')`,
      parameters: [now, key],
    })
    const cancelled = moveAll(tx, emailMachine, 'cancel', {
      set: 'cancelled_at = ?, updated_at = ?',
      where: 'batch_key = ?',
      parameters: [now, now, key],
    })
    if (cancelled === 0)
      throw refuse('transition_not_allowed', 'No email of this batch has the status "scheduled" any longer.')
    if (monthOf(batch.created_at) === monthOf(now)) useVolume(tx, config, batch.user_key, -recipients, now)
    return batch
  })
}
