// Personal access tokens (specification "Authentication", D14, D15). Only a SHA-256 of the plaintext is stored. The
// plaintext is 32 random bytes and cannot be guessed, so a fast hash is as safe as a slow one. A token is read with
// `reader.fact`: a revoked token fails at once, even when another process revoked it.
import { createHash } from 'node:crypto'
import { addMonths, MINUTE, type Clock } from '../base/clock.ts'
import { newId, newSecret } from '../base/ids.ts'
import { jsonOf } from '../base/json.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, raw, statement } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Scope } from './scopes.ts'

export type Token = RowOf<'tokens'>
export const DURATIONS = { '1_month': 1, '6_months': 6, '12_months': 12 } as const
export type Duration = keyof typeof DURATIONS

export interface NewToken {
  name: string
  scopes: readonly Scope[]
  duration: Duration
  /** The agent of mail that is sent with this token and names no agent. */
  agentId?: string | undefined
  /** The most recipients per day (UTC). */
  daily?: number | undefined
  /** The token that makes it: a token that a token makes has the agent, the limit and at most the end of its maker. */
  maker?: Maker | undefined
}

interface Maker {
  key: number
  agentId: string | null
  daily: number | null
  expiresAt: number
}

const digest = (plaintext: string): Buffer => createHash('sha256').update(plaintext).digest()

/** Creates a token; `plaintext` cannot be read again later. */
export async function createToken(
  deps: { store: Store; clock: Clock },
  userKey: number,
  { name, scopes, duration, agentId, daily, maker }: NewToken,
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
        expires_at: Math.min(addMonths(now, DURATIONS[duration]), maker?.expiresAt ?? Infinity),
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
    'users.operator',
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

/** The token of a plaintext, even if expired. It is found by its hash, so the time reveals nothing about the secret. */
export function findToken(reader: Reader, plaintext: string): KnownToken | undefined {
  return reader.fact(byHash({ hash: digest(plaintext) }))
}

/** The key of a token that has a limit of recipients in a day, or may have one through its maker. */
export const limitedKey = ({ daily, key, maker_key }: Pick<KnownToken, 'daily' | 'key' | 'maker_key'>) =>
  daily === null && maker_key === null ? undefined : key

/** The scopes of a token; empty when the stored list is damaged. */
export function scopesOf({ scopes }: Pick<KnownToken, 'scopes'>): string[] {
  const read = jsonOf(scopes)
  return Array.isArray(read) ? (read as string[]) : []
}

/** Reads a known token again; undefined when it was revoked. It may have expired. */
export const liveToken = (reader: Reader, key: number): KnownToken | undefined => reader.fact(byKey({ key }))

/** Records the use of a token, at most once a minute. */
export function noteUse(store: Store, token: KnownToken, now: number): void {
  if (token.last_used_at !== null && now - token.last_used_at < MINUTE) return
  // A lost write (a full disk, a stop) does no harm; the request itself reports such trouble.
  store
    .write((tx) => tx.run(db.updateTable('tokens').set({ last_used_at: now }).where('key', '=', token.key)))
    .catch(() => {})
}

/**
 * Changes a token's agent and daily limit; null removes the value. Tokens that it made get the same agent; its limit
 * holds for them as it is. False when there is no such token.
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

/** Whether a token is another one, or was made by it, or by one that it made. */
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

/** Revokes a token by its public id, and with it every token that it made; false when there is none. */
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
