// One event on its way to one webhook (D53, D54).
//
//   pending --claim--> active --accept--> delivered
//      ^                  |---retry------> pending
//      '---- lapse -------|---give up----> failed
//   pending --hold--> held     (the webhook was disabled, paused or deleted: no attempts)
import { machine } from './machine.ts'

export const OUTCOMES = ['pending', 'active', 'delivered', 'failed', 'held'] as const
export type Outcome = (typeof OUTCOMES)[number]
export type WebhookDeliveryMove = 'claim' | 'accept' | 'retry' | 'give_up' | 'lapse' | 'hold' | 'release'

export const webhookDeliveryMachine = machine<Outcome, WebhookDeliveryMove>('outbound_webhooks', [
  ['pending', 'claim', 'active', 'auto'],
  ['active', 'accept', 'delivered', 'auto'],
  ['active', 'retry', 'pending', 'auto'],
  ['active', 'lapse', 'pending', 'auto'],
  ['active', 'give_up', 'failed', 'auto'],
  ['pending', 'hold', 'held', 'auto'],
  ['active', 'hold', 'held', 'auto'],
  ['held', 'release', 'pending', 'owner'],
])
