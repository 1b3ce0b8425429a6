// The tables of outbound: mail that is sent, suppressions, reputation and figures.
import type { AgentStatus } from '../../states/agent.ts'
import type { DeliveryStatus } from '../../states/delivery.ts'
import type { EmailStatus } from '../../states/outbound-email.ts'
import type { Flag, Json, Key } from '../columns.ts'

export interface OutboundEmails {
  key: Key
  id: string
  user_key: number
  domain_key: number
  /** Set for a campaign's mail. Its `from`, `subject` and `message_id` are '': the campaign's columns hold them. */
  campaign_key: number | null
  /** Null for a test mail. */
  contact_key: number | null
  from: string
  to: string
  /** string[] */
  cc: Json | null
  /** string[] */
  bcc: Json | null
  /** string[] */
  reply_to: Json | null
  subject: string
  agent_id: string | null
  /** As requested; null: as the domain is set. */
  track_opens: Flag | null
  track_clicks: Flag | null
  /** As applied. */
  opens_tracked: Flag
  clicks_tracked: Flag
  ai_disclosure: Flag | null
  message_id: string
  idempotency_key: string | null
  payload_hash: Uint8Array | null
  status: EmailStatus
  queued_at: number
  sent_at: number | null
  delivered_at: number | null
  bounced_at: number | null
  complained_at: number | null
  rejected_at: number | null
  suppressed_at: number | null
  failed_at: number | null
  first_opened_at: number | null
  first_clicked_at: number | null
  created_at: number
  updated_at: number
}

export interface OutboundBodies {
  email_key: number
  /** A StoredBody (outbound/body.ts), or null when it is in the spool. */
  content: Json | null
  /** string[]: the files in the spool that belong to the body; when `content` is null, the first one is the body. */
  spool: Json | null
}

export interface Deliveries {
  key: Key
  email_key: number
  domain_key: number
  role: 'to' | 'cc' | 'bcc'
  address: string
  /** The recipient domain (A-label), with "~" in front for campaigns: mail of one lane shares its connections. */
  lane: string
  status: DeliveryStatus
  attempts: number
  next_attempt_at: number | null
  leased_until: number | null
  expires_at: number
  /** When email.delayed was last emitted. */
  delayed_at: number | null
  smtp_code: number | null
  enhanced_code: string | null
  response: string | null
  remote_mta: string | null
  /** TLS protocol of the last attempt, null in clear text. */
  tls: string | null
  /** The SMTP dialogue of the last attempt, bounded. */
  dialogue: string | null
  /** The time since which local trouble has delayed the delivery; null: no trouble has. */
  trouble_since: number | null
  updated_at: number
}

export interface Suppressions {
  key: Key
  id: string
  user_key: number
  domain_key: number
  /** Lower case, the domain as A-label. */
  email: string
  reason: 'unsubscribe' | 'hard_bounce' | 'complaint' | 'manual' | 'list_import' | 'soft_bounce'
  source: 'smtp' | 'dsn' | 'arf' | 'unsubscribe_link' | 'unsubscribe_mail' | 'manual' | 'import'
  scope: 'marketing' | 'all'
  /** How often soft bounces have caused this suppression; each time doubles the length of the next. */
  strikes: number
  /** Null: permanent. */
  expires_at: number | null
  created_at: number
  updated_at: number
}

export interface SoftBounces {
  key: Key
  domain_key: number
  email: string
  at: number
}

/** MTA-STS policies of recipient domains (RFC 8461). */
export interface StsPolicies {
  domain: string
  /** The id in the TXT record for which the policy was fetched. */
  id: string
  mode: 'enforce' | 'testing' | 'none'
  /** string[]: host patterns. */
  mx: Json
  fetched_at: number
  expires_at: number
}

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

/** Attempts that were followed by another attempt; the result of the last attempt is in `deliveries`. */
export interface Attempts {
  key: Key
  delivery_key: number
  number: number
  at: number
  outcome: 'deferred' | 'delivered' | 'bounced' | 'failed' | 'rejected' | 'suppressed'
  smtp_code: number | null
  enhanced_code: string | null
  response: string | null
  remote_mta: string | null
  tls: string | null
}

/** Receiving domains whose mail waits until the operator releases it. */
export interface LaneHolds {
  lane: string
  held_at: number
}

/** The limits of receiving domains as learned, so that a restart does not forget them. */
export interface LearnedLanes {
  lane: string
  connections: number | null
  per_second: number | null
  paused_until: number | null
  learned_at: number
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

export interface OutboundTables {
  outbound_emails: OutboundEmails
  outbound_bodies: OutboundBodies
  deliveries: Deliveries
  suppressions: Suppressions
  soft_bounces: SoftBounces
  sts_policies: StsPolicies
  tallies: Tallies
  agents: Agents
  domain_reputations: DomainReputations
  attempts: Attempts
  lane_holds: LaneHolds
  learned_lanes: LearnedLanes
  receiver_tallies: ReceiverTallies
  refusals: Refusals
}
