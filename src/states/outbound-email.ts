// An outbound email's life (specification "Outbound email", D25). It depends only on its primary recipient.
//
//   queued --handed--> sent --accepted--> delivered --returned--> bounced
//      |                |                     '------complained--> complained
//      '--- refused, expired, rejected, suppressed: see the rows ---'
//
// A status never says more than the SMTP dialogue showed. handed: the final dot was sent; accepted: its 250 was read.
import { machine } from './machine.ts'

export const EMAIL_STATUSES = [
  'queued',
  'sent',
  'delivered',
  'bounced',
  'complained',
  'rejected',
  'suppressed',
  'failed',
] as const
export type EmailStatus = (typeof EMAIL_STATUSES)[number]
export type EmailMove =
  | 'handed'
  | 'accepted'
  | 'refused'
  | 'returned'
  | 'complained'
  | 'rejected'
  | 'suppressed'
  | 'expired'
  | 'taken'
  | 'dropped'

export const emailMachine = machine<EmailStatus, EmailMove>('outbound_emails', [
  ['queued', 'handed', 'sent', 'auto', 'email.sent'],
  ['sent', 'accepted', 'delivered', 'auto', 'email.delivered'],
  // A permanent refusal: in the session, or by a delivery status notification later.
  ['queued', 'refused', 'bounced', 'auto', 'email.bounced'],
  ['sent', 'refused', 'bounced', 'auto', 'email.bounced'],
  ['sent', 'returned', 'bounced', 'auto', 'email.bounced'],
  ['delivered', 'returned', 'bounced', 'auto', 'email.bounced'],
  // A report arrived before the end of the attempt was written.
  ['queued', 'returned', 'bounced', 'auto', 'email.bounced'],
  ['queued', 'complained', 'complained', 'auto', 'email.complained'],
  ['sent', 'complained', 'complained', 'auto', 'email.complained'],
  ['delivered', 'complained', 'complained', 'auto', 'email.complained'],
  ['queued', 'rejected', 'rejected', 'auto', 'email.rejected'],
  ['sent', 'rejected', 'rejected', 'auto', 'email.rejected'],
  ['queued', 'suppressed', 'suppressed', 'auto', 'email.rejected'],
  ['sent', 'suppressed', 'suppressed', 'auto', 'email.rejected'],
  // A campaign's mail, handed over and accepted at once:
  // it is counted in the campaign's figures and has no event of its own.
  ['queued', 'taken', 'delivered', 'auto'],
  // The owner cancelled or deleted the campaign, and needs no event for each mail.
  ['queued', 'dropped', 'failed', 'owner'],
  ['sent', 'dropped', 'failed', 'owner'],
  // There is no event type for "failed": webhooks get a bounce whose data has the reason.
  ['queued', 'expired', 'failed', 'auto', 'email.bounced'],
  ['sent', 'expired', 'failed', 'auto', 'email.bounced'],
])
