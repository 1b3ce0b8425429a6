// What a campaign will look like: the contact whose data fills its tags (message/rendered.ts), and tags that would be
// empty.
import type { RenderedContent } from '../message/rendered.ts'
import { cutTemplate, strayBraces, valueOf, type TemplateValues } from '../message/template.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'

export { valuesOf } from '../message/identity.ts'

export { render, type Rendered } from '../message/rendered.ts'

/** Tags that every contact has. */
const LEAVE = ['unsubscribe_url', 'unsubscribe_mailto']
export const COMMON = ['name', 'email', ...LEAVE]

/** The contact whose data shows how a campaign will look: the newest one that can get it, else the newest of all. */
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

const textsIn = ({ body_html, body_text, subject }: RenderedContent): string[] => [subject, body_html, body_text ?? '']

/** The most tags that the checks of a campaign look at; nobody reads more of them. */
const MOST_TAGS = 200

/** The tags that say nothing for contacts without a value. */
export const bareTags = (content: RenderedContent): string[] =>
  [
    ...new Set(
      textsIn(content).flatMap((text) =>
        cutTemplate(text).flatMap((piece) =>
          typeof piece === 'string' || piece.otherwise !== undefined ? [] : [piece.tag],
        ),
      ),
    ),
  ].slice(0, MOST_TAGS)

/** The tags of a campaign for which no contact of the audience has a value. */
export const unknownTags = (content: RenderedContent, fields: readonly string[]): string[] =>
  bareTags(content).filter((tag) => !COMMON.includes(tag) && !fields.includes(tag))

/** The tags that are empty for some of these contacts and say nothing for this case, with the number of contacts. */
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

/** Braces that look like the beginning of a tag but are none, as they were written. */
export const brokenTags = (content: RenderedContent): string[] =>
  textsIn(content).flatMap((text) => strayBraces(cutTemplate(text)))
