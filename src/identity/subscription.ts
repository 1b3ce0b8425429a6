// Changes of a user's subscription by the operator (D16): plan, state, and a downgrade that takes effect on its date.
// Each change has one event.
import { iso, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { must, OperatorError } from '../base/errors.ts'
import type { Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { db } from '../store/query.ts'
import { requireUser, type User } from './users.ts'

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
      throw new OperatorError(`There is no plan "${name}"; the configuration has ${known.join(', ')}.`)
  return store.write((tx) => {
    const now = clock.now()
    const before = requireUser(tx, email)
    if (downgrade && downgrade.at <= now)
      throw new OperatorError(`A downgrade lies in the future; ${iso(downgrade.at)} is past. Set the plan with --plan.`)
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

/** Applies the downgrades whose date has come; returns the users whose plan has changed. */
export function applyDowngrades(tx: Tx, now: number): User[] {
  const due = tx.all(db.selectFrom('users').selectAll().where('downgrade_at', '<=', now))
  return due.map((user) => {
    const plan = must(user.downgrade_to, 'The plan of a downgrade')
    const set = { plan, downgrade_to: null, downgrade_at: null, updated_at: now }
    tx.run(db.updateTable('users').set(set).where('key', '=', user.key))
    return { ...user, plan }
  })
}
