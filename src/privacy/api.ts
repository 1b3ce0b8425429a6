// Rights of recipients: erasure, and an export of all data about them (specification "Recipient privacy", D56, D57).
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { recipientNamed, requestErasure, requestExport, type PrivacyRequest, type RequestDeps } from './requests.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { pathParameter } from '../jsonapi/request.ts'
import { valuesOf } from '../schema/tables.ts'

const depsOf = ({ bells, ...parts }: ApiDeps): RequestDeps => ({ ...parts, ring: bells.privacy })

const attributes = {
  recipient_hash: field(z.string(), {
    about: 'The non-reversible hash of the address, for correlation.',
    example: '8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918',
  }),
  status: field(z.enum(valuesOf('privacy_requests', 'status')), { about: 'Where the request stands.' }),
  requested_at: field(z.iso.datetime(), { kind: 'time', about: 'When it was made.' }),
}

const rowOf = (request: PrivacyRequest) => ({ row: { ...request } })

export const recipientErasures = define('recipient-erasures', {
  table: 'privacy_requests',
  about: 'Requests to forget a recipient.',
  attributes,
  actions: [
    {
      kind: 'act',
      method: 'DELETE',
      free: true,
      path: '/recipients/:recipient/forget',
      scope: 'compliance:write',
      id: 'forgetRecipient',
      refuses: ['not_found', 'invalid'],
      about: 'Forget a recipient: personal data is removed from every store, a hash stays. A repeat is harmless.',
      run: async ({ parts, caller, params }) =>
        rowOf(
          await requestErasure(
            depsOf(parts),
            { key: caller.userKey, id: caller.userId },
            recipientNamed(pathParameter({ params }, 'recipient')),
          ),
        ),
    },
  ],
})

export const recipientExports = define('recipient-exports', {
  table: 'privacy_requests',
  about: 'Requests to be told what is known of a recipient.',
  attributes,
  actions: [
    {
      kind: 'act',
      method: 'GET',
      free: true,
      path: '/recipients/:recipient/data',
      scope: 'compliance:write',
      id: 'exportRecipient',
      refuses: ['not_found', 'invalid'],
      about: 'Assemble what is known of a recipient; the account’s owner gets a link to it by mail.',
      run: async ({ parts, caller, params }) =>
        rowOf(
          await requestExport(
            depsOf(parts),
            { key: caller.userKey },
            recipientNamed(pathParameter({ params }, 'recipient')),
          ),
        ),
    },
  ],
})
