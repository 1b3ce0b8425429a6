// The tables of plans, agents' reputation, OAuth and privacy requests.
import type { AgentStatus } from '../states/agent.ts'
import type { Json, Key } from './columns.ts'

/** Recipients of a user's mail in a calendar month (UTC). */
export interface Usage {
  user_key: number
  /** "2026-01" */
  month: string
  used: number
  /** When the events usage.limit_approaching and usage.limit_reached were written. */
  approached_at: number | null
  reached_at: number | null
}

/** The results of mail by hour, written in the same transaction as the result. */
export interface Tallies {
  user_key: number
  domain_key: number
  /** '' for mail of no agent. */
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
  /** Its pool. */
  status: AgentStatus
  status_at: number
  /** Its next mail is not sent before this time. */
  next_slot_at: number
  /** Since when its mail is refused; null: it is accepted. */
  paused_at: number | null
  created_at: number
  updated_at: number
}

export interface DomainReputations {
  domain_key: number
  /** Since when the domain is under domain.reputation_warning; null: it is not. */
  warned_at: number | null
}

/** Redirect targets that the operator allows programs. */
export interface OauthAllowed {
  /** A known program or an origin. */
  name: string
  created_at: number
}

export interface OauthClients {
  key: Key
  /** The client_id: an id of ours, or the URL of the client's metadata document. */
  id: string
  name: string
  /** string[] */
  redirect_uris: Json
  created_at: number
  last_used_at: number
  /** Until when what was read of the document counts; null: it registered itself. */
  fresh_until: number | null
}

/** A user's grant to a client: first a code, then a family of tokens. */
export interface OauthGrants {
  key: Key
  id: string
  client_key: number
  user_key: number
  redirect_uri: string
  /** S256 code_challenge. */
  challenge: string
  resource: string
  /** SHA-256 of the code. */
  code_hash: Uint8Array | null
  code_expires_at: number | null
  code_used_at: number | null
  revoked_at: number | null
  created_at: number
}

export interface OauthTokens {
  /** SHA-256 of the token. */
  hash: Uint8Array
  grant_key: number
  kind: 'access' | 'refresh'
  expires_at: number
  /** When a refresh token was exchanged for the next one. */
  used_at: number | null
}

export interface PrivacyRequests {
  key: Key
  id: string
  user_key: number
  kind: 'erasure' | 'export'
  /** Hex HMAC-SHA-256 of the normalised address. */
  recipient_hash: string
  /** The address, sealed with the instance key, while the request is open. */
  sealed_recipient: Uint8Array | null
  status: 'pending' | 'done' | 'failed'
  /** The bundle of an export, in the data directory's exports. */
  file: string | null
  requested_at: number
  finished_at: number | null
  next_attempt_at: number | null
  created_at: number
  updated_at: number
}
