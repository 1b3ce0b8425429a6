// OAuth clients that register themselves (RFC 7591, D58), or publish their metadata at the https URL that is their
// client_id (draft-ietf-oauth-client-id-metadata-document-02). They are public clients without a secret, limited to
// mcp:use, and redirected only to targets that the operator allows.
import { looksFalse } from '../../base/clean-text.ts'
import { DAY, type Clock } from '../../base/clock.ts'
import { newId } from '../../base/ids.ts'
import { isObject, textsOf } from '../../base/json.ts'
import type { Reader, Store, Tx } from '../../store/database.ts'
import { db, raw } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import { LOOPBACK, type Allowed } from './allowed.ts'
import { httpsUrlFault } from '../../net/https.ts'

export type OauthClient = RowOf<'oauth_clients'>

const MAX_URIS = 10
const MAX_URI = 2000
const MAX_NAME = 200
export const MAX_CLIENTS = 10_000
/** A client without a grant is deleted after this long. */
const UNUSED = 30 * DAY
const ANSWERED = ['code', 'state', 'iss', 'error', 'error_description']

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
    return wrong('invalid_redirect_uri', `"redirect_uris" must contain at most ${MAX_URIS} URIs.`)
  for (const uri of redirect_uris)
    if (!isAllowed(uri, allowed))
      return wrong(
        'invalid_redirect_uri',
        '"redirect_uris" contains a URI that is not absolute or whose origin is not allowed. Use another URI, or ask the operator to allow it.',
      )
  if (
    client_name !== undefined &&
    (typeof client_name !== 'string' || client_name.length > MAX_NAME || looksFalse(client_name))
  )
    return wrong('invalid_client_metadata', `"client_name" must be one line of at most ${MAX_NAME} visible characters.`)
  const lists: [string, unknown, string[]][] = [
    ['grant_types', grant_types, ['authorization_code', 'refresh_token']],
    ['response_types', response_types, ['code']],
  ]
  for (const [name, value, known] of lists)
    if (value !== undefined && (!Array.isArray(value) || !value.every((each) => known.some((one) => one === each))))
      return wrong('invalid_client_metadata', `"${name}" can only contain ${known.join(', ')}.`)
  // The RFC's default is client_secret_basic. Here every client is public, as the response shows.
  if (token_endpoint_auth_method !== undefined && token_endpoint_auth_method !== 'none')
    return wrong('invalid_client_metadata', '"token_endpoint_auth_method" must be "none": all clients are public.')
  const name = typeof client_name === 'string' ? client_name.trim() : ''
  return { name, redirectUris: [...new Set(redirect_uris as string[])] }
}

/**
 * Whether a redirect URI is allowed, by its origin or by its whole text. The origin is that of the URL parser, without
 * userinfo and fragment.
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

/** Whether all redirect URIs are on the user's own device, where any application can listen. */
export const isLoopbackOnly = ({ redirect_uris }: Pick<OauthClient, 'redirect_uris'>): boolean =>
  textsOf(redirect_uris).every((uri) => LOOPBACK.includes(new URL(uri).hostname))

/** SQL for a client without a valid grant. */
const ungranted =
  'not exists (select 1 from oauth_grants g where g.client_key = oauth_clients.key and g.revoked_at is null)'

/** Registers a client under a new id. Returns undefined if there are too many clients and every client has a grant. */
export const addClient = (
  deps: { store: Store; clock: Clock },
  given: Registration,
): Promise<OauthClient | undefined> =>
  deps.store.write((tx) => insertClient(tx, deps.clock.now(), { ...given, id: newId(deps.clock.now()), until: null }))

/**
 * Stores the content of a client's metadata document in place of an earlier version, which is fresh until `until` (ms).
 * Returns undefined if the client is new, there are too many clients and every client has a grant.
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
 * At the limit, the least recently used client without a grant is deleted, because a flood of registrations must not
 * exclude other clients.
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

/** Deletes clients that have had no grant for a long time. Returns their number. */
export function forgetClients(store: Store, now: number): Promise<number> {
  return store.write(
    (tx) => tx.run(raw(`delete from oauth_clients where last_used_at < ? and ${ungranted}`, [now - UNUSED])).changes,
  )
}

const MAX_URL = 2000

/** Whether a client_id is a URL. Ids of registered clients never start with "https:". */
export const isUrl = (clientId: string): boolean => /^https:/i.test(clientId)

/**
 * Returns the error in a Client Identifier URL (§3), as the end of a sentence, or undefined. The text must be as the
 * URL parser writes it (no dot segments, no default port, lower case), because clients are compared by this text.
 */
export function urlFault(clientId: string): string | undefined {
  if (clientId.length > MAX_URL) return `is longer than ${MAX_URL} characters`
  const fault = httpsUrlFault(clientId)
  if (fault !== undefined) return fault
  const { href } = new URL(clientId)
  if (clientId.includes('#')) return 'must not have a fragment'
  return href === clientId ? undefined : `must have a path and be written in its normal form, ${href.slice(0, 200)}`
}

/** The host of a client_id that is a URL, with its port if it is not 443, or undefined. */
export const hostOf = (clientId: string): string | undefined =>
  isUrl(clientId) && URL.canParse(clientId) ? new URL(clientId).host : undefined

/** The name that a client gave itself, with the host of its metadata document in brackets. */
export function programName({ client_id, client_name }: { client_id: string; client_name: string }): string {
  const host = hostOf(client_id)
  return host === undefined ? client_name : `${client_name} (${host})`.trim()
}

/**
 * Checks the document at a URL (§4). One document is for all authorization servers. So grant types, response types and
 * redirect URIs that this server does not support are ignored. The rest must be valid for a registration.
 */
export function readDocument(url: string, body: unknown, allowed: Allowed): Registration | RegistrationFault {
  const wrong = (description: string): RegistrationFault => ({ error: 'invalid_client_metadata', description })
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return wrong('It must be a JSON object.')
  const document = body as Record<string, unknown>
  if (document['client_id'] !== url) return wrong('Its "client_id" must be exactly the URL of the document.')
  const secret = ['client_secret', 'client_secret_expires_at'].find((name) => document[name] !== undefined)
  if (secret !== undefined) return wrong(`It must not contain "${secret}", because the document is public.`)
  const { client_name, grant_types, redirect_uris, response_types, token_endpoint_auth_method } = document
  if (!Array.isArray(redirect_uris) || redirect_uris.length === 0)
    return { error: 'invalid_redirect_uri', description: '"redirect_uris" must be a list of at least one URI.' }
  const fit = redirect_uris.find((uri) => isAllowed(uri, allowed)) as unknown
  if (fit === undefined)
    return { error: 'invalid_redirect_uri', description: 'Its "redirect_uris" contain no URI that this server allows.' }
  const registration = readRegistration(
    {
      client_name,
      redirect_uris: [fit],
      grant_types: withOnly(grant_types, 'authorization_code'),
      response_types: withOnly(response_types, 'code'),
      token_endpoint_auth_method,
    },
    allowed,
  )
  return 'error' in registration ? registration : { ...registration, redirectUris: wellMade(redirect_uris) }
}

/**
 * Reduces a list that contains this name to the name. Returns any other value unchanged, for readRegistration to check.
 */
const withOnly = (list: unknown, name: string): unknown => (Array.isArray(list) && list.includes(name) ? [name] : list)

/**
 * The URIs with a valid form. Whether a URI is allowed is decided at each authorization, because the list can change.
 */
const wellMade = (uris: readonly unknown[]): string[] => [
  ...new Set(
    uris.filter(
      (uri): uri is string =>
        typeof uri === 'string' && uri.length <= MAX_URL && /^[\x21-\x7e]+$/.test(uri) && URL.canParse(uri),
    ),
  ),
]
