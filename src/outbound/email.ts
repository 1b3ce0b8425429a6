// What the other files of this folder mean by an email: the row, and what somebody wants to send.
import type { RowOf } from '../store/tables.ts'
import type { StoredAttachment } from '../message/worker.ts'
import type { NewAttachment } from './attachments.ts'
import type { OneOrMore } from './recipients.ts'

export type Email = RowOf<'outbound_emails'>

/** A mail as it is submitted: every value is in its checked form. */
export interface NewEmail {
  from: string
  to: string
  cc?: OneOrMore
  bcc?: OneOrMore
  reply_to?: OneOrMore
  subject: string
  /** Null only in a mail that came by SMTP and has none. */
  html: string | null
  text?: string | null | undefined
  idempotency_key?: string | null | undefined
  agent_id?: string | null | undefined
  track_opens?: boolean | null | undefined
  track_clicks?: boolean | null | undefined
  ai_disclosure?: boolean | null | undefined
  attachments?: readonly NewAttachment[] | undefined
  headers?: readonly (readonly [name: string, value: string])[] | undefined
  /** A mail that came by SMTP, which is sent as it came. */
  message?: SubmittedMessage | undefined
  /** The token whose cap of recipients in a day counts; undefined: it has none. */
  cappedToken?: number | undefined
}

export interface SubmittedMessage {
  /** Of the email, made when the message began. */
  id: string
  messageId: string
  /** Its octets as they are sent, or the file of the spool that holds them. */
  octets: Buffer | { spooled: string }
  attachments: readonly Omit<StoredAttachment, 'content'>[]
  /** Tells whether a repeat is the same message. */
  hash: Buffer
}
