// The tables of reputation.
import type { AgentStatus } from '../../states/agent.ts'
import type { Key } from '../columns.ts'

/** The results of mail by hour, written in the same transaction as the result. */
export interface Tallies {
  user_key: number
  domain_key: number
  /** '' for mail without an agent. */
  agent_id: string
  /** Hours since the epoch. */
  hour: number
  deliveries: number
  bounces: number
  complaints: number
}

export interface Agents {
  key: Key
  user_key: number
  agent_id: string
  /** The pool of the agent. */
  status: AgentStatus
  status_at: number
  /** The agent's next mail is not sent before this time. */
  next_slot_at: number
  /** The time since which the agent's mail is refused; null: its mail is accepted. */
  paused_at: number | null
  created_at: number
  updated_at: number
}

export interface DomainReputations {
  domain_key: number
  /** The time since which domain.reputation_warning applies to the domain; null: it does not apply. */
  warned_at: number | null
}

/** The results of mail by receiver: a mailbox provider of config/shaping.toml, else the receiving domain. */
export interface ReceiverTallies {
  user_key: number
  receiver: string
  /** Hours since the epoch. */
  hour: number
  delivered: number
  deferred: number
  refused: number
  /** The delivered mails by the time from acceptance to delivery; each mail counts in one column only. */
  within_5s: number
  within_1m: number
  within_10m: number
  within_1h: number
}

/** The texts with which receivers refuse or defer mail, without addresses and without numbers of single mails. */
export interface Refusals {
  user_key: number
  receiver: string
  /** Days since the epoch. */
  day: number
  words: string
  times: number
}

export interface ReputationTables {
  tallies: Tallies
  agents: Agents
  domain_reputations: DomainReputations
  receiver_tallies: ReceiverTallies
  refusals: Refusals
}
