// How many emails of an account match a search, by status (D146). Counting is bounded: beyond MOST emails the result
// only shows that there are more, so that a page costs no more in a large account.
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { count } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { EMAIL_STATUSES, type EmailStatus } from '../store/states/outbound-email.ts'
import { search, allOf, ofAccount, passes, searched } from './search.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { takeTurn } from '../store/slices.ts'
import type { SqlCondition } from '../store/list.ts'

/** The most emails that are counted. */
const MOST = 10_000

export const outboundEmailCounts = define('outbound-email-counts', {
  table: 'outbound_emails',
  scope: 'emails',
  called: 'OutboundEmailCounts',
  about: 'Number of emails that match a search.',
  extension: true,
  attributes: {
    total: count('Number of matching emails.'),
    more: field(z.boolean(), {
      about: `Whether there are more emails than counted. Counting stops at about ${MOST}.`,
    }),
    statuses: field(z.array(z.object({ status: z.enum(EMAIL_STATUSES), count: z.int(), more: z.boolean() })), {
      about: 'Number of matching emails in each status. All statuses are listed.',
    }),
  },
  filters: { search },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/statistics/outbound-emails',
      id: 'countOutboundEmails',
      about: 'Get the number of emails by status.',
      async run({ caller, filters, parts }) {
        const statuses = await countsOf(parts.store, caller.userKey, filters.get('search')?.[0] ?? '')
        return [
          {
            key: 0,
            id: 'all',
            total: statuses.reduce((sum, each) => sum + each.count, 0),
            more: statuses.some(({ more }) => more),
            statuses,
          },
        ]
      },
    },
  ],
})

interface StatusCount {
  status: EmailStatus
  count: number
  /** There are more than these. */
  more: boolean
}

/**
 * The emails of an account that match a search, by status. Every status is in the result. Throws 400 for an unknown
 * search.
 */
async function countsOf(reader: Reader, userKey: number, search: string): Promise<StatusCount[]> {
  const { conditions, ofTimes } = await searched(reader, userKey, search)
  const condition = allOf(conditions)
  if (ofTimes) return byIndex(reader, userKey, condition)
  const few = conditions.find(({ selective }) => selective)
  return counted(
    few
      ? [await keyed(reader, userKey, few)]
      : passes(reader, 'outbound_emails', ofAccount(userKey, condition), { columns: 'key, status' }),
  )
}

type CountedMail = { key: number; status: EmailStatus }

/** Counts emails by their keys, if there are few. */
async function keyed(reader: Reader, userKey: number, { parameters, sql }: SqlCondition): Promise<CountedMail[]> {
  await takeTurn()
  return reader.all(
    raw(`select key, status from outbound_emails where +user_key = ? and ${sql}`, [userKey, ...parameters]),
  )
}

/** Each status separately, up to the bound, from the index of statuses. */
const byIndex = (reader: Reader, userKey: number, { parameters, sql }: SqlCondition): StatusCount[] =>
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

/** All statuses in one pass over the emails, the newest first, which ends beyond the bound. */
async function counted(passed: Iterable<CountedMail[]> | AsyncIterable<CountedMail[]>): Promise<StatusCount[]> {
  const found = new Map<EmailStatus, number>()
  let total = 0
  for await (const mails of passed) {
    for (const { status } of mails) found.set(status, (found.get(status) ?? 0) + 1)
    total += mails.length
    if (total > MOST) break
  }
  return EMAIL_STATUSES.map((status) => ({ status, count: found.get(status) ?? 0, more: total > MOST }))
}
