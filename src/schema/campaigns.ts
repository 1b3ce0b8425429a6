// The tables of campaigns: audiences, contacts and campaigns.
import { DAY } from '../base/clock.ts'
import { CAMPAIGN_STATUSES } from '../states/campaign.ts'
import { due, flag, id, integer, json, key, oneOf, tablesOf, text, time } from './table.ts'

export const campaignsTables = tablesOf('campaigns', {
  audiences: {
    digest: 13,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      /** The sending domain. */
      domain_key: integer({ digested: true }),
      name: text({ digested: true, person: 'mark' }),
      description: text({ null: true, digested: true, person: 'mark' }),
      /** Kept by triggers on contacts. */
      contacts_count: integer(),
      /** Contacts by status, kept likewise. */
      subscribed_count: integer(),
      unsubscribed_count: integer(),
      bounced_count: integer(),
      complained_count: integer(),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** How many were subscribed at the end of each day (UTC, days since the epoch) on which that changed. */
  audience_days: {
    owned: 'audience_key in (select key from audiences where user_key = ?)',
    columns: {
      audience_key: integer(),
      day: integer(),
      subscribed: integer(),
    },
  },
  /** The history of imports of contacts. */
  list_imports: {
    undigested: 'a record of what was done',
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      audience_key: integer(),
      /** Who imported: a person's address, or the name of a token. */
      made_by: text({ person: 'mark' }),
      /** The name of the file; '' when there was none. */
      file: text({ person: 'mark' }),
      /** What became of the rows, as an import answers it. */
      created: integer(),
      updated: integer(),
      unsubscribed: integer(),
      suppressed: integer(),
      skipped: integer(),
      /** How many rows were refused; they are among the skipped ones. */
      refused_count: integer(),
      /** string[]: the titles of the refused lines' cells. */
      titles: json({ null: true, person: 'mark' }),
      /** { line, detail, cells }[]: the refused lines, while they are kept. */
      refused: json({ null: true, person: 'mark', held: true }),
      refused_until: due({ null: true, ahead: [{ within: 30 * DAY }] }),
      created_at: time(),
      updated_at: time(),
    },
  },
  contacts: {
    digest: 14,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      audience_key: integer(),
      /** Trimmed, lower case, the domain as A-label. */
      email: text({ digested: true, person: 'own step', held: true }),
      name: text({ null: true, digested: true, person: 'mark', held: true }),
      /** An object. */
      preferences: json({ null: true, digested: true, person: 'mark', held: true }),
      /** An object. */
      custom_fields: json({ null: true, digested: true, person: 'mark', held: true }),
      status: oneOf(['subscribed', 'unsubscribed', 'bounced', 'complained']),
      /** The time of its status; a campaign goes to contacts that were subscribed when it began. */
      status_at: time(),
      created_at: time(),
      updated_at: time(),
    },
  },
  campaigns: {
    digest: 15,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      domain_key: integer(),
      audience_key: integer(),
      name: text({ digested: true, person: 'mark' }),
      subject: text({ digested: true, person: 'mark', held: true }),
      body_html: text({ digested: true, person: 'mark', held: true }),
      body_text: text({ null: true, digested: true, person: 'mark', held: true }),
      from_address: text({ null: true, digested: true, person: 'mark' }),
      /** string[] */
      reply_to: json({ null: true, digested: true, person: 'mark' }),
      test_mode: flag(),
      test_recipient_email: text({ null: true, digested: true, person: 'mark', held: true }),
      /** The campaign does not start without an unsubscribe link in its html. */
      require_unsubscribe_link: flag(),
      scheduled_at: due({ null: true, harmless: 'chosen by a person' }),
      /** As requested; null: as the domain is set. */
      track_opens: flag({ null: true }),
      track_clicks: flag({ null: true }),
      /** As applied; fixed when sending starts. */
      opens_tracked: flag(),
      clicks_tracked: flag(),
      status: oneOf(CAMPAIGN_STATUSES),
      /** Why it failed, as a sentence. */
      failure: text({ null: true, undigested: 'an explanation', person: 'mark' }),
      /** The number of recipients, counted when sending starts. */
      recipients: integer({ null: true }),
      /** The highest contact key when sending started. */
      last_contact: integer({ null: true }),
      /** The mail of contacts who opened or clicked lately has been queued up to this key: they are first. */
      readers_to: integer(),
      /** The mail of contacts up to this key has been queued. */
      walked_to: integer(),
      /** Mails that were put into the queue. */
      enqueued: integer(),
      started_at: time({ null: true }),
      finished_at: time({ null: true }),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** Contacts that a campaign has written to first, until its walk has passed them. */
  written_first: {
    undigested: 'the progress of a campaign',
    owned: 'campaign_key in (select key from campaigns where user_key = ?)',
    columns: {
      campaign_key: integer(),
      contact_key: integer(),
    },
  },
})
