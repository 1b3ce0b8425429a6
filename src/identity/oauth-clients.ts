// OAuth clients that register themselves (RFC 7591, D58) or publish a metadata document (oauth-documents.ts): public
// clients without a secret, limited to mcp:use, and redirected only to targets that the operator allows.
import { looksFalse } from '../base/clean-text.ts'
import { DAY, type Clock } from '../base/clock.ts'
import { newId } from '../base/ids.ts'
import { isObject, textsOf } from '../base/json.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Allowed } from './oauth-allowed.ts'

export type OauthClient = RowOf<'oauth_clients'>

const MAX_URIS = 10
const MAX_URI = 2000
const MAX_NAME = 200
export const MAX_CLIENTS = 10_000
/** A client without a grant is deleted after this long. */
const UNUSED = 30 * DAY
const ANSWERED = ['code', 'state', 'iss', 'error', 'error_description']
const LOOPBACK = ['127.0.0.1', 'localhost', '[::1]']

/** The reason for refusing a registration: an error code of RFC 7591 §3.2.2 and a sentence. */
export interface RegistrationFault {
  error: 'invalid_redirect_uri' | 'invalid_client_metadata'
  description: string
}

export interface Registration {
  name: string
  redirectUris: string[]
}

/** Checks the metadata of a registration. Unknown members are ignored (RFC 7591 §2). */
export function readRegistration(body: unknown, allowed: Allowed): Registration | RegistrationFault {
  const wrong = (error: RegistrationFault['error'], description: string): RegistrationFault => ({ error, description })
  if (!isObject(body)) return wrong('invalid_client_metadata', 'The body must be a JSON object.')
  const { client_name, grant_types, redirect_uris, response_types, token_endpoint_auth_method } = body
  if (!Array.isArray(redirect_uris) || redirect_uris.length === 0)
    return wrong('invalid_redirect_uri', '"redirect_uris" must be a list of at least one URI.')
  if (redirect_uris.length > MAX_URIS)
    return wrong('invalid_redirect_uri', `"redirect_uris" may hold at most ${MAX_URIS}.`)
  for (const uri of redirect_uris)
    if (!isAllowed(uri, allowed))
      return wrong(
        'invalid_redirect_uri',
        'A redirect URI is not absolute, or its origin is not one that this server allows.',
      )
  if (
    client_name !== undefined &&
    (typeof client_name !== 'string' || client_name.length > MAX_NAME || looksFalse(client_name))
  )
    return wrong('invalid_client_metadata', `"client_name" must be a line of at most ${MAX_NAME} visible characters.`)
  const lists: [string, unknown, string[]][] = [
    ['grant_types', grant_types, ['authorization_code', 'refresh_token']],
    ['response_types', response_types, ['code']],
  ]
  for (const [name, value, known] of lists)
    if (value !== undefined && (!Array.isArray(value) || !value.every((each) => known.some((one) => one === each))))
      return wrong('invalid_client_metadata', `"${name}" may hold ${known.join(', ')}.`)
  // The RFC's default is client_secret_basic. Here every client is public, and the answer says so.
  if (token_endpoint_auth_method !== undefined && token_endpoint_auth_method !== 'none')
    return wrong('invalid_client_metadata', '"token_endpoint_auth_method" must be "none": clients have no secret here.')
  const name = typeof client_name === 'string' ? client_name.trim() : ''
  return { name, redirectUris: [...new Set(redirect_uris as string[])] }
}

/**
 * Whether a redirect URI is allowed: by its origin (as the URL parser reads it; no userinfo, no fragment), or by its
 * whole text.
 */
export function isAllowed(uri: unknown, { addresses, origins }: Allowed): boolean {
  if (typeof uri !== 'string' || uri.length > MAX_URI || !/^[\x21-\x7e]+$/.test(uri)) return false
  if (addresses.some((address) => isAddress(uri, address))) return true
  if (
    // It must be an absolute URI by RFC 3986, because the URL parser would add missing slashes. Userinfo (even empty)
    // and wildcards are not allowed.
    !/^https?:\/\/[^/?#@\\]+(?:[/?]|$)/i.test(uri) ||
    /[\\*]/.test(uri) ||
    !URL.canParse(uri)
  )
    return false
  const url = new URL(uri)
  if (!/^https?:$/.test(url.protocol) || uri.includes('#') || url.username !== '' || url.password !== '') return false
  // Parameters of the OAuth answer must not be in the URI already.
  if (ANSWERED.some((name) => url.searchParams.has(name))) return false
  return isAllowedOrigin(url, origins)
}

/** A final `/*` matches one path segment without dots, and no query. */
const isAddress = (uri: string, address: string): boolean =>
  address.endsWith('/*')
    ? uri.startsWith(address.slice(0, -1)) && /^[\w-]+$/.test(uri.slice(address.length - 1))
    : uri === address

/** Whether a URL's origin is on the operator's list. A loopback entry without a port means any port (RFC 8252 §7.3). */
export const isAllowedOrigin = (url: URL, allowedOrigins: readonly string[]): boolean =>
  allowedOrigins.some((entry) => {
    const allowed = new URL(entry)
    const loopback = allowed.port === '' && LOOPBACK.includes(allowed.hostname)
    return loopback
      ? url.protocol === allowed.protocol && url.hostname === allowed.hostname
      : allowed.origin !== 'null' && url.origin === allowed.origin
  })

/** Whether a client registered this redirect URI: the same text, or on loopback the same text with another port. */
export function isRegistered({ redirect_uris }: Pick<OauthClient, 'redirect_uris'>, uri: string): boolean {
  return textsOf(redirect_uris).some((known) => {
    if (known === uri) return true
    const url = new URL(known)
    if (!LOOPBACK.includes(url.hostname) || url.protocol !== 'http:') return false
    // Compared as text: the URL parser would ignore differences in backslashes, dots, empty fragments and empty
    // userinfo.
    const portless = (text: string): string => text.replace(/^(http:\/\/(?:[\w.]+|\[::1\])):\d{1,5}(?=[/?]|$)/i, '$1')
    return URL.canParse(uri) && portless(known) === portless(uri)
  })
}

/** Whether every redirect URI is on the device of the person who is asked. There, any program may listen. */
export const isLoopbackOnly = ({ redirect_uris }: Pick<OauthClient, 'redirect_uris'>): boolean =>
  textsOf(redirect_uris).every((uri) => LOOPBACK.includes(new URL(uri).hostname))

/** SQL for a client without a valid grant. */
const ungranted =
  'not exists (select 1 from oauth_grants g where g.client_key = oauth_clients.key and g.revoked_at is null)'

/** Registers a client under a new id. Undefined when there are too many clients and every client has a grant. */
export const addClient = (
  deps: { store: Store; clock: Clock },
  given: Registration,
): Promise<OauthClient | undefined> =>
  deps.store.write((tx) => insertClient(tx, deps.clock.now(), { ...given, id: newId(deps.clock.now()), until: null }))

/**
 * Stores the content of a client's metadata document in place of an earlier version; `until` (ms) is the end of its
 * freshness. Undefined when the client is new, there are too many clients and every client has a grant.
 */
export function keepClient(
  { clock, store }: { store: Store; clock: Clock },
  given: Registration & { id: string; until: number },
): Promise<OauthClient | undefined> {
  return store.write((tx) => {
    const now = clock.now()
    const { id, name, redirectUris, until } = given
    const values = { name, redirect_uris: JSON.stringify(redirectUris), fresh_until: until, last_used_at: now }
    const changed = db.updateTable('oauth_clients').set(values).where('id', '=', id).returningAll()
    return tx.first(changed) ?? insertClient(tx, now, given)
  })
}

/**
 * At the limit, the least recently used client without a grant is deleted: a flood of registrations must not exclude
 * other clients.
 */
function insertClient(
  tx: Tx,
  now: number,
  { id, name, redirectUris, until }: Registration & { id: string; until: number | null },
): OauthClient | undefined {
  const { count } = tx.one(db.selectFrom('oauth_clients').select((eb) => eb.fn.countAll<number>().as('count')))
  const oldest = `select key from oauth_clients where ${ungranted} order by last_used_at, key limit 1`
  if (count >= MAX_CLIENTS && tx.run(raw(`delete from oauth_clients where key in (${oldest})`)).changes === 0)
    return undefined
  const values = { id, name, redirect_uris: JSON.stringify(redirectUris), fresh_until: until }
  return tx.first(
    db
      .insertInto('oauth_clients')
      .values({ ...values, created_at: now, last_used_at: now })
      .returningAll(),
  )
}

export function clientById(reader: Reader, id: string): OauthClient | undefined {
  return reader.first(db.selectFrom('oauth_clients').selectAll().where('id', '=', id))
}

/** Deletes clients that have had no grant for a long time; returns their number. */
export function forgetClients(store: Store, now: number): Promise<number> {
  return store.write(
    (tx) => tx.run(raw(`delete from oauth_clients where last_used_at < ? and ${ungranted}`, [now - UNUSED])).changes,
  )
}
