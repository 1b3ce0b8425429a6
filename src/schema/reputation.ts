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
      /** The time since which the agent's mail is refused; null: its mail is accepted. */
      paused_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  domain_reputations: {
    columns: {
      domain_key: integer(),
      /** The time since which domain.reputation_warning applies to the domain; null: it does not apply. */
      warned_at: time({ null: true }),
    },
  },
  /** The results of mail by receiver: a provider of config/shaping.toml, else a registrable domain (receivers.ts). */
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
      /** The delivered mails by the time from acceptance to delivery; each mail counts in one column only. */
      within_5s: integer(),
      within_1m: integer(),
      within_10m: integer(),
      within_1h: integer(),
      within_15s: integer(),
      within_3m: integer(),
      within_30m: integer(),
      within_3h: integer(),
      /** Recipients that were tried, and those of them that were put off, each once a day (UTC). */
      tried: integer(),
      put_off: integer(),
      complained: integer(),
      /** Proven complaints that name no recipient of ours. */
      unmatched_complaints: integer(),
    },
  },
  /** Which sending domains had mail for a receiver on a day. */
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
  /** Receivers that suddenly took less of an account's mail than in the week before. */
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
      /** A share of the recipients tried in the last 24 hours; of a slow receiver the median in seconds. */
      measured: real(),
      /** The same in the seven days before the alarm; null: there was too little mail to compare with. */
      usual: real({ null: true }),
      /** What opened the alarm; it closes after a day below the half of it. */
      threshold: real(),
      /** Recipients tried in the last 24 hours. */
      volume: integer(),
      /** The receiver's commonest words of these days. */
      words: text({ null: true, nobody: 'addresses are taken out before it is written' }),
      /** Since when it is below the half of the threshold; null: it is not. */
      calm_since: time({ null: true }),
      /** When the owner was told; null: not yet. */
      told_at: time({ null: true }),
      updated_at: time(),
    },
  },
  /** What Microsoft's SNDS says of an address of this server on a day. */
  snds_rows: {
    undigested: 'imported again from the file or the address',
    columns: {
      address: text({ nobody: 'an address of this server' }),
      /** Days since the epoch. */
      day: integer(),
      recipients: integer(),
      filter_result: oneOf(['green', 'yellow', 'red']),
      /** 0 to 1. The least that SNDS names is "< 0.1 %", kept as 0.001. */
      complaint_rate: real({ null: true }),
      traps: integer({ null: true }),
      imported_at: time(),
    },
  },
  /** What Google's Postmaster Tools say of a sending domain on a day; rates are 0 to 1. */
  gmail_rows: {
    undigested: 'imported again from the file',
    columns: {
      domain_key: integer(),
      /** Days since the epoch. */
      day: integer(),
      spam_rate: real({ null: true }),
      spf_rate: real({ null: true }),
      dkim_rate: real({ null: true }),
      dmarc_rate: real({ null: true }),
      tls_rate: real({ null: true }),
      error_rate: real({ null: true }),
      reputation: text({ null: true, nobody: 'a word of Google' }),
      compliance: text({ null: true, nobody: 'a word of Google' }),
      imported_at: time(),
    },
  },
  /** The texts with which receivers refuse or defer mail, without addresses and without numbers of single mails. */
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
