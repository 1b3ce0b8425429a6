// The tables of campaigns: whom they go to, what they say, how far they are.
import type { CampaignStatus } from '../states/campaign.ts'
import type { Flag, Json, Key } from './columns.ts'

export interface Audiences {
  key: Key
  id: string
  user_key: number
  /** The sending domain. */
  domain_key: number
  name: string
  description: string | null
  /** Kept by triggers on contacts. */
  contacts_count: number
  deleted_at: number | null
  created_at: number
  updated_at: number
}

export interface Contacts {
  key: Key
  id: string
  user_key: number
  audience_key: number
  /** Trimmed, lower case, the domain as A-label. */
  email: string
  name: string | null
  /** An object. */
  preferences: Json | null
  /** An object. */
  custom_fields: Json | null
  status: 'subscribed' | 'unsubscribed' | 'bounced' | 'complained'
  /** Since when; a campaign goes to those who were subscribed when it began. */
  status_at: number
  created_at: number
  updated_at: number
}

export interface Campaigns {
  key: Key
  id: string
  user_key: number
  domain_key: number
  audience_key: number
  name: string
  subject: string
  body_html: string
  body_text: string | null
  from_address: string | null
  /** string[] */
  reply_to: Json | null
  test_mode: Flag
  test_recipient_email: string | null
  /** It does not start without an unsubscribe link in its html. */
  require_unsubscribe_link: Flag
  scheduled_at: number | null
  /** As asked for; null follows the domain. */
  track_opens: Flag | null
  track_clicks: Flag | null
  /** As it is done, settled when sending starts. */
  opens_tracked: Flag
  clicks_tracked: Flag
  status: CampaignStatus
  /** Why it failed, in words. */
  failure: string | null
  /** How many it goes to, counted when sending starts. */
  recipients: number | null
  /** The last contact there was when sending started. */
  last_contact: number | null
  /** Contacts up to here have their mail in the queue or beyond. */
  walked_to: number
  /** Mails that were put into the queue. */
  enqueued: number
  started_at: number | null
  finished_at: number | null
  deleted_at: number | null
  created_at: number
  updated_at: number
}
