// `postrider subscription set`: a user's plan, its state, and a scheduled downgrade.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { planNameOf } from '../identity/plan.ts'
import { changeSubscription, type SubscriptionChange } from '../identity/subscription.ts'
import { monthOf, usageOf } from './usage.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { answer } from '../commands/terminal.ts'

interface SubscriptionOptions {
  plan?: string
  state?: SubscriptionChange['state']
  downgradeTo?: string
  at?: string
}

/** `settle` applies the downgrades whose date has come. */
export function subscriptionCommand(
  program: Command,
  invocation: () => Invocation,
  settle: (deps: Deps, now: number) => Promise<void>,
): void {
  program
    .command('subscription')
    .description('the plans of users')
    .command('set <email>')
    .description('set a plan, a state, or a downgrade to come; without options it shows them')
    .option('--plan <plan>', 'a plan of the configuration')
    .addOption(new Option('--state <state>', 'the state').choices(['active', 'past_due', 'revoked']))
    .option('--downgrade-to <plan>', 'the plan that follows, with --at')
    .option('--at <date>', 'when, such as 2026-02-01')
    .action((email: string, { at, downgradeTo, plan, state }: SubscriptionOptions) =>
      withDeps(invocation(), async (deps) => {
        const downgrade = downgradeOf(downgradeTo, at)
        // A downgrade whose date has come is in force already; this change must not overwrite it.
        await settle(deps, deps.clock.now())
        const user = await changeSubscription(deps, email, { plan, state, downgrade })
        const now = deps.clock.now()
        const shown = {
          user: user.email,
          plan: planNameOf(user, now),
          state: user.subscription_state,
          downgrade_to: user.downgrade_to,
          downgrade_at: user.downgrade_at === null ? null : iso(user.downgrade_at),
          used_this_month: usageOf(deps.store, user.key, monthOf(now))?.used ?? 0,
        }
        answer(
          invocation().terminal,
          shown,
          (row) =>
            `${row.user}: plan ${row.plan}, ${row.state}, ${row.used_this_month} recipients this month` +
            (row.downgrade_at === null ? '.' : `; ${row.downgrade_to} from ${row.downgrade_at}.`),
        )
      }),
    )
}

function downgradeOf(to: string | undefined, at: string | undefined): { to: string; at: number } | undefined {
  if (to === undefined && at === undefined) return undefined
  const time = at === undefined ? NaN : timeOf(at)
  if (at !== undefined && Number.isNaN(time))
    throw new OperatorError(`"${at}" is not a date; write it as 2026-02-01, or with a time as 2026-02-01T09:00:00Z.`)
  if (to === undefined || at === undefined)
    throw new OperatorError('A downgrade needs both: --downgrade-to PLAN --at DATE, such as --at 2026-02-01.')
  return { to, at: time }
}

/** A calendar date, or a time with its zone; NaN for any other text. */
function timeOf(text: string): number {
  if (!/^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)) return NaN
  // A date such as 31 February does not exist.
  const day = text.slice(0, 10)
  const real = new Date(`${day}T00:00:00Z`)
  return Number.isNaN(real.getTime()) || iso(real.getTime()).slice(0, 10) !== day ? NaN : Date.parse(text)
}
