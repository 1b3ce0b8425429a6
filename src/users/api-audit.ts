// The audit log of an account (D237).
import { z } from 'zod'
import { define } from '../jsonapi/define.ts'
import { field } from '../jsonapi/resource.ts'
import { holding, words, wordsOrNull } from '../jsonapi/fields.ts'
import { valuesOf } from '../store/schema/tables.ts'

export const auditEntries = define('audit-entries', {
  table: 'audit_entries',
  called: 'AuditEntry',
  scope: 'compliance',
  about: 'Changes in the account: who changed what, when and from where. Entries are kept for 13 months.',
  extension: true,
  attributes: {
    actor: words('Address of the user, name of the token or OAuth client, or user of the operating system.'),
    via: field(z.enum(valuesOf('audit_entries', 'via')), {
      about: 'Way of the change: the console, the API with a token, MCP, or a command on the server.',
    }),
    address: wordsOrNull('IP address of the client. Null for a command.'),
    action: field(z.string(), {
      about: 'Type of the resource and the change, or the name of the command.',
      example: 'campaigns.update',
    }),
    subject_type: words('Type of the resource that was changed.'),
    subject_id: wordsOrNull('Id of the resource. Null for a command.'),
    subject: wordsOrNull('Name or address of the resource at that time. Null if it has none.'),
    role: wordsOrNull('Role that a user got. Null for other changes.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time of the change.' }),
  },
  filters: {
    via: { column: 'via' },
    subject_type: { column: 'subject_type' },
    subject_id: { column: 'subject_id' },
    search: holding('actor', 'subject', 'action'),
  },
  actions: [{ kind: 'list', path: '/audit-entries', scope: 'compliance:write', about: 'List changes, newest first.' }],
})
