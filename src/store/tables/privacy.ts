// The tables of privacy: requests of privacy.
import type { Key } from '../columns.ts'

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

export interface PrivacyTables {
  privacy_requests: PrivacyRequests
}
