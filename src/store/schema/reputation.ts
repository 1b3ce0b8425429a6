// The tables of reputation.
import { AGENT_STATUSES } from '../states/agent.ts'
import { RECEIVER_ALARM_KINDS, RECEIVER_ALARM_STATUSES } from '../states/receiver-alarm.ts'
import { due, id, integer, key, oneOf, real, tablesOf, text, time } from './table.ts'

export const reputationTables = tablesOf('reputation', {
  /** The results of mail by hour, written in the same transaction as the result. */
  tallies: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      domain_key: integer(),
      /** '' for mail without an agent. */
      agent_id: text({ person: 'own step' }),
      /** Hours since the epoch. */
      hour: integer(),
      deliveries: integer(),
      bounces: integer(),
      complaints: integer(),
    },
  },
  /** The results of a campaign since its start or its last resume. */
  campaign_tallies: {
    undigested: 'figures',
    owned: 'campaign_key in (select key from campaigns where user_key = ?)',
    columns: {
      campaign_key: integer(),
      deliveries: integer(),
      bounces: integer(),
      complaints: integer(),
    },
  },
  agents: {
    undigested: 'names that the owner gave to figures',
    columns: {
      key: key(),
      user_key: integer(),
      agent_id: text({ person: 'own step' }),
      /** The pool of the agent. */
      status: oneOf(AGENT_STATUSES),
      status_at: time({ ahead: 'past' }),
      /** The agent's next mail is not sent before this time. */
      next_slot_at: due({ ahead: 'wait' }),
      /** The time since which the agent's mail is rejected. Null if it is accepted. */
      paused_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  domain_reputations: {
    columns: {
      domain_key: integer(),
      /** The time since which domain.reputation_warning applies to the domain. Null if it does not apply. */
      warned_at: time({ null: true }),
    },
  },
  /**
   * The results of mail by receiver: a provider of config/shaping.toml, otherwise a registrable domain (receivers.ts).
   */
  receiver_tallies: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      receiver: text({ nobody: 'a provider or a domain' }),
      /** Hours since the epoch. */
      hour: integer(),
      delivered: integer(),
      deferred: integer(),
      refused: integer(),
      /** The delivered emails by the time from acceptance to delivery. Each email counts in one column. */
      within_5s: integer(),
      within_1m: integer(),
      within_10m: integer(),
      within_1h: integer(),
      within_15s: integer(),
      within_3m: integer(),
      within_30m: integer(),
      within_3h: integer(),
      /** Recipients tried, and those of them deferred, each counted once per day (UTC). */
      tried: integer(),
      put_off: integer(),
      complained: integer(),
      /** Proven complaints that name no recipient of ours. */
      unmatched_complaints: integer(),
      /** The other hours of a day that is over, as JSON: the hour (UTC) with the values of the columns above. */
      hours: text({ null: true, nobody: 'numbers' }),
    },
  },
  /** The results of an account's mail by hour, for all receivers together, of days that are over. */
  outcome_hours: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      /** Hours since the epoch. */
      hour: integer(),
      delivered: integer(),
      deferred: integer(),
      refused: integer(),
    },
  },
  /** The sending domains with mail for a receiver, per day. */
  receiver_domains: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      receiver: text({ nobody: 'a provider or a domain' }),
      /** Days since the epoch. */
      day: integer(),
      domain_key: integer(),
      tried: integer(),
    },
  },
  /** Receivers that suddenly accepted less of an account's mail than in the week before. */
  receiver_alarms: {
    undigested: 'made of figures',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      receiver: text({ nobody: 'a provider or a domain' }),
      kind: oneOf(RECEIVER_ALARM_KINDS),
      status: oneOf(RECEIVER_ALARM_STATUSES),
      /** When it was opened. */
      created_at: time(),
      closed_at: time({ null: true }),
      /** A fraction of the recipients tried in the last 24 hours. For a slow receiver, the median in seconds. */
      measured: real(),
      /** The same for the seven days before the alarm. Null if there was too little mail to compare with. */
      usual: real({ null: true }),
      /** The threshold that opened the alarm. The alarm closes after a day below half of it. */
      threshold: real(),
      /** Recipients tried in the last 24 hours. */
      volume: integer(),
      /** The receiver's commonest words of these days. */
      words: text({ null: true, nobody: 'addresses are taken out before it is written' }),
      /** The time since which it is below half of the threshold, or null. */
      calm_since: time({ null: true }),
      /** The time of the owner's notification, or null. */
      told_at: time({ null: true }),
      updated_at: time(),
    },
  },
  /** The texts of receivers' rejections and deferrals, without addresses and without numbers of single emails. */
  refusals: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      receiver: text({ nobody: 'a provider or a domain' }),
      /** Days since the epoch. */
      day: integer(),
      words: text({ nobody: 'addresses are taken out before it is written' }),
      times: integer(),
    },
  },
})
