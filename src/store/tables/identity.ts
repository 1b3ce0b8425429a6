// The tables of identity.
import type { Flag, Json, Key } from '../columns.ts'

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
  /** Whether the person gets a daily summary by mail, and the time of the last summary. */
  summary: 'none' | 'daily'
  summary_at: number | null
  /** An operator sees and controls the whole server. */
  operator: Flag
  /** Set for a person who may only read this other account; null: the person has an account of their own. */
  reads_for: number | null
  /** The key of a second factor (RFC 6238), sealed with the instance key; null: none. */
  sealed_totp: Uint8Array | null
  /** The last time step whose code was accepted: no code is accepted twice. */
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
  /** The token that made it over the API; when that one is revoked, this one is too. */
  maker_key: number | null
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
  /** The time until which the document read is valid; null: the client registered itself. */
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

/** A browser in which somebody is signed in. */
export interface Sessions {
  key: Key
  id: string
  /** SHA-256 of the cookie's value. */
  hash: Uint8Array
  user_key: number
  /** The account that an operator looks at in this session; null: their own account. */
  open_as: number | null
  /** The browser, from its User-Agent header. */
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

export interface IdentityTables {
  users: Users
  tokens: Tokens
  token_days: TokenDays
  oauth_allowed: OauthAllowed
  oauth_clients: OauthClients
  oauth_grants: OauthGrants
  oauth_tokens: OauthTokens
  sessions: Sessions
  sign_in_links: SignInLinks
  passkeys: Passkeys
}
