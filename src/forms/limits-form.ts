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
import type { FormTimes } from './limits.ts'
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

/** How often a form was sent in the last hour. */
export const sentInHour = (times: FormTimes, form: FormRow, now: number): number =>
  times.since(form.key, since(form, now))

/** Pauses an open form if its results in the last hour show abuse. */
export function pauseIfAbused(tx: Tx, deps: FormLimitDeps, form: FormRow, now: number): void {
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
  if (sent < FEWEST) return
  const emails = `${sent} confirmation emails in the last hour`
  if (bounced > sent * MOST_BOUNCED)
    pause(tx, deps, form, `${bounced} of ${emails} were rejected by the receiving servers.`, now)
  else if (refused >= MOST_REFUSED)
    pause(tx, deps, form, `${refused} recipients of ${emails} refused or complained.`, now)
}

/** Pauses a form if it is open, and notifies its owner and the members who manage campaigns. */
function pause(tx: Tx, { config }: FormLimitDeps, form: FormRow, reason: string, now: number): void {
  if (!moveForm(tx, form, 'limit', now, reason)) return
  tx.afterCommit(() => FORM_EVENTS.paused.add())
  const { domain_key, id, name, user_key } = form
  const effect =
    form.audience_key === null
      ? 'Visitors cannot send messages until you open it.'
      : 'New sign-ups are accepted and wait, without an email, for at most 24 hours.'
  const notice = {
    user_key,
    domain_key,
    subject: `The form ${name} is paused`,
    text: `The form ${name} was paused automatically: ${reason}\n\n${effect} Check the form, then open it again:\n${config.http.public_url}/forms/${id}\n`,
  }
  addNotice(tx, notice, now)
  for (const recipient of managers(tx, user_key)) addNotice(tx, { ...notice, recipient }, now)
}

/** The addresses of the members who manage campaigns, without the one who gets the notice of the account. */
const managers = (reader: Reader, userKey: number): string[] =>
  membersOf(reader, userKey)
    .filter(({ joined_at, role }) => joined_at !== null && rightsOf(role).scopes.has('campaigns:write'))
    .flatMap(({ member_key }) => userByKey(reader, member_key)?.email ?? [])
    .filter((address) => address !== ownerAddress(reader, userKey))

/** Counts that a form was sent, and pauses it if that was too often in the last hour. Returns whether it is open. */
export function countSent(tx: Tx, deps: FormLimitDeps & { times: FormTimes }, form: FormRow, now: number): boolean {
  const { per_form } = deps.config.signup
  const what = counted(per_form, form.audience_key === null ? 'message' : 'sign-up')
  const full = sentInHour(deps.times, form, now) >= per_form
  if (full) pause(tx, deps, form, `It got more than ${what} in an hour.`, now)
  deps.times.add(form.key, now, per_form)
  return form.status === 'open' && !full
}
