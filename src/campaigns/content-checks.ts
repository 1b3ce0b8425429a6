// Checks of a campaign's text before its start, for common mistakes in newsletters. They run in a worker thread
// (content-tasks.ts).
import { jsonOf } from '../base/json.ts'
import { countedGrouped } from '../base/text.ts'
import { plainText } from '../message/compose.ts'
import type { Tagged } from '../message/identity.ts'
import { hasUnsubscribeLink } from '../message/leave-link.ts'
import { readPictures } from '../message/html-tokens.ts'
import type { RenderedContent } from '../message/rendered.ts'
import { readTargets } from '../message/tracking.ts'
import { partsOf } from './body-parts.ts'
import { FIRST_BUTTONS, FIRST_TEXT, FIRST_WORDS, PLAIN_LOOK } from './designs.ts'
import { brokenTags, emptyTags, unknownTags, valuesOf } from './render.ts'

export interface Check {
  ok: boolean
  words: string
  /** The campaign is not started from the console as long as this is wrong. */
  blocks?: true
}

/** The size in bytes at which Gmail cuts off an email. */
const CUT = 102 * 1024

/**
 * Whether email clients can load an image from this URL. A URL with a merge tag passes, because it is not known yet.
 */
const isLoadable = (url: string): boolean => /^https?:\/\/[^\s/]/i.test(url) || url.includes('{{')

const listed = (values: readonly string[]): string => values.slice(0, 5).join(', ')

export const check = (ok: boolean, well: string, ill: string): Check => ({ ok, words: ok ? well : ill })

/** Reports a campaign without a subject or text. */
export function emptyChecks({ body_html: html, body_text, subject }: RenderedContent): Check[] {
  const { text: body } = partsOf(html)
  // An email can be a single image. Without HTML, its plain text counts.
  const written =
    plainText(body).trim() !== '' ||
    [...readPictures(body)].length > 0 ||
    (html.trim() === '' && (body_text ?? '').trim() !== '')
  return [
    { ...check(subject.trim() !== '', 'The subject is set.', 'The subject is empty.'), blocks: true },
    { ...check(written, 'The email has content.', 'The content is empty.'), blocks: true },
  ]
}

/** Finds sample texts and links of the design that were not replaced. `domain` is the initial target of its button. */
function designChecks(html: string, domain: string): Check[] {
  const { text: body } = partsOf(html)
  const link = `https://${domain}/`
  const left = Object.values(FIRST_WORDS).filter((words) => body.includes(words))
  const bare = plainText(body) === plainText(FIRST_TEXT.letter({ colour: PLAIN_LOOK.colour, link }))
  const led = body.includes(`<p data-button=""><a href="${link}"`)
  const label = Object.values(FIRST_BUTTONS).find((each) => led && body.includes(`>${each}</a></p>`))
  return [
    check(
      left.length === 0 && !bare,
      'The placeholder text is replaced.',
      bare
        ? 'The content is only the placeholder greeting of the design.'
        : `Placeholder text is still in the email: ${left.map((words) => `“${words}”`).join(', ')}`,
    ),
    ...(label === undefined ? [] : [check(false, '', `The button “${label}” still links to the placeholder ${link}`)]),
  ]
}

/** Contacts whose values are checked, and whether they are all contacts of the audience. */
export interface CheckedContacts {
  some: readonly Tagged[]
  all: boolean
}

/** The checks of a campaign's text. `domain` is its sending domain. */
export function checksOfContent(content: RenderedContent, domain: string, checked: CheckedContacts): Check[] {
  const { some } = checked
  const { body_html } = content
  return [
    ...emptyChecks(content),
    ...designChecks(body_html, domain),
    check(some.length > 0, 'The audience has contacts.', 'The audience has no contacts yet.'),
    check(
      Buffer.byteLength(body_html) <= CUT,
      'The email is small enough for Gmail (102 KB).',
      'The email is larger than 102 KB, so Gmail clips it.',
    ),
    check(
      hasUnsubscribeLink(body_html),
      'The email has an unsubscribe link.',
      'The content has no {{unsubscribe_url}}. A small footer with the link is added.',
    ),
    ...tagChecks(content, checked),
    ...pictureChecks(body_html),
    linkCheck(body_html),
  ]
}

/** "20 of 87 contacts have", or "About 20% of the contacts have" if not all of them were checked. */
export const partOf = (part: number, whole: number, all: boolean): string =>
  all
    ? `${part.toLocaleString('en')} of ${countedGrouped(whole, 'contact')} ${part === 1 ? 'has' : 'have'}`
    : `About ${Math.max(1, Math.round((part / whole) * 100))}% of the contacts have`

function tagChecks(content: RenderedContent, { all, some }: CheckedContacts): Check[] {
  const fields = new Set(some.flatMap(({ custom_fields }) => Object.keys(jsonOf(custom_fields ?? '{}') ?? {})))
  const unknown = unknownTags(content, [...fields])
  const broken = brokenTags(content)
  return [
    check(
      unknown.length === 0,
      'All merge tags are known.',
      `No contact has a value for ${unknown.map((tag) => `{{${tag}}}`).join(', ')}.`,
    ),
    ...(broken.length === 0 ? [] : [check(false, '', `Not merge tags, sent as typed: ${listed(broken)}`)]),
    ...emptyTags(content, some.map(valuesOf)).map(({ contacts: without, tag }) =>
      check(
        false,
        '',
        `${partOf(without, some.length, all)} no value for {{${tag}}} and will see a blank. Add a fallback: {{${tag}|text}}`,
      ),
    ),
  ]
}

function pictureChecks(html: string): Check[] {
  const pictures = [...readPictures(html)]
  const silent = pictures.filter(({ alt }) => alt === '').length
  const unloadable = pictures.filter(({ url }) => !isLoadable(url)).map(({ url }) => url || '(none)')
  return [
    check(
      silent === 0,
      'All images have alternative text.',
      `${silent} of ${pictures.length} images ${silent === 1 ? 'has' : 'have'} no alternative text (alt).`,
    ),
    check(
      unloadable.length === 0,
      'All images have a URL.',
      `These images do not load because they have no https:// URL: ${listed(unloadable)}`,
    ),
  ]
}

function linkCheck(html: string): Check {
  const links = Array.from(readTargets(html), ({ url }) => url).filter((url) => !url.includes('{{'))
  const odd = links.filter((url) => !/^(?:https?:\/\/|mailto:|tel:)/i.test(url))
  return check(
    odd.length === 0,
    'All links are complete URLs.',
    `These links do not work because they do not start with https://: ${listed(odd)}`,
  )
}
