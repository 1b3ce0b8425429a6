// The tables of domains: sending domains, their keys and records.
import type { DomainStatus } from '../../states/domain.ts'
import type { Flag, Key } from '../columns.ts'

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
  /** The time since which an active domain lacks a required record. */
  missing_since: number | null
  checked_at: number | null
  next_check_at: number | null
  /** The MTA-STS policy for mail to the domain, and the time of its last change; null: it never had a policy. */
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
  /** The time at which DNS last showed the key. */
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

export interface DomainsTables {
  domains: Domains
  dkim_keys: DkimKeys
  records: Records
}
