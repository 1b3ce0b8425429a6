// Signing in to the console: password and code, passkey, or a link that is mailed; and the page of the link that the
// sandbox prints.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { AuthenticationResponseJSON, RegistrationResponseJSON } from '@simplewebauthn/server'
import { addNotice } from '../accounts/notices.ts'
import { Passkeys } from '../accounts/passkeys.ts'
import { useCode } from '../accounts/second-factor.ts'
import { makeLink, useLink } from '../accounts/sign-in-links.ts'
import { SignIns } from '../accounts/sign-in.ts'
import { findUser, type User } from '../accounts/users.ts'
import { noticeOf } from '../api/authorize.ts'
import { rateKey } from '../api/client-address.ts'
import type { ApiDeps } from '../api/deps.ts'
import type { People, Person } from '../api/person.ts'
import { readObject, readText } from '../api/pages.ts'
import { guard, plainPage } from './frame.ts'
import { field } from './parts.ts'

const MAX_FORM = 2 * 1024 * 1024
const MAX_JSON = 64 * 1024
const NO_OBJECT = { error: 'The body must be a JSON object.' }

export interface SignInDeps {
  deps: ApiDeps
  people: People
  /** Whether a request comes from a page of this server. */
  ours: (context: Context) => boolean
  /** Rings the loop that mails notices. */
  noticed: () => void
}

/** Where to go after signing in: a page of ours, never another site. */
const nextOf = (given: string | undefined): string =>
  given !== undefined && /^\/(?![/\\])[\x21-\x7e]*$/.test(given) && given.length < 2000 ? given : '/'

export function createSignIn({ deps, noticed, ours, people }: SignInDeps): Hono {
  const app = new Hono()
  const signIns = new SignIns(deps.store, deps.clock)
  const passkeys = new Passkeys(deps)
  const client = (context: Context): string => rateKey(context, deps.config.http)
  /** After a link: who has a second factor is asked for it all the same. */
  const entered = async (context: Context, user: User, next: string): Promise<Response> => {
    if (user.sealed_totp !== null) return codePage(context, people, next, people.stepFor(user), '')
    await people.signIn(context, user)
    return context.redirect(next, 303)
  }

  app.get('/sign-in', async (context) => {
    const next = nextOf(context.req.query('next'))
    const token = context.req.query('link')
    if (token !== undefined) {
      // A link that was mailed is opened by machines too: only the button uses it up.
      if (context.req.query('now') !== '1') return linkPage(context, people, token, next)
      const user = await useLink(deps, token)
      return user
        ? entered(context, user, next)
        : signInPage(context, people, next, { said: 'This link was used, or is too old. Sign in another way.' })
    }
    return people.signedIn(context) ? context.redirect(next, 303) : signInPage(context, people, next)
  })

  app.post('/sign-in', async (context) => {
    const text = await readText(context.req.raw, MAX_FORM)
    const form = new URLSearchParams(text ?? '')
    const next = nextOf(form.get('next') ?? undefined)
    const held = form.get('held') ?? ''
    if (!ours(context) || !people.proves(context, form.get('proof') ?? '', undefined, 'sign-in'))
      return signInPage(context, people, next, {
        said: 'This page was open for too long, or your browser keeps no cookies. Try again.',
        held,
        status: 403,
      })
    const email = (form.get('email') ?? '').slice(0, 320)
    switch (form.get('action') ?? 'password') {
      case 'use-link': {
        const user = await useLink(deps, form.get('link') ?? '')
        return user
          ? entered(context, user, next)
          : signInPage(context, people, next, { said: 'This link was used, or is too old. Sign in another way.' })
      }
      case 'link':
        if (signIns.mayAsk(email, client(context))) await mailLink(deps, noticed, email, next)
        return plainPage(context, {
          title: 'Look into your mail',
          body: html`<p>If that address has an account here, a link to sign in is on its way. It lasts 15 minutes.</p>`,
        })
      case 'code': {
        const step = form.get('step') ?? ''
        const user = people.userOfStep(step)
        if (!user) return signInPage(context, people, next, { said: 'That took too long. Begin again.', held })
        const result = await signIns.tryCode(user, client(context), () => useCode(deps, user, form.get('code') ?? ''))
        if (result !== 'wrong' && 'user' in result) return afterwards(context, user, next, held)
        const { status, text: words } = noticeOf(context, result, 'The code', '')
        return codePage(context, people, next, step, held, words, status)
      }
      default: {
        const result = await signIns.try(email, form.get('password') ?? '', client(context))
        if (result !== 'wrong' && 'user' in result)
          return result.user.sealed_totp === null
            ? afterwards(context, result.user, next, held)
            : codePage(context, people, next, people.stepFor(result.user), held)
        const { status, text: words } = noticeOf(context, result, 'The address or the password', email)
        return signInPage(context, people, next, { said: words, email, status, held })
      }
    }
  })

  /** What was typed before the session ended is sent again with one button. */
  async function afterwards(context: Context, user: User, next: string, held: string): Promise<Response> {
    await people.signIn(context, user)
    const fields = heldFields(held)
    if (fields.length === 0) return context.redirect(next, 303)
    const said = html`<p>You are signed in again. What you had typed is still here.</p>
      <p><a href="${next}">Leave it</a></p>`
    // The proof belongs to the new session, which the next request brings.
    return plainPage(context, {
      title: 'Go on where you were',
      body: html`<form method="post" action="/sign-in/again">
        <input type="hidden" name="next" value="${next}" /><input
          type="hidden"
          name="held"
          value="${held}"
        />${said}<button>Show it</button>
      </form>`,
    })
  }

  app.post('/sign-in/again', async (context) => {
    const form = new URLSearchParams((await readText(context.req.raw, MAX_FORM)) ?? '')
    const person = people.signedIn(context)
    const next = nextOf(form.get('next') ?? undefined)
    if (!ours(context) || !person) return context.redirect(`/sign-in?next=${encodeURIComponent(next)}`, 303)
    return plainPage(context, {
      title: 'Send it now?',
      body: heldForm(context, people, person, next, form.get('held') ?? ''),
    })
  })

  app.post('/sign-in/passkey', async (context) => {
    guard(context)
    if (!ours(context)) return context.json({ error: 'This request comes from another site.' }, 403)
    const body = await readObject(context.req.raw, MAX_JSON)
    if (!body) return context.json(NO_OBJECT, 400)
    if (!body['response']) return context.json(await passkeys.ask())
    const user = await passkeys.answered(body['response'] as AuthenticationResponseJSON)
    if (!user) return context.json({ error: 'This passkey is not known here.' }, 403)
    await people.signIn(context, user)
    return context.json({ next: nextOf(context.req.query('next')) })
  })

  app.post('/account/passkeys', async (context) => {
    guard(context)
    const person = people.signedIn(context)
    const body = await readObject(context.req.raw, MAX_JSON)
    if (!body) return context.json(NO_OBJECT, 400)
    const { name = '', proof = '', response } = body
    if (!ours(context) || !person || typeof proof !== 'string' || !people.proves(context, proof, person, 'console'))
      return context.json({ error: 'Sign in again.' }, 403)
    if (typeof name !== 'string') return context.json({ error: 'The name of a passkey is a text.' }, 400)
    if (!response) return context.json(await passkeys.register(person.user))
    return (await passkeys.registered(person.user, name, response as RegistrationResponseJSON))
      ? context.json({ next: '/account?done=added' })
      : context.json({ error: 'The passkey could not be proven. Try again.' }, 400)
  })
  return app
}

/** The fields of a form that waits, as pairs; none when they are unreadable. */
function heldFields(held: string): [string, string][] {
  try {
    const fields: unknown = JSON.parse(held)
    return Array.isArray(fields)
      ? (fields as [string, string][]).filter(
          (pair) => Array.isArray(pair) && pair.every((each) => typeof each === 'string'),
        )
      : []
  } catch {
    return []
  }
}

const heldForm = (context: Context, people: People, person: Person, next: string, held: string) =>
  html`<p>This is what you had typed for ${next}:</p>
    <form method="post" action="${next}">
      <input type="hidden" name="proof" value="${people.proofFor(context, person, 'console')}" />
      ${heldFields(held).map(
        ([name, value]) =>
          html`<div class="field">
            <label>${name}<textarea name="${name}" rows="2">${value}</textarea></label>
          </div>`,
      )}
      <button>Send it</button>
    </form>
    <p><a href="${next}">Leave it</a></p>`

interface Shown {
  said?: string
  email?: string
  held?: string
  status?: number
}

export function signInPage(
  context: Context,
  people: People,
  next: string,
  { email = '', held = '', said, status = 200 }: Shown = {},
): Response | Promise<Response> {
  return plainPage(context, {
    title: 'Sign in to Postrider',
    status,
    body: html`${said === undefined ? '' : html`<p class="alert" role="alert">${said}</p>`}
      <form method="post" action="/sign-in">
        <input type="hidden" name="proof" value="${people.proofFor(context, undefined, 'sign-in')}" />
        <input type="hidden" name="next" value="${next}" />
        ${held === '' ? '' : html`<input type="hidden" name="held" value="${held}" />`}
        <div class="field">
          <label for="email">Email address</label>
          <input id="email" name="email" type="email" autocomplete="username webauthn" required value="${email}" />
        </div>
        <div class="field">
          <label for="password">Password</label>
          <input id="password" name="password" type="password" autocomplete="current-password" />
        </div>
        <button name="action" value="password">Sign in</button>
        <button class="plain" name="action" value="link">Mail me a link instead</button>
      </form>
      <form data-passkey="sign-in" data-next="${next}">
        <button class="plain">Sign in with a passkey</button>
        <p class="bad" role="alert" data-said></p>
      </form>
      <script type="module" src="/assets/passkey.js"></script>`,
  })
}

function codePage(
  context: Context,
  people: People,
  next: string,
  step: string,
  held: string,
  said?: string,
  status = 200,
): Response | Promise<Response> {
  return plainPage(context, {
    title: 'One more step',
    status,
    body: html`${said === undefined ? '' : html`<p class="alert" role="alert">${said}</p>`}
      <form method="post" action="/sign-in">
        <input type="hidden" name="proof" value="${people.proofFor(context, undefined, 'sign-in')}" /><input
          type="hidden"
          name="next"
          value="${next}"
        />
        <input
          type="hidden"
          name="step"
          value="${step}"
        />${held === '' ? '' : html`<input type="hidden" name="held" value="${held}" />`}
        ${field({ name: 'code', label: 'The six digits that your authenticator app shows', required: true })}
        <button name="action" value="code">Continue</button>
      </form>`,
  })
}

const linkPage = (context: Context, people: People, token: string, next: string): Response | Promise<Response> =>
  plainPage(context, {
    title: 'Sign in to Postrider',
    body: html`<form method="post" action="/sign-in">
      <input type="hidden" name="proof" value="${people.proofFor(context, undefined, 'sign-in')}" /><input
        type="hidden"
        name="next"
        value="${next}"
      />
      <input type="hidden" name="link" value="${token}" /><button name="action" value="use-link">Sign in</button>
    </form>`,
  })

/** Mails a link, where the address has an account; nobody is told whether it has. */
async function mailLink(deps: ApiDeps, noticed: () => void, email: string, next: string): Promise<void> {
  const user = findUser(deps.store, email)
  if (!user) return
  const now = deps.clock.now()
  await deps.store.write((tx) => {
    const url = `${deps.config.http.public_url}/sign-in?link=${makeLink(tx, user, now)}&next=${encodeURIComponent(next)}`
    const text = `With this link you sign in to Postrider once. It lasts 15 minutes.\n\n${url}\n\nIf you did not ask for it, do nothing.\n`
    addNotice(tx, { user_key: user.key, domain_key: null, subject: 'Your link to sign in', text }, now)
  })
  noticed()
}
