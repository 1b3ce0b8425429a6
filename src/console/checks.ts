// Checks of a campaign before its start, for common mistakes in newsletters.
import { unknownTags } from '../campaigns/render.ts'
import { hasUnsubscribeLink } from '../message/leave-link.ts'
import { readPictures } from '../message/pictures.ts'
import { readTargets } from '../message/tracking.ts'
import { text, type Thing, type Visit, record } from './visit.ts'

export interface Check {
  ok: boolean
  words: string
}

/** The size in octets at which Gmail cuts off a mail. */
const CUT = 102 * 1024

/** Whether mail programs can load a picture from this address; with a merge tag in it, it is not known yet. */
const isLoadable = (url: string): boolean => /^https?:\/\/[^\s/]/i.test(url) || url.includes('{{')

/** The first five of a list. */
const listed = (values: readonly string[]): string => values.slice(0, 5).join(', ')

export async function checksOf(visit: Visit, campaign: Thing): Promise<Check[]> {
  const body_html = text(campaign, 'body_html')
  const audience = campaign.relationships?.['audience']?.data?.id
  const contacts =
    audience === undefined ? [] : (await visit.get(`/audiences/${audience}/contacts?page%5Bsize%5D=100`)).many
  const fields = new Set(contacts.flatMap((each) => Object.keys(record(each, 'custom_fields'))))
  const content = { subject: text(campaign, 'subject'), body_html, body_text: text(campaign, 'body_text') || null }
  const unknown = unknownTags(content, [...fields])
  const size = Buffer.byteLength(body_html)
  const pictures = [...readPictures(body_html)]
  const silent = pictures.filter(({ alt }) => alt === '').length
  const unloadable = pictures.filter(({ url }) => !isLoadable(url))
  const links = Array.from(readTargets(body_html), ({ url }) => url).filter((url) => !url.includes('{{'))
  const odd = links.filter((url) => !/^(?:https?:\/\/|mailto:|tel:)/i.test(url))
  return [
    {
      ok: contacts.length > 0,
      words: contacts.length > 0 ? 'The audience has contacts.' : 'The audience has no contact yet.',
    },
    {
      ok: size <= CUT,
      words:
        size <= CUT ? 'It is small enough for Gmail to show it whole.' : 'It is larger than 102 KB: Gmail cuts it off.',
    },
    {
      ok: hasUnsubscribeLink(body_html),
      words: hasUnsubscribeLink(body_html)
        ? 'It has a link to unsubscribe.'
        : 'It has no {{unsubscribe_url}}: a small footer with the link is added.',
    },
    {
      ok: unknown.length === 0,
      words:
        unknown.length === 0
          ? 'Every merge tag is known.'
          : `No contact has a value for ${unknown.map((tag) => `{{${tag}}}`).join(', ')}.`,
    },
    {
      ok: silent === 0,
      words:
        silent === 0
          ? 'Every picture has a text for people who cannot see it.'
          : `${silent} of ${pictures.length} pictures have no text (alt).`,
    },
    {
      ok: unloadable.length === 0,
      words:
        unloadable.length === 0
          ? 'Every picture has a web address.'
          : `These pictures are not shown, because they have no https:// address: ${listed(unloadable.map(({ url }) => url || '(none)'))}`,
    },
    {
      ok: odd.length === 0,
      words:
        odd.length === 0
          ? 'Every link leads to a whole address.'
          : `These links lead nowhere, because they do not begin with https://: ${listed(odd)}`,
    },
  ]
}
