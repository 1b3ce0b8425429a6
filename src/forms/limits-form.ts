// The limits of one form (AU39, AU45). A form that exceeds them is paused: somebody probably uses it to send email to
// addresses of others. Its sign-ups wait until the owner opens it again.
import { HOUR } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { counted } from '../base/text.ts'
import { rightsOf } from '../jsonapi/roles.ts'
import type { Reader, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { membersOf } from '../users/members.ts'
import { addNotice, ownerAddress } from '../users/notices.ts'
import { userByKey } from '../users/users.ts'
import { moveForm } from './forms.ts'
import type { MessageLimits } from './limits.ts'
import type { FormRow } from './versions.ts'
import { FORM_EVENTS } from './signup-counts.ts'

/** Results are evaluated from this many confirmation emails on. */
const FEWEST = 30
const MOST_BOUNCED = 0.1
const MOST_REFUSED = 3

export interface FormLimitDeps {
  config: Pick<Config, 'http' | 'signup'>
}

/** The hour before `now`, but not before the form was opened: its owner has seen what was earlier. */
const since = ({ status_at }: FormRow, now: number): number => Math.max(now - HOUR, status_at)

/** How often a form was sent in the last hour, for any address: it must not show which addresses are known. */
export const sentInHour = (messages: MessageLimits, form: FormRow, now: number): number =>
  messages.since(form.key, since(form, now))

/** The sign-ups of a form in the last hour that asked for a confirmation. */
export const signupsInHour = (reader: Reader, form: FormRow, now: number): number =>
  reader.one(
    raw<{ count: number }>('select count(*) as count from consents where form_key = ? and created_at >= ?', [
      form.key,
      since(form, now),
    ]),
  ).count

/** Pauses an open form if its results in the last hour show abuse. Returns whether it did. */
export function pauseIfAbused(tx: Tx, deps: FormLimitDeps, form: FormRow, now: number): boolean {
  const from = since(form, now)
  const { bounced, refused, sent } = tx.one(
    raw<{ sent: number; bounced: number; refused: number }>(
      `select count(*) filter (where created_at >= ? and message_id is not null) as sent,
         count(*) filter (where ended_at >= ? and state = 'bounced') as bounced,
         count(*) filter (where ended_at >= ? and state = 'refused') as refused
       from consents where (form_key = ? and created_at >= ?) or (ended_at >= ? and +form_key = ?)`,
      [from, from, from, form.key, from, from, form.key],
    ),
  )
  if (sent < FEWEST) return false
  const emails = `${sent} confirmation emails in the last hour`
  if (bounced > sent * MOST_BOUNCED)
    return pauseByLimit(tx, deps, form, `${bounced} of ${emails} were rejected by the receiving servers.`, now)
  if (refused >= MOST_REFUSED)
    return pauseByLimit(tx, deps, form, `${refused} recipients of ${emails} refused or complained.`, now)
  return false
}

/** Pauses an open form, and notifies owner and members who manage campaigns. Returns false if it is not open. */
export function pauseByLimit(tx: Tx, { config }: FormLimitDeps, form: FormRow, reason: string, now: number): boolean {
  if (!moveForm(tx, form, 'limit', now, reason)) return false
  tx.afterCommit(() => FORM_EVENTS.paused.add())
  const { domain_key, id, name, user_key } = form
  const notice = {
    user_key,
    domain_key,
    subject: `The form ${name} is paused`,
    text: `The form ${name} was paused automatically: ${reason}\n\n${form.audience_key === null ? 'Visitors cannot send messages until you open it.' : 'New sign-ups are accepted and wait, without an email, for at most 24 hours.'} Check the form, then open it again:\n${config.http.public_url}/forms/${id}\n`,
  }
  addNotice(tx, notice, now)
  for (const recipient of managers(tx, user_key)) addNotice(tx, { ...notice, recipient }, now)
  return true
}

/** The addresses of the members who manage campaigns, without the one who gets the notice of the account. */
function managers(reader: Reader, userKey: number): string[] {
  const members = membersOf(reader, userKey).filter(
    ({ joined_at, role }) => joined_at !== null && rightsOf(role).scopes.has('campaigns:write'),
  )
  const addresses = members.flatMap(({ member_key }) => userByKey(reader, member_key)?.email ?? [])
  return addresses.filter((address) => address !== ownerAddress(reader, userKey))
}

/** Pauses an open form that got `inHour` sign-ups or messages in the last hour, if that is too many. */
export function pauseIfFull(tx: Tx, deps: FormLimitDeps, form: FormRow, inHour: number, now: number): boolean {
  const { per_form } = deps.config.signup
  if (inHour < per_form) return false
  const what = counted(per_form, form.audience_key === null ? 'message' : 'sign-up')
  return pauseByLimit(tx, deps, form, `It got more than ${what} in an hour.`, now)
}
