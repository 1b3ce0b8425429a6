// The page on which a user allows or denies an OAuth client (OAuth 2.1, D58). It shows the requesting application,
// whose claims about itself are not verified, and where the answer goes. An invalid client or redirect URI gets an
// error page, never a redirect. The sign-in is that of the console.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import { allowedNow } from './allowed.ts'
import { clientById, isAllowed, isLoopbackOnly, isRegistered, type OauthClient, hostOf, isUrl } from './clients.ts'
import { grantCode } from './grants.ts'
import { rateKey } from '../../net/client-address.ts'
import { ClientDocuments, type ClientDocumentsDeps, type NoClient } from './client-documents.ts'
import { resourceNamed, SCOPE } from './endpoints.ts'
import { ROLES } from '../../jsonapi/roles.ts'
import { isOurs } from '../../views/html/origin.ts'
import { page, readText, type PlainPageDeps } from '../../views/html/plain-page.ts'
import { People, type Person, type PersonDeps } from '../browser-session.ts'
import { signInPage } from '../sign-in-forms.ts'

const PATH = '/oauth/authorize'
const MAX_QUERY = 8000
/** The maximum size of a form in bytes: it contains the query, percent-encoded a second time, and the proof. */
const MAX_BODY = 3 * MAX_QUERY + 8 * 1024

/** A request whose client and redirect URI are valid, so that its answer may be a redirect. */
interface Asking {
  client: OauthClient
  redirectUri: string
  state: string | null
  challenge: string
  resource: string
  /** The query as received, which each form contains. */
  query: string
}

type AuthorizationOutcome = { asking: Asking } | { page: NoClient } | { redirect: string }

export type AuthorizeDeps = PersonDeps & ClientDocumentsDeps & PlainPageDeps

interface AuthorizationParts {
  deps: AuthorizeDeps
  documents: ClientDocuments
  people: People
}

/** Makes the page of authorization requests. */
export function createAuthorize(deps: AuthorizeDeps): Hono {
  const app = new Hono()
  const shared: AuthorizationParts = { deps, documents: new ClientDocuments(deps), people: new People(deps) }
  app.get(PATH, (context) => showRequest(shared, context))
  app.post(PATH, (context) => act(shared, context))
  app.all(PATH, (context) => context.text('Method not allowed. Use GET or POST.\n', 405, { Allow: 'GET, HEAD, POST' }))
  return app
}

/** Returns the client of a request, or undefined if it is not registered. */
const clientOf = async (
  { deps, documents }: AuthorizationParts,
  context: Context,
  id: string,
): Promise<OauthClient | NoClient | undefined> =>
  isUrl(id) ? documents.find(id, rateKey(context, deps.config.http)) : clientById(deps.store, id)

const addressOf = ({ query }: Asking): string => `${PATH}?${query}`

async function showRequest(shared: AuthorizationParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const judged = await judge(deps, new URL(context.req.url).search.slice(1), (id) => clientOf(shared, context, id))
  if (!('asking' in judged)) return answer(context, judged)
  const { asking } = judged
  const person = people.signedIn(context)
  if (person) return consentPage(people, context, asking, person)
  const { client } = asking
  const host = hostOf(client.id)
  return signInPage(context, people, addressOf(asking), {
    about: html`<p>
      <strong><bdi>${nameOf(client)}</bdi></strong
      >${host === undefined ? '' : html` of <strong>${host}</strong>`} wants to access your email. Sign in to continue.
      You can still deny access in the next step.
    </p>`,
  })
}

/** Performs the action of the consent page: allow, deny or sign out. */
async function act(shared: AuthorizationParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const text = await readText(context, deps, MAX_BODY)
  if (text === undefined) return page(context, 413, 'Something went wrong', html`<p>The form is too large.</p>`)
  const form = new URLSearchParams(text)
  const judged = await judge(deps, form.get('request') ?? '', (id) => clientOf(shared, context, id))
  if (!('asking' in judged)) return answer(context, judged)
  const { asking } = judged
  const person = people.signedIn(context)
  const action = form.get('action')
  if (!isOurs(deps, context) || !people.proves(context, form.get('proof') ?? '', person, asking.query))
    return stale(context)
  if (action === 'sign-out') await people.signOut(context)
  if (action === 'sign-out' || !person) return context.redirect(addressOf(asking), 303)
  if (action !== 'allow')
    return redirectWith(context, deps, asking, { error: 'access_denied', error_description: 'The user denied it.' })
  const { challenge, client, redirectUri, resource } = asking
  const granting = {
    client,
    user_key: person.user.key,
    account_key: person.account.key,
    redirect_uri: redirectUri,
    challenge,
    resource,
  }
  return redirectWith(context, deps, asking, { code: await grantCode(deps, granting) })
}

const noPage = (refused: string): AuthorizationOutcome => ({ page: { status: 400, refused } })

/**
 * OAuth 2.1 §4.1.1, §4.1.2.1: the client and the redirect URI are checked first, because they decide where errors go.
 */
async function judge(
  { config, store }: PersonDeps,
  query: string,
  clientOf: (id: string) => Promise<OauthClient | NoClient | undefined>,
): Promise<AuthorizationOutcome> {
  if (query.length > MAX_QUERY) return noPage('The request is too long.')
  const params = new URLSearchParams(query)
  const names = [...params.keys()]
  const repeated = names.some((name, index) => names.indexOf(name) !== index)
  const [clientId = '', ...others] = params.getAll('client_id')
  const client = others.length > 0 ? undefined : await clientOf(clientId)
  if (!client)
    return noPage('The application that sent you here is not registered on this server. It must register again.')
  if ('refused' in client) return { page: client }
  // OAuth 2.1 §3.1: a parameter without a value counts as absent.
  const given = (name: string): string | null => params.get(name) || null
  const redirectUri = given('redirect_uri')
  if (redirectUri === null || params.getAll('redirect_uri').length > 1 || !isRegistered(client, redirectUri))
    return noPage('The application that sent you here uses a redirect URI that it has not registered.')
  if (!isAllowed(redirectUri, allowedNow(store, config)))
    return noPage(
      'The application that sent you here uses a redirect URI that this server does not allow. The operator can allow it with "postrider oauth allow".',
    )
  const state = given('state')
  const back = (error: string, description: string): AuthorizationOutcome => ({
    redirect: withParams(redirectUri, { error, error_description: description, state, iss: config.http.public_url }),
  })
  if (repeated) return back('invalid_request', 'A parameter is given more than once.')
  const type = given('response_type')
  if (type !== 'code')
    return back(type === null ? 'invalid_request' : 'unsupported_response_type', 'response_type must be code.')
  const challenge = given('code_challenge') ?? ''
  if (given('code_challenge_method') !== 'S256' || !/^[A-Za-z0-9_-]{43}$/.test(challenge))
    return back('invalid_request', 'PKCE is needed: code_challenge with code_challenge_method S256.')
  const scopes = (given('scope') ?? SCOPE).split(' ').filter(Boolean)
  if (scopes.some((scope) => scope !== SCOPE)) return back('invalid_scope', `The only scope is ${SCOPE}.`)
  const resource = resourceNamed(config, given('resource') ?? undefined)
  if (resource === undefined) return back('invalid_target', 'This server has no such resource.')
  return { asking: { client, redirectUri, state, challenge, resource, query } }
}

/** The registered URI with its query unchanged (RFC 6749 §3.1.2), and these parameters after it. */
function withParams(uri: string, params: Record<string, string | null>): string {
  const more = new URLSearchParams(Object.entries(params).filter((pair): pair is [string, string] => pair[1] !== null))
  return `${uri}${uri.includes('?') ? '&' : '?'}${more.toString()}`
}

function redirectWith(
  context: Context,
  { config }: PersonDeps,
  { redirectUri, state }: Asking,
  params: Record<string, string>,
): Response {
  context.header('Cache-Control', 'no-store')
  context.header('Referrer-Policy', 'no-referrer')
  // 303: the browser does not send the form's body, with typed text, to the redirect.
  return context.redirect(withParams(redirectUri, { ...params, state, iss: config.http.public_url }), 303)
}

function answer(context: Context, judged: { page: NoClient } | { redirect: string }): Response | Promise<Response> {
  if ('page' in judged) {
    const { refused, retryAfter, status } = judged.page
    if (retryAfter !== undefined) context.header('Retry-After', String(retryAfter))
    return page(context, status, 'Something went wrong', html`<p>${refused}</p>`)
  }
  context.header('Referrer-Policy', 'no-referrer')
  return context.redirect(judged.redirect, 303)
}

const stale = (context: Context) =>
  page(
    context,
    403,
    'Start again',
    html`<p>
      This page has expired, did not come from this server, or your browser blocks cookies. Go back to the application
      and connect again.
    </p>`,
  )

const nameOf = ({ name }: OauthClient): string => (name === '' ? 'An unnamed application' : name)

/** The source of the application's name, and how far the name is verified. */
function originOf(client: OauthClient) {
  const host = hostOf(client.id)
  return host === undefined
    ? html`The application chose this name itself. It is not verified.`
    : html`The name comes from <strong>${host}</strong> and is not
        verified.${isLoopbackOnly(client) ? html` <strong>Any application on this device could pretend to be <bdi>${nameOf(client)}</bdi>.</strong>` : ''}`
}

function consentPage(
  people: People,
  context: Context,
  { client, query, redirectUri }: Asking,
  person: Person,
): Response | Promise<Response> {
  return page(
    context,
    200,
    `Allow ${nameOf(client)}?`,
    html`<p>
        It will be able to do this in the account of <strong>${person.account.email}</strong>, as far as your role
        (${ROLES[person.role].name}) allows it:
      </p>
      <ul>
        <li>send email from your domains</li>
        <li>read your sent and received email</li>
        <li>view your domains and draft campaigns (it cannot send them)</li>
      </ul>
      <p class="soft">
        You will be redirected to <strong>${whereTo(redirectUri)}</strong>. ${originOf(client)} Allow access only if you
        started this yourself.
      </p>
      <form method="post" action="${PATH}">
        <input type="hidden" name="request" value="${query}" />
        <input type="hidden" name="proof" value="${people.proofFor(context, person, query)}" />
        <button name="action" value="allow">Allow</button>
        <button class="plain" name="action" value="deny">Deny</button>
        <button class="plain" name="action" value="sign-out">Use another account</button>
      </form>`,
    // Browsers apply this directive to every redirect after a form is sent: to the redirect to the application, and to
    // later ones. So a single origin is not enough. Browsers also do not accept "[::1]" as an origin.
    {
      formTo: `'self' https: http: ${new URL(redirectUri).protocol}`,
      heading: html`Allow <bdi>${nameOf(client)}</bdi>?`,
    },
  )
}

/** The host of the redirect. A private-use scheme is shown too, because other applications can handle it. */
function whereTo(redirectUri: string): string {
  const { host, protocol } = new URL(redirectUri)
  return /^https?:$/.test(protocol) ? host : `${protocol}//${host}`
}
