// Personal access tokens (specification "Authentication", D14, D15). Only a SHA-256 of the plaintext is kept: the plaintext
// is 32 random bytes, so a fast hash is as good as a slow one. Nothing is cached, so that a revoked token fails at once, also
// when another process revoked it.
import { createHash } from 'node:crypto'
import { addMonths, MINUTE, type Clock } from '../base/clock.ts'
import { newId, newSecret } from '../base/ids.ts'
import type { Reader, Store } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/tables.ts'
import type { Scope } from './scopes.ts'

export type Token = RowOf<'tokens'>
export const DURATIONS = { '1_month': 1, '6_months': 6, '12_months': 12 } as const
export type Duration = keyof typeof DURATIONS

export interface NewToken {
  name: string
  scopes: readonly Scope[]
  duration: Duration
}

const digest = (plaintext: string): Buffer => createHash('sha256').update(plaintext).digest()

/** Makes a token; `plaintext` is shown this once. */
export async function createToken(
  desk: { store: Store; clock: Clock },
  userKey: number,
  { name, scopes, duration }: NewToken,
): Promise<{ token: Token; plaintext: string }> {
  const now = desk.clock.now()
  const plaintext = newSecret('pr_')
  const token = await desk.store.write((tx) => {
    const { key } = tx.run(
      db.insertInto('tokens').values({
        id: newId(now),
        user_key: userKey,
        name,
        scopes: JSON.stringify([...new Set(scopes)]),
        duration,
        hash: digest(plaintext),
        last_four: plaintext.slice(-4),
        expires_at: addMonths(now, DURATIONS[duration]),
        created_at: now,
        updated_at: now,
      }),
    )
    return tx.first(db.selectFrom('tokens').selectAll().where('key', '=', key))!
  })
  return { token, plaintext }
}

const byHash = statement<{ hash: Uint8Array }>()((arg) =>
  db
    .selectFrom('tokens')
    .innerJoin('users', 'users.key', 'tokens.user_key')
    .select([
      'tokens.key',
      'tokens.id',
      'tokens.user_key',
      'tokens.scopes',
      'tokens.expires_at',
      'tokens.last_used_at',
      'users.id as user_id',
    ])
    .where('tokens.hash', '=', arg.hash),
)

export interface KnownToken {
  key: number
  id: string
  user_key: number
  user_id: string
  scopes: string
  expires_at: number
  last_used_at: number | null
}

/** The token behind a plaintext, expired ones included. The look-up is by hash, which takes no secret-dependent time. */
export function findToken(reader: Reader, plaintext: string): KnownToken | undefined {
  return reader.first(byHash({ hash: digest(plaintext) }))
}

/** Notes the use of a token, at most once a minute. */
export function noteUse(store: Store, token: KnownToken, now: number): void {
  if (token.last_used_at !== null && now - token.last_used_at < MINUTE) return
  // A note that is lost (a full disk, a stop) costs nothing; the request itself reports such things.
  store
    .write((tx) => tx.run(db.updateTable('tokens').set({ last_used_at: now }).where('key', '=', token.key)))
    .catch(() => {})
}

/** Revokes a token by its public id; false when there is none. */
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
