// The tables as Kysely sees them, and which folder owns each: insert, update and delete of a table stand only there
// (store/move.ts and store/events.ts are the written exceptions; a test holds it). Times are ms, booleans 0 or 1.
import type { Generated, Insertable, Selectable } from 'kysely'
import type { DeliveryStatus } from '../states/delivery.ts'
import type { DomainStatus } from '../states/domain.ts'
import type { EventType } from '../states/events.ts'
import type { EmailStatus } from '../states/outbound-email.ts'

type Key = Generated<number>
type Flag = 0 | 1
/** JSON text of the shape in its comment. */
type Json = string

export interface Users {
  key: Key
  id: string
  email: string
  name: string
  password_hash: string | null
  plan: string
  subscription_state: 'active' | 'past_due' | 'revoked'
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
  expires_at: number
  last_used_at: number | null
  created_at: number
  updated_at: number
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
  /** When it entered its status. */
  status_at: number
  /** The polling schedule counts from here (D20). */
  poll_from: number
  /** Since when a required record of an active domain is missing. */
  missing_since: number | null
  checked_at: number | null
  next_check_at: number | null
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
  /** PKCS #8 PEM under the instance key; null once erased. */
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

export interface OutboundEmails {
  key: Key
  id: string
  user_key: number
  domain_key: number
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
  /** As asked for; null follows the domain. */
  track_opens: Flag | null
  track_clicks: Flag | null
  /** As it was done. */
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
  /** A StoredBody (outbound/body.ts), or null when it lies in the spool. */
  content: Json | null
  /** string[]: the files of the spool that belong to it; the body itself is the first when `content` is null. */
  spool: Json | null
}

export interface Deliveries {
  key: Key
  email_key: number
  domain_key: number
  role: 'to' | 'cc' | 'bcc'
  address: string
  /** The recipient domain (A-label): what is sent to one lane shares its connections. */
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
  updated_at: number
}

export interface Events {
  key: Key
  id: string
  user_key: number
  domain_key: number | null
  email_key: number | null
  type: EventType
  data: Json
  created_at: number
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
  /** How often soft bounces led here; each time doubles the next. */
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
  /** Of the TXT record it was fetched for. */
  id: string
  mode: 'enforce' | 'testing' | 'none'
  /** string[]: host patterns. */
  mx: Json
  fetched_at: number
  expires_at: number
}

export interface Tables {
  users: Users
  tokens: Tokens
  domains: Domains
  dkim_keys: DkimKeys
  records: Records
  outbound_emails: OutboundEmails
  outbound_bodies: OutboundBodies
  deliveries: Deliveries
  events: Events
  suppressions: Suppressions
  soft_bounces: SoftBounces
  sts_policies: StsPolicies
}

export type TableName = keyof Tables
export type RowOf<T extends TableName> = Selectable<Tables[T]>
export type NewRow<T extends TableName> = Insertable<Tables[T]>

/** The one folder of src/ that writes each table. */
export const OWNERS: Record<TableName, string> = {
  users: 'accounts',
  tokens: 'accounts',
  domains: 'domains',
  dkim_keys: 'domains',
  records: 'domains',
  outbound_emails: 'outbound',
  outbound_bodies: 'outbound',
  deliveries: 'outbound',
  events: 'store',
  suppressions: 'outbound',
  soft_bounces: 'outbound',
  sts_policies: 'outbound',
}
