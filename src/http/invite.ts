// Inviting people: the invitation and the mail that carries its link are one transaction. No link is mailed where it
// would not reach its person alone; then an operator hands it over.
import { addNotice, dropNotice, findNotice } from '../accounts/notices.ts'
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { OperatorError } from '../base/errors.ts'
import type { Keyring } from '../base/keyring.ts'
import { invitationOf, invite, invitedBy, isInvitable, linkOf } from '../identity/invitations.ts'
import { addUser, requireUser, type NewUser, type User } from '../identity/users.ts'
import { isReadHere } from '../inbound/recipients.ts'
import { hasNoticeSender } from '../mail/notice-mail.ts'
import { parseAddress } from '../message/address.ts'
import type { Store, Tx } from '../store/database.ts'

export interface InviteDeps {
  store: Store
  clock: Clock
  keyring: Keyring
  config: Pick<Config, 'hostname' | 'http' | 'notices'>
}

/** Why no link is mailed to an address; undefined when one is. */
export function whyNotMailed(deps: InviteDeps, email: string): string | undefined {
  if (isReadHere(deps, parseAddress(email)?.address ?? ''))
    return `Mail to ${email} comes to this server, where others may read it.`
  if (!hasNoticeSender(deps.store, deps.config))
    return `No verified domain here belongs to ${deps.config.hostname}, so this server has no address to mail from that receivers believe.`
  return undefined
}

/** Adds a person and invites them. Throws an OperatorError. */
export const addInvited = (deps: InviteDeps, given: NewUser, by?: string): Promise<User> =>
  addUser(deps, given, (tx, user) => inviteIn(deps, tx, user, by))

/** Invites a person again; the link before leads nowhere. Throws an OperatorError. */
export const inviteAgain = (deps: InviteDeps, email: string, by?: string): Promise<User> =>
  deps.store.write((tx) => {
    const user = requireUser(tx, email)
    if (!isInvitable(tx, user))
      throw new OperatorError(`${user.email} has signed in before, and does so without an invitation.`)
    const notice = invitationOf(tx, user)?.notice_id
    if (notice) dropNotice(tx, notice)
    inviteIn(deps, tx, user, by)
    return requireUser(tx, email)
  })

function inviteIn(deps: InviteDeps, tx: Tx, user: User, by = 'The operator of the server'): void {
  const now = deps.clock.now()
  const invitation = invite(tx, user, now)
  if (whyNotMailed(deps, user.email) !== undefined) return
  const server = new URL(deps.config.http.public_url).host
  const text = [
    `${by} invites you to Postrider at ${server}. Open this link within seven days, and choose a password or a passkey:`,
    linkOf(deps, invitation, user),
    'The link works once. If you did not expect this mail, do nothing.\n',
  ].join('\n\n')
  const subject = `You are invited to Postrider at ${server}`
  invitedBy(tx, invitation, addNotice(tx, { user_key: user.key, domain_key: null, subject, text }, now))
}

/** What operators see of the invitation of a person: nothing once the person is in. */
export interface InvitationShown {
  invitation: 'open' | 'expired' | null
  invitation_expires_at: number | null
  invitation_link: string | null
  /** Where the mail with the link is. */
  invitation_mail: 'waiting' | 'mailed' | 'refused' | 'not_mailed' | null
  /** What the receiver said, or why nothing was mailed. */
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
