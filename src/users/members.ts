// The members of accounts: who works in which account, with which role (jsonapi/roles.ts). Every account keeps an
// owner. An invited user becomes a member when they accept. Users who leave their last account are removed, or locked
// out if email of theirs is kept.
import { refuse, refuseAttribute } from '../base/errors.ts'
import { forgetUser } from '../jsonapi/audit.ts'
import { ROLES, type RoleName } from '../jsonapi/roles.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { revokeGrants } from './oauth/grants.ts'
import { forgetFactor } from './second-factor.ts'
import { endSessions, SESSIONS } from './sessions.ts'
import { insertMember, ownedDomain, userByKey, type NewMember, type User } from './users.ts'

export type Member = RowOf<'members'>

const roleIn = statement<{ account: number; user: number }>()((arg) =>
  db
    .selectFrom('members')
    .select('role')
    .where('user_key', '=', arg.account)
    .where('member_key', '=', arg.user)
    .where('joined_at', 'is not', null),
)

/** The role of a user in an account, or undefined if they are not a member. */
export const roleOf = (reader: Reader, account: number, user: number): RoleName | undefined =>
  reader.first(roleIn({ account, user }))?.role

const accounts = statement<{ user: number }>()((arg) =>
  db
    .selectFrom('members as m')
    .innerJoin('users as u', 'u.key', 'm.user_key')
    .select(['m.key', 'm.id', 'm.role', 'm.joined_at', 'm.user_key', 'm.member_key', 'u.email', 'u.name'])
    .where('m.member_key', '=', arg.user)
    .orderBy('m.key'),
)

export type AccountOfUser = Pick<Member, 'key' | 'id' | 'role' | 'joined_at' | 'user_key' | 'member_key'> &
  Pick<User, 'email' | 'name'>

/** The accounts of a user, invitations included. Their own account comes first. */
export const accountsOf = (reader: Reader, user: number): AccountOfUser[] =>
  reader
    .all<AccountOfUser>(accounts({ user }))
    .toSorted((a, b) => Number(b.user_key === user) - Number(a.user_key === user))

/** The members of an account, invitations included. */
export const membersOf = (reader: Reader, account: number): Member[] =>
  reader.all(db.selectFrom('members').selectAll().where('user_key', '=', account).orderBy('key'))

/** Adds a member. Throws 409 if there is one. */
export function addMember(tx: Tx, given: NewMember, now: number): Member {
  const { account, user } = given
  const known = db.selectFrom('members').select('key').where('user_key', '=', account).where('member_key', '=', user)
  if (tx.first(known))
    throw refuseAttribute('already_exists', 'email', 'This user is a member of the account, or invited already.')
  return insertMember(tx, given, now)
}

/** Whether a member is the only owner of an account who has joined and is not locked out. */
export function isLastOwner(
  reader: Reader,
  { member_key, role, user_key }: Pick<Member, 'member_key' | 'role' | 'user_key'>,
): boolean {
  if (role !== 'owner') return false
  const other = db
    .selectFrom('members as m')
    .innerJoin('users as u', 'u.key', 'm.member_key')
    .select('m.key')
    .where('m.user_key', '=', user_key)
    .where('m.role', '=', 'owner')
    .where('m.joined_at', 'is not', null)
    .where('u.locked_at', 'is', null)
    .where('m.member_key', '!=', member_key)
    .limit(1)
  return reader.first(other) === undefined
}

/** Throws 422 if an account would lose its last owner. */
function requireOwner(reader: Reader, member: Member): void {
  if (isLastOwner(reader, member))
    throw refuse(
      'transition_not_allowed',
      'An account needs an owner, and this is the only one. Make another member an owner first.',
    )
}

/** The member as it is stored now. Throws 404 if it was removed in the meantime. */
function present(reader: Reader, key: number): Member {
  const member = reader.first(db.selectFrom('members').selectAll().where('key', '=', key))
  if (!member) throw refuse('not_found', 'There is no such member. Reload the page.')
  return member
}

/** Changes the role of a member. Their open pages follow at once. */
export function setMemberRole(tx: Tx, key: number, role: RoleName, now: number): Member {
  const member = present(tx, key)
  if (role !== 'owner') requireOwner(tx, member)
  tx.run(db.updateTable('members').set({ role, updated_at: now }).where('key', '=', key))
  tx.signal(SESSIONS, member.member_key)
  return present(tx, key)
}

/** Ends a membership or an invitation. */
export function removeMember(tx: Tx, key: number, now: number): void {
  const member = present(tx, key)
  requireOwner(tx, member)
  tx.run(db.deleteFrom('members').where('key', '=', key))
  // A new membership needs a new consent.
  revokeGrants(tx, { key: member.member_key }, now, member.user_key)
  tx.signal(SESSIONS, member.member_key)
  retire(tx, member.member_key, now)
}

/** Removes users without an account, or locks them out if others still use the account that has their id. */
function retire(tx: Tx, key: number, now: number): void {
  const user = userByKey(tx, key)
  if (!user || user.operator === 1 || accountsOf(tx, key).length > 0) return
  if (ownedDomain(tx, user) || membersOf(tx, key).length > 0) block(tx, user, now)
  else remove(tx, user)
}

function remove(tx: Tx, user: Pick<User, 'email' | 'id' | 'key'>): void {
  tx.run(db.deleteFrom('users').where('key', '=', user.key))
  forgetUser(tx, user)
}

/** Removes all ways of a user to sign in, and their sessions and OAuth grants. */
export function block(tx: Tx, user: User, now: number): void {
  const values = { locked_at: now, operator: 0, password_hash: null, updated_at: now } as const
  tx.run(db.updateTable('users').set(values).where('key', '=', user.key))
  tx.run(db.deleteFrom('passkeys').where('user_key', '=', user.key))
  tx.run(db.deleteFrom('sign_in_links').where('user_key', '=', user.key))
  tx.run(db.updateTable('invitations').set({ user_key: null }).where('user_key', '=', user.key))
  forgetFactor(tx, user, now)
  revokeGrants(tx, user, now)
  endSessions(tx, user.key)
}

/** Removes a user with their account, and the users who belong only to that account. */
export function removeAccount(tx: Tx, user: User, now: number): void {
  const others = membersOf(tx, user.key).filter(({ member_key }) => member_key !== user.key)
  remove(tx, user)
  for (const { member_key } of others) retire(tx, member_key, now)
}

/** Accepts an invitation. Returns false if there is none. */
export const acceptMember = (tx: Tx, { id, user }: { id: string; user: number }, now: number): boolean =>
  tx.run(
    db
      .updateTable('members')
      .set({ joined_at: now, updated_at: now })
      .where('id', '=', id)
      .where('member_key', '=', user)
      .where('joined_at', 'is', null),
  ).changes > 0

/** An account and a role in a few words: "Marketer of ann@example.org". */
export const membershipText = ({ email, role }: Pick<AccountOfUser, 'email' | 'role'>): string =>
  `${ROLES[role].name} of ${email}`
