// Sessions of users in browsers (D76). One session is for the console and the pages of OAuth. The cookie holds 32
// random bytes, of which only the SHA-256 is stored. A session expires after 12 hours without a request and after 30
// days. Its user can close it, and a new password closes all.
import { createHash } from 'node:crypto'
import { DAY, HOUR, MINUTE, type Clock } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { newId, newSecret } from '../base/ids.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, statement } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export type Session = RowOf<'sessions'>

/** The signal of a commit that closes sessions of a user. */
export const SESSIONS = 'sessions'

const IDLE = 12 * HOUR
const LONGEST = 30 * DAY
/** How long the row of an expired session is kept. It proves that a form belongs to its user. */
const KEPT = 7 * DAY
/** The minimum time between two writes of the last use, of a session and of its user. */
const NOTED_EVERY = MINUTE
const SEEN_EVERY = 15 * MINUTE
/** Bytes of the User-Agent header that are stored. */
const MAX_PROGRAM = 200

const digest = (secret: string): Buffer => createHash('sha256').update(secret).digest()

/**
 * Opens a session and returns the secret for the cookie, which is not stored. An open invitation counts as used. Throws
 * a refusal: 401 for a user who was removed or locked out during the sign-in, 403 for a user without an account.
 */
export async function openSession(
  { clock, store }: { store: Store; clock: Clock },
  user: { key: number },
  program: string,
): Promise<string> {
  const now = clock.now()
  const secret = newSecret('')
  await store.write((tx) => {
    const known = tx.first(db.selectFrom('users').select(['locked_at', 'operator']).where('key', '=', user.key))
    if (known?.locked_at !== null) throw refuse('unauthenticated', 'This account cannot sign in.')
    const member = db.selectFrom('members').select('key').where('member_key', '=', user.key).limit(1)
    if (known.operator === 0 && !tx.first(member))
      throw refuse('insufficient_scope', 'You are not a member of an account. Ask the owner of one to invite you.')
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
    const open = db.updateTable('invitations').where('user_key', '=', user.key).where('used_at', 'is', null)
    const first = tx.run(open.set({ used_at: now })).changes > 0
    if (first || !tx.first(member.where('joined_at', 'is not', null))) acceptAll(tx, user.key, now)
  })
  return secret
}

/** A user who signs in for the first time, or is not a member of an account, accepts all invitations. */
export const acceptAll = (tx: Tx, user: number, now: number): unknown =>
  tx.run(
    db
      .updateTable('members')
      .set({ joined_at: now, updated_at: now })
      .where('member_key', '=', user)
      .where('joined_at', 'is', null),
  )

/** Deletes expired sessions. The hourly tasks call it, unless the date of the machine is in doubt (D120). */
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

/** The session of a cookie, even if it has expired. It gives no rights. */
export const anySession = (reader: Reader, secret: string): Session | undefined =>
  reader.first(byHash({ hash: digest(secret) }))

/** Records the last use of a session, at most once per minute, and that of its user, at most every 15 minutes. */
export function noteSession(store: Store, { key, seen_at, user_key }: Session, now: number): void {
  if (now - seen_at < NOTED_EVERY) return
  const person = db.updateTable('users').set({ seen_at: now }).where('key', '=', user_key)
  // A lost write does little harm: the session expires a minute earlier.
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

/** Closes one session of a user by its id. Returns false if it does not exist. */
export function endSession({ store }: { store: Store }, userKey: number, id: string): Promise<boolean> {
  return store.write((tx) => {
    tx.signal(SESSIONS, userKey)
    return tx.run(db.deleteFrom('sessions').where('user_key', '=', userKey).where('id', '=', id)).changes > 0
  })
}

/** Closes every session of a user except the one with the key `but`. */
export function endSessions(tx: Tx, userKey: number, but?: number): number {
  tx.signal(SESSIONS, userKey)
  const all = db.deleteFrom('sessions').where('user_key', '=', userKey)
  return tx.run(but === undefined ? all : all.where('key', '!=', but)).changes
}

/** Shows an account in this session. With null, the user's first one is shown. */
export function openAs({ store }: { store: Store }, { key }: Session, userKey: number | null): Promise<void> {
  return store.write((tx) => void tx.run(db.updateTable('sessions').set({ open_as: userKey }).where('key', '=', key)))
}
