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
import type { RoleName } from '../jsonapi/roles.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { endSessions } from './sessions.ts'

export type User = RowOf<'users'>

const COST = { N: 32768, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }
/** The minimum length of a password, on a page or in a command. */
export const SHORTEST_PASSWORD = 10
const SALT_BYTES = 16
const KEY_BYTES = 32

/** A hash that matches no password. Its check takes the usual time. */
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
  /** They view and control the whole server. The first user always does. */
  operator?: boolean
  /** The account that the user joins. By default it is one of their own. */
  member?: { account: number; role: RoleName }
  /** They become a member at their first sign-in. */
  invited?: true
}

export interface NewMember {
  account: number
  user: number
  role: RoleName
  /** Whether they are a member without accepting. */
  joined: boolean
}

export function insertMember(tx: Tx, { account, joined, role, user }: NewMember, now: number): RowOf<'members'> {
  const values = { id: newId(now), user_key: account, member_key: user, role, joined_at: joined ? now : null }
  return tx.one(
    db
      .insertInto('members')
      .values({ ...values, created_at: now, updated_at: now })
      .returningAll(),
  )
}

/**
 * Adds a user. `also` runs in the same transaction. Throws an OperatorError for a malformed address or an existing
 * user.
 */
export async function addUser(
  deps: { store: Store; clock: Clock },
  { email, invited, member, name, operator, password, plan }: NewUser,
  also: (tx: Tx, user: User) => void = () => {},
): Promise<User> {
  const address = parseAddress(email)
  if (!address) throw new OperatorError(`"${email}" is not an email address; use one such as ann@example.org.`)
  const now = deps.clock.now()
  const hash = password === undefined ? null : await hashPassword(password)
  return deps.store.write((tx) => {
    if (findUser(tx, address.address))
      throw new OperatorError(`The user ${address.address} already exists; use another address.`)
    const first = tx.first(db.selectFrom('users').select('key').limit(1)) === undefined
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
        created_at: now,
        updated_at: now,
      }),
    )
    const added = must(findUser(tx, address.address), 'The new user')
    const { account, role } = member ?? { account: added.key, role: 'owner' }
    insertMember(tx, { account, role, user: added.key, joined: !invited }, now)
    also(tx, added)
    return added
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
      db
        .updateTable('users')
        .set({ password_hash: hash, locked_at: null, updated_at: deps.clock.now() })
        .where('key', '=', user.key),
    )
    endSessions(tx, user.key)
    return user
  })
}

export const userByKey = (reader: Reader, key: number): User | undefined =>
  reader.first(db.selectFrom('users').selectAll().where('key', '=', key))

export const userById = (reader: Reader, id: string): User | undefined =>
  reader.first(db.selectFrom('users').selectAll().where('id', '=', id))

/** Returns a domain of a user, present or removed, or undefined. */
export const ownedDomain = (
  reader: Reader,
  { key }: Pick<User, 'key'>,
): { name: string; deleted_at: number | null } | undefined =>
  reader.first(
    db
      .selectFrom('domains')
      .select(['name', 'deleted_at'])
      .where('user_key', '=', key)
      // A present domain comes before a removed one.
      .orderBy('deleted_at', 'asc')
      .limit(1),
  )

export function findUser(reader: Reader, email: string): User | undefined {
  // The stored form: an international domain name is stored as A-labels.
  const address = parseAddress(email)?.address ?? email.trim()
  return reader.first(db.selectFrom('users').selectAll().where('email', '=', address))
}

/** Throws an OperatorError if there is no such user. */
export function requireUser(reader: Reader, email: string): User {
  const user = findUser(reader, email)
  if (!user) throw new OperatorError(`There is no user ${email}; add one with "postrider user add ${email}".`)
  return user
}

export function listUsers(reader: Reader): User[] {
  return reader.all(db.selectFrom('users').selectAll().orderBy('key'))
}

/** Sets whether a user gets a daily summary. Throws an OperatorError if there is no such user. */
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

/** Users whose last summary was made before a time (ms). */
export function summaryDue(reader: Reader, before: number): User[] {
  return reader.all(
    db.selectFrom('users').selectAll().where('summary', '=', 'daily').where('summary_at', '<', before).orderBy('key'),
  )
}

export function summaryMade(tx: Tx, { key }: User, at: number): void {
  tx.run(db.updateTable('users').set({ summary_at: at }).where('key', '=', key))
}

/** The caller's name for a history: the address of a signed-in user, or the name of a token. */
export const nameOfCaller = (
  reader: Reader,
  { person, tokenId }: { person?: { email: string }; tokenId: string },
): string =>
  person?.email ?? reader.first(raw<{ name: string }>('select name from tokens where id = ?', [tokenId]))?.name ?? ''
