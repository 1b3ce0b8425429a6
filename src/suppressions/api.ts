// Addresses that must not get mail: list them, and remove those that are not permanent.
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { keptForms, liftSuppression, releaseSuppression } from './suppressions.ts'
import { EXTENSION, holding } from '../jsonapi/fields.ts'
import { define } from '../jsonapi/define.ts'
import { valuesOf } from '../schema/tables.ts'

export const suppressions = define('suppressions', {
  table: 'suppressions',
  about: 'Addresses that must not be mailed from a sending domain.',
  attributes: {
    email: field(z.string(), { sort: true, about: 'The suppressed address.', example: 'ann@example.net' }),
    reason: field(z.enum(valuesOf('suppressions', 'reason')), { about: 'Why it is suppressed.' }),
    source: field(z.enum(valuesOf('suppressions', 'source')), { about: 'How this became known.' }),
    scope: field(z.enum(valuesOf('suppressions', 'scope')), {
      about: 'marketing: campaigns only. all: transactional mail too.',
    }),
    expires_at: field(z.iso.datetime().nullable(), { kind: 'time', about: 'When it ends; null: never.' }),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it was added.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it last changed.' }),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  filters: {
    scope: { column: 'scope' },
    reason: { column: 'reason' },
    email: { column: 'email', forms: (value, keyring) => keptForms(keyring, value) },
    domain: { column: 'domain_key', type: 'domains' },
    search: holding('email'),
  },
  actions: [
    {
      kind: 'list',
      path: '/suppressions',
      scope: 'suppressions:read',
      params: ['filter', 'sort', 'include', 'fields', 'page'],
      about: 'List the suppressions of all your sending domains.',
    },
    {
      kind: 'delete',
      path: '/suppressions/:suppression',
      scope: 'suppressions:write',
      refuses: ['permanent_suppression'],
      about: 'Take a suppression back; hard_bounce and complaint are permanent.',
      run: ({ parts, row }) => liftSuppression(parts, row.key),
    },
    {
      kind: 'act',
      id: 'releaseSuppression',
      path: '/suppressions/:suppression/release',
      scope: 'suppressions:write',
      operator: 'person',
      about: `Take a suppression back, whatever its reason is; for an operator who is signed in. The answer is the entry that was removed. ${EXTENSION}`,
      run: async ({ parts, row }) => {
        await releaseSuppression(parts, row.key)
        return { row }
      },
    },
  ],
})
