// The tables of accounts.
import type { Flag, Key } from '../columns.ts'

/** A message to an owner or to the operator, mailed by the server. */
export interface Notices {
  key: Key
  id: string
  /** Null: for the operator, who may not be a user. */
  user_key: number | null
  /** The address when it is not the user's own. */
  recipient: string | null
  /** The domain that the notice is about, if there is one. */
  domain_key: number | null
  subject: string
  text: string
  /** 2: not to be mailed, or given up. */
  mailed: Flag | 2
  attempts: number
  /** Null: not mailed any more. */
  next_attempt_at: number | null
  /** The answer to the last attempt. */
  response: string | null
  created_at: number
}

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

export interface AccountsTables {
  notices: Notices
  usage: Usage
}
