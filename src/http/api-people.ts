// The users of this server, for operators (D76): invited, given a role, locked out, removed (D142).
import { z } from 'zod'
import { resetFactor } from '../accounts/reset-factor.ts'
import { OperatorError, refuse, refuseAttribute } from '../base/errors.ts'
import { lockOut, removeUser, setRole } from '../identity/roles.ts'
import { listTokens } from '../identity/tokens.ts'
import { findUser, listUsers, ownedDomain, userById, userByKey, type User } from '../identity/users.ts'
import { field, type Call } from '../jsonapi/resource.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, time, timeOrNull, words, wordsOrNull } from '../jsonapi/fields.ts'
import { address, name } from '../jsonapi/schemas.ts'
import { addInvited, invitationShown, inviteAgain } from './invite.ts'

const shown = (parts: ApiDeps, user: User) => ({
  ...user,
  ...invitationShown(parts, user),
  operator: user.operator === 1,
  last_seen_at: user.seen_at,
  locked: user.locked_at !== null,
  reads_for: user.reads_for === null ? null : (userByKey(parts.store, user.reads_for)?.email ?? null),
  second_factor: user.sealed_totp !== null,
  tokens: listTokens(parts.store, user.key).length,
  domain: ownedDomain(parts.store, user)?.name ?? null,
})

type PersonCall = Pick<Call<ApiDeps>, 'caller' | 'parts'> & { row: { email: string; id: string } }

/** Notes in the log who did what to whom, and answers with the person as they are then. */
function done({ caller, parts }: Pick<Call<ApiDeps>, 'caller' | 'parts'>, what: string, user: User) {
  parts.log.info('people', { operator: caller.person?.email, person: user.email, what })
  parts.bells.notices()
  return { row: shown(parts, user) }
}

/** Throws 422 when operators would do this to themselves: another operator does it. */
function refuseOneself({ caller, row }: PersonCall, what: string): void {
  if (row.email === caller.person?.email)
    throw refuse('transition_not_allowed', `Nobody ${what} themselves. Another operator can.`)
}

/** Runs what may end in a sentence for an operator, as a refusal of this code. */
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

const REFUSED = ['transition_not_allowed'] as const
const common = { scope: 'tokens:write', operator: 'person' } as const

export const people = define('people', {
  table: 'users',
  called: 'Person',
  about: `The users of this server; for operators who are signed in. ${EXTENSION}`,
  find: (id, parts: ApiDeps) => {
    const user = userById(parts.store, id)
    return user && shown(parts, user)
  },
  attributes: {
    email: field(address(), {
      create: 'required',
      about: 'The address of the person; the invitation and links to sign in are mailed there.',
      example: 'ann@example.net',
    }),
    name: field(name(), { create: 'optional', about: 'The name of the person.' }),
    operator: field(z.boolean('must be true or false'), {
      create: 'optional',
      update: true,
      about: 'Whether the person sees and controls the whole server.',
    }),
    reads_for: field(address().nullable(), {
      create: 'optional',
      update: true,
      about:
        'The address of the person whose account they may look at, and nothing else; null: an account of their own.',
    }),
    plan: words('The plan of the account.'),
    subscription_state: wordsOrNull('Where the subscription stands.'),
    last_seen_at: timeOrNull('When they were here last, to a quarter of an hour; null: never.'),
    second_factor: field(z.boolean(), { about: 'Whether the sign-in asks for a code after the password.' }),
    locked: field(z.boolean(), { about: 'Whether an operator keeps them out.' }),
    tokens: count('Tokens of their account.'),
    domain: wordsOrNull('A domain that they have or had: its mail is kept, so they are locked out and not removed.'),
    invitation: field(z.enum(['open', 'expired']).nullable(), {
      about: 'Whether an invitation waits for them; null: they have been here, or were not invited.',
    }),
    invitation_expires_at: timeOrNull('Until when its link leads in.'),
    invitation_link: wordsOrNull('The link, for whoever hands it over; it leads in once.'),
    invitation_mail: field(z.enum(['waiting', 'mailed', 'refused', 'not_mailed']).nullable(), {
      about: 'What became of the mail with the link.',
    }),
    invitation_note: wordsOrNull('What the receiver said to it, or why nothing was mailed.'),
    created_at: time('When they were added.'),
  },
  actions: [
    {
      kind: 'view',
      path: '/people',
      id: 'listPeople',
      ...common,
      params: ['page'],
      about: `List the people of this server. ${EXTENSION}`,
      run: ({ parts }) => listUsers(parts.store).map((user) => shown(parts, user)),
    },
    {
      kind: 'show',
      path: '/people/:person',
      id: 'getPerson',
      ...common,
      params: [],
      about: `One person. ${EXTENSION}`,
    },
    {
      kind: 'create',
      path: '/people',
      id: 'addPerson',
      ...common,
      refuses: ['already_exists'],
      about: `Add a person, and mail them an invitation where that is possible. ${EXTENSION}`,
      async run(call) {
        const { email, name: called, operator = false, reads_for } = call.attributes
        if (findUser(call.parts.store, email))
          throw refuseAttribute('already_exists', 'email', `${email} is one of the people here already.`)
        const given = {
          email,
          operator,
          ...(called === undefined ? {} : { name: called }),
          ...(typeof reads_for === 'string' ? { readsFor: reads_for } : {}),
        }
        const add = () => addInvited(call.parts, given, call.caller.person?.email)
        return done(call, 'invited', await refusing('invalid', add, 'reads_for'))
      },
    },
    {
      kind: 'update',
      path: '/people/:person',
      id: 'updatePerson',
      ...common,
      refuses: REFUSED,
      about: `Give a person another role; who loses a right is signed out. ${EXTENSION}`,
      async run(call) {
        const { row } = call
        refuseOneself(call, 'changes the role of')
        const { operator = Boolean(row.operator), reads_for = row.reads_for as string | null | undefined } =
          call.attributes
        const change = () => setRole(call.parts, row.email, { operator, readsFor: reads_for ?? null })
        return done(call, 'role changed', await refusing('invalid', change, 'reads_for'))
      },
    },
    {
      kind: 'act',
      path: '/people/:person/invite',
      id: 'invitePerson',
      ...common,
      refuses: REFUSED,
      about: `Invite a person again who was never here or was locked out; the link before ends. ${EXTENSION}`,
      run: async (call) => {
        const again = () => inviteAgain(call.parts, call.row.email, call.caller.person?.email)
        return done(call, 'invited again', await refusing('transition_not_allowed', again))
      },
    },
    {
      kind: 'act',
      path: '/people/:person/lock',
      id: 'lockPerson',
      ...common,
      refuses: REFUSED,
      about: `Keep a person out, who stays with their mail and tokens. They are signed out at once. ${EXTENSION}`,
      run: async (call) => {
        refuseOneself(call, 'locks out')
        const lock = () => lockOut(call.parts, call.row.email)
        return done(call, 'locked out', await refusing('transition_not_allowed', lock))
      },
    },
    {
      kind: 'act',
      path: '/people/:person/reset-second-factor',
      id: 'resetSecondFactor',
      ...common,
      refuses: REFUSED,
      about: `Remove the second factor of a person who lost it. They are signed out and told by mail. ${EXTENSION}`,
      run: async (call) => {
        refuseOneself(call, 'resets the second factor of')
        const reset = () => resetFactor(call.parts, call.row.email, call.caller.person?.email)
        return done(call, 'second factor reset', await refusing('transition_not_allowed', reset))
      },
    },
    {
      kind: 'delete',
      path: '/people/:person',
      id: 'removePerson',
      ...common,
      refuses: REFUSED,
      about: `Remove a person who never had a domain, or withdraw an invitation. ${EXTENSION}`,
      async run(call) {
        refuseOneself(call, 'removes')
        const remove = () => removeUser(call.parts, call.row.email)
        const { email } = await refusing('transition_not_allowed', remove)
        call.parts.log.info('people', { operator: call.caller.person?.email, person: email, what: 'removed' })
      },
    },
  ],
})
