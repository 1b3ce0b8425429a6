// The table of the audit log.
import { id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

const SHOWN = 'shown to owners'

export const auditTables = tablesOf('jsonapi', {
  /** Who changed what. */
  audit_entries: {
    undigested: 'a record, which gives no rights',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      /** The address of a user, the name of a token, or the user of the operating system. */
      actor: text({ undigested: SHOWN, person: 'mark' }),
      via: oneOf(['console', 'api', 'mcp', 'command']),
      /** The client's IP address. Null for a command. */
      address: text({ null: true, undigested: SHOWN, nobody: 'an IP address' }),
      /** The operation of the API (operationId), or the command. */
      action: text({ undigested: SHOWN, nobody: 'an operation' }),
      subject_type: text({ undigested: SHOWN, nobody: 'a type' }),
      subject_id: text({ null: true, undigested: 'an id', nobody: 'an id' }),
      /** The name or the address of the subject. */
      subject: text({ null: true, undigested: SHOWN, person: 'mark' }),
      /** The role that a user got. Null for other changes. */
      role: text({ null: true, undigested: SHOWN, nobody: 'a role' }),
      created_at: time(),
    },
  },
})
