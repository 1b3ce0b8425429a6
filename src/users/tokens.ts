// Personal access tokens (specification "Authentication", D14, D15). Only a SHA-256 of the plaintext is stored. The
// plaintext is 32 random bytes and cannot be guessed, so a fast hash is as safe as a slow one. A token is read with
// `reader.fact`: a revoked token is rejected at once, even if another process revoked it. The recipients of a token are
// counted by day (UTC), for the daily limit that the operator may set: it limits the harm of a stolen token.
import { createHash } from 'node:crypto'
import { addMonths, MINUTE, type Clock, DAY, dayOf, iso } from '../base/clock.ts'
import { newId, newSecret } from '../base/ids.ts'
import { jsonOf } from '../base/json.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw, sql, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Scope } from '../jsonapi/scopes.ts'
import { refuse } from '../base/errors.ts'

export type Token = RowOf<'tokens'>
export const DURATIONS = { '1_month': 1, '6_months': 6, '12_months': 12 } as const
export type Duration = keyof typeof DURATIONS

export interface NewToken {
  name: string
  scopes: readonly Scope[]
  duration: Duration
  /** An operator makes it, so that it has the rights of one. */
  operator?: boolean | undefined
  /** The agent of email that is sent with this token and names no agent. */
  agentId?: string | undefined
  /** The maximum number of recipients per day (UTC). */
  daily?: number | undefined
  /** The token that creates it, whose agent and limit it inherits. */
  maker?: Maker | undefined
}

interface Maker {
  key: number
  agentId: string | null
  daily: number | null
}

const digest = (plaintext: string): Buffer => createHash('sha256').update(plaintext).digest()

/** Creates a token. Its `plaintext` cannot be read again later. */
export async function createToken(
  deps: { store: Store; clock: Clock },
  userKey: number,
  { name, scopes, duration, operator, agentId, daily, maker }: NewToken,
): Promise<{ token: Token; plaintext: string }> {
  const now = deps.clock.now()
  const plaintext = newSecret('pr_')
  const token = await deps.store.write((tx) => {
    const { key } = tx.run(
      db.insertInto('tokens').values({
        id: newId(now),
        user_key: userKey,
        name,
        scopes: JSON.stringify([...new Set(scopes)]),
        duration,
        hash: digest(plaintext),
        last_four: plaintext.slice(-4),
        agent_id: maker?.agentId ?? agentId ?? null,
        daily: maker?.daily ?? daily ?? null,
        maker_key: maker?.key ?? null,
        operator: operator ? 1 : 0,
        expires_at: addMonths(now, DURATIONS[duration]),
        created_at: now,
        updated_at: now,
      }),
    )
    return tx.one(db.selectFrom('tokens').selectAll().where('key', '=', key))
  })
  return { token, plaintext }
}

const known = db
  .selectFrom('tokens')
  .innerJoin('users', 'users.key', 'tokens.user_key')
  .select([
    'tokens.key',
    'tokens.id',
    'tokens.user_key',
    'tokens.scopes',
    'tokens.agent_id',
    'tokens.daily',
    'tokens.maker_key',
    'tokens.expires_at',
    'tokens.last_used_at',
    'users.id as user_id',
    // Users who are no longer operators have no such token.
    sql<0 | 1>`tokens.operator and users.operator`.as('operator'),
  ])

const byHash = statement<{ hash: Uint8Array }>()((arg) => known.where('tokens.hash', '=', arg.hash))
const byKey = statement<{ key: number }>()((arg) => known.where('tokens.key', '=', arg.key))

export interface KnownToken {
  key: number
  id: string
  user_key: number
  user_id: string
  operator: 0 | 1
  scopes: string
  agent_id: string | null
  daily: number | null
  maker_key: number | null
  expires_at: number
  last_used_at: number | null
}

/** Finds a token by its plaintext, even if it has expired. It is found by hash, so timing reveals nothing. */
export function findToken(reader: Reader, plaintext: string): KnownToken | undefined {
  return reader.fact(byHash({ hash: digest(plaintext) }))
}

/** The key of a token that has a daily limit, or may have one through its creator. */
export const limitedKey = ({ daily, key, maker_key }: Pick<KnownToken, 'daily' | 'key' | 'maker_key'>) =>
  daily === null && maker_key === null ? undefined : key

/** The scopes of a token, or [] if the stored list is corrupt. */
export function scopesOf({ scopes }: Pick<KnownToken, 'scopes'>): string[] {
  const read = jsonOf(scopes)
  return Array.isArray(read) ? (read as string[]) : []
}

/** Reads a known token again, even if it has expired. Returns undefined if it was revoked. */
export const liveToken = (reader: Reader, key: number): KnownToken | undefined => reader.fact(byKey({ key }))

/** Records the use of a token, at most once a minute. */
export function noteUse(store: Store, token: KnownToken, now: number): void {
  if (token.last_used_at !== null && now - token.last_used_at < MINUTE) return
  // A lost write (disk full, shutdown) does no harm, and the request itself reports the problem.
  store
    .write((tx) => tx.run(db.updateTable('tokens').set({ last_used_at: now }).where('key', '=', token.key)))
    .catch(() => {})
}

/**
 * Changes a token's agent and daily limit. Null removes the value. Tokens that it created get the same agent, and its
 * limit includes their recipients. Returns false if the token does not exist.
 */
export function changeToken(
  deps: { store: Store; clock: Clock },
  id: string,
  change: { agent_id?: string | null; daily?: number | null },
): Promise<boolean> {
  const updated_at = deps.clock.now()
  return deps.store.write((tx) => {
    const { changes } = tx.run(
      db
        .updateTable('tokens')
        .set({ ...change, updated_at })
        .where('id', '=', id),
    )
    if (change.agent_id !== undefined)
      tx.run(
        raw(
          `with recursive made(key) as (
             select m.key from tokens m join tokens t on t.key = m.maker_key where t.id = ?
             union select m.key from tokens m join made on m.maker_key = made.key
           ) update tokens set agent_id = ?, updated_at = ? where key in (select key from made)`,
          [id, change.agent_id, updated_at],
        ),
      )
    return changes > 0
  })
}

/** Whether a token is another one, or was created by it directly or indirectly. */
export const comesFrom = (reader: Reader, key: number, maker: number): boolean =>
  reader.first(
    raw<{ key: number }>(
      `with recursive line (key, maker_key) as (
         select key, maker_key from tokens where key = ?
         union all select t.key, t.maker_key from tokens t join line on t.key = line.maker_key)
       select key from line where key = ?`,
      [key, maker],
    ),
  ) !== undefined

/** Revokes a token by its public id, and the tokens that it created. Returns false if it does not exist. */
export function revokeToken(store: Store, id: string): Promise<boolean> {
  return store.write((tx) => tx.run(db.deleteFrom('tokens').where('id', '=', id)).changes > 0)
}

export function listTokens(reader: Reader, userKey?: number): (Token & { email: string })[] {
  const all = db
    .selectFrom('tokens')
    .innerJoin('users', 'users.key', 'tokens.user_key')
    .selectAll('tokens')
    .select('users.email')
    .orderBy('tokens.key')
  return reader.all(userKey === undefined ? all : all.where('tokens.user_key', '=', userKey))
}

const KEPT = 31

/** A token and the tokens through which it was created, with the first creator last (D117). */
const LINE = `with recursive line(key, step) as (
    select ?, 0 union select t.maker_key, step + 1 from tokens t join line on t.key = line.key where t.maker_key is not null
  ) select t.key, t.daily, t.name, (select recipients from token_days d where d.token_key = t.key and d.day = ?) as used
  from line join tokens t on t.key = line.key where t.daily is not null order by step`

/**
 * Counts recipients of a token that may have a limit, for it and for the tokens through which it was created: the
 * limits of its creators apply, too. Throws 422 volume_exceeded, and then counts no recipient.
 */
export function useTokenDay(tx: Tx, tokenKey: number, recipients: number, now: number): void {
  const day = dayOf(now)
  type Limited = { key: number; daily: number; name: string; used: number | null }
  const limited = tx.all(raw<Limited>(LINE, [tokenKey, day]))
  for (const { daily, name, used } of limited)
    if ((used ?? 0) + recipients > daily)
      throw refuse(
        'volume_exceeded',
        `The token ${name} may send to ${daily} recipients per day. ${used ?? 0} are used, and this email needs ${recipients} more. The daily limit resets at ${iso((day + 1) * DAY)}.`,
        { pointer: '/data' },
      )
  for (const { key } of limited) {
    tx.run(
      raw(
        `insert into token_days (token_key, day, recipients) values (?, ?, ?)
         on conflict do update set recipients = recipients + excluded.recipients`,
        [key, day, recipients],
      ),
    )
    tx.run(raw('delete from token_days where token_key = ? and day < ?', [key, day - KEPT]))
  }
}
