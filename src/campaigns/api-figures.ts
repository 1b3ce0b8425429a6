// How an audience stands: its contacts by status, and how the number of subscribers has grown (D143).
import { z } from 'zod'
import { DAY, iso } from '../base/clock.ts'
import { define } from '../jsonapi/define.ts'
import { count, EXTENSION, time } from '../jsonapi/fields.ts'
import { field } from '../jsonapi/resource.ts'
import { audienceById, growthOf } from './audiences.ts'

/** The days of a growth. */
const DAYS = 90

const point = z.object({ at: z.iso.datetime(), subscribed: z.int() })

export const audienceFigures = define('audience-figures', {
  table: 'audiences',
  only: 'deleted_at is null',
  about: `How audiences stand. The id is the audience's. ${EXTENSION}`,
  attributes: {
    name: field(z.string(), { about: 'The name of the audience.' }),
    contacts_count: count('How many contacts it holds.'),
    subscribed_count: count(
      'How many are subscribed. One whom a suppression stops by hand or by an import is among them.',
    ),
    unsubscribed_count: count('How many left.'),
    bounced_count: count('How many have an address that does not exist.'),
    complained_count: count('How many called a mail spam.'),
    growth: field(z.array(point), {
      read: 'single',
      about: `How many were subscribed at the end of each of the last ${DAYS} days (UTC), from the first day that is known; the last is today.`,
    }),
    created_at: time('When the audience was made.'),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  extend(rows, { parts, reader, single }) {
    if (!single) return
    const last = Math.floor(parts.clock.now() / DAY)
    for (const row of rows) {
      const audience = audienceById(reader, String(row['id']))
      const growth = audience ? growthOf(reader, audience, { days: DAYS, last }) : []
      row['growth'] = growth.map(({ day, subscribed }) => ({ at: iso(day * DAY), subscribed }))
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/audience-figures',
      scope: 'contacts:read',
      params: ['sort', 'include', 'fields', 'page'],
      about: `List your audiences with their contacts by status. ${EXTENSION}`,
    },
    {
      kind: 'show',
      path: '/audience-figures/:audience',
      scope: 'contacts:read',
      about: `Show how an audience stands. ${EXTENSION}`,
    },
  ],
})
