// The tables of privacy: requests to erase or to export data.
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
  /** The file of an export's bundle, in the folder `exports` of the data directory. */
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
