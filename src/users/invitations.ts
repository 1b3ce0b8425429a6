// Invitations: a new user signs in with a link, once and within seven days, and sets a password or passkey. The link is
// the id of the invitation with a MAC over it and its user, so it contains no stored secret. The invitation and the
// notification with its link are one transaction. If other users could read that email, the operator gets the link
// instead.
import { DAY, iso, type Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import type { Keyring } from '../base/keyring.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import { upTo } from '../base/text.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import { hashPassword, userByKey, type User, addUser, findUser, requireUser, type NewUser } from './users.ts'
import { acceptAll } from './sessions.ts'
import { addNotice, dropNotice, findNotice } from './notices.ts'
import type { Config } from '../base/config.ts'
import { OperatorError, refuse } from '../base/errors.ts'
import { ROLES, type RoleName } from '../jsonapi/roles.ts'
import { accountsOf, addMember, membershipText, membersOf } from './members.ts'
import type { LinkMail } from './parts.ts'
import { parseAddress } from '../message/address.ts'

export type Invitation = RowOf<'invitations'>

const LASTS = 7 * DAY
/** How long the row of an invalid link is kept, so that its page can show why it is invalid. */
const KEPT = 90 * DAY

interface InvitationDeps {
  store: Store
  clock: Clock
  keyring: Keyring
}

/** The reason why a link is invalid. */
type EndedLink = 'unknown' | 'used' | 'expired' | 'replaced' | 'withdrawn'

/** The invitation of a link, or the reason why the link is invalid. */
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

/** Invites a user. An earlier link becomes invalid. A lockout is lifted. */
export function invite(tx: Tx, user: Pick<User, 'key'>, now: number, lasts = LASTS): Invitation {
  const id = newId(now)
  tx.run(db.updateTable('users').set({ locked_at: null }).where('key', '=', user.key))
  tx.run(db.insertInto('invitations').values({ id, user_key: user.key, created_at: now, expires_at: now + lasts }))
  return tx.one(db.selectFrom('invitations').selectAll().where('id', '=', id))
}

/** Returns the newest invitation of a user. */
const newestOf = (reader: Reader, userKey: number): Invitation | undefined =>
  reader.first(db.selectFrom('invitations').selectAll().where('user_key', '=', userKey).orderBy('key', 'desc').limit(1))

/** Returns the unused invitation of a user, even if it has expired, or undefined. */
export function invitationOf(reader: Reader, { key }: Pick<User, 'key'>): Invitation | undefined {
  const newest = newestOf(reader, key)
  return newest?.used_at === null ? newest : undefined
}

/** Whether a user can be invited: if they never signed in, were locked out, or are not a member of an account. */
const isInvitable = (reader: Reader, user: User): boolean =>
  user.locked_at !== null ||
  user.seen_at === null ||
  invitationOf(reader, user) !== undefined ||
  (user.operator === 0 && accountsOf(reader, user.key).every(({ joined_at }) => joined_at === null))

/** Finds the invitation of a link. The link stays valid. */
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

/**
 * Uses up an invitation. Returns false if another request was faster, or it was withdrawn or replaced in the meantime.
 */
export function useInvitation(tx: Tx, { key }: Pick<Invitation, 'key'>, now: number): boolean {
  const owner = tx.first(db.selectFrom('invitations').select('user_key').where('key', '=', key))?.user_key ?? null
  const newest = owner === null ? undefined : newestOf(tx, owner)
  if (newest?.key !== key || newest.used_at !== null || now >= newest.expires_at) return false
  tx.run(db.updateTable('invitations').set({ used_at: now }).where('key', '=', key))
  acceptAll(tx, newest.user_key!, now)
  return true
}

/** Uses an invitation and sets the password. Returns false if the invitation is no longer valid. */
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

/** Deletes invitations that expired long ago, and the counts of emails. */
export const forgetInvitations = (store: Store, now: number): Promise<unknown> =>
  store.write((tx) => {
    tx.run(db.deleteFrom('invitations').where('expires_at', '<=', now - KEPT))
    tx.run(db.deleteFrom('invitation_mails').where('sent_at', '<=', now - DAY))
  })

export interface InviteDeps extends InvitationDeps {
  config: Pick<Config, 'hostname' | 'http'>
  linkMail: LinkMail
}

/** Returns why no link is emailed to an address, or undefined if one is. */
function whyNotMailed(deps: InviteDeps, email: string): string | undefined {
  if (deps.linkMail.isReadHere(parseAddress(email)?.address ?? ''))
    return `Email to ${email} is delivered to this server, where other users may be able to read it.`
  if (!deps.linkMail.isAuthenticated())
    return `This server has no verified domain that covers ${deps.config.hostname}, so it cannot send authenticated email.`
  return undefined
}

/**
 * Adds a user and invites them. `given.member`: the account that invites them. Throws an OperatorError or a refusal.
 */
export const addInvited = (deps: InviteDeps, given: NewUser, by?: string): Promise<User> =>
  addUser(deps, { ...given, invited: true }, (tx, user) => {
    const account = given.member?.account
    if (account !== undefined) requirePlace(tx, account)
    inviteIn(deps, tx, user, { by, account })
  })

/** The most members of an account, invitations included: an owner must not send email to any number of addresses. */
const MOST_MEMBERS = 100
/** The most invitations that an account emails within a day, in total and to one address. */
const MOST_MAILS = 100
const MOST_TO_ADDRESS = 3

/** Throws 422 if an account has too many members, the one just added included. */
function requirePlace(reader: Reader, account: number): void {
  if (membersOf(reader, account).length > MOST_MEMBERS)
    throw refuse('quota_exceeded', `An account can have at most ${MOST_MEMBERS} members. Remove some first.`)
}

/** Counts an email with an invitation. Throws 429 if there were too many within a day, even of removed members. */
function countMail({ clock, keyring }: InviteDeps, tx: Tx, account: number, email: string): void {
  const now = clock.now()
  const recipient_hash = recipientHash(keyring, email)
  const sent = tx.all(
    db
      .selectFrom('invitation_mails')
      .select(['recipient_hash', 'sent_at'])
      .where('account_key', '=', account)
      .where('sent_at', '>', now - DAY)
      .orderBy('sent_at'),
  )
  const same = sent.filter((each) => each.recipient_hash === recipient_hash)
  const again = same.at(-MOST_TO_ADDRESS) ?? sent.at(-MOST_MAILS)
  if (again)
    throw refuse(
      'rate_limited',
      `An account can email ${MOST_TO_ADDRESS} invitations per day to an address, and ${MOST_MAILS} in total. Try again after ${iso(again.sent_at + DAY)}.`,
    )
  tx.run(db.insertInto('invitation_mails').values({ account_key: account, recipient_hash, sent_at: now }))
}

export interface MemberInvitation {
  email: string
  name?: string
  account: Pick<User, 'key' | 'email'>
  role: RoleName
}

/**
 * Invites a user to an account. A new user is added, and joins with the first sign-in, as does a user who left all
 * accounts. Other users accept on the page of their accounts. Throws an OperatorError or a refusal.
 */
export async function inviteMember(
  deps: InviteDeps,
  { account, email, name, role }: MemberInvitation,
  by?: string,
): Promise<User> {
  const member = { account: account.key, role }
  if (!findUser(deps.store, email)) return addInvited(deps, { email, member, ...(name && { name }) }, by)
  return deps.store.write((tx) => {
    const now = deps.clock.now()
    const user = requireUser(tx, email)
    addMember(tx, { account: account.key, user: user.key, role, joined: false }, now)
    requirePlace(tx, account.key)
    if (user.operator === 0 && accountsOf(tx, user.key).length === 1) {
      inviteIn(deps, tx, user, { by, account: account.key })
      return requireUser(tx, email)
    }
    // The first sign-in of an invited user accepts this invitation, too.
    if (invitationOf(tx, user)) return user
    countMail(deps, tx, account.key, user.email)
    const { http } = deps.config
    const text = [
      `${by ?? 'The operator of the server'} invited you to the account of ${account.email} on Postrider at ${new URL(http.public_url).host}. Your role: ${ROLES[role].name}.`,
      `To accept or decline, sign in and open ${http.public_url}/accounts`,
      'If you did not expect this invitation, ignore this email.\n',
    ].join('\n\n')
    const subject = `You are invited to the account of ${account.email}`
    addNotice(tx, { user_key: user.key, recipient: user.email, domain_key: null, subject, text }, now)
    return user
  })
}

/**
 * Invites a user again and makes the previous link invalid. `account`: the account that invites them, if the operator
 * does not. Throws an OperatorError or a refusal.
 */
export const inviteAgain = (deps: InviteDeps, email: string, by?: string, account?: number): Promise<User> =>
  deps.store.write((tx) => {
    const user = requireUser(tx, email)
    if (!isInvitable(tx, user))
      throw new OperatorError(
        `${user.email} has signed in before, so no invitation is needed; set a new password with "postrider user passwd ${user.email}".`,
      )
    const notice = invitationOf(tx, user)?.notice_id
    if (notice) dropNotice(tx, notice)
    inviteIn(deps, tx, user, { by, account })
    return requireUser(tx, email)
  })

function inviteIn(
  deps: InviteDeps,
  tx: Tx,
  user: User,
  { account, by = 'The operator of the server' }: { by: string | undefined; account: number | undefined },
): void {
  const now = deps.clock.now()
  const invitation = invite(tx, user, now)
  if (whyNotMailed(deps, user.email) !== undefined) return
  if (account !== undefined) countMail(deps, tx, account, user.email)
  const server = new URL(deps.config.http.public_url).host
  const roles = accountsOf(tx, user.key)
    .filter(({ role, user_key }) => user_key !== user.key || role !== 'owner')
    .map((each) => ` Your role: ${membershipText(each)}.`)
  const text = [
    `${by} invited you to Postrider at ${server}.${roles.join('')} To accept, open this link and set a password or passkey:`,
    linkOf(deps, invitation, user),
    'The link works once and expires after 7 days. If you did not expect this invitation, ignore this email.\n',
  ].join('\n\n')
  const subject = `You are invited to Postrider at ${server}`
  const notice_id = addNotice(tx, { user_key: user.key, recipient: user.email, domain_key: null, subject, text }, now)
  tx.run(db.updateTable('invitations').set({ notice_id }).where('key', '=', invitation.key))
}

/** The invitation of a user, as operators see it. All is null once the user has signed in. */
interface InvitationShown {
  invitation: 'open' | 'expired' | null
  invitation_expires_at: number | null
  invitation_link: string | null
  /** Status of the email with the link. */
  invitation_mail: 'waiting' | 'mailed' | 'refused' | 'not_mailed' | null
  /** The reply of the receiving server, or the reason why no email was sent. */
  invitation_note: string | null
}

export function invitationShown(deps: InviteDeps, user: User): InvitationShown {
  const found = invitationOf(deps.store, user)
  if (!found)
    return {
      invitation: null,
      invitation_expires_at: null,
      invitation_link: null,
      invitation_mail: null,
      invitation_note: null,
    }
  const open = deps.clock.now() < found.expires_at
  const notice = found.notice_id === null ? undefined : findNotice(deps.store, found.notice_id)
  const mail = !notice ? 'not_mailed' : notice.mailed === 1 ? 'mailed' : notice.mailed === 2 ? 'refused' : 'waiting'
  return {
    invitation: open ? 'open' : 'expired',
    invitation_expires_at: found.expires_at,
    invitation_link: open ? linkOf(deps, found, user) : null,
    invitation_mail: mail,
    invitation_note: notice ? notice.response : (whyNotMailed(deps, user.email) ?? null),
  }
}
