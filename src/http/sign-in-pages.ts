// The two pages of OAuth: a person signs in, and then allows or denies a program. The program's claims about itself are
// marked as claims.
import type { Context } from 'hono'
import { html } from 'hono/html'
import { page } from '../webui/plain-page.ts'

/**
 * The hidden fields of each form: the authorization request as received, and the proof that this server wrote the form.
 */
export interface AuthorizationForm {
  /** The name that the program gave itself. */
  client: string
  /** The host of its metadata document; undefined for one that registered itself. */
  host?: string | undefined
  action: string
  request: string
  proof: string
}

export interface SignInNotice {
  status: 403 | 429
  text: string
  email: string
}

const hidden = ({ proof, request }: AuthorizationForm) =>
  html`<input type="hidden" name="request" value="${request}" /><input type="hidden" name="proof" value="${proof}" />`

export function signInPage(
  context: Context,
  form: AuthorizationForm,
  notice?: SignInNotice,
): Response | Promise<Response> {
  return page(
    context,
    notice?.status ?? 200,
    'Sign in to Postrider',
    html`<p>
        <strong><bdi>${form.client}</bdi></strong
        >${form.host === undefined ? '' : html` of <strong>${form.host}</strong>`} wants to use your mail. Sign in
        first; you are asked before anything is allowed.
      </p>
      ${notice ? html`<p class="bad" role="alert">${notice.text}</p>` : ''}
      <form method="post" action="${form.action}">
        ${hidden(form)}
        <label for="email">Email address</label>
        <input id="email" name="email" type="email" autocomplete="username" required value="${notice?.email ?? ''}" />
        <label for="password">Password</label>
        <input id="password" name="password" type="password" autocomplete="current-password" required />
        <button name="action" value="sign-in">Sign in</button>
      </form>`,
  )
}

export function codePage(
  context: Context,
  form: AuthorizationForm & { step: string },
  notice?: SignInNotice,
): Response | Promise<Response> {
  return page(
    context,
    notice?.status ?? 200,
    'One more step',
    html`<p>Type the six digits that your authenticator app shows for Postrider.</p>
      ${notice ? html`<p class="bad" role="alert">${notice.text}</p>` : ''}
      <form method="post" action="${form.action}">
        ${hidden(form)}<input type="hidden" name="step" value="${form.step}" />
        <label for="code">Code</label>
        <input id="code" name="code" inputmode="numeric" autocomplete="one-time-code" required autofocus />
        <button name="action" value="code">Continue</button>
      </form>`,
  )
}

export interface Consent {
  email: string
  redirectUri: string
  /** Whether every redirect URI of the program points to the person's own device. */
  onlyHere: boolean
}

/** The source of the program's name, and how far the name is proved. */
const originOf = ({ client, host }: AuthorizationForm, onlyHere: boolean) =>
  host === undefined
    ? html`The program registered itself under its name; nobody has checked it.`
    : html`The program is described at <strong>${host}</strong>, which gives it its name; nobody has checked
        it.${onlyHere ? html` <strong>Any program on this device could pass itself off as <bdi>${client}</bdi>.</strong>` : ''}`

export function consentPage(
  context: Context,
  form: AuthorizationForm,
  { email, onlyHere, redirectUri }: Consent,
): Response | Promise<Response> {
  return page(
    context,
    200,
    `Allow ${form.client}?`,
    html`<p>It could, as <strong>${email}</strong>:</p>
      <ul>
        <li>send mail from your domains</li>
        <li>read the mail that you sent and received</li>
        <li>see your domains, and draft campaigns (never start them)</li>
      </ul>
      <p class="soft">
        The answer goes to <strong>${whereTo(redirectUri)}</strong>. ${originOf(form, onlyHere)} Allow it only if you
        have just started this yourself.
      </p>
      <form method="post" action="${form.action}">
        ${hidden(form)}
        <button name="action" value="allow">Allow</button>
        <button class="plain" name="action" value="deny">Deny</button>
        <button class="plain" name="action" value="sign-out">Use another account</button>
      </form>`,
    // Browsers apply this directive to every redirect after a form is sent: to the redirect to the program, and to
    // later ones. So a single origin is not enough. Browsers also do not accept "[::1]" as an origin.
    { formTo: `'self' https: http: ${new URL(redirectUri).protocol}`, heading: html`Allow <bdi>${form.client}</bdi>?` },
  )
}

/** The host that the answer goes to. A private-use scheme is shown too: other programs of the device can handle it. */
function whereTo(redirectUri: string): string {
  const { host, protocol } = new URL(redirectUri)
  return /^https?:$/.test(protocol) ? host : `${protocol}//${host}`
}
