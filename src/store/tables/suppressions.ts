// The tables of suppressions.
import type { Key } from '../columns.ts'

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

export interface SuppressionsTables {
  suppressions: Suppressions
  soft_bounces: SoftBounces
}
