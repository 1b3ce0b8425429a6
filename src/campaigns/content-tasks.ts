// Work that grows with the texts of a campaign and the values of its contacts. It runs in a worker thread, as tasks
// that content-apart.ts names, because a text of 1 MB can repeat a merge tag a thousand times.
import { compileCampaign, fillCampaign } from '../message/campaign.ts'
import { compose, type Mail } from '../message/compose.ts'
import { valuesOf, type Tagged } from '../message/identity.ts'
import { hasUnsubscribeLink } from '../message/leave-link.ts'
import { readPictures } from '../message/html-tokens.ts'
import { render, type Rendered, type RenderedContent } from '../message/rendered.ts'
import { encodedSize } from '../message/size.ts'
import { MAX_MESSAGE, TooLarge } from '../message/too-large.ts'
import type { TemplateValues } from '../message/template.ts'
import { readTargets } from '../message/tracking.ts'
import { checksOfContent, emptyChecks } from './content-checks.ts'
import { bareTags, brokenTags } from './render.ts'

/** The maximum number of checked links per campaign. */
export const MOST_LINKS = 50

/** A campaign with the values of one reader. Throws TooLarge. */
function rendered(content: RenderedContent, values: TemplateValues): Rendered {
  const made = render(content, values)
  if (encodedSize({ ...made, headers: [['Subject', made.subject]], attachments: [] }) >= MAX_MESSAGE)
    throw new TooLarge()
  return made
}

/** An email that is never sent, as it would go out. */
const message = (content: RenderedContent, reader: Tagged, mail: Omit<Mail, 'html' | 'subject' | 'text'>): string =>
  [...compose({ ...mail, ...rendered(content, valuesOf(reader)) })].join('')

/** A tracked link and an unsubscribe link are at most as long as with this host. */
const LONG = `https://${'x'.repeat(253)}`
const SOMEBODY = { name: '', address: 'a@example.org', local: 'a', domain: 'example.org' }

/**
 * Whether the email of one of these readers would be too large. The size is summed without composing the email
 * (`fillCampaign`). Links are counted as tracked.
 */
function isTooLarge({ body_html, body_text, subject }: RenderedContent, readers: readonly Tagged[]): boolean {
  const compiled = compileCampaign({
    id: '',
    from: SOMEBODY,
    replyTo: [],
    subject,
    html: body_html,
    text: body_text,
    footer: 'link',
    extra: [],
    tracking: { base: LONG, key: '', opens: true, clicks: true },
    seed: '',
  })
  const leave = { unsubscribe_url: `${LONG}${LONG}`, unsubscribe_mailto: `${LONG}${LONG}` }
  const some = { to: SOMEBODY, messageId: '<a@example.org>', date: 0, delivery: Number.MAX_SAFE_INTEGER, extra: [] }
  try {
    for (const reader of readers) fillCampaign(compiled, { ...some, values: { ...valuesOf(reader), ...leave } })
    return false
  } catch (thrown) {
    if (thrown instanceof TooLarge) return true
    throw thrown
  }
}

/**
 * The web links and images in a campaign's HTML, without duplicates. URLs with a merge tag are skipped, because they
 * differ per contact.
 */
function links(html: string): string[] {
  const found = new Set<string>()
  for (const named of [readTargets(html), readPictures(html)])
    for (const { url } of named)
      if (/^https?:\/\//i.test(url.trim()) && !url.includes('{{') && found.add(url.trim()).size >= MOST_LINKS)
        return [...found]
  return [...found]
}

export const TASKS = {
  render: rendered,
  message,
  isTooLarge,
  links,
  hasUnsubscribeLink,
  checks: checksOfContent,
  emptyChecks,
  tags: (content: RenderedContent) => ({ bare: bareTags(content), broken: brokenTags(content) }),
}
export type ContentTasks = typeof TASKS

export interface ContentJob {
  task: keyof ContentTasks
  args: unknown[]
}
