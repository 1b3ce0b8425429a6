// Links that sign a person in once: mailed on request, and printed by the sandbox. Each lasts 15 minutes; only its
// SHA-256 is stored.
import { createHash } from 'node:crypto'
import { MINUTE, type Clock } from '../base/clock.ts'
import { newSecret } from '../base/ids.ts'
import type { Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { User } from './users.ts'

const LASTS = 15 * MINUTE

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

/** Stores a link and returns its token. An earlier link of the user becomes invalid. */
export function makeLink(tx: Tx, user: Pick<User, 'key'>, now: number): string {
  const token = newSecret('')
  tx.run(
    db.deleteFrom('sign_in_links').where((eb) => eb.or([eb('user_key', '=', user.key), eb('expires_at', '<=', now)])),
  )
  tx.run(db.insertInto('sign_in_links').values({ hash: digest(token), user_key: user.key, expires_at: now + LASTS }))
  return token
}

/** Uses a link. Returns its user; undefined when it was used before, has expired or never existed. */
export function useLink({ clock, store }: { store: Store; clock: Clock }, token: string): Promise<User | undefined> {
  return store.write((tx) => {
    const link = tx.first(
      db.deleteFrom('sign_in_links').where('hash', '=', digest(token)).returning(['user_key', 'expires_at']),
    )
    if (!link || clock.now() >= link.expires_at) return undefined
    return tx.first(db.selectFrom('users').selectAll().where('key', '=', link.user_key))
  })
}
