// The tables of accounts.
import { due, id, integer, integerOf, key, tablesOf, text, time } from './table.ts'

export const accountsTables = tablesOf('accounts', {
  /** A message to an owner or to the operator, mailed by the server. */
  notices: {
    digest: 21,
    columns: {
      key: key(),
      id: id(),
      /** Null: for the operator, who may not be a user. */
      user_key: integer({ null: true, digested: true }),
      /** The address when it is not the user's own. */
      recipient: text({ null: true, digested: true, nobody: 'the owner or the operator' }),
      /** The domain that the notice is about, if there is one. */
      domain_key: integer({ null: true }),
      subject: text({ digested: true, person: 'mark', held: true }),
      text: text({ digested: true, person: 'mark', held: true }),
      /** 2: not to be mailed, or given up. */
      mailed: integerOf<0 | 1 | 2>(),
      attempts: integer(),
      /** Null: not mailed any more. */
      next_attempt_at: due({ null: true, ahead: 'wait' }),
      /** The answer to the last attempt. */
      response: text({ null: true, undigested: 'what an exchanger said', person: 'mark', held: true }),
      created_at: time(),
    },
  },
  /** Recipients of a user's mail in a calendar month (UTC). */
  usage: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      /** "2026-01" */
      month: text({ nobody: 'a month' }),
      used: integer(),
      /** When the events usage.limit_approaching and usage.limit_reached were written. */
      approached_at: time({ null: true }),
      reached_at: time({ null: true }),
    },
  },
})
