// Puts a recipient of an email into the queue, as waiting or as claimed.
import { deliveryMachine } from '../../store/states/delivery.ts'
import type { Delivery } from '../results/settle.ts'
import type { DaySlot } from '../../parts/gate.ts'
import { leaseFrom } from './claim.ts'
import type { Tx } from '../../store/database.ts'
import { db, raw, statement } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import { must } from '../../base/errors.ts'

export interface ClaimedDelivery {
  email_key: number
  domain_key: number
  role: RowOf<'deliveries'>['role']
  address: string
  lane: string
  /** Now (ms). */
  at: number
  expires_at: number
}

export interface NewDelivery extends ClaimedDelivery {
  /** When the first attempt is due (ms). */
  due: number
}

type InsertedColumns = Omit<ClaimedDelivery, 'at'> &
  Pick<Delivery, 'status' | 'attempts' | 'next_attempt_at' | 'leased_until' | 'tried_day' | 'updated_at'>

const insertDelivery = statement<InsertedColumns>()((arg) =>
  db.insertInto('deliveries').values({
    email_key: arg.email_key,
    domain_key: arg.domain_key,
    role: arg.role,
    address: arg.address,
    lane: arg.lane,
    status: arg.status,
    attempts: arg.attempts,
    next_attempt_at: arg.next_attempt_at,
    leased_until: arg.leased_until,
    expires_at: arg.expires_at,
    tried_day: arg.tried_day,
    updated_at: arg.updated_at,
  }),
)

/** The only recipient of an email, with the email's id. */
export interface OnlyRecipient {
  id: string
  address: string
  lane: string
  /** When its first attempt is due (ms), if that differs from the page. */
  due?: number | undefined
}

const insertPage = `insert into deliveries (email_key, domain_key, role, address, lane, status, attempts, next_attempt_at,
    expires_at, updated_at)
  select e.key, ?, 'to', j.value ->> 1, j.value ->> 2, ?, 0, coalesce(j.value ->> 3, ?), ?, ?
  from json_each(?) j cross join outbound_emails e where e.id = j.value ->> 0`

/**
 * Puts emails with one recipient each into the queue, by one statement. If `due` is null, they are not queued yet, as
 * with `enqueueLater`.
 */
export function enqueuePage(
  tx: Tx,
  { at, domain_key, due, expires_at }: Pick<NewDelivery, 'domain_key' | 'at' | 'expires_at'> & { due: number | null },
  recipients: readonly OnlyRecipient[],
): void {
  const rows = recipients.map(({ address, due: own, id, lane }) => [id, address, lane, due === null ? null : own])
  const status = due === null ? 'scheduled' : 'queued'
  tx.run(raw(insertPage, [domain_key, status, due, expires_at, at, JSON.stringify(rows)]))
}

export function enqueue(tx: Tx, { at, due, ...given }: NewDelivery): void {
  const waits = { status: 'queued', attempts: 0, next_attempt_at: due, leased_until: null, tried_day: null } as const
  tx.run(insertDelivery({ ...given, ...waits, updated_at: at }))
}

/**
 * Inserts a recipient that is not queued yet. `schedule.ts` of the subject `mail` queues it when it is due. Returns its
 * key.
 */
export function enqueueLater(tx: Tx, { at, ...given }: ClaimedDelivery): number {
  const waits = { attempts: 0, next_attempt_at: null, leased_until: null, tried_day: null } as const
  return tx.run(insertDelivery({ ...given, ...waits, status: 'scheduled', updated_at: at })).key
}

/** Columns that only a result sets. */
const UNTRIED = {
  delayed_at: null,
  smtp_code: null,
  enhanced_code: null,
  response: null,
  remote_mta: null,
  tls: null,
  security: null,
  source: null,
  tried_day: null,
  dialogue: null,
  trouble_since: null,
}

/**
 * Inserts a recipient that is claimed already: its first attempt is written with it, and its slot in a daily limit,
 * which the row that is returned does not have, as after other claims.
 */
export function enqueueClaimed(tx: Tx, { at, ...given }: ClaimedDelivery, slot: Pick<DaySlot, 'day'> | null): Delivery {
  const status = must(deliveryMachine.next('queued', 'claim'), 'The move of a claim').to
  const columns = { ...given, status, attempts: 1, next_attempt_at: null, leased_until: leaseFrom(at), updated_at: at }
  return { ...columns, ...UNTRIED, key: tx.run(insertDelivery({ ...columns, tried_day: slot?.day ?? null })).key }
}
