// Users, created by the operator: at the command line (D14), over the API, or in the console.
// Passwords are for the console and the consent page, and are stored as scrypt hashes.
import { randomBytes, scrypt, timingSafeEqual } from 'node:crypto'
import { upTo } from '../base/text.ts'
import type { Clock } from '../base/clock.ts'
import { must, OperatorError } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { parseAddress } from '../message/address.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import { endSessions } from './sessions.ts'

export type User = RowOf<'users'>

const COST = { N: 32768, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }
const SALT_BYTES = 16
const KEY_BYTES = 32

/** A hash that matches no password; its check takes the usual time. */
export const NOBODY = hashOf(Buffer.alloc(SALT_BYTES), Buffer.alloc(KEY_BYTES))

/** "scrypt$N$r$p$salt$hash": with the cost parameters, so that they can change later. */
export async function hashPassword(password: string): Promise<string> {
  const salt = randomBytes(SALT_BYTES)
  return hashOf(salt, await derive(password, salt, COST))
}

function hashOf(salt: Buffer, hash: Buffer): string {
  return ['scrypt', COST.N, COST.r, COST.p, salt.toString('base64'), hash.toString('base64')].join('$')
}

export async function checkPassword(password: string, stored: string): Promise<boolean> {
  const [, N, r, p, salt, hash] = stored.split('$')
  if (salt === undefined || hash === undefined) return false
  const expected = Buffer.from(hash, 'base64')
  const given = await derive(password, Buffer.from(salt, 'base64'), {
    N: Number(N),
    r: Number(r),
    p: Number(p),
    maxmem: COST.maxmem,
  })
  return given.length === expected.length && timingSafeEqual(given, expected)
}

function derive(password: string, salt: Buffer, cost: typeof COST): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    scrypt(password.normalize('NFKC'), salt, KEY_BYTES, cost, (error, key) => (error ? reject(error) : resolve(key)))
  })
}

export interface NewUser {
  email: string
  name?: string
  password?: string
  plan?: string
  /** Sees and controls the whole server. The first user always does. */
  operator?: boolean
  /** The address of another user; this user may read that user's account. */
  readsFor?: string
}

/** Adds a user. Throws an OperatorError for a malformed address or an existing user. */
export async function addUser(
  deps: { store: Store; clock: Clock },
  { email, name, operator, password, plan, readsFor }: NewUser,
): Promise<User> {
  const address = parseAddress(email)
  if (!address) throw new OperatorError(`"${email}" is not an email address.`)
  const now = deps.clock.now()
  const hash = password === undefined ? null : await hashPassword(password)
  return deps.store.write((tx) => {
    if (findUser(tx, address.address))
      throw new OperatorError(`The user ${address.address} exists already; "postrider user list" shows all.`)
    const first = tx.first(db.selectFrom('users').select('key').limit(1)) === undefined
    const account = readsFor === undefined ? undefined : requireUser(tx, readsFor)
    if (account?.reads_for)
      throw new OperatorError(`${account.email} has no account of its own; name the user whose account it is.`)
    tx.run(
      db.insertInto('users').values({
        id: newId(now),
        email: address.address,
        name: name ?? upTo(address.address, '@'),
        password_hash: hash,
        plan: plan ?? 'unlimited',
        subscription_state: 'active',
        summary: 'none',
        operator: first || operator === true ? 1 : 0,
        reads_for: account?.key ?? null,
        created_at: now,
        updated_at: now,
      }),
    )
    return must(findUser(tx, address.address), 'The new user')
  })
}

export async function setPassword(
  deps: { store: Store; clock: Clock },
  email: string,
  password: string,
): Promise<User> {
  const hash = await hashPassword(password)
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    tx.run(
      db.updateTable('users').set({ password_hash: hash, updated_at: deps.clock.now() }).where('key', '=', user.key),
    )
    endSessions(tx, user.key)
    return user
  })
}

export const userByKey = (reader: Reader, key: number): User | undefined =>
  reader.first(db.selectFrom('users').selectAll().where('key', '=', key))

/** Removes a user who never had a domain, and the user's tokens. Throws an OperatorError. */
export function removeUser(deps: { store: Store }, email: string): Promise<User> {
  return deps.store.write((tx) => {
    const user = requireUser(tx, email)
    refuseRemoval(tx, user)
    tx.run(db.deleteFrom('users').where('key', '=', user.key))
    return user
  })
}

/** Throws an OperatorError when a user has had a domain. */
export function refuseRemoval(reader: Reader, user: User): void {
  const domain = reader.first(
    db
      .selectFrom('domains')
      .select(['name', 'deleted_at'])
      .where('user_key', '=', user.key)
      // A present domain comes before a removed one.
      .orderBy('deleted_at', 'asc')
      .limit(1),
  )
  if (domain)
    throw new OperatorError(
      `${user.email} ${domain.deleted_at === null ? 'owns' : 'owned'} the domain ${domain.name}, and its mail is kept: a user who has had a domain cannot be removed. To keep ${user.email} out, revoke the tokens ("postrider token revoke"), end the programs ("postrider grant revoke") and set another password ("postrider user passwd").`,
    )
}

export function findUser(reader: Reader, email: string): User | undefined {
  // The stored form: an international domain name is stored as A-labels.
  const address = parseAddress(email)?.address ?? email.trim()
  return reader.first(db.selectFrom('users').selectAll().where('email', '=', address))
}

/** Throws an OperatorError when there is no such user. */
export function requireUser(reader: Reader, email: string): User {
  const user = findUser(reader, email)
  if (!user) throw new OperatorError(`There is no user ${email}; add one with "postrider user add ${email}".`)
  return user
}

export function listUsers(reader: Reader): User[] {
  return reader.all(db.selectFrom('users').selectAll().orderBy('key'))
}

/** Sets whether a user gets a daily summary. Throws an OperatorError when there is no such user. */
export function setSummary(
  deps: { store: Store; clock: Clock },
  email: string,
  summary: User['summary'],
): Promise<User> {
  const now = deps.clock.now()
  return deps.store.write((tx) => {
    const { key } = requireUser(tx, email)
    tx.run(db.updateTable('users').set({ summary, summary_at: now, updated_at: now }).where('key', '=', key))
    return requireUser(tx, email)
  })
}

/**
 * Sets whether a user sees and controls the whole server. A user who loses this right is signed out, because a session
 * may be showing another account. Throws an OperatorError when there is no such user.
 */
export function setOperator(deps: { store: Store; clock: Clock }, email: string, operator: boolean): Promise<User> {
  return deps.store.write((tx) => {
    const { key } = requireUser(tx, email)
    tx.run(
      db
        .updateTable('users')
        .set({ operator: operator ? 1 : 0, updated_at: deps.clock.now() })
        .where('key', '=', key),
    )
    if (!operator) endSessions(tx, key)
    return requireUser(tx, email)
  })
}

/** Users whose last summary was made before a time (ms). */
export function summaryDue(reader: Reader, before: number): User[] {
  return reader.all(
    db.selectFrom('users').selectAll().where('summary', '=', 'daily').where('summary_at', '<', before).orderBy('key'),
  )
}

export function summaryMade(tx: Tx, { key }: User, at: number): void {
  tx.run(db.updateTable('users').set({ summary_at: at }).where('key', '=', key))
}

/** Who asks, for a history: the address of a person who is signed in, or the name of a token. */
export function nameOfCaller(reader: Reader, { person, tokenId }: { person?: true; tokenId: string }): string {
  const found = reader.first<{ name: string }>(
    person
      ? raw('select u.email as name from sessions s join users u on u.key = s.user_key where s.id = ?', [tokenId])
      : raw('select name from tokens where id = ?', [tokenId]),
  )
  return found?.name ?? ''
}
