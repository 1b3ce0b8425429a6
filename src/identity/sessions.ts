// Sessions of people in browsers (D76); one session is for the console and the pages of OAuth. The cookie holds 32
// random bytes; only their SHA-256 is stored. A session ends after 12 hours without a request, after 30 days, when its
// owner ends it, or with a new password.
import { createHash } from 'node:crypto'
import { DAY, HOUR, MINUTE, type Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { newId, newSecret } from '../base/ids.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'

export type Session = RowOf<'sessions'>

/** The signal of a commit that ends sessions of a user. */
export const SESSIONS = 'sessions'

const IDLE = 12 * HOUR
const LONGEST = 30 * DAY
/** How long the row of a session that expired is kept: it proves that a form was its person's. */
const KEPT = 7 * DAY
/** The last use is written at most this often: of a session, and of its person. */
const NOTED_EVERY = MINUTE
const SEEN_EVERY = 15 * MINUTE
/** Octets of the User-Agent header that are stored. */
const MAX_PROGRAM = 200

const digest = (secret: string): Buffer => createHash('sha256').update(secret).digest()

/**
 * Opens a session; the secret is for the cookie and is not stored. Whoever is in needs no invitation any more, however
 * they came in. Throws a refusal (401) for somebody who was removed or locked out while they signed in.
 */
export async function openSession(
  { clock, store }: { store: Store; clock: Clock },
  user: { key: number },
  program: string,
): Promise<string> {
  const now = clock.now()
  const secret = newSecret('')
  await store.write((tx) => {
    const known = tx.first(db.selectFrom('users').select('locked_at').where('key', '=', user.key))
    if (known?.locked_at !== null) throw refuse('unauthenticated', 'This account cannot sign in.')
    tx.run(
      db.insertInto('sessions').values({
        id: newId(now),
        hash: digest(secret),
        user_key: user.key,
        program: program.slice(0, MAX_PROGRAM),
        created_at: now,
        seen_at: now,
      }),
    )
    tx.run(db.updateTable('users').set({ seen_at: now }).where('key', '=', user.key))
    tx.run(
      db.updateTable('invitations').set({ used_at: now }).where('user_key', '=', user.key).where('used_at', 'is', null),
    )
  })
  return secret
}

/** Deletes the sessions whose time is over. The hourly tasks call it, which a doubted date stops (D120). */
export const forgetSessions = (store: Store, now: number): Promise<unknown> =>
  store.write((tx) =>
    tx.run(
      db
        .deleteFrom('sessions')
        .where((eb) => eb.or([eb('seen_at', '<=', now - IDLE - KEPT), eb('created_at', '<=', now - LONGEST - KEPT)])),
    ),
  )

const byHash = statement<{ hash: Uint8Array }>()((arg) =>
  db.selectFrom('sessions').selectAll().where('hash', '=', arg.hash),
)

/**
 * The session of a cookie, if it has not expired. It is found by hash, so the time reveals nothing about the secret.
 */
export function findSession(reader: Reader, secret: string, now: number): Session | undefined {
  const session = anySession(reader, secret)
  return session && now - session.seen_at < IDLE && now - session.created_at < LONGEST ? session : undefined
}

/** The session of a cookie, also when it has expired. It gives no rights. */
export const anySession = (reader: Reader, secret: string): Session | undefined =>
  reader.first(byHash({ hash: digest(secret) }))

/** Writes the last use of a session, at most once a minute, and that of its person at most each quarter of an hour. */
export function noteSession(store: Store, { key, seen_at, user_key }: Session, now: number): void {
  if (now - seen_at < NOTED_EVERY) return
  const person = db.updateTable('users').set({ seen_at: now }).where('key', '=', user_key)
  // A lost write does little harm: the session ends a minute earlier.
  store
    .write((tx) => {
      tx.run(db.updateTable('sessions').set({ seen_at: now }).where('key', '=', key))
      tx.run(person.where((eb) => eb.or([eb('seen_at', 'is', null), eb('seen_at', '<=', now - SEEN_EVERY)])))
    })
    .catch(() => {})
}

/** The open sessions of a user, the last used first. */
export function listSessions(reader: Reader, userKey: number, now: number): Session[] {
  return reader.all(
    db
      .selectFrom('sessions')
      .selectAll()
      .where('user_key', '=', userKey)
      .where('seen_at', '>', now - IDLE)
      .where('created_at', '>', now - LONGEST)
      .orderBy('seen_at', 'desc'),
  )
}

/** Ends one session of a user by its id. False when there is none. */
export function endSession({ store }: { store: Store }, userKey: number, id: string): Promise<boolean> {
  return store.write((tx) => {
    tx.signal(SESSIONS, userKey)
    return tx.run(db.deleteFrom('sessions').where('user_key', '=', userKey).where('id', '=', id)).changes > 0
  })
}

/** Ends every session of a user except the one with the key `but`. */
export function endSessions(tx: Tx, userKey: number, but?: number): number {
  tx.signal(SESSIONS, userKey)
  const all = db.deleteFrom('sessions').where('user_key', '=', userKey)
  return tx.run(but === undefined ? all : all.where('key', '!=', but)).changes
}

/** Lets an operator look at another account in this session; with null the operator is back in the own account. */
export function openAs({ store }: { store: Store }, { key }: Session, userKey: number | null): Promise<void> {
  return store.write((tx) => void tx.run(db.updateTable('sessions').set({ open_as: userKey }).where('key', '=', key)))
}
