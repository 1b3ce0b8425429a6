// OAuth for MCP clients, the pages for people (OAuth 2.1, D58). A person signs in, sees which program asks and where
// the answer goes, and allows or denies it. A bad client or redirect URI gets an error page, never a redirect.
// person.ts finds the signed-in person and proves that a form is from this server.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import { allowedNow } from '../identity/oauth-allowed.ts'
import { clientById, isAllowed, isLoopbackOnly, isRegistered, type OauthClient } from '../identity/oauth-clients.ts'
import { hostOf, isUrl } from '../identity/oauth-documents.ts'
import { grantCode } from '../identity/oauth-grants.ts'
import { useCode } from '../identity/second-factor.ts'
import type { SignIns } from '../identity/sign-in.ts'
import { clientAddress, rateKey } from '../net/client-address.ts'
import { ClientDocuments, type ClientDocumentsDeps, type NoClient } from './client-documents.ts'
import { resourceNamed, SCOPE } from './oauth.ts'
import { isOurs } from '../webui/origin.ts'
import { page, readText, type PlainPageDeps } from '../webui/plain-page.ts'
import { People, type Person, type PersonDeps } from '../webui/browser-session.ts'
import { codePage, consentPage, signInPage, type AuthorizationForm, type SignInNotice } from './sign-in-pages.ts'

const PATH = '/oauth/authorize'
const MAX_QUERY = 8000
/** The most octets of a form: it holds the query, percent-encoded a second time, and text that a person typed. */
const MAX_BODY = 3 * MAX_QUERY + 8 * 1024

/** A request whose client and redirect URI are valid, so that its answer may be a redirect. */
interface Asking {
  client: OauthClient
  redirectUri: string
  state: string | null
  challenge: string
  resource: string
  /** The query as received; each form carries it. */
  query: string
}

type AuthorizationOutcome = { asking: Asking } | { page: NoClient } | { redirect: string }

export type AuthorizeDeps = PersonDeps & ClientDocumentsDeps & PlainPageDeps & { signIns: SignIns }

interface AuthorizationParts {
  deps: AuthorizeDeps
  documents: ClientDocuments
  people: People
  signIns: SignIns
}

/** Makes the page of authorization requests. */
export function createAuthorize(deps: AuthorizeDeps): Hono {
  const app = new Hono()
  const shared: AuthorizationParts = {
    deps,
    documents: new ClientDocuments(deps),
    people: new People(deps),
    signIns: deps.signIns,
  }
  app.get(PATH, (context) => showRequest(shared, context))
  app.post(PATH, (context) => act(shared, context))
  app.all(PATH, (context) => context.text('This page knows GET and POST.\n', 405, { Allow: 'GET, HEAD, POST' }))
  return app
}

/** The client of a request; undefined for one that has not registered. */
const clientOf = async (
  { deps, documents }: AuthorizationParts,
  context: Context,
  id: string,
): Promise<OauthClient | NoClient | undefined> =>
  isUrl(id) ? documents.find(id, rateKey(context, deps.config.http)) : clientById(deps.store, id)

const formOf = (people: People, context: Context, { client, query }: Asking, person?: Person): AuthorizationForm => ({
  client: client.name === '' ? 'A program without a name' : client.name,
  host: hostOf(client.id),
  action: PATH,
  request: query,
  proof: people.proofFor(context, person, query),
})

const again = (context: Context, { query }: Asking): Response => context.redirect(`${PATH}?${query}`, 303)

async function showRequest(shared: AuthorizationParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const judged = await judge(deps, new URL(context.req.url).search.slice(1), (id) => clientOf(shared, context, id))
  if (!('asking' in judged)) return answer(context, judged)
  const { asking } = judged
  const person = people.signedIn(context)
  const form = formOf(shared.people, context, asking, person)
  return person
    ? consentPage(context, form, {
        email: person.user.email,
        redirectUri: asking.redirectUri,
        onlyHere: isLoopbackOnly(asking.client),
      })
    : signInPage(context, form)
}

/** Performs the action of a submitted form: sign in, sign out, allow or deny. */
async function act(shared: AuthorizationParts, context: Context): Promise<Response> {
  const { deps, people } = shared
  const text = await readText(context, deps, MAX_BODY)
  if (text === undefined) return page(context, 413, 'This does not work', html`<p>The form is too long.</p>`)
  const form = new URLSearchParams(text)
  const judged = await judge(deps, form.get('request') ?? '', (id) => clientOf(shared, context, id))
  if (!('asking' in judged)) return answer(context, judged)
  const { asking } = judged
  const person = people.signedIn(context)
  const action = form.get('action')
  // The proof in a sign-in form names no person. A second tab may still show such a form after the sign-in in the first
  // tab.
  const whose = action === 'sign-in' || action === 'code' ? undefined : person
  if (!isOurs(deps, context) || !people.proves(context, form.get('proof') ?? '', whose, asking.query))
    return stale(context)
  if (action === 'sign-in') return signIn(shared, context, asking, form)
  if (action === 'code') return secondFactor(shared, context, asking, form)
  if (action === 'sign-out') await people.signOut(context)
  if (action === 'sign-out' || !person) return again(context, asking)
  if (action !== 'allow')
    return redirectWith(context, deps, asking, { error: 'access_denied', error_description: 'The user denied it.' })
  const { challenge, client, redirectUri, resource } = asking
  const granting = { client, user_key: person.user.key, redirect_uri: redirectUri, challenge, resource }
  return redirectWith(context, deps, asking, { code: await grantCode(deps, granting) })
}

async function signIn(
  shared: AuthorizationParts,
  context: Context,
  asking: Asking,
  form: URLSearchParams,
): Promise<Response> {
  const { deps, people, signIns } = shared
  const email = (form.get('email') ?? '').slice(0, 320)
  const result = await signIns.try(email, form.get('password') ?? '', clientAddress(context, deps.config.http))
  if (result === 'wrong' || 'wait' in result)
    return signInPage(
      context,
      formOf(shared.people, context, asking),
      noticeOf(context, result, 'The address or the password', email),
    )
  if (result.user.sealed_totp === null) {
    await people.signIn(context, result.user)
    return again(context, asking)
  }
  return codePage(context, { ...formOf(shared.people, context, asking), step: people.stepFor(result.user) })
}

/** The second step of a sign-in: the password was right, now the code of the second factor is checked. */
async function secondFactor(
  shared: AuthorizationParts,
  context: Context,
  asking: Asking,
  form: URLSearchParams,
): Promise<Response> {
  const { deps, people, signIns } = shared
  const step = form.get('step') ?? ''
  const user = people.userOfStep(step)
  if (!user) return again(context, asking)
  const result = await signIns.tryCode(user, clientAddress(context, deps.config.http), () =>
    useCode(deps, user, form.get('code') ?? ''),
  )
  if (result === 'wrong' || 'wait' in result)
    return codePage(
      context,
      { ...formOf(shared.people, context, asking), step },
      noticeOf(context, result, 'The code', ''),
    )
  await people.signIn(context, user)
  return again(context, asking)
}

/** The notice after a wrong password or code, or after too many attempts. */
export function noticeOf(
  context: Context,
  result: 'wrong' | { wait: number },
  what: string,
  email: string,
): SignInNotice {
  if (result === 'wrong') return { status: 403, text: `${what} is wrong.`, email }
  const seconds = Math.ceil(result.wait / 1000)
  const time = seconds > 90 ? `${Math.ceil(seconds / 60)} minutes` : `${seconds} seconds`
  context.header('Retry-After', String(seconds))
  return { status: 429, text: `Too many attempts. Try again in ${time}.`, email }
}

const noPage = (refused: string): AuthorizationOutcome => ({ page: { status: 400, refused } })

/** OAuth 2.1 §4.1.1, §4.1.2.1: first client and redirect URI, which decide where errors go; then the rest. */
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
    return noPage('The program that sent you here is not known to this server. It has to register itself again.')
  if ('refused' in client) return { page: client }
  // OAuth 2.1 §3.1: a parameter without a value counts as absent.
  const given = (name: string): string | null => params.get(name) || null
  const redirectUri = given('redirect_uri')
  if (redirectUri === null || params.getAll('redirect_uri').length > 1 || !isRegistered(client, redirectUri))
    return noPage('The program that sent you here wants the answer at an address that it has not registered.')
  if (!isAllowed(redirectUri, allowedNow(store, config)))
    return noPage(
      'The program that sent you here wants the answer at an address that this server does not allow. Its operator can: "postrider oauth allow".',
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
    return page(context, status, 'This does not work', html`<p>${refused}</p>`)
  }
  context.header('Referrer-Policy', 'no-referrer')
  return context.redirect(judged.redirect, 303)
}

const stale = (context: Context) =>
  page(
    context,
    403,
    'Please begin again',
    html`<p>
      This page was open for too long, did not come from this server, or your browser keeps no cookies. Go back to the
      program and connect once more.
    </p>`,
  )
