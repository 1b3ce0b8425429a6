// The plan of a user (D16): its limits, changes by the operator, and the volume of a month. "unlimited" is the default
// of a self-hosted server and is not configured. Each recipient counts as one, by calendar month (UTC), in the
// transaction that accepts the email.
import type { Config } from '../base/config.ts'
import { type User, requireUser } from './users.ts'
import { iso, type Clock } from '../base/clock.ts'
import { must, OperatorError, refuse } from '../base/errors.ts'
import type { Store, Tx, Reader } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export interface Plan {
  included_volume: number | null
  branded_tracking: boolean
}

export const UNLIMITED: Plan = { included_volume: null, branded_tracking: true }

type Subscribed = Pick<User, 'plan'> & Partial<Pick<User, 'downgrade_to' | 'downgrade_at'>>

/** The name of the present plan: a downgrade takes effect on its date, even before the loop has written it. */
export function planNameOf({ downgrade_at = null, downgrade_to = null, plan }: Subscribed, now: number): string {
  return downgrade_at !== null && downgrade_to !== null && downgrade_at <= now ? downgrade_to : plan
}

/** The current plan. A plan that is not in the configuration includes no volume. */
export function planOf(config: Pick<Config, 'plans'>, user: Subscribed, now: number): Plan {
  const name = planNameOf(user, now)
  if (name === 'unlimited') return UNLIMITED
  return config.plans[name] ?? { included_volume: 0, branded_tracking: false }
}

export interface SubscriptionChange {
  plan?: string | undefined
  state?: User['subscription_state'] | undefined
  downgrade?: { to: string; at: number } | undefined
}

/** Changes a subscription. Throws an OperatorError for an unknown user or plan, or a downgrade in the past. */
export function changeSubscription(
  { clock, config, store }: { store: Store; clock: Clock; config: Pick<Config, 'plans'> },
  email: string,
  { downgrade, plan, state }: SubscriptionChange,
): Promise<User> {
  const known = ['unlimited', ...Object.keys(config.plans)]
  for (const name of [plan, downgrade?.to])
    if (name !== undefined && !known.includes(name))
      throw new OperatorError(`There is no plan "${name}"; use one of ${known.join(', ')}.`)
  return store.write((tx) => {
    const now = clock.now()
    const before = requireUser(tx, email)
    if (downgrade && downgrade.at <= now)
      throw new OperatorError(
        `The downgrade date ${iso(downgrade.at)} is in the past; use a future date, or change the plan now with --plan.`,
      )
    const scheduled = downgrade && (before.downgrade_to !== downgrade.to || before.downgrade_at !== downgrade.at)
    tx.run(
      db
        .updateTable('users')
        .set({
          plan: plan ?? before.plan,
          subscription_state: state ?? before.subscription_state,
          // A new plan cancels the scheduled downgrade.
          ...(plan === undefined ? {} : { downgrade_to: null, downgrade_at: null }),
          ...(downgrade ? { downgrade_to: downgrade.to, downgrade_at: downgrade.at } : {}),
          updated_at: now,
        })
        .where('key', '=', before.key),
    )
    const tell = (
      type: 'subscription.past_due' | 'subscription.revoked' | 'subscription.downgrade_scheduled',
      data: object,
    ): void => appendEvent(tx, { type, user_key: before.key, data: { plan: plan ?? before.plan, ...data }, at: now })
    if (state !== undefined && state !== before.subscription_state && state !== 'active')
      tell(`subscription.${state}`, { state, previous_state: before.subscription_state })
    if (scheduled) tell('subscription.downgrade_scheduled', { downgrade_to: downgrade.to, at: iso(downgrade.at) })
    return requireUser(tx, email)
  })
}

/** Applies the downgrades that are due, and returns the users whose plan has changed. */
export function applyDowngrades(tx: Tx, now: number): User[] {
  const due = tx.all(db.selectFrom('users').selectAll().where('downgrade_at', '<=', now))
  return due.map((user) => {
    const plan = must(user.downgrade_to, 'The plan of a downgrade')
    const set = { plan, downgrade_to: null, downgrade_at: null, updated_at: now }
    tx.run(db.updateTable('users').set(set).where('key', '=', user.key))
    return { ...user, plan }
  })
}

const APPROACHING = 0.8

export const monthOf = (now: number): string => new Date(now).toISOString().slice(0, 7)

const userByKey = statement<{ key: number }>()((arg) =>
  db.selectFrom('users').select(['plan', 'downgrade_to', 'downgrade_at']).where('key', '=', arg.key),
)

const count = statement<{ user_key: number; month: string; recipients: number }>()((arg) =>
  db
    .insertInto('usage')
    .values({ user_key: arg.user_key, month: arg.month, used: arg.recipients })
    .onConflict((conflict) =>
      conflict
        .columns(['user_key', 'month'])
        .doUpdateSet((eb) => ({ used: eb('usage.used', '+', eb.ref('excluded.used')) })),
    )
    .returningAll(),
)

/**
 * Counts recipients. A negative number returns recipients whose email was not sent. Throws 422 volume_exceeded, and
 * then counts no recipient.
 */
export function useVolume(
  tx: Tx,
  config: Pick<Config, 'plans'>,
  userKey: number,
  recipients: number,
  now: number,
): void {
  const user = tx.fact(userByKey({ key: userKey }))
  if (!user || recipients === 0) return
  const { included_volume: included } = planOf(config, user, now)
  const month = monthOf(now)
  if (included !== null && recipients > 0) {
    const { used = 0 } = usageOf(tx, userKey, month) ?? {}
    if (used + recipients > included)
      throw refuse(
        'volume_exceeded',
        `The plan ${planNameOf(user, now)} includes ${included} recipients per month. ${used} are used, and this request needs ${recipients} more. Wait for the next month, or change the plan.`,
        { pointer: '/data' },
      )
  }
  const usage = tx.one(count({ user_key: userKey, month, recipients }))
  if (included !== null) tell(tx, usage, planNameOf(user, now), included, now)
}

export function usageOf(reader: Reader, userKey: number, month: string): RowOf<'usage'> | undefined {
  return reader.first(db.selectFrom('usage').selectAll().where('user_key', '=', userKey).where('month', '=', month))
}

function tell(tx: Tx, usage: RowOf<'usage'>, plan: string, included: number, now: number): void {
  const { approached_at, month, reached_at, used, user_key } = usage
  const note = (
    type: 'usage.limit_approaching' | 'usage.limit_reached',
    column: 'approached_at' | 'reached_at',
  ): void => {
    const place = db.updateTable('usage').where('user_key', '=', user_key).where('month', '=', month)
    tx.run(place.set({ [column]: now }))
    appendEvent(tx, { type, user_key, data: { plan, included_volume: included, used, month }, at: now })
  }
  if (used >= included * APPROACHING && approached_at === null) note('usage.limit_approaching', 'approached_at')
  if (used >= included && reached_at === null) note('usage.limit_reached', 'reached_at')
}
