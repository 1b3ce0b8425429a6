// The tables of delivery.
import { HOUR } from '../../base/clock.ts'
import { DELIVERY_STATUSES } from '../states/delivery.ts'
import { due, id, integer, json, key, oneOf, real, tablesOf, text, time } from './table.ts'

const REPLY_CODE = 'a code of SMTP'
const LANE = 'a domain'

export const deliveryTables = tablesOf('delivery', {
  deliveries: {
    undigested: 'addresses stand in the mail and are held to it (delivery/wire/letter.ts)',
    owned: 'email_key in (select key from outbound_emails where user_key = ?)',
    columns: {
      key: key(),
      email_key: integer(),
      domain_key: integer(),
      role: oneOf(['to', 'cc', 'bcc']),
      address: text({ person: 'own step', held: true }),
      /** The recipient domain and more (message/lane-names.ts): mail of one lane shares its connections. */
      lane: text({ nobody: LANE }),
      status: oneOf(DELIVERY_STATUSES),
      attempts: integer(),
      next_attempt_at: due({ null: true, ahead: 'own step' }),
      leased_until: due({ null: true, ahead: [{ within: 4 * HOUR }] }),
      expires_at: due({ ahead: 'own step' }),
      /** When email.delayed was last emitted. */
      delayed_at: time({ null: true, ahead: 'past' }),
      smtp_code: integer({ null: true }),
      enhanced_code: text({ null: true, nobody: REPLY_CODE }),
      response: text({ null: true, person: 'own step', held: true }),
      remote_mta: text({ null: true, person: 'own step' }),
      /** TLS protocol of the last attempt, null in clear text. */
      tls: text({ null: true, nobody: 'a protocol' }),
      /** How it was protected (smtp/security.ts). */
      security: text({ null: true, nobody: 'words of a fixed list' }),
      /** The local address that the last attempt came from, or null if the server has no choice of them. */
      source: text({ null: true, nobody: 'an address of this server' }),
      /** The last day (days since the epoch) on which it counts against a daily limit of warm-up, from its claim on. */
      tried_day: integer({ null: true }),
      /** The SMTP dialogue of the last attempt, bounded. */
      dialogue: text({ null: true, person: 'own step' }),
      /** The time since which a problem on this server has delayed the delivery, or null. */
      trouble_since: time({ null: true, ahead: 'past' }),
      updated_at: time(),
    },
  },
  /** MTA-STS policies of recipient domains (RFC 8461). */
  sts_policies: {
    undigested: 'a copy of what DNS and HTTPS say',
    columns: {
      domain: text({ nobody: LANE }),
      /** The id in the TXT record for which the policy was fetched. */
      id: id(),
      mode: oneOf(['enforce', 'testing', 'none']),
      /** string[]: host patterns. */
      mx: json({ nobody: 'host patterns' }),
      fetched_at: time({ ahead: 'forget' }),
      expires_at: due({ harmless: 'forgotten with fetched_at' }),
    },
  },
  /** Attempts that were followed by another attempt. The result of the last attempt is in `deliveries`. */
  attempts: {
    undigested: 'what exchangers said',
    columns: {
      key: key(),
      delivery_key: integer(),
      number: integer(),
      at: time(),
      outcome: oneOf(['deferred', 'delivered', 'bounced', 'failed', 'rejected', 'suppressed']),
      smtp_code: integer({ null: true }),
      enhanced_code: text({ null: true, nobody: REPLY_CODE }),
      response: text({ null: true, person: 'own step' }),
      remote_mta: text({ null: true, person: 'own step' }),
      tls: text({ null: true, nobody: 'a protocol' }),
      security: text({ null: true, nobody: 'words of a fixed list' }),
      source: text({ null: true, nobody: 'an address of this server' }),
    },
  },
  /** The sources of the configuration at the last start, in the order in which they came. */
  source_addresses: {
    undigested: 'a copy of the configuration',
    columns: {
      key: key(),
      address: text({ nobody: 'an address of this server' }),
    },
  },
  /** Recipient domains whose mail is held until the operator releases it. */
  lane_holds: {
    undigested: 'names of lanes',
    columns: {
      lane: text({ nobody: LANE }),
      held_at: time(),
    },
  },
  /** The limits of receiving domains as learned, so that a restart does not forget them. */
  learned_lanes: {
    undigested: 'what was learned of exchangers is learned again',
    columns: {
      lane: text({ nobody: LANE }),
      connections: integer({ null: true }),
      per_second: real({ null: true }),
      paused_until: due({ null: true, harmless: 'read only beside learned_at' }),
      learned_at: time({ ahead: 'forget' }),
    },
  },
})
