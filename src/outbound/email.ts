// What the other files of this folder mean by an email: the row, and what somebody wants to send.
import type { RowOf } from '../store/tables.ts'
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
  html: string
  text?: string | null | undefined
  idempotency_key?: string | null | undefined
  agent_id?: string | null | undefined
  track_opens?: boolean | null | undefined
  track_clicks?: boolean | null | undefined
  ai_disclosure?: boolean | null | undefined
  attachments?: readonly NewAttachment[] | undefined
  headers?: readonly (readonly [name: string, value: string])[] | undefined
}
