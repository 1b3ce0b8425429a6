// How the mail of a sending domain did, day by day (D81).
import { z } from 'zod'
import { DAY, iso } from '../base/clock.ts'
import { field } from '../jsonapi/resource.ts'
import { domainDays } from './tally.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION } from '../jsonapi/fields.ts'

const PERIOD = 30 * DAY
const day = z.object({ at: z.iso.datetime(), deliveries: z.int(), bounces: z.int(), complaints: z.int() })

export const domainReputation = define('domain-reputation', {
  table: 'domains',
  about: `How the mail of a sending domain did. ${EXTENSION}`,
  attributes: {
    series: field(z.array(day), { about: 'By day (UTC) for 30 days, oldest first; days without mail are left out.' }),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/domains/:domain/reputation',
      within: { type: 'domains', column: 'domain_key' },
      params: [],
      id: 'getDomainReputation',
      scope: 'domains:read',
      about: `Deliveries, bounces and complaints of a sending domain by day. ${EXTENSION}`,
      run: ({ now, parent, parts }) => [
        {
          key: 0,
          id: String(parent['id']),
          series: domainDays(parts.store, parent.key, now - PERIOD).map(({ day: at, ...figures }) => ({
            at: iso(at * DAY),
            ...figures,
          })),
        },
      ],
    },
  ],
})
