// The tables of inbound: inboxes and received mail.
import { INBOUND_STATUSES } from '../states/inbound-email.ts'
import { blob, due, flag, id, integer, json, key, oneOf, tablesOf, text, time } from './table.ts'

const CLIENT = 'what the client said'
const HEADER = 'shown, but not judged by'

export const inboundTables = tablesOf('inbound', {
  inboxes: {
    digest: 11,
    columns: {
      key: key(),
      id: id(),
      user_key: integer({ digested: true }),
      domain_key: integer({ digested: true }),
      name: text({ digested: true, person: 'mark' }),
      /** Lower case, the domain as A-label. The address of an active inbox belongs to the account itself. */
      address: text({ digested: true, person: 'own step' }),
      deleted_at: time({ null: true }),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** A message as received, stored before the 250 and not written again: see `inbound_waiting` and `inbound_bodies`. */
  inbound_messages: {
    digest: 3,
    columns: {
      key: key(),
      id: id(),
      /** The envelope's sender, '' for a bounce. */
      mail_from: text({ digested: true, person: 'own step' }),
      /** InboundRecipient[] (inbound/recipients.ts). */
      recipients: json({ digested: true, person: 'own step' }),
      /** Address of the client that delivered it. */
      client: text({ undigested: CLIENT, nobody: 'the address of a machine' }),
      helo: text({ undigested: CLIENT, person: 'own step' }),
      /** Our own Received field, with its line end. */
      received: text({ digested: true, person: 'own step' }),
      /** Bytes as received. */
      size: integer(),
      /** The bytes, or null when they are in the spool. */
      content: blob({ null: true, digested: true, person: 'own step' }),
      spool: text({ null: true, undigested: 'a file proves itself by its name', nobody: 'the name of a file' }),
      /** Only the header was kept: the message was too large. */
      cut: flag(),
      virus: text({ null: true, undigested: 'what the scanner said', nobody: 'the name of a virus' }),
      /** Only of messages parsed before version 0.3.0. Newer ones have it in `inbound_bodies`. */
      authentication: text({ null: true, undigested: HEADER, person: 'own step' }),
      received_at: time(),
      /** Not used since version 0.3.0: 0 and null. */
      attempts: integer(),
      next_attempt_at: due({ null: true, harmless: 'not used' }),
    },
  },
  /** The messages that wait to be parsed. */
  inbound_waiting: {
    by: 'message_key',
    owned: 'message_key in (select message_key from inbound_emails where user_key = ?)',
    columns: {
      message_key: integer(),
      attempts: integer(),
      next_attempt_at: due({ ahead: 'wait' }),
    },
  },
  inbound_emails: {
    digest: 4,
    columns: {
      key: key(),
      id: id(),
      user_key: integer(),
      domain_key: integer(),
      inbox_key: integer(),
      message_key: integer(),
      status: oneOf(INBOUND_STATUSES),
      /** Why the status is not `received`, as a sentence. */
      reason: text({ null: true, undigested: 'an explanation', person: 'own step', held: true }),
      sender: text({ digested: true, person: 'own step', held: true }),
      /** string[] */
      recipients: json({ digested: true, person: 'own step' }),
      subject: text({ null: true, digested: true, person: 'own step', held: true }),
      from: text({ null: true, digested: true, person: 'own step', held: true }),
      /** string[] */
      to: json({ digested: true, person: 'own step', held: true }),
      /** string[] */
      cc: json({ undigested: HEADER, person: 'own step', held: true }),
      /** string[] */
      reply_to: json({ undigested: HEADER, person: 'own step', held: true }),
      message_id: text({ null: true, digested: true, person: 'own step' }),
      in_reply_to: text({ null: true, undigested: HEADER, person: 'own step' }),
      /** string[] */
      references: json({ undigested: HEADER, person: 'own step' }),
      /** {spf, dkim, dmarc, arc} */
      authentication: json({ undigested: HEADER, person: 'own step' }),
      /** Set once a user has read it. */
      seen: flag(),
      size: integer(),
      received_at: time(),
      created_at: time(),
      updated_at: time(),
    },
  },
  /** The parsed contents of a message, shared by all inboxes that got it. */
  inbound_bodies: {
    digest: 5,
    by: 'message_key',
    owned: 'message_key in (select message_key from inbound_emails where user_key = ?)',
    columns: {
      message_key: integer(),
      /** Record<string, string | string[]> */
      headers: json({ digested: true, person: 'own step', held: true }),
      text: text({ null: true, digested: true, person: 'own step', held: true }),
      html: text({ null: true, digested: true, person: 'own step', held: true }),
      /** InboundAttachment[] (message/parse.ts) */
      attachments: json({ digested: true, person: 'own step' }),
      /** The part of the message that holds exactly the text or HTML, in place of it (message/part-text.ts). */
      text_part: integer({ null: true }),
      html_part: integer({ null: true }),
      /** Our Authentication-Results field, with its line end. */
      authentication: text({ null: true, undigested: HEADER, person: 'own step' }),
    },
  },
})
