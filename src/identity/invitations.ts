// Invitations: whoever was added comes in by a link, once and within seven days, and chooses a password or a passkey
// there. Nothing secret is stored: the link is the id of the invitation with a MAC over it and its person.
import { DAY, type Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { upTo } from '../base/text.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { hashPassword, userByKey, type User } from './users.ts'

export type Invitation = RowOf<'invitations'>

const LASTS = 7 * DAY
/** How long the row of a link that ended is kept: its page says why it ended. */
const KEPT = 90 * DAY

export interface InvitationDeps {
  store: Store
  clock: Clock
  keyring: Keyring
}

/** Why a link leads nowhere. */
type EndedLink = 'unknown' | 'used' | 'expired' | 'replaced' | 'withdrawn'

/** What is behind a link: an invitation that counts, or why it does not. */
export type FoundLink = { invitation: Invitation; user: User } | EndedLink

const macOf = (keyring: Keyring, { id }: Pick<Invitation, 'id'>, user: Pick<User, 'id'>): Buffer =>
  keyring.mac('session', JSON.stringify(['invitation', id, user.id]))

/** The link of an invitation, below the URL of the server. */
export const linkOf = (
  { config, keyring }: { keyring: Keyring; config: { http: { public_url: string } } },
  invitation: Pick<Invitation, 'id'>,
  user: Pick<User, 'id'>,
): string =>
  `${config.http.public_url}/join?link=${invitation.id}.${macOf(keyring, invitation, user).toString('base64url')}`

/** Invites a person; an earlier link leads nowhere from now on. Whoever was locked out may come in again. */
export function invite(tx: Tx, user: Pick<User, 'key'>, now: number, lasts = LASTS): Invitation {
  const id = newId(now)
  tx.run(db.updateTable('users').set({ locked_at: null }).where('key', '=', user.key))
  tx.run(db.insertInto('invitations').values({ id, user_key: user.key, created_at: now, expires_at: now + lasts }))
  return tx.one(db.selectFrom('invitations').selectAll().where('id', '=', id))
}

/** Notes which notice carries the link. */
export function invitedBy(tx: Tx, { key }: Pick<Invitation, 'key'>, noticeId: string): void {
  tx.run(db.updateTable('invitations').set({ notice_id: noticeId }).where('key', '=', key))
}

/** The newest invitation of a person. */
const newestOf = (reader: Reader, userKey: number): Invitation | undefined =>
  reader.first(db.selectFrom('invitations').selectAll().where('user_key', '=', userKey).orderBy('key', 'desc').limit(1))

/** The invitation that a person has not used, expired ones too; undefined when there is none. */
export function invitationOf(reader: Reader, { key }: Pick<User, 'key'>): Invitation | undefined {
  const newest = newestOf(reader, key)
  return newest?.used_at === null ? newest : undefined
}

/** Whether a person can be invited: nobody who has been here, unless they were locked out. */
export const isInvitable = (reader: Reader, user: User): boolean =>
  user.locked_at !== null || user.seen_at === null || invitationOf(reader, user) !== undefined

/** What a link leads to. The link stays valid. */
export function findLink({ clock, keyring, store }: InvitationDeps, token: string): FoundLink {
  const id = upTo(token, '.')
  const invitation = store.first(db.selectFrom('invitations').selectAll().where('id', '=', id))
  if (!invitation) return 'unknown'
  if (invitation.user_key === null) return 'withdrawn'
  const user = userByKey(store, invitation.user_key)
  const mac = Buffer.from(token.slice(id.length + 1), 'base64url')
  const text = JSON.stringify(['invitation', id, user?.id])
  if (!user || !keyring.proves('session', text, mac)) return 'unknown'
  if (newestOf(store, user.key)?.key !== invitation.key) return 'replaced'
  if (invitation.used_at !== null) return 'used'
  return clock.now() < invitation.expires_at ? { invitation, user } : 'expired'
}

/** Uses up an invitation. False when another request was faster, or it was withdrawn or replaced meanwhile. */
export function useInvitation(tx: Tx, { key }: Pick<Invitation, 'key'>, now: number): boolean {
  const owner = tx.first(db.selectFrom('invitations').select('user_key').where('key', '=', key))?.user_key ?? null
  const newest = owner === null ? undefined : newestOf(tx, owner)
  if (newest?.key !== key || newest.used_at !== null || now >= newest.expires_at) return false
  tx.run(db.updateTable('invitations').set({ used_at: now }).where('key', '=', key))
  return true
}

/** Uses up an invitation with the password that its person chose. False as above. */
export async function joinByPassword(
  { clock, store }: InvitationDeps,
  invitation: Invitation,
  password: string,
): Promise<boolean> {
  const password_hash = await hashPassword(password)
  return store.write((tx) => {
    const now = clock.now()
    if (!useInvitation(tx, invitation, now)) return false
    tx.run(db.updateTable('users').set({ password_hash, updated_at: now }).where('key', '=', invitation.user_key))
    return true
  })
}

/** Deletes what links that ended long ago need to say why. */
export const forgetInvitations = (store: Store, now: number): Promise<unknown> =>
  store.write((tx) => tx.run(db.deleteFrom('invitations').where('expires_at', '<=', now - KEPT)))
