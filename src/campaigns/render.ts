// A campaign as one reader would see it, for previews and tests: its tags are filled with values, but there is no
// tracking and no working unsubscribe link. The mail that is really sent is made by message/campaign.ts.
import { withFooter } from '../message/footer.ts'
import { cutTemplate, escapeHtml, fill, oneLine, tagsOf, type Values } from '../message/template.ts'
import type { Campaign } from './edit.ts'

export { valuesOf } from '../message/identity.ts'

export interface Rendered {
  subject: string
  html: string
  text: string | null
}

type Content = Pick<Campaign, 'subject' | 'body_html' | 'body_text'>

/** Tags that every contact has. */
const COMMON = ['name', 'email', 'unsubscribe_url', 'unsubscribe_mailto']

/** Subject and bodies with their values. */
export function render({ body_html, body_text, subject }: Content, values: Values): Rendered {
  const { html, text } = withFooter({ html: body_html, text: body_text }, false)
  return {
    subject: fill(cutTemplate(subject), values, oneLine),
    html: fill(cutTemplate(html), values, escapeHtml),
    text: text === null ? null : fill(cutTemplate(text), values),
  }
}

/** The tags that a campaign uses. */
export function tagsIn({ body_html, body_text, subject }: Content): string[] {
  const tags = [subject, body_html, body_text ?? ''].flatMap((text) => tagsOf(cutTemplate(text)))
  return [...new Set(tags)]
}

/** The tags of a campaign for which no contact of the audience has a value. */
export const unknownTags = (content: Content, fields: readonly string[]): string[] =>
  tagsIn(content).filter((tag) => !COMMON.includes(tag) && !fields.includes(tag))
