// What an operator does about users of the server: make them operators, remove them, or lock them out if email of
// theirs is kept. At least one operator always remains.
import type { Clock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { counted } from '../base/text.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { accountsOf, block, isLastOwner, membersOf, removeAccount } from './members.ts'
import { forgetFactor } from './second-factor.ts'
import { endSessions } from './sessions.ts'
import { ownedDomain, requireUser, type User } from './users.ts'
import type { Config } from '../base/config.ts'
import { addNotice } from './notices.ts'

/**
 * Makes a user an operator, or an ordinary user. Users who lose the right are signed out, because a session may show
 * another account. Throws an OperatorError.
 */
export function setOperator(deps: { store: Store; clock: Clock }, email: string, operator: boolean): Promise<User> {
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    // A locked operator would count as one, and then the last operator who can sign in could be removed.
    if (operator && user.locked_at !== null)
      throw new OperatorError(`${user.email} is locked; send a new invitation first.`)
    if (!operator) refuseLastOperator(tx, user)
    const values = { operator: operator ? 1 : 0, updated_at: deps.clock.now() } as const
    tx.run(db.updateTable('users').set(values).where('key', '=', user.key))
    if (!operator && user.operator === 1) endSessions(tx, user.key)
    return requireUser(tx, email)
  })
}

/** Throws an OperatorError if this user is the last operator. Operators who have never signed in do not count. */
function refuseLastOperator(reader: Reader, user: User): void {
  if (user.operator !== 1) return
  const invited = db
    .selectFrom('invitations')
    .select('user_key')
    .where('used_at', 'is', null)
    .where('user_key', 'is not', null)
  const other = reader.first(
    db
      .selectFrom('users')
      .select('key')
      .where('operator', '=', 1)
      .where('key', '!=', user.key)
      .where('key', 'not in', invited)
      .limit(1),
  )
  if (!other) throw new OperatorError(`${user.email} is the only operator; make another user an operator first.`)
}

/**
 * Removes a user who never had a domain, with their account, its tokens, and the users who belong only to that account.
 * Throws an OperatorError.
 */
export function removeUser(deps: { store: Store; clock: Clock }, email: string): Promise<User> {
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    refuseRemoval(tx, user)
    removeAccount(tx, user, deps.clock.now())
    return user
  })
}

/**
 * Throws an OperatorError when a user has had a domain, is the last operator, or when others would lose their account
 * or its last owner.
 */
export function refuseRemoval(reader: Reader, user: User): void {
  refuseLastOperator(reader, user)
  const others = membersOf(reader, user.key).filter(
    ({ joined_at, member_key, role }) => member_key !== user.key && role === 'owner' && joined_at !== null,
  )
  if (others.length > 0)
    throw new OperatorError(
      `${counted(others.length, 'other owner works', 'other owners work')} in the account of ${user.email}, so it cannot be removed; lock the user instead, so that they cannot sign in.`,
    )
  const left = accountsOf(reader, user.key).find(
    (account) => account.user_key !== user.key && isLastOwner(reader, { ...account, member_key: user.key }),
  )
  if (left)
    throw new OperatorError(
      `${user.email} is the only owner of the account of ${left.email}; make another member an owner first.`,
    )
  const domain = ownedDomain(reader, user)
  if (domain)
    throw new OperatorError(
      `${user.email} ${domain.deleted_at === null ? 'owns' : 'owned'} the domain ${domain.name}, and its email is kept, so the user cannot be removed; lock the user instead, so that they cannot sign in.`,
    )
}

/**
 * Locks a user out and keeps the account: all sign-in methods, sessions and OAuth grants are removed. API tokens
 * remain valid, because applications send with them. Throws an OperatorError.
 */
export function lockOut(deps: { store: Store; clock: Clock }, email: string): Promise<User> {
  const now = deps.clock.now()
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    refuseLastOperator(tx, user)
    block(tx, user, now)
    return requireUser(tx, email)
  })
}

/** Removes the second factor of a user and notifies them. Throws an OperatorError if they do not have one. */
export function resetFactor(
  { clock, config, store }: { store: Store; clock: Clock; config: Pick<Config, 'http'> },
  email: string,
  by = 'The operator of the server',
): Promise<User> {
  return store.write((tx) => {
    const now = clock.now()
    const user = requireUser(tx, email)
    if (user.sealed_totp === null)
      throw new OperatorError(`${user.email} has no second factor, so there is nothing to remove.`)
    forgetFactor(tx, user, now)
    endSessions(tx, user.key)
    const text = [
      `${by} removed two-factor authentication from your account. You were signed out everywhere.`,
      `Sign in and turn it on again: ${config.http.public_url}/account`,
      'If you did not request this, contact the operator of the server.\n',
    ].join('\n\n')
    const subject = 'Two-factor authentication was removed'
    addNotice(tx, { user_key: user.key, recipient: user.email, domain_key: null, subject, text }, now)
    return requireUser(tx, email)
  })
}
