// The tables of the web console: who is signed in, passkeys, attempts, figures by receiver, lanes that are held.
import type { Json, Key } from './columns.ts'

/** A browser in which somebody is signed in. */
export interface Sessions {
  key: Key
  id: string
  /** SHA-256 of what the cookie holds. */
  hash: Uint8Array
  user_key: number
  /** The account that an operator looks at in it; null: their own. */
  open_as: number | null
  /** The browser, in its own words. */
  program: string
  created_at: number
  seen_at: number
}

/** Links that sign in once. */
export interface SignInLinks {
  /** SHA-256 of the token in the link. */
  hash: Uint8Array
  user_key: number
  expires_at: number
}

export interface Passkeys {
  key: Key
  /** The credential's id, base64url. */
  id: string
  user_key: number
  name: string
  /** COSE. */
  public_key: Uint8Array
  /** The authenticator's counter of signatures; 0 when it keeps none. */
  counter: number
  /** string[] */
  transports: Json
  created_at: number
  last_used_at: number | null
}

/** Attempts that were followed by another; what the last one came to stands in `deliveries`. */
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
export interface LearnedLanes {
  lane: string
  connections: number | null
  per_second: number | null
  paused_until: number | null
  learned_at: number
}

export interface LaneHolds {
  lane: string
  held_at: number
}

/** What became of mail by receiver: a mailbox provider of config/shaping.toml, else the receiving domain. */
export interface ReceiverTallies {
  user_key: number
  receiver: string
  /** Hours since the epoch. */
  hour: number
  delivered: number
  deferred: number
  refused: number
  /** Of those delivered, how many within so long after they were accepted; each counts in one column. */
  within_5s: number
  within_1m: number
  within_10m: number
  within_1h: number
}

/** What receivers say when they refuse or defer, without addresses and numbers of theirs. */
export interface Refusals {
  user_key: number
  receiver: string
  /** Days since the epoch. */
  day: number
  words: string
  times: number
}
