// The tables of identity.
import { DAY, HOUR } from '../base/clock.ts'
import { blob, due, flag, id, integer, json, key, oneOf, tablesOf, text, time } from './table.ts'

const ACCOUNT = 'the account itself'
const CLIENT = 'a program'
const SHOWN = 'shown to its owner'
const HASHES = 'hashes: a flipped one opens nothing'

export const identityTables = tablesOf('identity', {
  users: {
    digest: 6,
    columns: {
      key: key(),
      id: id(),
      email: text({ digested: true, nobody: ACCOUNT }),
      name: text({ digested: true, nobody: ACCOUNT }),
      password_hash: text({ null: true, digested: true, nobody: 'a hash' }),
      plan: text({ digested: true, nobody: 'a plan' }),
      subscription_state: oneOf(['active', 'past_due', 'revoked']),
      /** The plan that a downgrade leads to, and its time. */
      downgrade_to: text({ null: true, undigested: 'a plan', nobody: 'a plan' }),
      downgrade_at: due({ null: true, harmless: 'chosen by a person' }),
      /** Whether the person gets a daily summary by mail, and the time of the last summary. */
      summary: oneOf(['none', 'daily']),
      summary_at: time({ null: true }),
      /** An operator sees and controls the whole server. */
      operator: flag({ digested: true }),
      /** Set for a person who may only read this other account; null: the person has an account of their own. */
      reads_for: integer({ null: true, digested: true }),
      /** The key of a second factor (RFC 6238), sealed with the instance key; null: none. */
      sealed_totp: blob({ null: true, digested: true }),
      /** The last time step whose code was accepted: no code is accepted twice. */
      totp_step: integer({ null: true }),
      /** The last use of a session, to a quarter of an hour; null: never. */
      seen_at: time({ null: true, ahead: 'past' }),
      /** Since when an operator keeps the person out; a new invitation ends it. */
      locked_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  tokens: {
    digest: 7,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      name: text({ digested: true, person: 'mark' }),
      /** string[] */
      scopes: json({ digested: true, nobody: 'scopes' }),
      duration: oneOf(['1_month', '6_months', '12_months']),
      /** SHA-256 of the plaintext. */
      hash: blob({ digested: true }),
      last_four: text({ undigested: SHOWN, nobody: 'the end of a secret' }),
      agent_id: text({ null: true, digested: true, nobody: CLIENT }),
      /** The token that made it over the API; when that one is revoked, this one is too. */
      maker_key: integer({ null: true }),
      /** Recipients per day; null: no limit of its own. */
      daily: integer({ null: true, digested: true }),
      expires_at: due({ digested: true, harmless: 'months, and shown to whoever made it' }),
      last_used_at: time({ null: true, ahead: 'past' }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** Recipients of a token's mail by day (UTC, days since the epoch). */
  token_days: {
    columns: {
      token_key: integer(),
      day: integer(),
      recipients: integer(),
    },
  },
  /** Redirect targets that the operator allows programs. */
  oauth_allowed: {
    undigested: 'a flipped origin allows nobody who could be at it',
    columns: {
      /** A known program or an origin. */
      name: text({ nobody: CLIENT }),
      created_at: time(),
    },
  },
  oauth_clients: {
    digest: 17,
    columns: {
      key: key(),
      /** The client_id: an id of ours, or the URL of the client's metadata document. */
      id: id({ nobody: CLIENT }),
      name: text({ digested: true, nobody: CLIENT }),
      /** string[] */
      redirect_uris: json({ digested: true, nobody: CLIENT }),
      created_at: time(),
      last_used_at: time(),
      /** The time until which the document read is valid; null: the client registered itself. */
      fresh_until: due({ null: true, ahead: [{ within: DAY }] }),
    },
  },
  /** A user's grant to a client: first a code, then a family of tokens. */
  oauth_grants: {
    digest: 18,
    columns: {
      key: key(),
      id: id(),
      client_key: integer({ digested: true }),
      user_key: integer({ digested: true }),
      redirect_uri: text({ digested: true, nobody: CLIENT }),
      /** S256 code_challenge. */
      challenge: text({ digested: true, nobody: 'a hash' }),
      resource: text({ digested: true, nobody: 'a URL of ours' }),
      /** SHA-256 of the code. */
      code_hash: blob({ null: true, digested: true }),
      code_expires_at: due({ null: true, ahead: 'wait' }),
      code_used_at: time({ null: true }),
      revoked_at: time({ null: true }),
      created_at: time(),
    },
  },
  oauth_tokens: {
    undigested: HASHES,
    columns: {
      /** SHA-256 of the token. */
      hash: blob(),
      grant_key: integer(),
      kind: oneOf(['access', 'refresh']),
      expires_at: due({
        ahead: [
          { within: HOUR, where: `kind = 'access'` },
          { within: 90 * DAY, where: `kind = 'refresh'` },
        ],
      }),
      /** When a refresh token was exchanged for the next one. */
      used_at: time({ null: true }),
    },
  },
  /** A browser in which somebody is signed in. */
  sessions: {
    digest: 20,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      /** The account that an operator looks at in this session; null: their own account. */
      open_as: integer({ null: true, digested: true }),
      /** SHA-256 of the cookie's value. */
      hash: blob({ digested: true }),
      /** The browser, from its User-Agent header. */
      program: text({ undigested: SHOWN, nobody: CLIENT }),
      created_at: time({ ahead: 'past' }),
      seen_at: time({ ahead: 'past' }),
    },
  },
  /** Links that sign in once. */
  sign_in_links: {
    undigested: HASHES,
    columns: {
      /** SHA-256 of the token in the link. */
      hash: blob(),
      user_key: integer(),
      expires_at: due({ ahead: 'wait' }),
    },
  },
  /** Links by which people who were added come in for the first time. The newest of a person counts. */
  invitations: {
    undigested: 'the MAC in the link covers the id of the row and of its person',
    columns: {
      key: key(),
      id: id(),
      /** Null: withdrawn, for the person was removed or locked out. */
      user_key: integer({ null: true }),
      /** The notice that carries the link; null: it was not mailed. */
      notice_id: text({ null: true, undigested: 'an id', nobody: 'an id' }),
      created_at: time(),
      expires_at: due({ ahead: [{ within: 7 * DAY }] }),
      used_at: time({ null: true }),
    },
  },
  /** Codes for whoever lost the device of the second factor; each is valid once. */
  recovery_codes: {
    undigested: HASHES,
    columns: {
      /** MAC of the code under the instance key. */
      mac: blob(),
      user_key: integer(),
    },
  },
  passkeys: {
    digest: 19,
    columns: {
      key: key(),
      /** The credential's id, base64url. */
      id: id(),
      user_key: integer({ digested: true }),
      name: text({ digested: true, nobody: ACCOUNT }),
      /** COSE. */
      public_key: blob({ digested: true }),
      /** The authenticator's counter of signatures; 0 when it keeps none. */
      counter: integer(),
      /** string[] */
      transports: json({ digested: true, nobody: 'ways to an authenticator' }),
      created_at: time(),
      last_used_at: time({ null: true }),
    },
  },
})
