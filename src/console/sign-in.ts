// Sign-in to the console: by password and code, by passkey, or by a mailed link; and the page of the link that the
// sandbox prints.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { addNotice } from '../accounts/notices.ts'
import { PasskeyCeremonies } from '../identity/passkeys.ts'
import { useCode } from '../identity/second-factor.ts'
import { makeLink, MOST_LINKS, linksOf, ownerOfLink, useLink } from '../identity/sign-in-links.ts'
import { refusedProof } from '../identity/own-proof.ts'
import { findUser, type User } from '../identity/users.ts'
import { noticeOf } from '../http/authorize.ts'
import { clientAddress } from '../net/client-address.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { People } from '../webui/browser-session.ts'
import { readObject, readText } from '../webui/plain-page.ts'
import { isReadHere } from '../inbound/recipients.ts'
import { guard, plainPage } from '../webui/frame.ts'
import { openedByHand, ownPath } from '../webui/origin.ts'
import { addJoin } from './join.ts'
import { codePage, heldFields, heldForm, linkPage, signInPage } from './sign-in-forms.ts'

/** A sign-in with the fields of a form that it interrupted, which are a few KB (D112). */
const MAX_FORM = 64 * 1024
const MAX_JSON = 64 * 1024
const NO_OBJECT = { error: 'The body must be a JSON object.' }

export interface SignInDeps {
  deps: ApiDeps
  people: People
  /** Whether a request comes from a page of this server. */
  ours: (context: Context) => boolean
}

interface SignInParts extends SignInDeps {
  passkeys: PasskeyCeremonies
}

const USED_LINK = { said: 'This link was used, or is too old. Sign in another way.' }

/** Makes the routes that sign people in, and those of passkeys. */
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
  // Mail scanners open links too, so only the button uses up the link. A page of another site may lead here with a link
  // to its own account: that acts only when the person opened it, and the button names the account. HEAD asks only.
  if (context.req.query('now') !== '1' || context.req.method === 'HEAD' || !openedByHand(deps, context))
    return linkPage(context, people, { token, next, email: ownerOfLink(deps, token)?.email })
  return enterByLink({ deps, people }, context, token, next)
}

/** Uses up a mailed link. A person with a second factor is asked for its code. */
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
  /** The fields of a form that was sent after the session had ended; '' when there was none. */
  held: string
}

async function signIn(shared: SignInParts, context: Context): Promise<Response> {
  const { deps, ours, people } = shared
  const form = new URLSearchParams((await readText(context, deps, MAX_FORM)) ?? '')
  const next = ownPath(form.get('next') ?? undefined)
  const held = form.get('held') ?? ''
  if (!ours(context) || !people.proves(context, form.get('proof') ?? '', undefined, 'sign-in'))
    return signInPage(context, people, next, {
      said: 'This page was open for too long, or your browser keeps no cookies. Try again.',
      status: 403,
    })
  switch (form.get('action') ?? 'password') {
    case 'use-link':
      return enterByLink(shared, context, form.get('link') ?? '', next)
    case 'link': {
      const email = emailOf(form)
      if (deps.signIns.mayAsk(clientOf(shared, context))) await mailLink(deps, email, next)
      return plainPage(context, {
        title: 'Look into your mail',
        server: people.server,
        body: html`<p>If that address has an account here, a link to sign in is on its way. It lasts 15 minutes.</p>`,
      })
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
  const { status, text } = noticeOf(context, result, 'The address or the password', email)
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
  if (!user) return signInPage(context, people, next, { said: 'That took too long. Begin again.', held })
  const [code, recovery] = ['code', 'recovery'].map((name) => (form.get(name) ?? '').trim()) as [string, string]
  const field = code === '' && recovery !== '' ? 'recovery' : 'code'
  if (code === '' && recovery === '') {
    const words = 'The code is missing.'
    return codePage(context, people, { next, step, held, wrong: { field, words }, status: 422 })
  }
  const result = await deps.signIns.tryCode(user, clientOf(shared, context), () =>
    useCode(deps, user, code || recovery),
  )
  if (result !== 'wrong' && 'user' in result) return afterwards(people, context, user, next, held)
  const { status, text } = noticeOf(context, result, field === 'code' ? 'The code' : 'The recovery code', '')
  return codePage(context, people, { next, step, held, wrong: { field, words: text }, status })
}

/** Signs in. When a form was interrupted, the page shows one button that sends it again. */
async function afterwards(people: People, context: Context, user: User, next: string, held: string): Promise<Response> {
  await people.signIn(context, user)
  if (heldFields(held).length === 0) return context.redirect(next, 303)
  const said = html`<p>You are signed in again. What you had typed is still here.</p>
    <p><a href="${next}">Leave it</a></p>`
  // The form's proof needs the new session, which only the browser's next request carries.
  return plainPage(context, {
    title: 'Go on where you were',
    body: html`<form method="post" action="/sign-in/again">
      <input type="hidden" name="proof" value="${people.proofFor(context, undefined, 'held')}" />
      <input type="hidden" name="next" value="${next}" /><input
        type="hidden"
        name="held"
        value="${held}"
      />${said}<button>Show it</button>
    </form>`,
  })
}

async function showHeld({ deps, ours, people }: SignInParts, context: Context): Promise<Response> {
  const form = new URLSearchParams((await readText(context, deps, MAX_FORM)) ?? '')
  const person = people.signedIn(context)
  const next = ownPath(form.get('next') ?? undefined)
  if (!ours(context) || !person || !people.proves(context, form.get('proof') ?? '', undefined, 'held'))
    return context.redirect(`/sign-in?next=${encodeURIComponent(next)}`, 303)
  return plainPage(context, {
    title: 'What you had typed',
    body: heldForm(context, people, person, next, form.get('held') ?? ''),
  })
}

async function signInByPasskey({ deps, ours, passkeys, people }: SignInParts, context: Context): Promise<Response> {
  guard(context)
  if (!ours(context)) return context.json({ error: 'This request comes from another site.' }, 403)
  const body = await readObject(context, deps, MAX_JSON)
  if (!body) return context.json(NO_OBJECT, 400)
  const browser = people.browserOf(context)
  if (!body['response']) return context.json(await passkeys.ask(browser))
  const user = await passkeys.answered(browser, body['response'] as AuthenticationResponseJSON)
  if (!user) return context.json({ error: 'This passkey is not known here.' }, 403)
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
    return context.json({ error: 'The name of a passkey and the proof of who you are are texts.' }, 400)
  if (!response) {
    const asked = { ...person, client: clientOf(shared, context), given: old, fresh: true }
    const refused = await refusedProof(deps, asked)
    return refused ? context.json({ error: refused }, 403) : context.json(await passkeys.register(person))
  }
  switch (await passkeys.registered(person, name, response as RegistrationResponseJSON)) {
    case 'added':
      return context.json({ next: '/account?done=passkey' })
    case 'known':
      return context.json({ error: 'This passkey is in use already. Choose another device or key.' }, 409)
    case undefined:
      return context.json({ error: 'The passkey could not be proven. Try again.' }, 400)
  }
}

/**
 * Mails a link when the address has an account. The answer does not reveal whether it has one. No link goes to an
 * address whose mail comes to this server: everybody who may read that mail could sign in with it.
 */
async function mailLink(deps: ApiDeps, email: string, next: string): Promise<void> {
  const user = findUser(deps.store, email)
  if (!user || user.locked_at !== null) return
  if (isReadHere(deps, user.email)) {
    const mend = `Mail to the address comes to this server, where others may read it. Set a password: postrider user passwd ${user.email}`
    return deps.log.warn('sign-in link not mailed', { email: user.email, mend })
  }
  const now = deps.clock.now()
  // Whoever asks for links in another's name fills the mailbox with no more than these, and each of them works.
  if (linksOf(deps.store, user, now) >= MOST_LINKS) return
  await deps.store.write((tx) => {
    const url = `${deps.config.http.public_url}/sign-in?link=${makeLink(tx, user, now)}&next=${encodeURIComponent(next)}`
    const text = `With this link you sign in to Postrider once. It lasts 15 minutes.\n\n${url}\n\nIf you did not ask for it, do nothing.\n`
    addNotice(tx, { user_key: user.key, domain_key: null, subject: 'Your link to sign in', text }, now)
  })
  deps.bells.notices()
}
