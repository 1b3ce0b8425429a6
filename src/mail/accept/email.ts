// Types of this folder for an email: its row, and the checked content of a new one.
import type { RowOf } from '../../schema/tables.ts'
import type { StoredAttachment } from '../../message/stored-body.ts'
import type { MailText } from '../../message/part-text.ts'
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
  /** Empty for a mail from SMTP submission, as the text and the headers: `message` has all of them. */
  html: string
  text?: string | null | undefined
  idempotency_key?: string | null | undefined
  agent_id?: string | null | undefined
  /** The agent of an OAuth client, which sends nothing while that agent is paused, whatever agent it names. */
  program?: string | undefined
  track_opens?: boolean | null | undefined
  track_clicks?: boolean | null | undefined
  ai_disclosure?: boolean | null | undefined
  attachments?: readonly NewAttachment[] | undefined
  headers?: readonly (readonly [name: string, value: string])[] | undefined
  /** A mail from SMTP submission; it is sent as it arrived. */
  message?: SubmittedMessage | undefined
  /** The token whose daily limit of recipients counts; undefined: it has no limit. */
  cappedToken?: number | undefined
}

export interface SubmittedMessage {
  /** The id of the email, made when the message began. */
  id: string
  messageId: string
  html: MailText
  text: MailText
  /** Its octets as they are sent, or the file of the spool that holds them. */
  octets: Buffer | { spooled: string }
  attachments: readonly Omit<StoredAttachment, 'content'>[]
  /** A repeated message has the same hash. */
  hash: Buffer
}
