// A campaign as one reader would see it, for previews and tests: its tags are filled with values, but there is no
// tracking and no working unsubscribe link. The mail that is really sent is made by campaign.ts.
import { withoutLineEnds } from '../base/clean-text.ts'
import { withFooter } from './footer.ts'
import { cutHtml } from './html-tags.ts'
import { MAX_SUBJECT } from './too-large.ts'
import { cutTemplate, escapeHtml, fill, type TemplateValues } from './template.ts'

export interface Rendered {
  subject: string
  html: string
  text: string | null
}

export interface RenderedContent {
  subject: string
  body_html: string
  body_text: string | null
}

/** Subject and bodies with their values. */
export function render({ body_html, body_text, subject }: RenderedContent, values: TemplateValues): Rendered {
  const { html, text } = withFooter({ html: body_html, text: body_text }, false)
  return {
    subject: fill(cutTemplate(subject), values, withoutLineEnds, MAX_SUBJECT),
    html: fill(cutHtml(html), values, escapeHtml),
    text: text === null ? null : fill(cutTemplate(text), values),
  }
}
