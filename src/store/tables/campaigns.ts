// The tables of campaigns: audiences, contacts and campaigns.
import type { CampaignStatus } from '../../states/campaign.ts'
import type { Flag, Json, Key } from '../columns.ts'

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
  /** The time of its status; a campaign goes to contacts that were subscribed when it began. */
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
  /** The campaign does not start without an unsubscribe link in its html. */
  require_unsubscribe_link: Flag
  scheduled_at: number | null
  /** As requested; null: as the domain is set. */
  track_opens: Flag | null
  track_clicks: Flag | null
  /** As applied; fixed when sending starts. */
  opens_tracked: Flag
  clicks_tracked: Flag
  status: CampaignStatus
  /** Why it failed, as a sentence. */
  failure: string | null
  /** The number of recipients, counted when sending starts. */
  recipients: number | null
  /** The highest contact key when sending started. */
  last_contact: number | null
  /** The mail of contacts up to this key has been queued. */
  walked_to: number
  /** Mails that were put into the queue. */
  enqueued: number
  started_at: number | null
  finished_at: number | null
  deleted_at: number | null
  created_at: number
  updated_at: number
}

export interface CampaignsTables {
  audiences: Audiences
  contacts: Contacts
  campaigns: Campaigns
}
