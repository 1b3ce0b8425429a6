// Audience statistics: contacts by status, and the growth of the number of subscribers (D143).
import { z } from 'zod'
import { DAY, dayOf, iso } from '../base/clock.ts'
import { define } from '../jsonapi/define.ts'
import { count, time, wordsOrNull } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { audienceById, growthOf } from './audiences.ts'

/** The days of a growth. */
const DAYS = 90

const point = z.object({ at: z.iso.datetime(), subscribed: z.int() })

export const audienceStatistics = define('audience-statistics', {
  table: 'audiences',
  path: '/audience-statistics/:audience',
  scope: 'contacts',
  only: 'deleted_at is null',
  about: 'Statistics of an audience. The id is that of the audience.',
  extension: true,
  attributes: {
    name: field(z.string(), { about: 'Name of the audience.' }),
    title: wordsOrNull('Name that subscribers see. Null if absent.'),
    contacts_count: count('Number of contacts.'),
    subscribed_count: count(
      'Number of subscribed contacts. It includes contacts whose address is suppressed manually or by an import.',
    ),
    unsubscribed_count: count('Number of unsubscribed contacts.'),
    bounced_count: count('Number of contacts whose address bounced permanently.'),
    complained_count: count('Number of contacts who complained about an email.'),
    pending_count: count('Number of contacts who have not confirmed their subscription.'),
    growth: field(z.array(point), {
      read: 'single',
      about: `Number of subscribed contacts at the end of each of the last ${DAYS} days (UTC), starting with the first recorded day. The last entry is today.`,
    }),
    created_at: time('Time when the audience was created.'),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  extend(rows, { parts, reader, single }) {
    if (!single) return
    const last = dayOf(parts.clock.now())
    for (const row of rows) {
      const audience = audienceById(reader, String(row['id']))
      const growth = audience ? growthOf(reader, audience, { days: DAYS, last }) : []
      row['growth'] = growth.map(({ day, subscribed }) => ({ at: iso(day * DAY), subscribed }))
    }
  },
  actions: [
    { kind: 'list', about: 'List statistics of all audiences.' },
    { kind: 'show', about: 'Get the statistics of an audience.' },
  ],
})
