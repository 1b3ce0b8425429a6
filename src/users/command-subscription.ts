// `postrider subscription set`: a user's plan, its state, and a scheduled downgrade.
import { Option, type Command } from 'commander'
import { dateOf, iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { counted } from '../base/text.ts'
import { planNameOf, changeSubscription, type SubscriptionChange, monthOf, usageOf } from './plan.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer } from '../views/command/terminal.ts'

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
    .description('manage the plans of users')
    .command('set <email>')
    .description('show or change the plan of a user')
    .option('--plan <plan>', 'name of a configured plan, or unlimited')
    .addOption(new Option('--state <state>', 'subscription state').choices(['active', 'past_due', 'revoked']))
    .option('--downgrade-to <plan>', 'next plan, with --at')
    .option('--at <date>', 'date of the downgrade, such as 2026-02-01')
    .action((email: string, { at, downgradeTo, plan, state }: SubscriptionOptions) =>
      withDeps(invocation(), async (deps) => {
        const downgrade = downgradeOf(downgradeTo, at)
        // A downgrade whose date has passed is already in effect, and this change must not overwrite it.
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
            `${row.user}: plan ${row.plan}, ${row.state}, ${counted(row.used_this_month, 'recipient')} this month` +
            (row.downgrade_at === null ? '.' : `, changes to ${row.downgrade_to} at ${row.downgrade_at}.`),
        )
      }),
    )
}

function downgradeOf(to: string | undefined, at: string | undefined): { to: string; at: number } | undefined {
  if (to === undefined && at === undefined) return undefined
  const time = at === undefined ? NaN : timeOf(at)
  if (at !== undefined && Number.isNaN(time))
    throw new OperatorError(`--at "${at}" is not a date; use 2026-02-01, or 2026-02-01T09:00:00Z with a time.`)
  if (to === undefined || at === undefined)
    throw new OperatorError(
      'A downgrade needs two options; use --downgrade-to PLAN --at DATE, such as --at 2026-02-01.',
    )
  return { to, at: time }
}

/** Parses a calendar date, or a time with its zone. Returns NaN for any other text. */
function timeOf(text: string): number {
  if (!/^\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?(?:Z|[+-]\d\d:\d\d))?$/.test(text)) return NaN
  // A date such as 31 February does not exist.
  const day = text.slice(0, 10)
  const real = new Date(`${day}T00:00:00Z`)
  return Number.isNaN(real.getTime()) || dateOf(real.getTime()) !== day ? NaN : Date.parse(text)
}
