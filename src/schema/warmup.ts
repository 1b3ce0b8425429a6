// The tables of warm-up. A source is an address of this server, a receiver a provider or a domain.
import { WARMUP_STATES } from '../states/warmup.ts'
import { flag, id, integer, key, oneOf, tablesOf, text, time } from './table.ts'

const SOURCE = 'an address of this server'
const RECEIVER = 'a provider or a domain'

export const warmupTables = tablesOf('warmup', {
  /** Pairs of source and receiver; the receiver `*` is the total of the source. */
  warmups: {
    undigested: 'limits that the mail of each day makes again',
    columns: {
      key: key(),
      id: id(),
      source: text({ undigested: SOURCE, nobody: SOURCE }),
      receiver: text({ undigested: RECEIVER, nobody: RECEIVER }),
      status: oneOf(WARMUP_STATES),
      /** The place in the ladder, from 0. */
      step: integer(),
      /** The number of an operator, for `fixed`. */
      fixed: integer({ null: true }),
      /** Why the state is what it is: figures and words of the receiver. */
      reason: text({ null: true, undigested: 'words', nobody: 'addresses are taken out before it is written' }),
      /** Since when the state holds. */
      since: time({ ahead: 'past' }),
      /** The day (days since the epoch) for which bulk mail was ended. */
      closed_day: integer({ null: true }),
      /** The last day that was judged. */
      judged_day: integer(),
      /** The first of the days with little mail that led up to the day that was judged last. */
      quiet_day: integer(),
      /** The last day on which the operator got a notice. */
      told_day: integer({ null: true }),
      /** When an operator set it last, and who. */
      set_at: time({ null: true, ahead: 'past' }),
      set_by: text({ null: true, undigested: 'for the log', nobody: 'an operator' }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** What was tried and said about us, by day of the mail. */
  warmup_days: {
    undigested: 'figures',
    by: 'warmup_key',
    columns: {
      warmup_key: integer(),
      day: integer(),
      /** Recipients whose RCPT was sent; `bulk`: those of them in campaigns and reports. */
      tried: integer(),
      bulk: integer(),
      deferred: integer(),
      refused: integer(),
      complained: integer(),
      bounced: integer(),
      blocked: integer(),
      /** Set when the day is judged. */
      allowance: integer({ null: true }),
      verdict: oneOf(['good', 'bad', 'nothing'], { null: true }),
    },
  },
  /** Recipients that a relay took over, by receiver and day. */
  warmup_relayed: {
    undigested: 'figures',
    by: 'day',
    columns: {
      receiver: text({ nobody: RECEIVER }),
      day: integer(),
      relayed: integer(),
    },
  },
  /** The source addresses that were seen in the configuration. */
  warmup_sources: {
    undigested: 'addresses of this server',
    by: 'source',
    columns: {
      source: text({ nobody: SOURCE }),
      /** It sent on most days before warm-up was there: its receivers begin higher (DV14). */
      established: flag(),
      first_at: time(),
      /** The last time that the configuration named it. */
      seen_at: time({ ahead: 'past' }),
    },
  },
  /** The receiver of a recipient domain, as its exchangers said. */
  warmup_domains: {
    undigested: 'what DNS said',
    by: 'domain',
    columns: {
      domain: text({ nobody: 'a domain' }),
      receiver: text({ nobody: RECEIVER }),
      seen_at: time({ ahead: 'past' }),
    },
  },
  /** One row, once an operator has turned warm-up off or on. */
  warmup_switch: {
    undigested: 'a switch',
    columns: {
      key: key(),
      off: flag(),
      set_at: time({ ahead: 'past' }),
      set_by: text({ undigested: 'for the log', nobody: 'an operator' }),
    },
  },
})
