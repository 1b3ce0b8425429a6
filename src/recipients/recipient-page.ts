// The frame of the pages for recipients: the sender's brand, and links to the page in every language.
import type { Context } from 'hono'
import { html } from 'hono/html'
import type { Config } from '../base/config.ts'
import { brandOf } from '../campaigns/brand.ts'
import { IMAGES_PATH } from '../message/html-tokens.ts'
import type { Reader } from '../store/database.ts'
import { withBytes } from '../jsonapi/body.ts'
import {
  page,
  strangers,
  withinMost,
  type PageSender,
  type PageStatus,
  type PlainPageDeps,
} from '../views/html/plain-page.ts'
import type { Html } from '../views/html/widgets.ts'
import { languageIn, LANGUAGES, textsIn, type Texts } from './languages.ts'

export interface RecipientPage {
  status: PageStatus
  title: string
  /** The title in another language than the page. */
  heading?: Html
  body: Html
  /** The sender whose page it is, or undefined if it is not known. */
  sender?: PageSender | undefined
  /** An origin besides this server to which a form of the page can lead by a redirect. */
  formTo?: string
  /** The languages of the page, as BCP 47 tags. By default all for which this server has texts. */
  languages?: readonly string[]
}

/** Responds with a page in the language of its texts. Forms on it are sent with their origin (Referrer-Policy). */
export const recipientPage = (
  context: Context,
  texts: Texts,
  { body, formTo, heading, languages = LANGUAGES, sender, status, title }: RecipientPage,
): Response | Promise<Response> =>
  page(context, status, title, body, {
    lang: texts.lang,
    referrer: 'same-origin',
    ...(languages.length > 1 && { below: languageLinks(texts, languages) }),
    ...(heading && { heading }),
    ...(sender && { sender }),
    ...(formTo !== undefined && { formTo: `'self' ${formTo}` }),
  })

/** The attributes of a text that is not in the language of the page, and may be written from right to left. */
export const inLanguage = (tag: string | null): Html | '' => (tag === null ? '' : html`lang="${tag}" dir="auto"`)

const languageLinks = ({ lang, t }: Texts, languages: readonly string[]): Html =>
  html`<nav aria-label="${t('language_choice')}">
    ${languages.map(
      (each) =>
        html`<a
          href="?lang=${each}"
          lang="${each}"
          hreflang="${each}"
          dir="auto"
          ${languageIn(each) === lang ? html`aria-current="true"` : ''}
          >${nameOf(each)}</a
        > `,
    )}
  </nav>`

/** The name of a language in the language itself. */
const nameOf = (tag: string): string =>
  LANGUAGES.find((lang) => lang === tag) === undefined
    ? (new Intl.DisplayNames([tag], { type: 'language' }).of(tag) ?? tag)
    : textsIn(languageIn(tag) ?? 'en').t('language_name')

const MAX_FORM = 4096

/**
 * The form in the body of a request, urlencoded or multipart, or undefined if the body has more than `max` bytes or is
 * no form.
 */
export async function formIn(context: Context, deps: PlainPageDeps, max = MAX_FORM): Promise<FormData | undefined> {
  const { raw } = context.req
  const body = await withinMost(withBytes(raw, strangers(context, deps, max), (read) => read))
  if (body === undefined) return undefined
  const type = raw.headers.get('content-type') ?? ''
  try {
    return await new Response(body, { headers: { 'Content-Type': type } }).formData()
  } catch {
    return undefined
  }
}

/** The value of a field that is text, or undefined. */
export function valueIn(form: FormData | undefined, name: string): string | undefined {
  const value = form?.get(name)
  return typeof value === 'string' ? value : undefined
}

/** A form with one button. `fields` are hidden. */
export const buttonForm = (label: string, fields: Readonly<Record<string, string>>, look: '' | 'plain' = ''): Html =>
  html`<form method="post">
    ${Object.entries(fields).map(([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`)}<button
      ${look === '' ? '' : html`class="${look}"`}
    >
      ${label}
    </button>
  </form>`

/** The sender of an account: its brand, with `name` if the brand has no sender name. */
export function senderOf(
  { config, store }: { config: Pick<Config, 'http'>; store: Reader },
  userKey: number,
  name: string,
): PageSender {
  const { colour, logo, sender_name } = brandOf(store, userKey)
  return { name: sender_name ?? name, colour, logo: ownImage(config, logo) }
}

/** The path of an image that this server stores. Images of other hosts are not shown: they could track the reader. */
function ownImage({ http }: Pick<Config, 'http'>, url: string | null): string | undefined {
  const images = `${http.public_url}${IMAGES_PATH}/`
  return url?.startsWith(images) ? url.slice(http.public_url.length) : undefined
}
