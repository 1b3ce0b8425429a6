// The forms of the sign-in: password, code of the second factor, link. They also carry a form that an expired session
// interrupted.
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { codeFields } from './own-proof.ts'
import type { People, Person } from './browser-session.ts'
import { MAX_FIELDS } from '../views/html/fields.ts'
import { field } from '../views/html/forms.ts'
import { plainPage } from '../views/html/frame.ts'
import type { Html } from '../views/html/widgets.ts'

/** The fields of an interrupted form, as pairs, or [] if they cannot be read. */
export function heldFields(held: string): [string, string][] {
  try {
    const fields: unknown = JSON.parse(held)
    return Array.isArray(fields) ? fields.filter(isPair).slice(0, MAX_FIELDS) : []
  } catch {
    return []
  }
}

const isPair = (each: unknown): each is [string, string] =>
  Array.isArray(each) && each.length === 2 && each.every((one) => typeof one === 'string')

export const heldForm = (context: Context, people: People, person: Person, next: string, held: string) =>
  html`<p>
      This is your input for ${next}. It has not been saved yet. You are now in the account of ${person.account.email}.
    </p>
    <form method="post" action="${next}">
      <input type="hidden" name="proof" value="${people.proofFor(context, person, 'console')}" />
      ${heldFields(held).map(
        ([name, value]) =>
          html`<div class="field">
            <label>${name}<textarea name="${name}" rows="2">${value}</textarea></label>
          </div>`,
      )}
      <button>Submit</button>
    </form>
    <p><a href="${next}">Discard</a></p>`

/** A form of this browser before the sign-in, with these hidden fields. `what` names it in the proof. */
export const provedForm = (
  people: People,
  context: Context,
  fields: Record<string, string>,
  body: Html,
  { to = '/sign-in', what = 'sign-in' } = {},
): Html =>
  html`<form method="post" action="${to}">
    <input type="hidden" name="proof" value="${people.proofFor(context, undefined, what)}" />
    ${Object.entries(fields).map(([name, value]) =>
      value === '' ? '' : html`<input type="hidden" name="${name}" value="${value}" />`,
    )}
    ${body}
  </form>`

/** The button for passkeys. It is hidden without the script that it needs. */
const passkeyForm = (people: People, next: string): Html | '' =>
  people.passkeys === undefined
    ? ''
    : html`<form data-passkey="sign-in" data-next="${next}" data-host="${people.passkeys}">
        <button class="plain">Sign in with a passkey</button>
        <p class="bad" role="alert" data-said></p>
      </form>`

interface SignInForm {
  said?: string
  /** A text above the form. */
  about?: Html
  email?: string
  held?: string
  status?: ContentfulStatusCode
}

export function signInPage(
  context: Context,
  people: People,
  next: string,
  { about, email = '', held = '', said, status = 200 }: SignInForm = {},
): Response | Promise<Response> {
  return plainPage(context, {
    title: 'Sign in to Postrider',
    server: people.server,
    scripts: ['passkey.js'],
    status,
    body: html`${said === undefined ? '' : html`<p class="alert" role="alert">${said}</p>`} ${about ?? ''}
    ${provedForm(
      people,
      context,
      { next, held },
      html`<div class="field">
          <label for="email">Email address</label>
          <input id="email" name="email" type="email" autocomplete="username webauthn" required value="${email}" />
        </div>
        ${field({ name: 'password', label: 'Password', type: 'password', autocomplete: 'current-password' })}
        <button name="action" value="password">Sign in</button>
        <button class="plain" name="action" value="link">Email me a sign-in link</button>`,
    )}
    ${passkeyForm(people, next)}`,
  })
}

interface CodeForm {
  next: string
  /** The proof that the password was right. */
  step: string
  held: string
  said?: string
  /** The error of one of the two codes. */
  wrong?: { field: 'code' | 'recovery'; words: string }
  status?: ContentfulStatusCode
}

export function codePage(
  context: Context,
  people: People,
  { held, next, said, status = 200, step, wrong }: CodeForm,
): Response | Promise<Response> {
  return plainPage(context, {
    title: 'Two-factor authentication',
    server: people.server,
    status,
    body: html`${said === undefined ? '' : html`<p class="alert" role="alert">${said}</p>`}
    ${provedForm(
      people,
      context,
      { next, step, held },
      html`${codeFields({
          name: 'code',
          label: 'Six-digit code from your authenticator app',
          [wrong?.field === 'recovery' ? 'recoveryError' : 'error']: wrong?.words,
        })} <button name="action" value="code">Continue</button>`,
    )}`,
  })
}

export const linkPage = (
  context: Context,
  people: People,
  { email, next, token }: { token: string; next: string; email: string | undefined },
): Response | Promise<Response> =>
  plainPage(context, {
    title: 'Sign in to Postrider',
    server: people.server,
    body: html`${email === undefined ? '' : html`<p>This link signs you in as <strong>${email}</strong>.</p>`}
    ${provedForm(people, context, { next, link: token }, html`<button name="action" value="use-link">Sign in</button>`)}`,
  })
