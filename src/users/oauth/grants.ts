// Grants of users to OAuth clients (OAuth 2.1, RFC 7636, RFC 8707, D58). A code is valid once, for 60 seconds. An
// access token is valid for an hour, and a refresh token for one exchange. A second use of a code or refresh token
// means that it was stolen, so the whole grant is revoked.
import { createHash } from 'node:crypto'
import { DAY, HOUR, MINUTE, type Clock } from '../../base/clock.ts'
import { newId, newSecret } from '../../base/ids.ts'
import type { Reader, Store, Tx } from '../../store/database.ts'
import { db, sql, statement } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import type { RoleName } from '../../jsonapi/roles.ts'
import type { OauthClient } from './clients.ts'

const CODE_LIFE = MINUTE
const ACCESS_LIFE = HOUR
const REFRESH_LIFE = 90 * DAY
/** Used codes and tokens are kept this long, so that a second use is detected. */
const KEPT = 7 * DAY

const digest = (secret: string): Buffer => createHash('sha256').update(secret).digest()

export interface Granting {
  client: OauthClient
  user_key: number
  /** The account that it may use. By default it is that of the user. */
  account_key?: number
  redirect_uri: string
  challenge: string
  resource: string
}

/** Stores a grant and returns its code. */
export async function grantCode(
  { clock, store }: { store: Store; clock: Clock },
  { client, ...granted }: Granting,
): Promise<string> {
  const code = newSecret('pc_')
  await store.write((tx) => {
    const now = clock.now()
    tx.run(
      db.insertInto('oauth_grants').values({
        id: newId(now),
        client_key: client.key,
        ...granted,
        code_hash: digest(code),
        code_expires_at: now + CODE_LIFE,
        created_at: now,
      }),
    )
    tx.run(db.updateTable('oauth_clients').set({ last_used_at: now }).where('key', '=', client.key))
  })
  return code
}

export interface TokenPair {
  access_token: string
  refresh_token: string
  /** Seconds. */
  expires_in: number
}

export type TokenResult =
  | TokenPair
  | { error: 'invalid_grant' | 'invalid_target' | 'invalid_request'; description: string }

const invalid = (description: string): TokenResult => ({ error: 'invalid_grant', description })

export interface CodeExchange {
  client: OauthClient
  code: string
  verifier: string
  redirectUri: string | undefined
  resource: string | undefined
}

/**
 * Exchanges a code for tokens. Of two exchanges at the same time only one succeeds, because the transaction marks the
 * code as used.
 */
export function exchangeCode(
  { clock, store }: { store: Store; clock: Clock },
  given: CodeExchange,
): Promise<TokenResult> {
  return store.write((tx): TokenResult => {
    const now = clock.now()
    const grant = tx.first(db.selectFrom('oauth_grants').selectAll().where('code_hash', '=', digest(given.code)))
    if (!grant || grant.client_key !== given.client.key)
      return invalid('The code is not valid. Start a new authorization request.')
    if (grant.code_used_at !== null) {
      revokeGrant(tx, grant.key, now)
      return invalid('The code was used before, so its grant was revoked. Start a new authorization request.')
    }
    if (grant.revoked_at !== null || now >= (grant.code_expires_at ?? 0))
      return invalid('The code has expired. Start a new authorization request.')
    if (given.redirectUri !== undefined && given.redirectUri !== grant.redirect_uri)
      return invalid('"redirect_uri" does not match the authorization request. Send the same URI.')
    if (createHash('sha256').update(given.verifier).digest('base64url') !== grant.challenge)
      return invalid(
        '"code_verifier" does not match the code_challenge. Send the verifier of the authorization request.',
      )
    if (given.resource !== undefined && given.resource !== grant.resource)
      return {
        error: 'invalid_target',
        description: '"resource" does not match the authorization request. Send the same resource.',
      }
    tx.run(db.updateTable('oauth_grants').set({ code_used_at: now }).where('key', '=', grant.key))
    return issue(tx, grant.key, now)
  })
}

export interface RefreshExchange {
  client: OauthClient
  refreshToken: string
  resource: string | undefined
}

/** Exchanges a refresh token for the next pair. A refresh token that was used before revokes its whole grant. */
export function exchangeRefresh(
  { clock, store }: { store: Store; clock: Clock },
  given: RefreshExchange,
): Promise<TokenResult> {
  return store.write((tx): TokenResult => {
    const now = clock.now()
    const token = tx.first(tokenByHash({ hash: digest(given.refreshToken) }))
    if (!token || token.kind !== 'refresh' || token.client_key !== given.client.key)
      return invalid('The refresh token is not valid. Start a new authorization request.')
    if (token.used_at !== null) {
      revokeGrant(tx, token.grant_key, now)
      return invalid('The refresh token was used before, so its grant was revoked. Start a new authorization request.')
    }
    if (token.revoked_at !== null || now >= token.expires_at)
      return invalid('The refresh token has expired or was revoked. Start a new authorization request.')
    if (given.resource !== undefined && given.resource !== token.resource)
      return { error: 'invalid_target', description: '"resource" does not match the grant. Send the granted resource.' }
    tx.run(db.updateTable('oauth_tokens').set({ used_at: now }).where('hash', '=', digest(given.refreshToken)))
    return issue(tx, token.grant_key, now)
  })
}

function issue(tx: Tx, grantKey: number, now: number): TokenPair {
  const tokens = { access_token: newSecret('pa_'), refresh_token: newSecret('pf_') }
  const add = (secret: string, kind: 'access' | 'refresh', life: number) =>
    tx.run(
      db.insertInto('oauth_tokens').values({ hash: digest(secret), grant_key: grantKey, kind, expires_at: now + life }),
    )
  add(tokens.access_token, 'access', ACCESS_LIFE)
  add(tokens.refresh_token, 'refresh', REFRESH_LIFE)
  return { ...tokens, expires_in: ACCESS_LIFE / 1000 }
}

function revokeGrant(tx: Tx, key: number, now: number): void {
  tx.run(db.updateTable('oauth_grants').set({ revoked_at: now }).where('key', '=', key).where('revoked_at', 'is', null))
}

/**
 * Revokes a token (RFC 7009). A refresh token revokes its whole grant, an access token only itself. Returns false if
 * the token belongs to another client. An unknown or expired token counts as revoked.
 */
export function takeBack(
  { clock, store }: { store: Store; clock: Clock },
  client: OauthClient,
  secret: string,
): Promise<boolean> {
  return store.write((tx) => {
    const now = clock.now()
    const token = tx.first(tokenByHash({ hash: digest(secret) }))
    if (token && token.client_key !== client.key) return false
    if (token?.kind === 'refresh') revokeGrant(tx, token.grant_key, now)
    if (token?.kind === 'access' && now < token.expires_at)
      tx.run(db.updateTable('oauth_tokens').set({ expires_at: now }).where('hash', '=', digest(secret)))
    return true
  })
}

const accountKey = sql<number>`coalesce(g.account_key, g.user_key)`

const tokenByHash = statement<{ hash: Uint8Array }>()((arg) =>
  db
    .selectFrom('oauth_tokens as t')
    .innerJoin('oauth_grants as g', 'g.key', 't.grant_key')
    .innerJoin('oauth_clients as c', 'c.key', 'g.client_key')
    .innerJoin('users as u', (join) => join.on('u.key', '=', accountKey))
    // The rights of the user follow their present role.
    .leftJoin('members as m', (join) =>
      join.onRef('m.user_key', '=', 'u.key').onRef('m.member_key', '=', 'g.user_key').on('m.joined_at', 'is not', null),
    )
    .select([
      't.grant_key',
      't.kind',
      't.expires_at',
      't.used_at',
      'g.client_key',
      'u.key as user_key',
      'g.resource',
      'g.revoked_at',
      'g.id as grant_id',
      'c.id as client_id',
      'u.id as user_id',
      'm.role',
    ])
    .where('t.hash', '=', arg.hash),
)

export interface OauthAccess {
  /** The account. */
  user_key: number
  user_id: string
  role: RoleName
  client_id: string
  grant_id: string
  resource: string
}

/**
 * Returns the account and client of an access token, or undefined if it is unknown, expired or revoked, or its user is
 * no longer a member.
 */
export function findAccess(reader: Reader, secret: string, now: number): OauthAccess | undefined {
  const token = reader.first(tokenByHash({ hash: digest(secret) }))
  if (!token || token.kind !== 'access' || token.revoked_at !== null || now >= token.expires_at) return undefined
  const { role } = token
  return role === null ? undefined : { ...token, role }
}

/** The valid grants with client and user, newest first. */
export function listGrants(
  reader: Reader,
): (RowOf<'oauth_grants'> & { client_id: string; client_name: string; email: string })[] {
  return reader.all(
    db
      .selectFrom('oauth_grants as g')
      .innerJoin('oauth_clients as c', 'c.key', 'g.client_key')
      .innerJoin('users as u', 'u.key', 'g.user_key')
      .selectAll('g')
      .select(['c.id as client_id', 'c.name as client_name', 'u.email'])
      .where('g.revoked_at', 'is', null)
      .where('g.code_used_at', 'is not', null)
      .orderBy('g.key', 'desc'),
  )
}

/** Revokes a grant by its public id. Returns false if there is no valid one. */
export function revokeGrantById({ clock, store }: { store: Store; clock: Clock }, id: string): Promise<boolean> {
  return store.write((tx) => {
    const grant = tx.first(
      db.selectFrom('oauth_grants').select('key').where('id', '=', id).where('revoked_at', 'is', null),
    )
    if (grant) revokeGrant(tx, grant.key, clock.now())
    return grant !== undefined
  })
}

/** Revokes all grants of a user, or those for one account. */
export function revokeGrants(tx: Tx, { key }: { key: number }, now: number, account?: number): void {
  const valid = db.updateTable('oauth_grants').where('user_key', '=', key).where('revoked_at', 'is', null)
  const some = account === undefined ? valid : valid.where('account_key', '=', account)
  tx.run(some.set({ revoked_at: now }))
}

/** Deletes tokens that expired long ago, and old grants without tokens. Returns their number. */
export function forgetGrants(store: Store, now: number): Promise<number> {
  return store.write((tx) => {
    const tokens = tx.run(db.deleteFrom('oauth_tokens').where('expires_at', '<', now - KEPT)).changes
    const grants = db
      .deleteFrom('oauth_grants')
      .where('created_at', '<', now - KEPT)
      .where((eb) =>
        eb.not(eb.exists(eb.selectFrom('oauth_tokens').select('hash').whereRef('grant_key', '=', 'oauth_grants.key'))),
      )
    return tokens + tx.run(grants).changes
  })
}
