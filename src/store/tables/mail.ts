// The tables of mail.
import type { EmailStatus } from '../../states/outbound-email.ts'
import type { Flag, Json, Key } from '../columns.ts'

export interface OutboundEmails {
  key: Key
  id: string
  user_key: number
  domain_key: number
  /** Set for a campaign's mail. Its `from`, `subject` and `message_id` are '': the campaign's columns hold them. */
  campaign_key: number | null
  /** Null for a test mail. */
  contact_key: number | null
  from: string
  to: string
  /** string[] */
  cc: Json | null
  /** string[] */
  bcc: Json | null
  /** string[] */
  reply_to: Json | null
  subject: string
  agent_id: string | null
  /** As requested; null: as the domain is set. */
  track_opens: Flag | null
  track_clicks: Flag | null
  /** As applied. */
  opens_tracked: Flag
  clicks_tracked: Flag
  ai_disclosure: Flag | null
  message_id: string
  idempotency_key: string | null
  payload_hash: Uint8Array | null
  status: EmailStatus
  queued_at: number
  sent_at: number | null
  delivered_at: number | null
  bounced_at: number | null
  complained_at: number | null
  rejected_at: number | null
  suppressed_at: number | null
  failed_at: number | null
  first_opened_at: number | null
  first_clicked_at: number | null
  created_at: number
  updated_at: number
}

export interface OutboundBodies {
  email_key: number
  /** A StoredBody (mail/body.ts), or null when it is in the spool. */
  content: Json | null
  /** string[]: the files in the spool that belong to the body; when `content` is null, the first one is the body. */
  spool: Json | null
}

export interface MailTables {
  outbound_emails: OutboundEmails
  outbound_bodies: OutboundBodies
}
