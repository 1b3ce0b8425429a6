// Puts a recipient of a mail into the queue.
import type { Tx } from '../../store/database.ts'
import { db, statement } from '../../store/query.ts'
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
