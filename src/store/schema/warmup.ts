// The tables of warm-up. A source is an address of this server, a receiver a provider or a domain.
import { WARMUP_STATES } from '../states/warmup.ts'
import { flag, id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

const SOURCE = 'an address of this server'
const RECEIVER = 'a provider or a domain'

export const warmupTables = tablesOf('warmup', {
  /** Pairs of source and receiver. The receiver `*` is the total of the source. */
  warmups: {
    undigested: 'limits that the mail of each day makes again',
    columns: {
      key: key(),
      id: id(),
      source: text({ undigested: SOURCE, nobody: SOURCE }),
      receiver: text({ undigested: RECEIVER, nobody: RECEIVER }),
      status: oneOf(WARMUP_STATES),
      /** The place in the schedule, from 0. */
      step: integer(),
      /** The number of an operator, for `fixed`. */
      fixed: integer({ null: true }),
      /** The reason for the state: metrics and replies of the receiver. */
      reason: text({ null: true, undigested: 'words', nobody: 'addresses are taken out before it is written' }),
      /** Since when the state holds. */
      since: time({ ahead: 'past' }),
      /** The last evaluated day. */
      judged_day: integer(),
      /** The operator's last change: time and name. */
      set_at: time({ null: true, ahead: 'past' }),
      set_by: text({ null: true, undigested: 'for the log', nobody: 'an operator' }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** The attempts and the receiver's responses, by day of the mail. */
  warmup_days: {
    undigested: 'figures',
    by: 'warmup_key',
    columns: {
      warmup_key: integer(),
      day: integer(),
      /** Recipients whose RCPT was sent. `bulk`: those of them in campaigns and reports. */
      tried: integer(),
      bulk: integer(),
      deferred: integer(),
      refused: integer(),
      complained: integer(),
      bounced: integer(),
      blocked: integer(),
      /** Set when the day is evaluated. */
      daily_limit: integer({ null: true }),
      verdict: oneOf(['good', 'bad', 'neutral'], { null: true }),
    },
  },
  /** The source addresses that were seen in the configuration. */
  warmup_sources: {
    undigested: 'addresses of this server',
    by: 'source',
    columns: {
      source: text({ nobody: SOURCE }),
      /** The server had sent before warm-up was installed: no limit applies until a receiver objects. */
      established: flag(),
      /** The last time that the configuration named it. */
      seen_at: time({ ahead: 'past' }),
    },
  },
  /** The receiver of a recipient domain, according to its MX hosts. */
  warmup_domains: {
    undigested: 'what DNS said',
    by: 'domain',
    columns: {
      domain: text({ nobody: 'a domain' }),
      receiver: text({ nobody: RECEIVER }),
      seen_at: time({ ahead: 'past' }),
    },
  },
})
