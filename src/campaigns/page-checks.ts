// Checks of a campaign before its start, for common mistakes in newsletters.
import { brokenTags, emptyTags, unknownTags, valuesOf } from './render.ts'
import { plainText } from '../message/compose.ts'
import { hasUnsubscribeLink } from '../message/leave-link.ts'
import { readPictures } from '../message/pictures.ts'
import { readTargets } from '../message/tracking.ts'
import { record, relatedId, text, type Thing, type Visit } from '../webui/visit.ts'
import { contacts } from './api-audiences.ts'
import type { campaigns } from './api.ts'
import { partsOf } from './body-parts.ts'
import { FIRST_BUTTONS, FIRST_TEXT, FIRST_WORDS, PLAIN_LOOK } from './designs.ts'

export interface Check {
  ok: boolean
  words: string
  /** The campaign is not started from the console as long as this is wrong. */
  blocks?: true
}

/** The size in octets at which Gmail cuts off a mail. */
const CUT = 102 * 1024

/** Whether mail programs can load a picture from this address; with a merge tag in it, it is not known yet. */
const isLoadable = (url: string): boolean => /^https?:\/\/[^\s/]/i.test(url) || url.includes('{{')

/** The first five of a list. */
const listed = (values: readonly string[]): string => values.slice(0, 5).join(', ')

const check = (ok: boolean, well: string, ill: string): Check => ({ ok, words: ok ? well : ill })

/** What is wrong with a campaign that nobody means to send: it has no subject or no text. */
export const blocksOf = (campaign: Thing<typeof campaigns>): Check[] => emptyChecks(campaign).filter(({ ok }) => !ok)

function emptyChecks(campaign: Thing<typeof campaigns>): Check[] {
  const html = text(campaign, 'body_html')
  const { text: body } = partsOf(html)
  // A mail may be one picture; one without HTML is its plain text.
  const written =
    plainText(body).trim() !== '' ||
    [...readPictures(body)].length > 0 ||
    (html.trim() === '' && text(campaign, 'body_text').trim() !== '')
  return [
    { ...check(text(campaign, 'subject').trim() !== '', 'It has a subject.', 'The subject is empty.'), blocks: true },
    { ...check(written, 'It has a text.', 'The text is empty.'), blocks: true },
  ]
}

/** Whether words and links of the design are left in the text; `domain` is that to which its button leads at first. */
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
      'The words of the design are replaced by yours.',
      bare
        ? 'The text is only the greeting that the design begins with.'
        : `Words of the design are still in it: ${left.map((words) => `“${words}”`).join(', ')}`,
    ),
    ...(label === undefined ? [] : [check(false, '', `The button “${label}” leads to ${link}, as the design began.`)]),
  ]
}

export async function checksOf(visit: Visit, campaign: Thing<typeof campaigns>, domain: string): Promise<Check[]> {
  const audience = relatedId(campaign, 'audience')
  const some =
    audience === undefined ? [] : (await visit.get(contacts, `/audiences/${audience}/contacts?page%5Bsize%5D=100`)).many
  const body_html = text(campaign, 'body_html')
  return [
    ...emptyChecks(campaign),
    ...designChecks(body_html, domain),
    check(some.length > 0, 'The audience has contacts.', 'The audience has no contact yet.'),
    check(
      Buffer.byteLength(body_html) <= CUT,
      'It is small enough for Gmail to show it whole.',
      'It is larger than 102 KB: Gmail cuts it off.',
    ),
    check(
      hasUnsubscribeLink(body_html),
      'It has a link to unsubscribe.',
      'It has no {{unsubscribe_url}}: a small footer with the link is added.',
    ),
    ...tagChecks(campaign, some),
    ...pictureChecks(body_html),
    linkCheck(body_html),
  ]
}

function tagChecks(campaign: Thing<typeof campaigns>, some: readonly Thing<typeof contacts>[]): Check[] {
  const content = {
    subject: text(campaign, 'subject'),
    body_html: text(campaign, 'body_html'),
    body_text: text(campaign, 'body_text') || null,
  }
  const fields = new Set(some.flatMap((each) => Object.keys(record(each, 'custom_fields'))))
  const unknown = unknownTags(content, [...fields])
  const values = some.map((each) =>
    valuesOf({
      email: text(each, 'email'),
      name: text(each, 'name'),
      custom_fields: JSON.stringify(record(each, 'custom_fields')),
    }),
  )
  const broken = brokenTags(content)
  return [
    check(
      unknown.length === 0,
      'Every merge tag is known.',
      `No contact has a value for ${unknown.map((tag) => `{{${tag}}}`).join(', ')}.`,
    ),
    ...(broken.length === 0
      ? []
      : [check(false, '', `These are not merge tags, and are sent as they are: ${listed(broken)}`)]),
    ...emptyTags(content, values).map(({ contacts: without, tag }) =>
      check(
        false,
        '',
        `${without} of ${some.length} contacts have no value for {{${tag}}}: nothing stands there for them. {{${tag}|text}} gives them a text.`,
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
      'Every picture has a text for people who cannot see it.',
      `${silent} of ${pictures.length} pictures have no text (alt).`,
    ),
    check(
      unloadable.length === 0,
      'Every picture has a web address.',
      `These pictures are not shown, because they have no https:// address: ${listed(unloadable)}`,
    ),
  ]
}

function linkCheck(html: string): Check {
  const links = Array.from(readTargets(html), ({ url }) => url).filter((url) => !url.includes('{{'))
  const odd = links.filter((url) => !/^(?:https?:\/\/|mailto:|tel:)/i.test(url))
  return check(
    odd.length === 0,
    'Every link leads to a whole address.',
    `These links lead nowhere, because they do not begin with https://: ${listed(odd)}`,
  )
}
