// The tables of mail.
import { EMAIL_STATUSES } from '../states/outbound-email.ts'
import { blob, due, flag, id, integer, json, key, oneOf, tablesOf, text, time } from './table.ts'

const REPEATS = 'only compared with what a client sends again'
const LABELS = 'labels of the sender, which are not part of the message'

export const mailTables = tablesOf('mail', {
  /** A campaign's emails have no text of their own, and no digest. */
  outbound_emails: {
    digest: 2,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      domain_key: integer(),
      /**
       * Set for a campaign's mail. Its `from`, `subject` and `message_id` are '':
       * the campaign's columns hold them.
       */
      campaign_key: integer({ null: true }),
      /** Null for a test mail. */
      contact_key: integer({ null: true }),
      from: text({ digested: true, person: 'own step' }),
      to: text({ digested: true, person: 'own step', held: true }),
      /** string[] */
      cc: json({ null: true, digested: true, person: 'own step', held: true }),
      /** string[] */
      bcc: json({ null: true, digested: true, person: 'own step', held: true }),
      /** string[] */
      reply_to: json({ null: true, digested: true, person: 'own step', held: true }),
      subject: text({ digested: true, person: 'own step', held: true }),
      agent_id: text({ null: true, undigested: 'the name of figures', person: 'own step' }),
      /** As requested. Null: the domain's setting. */
      track_opens: flag({ null: true }),
      track_clicks: flag({ null: true }),
      /** As applied. */
      opens_tracked: flag(),
      clicks_tracked: flag(),
      ai_disclosure: flag({ null: true }),
      message_id: text({ digested: true, nobody: 'an id and a domain of the account' }),
      idempotency_key: text({ null: true, undigested: REPEATS, person: 'own step' }),
      payload_hash: blob({ null: true, undigested: REPEATS }),
      status: oneOf(EMAIL_STATUSES),
      /** string[] */
      tags: json({ null: true, undigested: LABELS, person: 'own step' }),
      /** Record<string, string> */
      metadata: json({ null: true, undigested: LABELS, person: 'own step' }),
      /** When the email is due, if it was scheduled. */
      scheduled_at: due({ null: true, harmless: 'chosen by a person' }),
      /** Null in a campaign's mail, which is bulk email, and in email of earlier versions, which is transactional. */
      stream: oneOf(['transactional', 'bulk'], { null: true }),
      /** The batch with which it was accepted. */
      batch_key: integer({ null: true }),
      /** Its position in the request of the batch. */
      batch_index: integer({ null: true }),
      queued_at: time(),
      sent_at: time({ null: true }),
      delivered_at: time({ null: true }),
      bounced_at: time({ null: true }),
      complained_at: time({ null: true }),
      rejected_at: time({ null: true }),
      suppressed_at: time({ null: true }),
      failed_at: time({ null: true }),
      cancelled_at: time({ null: true }),
      first_opened_at: time({ null: true }),
      first_clicked_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  outbound_bodies: {
    digest: 1,
    by: 'email_key',
    owned: 'email_key in (select key from outbound_emails where user_key = ?)',
    columns: {
      email_key: integer(),
      /**
       * A StoredBody (message/stored-body.ts), or null when it is in the spool. In a batch with a shared body, the
       * values of the recipient.
       */
      content: json({ null: true, digested: true, person: 'own step', held: true }),
      /** string[]: the files in the spool that belong to the body. If `content` is null, the first one is the body. */
      spool: json({ null: true, undigested: 'a file proves itself by its name', nobody: 'names of files' }),
    },
  },
  /** Emails that were accepted with one request. */
  outbound_batches: {
    digest: 25,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      idempotency_key: text({ null: true, undigested: REPEATS, person: 'own step' }),
      payload_hash: blob({ null: true, undigested: REPEATS }),
      /** The placeholders of the shared body. Null if each email has a body of its own. */
      syntax: oneOf(['mustache', 'percent'], { null: true }),
      /** The shared body: a StoredBody, or null when it is in the spool or no longer kept. */
      content: json({ null: true, digested: true, person: 'own step', held: true }),
      /** string[]: as in outbound_bodies. */
      spool: json({ null: true, undigested: 'a file proves itself by its name', nobody: 'names of files' }),
      accepted: integer(),
      suppressed: integer(),
      refused: integer(),
      /** OtherResult[] (mail/batches.ts): the items that have no email of this batch. */
      others: json({ undigested: 'what an answer shows', person: 'own step', held: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** Contacts who opened or clicked, and the last time. Campaigns send to them first. */
  readers: {
    undigested: 'an order of sending',
    owned: 'audience_key in (select key from audiences where user_key = ?)',
    columns: {
      audience_key: integer(),
      contact_key: integer(),
      seen_at: time(),
    },
  },
})
