// The tables of suppressions.
import { DAY } from '../../base/clock.ts'
import { id, integer, key, oneOf, tablesOf, text, time, due } from './table.ts'

export const suppressionsTables = tablesOf('suppressions', {
  suppressions: {
    digest: 16,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      domain_key: integer({ digested: true }),
      /** Lower case, the domain as A-label. */
      email: text({ digested: true, person: 'hash', held: true }),
      reason: oneOf(['unsubscribe', 'hard_bounce', 'complaint', 'manual', 'list_import', 'soft_bounce'], {
        digested: true,
      }),
      source: oneOf(['smtp', 'dsn', 'arf', 'unsubscribe_link', 'unsubscribe_mail', 'manual', 'import'], {
        digested: true,
      }),
      scope: oneOf(['marketing', 'all'], { digested: true }),
      /** How often soft bounces have caused this suppression. Each time doubles the length of the next. */
      strikes: integer(),
      /** Null: permanent. */
      expires_at: due({ null: true, ahead: [{ within: 30 * DAY, where: `reason = 'soft_bounce'` }] }),
      created_at: time(),
      updated_at: time(),
    },
  },
  soft_bounces: {
    undigested: 'figures of some days',
    columns: {
      key: key(),
      domain_key: integer(),
      email: text({ person: 'own step' }),
      at: time({ ahead: 'past' }),
    },
  },
})
