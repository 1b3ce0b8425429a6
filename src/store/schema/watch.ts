// The tables of the watch.
import { WATCH_STATUSES } from '../states/watch.ts'
import { due, id, key, oneOf, tablesOf, text, time } from './table.ts'

const PUBLIC = 'an address or a name of this server, and what DNS says of it'

export const watchTables = tablesOf('watch', {
  /** The watched items: an address or a domain on a list, the PTR record of an address, and the address of its name. */
  watches: {
    undigested: 'found again by asking',
    columns: {
      key: key(),
      id: id(),
      kind: oneOf(['blocklist', 'domain_list', 'reverse', 'forward']),
      subject: text({ nobody: PUBLIC }),
      /** The zone of the list, or '' for reverse and forward. */
      list: text({ nobody: PUBLIC }),
      /** The EHLO name of the address, or '' for lists. */
      hostname: text({ nobody: PUBLIC }),
      status: oneOf(WATCH_STATUSES),
      /** The answer of the last question that agrees with the status. */
      answer: text({ nobody: PUBLIC }),
      /** The first time of the answer behind the status. */
      since: time({ ahead: 'past' }),
      checked_at: time({ null: true, ahead: 'past' }),
      /** A different answer that was seen once. It counts when it is seen again. */
      seen: oneOf(WATCH_STATUSES, { null: true }),
      seen_at: time({ null: true, ahead: 'past' }),
      /** The round of its last query. */
      round_at: time({ null: true, ahead: 'past' }),
      due_at: due({ null: true, ahead: 'wait' }),
      /** The time when the operator was notified of a listing or a wrong record. Null without an open problem. */
      told_at: time({ null: true, ahead: 'past' }),
      created_at: time(),
    },
  },
})
