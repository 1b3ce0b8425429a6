// An outbound email's life (specification "Outbound email", D25). It depends only on its primary recipient.
//
//   scheduled --due--> queued (or --cancel--> cancelled)
//   queued --handed--> sent --accepted--> delivered --returned--> bounced
//      |                |                     '------complained--> complained
//      '--- refused, expired, rejected, suppressed: see the rows ---'
//
// A status never claims more than the SMTP transcript shows. `handed`: the final dot was sent. `accepted`: the 250 was
// read.
import { machine } from './machine.ts'

export const EMAIL_STATUSES = [
  'scheduled',
  'queued',
  'sent',
  'delivered',
  'bounced',
  'complained',
  'rejected',
  'suppressed',
  'failed',
  'cancelled',
] as const
export type EmailStatus = (typeof EMAIL_STATUSES)[number]
export type EmailMove =
  | 'due'
  | 'cancel'
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
  ['scheduled', 'due', 'queued', 'auto'],
  ['scheduled', 'cancel', 'cancelled', 'owner'],
  // The recipient was erased before the email was due.
  ['scheduled', 'suppressed', 'suppressed', 'auto', 'email.rejected'],
  ['queued', 'handed', 'sent', 'auto', 'email.sent'],
  ['sent', 'accepted', 'delivered', 'auto', 'email.delivered'],
  // A permanent rejection, in the session or later by a bounce message.
  ['queued', 'refused', 'bounced', 'auto', 'email.bounced'],
  ['sent', 'refused', 'bounced', 'auto', 'email.bounced'],
  ['sent', 'returned', 'bounced', 'auto', 'email.bounced'],
  ['delivered', 'returned', 'bounced', 'auto', 'email.bounced'],
  // A report arrived before the result of the attempt was written.
  ['queued', 'returned', 'bounced', 'auto', 'email.bounced'],
  ['queued', 'complained', 'complained', 'auto', 'email.complained'],
  ['sent', 'complained', 'complained', 'auto', 'email.complained'],
  ['delivered', 'complained', 'complained', 'auto', 'email.complained'],
  ['queued', 'rejected', 'rejected', 'auto', 'email.rejected'],
  ['sent', 'rejected', 'rejected', 'auto', 'email.rejected'],
  ['queued', 'suppressed', 'suppressed', 'auto', 'email.rejected'],
  ['sent', 'suppressed', 'suppressed', 'auto', 'email.rejected'],
  // A campaign email, sent and accepted at once: it counts in the campaign statistics and has no event of its own.
  ['queued', 'taken', 'delivered', 'auto'],
  // The owner cancelled or deleted the campaign, and needs no event for each email.
  ['queued', 'dropped', 'failed', 'owner'],
  ['sent', 'dropped', 'failed', 'owner'],
  // There is no event type for "failed": webhooks get a bounce whose data has the reason.
  ['queued', 'expired', 'failed', 'auto', 'email.bounced'],
  ['sent', 'expired', 'failed', 'auto', 'email.bounced'],
])
