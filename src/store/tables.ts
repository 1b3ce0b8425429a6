// The tables as Kysely types, and the folder that owns each: only that folder inserts, updates and deletes its rows (a
// test checks it; store/move.ts and store/events.ts are listed exceptions). Times are ms, booleans 0 or 1.
import type { Insertable, Selectable } from 'kysely'
import type { DomainStatus } from '../states/domain.ts'
import type { EventType } from '../states/events.ts'
import type { Flag, Json, Key } from './columns.ts'
import type {
  Agents,
  DomainReputations,
  OauthAllowed,
  OauthClients,
  OauthGrants,
  OauthTokens,
  PrivacyRequests,
  Tallies,
  Usage,
} from './tables-agents.ts'
import type {
  Attempts,
  LaneHolds,
  LearnedLanes,
  Passkeys,
  ReceiverTallies,
  Refusals,
  Sessions,
  SignInLinks,
} from './tables-console.ts'
import type { Audiences, Campaigns, Contacts } from './tables-campaigns.ts'
import type {
  Deliveries,
  OutboundBodies,
  OutboundEmails,
  SoftBounces,
  StsPolicies,
  Suppressions,
} from './tables-outbound.ts'
import type { InboundBodies, InboundEmails, InboundMessages, Inboxes } from './tables-inbound.ts'
import type { EventCursors, Notices, OutboundWebhooks, WebhookAttempts, Webhooks } from './tables-webhooks.ts'

/** Digests of texts in other tables, kept by triggers (digests.ts). */
export interface Digests {
  of: number
  row_key: number
  digest: Uint8Array
}

export interface Users {
  key: Key
  id: string
  email: string
  name: string
  password_hash: string | null
  plan: string
  subscription_state: 'active' | 'past_due' | 'revoked'
  /** The plan that a downgrade leads to, and its time. */
  downgrade_to: string | null
  downgrade_at: number | null
  /** Whether they get a daily summary by mail, and the time of the last one. */
  summary: 'none' | 'daily'
  summary_at: number | null
  /** Sees and steers the whole server. */
  operator: Flag
  /** The account that this one may look at, and nothing else; null: it has its own. */
  reads_for: number | null
  /** The key of a second factor (RFC 6238) under the instance key; null: none. */
  sealed_totp: Uint8Array | null
  /** The last step whose code was taken: no code counts twice. */
  totp_step: number | null
  created_at: number
  updated_at: number
}

export interface Tokens {
  key: Key
  id: string
  user_key: number
  name: string
  /** string[] */
  scopes: Json
  duration: '1_month' | '6_months' | '12_months'
  /** SHA-256 of the plaintext. */
  hash: Uint8Array
  last_four: string
  agent_id: string | null
  /** Recipients per day; null: no limit of its own. */
  daily: number | null
  expires_at: number
  last_used_at: number | null
  created_at: number
  updated_at: number
}

/** Recipients of a token's mail by day (UTC, days since the epoch). */
export interface TokenDays {
  token_key: number
  day: number
  recipients: number
}

export interface Domains {
  key: Key
  id: string
  user_key: number
  /** A-label, lower case. */
  name: string
  purpose: 'transactional' | 'marketing' | 'both'
  region: string
  mail_from_prefix: string
  tls_policy: 'Require' | 'Optional'
  open_tracking_enabled: Flag
  click_tracking_enabled: Flag
  tracking_redirect_mode: 'shared' | 'branded'
  status: DomainStatus
  /** The time of its status. */
  status_at: number
  /** The start of the polling schedule (D20). */
  poll_from: number
  /** Since when an active domain lacks a required record. */
  missing_since: number | null
  checked_at: number | null
  next_check_at: number | null
  /** The MTA-STS policy for mail that it receives, and the time of its last change; null: it never had one. */
  sts_mode: 'none' | 'testing' | 'enforce'
  sts_changed_at: number | null
  /** The policy that its DMARC record should publish. */
  dmarc_policy: 'none' | 'quarantine' | 'reject'
  deleted_at: number | null
  created_at: number
  updated_at: number
}

export interface DkimKeys {
  key: Key
  id: string
  domain_key: number
  selector: string
  /** Base64 of the SPKI, as in `p=`. */
  public_key: string
  /** PKCS #8 PEM, sealed with the instance key; null once erased. */
  sealed_private_key: Uint8Array | null
  role: 'signing' | 'standby' | 'retired'
  /** When DNS last showed it. */
  verified_at: number | null
  erase_at: number | null
  created_at: number
}

export interface Records {
  key: Key
  id: string
  user_key: number
  domain_key: number
  record_type: 'DKIM' | 'SPF' | 'MAIL_FROM_MX' | 'DMARC' | 'INBOUND_MX' | 'TRACKING'
  name: string
  value: string
  ttl: number
  required: Flag
  verified: Flag
  observed: string | null
  checked_at: number | null
  created_at: number
  updated_at: number
}

export interface Events {
  key: Key
  id: string
  user_key: number
  domain_key: number | null
  email_key: number | null
  /** The campaign that the mail belongs to, or that the event is about. */
  campaign_key: number | null
  type: EventType
  data: Json
  created_at: number
}

/** Counts of mail events that were deleted. */
export interface EventSums {
  email_key: number
  type: EventType
  /** 0: no single delivery. */
  delivery: number
  machine: Flag
  campaign_key: number | null
  times: number
}

export interface Tables {
  users: Users
  tokens: Tokens
  token_days: TokenDays
  domains: Domains
  dkim_keys: DkimKeys
  records: Records
  outbound_emails: OutboundEmails
  outbound_bodies: OutboundBodies
  digests: Digests
  deliveries: Deliveries
  events: Events
  event_sums: EventSums
  webhooks: Webhooks
  outbound_webhooks: OutboundWebhooks
  webhook_attempts: WebhookAttempts
  event_cursors: EventCursors
  notices: Notices
  suppressions: Suppressions
  soft_bounces: SoftBounces
  sts_policies: StsPolicies
  audiences: Audiences
  contacts: Contacts
  campaigns: Campaigns
  usage: Usage
  tallies: Tallies
  agents: Agents
  domain_reputations: DomainReputations
  oauth_allowed: OauthAllowed
  oauth_clients: OauthClients
  oauth_grants: OauthGrants
  oauth_tokens: OauthTokens
  privacy_requests: PrivacyRequests
  inboxes: Inboxes
  inbound_messages: InboundMessages
  inbound_emails: InboundEmails
  inbound_bodies: InboundBodies
  sessions: Sessions
  sign_in_links: SignInLinks
  passkeys: Passkeys
  attempts: Attempts
  lane_holds: LaneHolds
  learned_lanes: LearnedLanes
  receiver_tallies: ReceiverTallies
  refusals: Refusals
}

export type TableName = keyof Tables
export type RowOf<T extends TableName> = Selectable<Tables[T]>
export type NewRow<T extends TableName> = Insertable<Tables[T]>

/** The one folder of src/ that writes each table. */
export const OWNERS: Record<TableName, string> = {
  users: 'accounts',
  tokens: 'accounts',
  token_days: 'accounts',
  domains: 'domains',
  dkim_keys: 'domains',
  records: 'domains',
  outbound_emails: 'outbound',
  outbound_bodies: 'outbound',
  digests: 'store',
  deliveries: 'outbound',
  events: 'store',
  event_sums: 'store',
  webhooks: 'webhooks',
  outbound_webhooks: 'webhooks',
  webhook_attempts: 'webhooks',
  event_cursors: 'webhooks',
  notices: 'accounts',
  suppressions: 'outbound',
  soft_bounces: 'outbound',
  sts_policies: 'outbound',
  audiences: 'campaigns',
  contacts: 'campaigns',
  campaigns: 'campaigns',
  usage: 'accounts',
  tallies: 'outbound',
  agents: 'outbound',
  domain_reputations: 'outbound',
  oauth_allowed: 'accounts',
  oauth_clients: 'accounts',
  oauth_grants: 'accounts',
  oauth_tokens: 'accounts',
  privacy_requests: 'privacy',
  inboxes: 'inbound',
  inbound_messages: 'inbound',
  inbound_emails: 'inbound',
  inbound_bodies: 'inbound',
  sessions: 'accounts',
  sign_in_links: 'accounts',
  passkeys: 'accounts',
  attempts: 'outbound',
  lane_holds: 'outbound',
  learned_lanes: 'outbound',
  receiver_tallies: 'outbound',
  refusals: 'outbound',
}
