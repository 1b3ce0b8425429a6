// The limits of a user's plan (D16). "unlimited" is the default of a self-hosted instance and is not in the
// configuration.
import type { Config } from '../base/config.ts'
import type { User } from './users.ts'

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

/** The present plan; a plan that is not in the configuration allows nothing. */
export function planOf(config: Pick<Config, 'plans'>, user: Subscribed, now: number): Plan {
  const name = planNameOf(user, now)
  if (name === 'unlimited') return UNLIMITED
  return config.plans[name] ?? { included_volume: 0, branded_tracking: false }
}
