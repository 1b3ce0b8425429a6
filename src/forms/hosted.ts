// The form as people see it: the hosted page, and the HTML for other websites. The page works without scripts, loads
// nothing from elsewhere and sets no cookie. Both have a field that people do not see and robots fill in.
import type { Context } from 'hono'
import { html, raw } from 'hono/html'
import type { Config } from '../base/config.ts'
import { escapeHtml } from '../message/template.ts'
import { acceptedLanguages, languageIn, textsIn, type Texts } from '../recipients/languages.ts'
import { inLanguage, recipientPage, senderOf, type RecipientPage } from '../recipients/recipient-page.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { PageStatus } from '../views/html/plain-page.ts'
import type { Html } from '../views/html/widgets.ts'
import {
  labelIn,
  languageAmong,
  textsOfForm,
  wordsIn,
  type AskedField,
  type FormRow,
  type FormTexts,
} from './versions.ts'

export const FORMS_PATH = '/f'
/** Characters of a field, and of the message of a contact form. */
export const MAX_FIELD = 200
export const MAX_MESSAGE = 4000

export interface FormPageDeps {
  config: Pick<Config, 'http'>
  store: Reader
}

/** An error at a control: "email", "name", "field.KEY", "message" or "consent". */
export interface FormError {
  field: string
  detail: string
}

export interface ShownForm {
  texts: FormTexts
  /** The language of the page (`formLanguage`). */
  language: string
  /** Proves when the form was shown (tokens.ts). */
  token: string
  status?: 200 | 422
  /** What was typed, by the names of the controls. */
  values?: Readonly<Record<string, string>>
  errors?: readonly FormError[]
}

export const formUrl = ({ http }: Pick<Config, 'http'>, { slug }: Pick<FormRow, 'slug'>): string =>
  `${http.public_url}${FORMS_PATH}/${slug}`

/** The name of the control of a field. */
export const controlOf = ({ key }: Pick<AskedField, 'key'>): string => (key === 'name' ? key : `field.${key}`)

/** The label of a field as the page shows it. */
export const shownLabel = (texts: FormTexts, field: AskedField, language: string): string =>
  labelIn(texts, field, language) ?? wordsOf(language).t('name_label')

/** The texts of this server in the language of a form, or in English. */
export const wordsOf = (language: string): Texts => textsIn(languageIn(language) ?? 'en')

/**
 * The language of a form's page: that of the URL ("?lang="), of the form that was sent, or of the browser, if the form
 * has it, and otherwise the default language of the form.
 */
export function formLanguage(context: Context, texts: FormTexts, sent?: string): string {
  const accepted = acceptedLanguages(context.req.header('accept-language') ?? '')
  for (const tag of [context.req.query('lang'), sent, ...accepted]) {
    const found = tag === undefined ? undefined : languageAmong(texts, tag)
    if (found !== undefined) return found
  }
  return texts.language
}

/** Responds with a form: as it is at first, or with the errors and the values that were typed. */
export function formPage(context: Context, deps: FormPageDeps, form: FormRow, shown: ShownForm) {
  const { errors = [], language, status = 200, texts, token } = shown
  const words = wordsOf(language)
  const { title } = wordsIn(texts, language)
  return postPage(context, deps, form, {
    status,
    title,
    ...(language !== words.lang && { heading: html`<span ${inLanguage(language)}>${title}</span>` }),
    languages: Object.keys(texts.languages),
    words,
    texts,
    above: errors.length > 0 ? errorSummary(words, errors) : '',
    sent: html`<input type="hidden" name="t" value="${token}" />${formFields(form, shown)}`,
    below: privacyLink(words, texts),
  })
}

interface PostPage extends Omit<RecipientPage, 'body' | 'sender' | 'formTo'> {
  words: Texts
  texts: Pick<FormTexts, 'controller'>
  above: Html | ''
  /** What the form of the page contains. */
  sent: Html
  below?: Html | ''
}

/** Responds with a page that sends something to a form. */
export function postPage(
  context: Context,
  deps: FormPageDeps,
  form: FormRow,
  { above, below = '', sent, texts, words, ...page }: PostPage,
) {
  const { name } = deps.store.one(db.selectFrom('domains').select('name').where('key', '=', form.domain_key))
  return recipientPage(context, words, {
    ...page,
    sender: senderOf(deps, form.user_key, texts.controller ?? name),
    ...(form.requested_url !== null && { formTo: new URL(form.requested_url).origin }),
    body: html`${above}
      <form
        method="post"
        action="${FORMS_PATH}/${form.slug}"
        ${isContact(form) ? html`enctype="multipart/form-data"` : ''}
      >
        ${sent}
      </form>
      ${below}`,
  })
}

/** Responds with a page of one paragraph. `title` and `text`: the keys of the texts. */
export const shortPage = (
  context: Context,
  texts: Texts,
  { more, status, text, title, values }: ShortPage,
): Response | Promise<Response> =>
  recipientPage(context, texts, {
    status,
    title: texts.t(title),
    body: html`<p role="status">${texts.t(text, values)}</p>
      ${more ?? ''}`,
  })

export interface ShortPage {
  status: PageStatus
  title: string
  text: string
  values?: Readonly<Record<string, string>>
  more?: Html
}

/** The answer if a body was not read. */
export const unreadPost = (status: 408 | 413 | 415): ShortPage => ({
  status,
  title: 'post_refused_title',
  text: status === 415 ? 'unsupported_text' : 'post_refused_text',
})

export const BUSY: ShortPage = { status: 503, title: 'too_many_title', text: 'busy_text' }

export const isContact = ({ audience_key }: Pick<FormRow, 'audience_key'>): boolean => audience_key === null

/** The list of the errors of a page, which takes the focus (AU12). */
export function errorSummary({ t }: Pick<Texts, 't'>, errors: readonly FormError[]): Html {
  const link = ({ detail, field }: FormError) => html`<li><a href="#${idOf(field)}">${detail}</a></li>`
  return html`<div class="errors" role="alert" tabindex="-1" autofocus>
    <p>${t('error_summary')}</p>
    <ul>
      ${errors.map(link)}
    </ul>
  </div>`
}

const idOf = (control: string): string => `f-${control}`

type SeenForm = Pick<FormRow, 'audience_key' | 'honeypot' | 'version'>

/** The controls of a form, its button and what is said under it. */
export function formFields(form: SeenForm, shown: Omit<ShownForm, 'token' | 'status'>): Html {
  const { language, texts } = shown
  const { t, ...words } = wordsOf(language)
  const { button, consent_text, intro } = wordsIn(texts, language)
  const own = language === words.lang ? '' : inLanguage(language)
  const contact = isContact(form)
  const consent = consent_text === null ? '' : html`<p id="consent-text" class="text soft" ${own}>${consent_text}</p>`
  const ticked = texts.consent_checkbox && !contact
  return html`<input type="hidden" name="version" value="${form.version}" />
    <input type="hidden" name="lang" value="${language}" />
    ${intro === null ? '' : html`<p class="text" ${own}>${intro}</p>`}
    ${control(shown, { name: 'email', label: t('email_label'), type: 'email', autocomplete: 'email', required: true })}
    ${fieldControls(shown)}
    ${contact ? control(shown, { name: 'message', label: t('message_label'), required: true, rows: 6 }) : ''}
    <div class="unseen" aria-hidden="true">
      <label
        >${t('honeypot_label')} <input type="text" name="${form.honeypot}" tabindex="-1" autocomplete="off" value=""
      /></label>
    </div>
    ${ticked ? html`${consent}${consentBox(shown)}` : ''}
    <button type="submit" ${button === null ? '' : own}>
      ${button ?? t(contact ? 'send_button' : 'subscribe_button')}
    </button>
    ${texts.controller === null ? '' : html`<p class="after soft">${t('controller_note', { controller: texts.controller })}</p>`}
    ${ticked ? '' : consent} ${contact ? '' : html`<p class="soft">${t('unsubscribe_note')}</p>`}`
}

/** The controls of the fields, without that of the address. */
export const fieldControls = (shown: Pick<ShownForm, 'errors' | 'language' | 'texts' | 'values'>): Html =>
  html`${shown.texts.fields.map((field) => control(shown, controlFor(shown.texts, field, shown.language)))}`

interface Control {
  name: string
  label: string
  required: boolean
  type?: string
  autocomplete?: string
  /** The lines of a text area. */
  rows?: number
  /** The attribute of the language, if the label has another one than the page. */
  own?: Html | ''
}

function controlFor(texts: FormTexts, field: AskedField, language: string): Control {
  // A label without a translation is in the default language.
  const translated = Object.hasOwn(wordsIn(texts, language).labels, field.key)
  const lang = translated ? language : field.label === null ? undefined : texts.language
  return {
    name: controlOf(field),
    label: shownLabel(texts, field, language),
    required: field.required,
    ...(field.key === 'name' && { autocomplete: 'name' }),
    ...(lang !== undefined && lang !== wordsOf(language).lang && { own: inLanguage(lang) }),
  }
}

type Filled = Pick<ShownForm, 'errors' | 'language' | 'values'>

/** The error at a control above it, and the attributes of the control. */
function faultAt({ errors = [] }: Filled, name: string, describedBy = ''): { above: Html | ''; attributes: Html | '' } {
  const id = idOf(name)
  const error = errors.find(({ field }) => field === name)
  const described = [describedBy, error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return {
    above: error ? html`<p id="${id}-error" class="error bad">${error.detail}</p>` : '',
    attributes: html`${error ? html`aria-invalid="true"` : ''}${described === '' ? '' : html` aria-describedby="${described}"`}`,
  }
}

function control(
  shown: Filled,
  { autocomplete = 'off', label, name, own = '', required, rows, type = 'text' }: Control,
): Html {
  const [id, value, { t }] = [idOf(name), shown.values?.[name] ?? '', wordsOf(shown.language)]
  const { above, attributes } = faultAt(shown, name)
  const more = html`id="${id}" name="${name}" autocomplete="${autocomplete}" ${required ? html`required` : ''}
  ${attributes}`
  return html`<label for="${id}"
      ><span ${own}>${label}</span>${required ? html` <span class="soft">(${t('required')})</span>` : ''}</label
    >
    ${above}
    ${rows === undefined ? html`<input type="${type}" ${more} maxlength="${name === 'email' ? 254 : MAX_FIELD}" value="${value}" />` : html`<textarea ${more} rows="${rows}" maxlength="${MAX_MESSAGE}">${raw('\n')}${value}</textarea>`}`
}

/** Never ticked beforehand, and not after an error either, unless it was ticked then. */
function consentBox(shown: Filled): Html {
  const { above, attributes } = faultAt(shown, 'consent', 'consent-text')
  const ticked = shown.values?.['consent'] === 'yes' ? html`checked` : ''
  return html`${above}
    <label class="tick" for="${idOf('consent')}"
      ><input type="checkbox" id="${idOf('consent')}" name="consent" value="yes" required ${attributes} ${ticked} />
      ${wordsOf(shown.language).t('consent_label')}</label
    >`
}

export const privacyLink = ({ t }: Texts, { privacy_url }: Pick<FormTexts, 'privacy_url'>): Html | '' =>
  privacy_url === null ? '' : html`<p class="soft"><a href="${privacy_url}">${t('privacy_notice')}</a></p>`

/** Responds that a form does not exist, or that it is closed. */
export const noFormPage = (context: Context, form: FormRow | undefined, texts: Texts) =>
  shortPage(
    context,
    texts,
    form
      ? { status: 410, title: 'closed_title', text: isContact(form) ? 'closed_contact_text' : 'closed_text' }
      : { status: 404, title: 'form_missing_title', text: 'form_missing_text' },
  )

/** The whole form for another website, in its default language: it posts to this server, and needs no script. */
export function embedHtml(form: FormRow, config: Pick<Config, 'http'>): string {
  const texts = textsOfForm(form)
  const { consent_checkbox, controller, fields, language, privacy_url } = texts
  const { lang, t } = wordsOf(language)
  const { button, consent_text, intro, title } = wordsIn(texts, language)
  const contact = isContact(form)
  const shown = (text: string | null): string =>
    text === null ? '' : `<p dir="auto">${escapeHtml(text).replaceAll('\n', '<br>')}</p>`
  const labelled = (label: string, control: string, required = true, end = ''): string =>
    `<p dir="auto"><label>${escapeHtml(required ? `${label} (${t('required')})` : label)}<br>${control}${required ? ' required' : ''}>${end}</label></p>`
  const asked = fields.map((field) => {
    const complete = field.key === 'name' ? ' autocomplete="name"' : ''
    const control = `<input name="${controlOf(field)}" type="text" maxlength="${MAX_FIELD}"${complete}`
    return labelled(shownLabel(texts, field, language), control, field.required)
  })
  const tick = `<p><label><input type="checkbox" name="consent" value="yes" required> ${escapeHtml(t('consent_label'))}</label></p>`
  const ticked = consent_checkbox && !contact
  return [
    `<form method="post" action="${escapeHtml(formUrl(config, form))}" accept-charset="utf-8" lang="${language}"${contact ? ' enctype="multipart/form-data"' : ''}>`,
    `<h2 dir="auto">${escapeHtml(title)}</h2>`,
    shown(intro),
    labelled(t('email_label'), '<input name="email" type="email" autocomplete="email" maxlength="254"'),
    ...asked,
    contact
      ? labelled(
          t('message_label'),
          `<textarea name="message" rows="6" maxlength="${MAX_MESSAGE}"`,
          true,
          '</textarea>',
        )
      : '',
    `<div style="position:absolute;left:-9999px" aria-hidden="true"><label>${escapeHtml(t('honeypot_label'))} <input type="text" name="${form.honeypot}" tabindex="-1" autocomplete="off"></label></div>`,
    `<input type="hidden" name="version" value="${form.version}"><input type="hidden" name="lang" value="${language}">`,
    ticked ? shown(consent_text) + tick : '',
    `<p><button type="submit"${button === null && lang !== language ? ` lang="${lang}"` : ''}>${escapeHtml(button ?? t(contact ? 'send_button' : 'subscribe_button'))}</button></p>`,
    shown(controller === null ? null : t('controller_note', { controller })),
    ticked ? '' : shown(consent_text),
    contact ? '' : shown(t('unsubscribe_note')),
    privacy_url === null ? '' : `<p><a href="${escapeHtml(privacy_url)}">${escapeHtml(t('privacy_notice'))}</a></p>`,
    '</form>',
  ]
    .filter(Boolean)
    .join('\n')
}
