// The tables of delivery.
import type { DeliveryStatus } from '../../states/delivery.ts'
import type { Json, Key } from '../columns.ts'

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

export interface DeliveryTables {
  deliveries: Deliveries
  sts_policies: StsPolicies
  attempts: Attempts
  lane_holds: LaneHolds
  learned_lanes: LearnedLanes
}
