// The tables of users.
import { DAY, HOUR } from '../../base/clock.ts'
import { blob, due, flag, id, integer, integerOf, json, key, oneOf, tablesOf, text, time } from './table.ts'

/** The names of the roles (jsonapi/roles.ts). */
const ROLES = ['owner', 'developer', 'marketer', 'reader'] as const
const ACCOUNT = 'the account itself'
const CLIENT = 'a program'
const SHOWN = 'shown to its owner'
const HASHES = 'hashes: a flipped one opens nothing'

export const userTables = tablesOf('users', {
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
      /** Whether the user receives a daily summary by email, and the time of the last one. */
      summary: oneOf(['none', 'daily']),
      summary_at: time({ null: true }),
      /** An operator sees and controls the whole server. */
      operator: flag({ digested: true }),
      /** In 0.2.0, the account that the user could only read. Since then null: digests of earlier versions cover it. */
      reads_for: integer({ null: true, digested: true }),
      /** The key of a second factor (RFC 6238), encrypted with the instance key, or null. */
      sealed_totp: blob({ null: true, digested: true }),
      /** The last time step whose code was accepted: each code is accepted once. */
      totp_step: integer({ null: true }),
      /** The time before which past days have no results by hour, because version 0.2.0 stored them, or null. */
      utc_days_before: time({ null: true }),
      /** The last use of a session, rounded to a quarter of an hour, or null. */
      seen_at: time({ null: true, ahead: 'past' }),
      /** The time since which an operator has blocked the user. A new invitation lifts the block. */
      locked_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** The members of accounts. Somebody who left the last account is removed or locked out. */
  members: {
    digest: 24,
    columns: {
      key: key(),
      id: id(),
      /** The account. */
      user_key: integer({ digested: true }),
      member_key: integer({ digested: true }),
      role: oneOf(ROLES, { digested: true }),
      /** Null: invited. Membership begins when the user accepts. */
      joined_at: time({ null: true, digested: true }),
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
      /** Whether an operator made it. It has the rights of one while the account is that of an operator. */
      operator: flag(),
      /** The token that made it over the API. When that one is revoked, this one is too. */
      maker_key: integer({ null: true }),
      /** Recipients per day. Null: no limit of its own. */
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
  /** API requests of a token, without addresses and secrets. The path is that below the API's base. */
  token_requests: {
    columns: {
      key: key(),
      id: id(),
      token_key: integer(),
      user_key: integer(),
      method: text({ undigested: SHOWN, nobody: 'a method' }),
      path: text({ undigested: SHOWN, nobody: 'addresses are masked' }),
      status: integer(),
      /** The code of the first error. */
      error: text({ null: true, undigested: SHOWN, nobody: 'a code' }),
      created_at: time({ ahead: 'past' }),
    },
  },
  /** Redirect targets that the operator allows for applications. */
  oauth_allowed: {
    undigested: 'a flipped origin allows nobody who could be at it',
    columns: {
      /** A known application or an origin. */
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
      /** The time until which the document read is valid. Null if the client registered itself. */
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
      /** The account that it may use. Null in grants of earlier versions: that of the user. */
      account_key: integer({ null: true }),
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
  /** A browser in which a user is signed in. */
  sessions: {
    digest: 20,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      /** The account that this session shows. Null for the first account of the user. */
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
  /** Links for the first sign-in of new users. Only the newest link of a user is valid. */
  invitations: {
    undigested: 'the MAC in the link covers the id of the row and of its person',
    columns: {
      key: key(),
      id: id(),
      /** Null: withdrawn, for the person was removed or locked out. */
      user_key: integer({ null: true }),
      /** The notification that carries the link, or null if it was not emailed. */
      notice_id: text({ null: true, undigested: 'an id', nobody: 'an id' }),
      created_at: time(),
      expires_at: due({ ahead: [{ within: 7 * DAY }] }),
      used_at: time({ null: true }),
    },
  },
  /** Emails with invitations that an account sent within a day. */
  invitation_mails: {
    undigested: 'figures',
    columns: {
      account_key: integer(),
      recipient_hash: text({ nobody: 'a hash' }),
      sent_at: time(),
    },
  },
  /** Codes for users who lost the device of the second factor. Each is valid once. */
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
      /** The authenticator's signature counter, or 0 without one. */
      counter: integer(),
      /** string[] */
      transports: json({ digested: true, nobody: 'ways to an authenticator' }),
      created_at: time(),
      last_used_at: time({ null: true }),
    },
  },
  /** Recipients of a user's mail in a calendar month (UTC). */
  usage: {
    undigested: 'figures',
    columns: {
      user_key: integer(),
      /** "2026-01" */
      month: text({ nobody: 'a month' }),
      used: integer(),
      /** When the events usage.limit_approaching and usage.limit_reached were written. */
      approached_at: time({ null: true }),
      reached_at: time({ null: true }),
    },
  },
  /** A message to an owner or to the operator, sent by the server. */
  notices: {
    digest: 21,
    columns: {
      key: key(),
      id: id(),
      /** Null for the operator, who may not be a user. */
      user_key: integer({ null: true, digested: true }),
      /** The address, if it is not that of the user. */
      recipient: text({ null: true, digested: true, nobody: 'the owner or the operator' }),
      /** The domain of the notice, if any. */
      domain_key: integer({ null: true }),
      subject: text({ digested: true, person: 'mark', held: true }),
      text: text({ digested: true, person: 'mark', held: true }),
      /** 2: only listed, or failed. */
      mailed: integerOf<0 | 1 | 2>(),
      attempts: integer(),
      /** Null: no further attempt. */
      next_attempt_at: due({ null: true, ahead: 'wait' }),
      /** The reply to the last attempt. */
      response: text({ null: true, undigested: 'the reply of an MX host', person: 'mark', held: true }),
      created_at: time(),
    },
  },
})
