// What a user's plan allows (D16). "unlimited" is a self-hosted instance's default and is not in the configuration.
import type { Config } from '../base/config.ts'
import type { User } from './users.ts'

export interface Plan {
  included_volume: number | null
  branded_tracking: boolean
}

export const UNLIMITED: Plan = { included_volume: null, branded_tracking: true }

/** The plan by its name; one that the configuration no longer knows allows what no plan grants. */
export function planOf(config: Pick<Config, 'plans'>, user: Pick<User, 'plan'>): Plan {
  if (user.plan === 'unlimited') return UNLIMITED
  return config.plans[user.plan] ?? { included_volume: 0, branded_tracking: false }
}
