// The events of an account's emails, for programs that cannot receive webhooks. An event has the same data as there.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { comparable } from '../base/recipient-hash.ts'
import { define } from '../jsonapi/define.ts'
import { field, type Filter } from '../jsonapi/resource.ts'
import type { SqlCondition } from '../store/list.ts'
import { EVENT_TYPES } from '../store/states/events.ts'
import { dataOf } from './payload.ts'
import type { RowOf } from '../store/schema/tables.ts'

const TYPES = EVENT_TYPES.filter((type) => type.startsWith('email.'))

/** A filter by a column of the email of an event. */
const ofEmail = (condition: string, about: string, value = (given: string): string => given): Filter => ({
  column: 'email_key',
  whole: 998,
  sql: (given) => ({
    sql: `exists (select 1 from outbound_emails e where e.key = events.email_key and ${condition})`,
    parameters: [value(given)],
    sliced: true,
  }),
  about,
})

/** A filter by the time of an event. Throws 400. */
const at = (name: string, comparison: '<=' | '>='): Filter => ({
  column: 'created_at',
  whole: 40,
  sql: (given): SqlCondition => {
    if (!z.iso.datetime({ offset: true }).safeParse(given).success)
      throw refuse('unsupported_filter', `"${given}" is not a time. Use a time such as 2026-11-01T12:00:00Z.`, {
        parameter: `filter[${name}]`,
      })
    return { sql: `created_at ${comparison} ?`, parameters: [Date.parse(given)], sliced: true }
  },
  about: `Filter by time: events ${comparison === '>=' ? 'at or after' : 'at or before'} it.`,
})

export const emailEvents = define('email-events', {
  table: 'events',
  path: '/email-events/:emailEvent',
  scope: 'emails',
  only: 'email_key is not null',
  marketing: 'campaign_key is not null',
  about:
    'Events of emails, for polling. They are listed in the order in which they were stored, so no event appears later before one that was listed. `retention.events` deletes old ones.',
  extension: true,
  attributes: {
    event: field(z.enum(TYPES), { about: 'Type of the event, as in webhooks.' }),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: 'key', about: 'Time of the event.' }),
    data: field(z.record(z.string(), z.unknown()).nullable(), {
      about: 'Data of the event, as in webhooks. Null if the email was deleted.',
    }),
  },
  relationships: {
    domain: { type: 'domains', column: 'domain_key', optional: true },
    email: { type: 'outbound-emails', column: 'email_key', optional: true },
  },
  filters: {
    event: { column: 'type' },
    domain: { column: 'domain_key', type: 'domains' },
    email: { column: 'email_key', type: 'outbound-emails' },
    batch: ofEmail(
      'e.batch_key = (select b.key from outbound_batches b where b.id = ? and b.user_key = e.user_key)',
      'Filter by the batch of the email.',
    ),
    tag: ofEmail('exists (select 1 from json_each(e.tags) where value = ?)', 'Filter by a tag of the email.'),
    message_id: ofEmail('e.message_id = ?', 'Filter by the Message-ID of the email.'),
    recipient: {
      column: 'data',
      whole: 320,
      sql: (given) => ({
        sql: `exists (select 1 from deliveries v where v.key = events.data ->> 'delivery' and lower(v.address) = ?)`,
        parameters: [comparable(given)],
        sliced: true,
      }),
      about: 'Filter by the address of the recipient.',
    },
    since: at('since', '>='),
    until: at('until', '<='),
  },
  extend(rows, { reader }) {
    for (const row of rows) {
      row['event'] = row['type']
      row['data'] = dataOf(reader, row as unknown as RowOf<'events'>)
    }
  },
  actions: [{ kind: 'list', about: 'List events of emails.' }],
})
