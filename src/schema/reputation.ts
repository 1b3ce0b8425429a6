// The tables of reputation.
import { AGENT_STATUSES } from '../states/agent.ts'
import { due, integer, key, oneOf, tablesOf, text, time } from './table.ts'

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
  /** The results of mail by receiver: a mailbox provider of config/shaping.toml, else the receiving domain. */
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
