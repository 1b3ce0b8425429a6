// Links that sign a user in once: emailed on request, and printed by the sandbox. Each is valid for 15 minutes. Only
// its SHA-256 is stored.
import { createHash } from 'node:crypto'
import { MINUTE, type Clock } from '../base/clock.ts'
import { newSecret } from '../base/ids.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { User } from './users.ts'

const LASTS = 15 * MINUTE
/** The maximum number of valid links of a user at a time. */
export const MOST_LINKS = 5

const digest = (token: string): Buffer => createHash('sha256').update(token).digest()

/** Stores a link and returns its token. Earlier links stay valid, because anyone can request links for an address. */
export function makeLink(tx: Tx, user: Pick<User, 'key'>, now: number): string {
  const token = newSecret('')
  tx.run(db.deleteFrom('sign_in_links').where('expires_at', '<=', now))
  tx.run(db.insertInto('sign_in_links').values({ hash: digest(token), user_key: user.key, expires_at: now + LASTS }))
  return token
}

/** The number of valid links of a user. */
export const linksOf = (reader: Reader, user: Pick<User, 'key'>, now: number): number =>
  reader.all(
    db.selectFrom('sign_in_links').select('hash').where('user_key', '=', user.key).where('expires_at', '>', now),
  ).length

/** Returns the user of a link, or undefined if it is not valid. The link stays valid. */
export function ownerOfLink({ clock, store }: { store: Store; clock: Clock }, token: string): User | undefined {
  const link = store.first(
    db
      .selectFrom('sign_in_links')
      .select('user_key')
      .where('hash', '=', digest(token))
      .where('expires_at', '>', clock.now()),
  )
  return link && store.first(db.selectFrom('users').selectAll().where('key', '=', link.user_key))
}

/** Uses a link, and with it all links of its user. Returns the user, or undefined if the link is not valid. */
export function useLink({ clock, store }: { store: Store; clock: Clock }, token: string): Promise<User | undefined> {
  return store.write((tx) => {
    const link = tx.first(
      db.deleteFrom('sign_in_links').where('hash', '=', digest(token)).returning(['user_key', 'expires_at']),
    )
    if (!link || clock.now() >= link.expires_at) return undefined
    tx.run(db.deleteFrom('sign_in_links').where('user_key', '=', link.user_key))
    return tx.first(db.selectFrom('users').selectAll().where('key', '=', link.user_key))
  })
}
