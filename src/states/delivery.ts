// One recipient of one outbound email: the queue consists of these rows. `queued` rows have a due time, `active` rows a
// lease. When the process of an active row has died, the lease runs out (`lapse`).
//
//   queued --claim--> active --accept--> delivered --return--> bounced
//     ^  ^              |  '---refuse, expire, reject, suppress--> their ends
//     |  '-- defer, lapse, wait '
//     '-- release -- held <-- hold -- queued
import { machine } from './machine.ts'

export const DELIVERY_STATUSES = [
  'queued',
  'active',
  'held',
  'delivered',
  'bounced',
  'complained',
  'rejected',
  'suppressed',
  'failed',
] as const
export type DeliveryStatus = (typeof DELIVERY_STATUSES)[number]
export type DeliveryMove =
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
  ['queued', 'claim', 'active', 'auto'],
  ['active', 'accept', 'delivered', 'auto'],
  ['active', 'defer', 'queued', 'auto'],
  ['active', 'lapse', 'queued', 'auto'],
  // Trouble of this server: no attempt is counted (D72).
  ['active', 'wait', 'queued', 'auto'],
  // A campaign that does not send now puts claimed mail back as if it had not been claimed: queued or held.
  ['active', 'withdraw', 'queued', 'auto'],
  ['active', 'withhold', 'held', 'auto'],
  ['active', 'refuse', 'bounced', 'auto'],
  ['active', 'expire', 'failed', 'auto'],
  ['active', 'reject', 'rejected', 'auto'],
  ['active', 'suppress', 'suppressed', 'auto'],
  // The recipient was erased while the mail waited.
  ['queued', 'suppress', 'suppressed', 'auto'],
  ['held', 'suppress', 'suppressed', 'auto'],
  ['delivered', 'return', 'bounced', 'auto'],
  ['delivered', 'complain', 'complained', 'auto'],
  // The connection was cut after the final dot, or the answer has not arrived yet. The report shows that the exchanger
  // had accepted the mail, and how the delivery ended. A later answer of the exchanger changes nothing.
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
