// Inboxes: addresses whose mail is kept and shown.
import { z } from 'zod'
import { field } from '../jsonapi/resource.ts'
import { addInbox, changeInbox, removeInbox, type InboxDeps } from './inboxes.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { line, nameField } from '../jsonapi/schemas.ts'

const depsOf = ({ bells, clock, config, store }: ApiDeps): InboxDeps => ({ clock, config, store, ring: bells.domains })

export const inboxes = define('inboxes', {
  table: 'inboxes',
  only: 'deleted_at is null',
  about: 'Addresses on your sending domains whose mail is kept and shown.',
  attributes: {
    name: nameField('Support'),
    address: field(line(254), {
      create: 'required',
      update: true,
      about: 'The address, on one of your sending domains; it cannot be changed afterwards.',
      example: 'support@example.org',
    }),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it was made.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it last changed.' }),
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  actions: [
    {
      kind: 'create',
      path: '/inboxes',
      scope: 'domains:write',
      refuses: ['already_exists', 'ambiguous_address'],
      about:
        'Make an inbox. It receives once its domain is verified; until then senders are told to try again later. The first one of a domain adds an INBOUND_MX record to be published.',
      run: async ({ parts, caller, attributes }) => ({
        row: { ...(await addInbox(depsOf(parts), caller.userKey, attributes)) },
      }),
    },
    {
      kind: 'list',
      path: '/inboxes',
      scope: 'domains:read',
      params: ['sort', 'include', 'fields', 'page'],
      about: 'List your inboxes.',
    },
    { kind: 'show', path: '/inboxes/:inbox', scope: 'domains:read', about: 'Show an inbox.' },
    {
      kind: 'update',
      path: '/inboxes/:inbox',
      scope: 'domains:write',
      about: 'Rename an inbox.',
      run: async ({ parts, row, attributes }) => ({
        row: {
          ...(await changeInbox(parts, { key: row.key, address: row.address }, attributes)),
        },
      }),
    },
    {
      kind: 'delete',
      path: '/inboxes/:inbox',
      scope: 'domains:write',
      about: 'Stop receiving; what was received stays.',
      run: ({ parts, row }) => removeInbox(depsOf(parts), row.key),
    },
  ],
})
