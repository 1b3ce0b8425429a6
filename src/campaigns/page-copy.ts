// A new draft from an existing campaign. A started campaign cannot become a draft again, so a copy is the way to change
// it.
import { text, type Thing } from '../webui/visit.ts'
import type { campaigns } from './api.ts'

/** The attributes that a copy takes over: all but the time and the status. */
const COPIED = [
  'subject',
  'body_html',
  'body_text',
  'from_address',
  'reply_to',
  'test_mode',
  'test_recipient_email',
  'require_unsubscribe_link',
  'track_opens',
  'track_clicks',
] as const
const MAX_NAME = 255

/** The document that creates the copy. */
export function copyOf(campaign: Thing<typeof campaigns>) {
  const own = Object.fromEntries(COPIED.map((name) => [name, campaign.attributes[name]]))
  const audience = campaign.relationships?.audience?.data
  return {
    type: 'campaigns',
    attributes: { ...own, name: `Copy of ${text(campaign, 'name')}`.slice(0, MAX_NAME).toWellFormed() },
    relationships: audience ? { audience: { data: audience } } : {},
  }
}
