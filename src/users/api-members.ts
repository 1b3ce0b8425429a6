// The members of an account, for its owners: invite them, change their role, remove them (D236).
import { z } from 'zod'
import type { ApiDeps } from '../jsonapi/define.ts'
import { time, timeOrNull, wordsOrNull } from '../jsonapi/fields.ts'
import { definer, field, type Call } from '../jsonapi/resource.ts'
import { ROLE_NAMES } from '../jsonapi/roles.ts'
import { address, name } from '../jsonapi/schemas.ts'
import { must, refuse } from '../base/errors.ts'
import type { Reader } from '../store/database.ts'
import type { ListedRow } from '../store/list.ts'
import { invitationShown, inviteAgain, inviteMember } from './invitations.ts'
import { membersOf, removeMember, setMemberRole, type Member } from './members.ts'
import type { UserParts } from './parts.ts'
import { userByKey, type User } from './users.ts'

type MemberDeps = ApiDeps & UserParts

const userOf = (reader: Reader, { member_key }: Pick<Member, 'member_key'>): User =>
  must(userByKey(reader, member_key), 'The user of a member')

/**
 * Members as users. The link of an invitation signs its user in, so owners do not see it. Until they accept, only their
 * address is shown, because the account of a user on this server is not the owner's business.
 */
function extend(rows: ListedRow[], { parts, reader }: { parts: MemberDeps; reader: Reader }): void {
  for (const row of rows) {
    const { email, name: called, sealed_totp, seen_at, ...user } = userOf(reader, row as ListedRow & Member)
    const { invitation, invitation_note } = invitationShown(parts, {
      email,
      name: called,
      sealed_totp,
      seen_at,
      ...user,
    })
    const joined = row['joined_at'] !== null
    Object.assign(row, {
      email,
      name: joined ? called : null,
      second_factor: joined ? sealed_totp !== null : null,
      last_seen_at: joined ? seen_at : null,
      invitation: joined ? null : (invitation ?? 'open'),
      invitation_note,
    })
  }
}

type MemberCall = Call<MemberDeps, Record<string, never>, Member>
/** Only for users who are signed in: a stolen token must not add members. */
const common = { scope: 'compliance:write', person: true } as const

export const members = definer<MemberDeps>()('members', {
  table: 'members',
  path: '/members/:member',
  about: 'Members of the account with their roles. For owners who are signed in to the console.',
  extension: true,
  attributes: {
    email: field(address(), { create: 'required', about: 'Email address of the user.', example: 'ann@example.net' }),
    name: field(name(), {
      create: 'optional',
      answer: name().nullable(),
      about: 'Name of the user. It is used only for a new user. Null until the user accepts the invitation.',
    }),
    role: field(z.enum(ROLE_NAMES, { error: `must be one of ${ROLE_NAMES.join(', ')}` }), {
      create: 'required',
      update: true,
      about: 'Role in the account.',
    }),
    joined_at: timeOrNull('Time when the user accepted the invitation. Null until then.'),
    last_seen_at: timeOrNull(
      'Time of the last visit, in steps of a quarter of an hour. Null before the first, and until the user accepts.',
    ),
    second_factor: field(z.boolean().nullable(), {
      about: 'Whether sign-in requires a second factor after the password. Null until the user accepts.',
    }),
    invitation: field(z.enum(['open', 'expired']).nullable(), {
      about: 'State of the invitation. Null if the user has accepted it.',
    }),
    invitation_note: wordsOrNull(
      'SMTP reply to the invitation email, or the reason why none was sent. Null if absent.',
    ),
    created_at: time('Time of the invitation.'),
  },
  extend,
  actions: [
    { kind: 'list', ...common, params: ['page'], about: 'List members and invitations.' },
    { kind: 'show', ...common, params: [], about: 'Get a member.' },
    {
      kind: 'create',
      ...common,
      id: 'inviteMember',
      refuses: ['already_exists', 'quota_exceeded', 'rate_limited'],
      about: 'Invite a user to the account by email.',
      async run({ attributes, caller, parts }) {
        const { email, name: called, role } = attributes
        const account = must(userByKey(parts.store, caller.userKey), 'The account')
        const given = { email, account, role, ...(called === undefined ? {} : { name: called }) }
        const user = await inviteMember(parts, given, caller.person?.email)
        parts.bells.notices()
        const row = membersOf(parts.store, account.key).find(({ member_key }) => member_key === user.key)
        return { row: { ...must(row, 'The new member') } }
      },
    },
    {
      kind: 'update',
      ...common,
      refuses: ['transition_not_allowed'],
      about: 'Change the role of a member. The account keeps at least one owner.',
      async run({ attributes: { role }, now, parts, row }) {
        const changed = await parts.store.write((tx) => (role ? setMemberRole(tx, row.key, role, now) : row))
        return { row: { ...changed } }
      },
    },
    {
      kind: 'act',
      ...common,
      path: 'invite',
      id: 'inviteMemberAgain',
      refuses: ['transition_not_allowed', 'rate_limited'],
      about: 'Send the invitation of a new user again. The previous link becomes invalid.',
      async run({ caller, parts, row }: MemberCall) {
        const { email, locked_at } = userOf(parts.store, row)
        // An invitation lifts a lockout, which only an operator may do.
        if (row.joined_at !== null || locked_at !== null)
          throw refuse('transition_not_allowed', `${email} cannot be invited again. Ask the operator of the server.`)
        await inviteAgain(parts, email, caller.person?.email, row.user_key)
        parts.bells.notices()
        return { row: { ...row } }
      },
    },
    {
      kind: 'delete',
      ...common,
      id: 'removeMember',
      refuses: ['transition_not_allowed'],
      about: 'Remove a member, who loses access at once. Tokens of the account stay valid.',
      run: ({ now, parts, row }: MemberCall) => parts.store.write((tx) => removeMember(tx, row.key, now)),
    },
  ],
})
