// How many mails fit a search, by status. Counting is bounded: beyond MOST mails it is only said that there are more,
// so that a page costs no more in a large account.
import { EMAIL_STATUSES, type EmailStatus } from '../states/outbound-email.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { searched, sliced, type SearchCondition } from './search.ts'

/** The most mails that are counted. */
export const MOST = 10_000
/** The mails that are looked at between two looks at the bound. */
const SLICE = 25_000

export interface StatusCount {
  status: EmailStatus
  count: number
  /** There are more than these. */
  more: boolean
}

/** The mails of an account that fit a search, by status; every status is there. Throws 400 for an unknown search. */
export async function countsOf(reader: Reader, userKey: number, search: string): Promise<StatusCount[]> {
  const condition = await searched(reader, userKey, search)
  return condition.ofTimes ? byIndex(reader, userKey, condition) : bySlices(reader, userKey, condition)
}

/** Each status by itself, up to the bound, from the index of statuses. */
const byIndex = (reader: Reader, userKey: number, { parameters, sql }: SearchCondition): StatusCount[] =>
  EMAIL_STATUSES.map((status) => {
    const { count } = reader.one(
      raw<{ count: number }>(
        `select count(*) as count from (select 1 from outbound_emails indexed by outbound_emails_by_status
           where user_key = ? and status = ? and ${sql} limit ${MOST + 1})`,
        [userKey, status, ...parameters],
      ),
    )
    return { status, count: Math.min(count, MOST), more: count > MOST }
  })

/** All statuses in one pass over the mails, the newest first, which ends beyond the bound. */
async function bySlices(
  reader: Reader,
  userKey: number,
  { parameters, selective, sql }: SearchCondition,
): Promise<StatusCount[]> {
  const found = new Map<EmailStatus, number>()
  let total = 0
  const count = (range: string, keys: readonly number[]): void => {
    const rows = reader.all(
      raw<{ status: EmailStatus; times: number }>(
        `select status, count(*) as times from outbound_emails where +user_key = ? and ${range} and (${sql}) group by status`,
        [userKey, ...keys, ...parameters],
      ),
    )
    for (const { status, times } of rows) found.set(status, (found.get(status) ?? 0) + times)
    total = [...found.values()].reduce((sum, each) => sum + each, 0)
  }
  let whole = true
  if (selective) count('true', [])
  else
    for await (const { bottom, top } of sliced(reader, SLICE)) {
      count('key > ? and key <= ?', [bottom, top])
      whole = bottom === 0
      if (total > MOST) break
    }
  return EMAIL_STATUSES.map((status) => ({ status, count: found.get(status) ?? 0, more: !whole }))
}
