// OAuth for MCP clients, the person's side (OAuth 2.1, D58): sign in, see who asks and where the answer goes, allow or deny. Bad client or
// redirect URI: an error page, never a redirect. A session lives in a signed cookie for this path alone; each form proves that it is ours.
import { Hono, type Context } from 'hono'
import { deleteCookie, getCookie, setCookie } from 'hono/cookie'
import { html } from 'hono/html'
import { MINUTE, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Keyring } from '../base/keyring.ts'
import { clientById, isRegistered, type OauthClient } from '../accounts/oauth-clients.ts'
import { grantCode } from '../accounts/oauth-grants.ts'
import { SignIns } from '../accounts/sign-in.ts'
import type { Store } from '../store/database.ts'
import { db } from '../store/query.ts'
import { clientAddress } from './client-address.ts'
import { resourceNamed, SCOPE } from './oauth.ts'
import { page, readText } from './pages.ts'

export interface AuthorizeDesk {
  store: Store
  clock: Clock
  keyring: Keyring
  config: Pick<Config, 'http'>
}

const PATH = '/oauth/authorize'
const COOKIE = 'postrider_session'
const SESSION = 15 * MINUTE
const MAX_QUERY = 8000
const MAX_BODY = 16 * 1024

/** An authorization request that may be answered by a redirect. */
interface Asking {
  client: OauthClient
  redirectUri: string
  state: string | null
  challenge: string
  resource: string
  /** As it came, for the forms. */
  query: string
}

type Judged = { asking: Asking } | { page: string } | { redirect: string }

export function createAuthorize(desk: AuthorizeDesk): Hono {
  const app = new Hono()
  const signIns = new SignIns(desk.store, desk.clock)

  app.get(PATH, (context) => {
    const judged = judge(desk, new URL(context.req.url).search.slice(1))
    if (!('asking' in judged)) return answer(context, judged)
    const user = signedIn(desk, context)
    return user ? consentPage(desk, context, judged.asking, user) : signInPage(desk, context, judged.asking)
  })

  app.post(PATH, async (context) => {
    const form = await readForm(context)
    const judged = judge(desk, form.get('request') ?? '')
    if (!('asking' in judged)) return answer(context, judged)
    const { asking } = judged
    const user = signedIn(desk, context)
    // Each form carries a proof over its request and, once there is one, the session.
    if (!proves(desk, form.get('proof'), asking, user?.id)) return stale(context)
    const action = form.get('action')
    if (action === 'sign-in') return signIn(desk, signIns, context, asking, form)
    if (action === 'sign-out') {
      deleteCookie(context, COOKIE, { path: PATH })
      return context.redirect(`${PATH}?${asking.query}`, 303)
    }
    if (!user) return context.redirect(`${PATH}?${asking.query}`, 303)
    if (action !== 'allow')
      return redirectWith(context, desk, asking, { error: 'access_denied', error_description: 'The user denied it.' })
    const { challenge, client, redirectUri, resource } = asking
    const granting = { client, user_key: user.key, redirect_uri: redirectUri, challenge, resource }
    return redirectWith(context, desk, asking, { code: await grantCode(desk, granting) })
  })
  return app
}

/** OAuth 2.1 §4.1.1, §4.1.2.1: first client and redirect URI, which decide where errors go; then the rest. */
function judge({ config, store }: AuthorizeDesk, query: string): Judged {
  if (query.length > MAX_QUERY) return { page: 'The request is too long.' }
  const params = new URLSearchParams(query)
  const names = [...params.keys()]
  const repeated = names.some((name, index) => names.indexOf(name) !== index)
  const client = clientById(store, params.get('client_id') ?? '')
  if (!client || params.getAll('client_id').length > 1)
    return { page: 'The program that sent you here is not known to this server. It has to register itself anew.' }
  const redirectUri = params.get('redirect_uri')
  if (redirectUri === null || params.getAll('redirect_uri').length > 1 || !isRegistered(client, redirectUri))
    return { page: 'The program that sent you here wants the answer at an address that it has not registered.' }
  const state = params.get('state')
  const back = (error: string, description: string): Judged => ({
    redirect: withParams(redirectUri, { error, error_description: description, state, iss: config.http.public_url }),
  })
  if (repeated) return back('invalid_request', 'A parameter is given more than once.')
  if (params.get('response_type') !== 'code')
    return back(
      params.has('response_type') ? 'unsupported_response_type' : 'invalid_request',
      'response_type must be code.',
    )
  const challenge = params.get('code_challenge') ?? ''
  if (params.get('code_challenge_method') !== 'S256' || !/^[A-Za-z0-9_-]{43}$/.test(challenge))
    return back('invalid_request', 'PKCE is needed: code_challenge with code_challenge_method S256.')
  const scopes = (params.get('scope') ?? SCOPE).split(' ').filter(Boolean)
  if (scopes.some((scope) => scope !== SCOPE)) return back('invalid_scope', `The only scope is ${SCOPE}.`)
  const resource = resourceNamed(config, params.get('resource') ?? undefined)
  if (resource === undefined) return back('invalid_target', 'This server has no such resource.')
  return { asking: { client, redirectUri, state, challenge, resource, query } }
}

function withParams(uri: string, params: Record<string, string | null>): string {
  const url = new URL(uri)
  for (const [name, value] of Object.entries(params)) if (value !== null) url.searchParams.set(name, value)
  return url.href
}

function redirectWith(
  context: Context,
  { config }: AuthorizeDesk,
  { redirectUri, state }: Asking,
  params: Record<string, string>,
): Response {
  context.header('Cache-Control', 'no-store')
  context.header('Referrer-Policy', 'no-referrer')
  // 303: the form's body, with what was typed into it, goes nowhere else.
  return context.redirect(withParams(redirectUri, { ...params, state, iss: config.http.public_url }), 303)
}

function answer(context: Context, judged: { page: string } | { redirect: string }): Response | Promise<Response> {
  if ('page' in judged) return page(context, 400, 'This does not work', html`<p>${judged.page}</p>`)
  context.header('Referrer-Policy', 'no-referrer')
  return context.redirect(judged.redirect, 303)
}

const stale = (context: Context) =>
  page(
    context,
    403,
    'Please begin again',
    html`<p>
      This page was open for too long, or did not come from this server. Go back to the program and connect once more.
    </p>`,
  )

interface SignedIn {
  key: number
  id: string
  email: string
}

/** The user of the session cookie; undefined when there is none that holds. */
function signedIn({ clock, keyring, store }: AuthorizeDesk, context: Context): SignedIn | undefined {
  const [body = '', mac = ''] = (getCookie(context, COOKIE) ?? '').split('.')
  // Other words before it than before a form's proof, which is made over what a stranger asks.
  if (!keyring.proves('session', `signed in ${body}`, Buffer.from(mac, 'base64url'))) return undefined
  const { id, until } = JSON.parse(Buffer.from(body, 'base64url').toString()) as { id: string; until: number }
  const user = store.first(db.selectFrom('users').select(['key', 'id', 'email']).where('id', '=', id))
  return clock.now() < until ? user : undefined
}

async function signIn(
  desk: AuthorizeDesk,
  signIns: SignIns,
  context: Context,
  asking: Asking,
  form: URLSearchParams,
): Promise<Response> {
  const { clock, config, keyring } = desk
  const email = (form.get('email') ?? '').slice(0, 320)
  const password = (form.get('password') ?? '').slice(0, 1000)
  const result = await signIns.try(email, password, clientAddress(context, config.http.trusted_proxies))
  if (result === 'wrong')
    return signInPage(desk, context, asking, { status: 403, text: 'The address or the password is wrong.', email })
  if ('wait' in result) {
    const seconds = Math.ceil(result.wait / 1000)
    const time = seconds > 90 ? `${Math.ceil(seconds / 60)} minutes` : `${seconds} seconds`
    context.header('Retry-After', String(seconds))
    return signInPage(desk, context, asking, { status: 429, text: `Too many attempts. Try again in ${time}.`, email })
  }
  const body = Buffer.from(JSON.stringify({ id: result.user.id, until: clock.now() + SESSION })).toString('base64url')
  setCookie(context, COOKIE, `${body}.${keyring.mac('session', `signed in ${body}`).toString('base64url')}`, {
    path: PATH,
    httpOnly: true,
    sameSite: 'Lax',
    secure: config.http.public_url.startsWith('https:'),
    maxAge: SESSION / 1000,
  })
  return context.redirect(`${PATH}?${asking.query}`, 303)
}

/** Over the request and whose session it is: a form of another session, or of another site, proves nothing. */
const proofOf = ({ keyring }: AuthorizeDesk, { query }: Asking, userId: string | undefined): string =>
  keyring.mac('session', `form ${userId ?? 'nobody'} ${query}`).toString('base64url')

const proves = (desk: AuthorizeDesk, given: string | null, asking: Asking, userId: string | undefined): boolean =>
  desk.keyring.proves('session', `form ${userId ?? 'nobody'} ${asking.query}`, Buffer.from(given ?? '', 'base64url'))

const nameOf = ({ client }: Asking): string => (client.name === '' ? 'A program without a name' : client.name)

interface Notice {
  status: 403 | 429
  text: string
  email: string
}

function signInPage(desk: AuthorizeDesk, context: Context, asking: Asking, notice?: Notice): Promise<Response> {
  return Promise.resolve(
    page(
      context,
      notice?.status ?? 200,
      'Sign in to Postrider',
      html`<p>
          <strong>${nameOf(asking)}</strong> wants to use your mail. Sign in first; you are asked before anything is
          allowed.
        </p>
        ${notice ? html`<p class="bad" role="alert">${notice.text}</p>` : ''}
        <form method="post" action="${PATH}">
          <input type="hidden" name="request" value="${asking.query}" />
          <input type="hidden" name="proof" value="${proofOf(desk, asking, undefined)}" />
          <label for="email">Email address</label>
          <input id="email" name="email" type="email" autocomplete="username" required value="${notice?.email ?? ''}" />
          <label for="password">Password</label>
          <input id="password" name="password" type="password" autocomplete="current-password" required />
          <button name="action" value="sign-in">Sign in</button>
        </form>`,
    ),
  )
}

function consentPage(desk: AuthorizeDesk, context: Context, asking: Asking, user: SignedIn): Promise<Response> {
  const { host, origin } = new URL(asking.redirectUri)
  return Promise.resolve(
    page(
      context,
      200,
      `Allow ${nameOf(asking)}?`,
      html`<p>It could, as <strong>${user.email}</strong>:</p>
        <ul>
          <li>send mail from your domains</li>
          <li>read the mail that you sent and received</li>
          <li>see your domains, and draft campaigns (never start them)</li>
        </ul>
        <p class="soft">
          The answer goes to <strong>${host}</strong>. The program registered itself under its name; nobody has checked
          it. Allow it only if you have just started this yourself.
        </p>
        <form method="post" action="${PATH}">
          <input type="hidden" name="request" value="${asking.query}" />
          <input type="hidden" name="proof" value="${proofOf(desk, asking, user.id)}" />
          <button name="action" value="allow">Allow</button>
          <button class="plain" name="action" value="deny">Deny</button>
          <button class="plain" name="action" value="sign-out">Use another account</button>
        </form>`,
      // Browsers hold the redirect after a form to the same rule.
      `'self' ${origin}`,
    ),
  )
}

/** A form as it was sent; empty beyond the limit. */
const readForm = async (context: Context): Promise<URLSearchParams> =>
  new URLSearchParams((await readText(context.req.raw, MAX_BODY)) ?? '')
