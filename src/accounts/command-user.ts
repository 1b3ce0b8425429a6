// `postrider user …`: users; a user owns domains and mail.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { lockOut, refuseRemoval, removeUser, setRole } from '../identity/roles.ts'
import {
  addUser,
  listUsers,
  requireUser,
  setPassword,
  setSummary,
  userByKey,
  type NewUser,
  type User,
} from '../identity/users.ts'
import type { Reader } from '../store/database.ts'
import { resetFactor } from './reset-factor.ts'
import { asks, confirm, type Sure } from '../commands/confirm.ts'
import { readPassword, withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { answer, table } from '../commands/terminal.ts'

const show = (
  reader: Reader,
  {
    created_at,
    email,
    id,
    locked_at,
    name,
    operator,
    plan,
    reads_for,
    sealed_totp,
    seen_at,
    subscription_state,
    summary,
  }: User,
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
  second_factor: sealed_totp !== null,
  locked: locked_at !== null,
  last_seen_at: seen_at === null ? null : iso(seen_at),
  created_at: iso(created_at),
})

/** What invites people: a matter of subjects that are above this one. */
interface Inviting {
  addInvited: (deps: Deps, given: NewUser) => Promise<User>
  inviteAgain: (deps: Deps, email: string) => Promise<User>
  invitationShown: (
    deps: Deps,
    user: User,
  ) => { invitation_link: string | null; invitation_mail: string | null; invitation_note: string | null }
}

/** It writes mail, and is loaded only by the commands that invite: every other one is smaller without. */
type LoadInviting = () => Promise<Inviting>

interface Adding {
  invite?: true
  name?: string
  operator?: true
  passwordStdin?: true
  plan: string
  readsFor?: string
}

export function userCommand(program: Command, invocation: () => Invocation, inviting: LoadInviting): void {
  const user = program.command('user').description('add, invite, list and remove users')
  add(user, invocation, inviting)
  invite(user, invocation, inviting)
  list(user, invocation)
  passwd(user, invocation)
  set(user, invocation)
  lock(user, invocation)
  resetTheFactor(user, invocation)
  remove(user, invocation)
}

/** A user with the invitation, and what became of its mail in words. */
async function answerInvited(
  { terminal }: Invocation,
  inviting: LoadInviting,
  deps: Deps,
  invites: (by: Inviting) => Promise<User>,
): Promise<void> {
  const by = await inviting()
  const invited = await invites(by)
  const { invitation_link, invitation_mail, invitation_note } = by.invitationShown(deps, invited)
  answer(terminal, { ...show(deps.store, invited), invitation_link, invitation_mail, invitation_note }, () =>
    invitation_mail === 'not_mailed'
      ? `Invited ${invited.email}. ${invitation_note ?? ''} Hand this link over; it works once, for seven days:\n${invitation_link ?? ''}`
      : `Invited ${invited.email}: the mail is on its way. Its link works once, for seven days.`,
  )
}

function invite(user: Command, invocation: () => Invocation, inviting: LoadInviting): void {
  user
    .command('invite <email>')
    .description('invite a user again who was never here, or was locked out; the link before ends')
    .action((email: string) =>
      withDeps(invocation(), (deps) =>
        answerInvited(invocation(), inviting, deps, (by) => by.inviteAgain(deps, email)),
      ),
    )
}

function add(user: Command, invocation: () => Invocation, inviting: LoadInviting): void {
  user
    .command('add <email>')
    .description('add a user')
    .option('--name <name>', 'the name of the user')
    .option('--invite', 'mail them a link for seven days, by which they choose a password or a passkey')
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
        const password = passwordStdin ? { password: await readPassword(`user add ${email} --password-stdin`) } : {}
        const given = {
          email,
          plan,
          operator: operator === true,
          ...(name === undefined ? {} : { name }),
          ...(readsFor === undefined ? {} : { readsFor }),
          ...password,
        }
        if (options.invite) return answerInvited(invocation(), inviting, deps, (by) => by.addInvited(deps, given))
        const added = await addUser(deps, given)
        return answer(invocation().terminal, show(deps.store, added), () => `Added ${added.email}.`)
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
        const changed = await setPassword(deps, email, await readPassword(`user passwd ${email}`))
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
    .option(
      '--reads-for <email>',
      'they look at the account of this user, and change nothing; none = their own account',
    )
    .addOption(new Option('--summary <when>', 'a summary of the day, after midnight UTC').choices(['daily', 'none']))
    .action((email: string, changes: Changes) =>
      withDeps(invocation(), async (deps) => {
        const { operator, readsFor, summary } = changes
        if (operator === undefined && readsFor === undefined && summary === undefined)
          throw new OperatorError(
            'Say what to change: --operator yes|no, --reads-for EMAIL|none or --summary daily|none.',
          )
        const said: string[] = []
        let changed = requireUser(deps.store, email)
        if (operator !== undefined || readsFor !== undefined) {
          const now = show(deps.store, changed)
          changed = await setRole(deps, email, {
            operator: operator === undefined ? now.operator : operator === 'yes',
            readsFor: readsFor === undefined ? now.reads_for : readsFor === 'none' ? null : readsFor,
          })
          said.push(`${changed.email} is ${operator === 'yes' ? 'an operator' : 'no operator'}.`)
          if (readsFor !== undefined)
            said[0] = `${changed.email} ${readsFor === 'none' ? 'has an account of their own' : `reads the account of ${readsFor}`}.`
        }
        if (summary !== undefined) {
          changed = await setSummary(deps, email, summary)
          said.push(`${changed.email} is mailed ${summary === 'daily' ? 'a summary of each day' : 'no summaries'}.`)
        }
        answer(invocation().terminal, show(deps.store, changed), () => said.join('\n'))
      }),
    )
}

interface Changes {
  operator?: 'yes' | 'no'
  readsFor?: string
  summary?: User['summary']
}

function lock(user: Command, invocation: () => Invocation): void {
  asks(user.command('lock <email>'))
    .description('keep a user out, whose mail and tokens stay; "user invite" lets them in again')
    .action((email: string, sure: Sure) =>
      withDeps(invocation(), async (deps) => {
        const found = requireUser(deps.store, email)
        await confirm(
          invocation(),
          sure,
          `${found.email} is signed out, and password, passkeys, second factor and programs that were let in end. Tokens stay.`,
        )
        const locked = await lockOut(deps, email)
        answer(invocation().terminal, show(deps.store, locked), () => `${locked.email} is locked out.`)
      }),
    )
}

function resetTheFactor(user: Command, invocation: () => Invocation): void {
  user
    .command('reset-factor <email>')
    .description('remove the second factor of a user who lost it; they are signed out and told by mail')
    .action((email: string) =>
      withDeps(invocation(), async (deps) => {
        const reset = await resetFactor(deps, email)
        answer(
          invocation().terminal,
          show(deps.store, reset),
          () => `${reset.email} signs in without a second factor now, and is told by mail.`,
        )
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
          `${found.email} is removed for good, with all tokens, sessions and programs that were let in, and with those who may only read the account.`,
        )
        const removed = await removeUser(deps, email)
        answer(invocation().terminal, show(deps.store, removed), () => `Removed ${removed.email}.`)
      }),
    )
}
