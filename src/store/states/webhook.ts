// A webhook's life (specification "Webhook", D54).
//
//   active --pause--> paused --resume--> active
//   active --gone (410), exhausted (10 failures)--> disabled --enable--> active
import { machine } from './machine.ts'

export const WEBHOOK_STATUSES = ['active', 'paused', 'disabled'] as const
export type WebhookStatus = (typeof WEBHOOK_STATUSES)[number]
export type WebhookMove = 'pause' | 'resume' | 'gone' | 'exhausted'

export const webhookMachine = machine<WebhookStatus, WebhookMove>('webhooks', [
  ['active', 'pause', 'paused', 'owner'],
  ['active', 'gone', 'disabled', 'auto'],
  ['active', 'exhausted', 'disabled', 'auto'],
  // These moves are from D54, not from the specification. A paused endpoint may answer 410 to a replayed delivery.
  ['paused', 'resume', 'active', 'owner'],
  ['paused', 'gone', 'disabled', 'auto'],
  ['disabled', 'resume', 'active', 'owner'],
  ['disabled', 'pause', 'paused', 'owner'],
])
