// The users of this server, for operators (D76): invite them, change their role, lock them out, remove them (D142).
import { z } from 'zod'
import { resetFactor, lockOut, removeUser, setOperator } from './operators.ts'
import { OperatorError, refuse, refuseAttribute } from '../base/errors.ts'
import { listTokens } from './tokens.ts'
import { findUser, listUsers, ownedDomain, userById, type User } from './users.ts'
import { definer, field, type Call } from '../jsonapi/resource.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { UserParts } from './parts.ts'
import { count, time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { ROLE_NAMES, type RoleName } from '../jsonapi/roles.ts'
import { accountsOf } from './members.ts'
import { address, name } from '../jsonapi/schemas.ts'
import { addInvited, invitationShown, inviteAgain } from './invitations.ts'

type PeopleDeps = ApiDeps & UserParts

/** The account in which a user works: null for one of their own. */
function placeOf(parts: PeopleDeps, { key }: User): { account: string | null; role: RoleName | null } {
  const all = accountsOf(parts.store, key)
  const first = all.find(({ joined_at }) => joined_at !== null) ?? all[0]
  return { account: first && first.user_key !== key ? first.email : null, role: first?.role ?? null }
}

const shown = (parts: PeopleDeps, user: User) => ({
  ...user,
  ...placeOf(parts, user),
  ...invitationShown(parts, user),
  operator: user.operator === 1,
  last_seen_at: user.seen_at,
  locked: user.locked_at !== null,
  second_factor: user.sealed_totp !== null,
  tokens: listTokens(parts.store, user.key).length,
  domain: ownedDomain(parts.store, user)?.name ?? null,
})

type PersonCall = Pick<Call<PeopleDeps>, 'caller' | 'parts'> & { row: { email: string; id: string } }

/** Logs which operator changed which user, and returns the user as they are now. */
function done({ caller, parts }: Pick<Call<PeopleDeps>, 'caller' | 'parts'>, action: string, user: User) {
  parts.log.info('user_changed', { operator: caller.person?.email, user: user.email, action })
  parts.bells.notices()
  return { row: shown(parts, user) }
}

/** Throws 422 if operators would change themselves in a way that needs another operator. */
function refuseOneself({ caller, row }: PersonCall, what: string): void {
  if (row.email === caller.person?.email)
    throw refuse('transition_not_allowed', `You cannot ${what}. Ask another operator to do it.`)
}

/** Turns an OperatorError into a refusal with this code. */
async function refusing<T>(
  code: 'invalid' | 'transition_not_allowed',
  run: () => Promise<T>,
  path?: string,
): Promise<T> {
  try {
    return await run()
  } catch (thrown) {
    if (!(thrown instanceof OperatorError)) throw thrown
    throw path === undefined ? refuse(code, thrown.message) : refuseAttribute(code, path, thrown.message)
  }
}

/** The key of the account of a user. Throws 422 if there is no such user. */
function accountNamed({ store }: PeopleDeps, email: string): number {
  const account = findUser(store, email)
  if (!account) throw refuseAttribute('invalid', 'account', `There is no user ${email}. Use the address of a user.`)
  return account.key
}

const REFUSED = ['transition_not_allowed'] as const
const common = { scope: 'tokens:write', operator: true, person: true } as const

interface PersonAction {
  id: string
  about: string
  /** The name in the log. */
  action: string
  /** The end of the error "You cannot …" for operators who try it on themselves. */
  self?: string
  run: (parts: PeopleDeps, email: string, by: string | undefined) => Promise<User>
}

const act = (name: string, { about, action, id, run, self }: PersonAction) => ({
  kind: 'act' as const,
  path: `/people/:person/${name}`,
  id,
  ...common,
  refuses: REFUSED,
  about,
  async run(call: PersonCall) {
    if (self !== undefined) refuseOneself(call, self)
    const { caller, parts, row } = call
    const changed = await refusing('transition_not_allowed', () => run(parts, row.email, caller.person?.email))
    return done(call, action, changed)
  },
})

export const people = definer<PeopleDeps>()('people', {
  table: 'users',
  called: 'Person',
  about: 'Users of this server. For operators who are signed in to the console.',
  extension: true,
  find: (id, parts: PeopleDeps) => {
    const user = userById(parts.store, id)
    return user && shown(parts, user)
  },
  attributes: {
    email: field(address(), {
      create: 'required',
      about: 'Email address of the user. Invitations and sign-in links are sent to it.',
      example: 'ann@example.net',
    }),
    name: field(name(), { create: 'optional', about: 'Name of the user.' }),
    operator: field(z.boolean('must be true or false'), {
      create: 'optional',
      update: true,
      about: 'Whether the user is an operator, who can view and manage the whole server.',
    }),
    account: field(address().nullable(), {
      create: 'optional',
      about:
        'Account that the user works in, by the email address of the user it belongs to. Null if it is one of their own.',
    }),
    role: field(z.enum(ROLE_NAMES).nullable(), {
      create: 'optional',
      about: 'Role in that account. Null if the user is not a member of an account.',
    }),
    plan: words('Plan of the account.'),
    subscription_state: wordsOrNull('State of the subscription. Null if absent.'),
    last_seen_at: timeOrNull(
      'Time of the last visit, in steps of a quarter of an hour. Null if the user has never signed in.',
    ),
    second_factor: field(z.boolean(), { about: 'Whether sign-in requires a second factor after the password.' }),
    locked: field(z.boolean(), { about: 'Whether an operator has locked the user out.' }),
    tokens: count('Number of tokens of the account.'),
    domain: wordsOrNull(
      'A domain that the user has or had. Its emails are kept, so the user can be locked out but not removed. Null if absent.',
    ),
    invitation: field(z.enum(['open', 'expired']).nullable(), {
      about: 'State of the invitation. Null if the user has signed in or was not invited.',
    }),
    invitation_expires_at: timeOrNull('Time when the invitation link expires. Null if there is no link.'),
    invitation_link: wordsOrNull(
      'Invitation link, if you want to send it yourself. It can be used once. Null if absent.',
    ),
    invitation_mail: field(z.enum(['waiting', 'mailed', 'refused', 'not_mailed']).nullable(), {
      about: 'Delivery status of the invitation email. Null if there is no invitation.',
    }),
    invitation_note: wordsOrNull(
      'SMTP reply to the invitation email, or the reason why none was sent. Null if there is neither.',
    ),
    created_at: time('Time when the user was added.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/people',
      id: 'listPeople',
      ...common,
      params: ['page'],
      about: 'List users.',
      run: ({ parts }) => listUsers(parts.store).map((user) => shown(parts, user)),
    },
    {
      kind: 'show',
      path: '/people/:person',
      id: 'getPerson',
      ...common,
      params: [],
      about: 'Get a user.',
    },
    {
      kind: 'create',
      path: '/people',
      id: 'addPerson',
      ...common,
      refuses: ['already_exists'],
      about: 'Create a user, and send an invitation email if that is possible.',
      async run(call) {
        const { account, email, name: called, operator = false, role } = call.attributes
        if (findUser(call.parts.store, email))
          throw refuseAttribute(
            'already_exists',
            'email',
            `A user with the address ${email} already exists. Use another address.`,
          )
        const given = {
          email,
          operator,
          ...(called === undefined ? {} : { name: called }),
          ...(account ? { member: { account: accountNamed(call.parts, account), role: role ?? 'reader' } } : {}),
        }
        const add = () => addInvited(call.parts, given, call.caller.person?.email)
        return done(call, 'invited', await refusing('invalid', add))
      },
    },
    {
      kind: 'update',
      path: '/people/:person',
      id: 'updatePerson',
      ...common,
      refuses: REFUSED,
      about: 'Make a user an operator, or an ordinary user. A user who loses this right is signed out.',
      async run(call) {
        const { row } = call
        refuseOneself(call, 'change your own role')
        const { operator = Boolean(row.operator) } = call.attributes
        const change = () => setOperator(call.parts, row.email, operator)
        return done(call, 'role_changed', await refusing('invalid', change, 'operator'))
      },
    },
    act('invite', {
      id: 'invitePerson',
      about:
        'Send a new invitation to a user who has never signed in or was locked out. The previous link becomes invalid.',
      action: 'invitation_renewed',
      run: inviteAgain,
    }),
    act('lock', {
      id: 'lockPerson',
      about: 'Lock out a user, and sign them out immediately. Their emails and tokens are kept.',
      action: 'locked',
      self: 'lock yourself out',
      run: lockOut,
    }),
    act('reset-second-factor', {
      id: 'resetSecondFactor',
      about: 'Remove the second factor of a user who lost it. The user is signed out and notified by email.',
      action: 'mfa_reset',
      self: 'reset your own second factor',
      run: resetFactor,
    }),
    {
      kind: 'delete',
      path: '/people/:person',
      id: 'removePerson',
      ...common,
      refuses: REFUSED,
      about: 'Delete a user who never had a domain, or withdraw an invitation.',
      async run(call) {
        refuseOneself(call, 'remove yourself')
        const remove = () => removeUser(call.parts, call.row.email)
        const { email } = await refusing('transition_not_allowed', remove)
        call.parts.log.info('user_changed', { operator: call.caller.person?.email, user: email, action: 'removed' })
      },
    },
  ],
})
