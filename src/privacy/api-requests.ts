// Privacy requests of recipients, and their state; the address itself is not shown.
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { define } from '../jsonapi/define.ts'
import { EXTENSION, timeOrNull, words } from '../jsonapi/fields.ts'
import { valuesOf } from '../schema/tables.ts'

export const privacyRequests = define('privacy-requests', {
  table: 'privacy_requests',
  about: `Erasures and exports that were asked for. ${EXTENSION}`,
  attributes: {
    kind: field(z.enum(valuesOf('privacy_requests', 'kind')), { about: 'What was asked for.' }),
    recipient_hash: words('The non-reversible hash of the address.'),
    status: field(z.enum(valuesOf('privacy_requests', 'status')), { sort: true, about: 'Where it stands.' }),
    requested_at: field(z.iso.datetime(), { kind: 'time', about: 'When it was asked for.' }),
    finished_at: timeOrNull('When it was done.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it was written down.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it last changed.' }),
  },
  filters: { status: { column: 'status' }, kind: { column: 'kind' } },
  actions: [
    {
      kind: 'list',
      path: '/privacy-requests',
      scope: 'compliance:write',
      params: ['filter', 'sort', 'fields', 'page'],
      about: `List the erasures and exports that were asked for. ${EXTENSION}`,
    },
  ],
})
