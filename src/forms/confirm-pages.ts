// GET and POST /c/TOKEN: the pages of a confirmation link. Only a button changes something, or one click on
// "unsubscribe" in a mail program, because scanners follow every link (AU23).
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import { jsonOf } from '../base/json.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { clientAddress } from '../net/client-address.ts'
import { textsFor, type Texts } from '../recipients/languages.ts'
import { buttonForm, recipientPage, senderOf } from '../recipients/recipient-page.ts'
import type { PageStatus } from '../views/html/plain-page.ts'
import type { Html } from '../views/html/widgets.ts'
import { confirm, refuse, stateOfLink, type LinkState } from './confirm.ts'
import { readConfirmToken, type ConfirmLink } from './confirm-token.ts'
import { controlOf, errorSummary, fieldControls, type FormError } from './hosted.ts'
import { clientHash, limitsOf } from './limits.ts'
import { namesOf, pageOfSubscriber, type AudienceForm } from './signup-email.ts'
import { readPost, typedOf, type FormPost } from './signup-input.ts'
import { signupDeps, signUp, type Typed } from './signup.ts'
import { currentTexts, languageAmong, textsOfVersion, wordsIn, type FormTexts } from './versions.ts'

interface LinkVisit {
  context: Context
  link: ConfirmLink
}

export function confirmRoutes(deps: AppDeps): Hono {
  const app = new Hono()
  const linkOf = (context: Context): ConfirmLink | undefined =>
    readConfirmToken(deps.keyring, context.req.param('token') ?? '')
  app.get('/c/:token', (context) => {
    const link = linkOf(context)
    if (!link) return unknownPage(context)
    return show(deps, { context, link }, stateOfLink(deps.store, link, deps.clock.now()))
  })
  app.post('/c/:token', async (context) => {
    const link = linkOf(context)
    if (!link) return unknownPage(context)
    const answer = await limitsOf(deps.store).slots.run(async () => {
      const posted = await readPost(context, deps)
      return typeof posted === 'number' ? refusedPost(context, posted) : act(deps, { context, link }, posted)
    })
    if (answer) return answer
    context.header('Retry-After', '60')
    const texts = textsFor(context)
    return shortPage(context, texts, 503, texts.t('too_many_title'), texts.t('busy_text'))
  })
  return app
}

/** Does what a button says. Any other POST shows the page. */
function act(deps: AppDeps, visit: LinkVisit, posted: FormPost): Response | Promise<Response> {
  const { link } = visit
  const now = deps.clock.now()
  const action = posted.get('List-Unsubscribe') === 'One-Click' ? 'refuse' : posted.get('action')
  if (action === 'confirm') return confirmed(deps, visit, posted)
  if (action === 'resend') return resent(deps, visit)
  if (action !== 'refuse') return show(deps, visit, stateOfLink(deps.store, link, now))
  return deps.store.write((tx) => refuse(tx, signupDeps(deps), link, now)).then((state) => show(deps, visit, state))
}

async function confirmed(deps: AppDeps, visit: LinkVisit, posted: FormPost): Promise<Response> {
  const { context, link } = visit
  const now = deps.clock.now()
  const state = stateOfLink(deps.store, link, now)
  let typed: Typed = { name: null, fields: {} }
  if (state.kind === 'open') {
    const shown = shownOf(deps, state, textsOfPage(context, state))
    const checked = typedOf(posted, shown.texts, shown.language)
    if (checked.errors.length > 0) return show(deps, visit, state, { posted, errors: checked.errors })
    typed = checked.typed
  }
  const client = clientAddress(context, deps.config.http)
  const language = state.kind === 'open' ? state.signup.language : textsOfPage(context, state).lang
  const given = { typed, language, client: client === '' ? null : clientHash(deps.keyring, client) }
  const after = await deps.store.write((tx) => confirm(tx, signupDeps(deps), link, given, now))
  const url = after.kind === 'confirmed' ? after.of.form.confirmed_url : null
  if (url === null) return show(deps, visit, after)
  context.header('Cache-Control', 'no-store')
  return context.redirect(url, 303)
}

/** Sends a new link to the address, within the limits of a sign-up. The answer is the same if it is not sent. */
async function resent(deps: AppDeps, { context, link }: LinkVisit): Promise<Response> {
  const now = deps.clock.now()
  const state = stateOfLink(deps.store, link, now)
  if (state.kind !== 'expired') return show(deps, { context, link }, state)
  const { consent, of } = state
  const texts = textsOfPage(context, state)
  const { t } = texts
  const shown = currentTexts(deps.store, of.form)
  const language = consent?.language ?? shown.language
  const given = {
    email: link.email,
    typed: { name: null, fields: {} },
    version: of.form.version,
    language,
    text: wordsIn(shown, language).consent_text,
    source: 'form' as const,
  }
  const { outcome } = await deps.store.write((tx) => signUp(tx, signupDeps(deps), of.form.key, given, now))
  deps.log.info('signup_received', { form: of.form.id, outcome })
  return shortPage(context, texts, 200, t('requested_title'), t('requested_text', { address: link.email }))
}

/** The texts of the form that the visitor saw, and the language of the page among theirs. */
function shownOf(deps: AppDeps, { consent, of }: Extract<LinkState, { kind: 'open' }>, { lang }: Texts) {
  const texts: FormTexts =
    textsOfVersion(deps.store, of.form.key, consent.form_version ?? of.form.version) ??
    currentTexts(deps.store, of.form)
  return { texts, language: languageAmong(texts, lang) ?? lang }
}

const textsOfPage = (context: Context, state: LinkState): Texts => {
  const language = 'consent' in state ? state.consent?.language : undefined
  return textsFor(context, { signup: language, audience: 'of' in state ? state.of.audience.language : undefined })
}

const shortPage = (context: Context, texts: Texts, status: PageStatus, title: string, text: string) =>
  recipientPage(context, texts, { status, title, body: html`<p role="status">${text}</p>` })

function unknownPage(context: Context): Response | Promise<Response> {
  const texts = textsFor(context)
  return shortPage(context, texts, 404, texts.t('not_found_title'), texts.t('not_found_text'))
}

function refusedPost(context: Context, status: 408 | 413 | 415): Response | Promise<Response> {
  const texts = textsFor(context)
  const text = texts.t(status === 415 ? 'unsupported_text' : 'post_refused_text')
  return shortPage(context, texts, status, texts.t('post_refused_title'), text)
}

interface Corrected {
  posted: FormPost
  errors: FormError[]
}

/** The page of a link in its state. */
function show(
  deps: AppDeps,
  { context, link }: LinkVisit,
  state: LinkState,
  corrected?: Corrected,
): Response | Promise<Response> {
  if (state.kind === 'unknown') return unknownPage(context)
  const { of } = state
  const texts = textsOfPage(context, state)
  const { status, title, body } = contentOf(deps, state, link, texts, corrected)
  const { confirmed_url } = of.form
  return recipientPage(context, texts, {
    status,
    title,
    body,
    sender: senderOf(deps, of.domain.user_key, namesOf(deps.store, of).sender),
    ...(confirmed_url !== null && { formTo: new URL(confirmed_url).origin }),
  })
}

interface LinkContent {
  status: PageStatus
  title: string
  body: Html
}

function contentOf(
  deps: AppDeps,
  state: Exclude<LinkState, { kind: 'unknown' }>,
  link: ConfirmLink,
  texts: Texts,
  corrected: Corrected | undefined,
): LinkContent {
  const { date, t } = texts
  const names = namesOf(deps.store, state.of)
  switch (state.kind) {
    case 'open':
      return openContent(deps, state, link, texts, corrected)
    case 'confirmed':
      return {
        status: 200,
        title: t('confirmed_title'),
        body: html`<p role="status">${t('confirmed_text', names)}</p>
          <p><a href="${pageOfSubscriber(signupDeps(deps), state.of, link.email)}">${t('manage_link')}</a></p>
          ${state.consent.state === 'single' ? buttonForm(t('refuse_button'), { action: 'refuse' }, 'plain') : ''}`,
      }
    case 'refused':
      return {
        status: 200,
        title: t('refused_title'),
        body: html`<p role="status">${t('refused_text')}</p>
          ${state.again ? html`${declaration(state.consent)}${buttonForm(t('confirm_button'), { action: 'confirm' })}` : ''}`,
      }
    case 'blocked':
      return { status: 200, title: t('blocked_title'), body: html`<p role="status">${t('blocked_text', names)}</p>` }
    case 'closed':
      return {
        status: 410,
        title: t('closed_title'),
        body: html`<p role="status">${t('closed_text')}</p>
          ${state.consent?.state === 'requested' ? buttonForm(t('refuse_button'), { action: 'refuse' }, 'plain') : ''}`,
      }
    case 'expired':
      return {
        status: 200,
        title: t('expired_title'),
        body: html`<p role="status">${t('expired_text', { date: date(endOf(state.consent, link)) })}</p>
          ${buttonForm(t('resend_button'), { action: 'resend' })}`,
      }
  }
}

const endOf = (consent: { ended_at: number | null } | undefined, { until }: ConfirmLink): number =>
  Math.min(until, consent?.ended_at ?? until)

/** The declaration in the language in which it was shown. */
const declaration = ({ language, text }: { language: string | null; text: string | null }): Html | '' =>
  text === null ? '' : html`<p class="text soft" ${language === null ? '' : html`lang="${language}"`}>${text}</p>`

/** The page that asks: what was typed can be corrected, and both answers are one button away. */
function openContent(
  deps: AppDeps,
  state: Extract<LinkState, { kind: 'open' }>,
  link: ConfirmLink,
  texts: Texts,
  corrected: Corrected | undefined,
): LinkContent {
  const { consent, of, signup } = state
  const names = namesOf(deps.store, of)
  const shown = shownOf(deps, state, texts)
  const { t } = texts
  const typed = jsonOf(signup.typed) as unknown as Typed
  const values = corrected
    ? Object.fromEntries(corrected.posted)
    : Object.fromEntries(
        shown.texts.fields.map((field) => [
          controlOf(field),
          (field.key === 'name' ? typed.name : typed.fields[field.key]) ?? '',
        ]),
      )
  const errors = corrected?.errors ?? []
  return {
    status: corrected ? 422 : 200,
    title: t('confirm_title', { list: names.list }),
    body: html`${errors.length > 0 ? errorSummary(texts, errors) : ''}
      <p>${t('confirm_text', { sender: names.sender, address: link.email })}</p>
      <form method="post">
        ${declaration(consent)} ${fieldControls({ ...shown, values, errors })} ${privacyLink(of, t)}
        <button type="submit" name="action" value="confirm">${t('confirm_button')}</button>
        <button type="submit" name="action" value="refuse" class="plain" formnovalidate>${t('refuse_button')}</button>
      </form>`,
  }
}

const privacyLink = ({ form }: AudienceForm, t: Texts['t']): Html | '' =>
  form.privacy_url === null ? '' : html`<p class="soft"><a href="${form.privacy_url}">${t('privacy_notice')}</a></p>`
