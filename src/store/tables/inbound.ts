// The tables of inbound: inboxes and received mail.
import type { InboundStatus } from '../../states/inbound-email.ts'
import type { Flag, Json, Key } from '../columns.ts'

export interface Inboxes {
  key: Key
  id: string
  user_key: number
  domain_key: number
  name: string
  /** Lower case, the domain as A-label. */
  address: string
  deleted_at: number | null
  created_at: number
  updated_at: number
}

/** A message as received, stored before the 250. It waits to be parsed while `next_attempt_at` is set. */
export interface InboundMessages {
  key: Key
  id: string
  /** The envelope's sender, '' for a bounce. */
  mail_from: string
  /** InboundRecipient[] (inbound/recipients.ts). */
  recipients: Json
  /** Address of the client that delivered it. */
  client: string
  helo: string
  /** Our own Received field, with its line end. */
  received: string
  /** Octets as received. */
  size: number
  /** The octets, or null when they are in the spool. */
  content: Uint8Array | null
  spool: string | null
  /** Only the header was kept: the message was too large. */
  cut: Flag
  /** The virus that the scanner found. */
  virus: string | null
  /** Our Authentication-Results field, with its line end; null until the message is parsed. */
  authentication: string | null
  received_at: number
  attempts: number
  next_attempt_at: number | null
}

/** A message in one inbox. */
export interface InboundEmails {
  key: Key
  id: string
  user_key: number
  domain_key: number
  inbox_key: number
  message_key: number
  status: InboundStatus
  /** Why the status is not `received`, as a sentence. */
  reason: string | null
  sender: string
  /** string[] */
  recipients: Json
  subject: string | null
  from: string | null
  /** string[] */
  to: Json
  /** string[] */
  cc: Json
  /** string[] */
  reply_to: Json
  message_id: string | null
  in_reply_to: string | null
  /** string[] */
  references: Json
  /** {spf, dkim, dmarc, arc} */
  authentication: Json
  size: number
  received_at: number
  created_at: number
  updated_at: number
}

/** The parsed contents of a message, shared by all inboxes that got it. */
export interface InboundBodies {
  message_key: number
  /** Record<string, string | string[]> */
  headers: Json
  text: string | null
  html: string | null
  /** InboundAttachment[] (message/parse.ts) */
  attachments: Json
}

export interface InboundTables {
  inboxes: Inboxes
  inbound_messages: InboundMessages
  inbound_emails: InboundEmails
  inbound_bodies: InboundBodies
}
