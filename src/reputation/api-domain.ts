// How the mail of a sending domain did, day by day (D81).
import { z } from 'zod'
import { daysOf } from '../base/zone.ts'
import { field } from '../jsonapi/resource.ts'
import { firstHour, series, zoneFilter, zoneOf } from './api-statistics.ts'
import { domainHours } from './tally.ts'
import { define } from '../jsonapi/define.ts'

const DAYS = 30
const day = z.object({ at: z.iso.datetime(), deliveries: z.int(), bounces: z.int(), complaints: z.int() })

export const domainReputation = define('domain-reputation', {
  table: 'domains',
  scope: 'domains',
  about: 'Delivery statistics of a sending domain.',
  extension: true,
  attributes: {
    series: field(z.array(day), {
      about: 'Statistics per day of the time zone for 30 days, oldest first.',
    }),
  },
  filters: zoneFilter,
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/domains/:domain/reputation',
      within: { type: 'domains', column: 'domain_key' },
      params: ['filter'],
      id: 'getDomainReputation',
      about: 'Get deliveries, bounces and complaints of a sending domain per day.',
      run({ filters, now, parent, parts }) {
        const days = daysOf(zoneOf(filters), now, DAYS)
        const hours = domainHours(parts.store, parent.key, firstHour(days))
        return [
          {
            key: 0,
            id: String(parent['id']),
            series: series(hours, { deliveries: 0, bounces: 0, complaints: 0 }, days),
          },
        ]
      },
    },
  ],
})
