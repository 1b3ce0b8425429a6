// Emails that are sent later: queues them when they are due, and changes or cancels them before. A scheduled email and
// its recipients have the status `scheduled`, which the queue does not read. All limits were checked and counted when
// it was accepted. Suppressions and the state of the domain are checked again when it is sent.
import { DAY, MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse, refuseAttribute } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { slotFor } from '../reputation/agents.ts'
import type { Store, Tx } from '../store/database.ts'
import { move, moveAll } from '../store/move.ts'
import { db, raw } from '../store/query.ts'
import { deliveryMachine } from '../store/states/delivery.ts'
import { emailMachine } from '../store/states/outbound-email.ts'
import { monthOf, useVolume } from '../users/plan.ts'
import type { Email, SendTime } from './accept/admit.ts'

/** The signal of a commit after which an email may be due at another time. */
export const SCHEDULED = 'scheduled mail'

/** An email can be scheduled this far ahead. */
const FARTHEST = 30 * DAY
/** Emails that one transaction queues. */
const AT_ONCE = 200

/** When an email is due (ms), or undefined for now. Throws 422 for a time that is too far ahead. */
export function dueAt(schedule: SendTime | null | undefined, now: number): number | undefined {
  if (schedule === null || schedule === undefined) return undefined
  const at = typeof schedule === 'number' ? schedule : now + schedule.after
  if (at > now + FARTHEST)
    throw refuseAttribute('invalid', 'scheduled_at', '"scheduled_at" must be at most 30 days ahead.')
  return at > now ? at : undefined
}

export interface ScheduledDeps {
  store: Store
  clock: Clock
  log: Log
  config: Pick<Config, 'delivery'>
  doubtful: () => boolean
  /** Wakes the queue, because any email may be due now. */
  queueChanged: () => void
}

/** Queues scheduled emails when they are due. */
export class ScheduledMail extends Loop {
  constructor({ clock, config, doubtful, log, queueChanged, store }: ScheduledDeps) {
    super({
      name: 'scheduled mail',
      clock,
      log,
      run: async (now) => {
        if (doubtful()) return now + MINUTE
        const due = store.all(
          raw<{ key: number }>(
            `select key from outbound_emails where status = 'scheduled' and scheduled_at <= ? order by scheduled_at limit ${AT_ONCE}`,
            [now],
          ),
        )
        if (due.length > 0) {
          await store.write((tx) => {
            for (const { key } of due) queue(tx, key, { lifetime: config.delivery.lifetime, now })
          })
          queueChanged()
        }
        const next = store.first(
          raw<{ at: number }>(
            `select scheduled_at as at from outbound_emails where status = 'scheduled' order by scheduled_at limit 1`,
          ),
        )
        return next?.at ?? null
      },
    })
    store.on(SCHEDULED, () => this.ring())
  }
}

/** scheduled -> queued. Without effect if the email was changed, cancelled or deleted in the meantime. */
function queue(tx: Tx, key: number, { lifetime, now }: { lifetime: number; now: number }): void {
  const email = tx.first(
    db.selectFrom('outbound_emails').select(['user_key', 'agent_id', 'scheduled_at']).where('key', '=', key),
  )
  if (!email || (email.scheduled_at ?? 0) > now) return
  if (!move(tx, emailMachine, key, 'due', { queued_at: now, updated_at: now })) return
  // An agent sends at the pace of its pool.
  const due = email.agent_id === null ? now : slotFor(tx, email.user_key, email.agent_id, now)
  moveAll(tx, deliveryMachine, 'due', {
    set: 'next_attempt_at = ?, expires_at = ?, updated_at = ?',
    where: 'email_key = ?',
    parameters: [due, now + lifetime, now, key],
  })
}

/** Changes when a scheduled email is sent. Null and a time in the past send it now. Throws 422 not_editable. */
export async function reschedule(
  { clock, store }: Pick<ScheduledDeps, 'clock' | 'store'>,
  key: number,
  schedule: SendTime | null,
): Promise<Email> {
  const now = clock.now()
  const scheduled_at = dueAt(schedule, now) ?? now
  return store.write((tx) => {
    const changed = tx.run(
      raw(`update outbound_emails set scheduled_at = ?, updated_at = ? where key = ? and status = 'scheduled'`, [
        scheduled_at,
        now,
        key,
      ]),
    )
    if (changed.changes === 0)
      throw refuse('not_editable', 'Only an email with the status "scheduled" can be scheduled again.')
    tx.signal(SCHEDULED, 0)
    return emailAt(tx, key)
  })
}

/** Cancels a scheduled email, and returns its volume if it was counted this month. Throws 422. */
export async function cancelScheduled(
  { clock, config, store }: { clock: Clock; config: Pick<Config, 'plans'>; store: Store },
  key: number,
): Promise<Email> {
  const now = clock.now()
  return store.write((tx) => {
    if (!move(tx, emailMachine, key, 'cancel', { cancelled_at: now, updated_at: now }))
      throw refuse('transition_not_allowed', 'Only an email with the status "scheduled" can be cancelled.')
    const recipients = moveAll(tx, deliveryMachine, 'cancel', {
      set: 'updated_at = ?',
      where: 'email_key = ?',
      parameters: [now, key],
    })
    const email = emailAt(tx, key)
    if (monthOf(email.created_at) === monthOf(now)) useVolume(tx, config, email.user_key, -recipients, now)
    return email
  })
}

const emailAt = (tx: Tx, key: number): Email =>
  tx.one(db.selectFrom('outbound_emails').selectAll().where('key', '=', key))
