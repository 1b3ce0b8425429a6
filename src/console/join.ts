// The first sign-in of somebody who was invited: they choose a password or a passkey. Opening the link changes nothing,
// because mail scanners open links too: only a button of its page uses it up.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { RegistrationResponseJSON } from '@simplewebauthn/server'
import { roleInWords } from '../accounts/roles.ts'
import { findLink, joinByPassword, useInvitation, type FoundLink } from '../identity/invitations.ts'
import type { PasskeyCeremonies } from '../identity/passkeys.ts'
import { SHORTEST_PASSWORD, userByKey, type User } from '../identity/users.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { People } from '../webui/browser-session.ts'
import { field } from '../webui/forms.ts'
import { guard, plainPage } from '../webui/frame.ts'
import { readObject, readText } from '../webui/plain-page.ts'
import type { Html } from '../webui/widgets.ts'

const MAX_FORM = 16 * 1024
const MAX_JSON = 64 * 1024

export interface JoinParts {
  deps: ApiDeps
  people: People
  ours: (context: Context) => boolean
  passkeys: PasskeyCeremonies
}

/** Why a link leads nowhere: a title and what to do. */
const ENDED: Record<Extract<FoundLink, string>, readonly [title: string, what: string]> = {
  used: ['This invitation was used', 'It works once. Sign in with the password or the passkey that you chose.'],
  expired: ['This invitation has expired', 'Its time is over. Ask whoever invited you for a new one.'],
  replaced: ['There is a newer invitation', 'A new link was sent, and this one no longer works. Use the newest mail.'],
  withdrawn: ['This invitation was withdrawn', 'Ask whoever invited you what happened.'],
  unknown: [
    'This is not an invitation',
    'The link is not whole, or not of this server. Open it again from the mail, or copy all of it.',
  ],
}

/** Adds the routes of invitations. */
export function addJoin(app: Hono, parts: JoinParts): void {
  app.get('/join', (context) => {
    const token = context.req.query('link') ?? ''
    return show(parts, context, token, findLink(parts.deps, token))
  })
  app.post('/join', (context) => join(parts, context))
  app.post('/join/passkey', (context) => joinByPasskey(parts, context))
}

const ended = (
  { people }: JoinParts,
  context: Context,
  found: Extract<FoundLink, string>,
): Response | Promise<Response> =>
  plainPage(context, {
    title: ENDED[found][0],
    server: people.server,
    status: 410,
    body: html`<p>${ENDED[found][1]}</p>
      <p><a href="/sign-in">Sign in</a></p>`,
  })

/** The page of a link. Whoever is signed in as somebody else signs out first: a link makes nobody change accounts. */
function show(
  parts: JoinParts,
  context: Context,
  token: string,
  found: FoundLink,
  fault?: string,
): Response | Promise<Response> {
  if (typeof found === 'string') return ended(parts, context, found)
  const { people } = parts
  const { user } = found
  const present = people.signedIn(context)
  return plainPage(context, {
    title: present ? 'You are signed in as somebody else' : 'Welcome to Postrider',
    server: people.server,
    scripts: ['passkey.js'],
    status: fault === undefined ? 200 : 422,
    body: present
      ? elsewhere(parts, context, token, { present: present.user, invited: user })
      : choice(parts, context, token, { user, fault }),
  })
}

const hiddenFields = (people: People, context: Context, token: string): Html =>
  html`<input type="hidden" name="proof" value="${people.proofFor(context, people.signedIn(context), 'join')}" /><input
      type="hidden"
      name="link"
      value="${token}"
    />`

const elsewhere = (
  { people }: JoinParts,
  context: Context,
  token: string,
  { invited, present }: { present: User; invited: User },
): Html =>
  html`<p>
      This browser is signed in as <strong>${present.email}</strong>. The invitation is for
      <strong>${invited.email}</strong>.
    </p>
    <form method="post" action="/join">
      ${hiddenFields(people, context, token)}
      <button name="action" value="leave">Sign out and accept it</button>
    </form>
    <p><a href="/">Stay signed in as ${present.email}</a></p>`

function choice(
  { deps, people }: JoinParts,
  context: Context,
  token: string,
  { fault, user }: { user: User; fault: string | undefined },
): Html {
  const account = user.reads_for === null ? undefined : userByKey(deps.store, user.reads_for)
  return html`<p>
      You were invited as <strong>${user.email}</strong>. Your role:
      ${roleInWords(user.operator === 1, account?.email ?? null)}. Choose how you sign in.
    </p>
    <form method="post" action="/join">
      ${hiddenFields(people, context, token)}
      <input type="hidden" name="username" value="${user.email}" autocomplete="username" />
      ${field({ name: 'password', label: 'Choose a password', type: 'password', autocomplete: 'new-password', hint: `${SHORTEST_PASSWORD} characters or more.`, error: fault })}
      <button name="action" value="password">Set password and sign in</button>
    </form>
    ${
      people.passkeys === undefined
        ? ''
        : html`<form
            data-passkey="join"
            data-link="${token}"
            data-proof="${people.proofFor(context, undefined, 'join')}"
            data-host="${people.passkeys}"
          >
            <button class="plain">Use a passkey instead</button>
            <p class="bad" role="alert" data-said></p>
          </form>`
    }`
}

async function join(parts: JoinParts, context: Context): Promise<Response> {
  const { deps, ours, people } = parts
  const form = new URLSearchParams((await readText(context, deps, MAX_FORM)) ?? '')
  const token = form.get('link') ?? ''
  const person = people.signedIn(context)
  const found = findLink(deps, token)
  if (typeof found === 'string') return ended(parts, context, found)
  if (!ours(context) || !people.proves(context, form.get('proof') ?? '', person, 'join'))
    return plainPage(context, {
      title: 'Please try again',
      server: people.server,
      status: 403,
      body: html`<p>This page was open for too long, or your browser keeps no cookies.</p>
        <p><a href="/join?link=${encodeURIComponent(token)}">Open the invitation again</a></p>`,
    })
  if (form.get('action') === 'leave') {
    await people.signOut(context)
    return context.redirect(`/join?link=${encodeURIComponent(token)}`, 303)
  }
  if (person) return show(parts, context, token, found)
  const password = form.get('password') ?? ''
  if (password.length < SHORTEST_PASSWORD)
    return show(parts, context, token, found, `The password needs ${SHORTEST_PASSWORD} characters or more.`)
  if (!(await joinByPassword(deps, found.invitation, password))) return ended(parts, context, 'used')
  await enter(parts, context, found.user)
  return context.redirect('/', 303)
}

async function enter(
  { deps, people }: Pick<JoinParts, 'deps' | 'people'>,
  context: Context,
  user: User,
): Promise<void> {
  deps.log.info('people', { person: user.email, what: 'came in' })
  await people.signIn(context, user)
}

async function joinByPasskey({ deps, ours, passkeys, people }: JoinParts, context: Context): Promise<Response> {
  guard(context)
  const body = await readObject(context, deps, MAX_JSON)
  const { link = '', proof = '', response } = body ?? {}
  if (typeof link !== 'string' || typeof proof !== 'string')
    return context.json({ error: 'The link and its proof are texts.' }, 400)
  if (!ours(context) || people.signedIn(context) || !people.proves(context, proof, undefined, 'join'))
    return context.json({ error: 'Open the invitation again.' }, 403)
  const found = findLink(deps, link)
  if (typeof found === 'string') return context.json({ error: `${ENDED[found][0]}.` }, 410)
  const { invitation, user } = found
  // Until there is a session, the challenge is for the browser.
  const registering = { user, session: { id: people.browserOf(context) } }
  if (!response) return context.json(await passkeys.register(registering))
  const made = await passkeys.registered(registering, 'First passkey', response as RegistrationResponseJSON, (tx) =>
    useInvitation(tx, invitation, deps.clock.now()),
  )
  if (made === 'known')
    return context.json({ error: 'This passkey is in use already. Choose another device or key.' }, 409)
  if (made === undefined) return context.json({ error: 'The passkey could not be proven. Try again.' }, 400)
  await enter({ deps, people }, context, user)
  return context.json({ next: '/' })
}
