// One recipient of one outbound email: the queue consists of these rows. `queued` rows have a due time, `active` rows a
// lease. If the process of an active row dies, the lease expires (`lapse`).
//
//   scheduled --due--> queued (or --cancel--> cancelled)
//   queued --claim--> active --accept--> delivered --return--> bounced
//     ^  ^              |  '---refuse, expire, reject, suppress--> final statuses
//     |  '-- defer, lapse, wait '
//     '-- release -- held <-- hold -- queued
import { machine } from './machine.ts'

export const DELIVERY_STATUSES = [
  'scheduled',
  'queued',
  'active',
  'held',
  'delivered',
  'bounced',
  'complained',
  'rejected',
  'suppressed',
  'failed',
  'cancelled',
] as const
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]
export type DeliveryMove =
  | 'due'
  | 'cancel'
  | 'claim'
  | 'accept'
  | 'defer'
  | 'lapse'
  | 'wait'
  | 'withdraw'
  | 'withhold'
  | 'refuse'
  | 'expire'
  | 'reject'
  | 'suppress'
  | 'return'
  | 'complain'
  | 'hold'
  | 'release'
  | 'drop'

export const deliveryMachine = machine<DeliveryStatus, DeliveryMove>('deliveries', [
  ['scheduled', 'due', 'queued', 'auto'],
  ['scheduled', 'cancel', 'cancelled', 'owner'],
  ['queued', 'claim', 'active', 'auto'],
  ['active', 'accept', 'delivered', 'auto'],
  ['active', 'defer', 'queued', 'auto'],
  ['active', 'lapse', 'queued', 'auto'],
  // A problem of this server: no attempt is counted (D72).
  ['active', 'wait', 'queued', 'auto'],
  // A campaign that does not send now puts claimed mail back as if it had not been claimed: queued or held.
  ['active', 'withdraw', 'queued', 'auto'],
  ['active', 'withhold', 'held', 'auto'],
  ['active', 'refuse', 'bounced', 'auto'],
  ['active', 'expire', 'failed', 'auto'],
  ['active', 'reject', 'rejected', 'auto'],
  ['active', 'suppress', 'suppressed', 'auto'],
  // The recipient was erased while the mail waited.
  ['scheduled', 'suppress', 'suppressed', 'auto'],
  ['queued', 'suppress', 'suppressed', 'auto'],
  ['held', 'suppress', 'suppressed', 'auto'],
  ['delivered', 'return', 'bounced', 'auto'],
  ['delivered', 'complain', 'complained', 'auto'],
  // The connection was closed after the final dot, or the reply has not arrived yet. The report shows that the
  // receiving server accepted the message, and the final result. A later reply of the server is ignored.
  ['queued', 'return', 'bounced', 'auto'],
  ['active', 'return', 'bounced', 'auto'],
  ['held', 'return', 'bounced', 'auto'],
  ['queued', 'complain', 'complained', 'auto'],
  ['active', 'complain', 'complained', 'auto'],
  ['held', 'complain', 'complained', 'auto'],
  ['queued', 'hold', 'held', 'operator'],
  ['held', 'release', 'queued', 'operator'],
  ['queued', 'drop', 'failed', 'operator'],
  ['held', 'drop', 'failed', 'operator'],
])
