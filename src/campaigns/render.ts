// Previews a campaign: selects the contact whose data fills its tags (message/rendered.ts), and finds tags that would
// be empty.
import type { RenderedContent } from '../message/rendered.ts'
import { cutHtml } from '../message/html-tags.ts'
import { cutTemplate, strayBraces, valueOf, type Piece, type TemplateValues } from '../message/template.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'

export { valuesOf } from '../message/identity.ts'

export { render, type Rendered } from '../message/rendered.ts'

/** Tags that every contact has. */
const LEAVE = ['unsubscribe_url', 'unsubscribe_mailto']
export const COMMON = ['name', 'email', ...LEAVE]

/** The contact for the preview: the newest one that can get the campaign, or else the newest of all. */
export function exampleContact(
  reader: Reader,
  audience: number | null,
): Pick<RowOf<'contacts'>, 'name' | 'custom_fields'> | undefined {
  const newest = db
    .selectFrom('contacts')
    .select(['name', 'custom_fields'])
    .where('audience_key', '=', audience)
    .orderBy('key', 'desc')
    .limit(1)
  return reader.first(newest.where('status', '=', 'subscribed')) ?? reader.first(newest)
}

const piecesIn = ({ body_html, body_text, subject }: RenderedContent): Piece[] => [
  ...cutTemplate(subject),
  ...cutHtml(body_html),
  ...cutTemplate(body_text ?? ''),
]

/** The maximum number of tags that the checks of a campaign examine. */
const MOST_TAGS = 200

/** The tags without a fallback. */
export const bareTags = (content: RenderedContent): string[] =>
  [
    ...new Set(
      piecesIn(content).flatMap((piece) =>
        typeof piece === 'string' || piece.otherwise !== undefined ? [] : [piece.tag],
      ),
    ),
  ].slice(0, MOST_TAGS)

/** The tags of a campaign for which no contact of the audience has a value. */
export const unknownTags = (content: RenderedContent, fields: readonly string[]): string[] =>
  bareTags(content).filter((tag) => !COMMON.includes(tag) && !fields.includes(tag))

/** The tags that are empty for some of these contacts and have no fallback, with the number of contacts. */
export function emptyTags(
  content: RenderedContent,
  contacts: readonly TemplateValues[],
): { tag: string; contacts: number }[] {
  return bareTags(content).flatMap((tag) => {
    if (LEAVE.includes(tag)) return []
    const without = contacts.filter((values) => valueOf(values, { tag }, (value) => value) === '').length
    return without === 0 || without === contacts.length ? [] : [{ tag, contacts: without }]
  })
}

/** Malformed tags, as they were typed. */
export const brokenTags = (content: RenderedContent): string[] => strayBraces(piecesIn(content)).slice(0, MOST_TAGS)
