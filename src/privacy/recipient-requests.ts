// Requests that recipients make on their own page: a copy of their data, or its erasure. The account answers each
// within 30 days, or the server does at once ("privacy.recipient_requests"). The recipient gets the answer by email.
import { dateOf, DAY } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { refuse } from '../base/errors.ts'
import { newId } from '../base/ids.ts'
import { recipientHash } from '../base/recipient-hash.ts'
import { counted } from '../base/text.ts'
import { fail, type AccountFinder } from '../parts/findings/finding.ts'
import type { RecipientAnswer, ServerPart, AnswerMailDeps } from '../parts/part.ts'
import type { Reader, Tx } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { addNotice } from '../users/notices.ts'
import { eraseIn, insert, newestOf, type PrivacyRequest, type RequestDeps } from './requests.ts'

export type RecipientRequest = RowOf<'recipient_requests'>

/** The time in which an account must answer. */
const DUE = 30 * DAY

export interface AnswerDeps extends RequestDeps, AnswerMailDeps {
  config: Config
  subjects: readonly Pick<ServerPart, 'tellRecipient'>[]
  /** Wakes the loop that sends notices. */
  noticed: () => void
}

/** A request as a recipient makes it. `email` is in the form used for searching. */
export type NewRecipientRequest = Pick<RecipientRequest, 'user_key' | 'domain_key' | 'kind' | 'language'> & {
  email: string
}

/**
 * Stores a request, and notifies the owner of the account or answers at once. A repeat returns the open request, or the
 * one that was answered within the last day.
 */
export async function askFor(deps: AnswerDeps, asked: NewRecipientRequest): Promise<RecipientRequest> {
  const { clock, config, keyring, store } = deps
  const recipient_hash = recipientHash(keyring, asked.email)
  return store.write((tx) => {
    const now = clock.now()
    const earlier = newestOf(tx, 'recipient_requests', { ...asked, recipient_hash })
    const isAnswered = earlier?.state === 'done' && (earlier.answered_at ?? 0) > now - DAY
    if (earlier && (earlier.state === 'open' || isAnswered)) return earlier
    const row = {
      ...asked,
      id: newId(now),
      recipient_hash,
      state: 'open' as const,
      due_at: now + DUE,
      created_at: now,
      updated_at: now,
    }
    const request = tx.one(db.insertInto('recipient_requests').values(row).returningAll())
    if (config.privacy.recipient_requests === 'automatic') return answer(tx, deps, request, { state: 'done' })
    addNotice(tx, noticeOf(request, deps), now)
    tx.afterCommit(deps.noticed)
    return request
  })
}

const noticeOf = ({ domain_key, due_at, kind, user_key }: RecipientRequest, { config }: AnswerDeps) => ({
  user_key,
  domain_key,
  subject:
    kind === 'export' ? 'A recipient asks for a copy of their data' : 'A recipient asks for the erasure of their data',
  text: `A recipient has made this request on the page of an unsubscribe link, and confirmed their address. Answer it by ${dateOf(due_at)} on the page Privacy:\n\n${config.http.public_url}/privacy\n`,
})

export type NewAnswer = { state: 'done' } | { state: 'declined'; reason: string }

/** Answers an open request: starts the export or the erasure, or emails the reason to the recipient. Throws 422. */
export function answer(
  tx: Tx,
  deps: AnswerDeps,
  { key }: Pick<RecipientRequest, 'key'>,
  given: NewAnswer,
): RecipientRequest {
  const request = requestIn(tx, key)
  const { email, kind, recipient_hash: hash, state, user_key } = request
  if (state !== 'open' || email === null)
    throw refuse('transition_not_allowed', `The request is ${state}. Only an open request can be answered.`)
  const now = deps.clock.now()
  if (given.state === 'declined') {
    const emailed = tell(tx, deps, request, { kind: 'declined', reason: given.reason })
    return change(tx, key, now, { ...given, answered_at: now, emailed_at: emailed ? now : null, email: null })
  }
  if (kind === 'erasure') {
    // Closes this request, and any other one of the recipient.
    const owner = tx.one(db.selectFrom('users').select(['key', 'id']).where('key', '=', user_key))
    eraseIn(tx, deps, owner, { address: email, hash })
    return requestIn(tx, key)
  }
  const started = insert(tx, deps, { userKey: user_key, kind, id: newId(now), address: email, hash })
  return change(tx, key, now, { state: 'done', answered_at: now, request_key: started.key })
}

/**
 * Emails the link to a finished export to the recipient who asked for it. Returns whether the email is queued, or
 * undefined if no recipient did. The address is not needed any more.
 */
export function tellOfExport(
  tx: Tx,
  deps: AnswerMailDeps & Pick<AnswerDeps, 'clock' | 'subjects'>,
  { key }: Pick<PrivacyRequest, 'key'>,
  link: string,
): boolean | undefined {
  const request = tx.first(db.selectFrom('recipient_requests').selectAll().where('request_key', '=', key))
  if (!request) return undefined
  const now = deps.clock.now()
  const emailed = tell(tx, deps, request, { kind: 'export', link })
  change(tx, request.key, now, { email: null, emailed_at: emailed ? now : null })
  return emailed
}

function tell(
  tx: Tx,
  deps: AnswerMailDeps & Pick<AnswerDeps, 'subjects'>,
  { domain_key, email, id, language }: RecipientRequest,
  said: Pick<RecipientAnswer, 'kind' | 'link' | 'reason'>,
): boolean {
  if (email === null) return false
  const told = { ...said, id, domain: domain_key, to: email, language }
  return deps.subjects.some(({ tellRecipient }) => tellRecipient?.(tx, deps, told) === true)
}

const requestIn = (tx: Tx, key: number): RecipientRequest =>
  tx.one(db.selectFrom('recipient_requests').selectAll().where('key', '=', key))

const change = (tx: Tx, key: number, now: number, set: Partial<Omit<RecipientRequest, 'key'>>): RecipientRequest =>
  tx.one(
    db
      .updateTable('recipient_requests')
      .set({ ...set, updated_at: now })
      .where('key', '=', key)
      .returningAll(),
  )

/** The number of requests that should have been answered, of an account or of all. */
export const overdueIn = (reader: Reader, now: number, userKey?: number): number =>
  reader.one(
    db
      .selectFrom('recipient_requests')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('state', '=', 'open')
      .where('due_at', '<=', now)
      .$if(userKey !== undefined, (query) => query.where('user_key', '=', userKey ?? 0)),
  ).count

/** Finds requests that should have been answered. */
export const overdueFindings: AccountFinder = ({ now, store, userKey }) => {
  const overdue = overdueIn(store, now, userKey)
  if (overdue === 0) return []
  const found = fail(
    'recipient request',
    `${counted(overdue, 'request')} of recipients should have been answered`,
    'Answer them on the page Privacy.',
  )
  return [{ ...found, href: '/privacy' }]
}
