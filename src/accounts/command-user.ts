// `postrider user …`: users; a user owns domains and mail.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import {
  addUser,
  listUsers,
  refuseRemoval,
  removeUser,
  requireUser,
  setOperator,
  setPassword,
  setSummary,
  userByKey,
  type User,
} from '../identity/users.ts'
import type { Reader } from '../store/database.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { readPassword, withDeps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

const show = (
  reader: Reader,
  { id, email, name, operator, plan, reads_for, subscription_state, summary, created_at }: User,
) => ({
  id,
  email,
  name,
  operator: operator === 1,
  /** The address of the user whose account this user may read. */
  reads_for: reads_for === null ? null : (userByKey(reader, reads_for)?.email ?? null),
  plan,
  subscription_state,
  summary,
  created_at: iso(created_at),
})

interface Adding {
  name?: string
  operator?: true
  passwordStdin?: true
  plan: string
  readsFor?: string
}

export function userCommand(program: Command, invocation: () => Invocation): void {
  const user = program.command('user').description('add, list and remove users')
  add(user, invocation)
  list(user, invocation)
  passwd(user, invocation)
  set(user, invocation)
  remove(user, invocation)
}

function add(user: Command, invocation: () => Invocation): void {
  user
    .command('add <email>')
    .description('add a user')
    .option('--name <name>', 'the name of the user')
    .option('--password-stdin', 'read a password for the console from standard input')
    .option('--plan <plan>', 'a plan of the configuration', 'unlimited')
    .option('--operator', 'they see and steer the whole server; the first user does in any case')
    .option('--reads-for <email>', 'they look at the account of this user, and change nothing')
    .action((email: string, options: Adding) =>
      withDeps(invocation(), async (deps) => {
        const { name, operator, passwordStdin, plan, readsFor } = options
        if (plan !== 'unlimited' && !Object.hasOwn(deps.config.plans, plan))
          throw new OperatorError(
            `There is no plan "${plan}"; the configuration has unlimited, ${Object.keys(deps.config.plans).join(', ')}.`,
          )
        const password = passwordStdin ? { password: await readPassword() } : {}
        const added = await addUser(deps, {
          email,
          plan,
          operator: operator === true,
          ...(name === undefined ? {} : { name }),
          ...(readsFor === undefined ? {} : { readsFor }),
          ...password,
        })
        answer(invocation().terminal, show(deps.store, added), () => `Added ${added.email}.`)
      }),
    )
}

function list(user: Command, invocation: () => Invocation): void {
  user
    .command('list')
    .description('list all users')
    .action(() =>
      withDeps(invocation(), ({ store }) =>
        answer(
          invocation().terminal,
          listUsers(store).map((one) => show(store, one)),
          (users) =>
            table(
              ['EMAIL', 'NAME', 'OPERATOR', 'READS FOR', 'PLAN', 'SUBSCRIPTION', 'SINCE'],
              users.map((one) => [
                one.email,
                one.name,
                one.operator ? 'yes' : 'no',
                one.reads_for,
                one.plan,
                one.subscription_state,
                one.created_at,
              ]),
            ),
        ),
      ),
    )
}

function passwd(user: Command, invocation: () => Invocation): void {
  user
    .command('passwd <email>')
    .description('set a user’s password, asked for on a terminal, else read from standard input')
    .action((email: string) =>
      withDeps(invocation(), async (deps) => {
        const changed = await setPassword(deps, email, await readPassword())
        answer(invocation().terminal, show(deps.store, changed), () => `The password of ${changed.email} is set.`)
      }),
    )
}

function set(user: Command, invocation: () => Invocation): void {
  user
    .command('set <email>')
    .description(
      'whether a user steers the whole server, and is mailed a summary of each day on which something happened',
    )
    .addOption(new Option('--operator <answer>', 'whether they see and steer the whole server').choices(['yes', 'no']))
    .addOption(new Option('--summary <when>', 'a summary of the day, after midnight UTC').choices(['daily', 'none']))
    .action((email: string, { operator, summary }: { operator?: 'yes' | 'no'; summary?: User['summary'] }) =>
      withDeps(invocation(), async (deps) => {
        if (operator === undefined && summary === undefined)
          throw new OperatorError('Say what to change: --operator yes|no or --summary daily|none.')
        const said: string[] = []
        let changed = requireUser(deps.store, email)
        if (operator !== undefined) {
          changed = await setOperator(deps, email, operator === 'yes')
          said.push(`${changed.email} is ${operator === 'yes' ? 'an operator' : 'no operator'}.`)
        }
        if (summary !== undefined) {
          changed = await setSummary(deps, email, summary)
          said.push(`${changed.email} is mailed ${summary === 'daily' ? 'a summary of each day' : 'no summaries'}.`)
        }
        answer(invocation().terminal, show(deps.store, changed), () => said.join('\n'))
      }),
    )
}

function remove(user: Command, invocation: () => Invocation): void {
  asks(user.command('remove <email>'))
    .description('remove a user who never had a domain, with all tokens')
    .action((email: string, sure: Sure) =>
      withDeps(invocation(), async (deps) => {
        const found = requireUser(deps.store, email)
        refuseRemoval(deps.store, found)
        await confirm(
          invocation(),
          sure,
          `${found.email} is removed for good, with all tokens, sessions and programs that were let in.`,
        )
        const removed = await removeUser(deps, email)
        answer(invocation().terminal, show(deps.store, removed), () => `Removed ${removed.email}.`)
      }),
    )
}
