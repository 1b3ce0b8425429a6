// The tables of the watch.
import { WATCH_STATUSES } from '../states/watch.ts'
import { due, id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

const PUBLIC = 'an address or a name of this server, and what DNS says of it'

export const watchTables = tablesOf('watch', {
  /** What is looked after: an address or a domain on a list, the reverse entry of an address, where its name leads. */
  watches: {
    undigested: 'found again by asking',
    columns: {
      key: key(),
      id: id(),
      kind: oneOf(['blocklist', 'domain_list', 'reverse', 'forward']),
      /** The address, or the domain. */
      subject: text({ nobody: PUBLIC }),
      /** The zone of the list; '' for reverse and forward. */
      list: text({ nobody: PUBLIC }),
      /** The name that the address says in EHLO; '' for lists. */
      hostname: text({ nobody: PUBLIC }),
      status: oneOf(WATCH_STATUSES),
      /** The answer of the last question that agrees with the status. */
      answer: text({ nobody: PUBLIC }),
      /** When the answer that the status stands for was first seen. */
      since: time({ ahead: 'past' }),
      checked_at: time({ null: true, ahead: 'past' }),
      /** Another answer that was seen once; it counts when it is seen again. */
      seen: oneOf(WATCH_STATUSES, { null: true }),
      seen_at: time({ null: true, ahead: 'past' }),
      /** The round in which it was asked last. */
      round_at: time({ null: true, ahead: 'past' }),
      due_at: due({ null: true, ahead: 'wait' }),
      /** When the operator was told that it is listed or wrong; null: nothing is open. */
      told_at: time({ null: true, ahead: 'past' }),
      /** When the operator was told that there has been no answer for days. */
      told_unknown_at: time({ null: true, ahead: 'past' }),
      /** Since when it is not watched any more. */
      left_at: time({ null: true, ahead: 'past' }),
      created_at: time(),
    },
  },
  /** The changes of watches, kept for 400 days. */
  watch_changes: {
    undigested: 'history of what DNS said',
    columns: {
      key: key(),
      watch_key: integer(),
      state: oneOf(WATCH_STATUSES),
      previous_state: oneOf(WATCH_STATUSES),
      answer: text({ nobody: PUBLIC }),
      at: time({ ahead: 'past' }),
    },
  },
})
