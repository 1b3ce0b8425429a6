// POST /f/SLUG: a form that somebody sent, from our page or from another website (AU9 to AU14, AU37 to AU46). Nothing
// in the answer depends on what is known about the address.
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import { DAY, SECOND } from '../base/clock.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { textsOf as listOf } from '../base/json.ts'
import { LOOPBACK } from '../users/oauth/allowed.ts'
import { clientAddress, rateKey } from '../net/client-address.ts'
import { textsFor, type Texts } from '../recipients/languages.ts'
import { inLanguage } from '../recipients/recipient-page.ts'
import type { PageStatus } from '../views/html/plain-page.ts'
import { deliverMessage } from './contact-message.ts'
import { formBySlug, isAvailable } from './forms.ts'
import {
  BUSY,
  formLanguage,
  formPage,
  formUrl,
  FORMS_PATH,
  isContact,
  noFormPage,
  postPage,
  shortPage,
  unreadPost,
  wordsOf,
  type FormError,
  type ShortPage,
} from './hosted.ts'
import { clientHash, limitsOf } from './limits.ts'
import { sentInHour } from './limits-form.ts'
import { FORM_EVENTS } from './signup-counts.ts'
import { inputOf, isUnreachable, readPost, type FormInput, type FormPost } from './signup-input.ts'
import { isChecked, readFormToken, sealCheck, sealFormToken } from './tokens.ts'
import { count, signupDeps, signUp } from './signup.ts'
import { currentTexts, textsOfVersion, wordsIn, type FormRow, type FormTexts } from './versions.ts'

const RETRY_BUSY = 60 * SECOND
/** How long the token of a hosted form can be used. */
const TOKEN_TIME = DAY

/** A request to a form. */
interface FormRequest {
  context: Context
  form: FormRow
  texts: FormTexts
  language: string
  /** The texts of this server. */
  words: Texts
  /** The origin of the page with the form: ours, another one that the owner has listed or has not, or unknown. */
  origin: { kind: 'own' | 'listed' | 'none' | 'foreign'; value: string | null }
  /** The page wants JSON for its script (AU10). */
  json: boolean
}

export function signupRoutes(deps: AppDeps): Hono {
  const app = new Hono()
  const { clients, slots } = limitsOf(deps.store)
  app.options(`${FORMS_PATH}/:slug`, (context) => preflight(deps, context))
  app.post(`${FORMS_PATH}/:slug`, async (context) => {
    const form = formBySlug(deps.store, context.req.param('slug'))
    if (!form) return noFormPage(context, form, textsFor(context))
    const texts = currentTexts(deps.store, form)
    const origin = originOf(deps, form, context)
    const json = origin.kind === 'listed' && /\bapplication\/json\b/i.test(context.req.header('accept') ?? '')
    const request: FormRequest = { context, form, texts, ...languageOf(context, texts), origin, json }
    if (!isUsable(form)) return noFormPage(context, form, request.words)
    if (json) allowOrigin(context, origin.value)
    if (origin.kind === 'foreign') return foreign(deps, request)
    const client = rateKey(request.context, deps.config.http)
    const wait = clients.take(client, deps.config.signup, deps.clock.now())
    if (wait > 0) return tooMany(deps, request, wait)
    const free = () => clients.giveBack(client)
    return (await slots.run(() => post(deps, request, free))) ?? busy(request)
  })
  return app
}

/** A paused contact form is closed: its messages cannot wait. */
const isUsable = (form: FormRow): boolean => isAvailable(form) && (!isContact(form) || form.status === 'open')

/** `free` takes the request out of the client's limit. */
async function post(deps: AppDeps, started: FormRequest, free: () => void): Promise<Response> {
  const posted = await readPost(started.context, deps)
  if (typeof posted === 'number') return short(started, unreadPost(posted))
  const request = { ...started, ...languageOf(started.context, started.texts, posted.get('lang')) }
  const { form } = request
  const shown = textsOfVersion(deps.store, form.key, Number(posted.get('version') ?? NaN))
  const texts = shown ?? request.texts
  const { errors, input } = inputOf(posted, form, { texts, language: request.language })
  if (errors.length > 0) {
    free()
    return withErrors(deps, request, posted, errors)
  }
  if (deps.config.signup.check_mx && (await isUnreachable({ ...deps, ...deps.partDeps }, input.email)))
    return withErrors(deps, request, posted, [unreachable(request, input)])
  const now = deps.clock.now()
  if (
    mustCheck(deps, request, { posted, known: shown !== undefined }, now) &&
    !isChecked(deps.keyring, form, posted, now)
  )
    return checkPage(deps, request, posted, input)
  if (posted.get(form.honeypot)) {
    FORM_EVENTS.stopped.add({ reason: 'honeypot' })
    await deps.store.write((tx) => count(tx, form, { stopped: 1 }, now))
    return done(request, input)
  }
  const version = shown ? Number(posted.get('version')) : form.version
  return isContact(form)
    ? await message(deps, request, input)
    : await enlist(deps, { ...request, texts }, input, version)
}

function languageOf(context: Context, texts: FormTexts, sent?: string): Pick<FormRequest, 'language' | 'words'> {
  const language = formLanguage(context, texts, sent)
  return { language, words: wordsOf(language) }
}

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
  const { outcome } = await deps.store.write((tx) => signUp(tx, signupDeps(deps), form.key, given, deps.clock.now()))
  deps.log.info('signup_received', { form: form.id, outcome })
  return outcome === 'closed' ? noFormPage(context, form, request.words) : done(request, input)
}

const MAX_PAGE = 500

/** The URL of the page with the form, without its query, which can contain anything about the visitor. */
function pageOf(referer: string | undefined): string | null {
  const url =
    referer !== undefined && referer.length <= MAX_PAGE && URL.canParse(referer) ? new URL(referer) : undefined
  return url && /^https?:$/.test(url.protocol) ? url.origin + url.pathname : null
}

async function message(deps: AppDeps, request: FormRequest, input: FormInput): Promise<Response> {
  const { context, form, language, words } = request
  const delivered = await deliverMessage(deps, { form, input, language }, deps.clock.now())
  return delivered ? done(request, input) : noFormPage(context, form, words)
}

/** Where a form was sent from (AU9). */
function originOf({ config }: AppDeps, form: FormRow, { req }: Context): FormRequest['origin'] {
  const [header, host] = [req.header('origin'), req.header('host')]
  if (header === undefined || header === 'null') return { kind: 'none', value: null }
  if (header === new URL(config.http.public_url).origin || isHere(header, host)) return { kind: 'own', value: header }
  return { kind: listOf(form.origins).includes(header) ? 'listed' : 'foreign', value: header }
}

/** Whether an origin is that of the request itself, on this machine. Other names could belong to another website. */
function isHere(origin: string, host: string | undefined): boolean {
  const url = URL.parse(origin)
  return url !== null && url.host === host && LOOPBACK.includes(url.hostname)
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
  return sentInHour(limitsOf(deps.store).forms, form, now) >= deps.config.signup.per_form / 2
}

const unreachable = ({ words }: FormRequest, { email }: FormInput): FormError => ({
  field: 'email',
  detail: words.t('error_email_domain', { domain: email.slice(email.lastIndexOf('@') + 1) }),
})

/** The answer to a form that was sent, whatever becomes of it. */
function done({ context, form, json, words }: FormRequest, { email }: FormInput): Response | Promise<Response> {
  context.header('Cache-Control', 'no-store')
  if (json) return context.json({ status: 'requested' }, 202)
  if (form.requested_url !== null) return context.redirect(form.requested_url, 303)
  const values = { address: email }
  if (isContact(form))
    return shortPage(context, words, { status: 200, title: 'contact_sent_title', text: 'contact_sent_text', values })
  const text = form.opt_in === 'single' ? 'requested_single_text' : 'requested_text'
  const more = html`<p class="soft">${words.t('requested_hint')}</p>`
  return shortPage(context, words, { status: 200, title: 'requested_title', text, values, more })
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
  const { context, form, json, language, texts, words } = request
  FORM_EVENTS.stopped.add({ reason: 'check' })
  const values = new Map([...posted, ['version', String(form.version)], ['lang', language]])
  values.delete('check')
  values.delete('t')
  const check = sealCheck(deps.keyring, form, values, deps.clock.now())
  const detail = 'Send the same values again, with "check", "version" and "lang" of this answer.'
  if (json)
    return jsonErrors(context, 422, [{ field: 'check', detail }], { check, version: form.version, lang: language })
  const { t } = words
  const { consent_text } = wordsIn(texts, language)
  const contact = isContact(form)
  return postPage(context, deps, form, {
    status: 200,
    title: t('check_title'),
    words,
    texts,
    above: html`<p>${t(contact ? 'contact_check_text' : 'check_text', { address: email })}</p>
      ${consent_text === null || contact ? '' : html`<p class="text soft" ${inLanguage(language)}>${consent_text}</p>`}`,
    sent: html`${[...values, ['check', check] as const].map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}
      <button type="submit">${t(contact ? 'send_button' : 'check_button')}</button>`,
  })
}

/** Another website has sent the form: its visitor can use the hosted form. */
function foreign(deps: AppDeps, { context, form, words }: FormRequest): Response | Promise<Response> {
  FORM_EVENTS.stopped.add({ reason: 'origin' })
  const more = html`<p><a href="${formUrl(deps.config, form)}">${words.t('origin_button')}</a></p>`
  return shortPage(context, words, { status: 403, title: 'origin_title', text: 'origin_text', more })
}

function tooMany(deps: AppDeps, request: FormRequest, wait: number): Response | Promise<Response> {
  FORM_EVENTS.stopped.add({ reason: 'client' })
  request.context.header('Retry-After', String(Math.ceil(wait / SECOND)))
  return short(request, {
    status: 429,
    title: 'too_many_title',
    text: 'too_many_text',
    values: { time: request.words.time(deps.clock.now() + wait) },
  })
}

function busy(request: FormRequest): Response | Promise<Response> {
  FORM_EVENTS.stopped.add({ reason: 'busy' })
  request.context.header('Retry-After', String(RETRY_BUSY / SECOND))
  return short(request, BUSY)
}

/** A short page, or its text as JSON. */
const short = ({ context, json, words }: FormRequest, page: ShortPage) =>
  json
    ? jsonErrors(context, page.status, [{ field: '', detail: words.t(page.text, page.values) }])
    : shortPage(context, words, page)

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
  const origin = form && originOf(deps, form, context)
  if (origin?.kind === 'listed') {
    allowOrigin(context, origin.value)
    context.header('Access-Control-Allow-Methods', 'POST')
    context.header('Access-Control-Allow-Headers', 'Accept, Content-Type')
    context.header('Access-Control-Max-Age', '600')
  }
  return context.body(null, 204)
}
