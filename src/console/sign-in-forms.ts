// The forms of the sign-in: password, code of the second factor, link. They also carry a form that the sign-in
// interrupted.
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { codeFields } from '../accounts/proof-fields.ts'
import type { People, Person } from '../webui/browser-session.ts'
import { MAX_FIELDS } from '../webui/fields.ts'
import { plainPage } from '../webui/frame.ts'
import type { Html } from '../webui/widgets.ts'

/** The fields of an interrupted form, as pairs; empty when they cannot be read. */
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
  html`<p>This is what you had typed for ${next}. It was not saved: send it, or leave it.</p>
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

/** The button for passkeys; without the script that it needs it is not shown. */
const passkeyForm = (people: People, next: string): Html | '' =>
  people.passkeys === undefined
    ? ''
    : html`<form data-passkey="sign-in" data-next="${next}" data-host="${people.passkeys}">
        <button class="plain">Sign in with a passkey</button>
        <p class="bad" role="alert" data-said></p>
      </form>`

export interface SignInForm {
  said?: string
  email?: string
  held?: string
  status?: ContentfulStatusCode
}

export function signInPage(
  context: Context,
  people: People,
  next: string,
  { email = '', held = '', said, status = 200 }: SignInForm = {},
): Response | Promise<Response> {
  return plainPage(context, {
    title: 'Sign in to Postrider',
    server: people.server,
    scripts: ['passkey.js'],
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
      ${passkeyForm(people, next)}`,
  })
}

export interface CodeForm {
  next: string
  /** The proof that the password was right. */
  step: string
  held: string
  said?: string
  /** What is wrong with one of the two codes. */
  wrong?: { field: 'code' | 'recovery'; words: string }
  status?: ContentfulStatusCode
}

export function codePage(
  context: Context,
  people: People,
  { held, next, said, status = 200, step, wrong }: CodeForm,
): Response | Promise<Response> {
  return plainPage(context, {
    title: 'One more step',
    server: people.server,
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
        ${codeFields({
          name: 'code',
          label: 'The six digits that your authenticator app shows',
          [wrong?.field === 'recovery' ? 'recoveryError' : 'error']: wrong?.words,
        })}
        <button name="action" value="code">Continue</button>
      </form>`,
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
      <form method="post" action="/sign-in">
        <input type="hidden" name="proof" value="${people.proofFor(context, undefined, 'sign-in')}" /><input
          type="hidden"
          name="next"
          value="${next}"
        />
        <input type="hidden" name="link" value="${token}" /><button name="action" value="use-link">Sign in</button>
      </form>`,
  })
