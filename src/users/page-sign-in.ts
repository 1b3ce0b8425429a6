// The sign-in of the console and of OAuth: by password and code, by passkey, or by an emailed link. The sandbox prints
// such a link too.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { addNotice } from './notices.ts'
import { PasskeyCeremonies } from './passkeys.ts'
import { useCode } from './second-factor.ts'
import { makeLink, MOST_LINKS, linksOf, ownerOfLink, useLink } from './sign-in-links.ts'
import { auditSelf, refusedProof } from './own-proof.ts'
import { findUser, type User } from './users.ts'
import { clientAddress } from '../net/client-address.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { People } from './browser-session.ts'
import { readObject, readText } from '../views/html/plain-page.ts'
import type { UserParts } from './parts.ts'
import { guard, plainPage, type Page } from '../views/html/frame.ts'
import { openedByHand, ownPath } from '../views/html/origin.ts'
import { addJoin, notRegistered } from './page-join.ts'
import { codePage, heldFields, heldForm, linkPage, provedForm, signInPage } from './sign-in-forms.ts'

/** A sign-in with the fields of a form that it interrupted, which are a few KB (D112). */
const MAX_FORM = 64 * 1024
const MAX_JSON = 64 * 1024
const NO_OBJECT = { error: 'The body must be a JSON object.' }

interface SignInDeps {
  deps: ApiDeps & UserParts
  people: People
  /** Whether a request comes from a page of this server. */
  ours: (context: Context) => boolean
}

interface SignInParts extends SignInDeps {
  passkeys: PasskeyCeremonies
}

const USED_LINK = { said: 'This link was already used or has expired. Request a new one.' }

/** Makes the routes of the sign-in and of passkeys. */
export function createSignIn(options: SignInDeps): Hono {
  const app = new Hono()
  const shared = { ...options, passkeys: new PasskeyCeremonies(options.deps) }
  app.get('/sign-in', (context) => showSignIn(shared, context))
  app.post('/sign-in', (context) => signIn(shared, context))
  app.post('/sign-in/again', (context) => showHeld(shared, context))
  app.post('/sign-in/passkey', (context) => signInByPasskey(shared, context))
  app.post('/account/passkeys', (context) => addPasskey(shared, context))
  addJoin(app, shared)
  return app
}

const clientOf = ({ deps }: SignInParts, context: Context): string => clientAddress(context, deps.config.http)

async function showSignIn({ deps, people }: SignInParts, context: Context): Promise<Response> {
  const next = ownPath(context.req.query('next'))
  const token = context.req.query('link')
  if (token === undefined)
    return people.signedIn(context) ? context.redirect(next, 303) : signInPage(context, people, next)
  // Mail scanners open links too, so only the button uses up the link. A page of another site may contain a link to its
  // own account, so the link acts only if the user opened it directly, and the button names the account. HEAD changes
  // nothing.
  if (context.req.query('now') !== '1' || context.req.method === 'HEAD' || !openedByHand(deps, context))
    return linkPage(context, people, { token, next, email: ownerOfLink(deps, token)?.email })
  return enterByLink({ deps, people }, context, token, next)
}

/** Uses a mailed link. A user with a second factor must enter its code. */
async function enterByLink(
  { deps, people }: Pick<SignInParts, 'deps' | 'people'>,
  context: Context,
  token: string,
  next: string,
): Promise<Response> {
  const user = await useLink(deps, token)
  if (!user) return signInPage(context, people, next, USED_LINK)
  if (user.sealed_totp !== null) return codePage(context, people, { next, step: people.stepFor(user), held: '' })
  await people.signIn(context, user)
  return context.redirect(next, 303)
}

/** One step of the sign-in: the form, and the page afterwards. */
interface SignInStep {
  form: URLSearchParams
  next: string
  /** The fields of a form that was sent after the session had expired, or ''. */
  held: string
}

async function signIn(shared: SignInParts, context: Context): Promise<Response> {
  const { deps, ours, people } = shared
  const form = new URLSearchParams((await readText(context, deps, MAX_FORM)) ?? '')
  const next = ownPath(form.get('next') ?? undefined)
  const held = form.get('held') ?? ''
  if (!ours(context) || !people.proves(context, form.get('proof') ?? '', undefined, 'sign-in'))
    return signInPage(context, people, next, {
      said: 'This page has expired, or your browser blocks cookies. Try again.',
      status: 403,
    })
  switch (form.get('action') ?? 'password') {
    case 'use-link':
      return enterByLink(shared, context, form.get('link') ?? '', next)
    case 'link': {
      const email = emailOf(form)
      const mayAsk = deps.signIns.mayAsk(clientOf(shared, context))
      if (mayAsk) await mailLink(deps, email, next)
      return plainPage(context, { ...linkAnswer(deps, email, mayAsk), server: people.server })
    }
    case 'code':
      return signInByCode(shared, context, { form, next, held })
    default:
      return signInByPassword(shared, context, { form, next, held })
  }
}

const emailOf = (form: URLSearchParams): string => (form.get('email') ?? '').slice(0, 320)

async function signInByPassword(
  shared: SignInParts,
  context: Context,
  { form, held, next }: SignInStep,
): Promise<Response> {
  const { deps, people } = shared
  const email = emailOf(form)
  const result = await deps.signIns.try(email, form.get('password') ?? '', clientOf(shared, context))
  if (result !== 'wrong' && 'user' in result)
    return result.user.sealed_totp === null
      ? afterwards(people, context, result.user, next, held)
      : codePage(context, people, { next, step: people.stepFor(result.user), held })
  const { status, text } = noticeOf(context, result, 'The email address or password')
  return signInPage(context, people, next, { said: text, email, status, held })
}

/** The second step: the password was right, now the code of the second factor is checked. */
async function signInByCode(
  shared: SignInParts,
  context: Context,
  { form, held, next }: SignInStep,
): Promise<Response> {
  const { deps, people } = shared
  const step = form.get('step') ?? ''
  const user = people.userOfStep(step)
  if (!user) return signInPage(context, people, next, { said: 'This step has expired. Sign in again.', held })
  const [code, recovery] = ['code', 'recovery'].map((name) => (form.get(name) ?? '').trim()) as [string, string]
  const field = code === '' && recovery !== '' ? 'recovery' : 'code'
  if (code === '' && recovery === '') {
    const words = 'Enter a code.'
    return codePage(context, people, { next, step, held, wrong: { field, words }, status: 422 })
  }
  const result = await deps.signIns.tryCode(user, clientOf(shared, context), () =>
    useCode(deps, user, code || recovery),
  )
  if (result !== 'wrong' && 'user' in result) return afterwards(people, context, user, next, held)
  const { status, text } = noticeOf(context, result, field === 'code' ? 'The code' : 'The recovery code')
  return codePage(context, people, { next, step, held, wrong: { field, words: text }, status })
}

/** Signs in. When a form was interrupted, the page shows one button that sends it again. */
async function afterwards(people: People, context: Context, user: User, next: string, held: string): Promise<Response> {
  await people.signIn(context, user)
  if (heldFields(held).length === 0) return context.redirect(next, 303)
  const said = html`<p>You are signed in again. Your input was kept.</p>
    <p><a href="${next}">Discard</a></p>
    <button>Review</button>`
  // The form's proof needs the new session, which only the browser's next request carries.
  return plainPage(context, {
    title: 'Continue where you left off',
    body: provedForm(people, context, { next, held }, said, { to: '/sign-in/again', what: 'held' }),
  })
}

async function showHeld({ deps, ours, people }: SignInParts, context: Context): Promise<Response> {
  const form = new URLSearchParams((await readText(context, deps, MAX_FORM)) ?? '')
  const person = people.signedIn(context)
  const next = ownPath(form.get('next') ?? undefined)
  if (!ours(context) || !person || !people.proves(context, form.get('proof') ?? '', undefined, 'held'))
    return context.redirect(`/sign-in?next=${encodeURIComponent(next)}`, 303)
  return plainPage(context, {
    title: 'Your input',
    body: heldForm(context, people, person, next, form.get('held') ?? ''),
  })
}

async function signInByPasskey({ deps, ours, passkeys, people }: SignInParts, context: Context): Promise<Response> {
  guard(context)
  if (!ours(context)) return context.json({ error: 'This request came from another site.' }, 403)
  const body = await readObject(context, deps, MAX_JSON)
  if (!body) return context.json(NO_OBJECT, 400)
  const browser = people.browserOf(context)
  if (!body['response']) return context.json(await passkeys.ask(browser))
  const user = await passkeys.answered(browser, body['response'] as AuthenticationResponseJSON)
  if (!user) return context.json({ error: 'This passkey is not registered here.' }, 403)
  await people.signIn(context, user)
  return context.json({ next: ownPath(context.req.query('next')) })
}

async function addPasskey(shared: SignInParts, context: Context): Promise<Response> {
  const { deps, ours, passkeys, people } = shared
  guard(context)
  const person = people.signedIn(context)
  const body = await readObject(context, deps, MAX_JSON)
  if (!body) return context.json(NO_OBJECT, 400)
  const { name = '', old = '', proof = '', response } = body
  if (!ours(context) || !person || typeof proof !== 'string' || !people.proves(context, proof, person, 'console'))
    return context.json({ error: 'Sign in again.' }, 403)
  if (typeof name !== 'string' || typeof old !== 'string')
    return context.json({ error: '"name" and "old" must be strings.' }, 400)
  if (!response) {
    const refused = await refusedProof({ ...deps, people }, context, old, true)
    return refused ? context.json({ error: refused }, 403) : context.json(await passkeys.register(person))
  }
  const made = await passkeys.registered(person, name, response as RegistrationResponseJSON)
  const refused = notRegistered(context, made)
  if (refused) return refused
  await deps.store.write((tx) => auditSelf(tx, deps, context, { user: person.user, action: 'users.add_passkey' }))
  return context.json({ next: '/account?done=passkey' })
}

/**
 * The page after the request for a link. It depends on the address and on the server, never on whether an account
 * exists, and promises an email only if this server can send one to the address.
 */
function linkAnswer({ linkMail }: UserParts, email: string, mayAsk: boolean): Pick<Page, 'title' | 'body' | 'status'> {
  const said = (title: string, ...sentences: string[]) => ({
    title,
    body: html`${sentences.map((each) => html`<p>${each}</p>`)}`,
  })
  if (!mayAsk) return { ...said('Too many requests', 'Wait a few minutes, then request a link again.'), status: 429 }
  const lasts = 'It works once and expires after 15 minutes.'
  if (linkMail.stays)
    return said(
      'Look at the terminal',
      'If there is an account for this address, the sandbox logged a new sign-in link.',
      lasts,
    )
  if (linkMail.isReadHere(email))
    return said(
      'Sign-in link not sent',
      'Email to this address is delivered to this server, where other users may be able to read it.',
      'Sign in with a password or passkey, or ask the operator of this server to set a new password.',
    )
  return said('Check your inbox', `If there is an account for this address, a sign-in link was sent to it. ${lasts}`)
}

/**
 * Emails a link if the address has an account. The answer does not reveal whether it has one. No link is sent to an
 * address whose email is delivered to this server, because all users who can read that email could sign in with it.
 */
async function mailLink(deps: ApiDeps & UserParts, email: string, next: string): Promise<void> {
  const user = findUser(deps.store, email)
  if (!user || user.locked_at !== null) return
  const { stays } = deps.linkMail
  if (!stays && deps.linkMail.isReadHere(user.email)) {
    const fix = `Mail to the address comes to this server, where others may read it. Set a password: postrider user passwd ${user.email}`
    return deps.log.warn('sign_in_link_withheld', { email: user.email, fix })
  }
  const now = deps.clock.now()
  // Untrusted requests for links to this address can cause at most this many emails, and each link works.
  if (linksOf(deps.store, user, now) >= MOST_LINKS) return
  const urlOf = (link: string): string =>
    `${deps.config.http.public_url}/sign-in?link=${link}&next=${encodeURIComponent(next)}`
  if (stays) {
    const link = await deps.store.write((tx) => makeLink(tx, user, now))
    return deps.log.info('sandbox_sign_in_link', { email: user.email, url: urlOf(link) })
  }
  await deps.store.write((tx) => {
    const text = `Use this link to sign in to Postrider. It works once and expires after 15 minutes.\n\n${urlOf(makeLink(tx, user, now))}\n\nIf you did not request it, ignore this email.\n`
    addNotice(
      tx,
      { user_key: user.key, recipient: user.email, domain_key: null, subject: 'Your sign-in link', text },
      now,
    )
  })
  deps.bells.notices()
}

/** The text after a wrong password or code, or after too many attempts, with its status. */
function noticeOf(
  context: Context,
  result: 'wrong' | { wait: number },
  what: string,
): { status: 403 | 429; text: string } {
  if (result === 'wrong') return { status: 403, text: `${what} is wrong.` }
  const seconds = Math.ceil(result.wait / 1000)
  const time = seconds > 90 ? `${Math.ceil(seconds / 60)} minutes` : `${seconds} seconds`
  context.header('Retry-After', String(seconds))
  return { status: 429, text: `Too many attempts. Try again in ${time}.` }
}
