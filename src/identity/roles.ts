// What people may do here: an operator sees and controls the whole server, an owner has an account of their own, a
// reader looks at the account of another and changes nothing. They are removed, or locked out where mail of theirs is
// kept. Some operator always remains.
import type { Clock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import type { Reader, Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { revokeGrants } from './oauth-grants.ts'
import { forgetFactor } from './second-factor.ts'
import { endSessions } from './sessions.ts'
import { accountRead, ownedDomain, requireUser, type PersonRole, type User } from './users.ts'

/**
 * Gives a person another role. Who loses a right is signed out, because a session may be showing another account.
 * Throws an OperatorError.
 */
export function setRole(deps: { store: Store; clock: Clock }, email: string, role: PersonRole): Promise<User> {
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    const account = accountRead(tx, role)
    // An operator who cannot sign in would count as one, and the last who can would be let go.
    if (role.operator && user.locked_at !== null)
      throw new OperatorError(`${user.email} is locked out; invite them again first.`)
    if (!role.operator) refuseLastOperator(tx, user)
    if (account) refuseReader(tx, user, account)
    tx.run(
      db
        .updateTable('users')
        .set({
          operator: role.operator ? 1 : 0,
          reads_for: account?.key ?? null,
          updated_at: deps.clock.now(),
        })
        .where('key', '=', user.key),
    )
    const same = (user.operator === 1) === role.operator && user.reads_for === (account?.key ?? null)
    if (!same && !role.operator) endSessions(tx, user.key)
    return requireUser(tx, email)
  })
}

/** Nobody would see the account of a person who reads another one. */
function refuseReader(reader: Reader, user: User, account: User): void {
  if (account.key === user.key) throw new OperatorError(`${user.email} cannot be a reader of their own account.`)
  const domain = ownedDomain(reader, user)
  if (domain)
    throw new OperatorError(`${user.email} has the domain ${domain.name}: nobody would look after that account.`)
  const other = reader.first(db.selectFrom('users').select('email').where('reads_for', '=', user.key).limit(1))
  if (other) throw new OperatorError(`${other.email} reads the account of ${user.email}; change that first.`)
}

/** Throws an OperatorError when nobody would be operator without this person; who was only invited does not count. */
export function refuseLastOperator(reader: Reader, user: User): void {
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
  if (!other) throw new OperatorError(`${user.email} is the only operator; make somebody else an operator first.`)
}

/**
 * Removes a user who never had a domain, with the user's tokens, and those who may only read the user's account. Throws
 * an OperatorError.
 */
export function removeUser(deps: { store: Store }, email: string): Promise<User> {
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    refuseRemoval(tx, user)
    tx.run(db.deleteFrom('users').where('key', '=', user.key))
    return user
  })
}

/** Throws an OperatorError when a user has had a domain, or is the last operator. */
export function refuseRemoval(reader: Reader, user: User): void {
  refuseLastOperator(reader, user)
  const domain = ownedDomain(reader, user)
  if (domain)
    throw new OperatorError(
      `${user.email} ${domain.deleted_at === null ? 'owns' : 'owned'} the domain ${domain.name}, and its mail is kept: a user who has had a domain cannot be removed. Lock the account instead: then ${user.email} cannot sign in.`,
    )
}

/**
 * Keeps a person out whose account stays: every way to sign in and every program that was let in ends at once. Their
 * tokens stay, because programs send with them. Throws an OperatorError.
 */
export function lockOut(deps: { store: Store; clock: Clock }, email: string): Promise<User> {
  const now = deps.clock.now()
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    refuseLastOperator(tx, user)
    tx.run(
      db
        .updateTable('users')
        .set({ locked_at: now, operator: 0, password_hash: null, updated_at: now })
        .where('key', '=', user.key),
    )
    tx.run(db.deleteFrom('passkeys').where('user_key', '=', user.key))
    tx.run(db.deleteFrom('sign_in_links').where('user_key', '=', user.key))
    tx.run(db.updateTable('invitations').set({ user_key: null }).where('user_key', '=', user.key))
    forgetFactor(tx, user, now)
    revokeGrants(tx, user, now)
    endSessions(tx, user.key)
    return requireUser(tx, email)
  })
}
