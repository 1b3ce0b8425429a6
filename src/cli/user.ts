// `postrider user …`: the users, who own domains and mail.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { addUser, listUsers, removeUser, setPassword, setSummary, type User } from '../accounts/users.ts'
import { readPassword, withDesk, type Invocation } from './open.ts'
import { answer, table } from './terminal.ts'

const show = ({ id, email, name, plan, subscription_state, summary, created_at }: User) => ({
  id,
  email,
  name,
  plan,
  subscription_state,
  summary,
  created_at: iso(created_at),
})

export function userCommand(program: Command, invocation: () => Invocation): void {
  const user = program.command('user').description('add, list and remove users')
  user
    .command('add <email>')
    .description('add a user')
    .option('--name <name>', 'how they are called')
    .option('--password-stdin', 'read a password for the console from standard input')
    .option('--plan <plan>', 'a plan of the configuration', 'unlimited')
    .action((email: string, { name, passwordStdin, plan }: { name?: string; passwordStdin?: true; plan: string }) =>
      withDesk(invocation(), async (desk) => {
        if (plan !== 'unlimited' && !Object.hasOwn(desk.config.plans, plan))
          throw new OperatorError(
            `There is no plan "${plan}"; the configuration has unlimited, ${Object.keys(desk.config.plans).join(', ')}.`,
          )
        const password = passwordStdin ? { password: await readPassword() } : {}
        const added = await addUser(desk, { email, plan, ...(name === undefined ? {} : { name }), ...password })
        answer(invocation().terminal, show(added), () => `Added ${added.email}.`)
      }),
    )
  user
    .command('list')
    .description('list all users')
    .action(() =>
      withDesk(invocation(), ({ store }) =>
        answer(invocation().terminal, listUsers(store).map(show), (users) =>
          table(
            ['EMAIL', 'NAME', 'PLAN', 'SUBSCRIPTION', 'SINCE'],
            users.map((one) => [one.email, one.name, one.plan, one.subscription_state, one.created_at]),
          ),
        ),
      ),
    )
  user
    .command('passwd <email>')
    .description('set a user’s password, read from standard input')
    .action((email: string) =>
      withDesk(invocation(), async (desk) => {
        const changed = await setPassword(desk, email, await readPassword())
        answer(invocation().terminal, show(changed), () => `The password of ${changed.email} is set.`)
      }),
    )
  user
    .command('set <email>')
    .description('whether a user is mailed a summary of each day on which something happened or needs a hand')
    .addOption(
      new Option('--summary <when>', 'a summary of the day, after midnight UTC')
        .choices(['daily', 'none'])
        .makeOptionMandatory(),
    )
    .action((email: string, { summary }: { summary: User['summary'] }) =>
      withDesk(invocation(), async (desk) => {
        const changed = await setSummary(desk, email, summary)
        answer(invocation().terminal, show(changed), () =>
          summary === 'daily'
            ? `${changed.email} is mailed a summary of each day.`
            : `${changed.email} is mailed no summaries.`,
        )
      }),
    )
  user
    .command('remove <email>')
    .description('remove a user who owns no domain, with all tokens')
    .action((email: string) =>
      withDesk(invocation(), async (desk) => {
        const removed = await removeUser(desk, email)
        answer(invocation().terminal, show(removed), () => `Removed ${removed.email}.`)
      }),
    )
}
