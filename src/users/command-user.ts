// `postrider user …`: users, who own domains and email.
import { Option, type Command } from 'commander'
import { iso } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { lockOut, refuseRemoval, removeUser, setOperator, resetFactor } from './operators.ts'
import { accountsOf, addMember, membersOf, removeMember, setMemberRole, type AccountOfUser } from './members.ts'
import { isRole, ROLE_NAMES, type RoleName } from '../jsonapi/roles.ts'
import { addUser, listUsers, requireUser, setPassword, setSummary, type User, SHORTEST_PASSWORD } from './users.ts'
import type { Reader } from '../store/database.ts'
import { nameOf } from './command-token.ts'
import { addInvited, invitationShown, inviteAgain, inviteMember, type InviteDeps } from './invitations.ts'
import type { LinkMail } from './parts.ts'
import { asks, confirm, type Sure } from '../views/command/confirm.ts'
import { withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, table } from '../views/command/terminal.ts'
import { execLine } from '../base/container.ts'
import { Prompt } from '../views/command/prompt.ts'

/** The accounts of a user, each by the address of the user it belongs to. `invited`: the user has not accepted. */
const accountsShown = (all: readonly AccountOfUser[]) =>
  all.map(({ email, joined_at, role }) => ({ account: email, role, invited: joined_at === null }))

const show = (
  reader: Reader,
  {
    created_at,
    email,
    id,
    key,
    locked_at,
    name,
    operator,
    plan,
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
  accounts: accountsShown(accountsOf(reader, key)),
  plan,
  subscription_state,
  summary,
  second_factor: sealed_totp !== null,
  locked: locked_at !== null,
  last_seen_at: seen_at === null ? null : iso(seen_at),
  created_at: iso(created_at),
})

/** Only the commands that invite call it, because it loads much code. */
type LoadLinkMail = () => Promise<{ linkMailOf: (deps: Deps) => LinkMail }>

interface Adding {
  invite?: true
  name?: string
  operator?: true
  passwordStdin?: true
  plan: string
}

export function userCommand(program: Command, invocation: () => Invocation, load: LoadLinkMail): void {
  const user = program.command('user').description('manage users of the console and the API')
  add(user, invocation, load)
  invites(user, invocation, load)
  list(user, invocation)
  passwd(user, invocation)
  set(user, invocation)
  role(user, invocation)
  lock(user, invocation)
  resetTheFactor(user, invocation)
  remove(user, invocation)
}

/** Invites a user, and answers with the user and how the invitation was sent. */
async function answerInvited(
  { terminal }: Invocation,
  load: LoadLinkMail,
  given: Deps,
  invited: (deps: InviteDeps) => Promise<User>,
): Promise<void> {
  const { linkMailOf } = await load()
  const deps = { ...given, linkMail: linkMailOf(given) }
  const user = await invited(deps)
  const { invitation_link, invitation_mail, invitation_note } = invitationShown(deps, user)
  answer(terminal, { ...show(deps.store, user), invitation_link, invitation_mail, invitation_note }, () =>
    invitation_mail === 'not_mailed'
      ? `Invited ${user.email}. ${invitation_note ?? ''} Send this link to the user. It works once, within 7 days:\n${invitation_link ?? ''}`
      : `Invited ${user.email} by email. The link works once, within 7 days.`,
  )
}

function invites(user: Command, invocation: () => Invocation, load: LoadLinkMail): void {
  user
    .command('invite <email>')
    .description('send an invitation, again or to an account')
    .option('--account <email>', 'account that the user joins, by the user it belongs to')
    .addOption(new Option('--role <role>', 'role in the account').choices(ROLE_NAMES))
    .action((email: string, { account, role: named }: { account?: string; role?: RoleName }) =>
      withDeps(invocation(), (given) =>
        answerInvited(invocation(), load, given, async (deps) => {
          if (account === undefined && named === undefined) return inviteAgain(deps, email)
          if (account === undefined || named === undefined)
            throw new OperatorError('An invitation to an account needs --account EMAIL and --role ROLE.')
          return inviteMember(deps, { email, account: requireUser(deps.store, account), role: named })
        }),
      ),
    )
}

function role(user: Command, invocation: () => Invocation): void {
  user
    .command('role <email> <role>')
    .description('change the role of a user in an account, or remove them with "none"')
    .requiredOption('--account <email>', 'the account, by the user it belongs to')
    .action((email: string, named: string, { account: of }: { account: string }) =>
      withDeps(invocation(), async (deps) => {
        const account = requireUser(deps.store, of)
        const member = requireUser(deps.store, email)
        if (named !== 'none' && !isRole(named))
          throw new OperatorError(`There is no role "${named}"; use ${ROLE_NAMES.join(', ')} or none.`)
        const roles = await deps.store.write((tx) => {
          const now = deps.clock.now()
          const found = membersOf(tx, account.key).find(({ member_key }) => member_key === member.key)
          if (!found && named === 'none') throw new OperatorError(`${member.email} is not a member of this account.`)
          if (!found && named !== 'none')
            addMember(tx, { account: account.key, user: member.key, role: named, joined: true }, now)
          else if (named === 'none') removeMember(tx, found!.key, now)
          else setMemberRole(tx, found!.key, named, now)
          return accountsOf(tx, member.key)
        })
        answer(invocation().terminal, { email: member.email, accounts: accountsShown(roles) }, () =>
          named === 'none'
            ? `Removed ${member.email} from the account of ${account.email}.`
            : `${member.email} is now ${named} of the account of ${account.email}.`,
        )
      }),
    )
}

function add(user: Command, invocation: () => Invocation, load: LoadLinkMail): void {
  user
    .command('add <email>')
    .description('add a user')
    .option('--name <name>', 'name of the user', nameOf)
    .option('--invite', 'email an invitation link that works for 7 days')
    .option('--password-stdin', 'read the console password from standard input')
    .option('--plan <plan>', 'name of a configured plan, or unlimited', 'unlimited')
    .option('--operator', 'allow the user to manage the server (always for the first user)')
    .action((email: string, options: Adding) =>
      withDeps(invocation(), async (deps) => {
        const { name, operator, passwordStdin, plan } = options
        if (plan !== 'unlimited' && !Object.hasOwn(deps.config.plans, plan))
          throw new OperatorError(
            `There is no plan "${plan}"; use one of unlimited, ${Object.keys(deps.config.plans).join(', ')}.`,
          )
        const password = passwordStdin ? { password: await readPassword(`user add ${email} --password-stdin`) } : {}
        const given = {
          email,
          plan,
          operator: operator === true,
          ...(name === undefined ? {} : { name }),
          ...password,
        }
        if (options.invite) return answerInvited(invocation(), load, deps, (each) => addInvited(each, given))
        const added = await addUser(deps, given)
        return answer(invocation().terminal, show(deps.store, added), () => `Added ${added.email}.`)
      }),
    )
}

function list(user: Command, invocation: () => Invocation): void {
  user
    .command('list')
    .description('list users')
    .action(() =>
      withDeps(invocation(), ({ store }) =>
        answer(
          invocation().terminal,
          listUsers(store).map((one) => show(store, one)),
          (users) =>
            table(
              ['EMAIL', 'NAME', 'OPERATOR', 'ROLES', 'PLAN', 'SUBSCRIPTION', 'SINCE'],
              users.map((one) => [
                one.email,
                one.name,
                one.operator ? 'yes' : 'no',
                one.accounts
                  .map(
                    ({ account, invited, role }) =>
                      `${role}${account === one.email ? '' : ` of ${account}`}${invited ? ' (invited)' : ''}`,
                  )
                  .join(', '),
                one.plan,
                one.subscription_state,
                one.created_at,
              ]),
            ),
        ),
      ),
    )
}

/** Makes a command that changes one user and answers with the user and a sentence. */
function changes(
  command: Command,
  invocation: () => Invocation,
  run: (deps: Deps, email: string, sure: Sure) => Promise<readonly [User, sentence: string]>,
): void {
  command.action((email: string, sure: Sure) =>
    withDeps(invocation(), async (deps) => {
      const [user, sentence] = await run(deps, email, sure)
      answer(invocation().terminal, show(deps.store, user), () => sentence)
    }),
  )
}

function passwd(user: Command, invocation: () => Invocation): void {
  const command = user.command('passwd <email>').description('set a password, from a prompt or standard input')
  changes(command, invocation, async (deps, email) => {
    const changed = await setPassword(deps, email, await readPassword(`user passwd ${email}`))
    return [changed, `Changed the password of ${changed.email}.`]
  })
}

function set(user: Command, invocation: () => Invocation): void {
  user
    .command('set <email>')
    .description('change whether a user is an operator, and their daily summary')
    .addOption(new Option('--operator <answer>', 'permission to manage the server').choices(['yes', 'no']))
    .addOption(
      new Option('--summary <when>', 'summary email after midnight UTC, if anything happened').choices([
        'daily',
        'none',
      ]),
    )
    .action((email: string, changes: Changes) =>
      withDeps(invocation(), async (deps) => {
        const { operator, summary } = changes
        if (operator === undefined && summary === undefined)
          throw new OperatorError('No change given; add --operator yes|no or --summary daily|none.')
        const said: string[] = []
        let changed = requireUser(deps.store, email)
        if (operator !== undefined) {
          changed = await setOperator(deps, email, operator === 'yes')
          said.push(`${changed.email} ${operator === 'yes' ? 'is now' : 'is not'} an operator.`)
        }
        if (summary !== undefined) {
          changed = await setSummary(deps, email, summary)
          said.push(`${changed.email} receives ${summary === 'daily' ? 'a daily summary' : 'no daily summary'}.`)
        }
        answer(invocation().terminal, show(deps.store, changed), () => said.join('\n'))
      }),
    )
}

interface Changes {
  operator?: 'yes' | 'no'
  summary?: User['summary']
}

function lock(user: Command, invocation: () => Invocation): void {
  const command = asks(user.command('lock <email>')).description(
    'lock a user out of the console; their email and tokens remain',
  )
  changes(command, invocation, async (deps, email, sure) => {
    const found = requireUser(deps.store, email)
    await confirm(
      invocation(),
      sure,
      `${found.email} is signed out and loses the password, passkeys, second factor and OAuth grants. API tokens remain valid.`,
    )
    const locked = await lockOut(deps, email)
    return [locked, `Locked ${locked.email}. To let the user in again, run "postrider user invite ${locked.email}".`]
  })
}

function resetTheFactor(user: Command, invocation: () => Invocation): void {
  const command = user.command('reset-mfa <email>').description('remove the second factor of a user and notify them')
  changes(command, invocation, async (deps, email) => {
    const reset = await resetFactor(deps, email)
    return [reset, `Removed the second factor of ${reset.email}, who is signed out and notified by email.`]
  })
}

function remove(user: Command, invocation: () => Invocation): void {
  const command = asks(user.command('remove <email>')).description('remove a user who never had a domain')
  changes(command, invocation, async (deps, email, sure) => {
    const found = requireUser(deps.store, email)
    refuseRemoval(deps.store, found)
    await confirm(
      invocation(),
      sure,
      `${found.email} is removed permanently, with all tokens, sessions and OAuth grants, and with the users who belong only to this account.`,
    )
    const removed = await removeUser(deps, email)
    return [removed, `Removed ${removed.email}.`]
  })
}

/**
 * Reads a password: twice on a terminal, else the first line of standard input. `command` is the typed command. Throws
 * an OperatorError.
 */
async function readPassword(command: string): Promise<string> {
  const password = process.stdin.isTTY ? await askPassword() : await firstLine(command)
  if (password.length < SHORTEST_PASSWORD)
    throw new OperatorError(`The password must have at least ${SHORTEST_PASSWORD} characters.`)
  return password
}

/** The maximum size of a password on standard input, in bytes. */
const MOST = 1024

async function askPassword(): Promise<string> {
  const prompt = new Prompt()
  try {
    const password = await prompt.secret(`New password (at least ${SHORTEST_PASSWORD} characters): `)
    if ((await prompt.secret('Repeat the password: ')) !== password)
      throw new OperatorError('The passwords do not match; nothing was changed. Run the command again.')
    return password
  } finally {
    prompt.close()
  }
}

/** The password ends with its line, because a user who types it without a TTY does not send an end of input. */
async function firstLine(command: string): Promise<string> {
  let text = ''
  for await (const chunk of process.stdin.setEncoding('utf8')) {
    text += chunk
    // The rest is not read, because it may be endless.
    if (text.includes('\n') || text.length > MOST) break
  }
  const line = text.split(/\r?\n/)[0] ?? ''
  if (line.length > MOST) throw new OperatorError(`The password must have at most ${MOST} characters.`)
  if (line === '')
    throw new OperatorError(
      `No password on standard input; run "${execLine(command, 'asks')}" on a terminal to be prompted for it, or use "${execLine(command, 'reads')} <FILE".`,
    )
  return line
}
