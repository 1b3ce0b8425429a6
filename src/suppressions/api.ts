// Suppressed addresses: list them, and remove those that are not permanent.
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { keptForms, liftSuppression, releaseSuppression } from './suppressions.ts'
import { holding, selected } from '../jsonapi/fields.ts'
import { define } from '../jsonapi/define.ts'
import { valuesOf } from '../store/schema/tables.ts'

export const suppressions = define('suppressions', {
  table: 'suppressions',
  path: '/suppressions/:suppression',
  scope: 'suppressions',
  marketing: `scope = 'marketing'`,
  about: 'Addresses that emails are not sent to from a sending domain.',
  attributes: {
    email: field(z.string(), { sort: true, about: 'Suppressed address.', example: 'ann@example.net' }),
    reason: field(z.enum(valuesOf('suppressions', 'reason')), { about: 'Reason for the suppression.' }),
    source: field(z.enum(valuesOf('suppressions', 'source')), { about: 'Source of the suppression.' }),
    scope: field(z.enum(valuesOf('suppressions', 'scope')), {
      about: 'Emails that are blocked. `marketing`: campaigns only. `all`: transactional emails too.',
    }),
    expires_at: field(z.iso.datetime().nullable(), {
      kind: 'time',
      about: 'Time when the suppression expires. Null if it is permanent.',
    }),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time when the suppression was added.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time of the last change.' }),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  filters: {
    scope: { column: 'scope' },
    reason: { column: 'reason' },
    email: { column: 'email', forms: (value, keyring) => keptForms(keyring, value) },
    domain: { column: 'domain_key', type: 'domains' },
    search: holding('email'),
    id: selected,
  },
  actions: [
    { kind: 'list', about: 'List the suppressions of all sending domains.' },
    {
      kind: 'delete',
      refuses: ['permanent_suppression'],
      about: 'Delete a suppression. Suppressions with the reason `hard_bounce` or `complaint` cannot be deleted.',
      run: ({ parts, row }) => liftSuppression(parts, row.key),
    },
    {
      kind: 'act',
      id: 'releaseSuppression',
      path: 'release',
      operator: true,
      person: true,
      about: 'Delete a suppression with any reason, and return it. For operators who are signed in to the console.',
      extension: true,
      run: async ({ parts, row }) => {
        await releaseSuppression(parts, row.key)
        return { row }
      },
    },
  ],
})
