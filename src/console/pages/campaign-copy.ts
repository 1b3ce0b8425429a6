// A new draft from another campaign. It is the way to change one that is a draft no more: the table of states has no
// move back.
import { text, type Thing } from '../visit.ts'

/** What a draft has of another campaign: all but its time and its status. */
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
]
const MAX_NAME = 255

/** The document that makes it. */
export function copyOf(campaign: Thing) {
  const own = Object.fromEntries(COPIED.map((name) => [name, campaign.attributes[name]]))
  const audience = campaign.relationships?.['audience']?.data
  return {
    type: 'campaigns',
    attributes: { ...own, name: `Copy of ${text(campaign, 'name')}`.slice(0, MAX_NAME).toWellFormed() },
    relationships: audience ? { audience: { data: audience } } : {},
  }
}
