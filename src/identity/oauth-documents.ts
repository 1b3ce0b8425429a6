// OAuth clients that publish their metadata at the https URL that is their client_id
// (draft-ietf-oauth-client-id-metadata-document-02): the form of the URL, and the rules for the document. Redirects are
// allowed by the operator's list, as for clients that register.
import { httpsUrlFault } from '../net/https.ts'
import type { Allowed } from './oauth-allowed.ts'
import { isAllowed, readRegistration, type Registration, type RegistrationFault } from './oauth-clients.ts'

const MAX_URL = 2000

/** Whether a client_id is a URL; the ids of registered clients never begin with "https:". */
export const isUrl = (clientId: string): boolean => /^https:/i.test(clientId)

/**
 * The error in a Client Identifier URL (§3), as the end of a sentence; undefined when there is none. The text must be
 * as the URL parser writes it (no dot segments, no default port, lower case), because clients are compared by this
 * text.
 */
export function urlFault(clientId: string): string | undefined {
  if (clientId.length > MAX_URL) return `is longer than ${MAX_URL} characters`
  const fault = httpsUrlFault(clientId)
  if (fault !== undefined) return fault
  const { href } = new URL(clientId)
  if (clientId.includes('#')) return 'must not have a fragment'
  return href === clientId ? undefined : `must have a path and be written in its normal form, ${href.slice(0, 200)}`
}

/** The host of a client_id that is a URL, with its port when it is not 443; undefined for other client_ids. */
export const hostOf = (clientId: string): string | undefined =>
  isUrl(clientId) && URL.canParse(clientId) ? new URL(clientId).host : undefined

/** The name that a client gave itself; then the host of its metadata document, if any, in brackets. */
export function programName({ client_id, client_name }: { client_id: string; client_name: string }): string {
  const host = hostOf(client_id)
  return host === undefined ? client_name : `${client_name} (${host})`.trim()
}

/**
 * Checks the document at a URL (§4). One document is for all authorization servers. So grant types, response types and
 * redirect URIs that this server does not support are ignored; the rest must be valid for a registration.
 */
export function readDocument(url: string, body: unknown, allowed: Allowed): Registration | RegistrationFault {
  const wrong = (description: string): RegistrationFault => ({ error: 'invalid_client_metadata', description })
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return wrong('It must be a JSON object.')
  const document = body as Record<string, unknown>
  if (document['client_id'] !== url) return wrong('Its "client_id" must be exactly the URL where it stands.')
  const secret = ['client_secret', 'client_secret_expires_at'].find((name) => document[name] !== undefined)
  if (secret !== undefined) return wrong(`It must not hold "${secret}": whoever reads it would know the secret.`)
  const { client_name, grant_types, redirect_uris, response_types, token_endpoint_auth_method } = document
  if (!Array.isArray(redirect_uris) || redirect_uris.length === 0)
    return { error: 'invalid_redirect_uri', description: '"redirect_uris" must be a list of at least one URI.' }
  const fit = redirect_uris.find((uri) => isAllowed(uri, allowed)) as unknown
  if (fit === undefined)
    return { error: 'invalid_redirect_uri', description: 'This server allows none of its "redirect_uris".' }
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
 * A list with this name in it becomes a list of this name alone; any other value stays, and readRegistration judges it.
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
