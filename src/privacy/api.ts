// Rights of recipients: erasure, and an export of all data about them (specification "Recipient privacy", D56, D57).
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import {
  notHeld,
  recipientNamed,
  requestErasure,
  requestExport,
  type PrivacyRequest,
  type RequestDeps,
} from './requests.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { pathParameter } from '../jsonapi/request.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { count, timeOrNull, words } from '../jsonapi/fields.ts'
import { countsOf, holdsAddress } from './held.ts'

const depsOf = ({ bells, ...parts }: ApiDeps): RequestDeps => ({ ...parts, ring: bells.privacy })

const attributes = {
  recipient_hash: field(z.string(), {
    about: 'Non-reversible hash of the address, to identify the request.',
    example: '8c6976e5b5410415bde908bd4dee15dfb167a9c873fc4bb8a81f6f2ab448a918',
  }),
  status: field(z.enum(valuesOf('privacy_requests', 'status')), { about: 'Status of the request.' }),
  requested_at: field(z.iso.datetime(), { kind: 'time', about: 'Time when the request was made.' }),
}

const rowOf = (request: PrivacyRequest) => ({ row: { ...request } })

export const recipients = define('recipients', {
  table: 'privacy_requests',
  scope: 'compliance',
  about: 'Numbers of records about a recipient, which an erasure removes.',
  extension: true,
  attributes: {
    emails: count('Number of emails to the recipient.'),
    received: count('Number of received messages from the recipient, to it, or with replies to it.'),
    contacts: count('Number of audiences with the recipient as a contact.'),
    consents: count('Number of consents of the recipient, including sign-ups and those of deleted contacts.'),
    suppressions: count('Number of suppressions of the recipient.'),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/recipients/:recipient',
      id: 'getRecipient',
      scope: 'compliance:write',
      params: [],
      refuses: ['not_found', 'invalid'],
      about: 'Count the records about a recipient. The text of emails can mention the recipient in addition.',
      async run({ caller, params, parts }) {
        const address = recipientNamed(pathParameter({ params }, 'recipient'))
        const counts = countsOf(parts, caller.userKey, address)
        const some = Object.values(counts).some((each) => each > 0)
        if (!some && !(await holdsAddress(parts, caller.userKey, address))) throw notHeld()
        return [{ key: 0, id: address, ...counts }]
      },
    },
  ],
})

export const recipientErasures = define('recipient-erasures', {
  table: 'privacy_requests',
  scope: 'compliance',
  about: 'Requests to erase a recipient.',
  attributes,
  actions: [
    {
      kind: 'act',
      method: 'DELETE',
      free: true,
      path: '/recipients/:recipient/forget',
      id: 'forgetRecipient',
      refuses: ['not_found', 'invalid'],
      about:
        'Erase a recipient. Personal data is removed from all stores, and a hash is kept. You can repeat the request.',
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
  scope: 'compliance',
  about: 'Requests to export the data of a recipient.',
  attributes,
  actions: [
    {
      kind: 'act',
      method: 'GET',
      free: true,
      path: '/recipients/:recipient/data',
      id: 'exportRecipient',
      refuses: ['not_found', 'invalid'],
      about:
        'Export the data stored about a recipient. The signed-in user who requests it receives a link by email, or the owner of the account if a token does.',
      run: async ({ parts, caller, params }) =>
        rowOf(
          await requestExport(
            depsOf(parts),
            { key: caller.userKey, requester: caller.person?.key ?? null },
            recipientNamed(pathParameter({ params }, 'recipient')),
          ),
        ),
    },
  ],
})

// Privacy requests of recipients, and their state, without the address.

export const privacyRequests = define('privacy-requests', {
  table: 'privacy_requests',
  about: 'Erasures and exports that were requested.',
  extension: true,
  attributes: {
    kind: field(z.enum(valuesOf('privacy_requests', 'kind')), { about: 'Kind of request.' }),
    recipient_hash: words('Non-reversible hash of the address.'),
    status: field(z.enum(valuesOf('privacy_requests', 'status')), { sort: true, about: 'Status of the request.' }),
    requested_at: field(z.iso.datetime(), { kind: 'time', about: 'Time when the erasure or export was requested.' }),
    finished_at: timeOrNull('Time when it was completed. Null until then.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time when the request was stored.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time of the last change.' }),
  },
  filters: { status: { column: 'status' }, kind: { column: 'kind' } },
  actions: [
    {
      kind: 'list',
      path: '/privacy-requests',
      scope: 'compliance:write',
      params: ['filter', 'sort', 'fields', 'page'],
      about: 'List requested erasures and exports.',
    },
  ],
})
