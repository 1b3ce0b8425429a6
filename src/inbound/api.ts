// Inboxes: addresses whose mail is kept and shown.
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { addInbox, changeInbox, removeInbox, type InboxDeps } from './inboxes.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { line, nameField } from '../jsonapi/schemas.ts'

const depsOf = ({ bells, clock, config, store }: ApiDeps): InboxDeps => ({ clock, config, store, ring: bells.domains })

export const inboxes = define('inboxes', {
  table: 'inboxes',
  path: '/inboxes/:inbox',
  scope: 'domains',
  only: 'deleted_at is null',
  about: 'Addresses on your sending domains whose email is received and stored.',
  attributes: {
    name: nameField('Support'),
    address: field(line(254), {
      create: 'required',
      update: true,
      about: 'Email address on one of your sending domains. It cannot be changed later.',
      example: 'support@example.org',
    }),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time when the inbox was created.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time of the last change.' }),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  actions: [
    {
      kind: 'create',
      refuses: ['already_exists', 'ambiguous_address'],
      about:
        'Create an inbox. It receives email when its domain is verified. Until then, email is deferred and the sending server tries again later. The first inbox of a domain adds an INBOUND_MX record, which you have to publish.',
      run: async ({ parts, caller, attributes }) => ({
        row: { ...(await addInbox(depsOf(parts), caller.userKey, attributes)) },
      }),
    },
    { kind: 'list', about: 'List inboxes.' },
    { kind: 'show', about: 'Get an inbox.' },
    {
      kind: 'update',
      about: 'Update the name of an inbox.',
      run: async ({ parts, row, attributes }) => ({
        row: {
          ...(await changeInbox(parts, { key: row.key, address: row.address }, attributes)),
        },
      }),
    },
    {
      kind: 'delete',
      about: 'Delete an inbox. It stops receiving. Emails that it has received stay available.',
      run: ({ parts, row }) => removeInbox(depsOf(parts), row.key),
    },
  ],
})
