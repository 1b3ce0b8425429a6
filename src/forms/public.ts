// POST /f/SLUG: a form that somebody sent, from our page or from another website (AU9 to AU14, AU37 to AU46). Nothing
// in the answer depends on what is known about the address.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import { DAY, SECOND } from '../base/clock.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { textsOf as listOf } from '../base/json.ts'
import { clientAddress, rateKey } from '../net/client-address.ts'
import { recipientPage, senderOf } from '../recipients/recipient-page.ts'
import type { PageStatus } from '../views/html/plain-page.ts'
import { deliverMessage } from './contact-message.ts'
import { formBySlug, isAvailable } from './forms.ts'
import { formLanguage, formPage, formUrl, FORMS_PATH, noFormPage, wordsOf, type FormError } from './hosted.ts'
import { clientHash, limitsOf } from './limits.ts'
import { sentInHour } from './limits-form.ts'
import { FORM_EVENTS } from './signup-counts.ts'
import {
  inputOf,
  isChecked,
  isUnreachable,
  readPost,
  sealCheck,
  type FormInput,
  type FormPost,
} from './signup-input.ts'
import { readFormToken, sealFormToken } from './signup-token.ts'
import { count, signUp } from './signup.ts'
import type { SignupEmailDeps } from './signup-email.ts'
import { currentTexts, textsOfVersion, wordsIn, type FormRow, type FormTexts } from './versions.ts'

const RETRY_BUSY = 60 * SECOND
/** How long the token of a hosted form can be used. */
const TOKEN_TIME = DAY

/** The dependencies of emails to recipients, in a request. */
export const emailDeps = ({ bells, config, keyring }: AppDeps): SignupEmailDeps => ({
  config,
  keyring,
  ring: bells.deliveries,
})

/** A request to a form. */
interface FormRequest {
  context: Context
  form: FormRow
  texts: FormTexts
  language: string
  /** The origin of the page with the form: ours, another one that the owner has listed, or unknown. */
  origin: { kind: 'own' | 'listed' | 'none'; value: string | null }
  /** The page wants JSON for its script (AU10). */
  json: boolean
}

export function signupRoutes(deps: AppDeps): Hono {
  const app = new Hono()
  const { clients, slots } = limitsOf(deps.store)
  app.options(`${FORMS_PATH}/:slug`, (context) => preflight(deps, context))
  app.post(`${FORMS_PATH}/:slug`, async (context) => {
    const form = formBySlug(deps.store, context.req.param('slug'))
    const language = form ? formLanguage(context, currentTexts(deps.store, form)) : ''
    if (!form || !isUsable(deps, form)) return noFormPage(context, form, wordsOf(language))
    const texts = currentTexts(deps.store, form)
    const origin = originOf(deps, form, context.req.header('origin'))
    const listed = origin?.kind === 'listed'
    const json = listed && /\bapplication\/json\b/i.test(context.req.header('accept') ?? '')
    if (listed && json) allowOrigin(context, origin.value)
    if (!origin) return foreign(deps, context, form, language)
    const request: FormRequest = { context, form, texts, language, origin, json }
    const wait = clients.take(rateKey(request.context, deps.config.http), deps.config.signup, deps.clock.now())
    if (wait > 0) return tooMany(deps, request, wait)
    return (await slots.run(() => post(deps, request))) ?? busy(request)
  })
  return app
}

/** A paused contact form is closed: its messages cannot wait. */
const isUsable = ({ store }: AppDeps, form: FormRow): boolean =>
  isAvailable(store, form) && (form.audience_key !== null || form.status === 'open')

async function post(deps: AppDeps, started: FormRequest): Promise<Response> {
  const posted = await readPost(started.context, deps)
  if (typeof posted === 'number') return refused(started, posted)
  const request = { ...started, language: languageOf(started, posted) }
  const { form } = request
  const shown = textsOfVersion(deps.store, form.key, Number(posted.get('version') ?? NaN))
  const texts = shown ?? request.texts
  const { errors, input } = inputOf(posted, form, { texts, language: request.language })
  const { check_mx } = deps.config.signup
  if (errors.length === 0 && check_mx && (await isUnreachable({ ...deps, ...deps.partDeps }, input.email)))
    errors.push(unreachable(request, input))
  if (errors.length > 0) return withErrors(deps, request, posted, errors)
  const now = deps.clock.now()
  if (
    mustCheck(deps, request, { posted, known: shown !== undefined }, now) &&
    !isChecked(deps.keyring, form, posted, now)
  )
    return checkPage(deps, request, posted, input)
  if (posted.get(form.honeypot)) {
    FORM_EVENTS.stopped.add({ reason: 'honeypot' })
    await deps.store.write((tx) => count(tx, form, { stopped_count: 1 }, now))
    return done(request, input)
  }
  const version = shown ? Number(posted.get('version')) : form.version
  return form.audience_key === null
    ? await message(deps, request, input)
    : await enlist(deps, { ...request, texts }, input, version)
}

const languageOf = ({ context, texts }: FormRequest, posted: FormPost): string =>
  formLanguage(context, texts, posted.get('lang'))

async function enlist(deps: AppDeps, request: FormRequest, input: FormInput, version: number): Promise<Response> {
  const { context, form, language, origin, texts } = request
  const client = clientAddress(context, deps.config.http)
  const page = pageOf(context.req.header('referer'))
  const given = {
    ...input,
    version,
    language,
    text: wordsIn(texts, language).consent_text,
    source: 'form' as const,
    page,
    origin: origin.value,
    client: client === '' ? null : clientHash(deps.keyring, client),
  }
  limitsOf(deps.store).messages.add(form.key, deps.clock.now())
  const { outcome } = await deps.store.write((tx) => signUp(tx, emailDeps(deps), form.key, given, deps.clock.now()))
  deps.log.info('signup_received', { form: form.id, outcome })
  return outcome === 'closed' ? noFormPage(context, form, wordsOf(language)) : done(request, input)
}

const MAX_PAGE = 500

/** The URL of the page with the form, without its query, which can contain anything about the visitor. */
function pageOf(referer: string | undefined): string | null {
  const url =
    referer !== undefined && referer.length <= MAX_PAGE && URL.canParse(referer) ? new URL(referer) : undefined
  return url && /^https?:$/.test(url.protocol) ? url.origin + url.pathname : null
}

async function message(deps: AppDeps, request: FormRequest, input: FormInput): Promise<Response> {
  const { context, form, language } = request
  const now = deps.clock.now()
  const delivered = await deliverMessage(deps, { form, input, language }, now)
  return delivered ? done(request, input) : noFormPage(context, form, wordsOf(language))
}

/** Where a form was sent from, or undefined if another website sent it that its owner has not listed (AU9). */
function originOf({ config }: AppDeps, form: FormRow, header: string | undefined): FormRequest['origin'] | undefined {
  if (header === undefined || header === 'null') return { kind: 'none', value: null }
  if (header === new URL(config.http.public_url).origin) return { kind: 'own', value: header }
  return listOf(form.origins).includes(header) ? { kind: 'listed', value: header } : undefined
}

/** Whether a person must press a second button first (AU13). */
function mustCheck(
  deps: AppDeps,
  { form, origin }: FormRequest,
  { known, posted }: { posted: FormPost; known: boolean },
  now: number,
): boolean {
  if (origin.kind === 'none' || !known) return true
  if (origin.kind === 'own') {
    const version = Number(posted.get('version'))
    const at = readFormToken(deps.keyring, { id: form.id, version }, posted.get('t') ?? '')
    if (at === undefined || now - at < deps.config.signup.min_time || now - at > TOKEN_TIME) return true
  }
  return sentInHour(limitsOf(deps.store).messages, form, now) >= deps.config.signup.per_form / 2
}

const unreachable = ({ language }: FormRequest, { email }: FormInput): FormError => ({
  field: 'email',
  detail: wordsOf(language).t('error_email_domain', { domain: email.slice(email.lastIndexOf('@') + 1) }),
})

/** The answer to a form that was sent, whatever becomes of it. */
function done({ context, form, json, language }: FormRequest, { email }: FormInput): Response | Promise<Response> {
  context.header('Cache-Control', 'no-store')
  if (json) return context.json({ status: 'requested' }, 202)
  if (form.requested_url !== null) return context.redirect(form.requested_url, 303)
  const texts = wordsOf(language)
  const { t } = texts
  if (form.audience_key === null)
    return recipientPage(context, texts, {
      status: 200,
      title: t('contact_sent_title'),
      body: html`<p role="status">${t('contact_sent_text', { address: email })}</p>`,
    })
  return recipientPage(context, texts, {
    status: 200,
    title: t('requested_title'),
    body: html`<p role="status">${t('requested_text', { address: email })}</p>
      <p class="soft">${t('requested_hint')}</p>`,
  })
}

function withErrors(
  deps: AppDeps,
  request: FormRequest,
  posted: FormPost,
  errors: FormError[],
): Response | Promise<Response> {
  const { context, form, json, language, texts } = request
  if (json) return jsonErrors(context, 422, errors)
  const token = sealFormToken(deps.keyring, form, deps.clock.now())
  const values = Object.fromEntries(posted)
  return formPage(context, deps, form, { texts, language, token, status: 422, values, errors })
}

/** The page with one more button. What was typed is in it, and nothing is stored (AU13). */
function checkPage(
  deps: AppDeps,
  request: FormRequest,
  posted: FormPost,
  { email }: FormInput,
): Response | Promise<Response> {
  const { context, form, json, language, texts } = request
  FORM_EVENTS.stopped.add({ reason: 'check' })
  const values = new Map([...posted, ['version', String(form.version)], ['lang', language]])
  values.delete('check')
  values.delete('t')
  const check = sealCheck(deps.keyring, form, values, deps.clock.now())
  const words = wordsOf(language)
  const { t } = words
  const detail = 'Send the same values again, with "check", "version" and "lang" of this answer.'
  if (json)
    return jsonErrors(context, 422, [{ field: 'check', detail }], { check, version: form.version, lang: language })
  const { consent_text } = wordsIn(texts, language)
  const contact = form.audience_key === null
  const redirect = form.requested_url === null ? undefined : new URL(form.requested_url).origin
  return recipientPage(context, words, {
    status: 200,
    title: t('check_title'),
    sender: senderOf(deps, form.user_key, form.controller ?? form.name),
    ...(redirect !== undefined && { formTo: redirect }),
    body: html`<p>${t(contact ? 'contact_check_text' : 'check_text', { address: email })}</p>
      ${consent_text === null || contact ? '' : html`<p class="text soft" lang="${language}">${consent_text}</p>`}
      <form method="post" action="${FORMS_PATH}/${form.slug}" ${contact ? html`enctype="multipart/form-data"` : ''}>
        ${[...values].map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
        <input type="hidden" name="check" value="${check}" />
        <button type="submit">${t(contact ? 'send_button' : 'check_button')}</button>
      </form>`,
  })
}

/** Another website has sent the form: its visitor can use the hosted form. */
function foreign(deps: AppDeps, context: Context, form: FormRow, language: string): Response | Promise<Response> {
  FORM_EVENTS.stopped.add({ reason: 'origin' })
  const texts = wordsOf(language)
  const { t } = texts
  return recipientPage(context, texts, {
    status: 403,
    title: t('origin_title'),
    body: html`<p>${t('origin_text')}</p>
      <p><a href="${formUrl(deps.config, form)}">${t('origin_button')}</a></p>`,
  })
}

function tooMany(deps: AppDeps, request: FormRequest, wait: number): Response | Promise<Response> {
  FORM_EVENTS.stopped.add({ reason: 'client' })
  const seconds = Math.ceil(wait / SECOND)
  request.context.header('Retry-After', String(seconds))
  const { t, time } = wordsOf(request.language)
  const text = t('too_many_text', { time: time(deps.clock.now() + wait) })
  return plain(request, 429, t('too_many_title'), text)
}

function busy(request: FormRequest): Response | Promise<Response> {
  FORM_EVENTS.stopped.add({ reason: 'busy' })
  request.context.header('Retry-After', String(RETRY_BUSY / SECOND))
  const { t } = wordsOf(request.language)
  return plain(request, 503, t('too_many_title'), t('busy_text'))
}

function refused(request: FormRequest, status: 408 | 413 | 415): Response | Promise<Response> {
  const { t } = wordsOf(request.language)
  return plain(request, status, t('post_refused_title'), t('post_refused_text'))
}

/** A short page, or its text as JSON. */
function plain({ context, json, language }: FormRequest, status: PageStatus, title: string, text: string) {
  if (json) return jsonErrors(context, status, [{ field: '', detail: text }])
  return recipientPage(context, wordsOf(language), { status, title, body: html`<p>${text}</p>` })
}

function jsonErrors(
  context: Context,
  status: PageStatus,
  errors: FormError[],
  more: Record<string, unknown> = {},
): Response {
  context.header('Cache-Control', 'no-store')
  return context.json({ errors, ...more }, status)
}

/** Lets the script of a listed website read the answer (AU10). It gets no credentials, because there are none. */
function allowOrigin(context: Context, origin: string | null): void {
  if (origin === null) return
  context.header('Access-Control-Allow-Origin', origin)
  context.header('Vary', 'Origin')
}

function preflight(deps: AppDeps, context: Context): Response {
  const form = formBySlug(deps.store, context.req.param('slug') ?? '')
  const origin = form && originOf(deps, form, context.req.header('origin'))
  if (origin?.kind === 'listed') {
    allowOrigin(context, origin.value)
    context.header('Access-Control-Allow-Methods', 'POST')
    context.header('Access-Control-Allow-Headers', 'Accept, Content-Type')
    context.header('Access-Control-Max-Age', '600')
  }
  return context.body(null, 204)
}
