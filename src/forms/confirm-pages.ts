// GET and POST /c/TOKEN: the pages of a confirmation link. Only a button changes something, or one click on
// "unsubscribe" in a mail program, because scanners follow every link (AU23).
import { Hono, type Context } from 'hono'
import { html } from 'hono/html'
import { jsonOf } from '../base/json.ts'
import { isOneOf } from '../base/one-of.ts'
import type { AppDeps } from '../http/app-deps.ts'
import { GRANTED } from '../campaigns/consents.ts'
import { clientAddress } from '../net/client-address.ts'
import { textsFor, type Texts } from '../recipients/languages.ts'
import { buttonForm, inLanguage, recipientPage, senderOf } from '../recipients/recipient-page.ts'
import type { PageStatus } from '../views/html/plain-page.ts'
import type { Html } from '../views/html/widgets.ts'
import { confirm, refuse, stateOfLink, type LinkState } from './confirm.ts'
import { readConfirmToken, type ConfirmLink } from './tokens.ts'
import {
  BUSY,
  controlOf,
  errorSummary,
  fieldControls,
  privacyLink,
  shortPage,
  unreadPost,
  type FormError,
} from './hosted.ts'
import { clientHash, limitsOf } from './limits.ts'
import { namesOf, subscriberUrl } from './signup-email.ts'
import { readPost, typedOf, type FormPost } from './signup-input.ts'
import { contactAt, signupDeps, signUp, type Typed } from './signup.ts'
import { currentTexts, languageAmong, textsOfVersion, wordsIn, type AskedField, type FormTexts } from './versions.ts'

export const CONFIRM_PATH = '/c/:token'

interface LinkVisit {
  context: Context
  link: ConfirmLink
}
type PageAnswer = Response | Promise<Response>

export function confirmRoutes(deps: AppDeps): Hono {
  const ofLink =
    (handle: (visit: LinkVisit) => PageAnswer) =>
    (context: Context): PageAnswer => {
      const link = readConfirmToken(deps.keyring, context.req.param('token') ?? '')
      return link ? handle({ context, link }) : unknownPage(context)
    }
  return new Hono()
    .get(
      CONFIRM_PATH,
      ofLink((visit) => show(deps, visit, stateOfLink(deps.store, visit.link, deps.clock.now()))),
    )
    .post(
      CONFIRM_PATH,
      ofLink(async (visit) => {
        const { context } = visit
        const answer = await limitsOf(deps.store).slots.run(async () => {
          const posted = await readPost(context, deps)
          if (typeof posted === 'number') return shortPage(context, textsFor(context), unreadPost(posted))
          return act(deps, visit, posted)
        })
        if (answer) return answer
        context.header('Retry-After', '60')
        return shortPage(context, textsFor(context), BUSY)
      }),
    )
}

/** Does what a button says. Any other POST shows the page. */
async function act(deps: AppDeps, visit: LinkVisit, posted: FormPost): Promise<Response> {
  const { link } = visit
  const now = deps.clock.now()
  const state = stateOfLink(deps.store, link, now)
  const action = posted.get('List-Unsubscribe') === 'One-Click' ? 'refuse' : posted.get('action')
  if (action === 'confirm') return confirmed(deps, visit, state, posted)
  if (action === 'resend' && state.kind === 'expired') return resent(deps, visit, state)
  if (action !== 'refuse') return show(deps, visit, state)
  return show(deps, visit, await deps.store.write((tx) => refuse(tx, signupDeps(deps), link, now)))
}

async function confirmed(deps: AppDeps, visit: LinkVisit, state: LinkState, posted: FormPost): Promise<Response> {
  const { context, link } = visit
  let typed: Typed = { name: null, fields: {} }
  let language = textsOfPage(context, state).lang as string
  if (state.kind === 'open') {
    const shown = shownOf(deps, state, language)
    const checked = typedOf(posted, shown.texts, shown.language)
    if (checked.errors.length > 0) return show(deps, visit, state, { posted, errors: checked.errors })
    typed = checked.typed
    language = state.signup.language
  }
  const client = clientAddress(context, deps.config.http)
  const given = { typed, language, client: client === '' ? null : clientHash(deps.keyring, client) }
  const after = await deps.store.write((tx) => confirm(tx, signupDeps(deps), link, given, deps.clock.now()))
  const url = after.kind === 'confirmed' ? after.of.form.confirmed_url : null
  if (url === null) return show(deps, visit, after)
  context.header('Cache-Control', 'no-store')
  return context.redirect(url, 303)
}

/** Sends a new link to the address, within the limits of a sign-up. The answer is the same if it is not sent. */
async function resent(
  deps: AppDeps,
  { context, link: { email } }: LinkVisit,
  state: Extract<LinkState, { kind: 'expired' }>,
): Promise<Response> {
  const { form } = state.of
  const shown = currentTexts(deps.store, form)
  const language = state.consent?.language ?? shown.language
  const { consent_text: text } = wordsIn(shown, language)
  const typed = { name: null, fields: {} }
  const given = { email, typed, version: form.version, language, text, source: 'form' as const }
  const { outcome } = await deps.store.write((tx) => signUp(tx, signupDeps(deps), form.key, given, deps.clock.now()))
  deps.log.info('signup_received', { form: form.id, outcome })
  const said = { status: 200, title: 'requested_title', text: 'requested_text', values: { address: email } } as const
  return shortPage(context, textsOfPage(context, state), said)
}

/** The texts of the form that the visitor saw, and the language of the page among theirs. */
function shownOf(deps: AppDeps, { consent, of: { form } }: Extract<LinkState, { kind: 'open' }>, lang: string) {
  const version = consent.form_version ?? form.version
  const texts: FormTexts = textsOfVersion(deps.store, form.key, version) ?? currentTexts(deps.store, form)
  return { texts, language: languageAmong(texts, lang) ?? lang }
}

const textsOfPage = (context: Context, state: LinkState): Texts =>
  state.kind === 'unknown'
    ? textsFor(context)
    : textsFor(context, {
        signup: 'consent' in state ? state.consent?.language : undefined,
        audience: state.of.audience.language,
      })

const unknownPage = (context: Context): PageAnswer =>
  shortPage(context, textsFor(context), { status: 404, title: 'not_found_title', text: 'not_found_text' })

interface Corrected {
  posted: FormPost
  errors: FormError[]
}

/** The page of a link in its state. */
function show(deps: AppDeps, { context, link }: LinkVisit, state: LinkState, corrected?: Corrected): PageAnswer {
  if (state.kind === 'unknown') return unknownPage(context)
  const { of } = state
  const texts = textsOfPage(context, state)
  const { confirmed_url } = of.form
  return recipientPage(context, texts, {
    ...(state.kind === 'open' ? openContent(deps, state, link, texts, corrected) : contentOf(deps, state, link, texts)),
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
  state: Exclude<LinkState, { kind: 'unknown' | 'open' }>,
  link: ConfirmLink,
  { date, t }: Texts,
): LinkContent {
  const { kind, of } = state
  const ended = 'consent' in state ? state.consent?.ended_at : undefined
  const values = { ...namesOf(deps.store, of), date: date(Math.min(link.until, ended ?? link.until)) }
  const refuseButton = buttonForm(t('refuse_button'), { action: 'refuse' }, 'plain')
  const more = (): Html | '' => {
    switch (state.kind) {
      case 'confirmed':
        return html`<p><a href="${subscriberUrl(signupDeps(deps), of, link.email)}">${t('manage_link')}</a></p>
          ${state.consent.state === 'single' ? refuseButton : ''}`
      case 'refused':
        return state.again
          ? html`${declaration(state.consent)}${buttonForm(t('confirm_button'), { action: 'confirm' })}`
          : ''
      case 'closed':
        return state.consent?.state === 'requested' ? refuseButton : ''
      case 'expired':
        return buttonForm(t('resend_button'), { action: 'resend' })
      case 'blocked':
        return ''
    }
  }
  const [title, text] = hasLeft(deps, state, link)
    ? (['refused_title', 'unsubscribed_list'] as const)
    : ([`${kind}_title`, `${kind}_text`] as const)
  return {
    status: kind === 'closed' ? 410 : 200,
    title: t(title),
    body: html`<p role="status">${t(text, values)}</p>
      ${more()}`,
  }
}

/** Whether a link was used, and its address was unsubscribed or deleted later. */
const hasLeft = ({ store }: AppDeps, state: Exclude<LinkState, { kind: 'unknown' }>, { email }: ConfirmLink): boolean =>
  state.kind === 'expired' &&
  state.consent !== undefined &&
  isOneOf(GRANTED, state.consent.state) &&
  contactAt(store, state.of.audience.key, email)?.status !== 'subscribed'

/** The declaration in the language in which it was shown. */
const declaration = ({ language, text }: { language: string | null; text: string | null }): Html | '' =>
  text === null ? '' : html`<p class="text soft" ${inLanguage(language)}>${text}</p>`

/** The page that asks: what was typed can be corrected, and both answers are one button away. */
function openContent(
  deps: AppDeps,
  state: Extract<LinkState, { kind: 'open' }>,
  link: ConfirmLink,
  texts: Texts,
  { errors, posted }: Partial<Corrected> = {},
): LinkContent {
  const { consent, of, signup } = state
  const names = namesOf(deps.store, of)
  const shown = shownOf(deps, state, texts.lang)
  const { t } = texts
  const typed = jsonOf(signup.typed) as unknown as Typed
  const valueOf = (field: AskedField): string =>
    posted?.get(controlOf(field)) ?? (field.key === 'name' ? typed.name : typed.fields[field.key]) ?? ''
  const values = Object.fromEntries(shown.texts.fields.map((field) => [controlOf(field), valueOf(field)]))
  return {
    status: errors ? 422 : 200,
    title: t('confirm_title', names),
    body: html`${errors ? errorSummary(texts, errors) : ''}
      <p>${t('confirm_text', { ...names, address: link.email })}</p>
      <form method="post">
        ${declaration(consent)} ${fieldControls({ ...shown, values, errors: errors ?? [] })}
        ${privacyLink(texts, of.form)}
        <button type="submit" name="action" value="confirm">${t('confirm_button')}</button>
        <button type="submit" name="action" value="refuse" class="plain" formnovalidate>${t('refuse_button')}</button>
      </form>`,
  }
}
