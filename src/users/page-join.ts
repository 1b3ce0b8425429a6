// The first sign-in of an invited user, who sets a password or a passkey. Opening the link changes nothing, because
// mail scanners open links too. Only the button on its page uses the link.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import type { RegistrationResponseJSON } from '@simplewebauthn/server'
import { findLink, joinByPassword, useInvitation, type FoundLink } from './invitations.ts'
import type { PasskeyCeremonies } from './passkeys.ts'
import { accountsOf, membershipText } from './members.ts'
import { auditSelf } from './own-proof.ts'
import { SHORTEST_PASSWORD, type User } from './users.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import type { People } from './browser-session.ts'
import { field } from '../views/html/forms.ts'
import { guard, plainPage } from '../views/html/frame.ts'
import { readObject, readText } from '../views/html/plain-page.ts'
import type { Html } from '../views/html/widgets.ts'

const MAX_FORM = 16 * 1024
const MAX_JSON = 64 * 1024

interface JoinParts {
  deps: ApiDeps
  people: People
  ours: (context: Context) => boolean
  passkeys: PasskeyCeremonies
}

/** The title and the text for each reason why a link is invalid. */
const ENDED: Record<Extract<FoundLink, string>, readonly [title: string, what: string]> = {
  used: ['This invitation was already used', 'It works once. Sign in with the password or passkey that you set up.'],
  expired: ['This invitation has expired', 'Ask the person who invited you for a new one.'],
  replaced: [
    'There is a newer invitation',
    'A newer link was sent to you, so this one no longer works. Use the latest email.',
  ],
  withdrawn: ['This invitation was withdrawn', 'If you think this is a mistake, contact the person who invited you.'],
  unknown: [
    'Invalid invitation link',
    'The link is incomplete or belongs to another server. Open it from the email again, or copy the whole link.',
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

/** The page of a link. Signed-in users must sign out first, because opening a link never switches accounts. */
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
    title: present ? 'You are signed in as another user' : 'Welcome to Postrider',
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
      <button name="action" value="leave">Sign out and accept the invitation</button>
    </form>
    <p><a href="/">Stay signed in as ${present.email}</a></p>`

function choice(
  { deps, people }: JoinParts,
  context: Context,
  token: string,
  { fault, user }: { user: User; fault: string | undefined },
): Html {
  const roles = [
    ...(user.operator === 1 ? ['Operator of the server'] : []),
    ...accountsOf(deps.store, user.key).map((each) =>
      each.user_key === user.key && each.role === 'owner' ? 'Owner of your own account' : membershipText(each),
    ),
  ]
  return html`<p>
      You were invited as <strong>${user.email}</strong>. Your role: ${roles.join(', ')}. Choose how you sign in.
    </p>
    <form method="post" action="/join">
      ${hiddenFields(people, context, token)}
      <input type="hidden" name="username" value="${user.email}" autocomplete="username" />
      ${field({ name: 'password', label: 'Choose a password', type: 'password', autocomplete: 'new-password', hint: `At least ${SHORTEST_PASSWORD} characters.`, error: fault })}
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
      title: 'Try again',
      server: people.server,
      status: 403,
      body: html`<p>This page has expired, or your browser blocks cookies.</p>
        <p><a href="/join?link=${encodeURIComponent(token)}">Open the invitation again</a></p>`,
    })
  if (form.get('action') === 'leave') {
    await people.signOut(context)
    return context.redirect(`/join?link=${encodeURIComponent(token)}`, 303)
  }
  if (person) return show(parts, context, token, found)
  const password = form.get('password') ?? ''
  if (password.length < SHORTEST_PASSWORD)
    return show(parts, context, token, found, `The password must have at least ${SHORTEST_PASSWORD} characters.`)
  if (!(await joinByPassword(deps, found.invitation, password))) return ended(parts, context, 'used')
  await enter(parts, context, found.user)
  return context.redirect('/', 303)
}

async function enter(
  { deps, people }: Pick<JoinParts, 'deps' | 'people'>,
  context: Context,
  user: User,
): Promise<void> {
  deps.log.info('user_changed', { user: user.email, action: 'joined' })
  await deps.store.write((tx) => auditSelf(tx, deps, context, { user, action: 'members.accept' }))
  await people.signIn(context, user)
}

async function joinByPasskey({ deps, ours, passkeys, people }: JoinParts, context: Context): Promise<Response> {
  guard(context)
  const body = await readObject(context, deps, MAX_JSON)
  const { link = '', proof = '', response } = body ?? {}
  if (typeof link !== 'string' || typeof proof !== 'string')
    return context.json({ error: '"link" and "proof" must be strings.' }, 400)
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
  const refused = notRegistered(context, made)
  if (refused) return refused
  await enter({ deps, people }, context, user)
  return context.json({ next: '/' })
}

/** Returns the answer to a passkey that was not registered, or undefined if it was. */
export function notRegistered(context: Context, made: 'added' | 'known' | undefined): Response | undefined {
  if (made === 'known')
    return context.json({ error: 'This passkey is already registered. Use another device or security key.' }, 409)
  return made === undefined ? context.json({ error: 'The passkey could not be verified. Try again.' }, 400) : undefined
}
