// Every event type of the specification, by group, and the types that extend it. The state tables and the code that
// appends an event define when it is emitted. store/events.ts writes all of them.

const SPECIFIED_EVENTS = [
  'email.sent',
  'email.delivered',
  'email.delayed',
  'email.bounced',
  'email.complained',
  'email.opened',
  'email.clicked',
  'email.rejected',
  'email.unsubscribed',
  'inbound_email.received',
  'campaign.sending',
  'campaign.sent',
  'campaign.paused',
  'campaign.failed',
  'domain.verified',
  'domain.verification_failed',
  'domain.suspended',
  'domain.reputation_warning',
  'domain.reputation_recovered',
  'usage.limit_approaching',
  'usage.limit_reached',
  'subscription.past_due',
  'subscription.downgrade_scheduled',
  'subscription.revoked',
  'agent.pool.promoted',
  'agent.pool.demoted',
  'agent.pool.recovered',
  'agent.reputation.damaged',
] as const

/** Extensions of the interface (D155, D158). */
export const EXTENSION_EVENTS = [
  'domain.tls_failures',
  'domain.receiver_warning',
  'domain.receiver_recovered',
  'contact.confirmed',
  'contact.unsubscribed',
  'form.paused',
] as const

export const EVENT_TYPES = [...SPECIFIED_EVENTS, ...EXTENSION_EVENTS] as const

export type EventType = (typeof EVENT_TYPES)[number]
