// The tables of campaigns: audiences, contacts and campaigns.
import { DAY } from '../../base/clock.ts'
import { CAMPAIGN_STATUSES } from '../states/campaign.ts'
import { CONSENT_STATES } from '../states/consent.ts'
import { due, flag, id, integer, json, key, oneOf, tablesOf, text, time } from './table.ts'

export const campaignsTables = tablesOf('campaigns', {
  /** The look and the default sender of an account. */
  brands: {
    undigested: 'defaults of drafts, which their author reviews',
    columns: {
      key: key(),
      user_key: integer(),
      sender_name: text({ null: true, person: 'mark' }),
      from_address: text({ null: true, person: 'mark' }),
      /** The URL of an image. */
      logo: text({ null: true, person: 'mark' }),
      /** #rrggbb */
      colour: text({ null: true, nobody: 'a colour' }),
      postal_address: text({ null: true, person: 'mark' }),
      updated_at: time(),
    },
  },
  audiences: {
    digest: 13,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      domain_key: integer({ digested: true }),
      name: text({ digested: true, person: 'mark' }),
      description: text({ null: true, digested: true, person: 'mark' }),
      /** The name that subscribers see. */
      title: text({ null: true, undigested: 'a name for display', person: 'mark' }),
      /** Kept by triggers on contacts. */
      contacts_count: integer(),
      /** Contacts by status, kept likewise. */
      subscribed_count: integer(),
      unsubscribed_count: integer(),
      bounced_count: integer(),
      complained_count: integer(),
      pending_count: integer(),
      /** The language of its subscribers (BCP 47), for those whose own language is unknown. */
      language: text({ null: true, undigested: 'a setting of pages', nobody: 'a language' }),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** How many were subscribed at the end of each day (UTC, days since the epoch) on which the number changed. */
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
      /** The importer: a user's address, or the name of a token. */
      created_by: text({ person: 'mark' }),
      /** The name of the file, or ''. */
      file: text({ person: 'mark' }),
      /** The result of the import, as in its API answer. */
      created: integer(),
      updated: integer(),
      unsubscribed: integer(),
      suppressed: integer(),
      skipped: integer(),
      /** The number of rejected rows, which also count as skipped. */
      rejected_count: integer(),
      /** string[]: the titles of the rejected lines' cells. */
      titles: json({ null: true, person: 'mark' }),
      /** { line, detail, row }[]: the rejected lines, while they are kept. */
      rejected: json({ null: true, person: 'mark', held: true }),
      rejected_until: due({ null: true, ahead: [{ within: 30 * DAY }] }),
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
      /** Pending: somebody signed the address up, and its owner has not confirmed. */
      status: oneOf(['subscribed', 'unsubscribed', 'bounced', 'complained', 'pending']),
      /** The language of pages and emails for the contact (BCP 47). */
      language: text({ null: true, undigested: 'a setting of pages', nobody: 'a language' }),
      /** The contact unsubscribed from this audience alone, without a suppression. */
      left_audience: flag(),
      /** When it was last subscribed, or added. */
      subscribed_at: time({ null: true }),
      /** The time of its status. A campaign goes to contacts that were subscribed when it began. */
      status_at: time(),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** The proof why an address is in an audience. One row for each way in, changed only by time and erasure. */
  consents: {
    digest: 26,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      audience_key: integer(),
      /** Null when the contact was removed. */
      contact_key: integer({ null: true }),
      /** Hex HMAC-SHA-256 of the normalised address. Null only in consents of earlier versions. */
      recipient_hash: text({ null: true, undigested: 'a hash', nobody: 'a hash' }),
      state: oneOf(CONSENT_STATES),
      /** Where the address came from. `before`: it was in the audience before consents were stored. */
      source: oneOf(['form', 'api', 'console', 'cli', 'import', 'page', 'before']),
      form_key: integer({ null: true }),
      form_version: integer({ null: true }),
      language: text({ null: true, undigested: 'a language', nobody: 'a language' }),
      /** The declaration exactly as it was shown, or as the owner stated it. */
      text: text({ null: true, digested: true, person: 'mark' }),
      /** The URL of the page with the form. */
      page: text({ null: true, undigested: 'as the client sent it', person: 'mark' }),
      origin: text({ null: true, undigested: 'as the client sent it', nobody: 'the origin of a website' }),
      /** Hex HMAC-SHA-256 of the clients that signed up and confirmed. */
      request_client: text({ null: true, undigested: 'a hash', nobody: 'a hash that an erasure deletes' }),
      confirm_client: text({ null: true, undigested: 'a hash', nobody: 'a hash that an erasure deletes' }),
      /** The Message-ID of the confirmation email. */
      message_id: text({ null: true, undigested: 'an id', nobody: 'an id' }),
      evidence: text({ null: true, digested: true, person: 'mark' }),
      /** The user, or the name of the token, that added the address. */
      person: text({ null: true, undigested: 'a name for display', person: 'mark' }),
      requested_at: time({ null: true }),
      confirmed_at: time({ null: true }),
      /** When it was withdrawn, or ended without a confirmation. */
      ended_at: time({ null: true }),
      /** When the contact subscribed again after it was withdrawn. */
      restored_at: time({ null: true }),
      /**
       * 1: its confirmation removed the unsubscribe suppression of the domain, which a refusal by its link restores.
       * 2: the contact had unsubscribed from the audience, too.
       */
      released: integer(),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** Rules that select contacts of an audience. Contacts are matched when a campaign starts. */
  segments: {
    digest: 30,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      audience_key: integer({ digested: true }),
      name: text({ digested: true, person: 'mark', held: true }),
      description: text({ null: true, digested: true, person: 'mark', held: true }),
      /** RuleCondition[] (campaigns/rules.ts) */
      rules: json({ digested: true, person: 'mark', held: true }),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** The contacts that matched the segment of a campaign when it started, until an hour after its end. */
  segment_matches: {
    undigested: 'the progress of a campaign',
    owned: 'campaign_key in (select key from campaigns where user_key = ?)',
    columns: {
      campaign_key: integer(),
      /** Contacts who recently opened or clicked. They are sent first. */
      first: flag(),
      contact_key: integer(),
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
      /** Null: all contacts of the audience. */
      segment_key: integer({ null: true }),
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
      /** As requested. Null: the domain's setting. */
      track_opens: flag({ null: true }),
      track_clicks: flag({ null: true }),
      /** As applied. Fixed when sending starts. */
      opens_tracked: flag(),
      clicks_tracked: flag(),
      status: oneOf(CAMPAIGN_STATUSES),
      /** Why it failed, as a sentence. */
      failure: text({ null: true, undigested: 'an explanation', person: 'mark' }),
      /** The number of recipients, counted when sending starts. */
      recipients: integer({ null: true }),
      /** The highest contact key when sending started. */
      last_contact: integer({ null: true }),
      /** Emails to contacts who recently opened or clicked are queued up to this key. They are sent first. */
      readers_to: integer(),
      /** The mail of contacts up to this key has been queued. */
      walked_to: integer(),
      /** Emails that were put into the queue. */
      enqueued: integer(),
      /** The user who scheduled it in the console. */
      scheduled_by: integer({ null: true }),
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
