// Applies a plan downgrade to the user's domains.
import { applyDowngrades } from '../users/plan.ts'
import { leaveBranded, type DomainsDeps } from './lifecycle.ts'

/** Applies the downgrades whose date has come, and turns off features that the new plan lacks. */
export function settleDowngrades({ config, store }: Pick<DomainsDeps, 'config' | 'store'>, now: number): Promise<void> {
  return store.write((tx) => {
    for (const user of applyDowngrades(tx, now)) leaveBranded(tx, config, user, now)
  })
}
