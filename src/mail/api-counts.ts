// How many mails of an account fit a search, by status (D146).
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { EMAIL_STATUSES } from '../states/outbound-email.ts'
import { countsOf, MOST } from './counts.ts'
import { search } from './search.ts'

export const outboundEmailCounts = define('outbound-email-counts', {
  table: 'outbound_emails',
  called: 'OutboundEmailCounts',
  about: `How many mails fit a search. ${EXTENSION}`,
  attributes: {
    total: count('How many fit.'),
    more: field(z.boolean(), {
      about: `There are more than these: where more than ${MOST} fit, not all are counted.`,
    }),
    statuses: field(z.array(z.object({ status: z.enum(EMAIL_STATUSES), count: z.int(), more: z.boolean() })), {
      about: 'The same by status; every status is there.',
    }),
  },
  filters: { search },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/statistics/outbound-emails',
      id: 'countOutboundEmails',
      scope: 'emails:read',
      about: `Count your mails, by status. ${EXTENSION}`,
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
