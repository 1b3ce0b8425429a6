// Puts a recipient of a mail into the queue.
import type { Tx } from '../../store/database.ts'
import { db, raw, statement } from '../../store/query.ts'
import type { RowOf } from '../../schema/tables.ts'

export interface NewDelivery {
  email_key: number
  domain_key: number
  role: RowOf<'deliveries'>['role']
  address: string
  lane: string
  /** Now (ms). */
  at: number
  /** When the first attempt is due (ms). */
  due: number
  expires_at: number
}

const insertDelivery = statement<NewDelivery>()((arg) =>
  db.insertInto('deliveries').values({
    email_key: arg.email_key,
    domain_key: arg.domain_key,
    role: arg.role,
    address: arg.address,
    lane: arg.lane,
    status: 'queued',
    attempts: 0,
    next_attempt_at: arg.due,
    expires_at: arg.expires_at,
    updated_at: arg.at,
  }),
)

export const enqueue = (tx: Tx, delivery: NewDelivery): void => void tx.run(insertDelivery(delivery))

/** The only recipient of a mail, by the mail's id. */
export interface OnlyRecipient {
  id: string
  address: string
  lane: string
}

const insertPage = `insert into deliveries (email_key, domain_key, role, address, lane, status, attempts, next_attempt_at,
    expires_at, updated_at)
  select e.key, ?, 'to', j.value ->> 1, j.value ->> 2, 'queued', 0, ?, ?, ?
  from json_each(?) j cross join outbound_emails e where e.id = j.value ->> 0`

/** Puts mails with one recipient each into the queue, by one statement. */
export function enqueuePage(
  tx: Tx,
  { at, domain_key, due, expires_at }: Pick<NewDelivery, 'domain_key' | 'at' | 'due' | 'expires_at'>,
  recipients: readonly OnlyRecipient[],
): void {
  const rows = recipients.map(({ address, id, lane }) => [id, address, lane])
  tx.run(raw(insertPage, [domain_key, due, expires_at, at, JSON.stringify(rows)]))
}
