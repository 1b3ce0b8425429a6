// Examples of each event's data, for webhook tests and the documentation. A test checks them against the catalogue's
// schemas.
import type { EventType } from '../store/states/events.ts'

const email = {
  email_id: '019bc186-de00-738a-a9ec-e0b19577265d',
  message_id: '<019bc186-de00-738a-a9ec-e0b19577265d@example.org>',
  domain_id: '019bc186-1f3a-7c11-8d20-5a0b7c9d1e2f',
  from: 'hello@example.org',
  recipient: 'ann@example.net',
  recipient_role: 'to',
  subject: 'First email',
  agent_id: null,
  batch_id: null,
  campaign_id: null,
  contact_id: null,
  tags: ['welcome'],
  metadata: { order: '1017' },
}
const accepted = { smtp_code: 250, enhanced_code: '2.0.0', response: 'OK queued', remote_mta: 'mx.example.net' }
const refused = { smtp_code: 550, enhanced_code: '5.1.1', response: 'No such user', remote_mta: 'mx.example.net' }
const deferred = { smtp_code: 451, enhanced_code: '4.7.1', response: 'Greylisted', remote_mta: 'mx.example.net' }
const domain = (status: string, previous_status: string | null) => ({
  domain_id: email.domain_id,
  name: 'example.org',
  status,
  previous_status,
})
const campaign = {
  campaign_id: '019bc186-4c00-7d00-9a00-3b3b3b3b3b3b',
  name: 'Spring',
  audience_id: '019bc186-7f00-7a00-8d00-6e6e6e6e6e6e',
  domain_id: '019bc186-1f3a-7c11-8d20-5a0b7c9d1e2f',
  recipients: 1200,
}
const receiver = { receiver: 'Google', kind: 'deferred', volume: 1200, reply: '421 4.7.28 Unusual rate of mail' }
const usage = { plan: 'growth', included_volume: 100_000, month: '2026-01' }
const good = { deliveries: 990, bounces: 10, complaints: 0 }
const bad = { deliveries: 880, bounces: 120, complaints: 3 }
const agent = { agent_id: 'billing-bot', previous_pool: 'standard' }

const contact = {
  ...domain('active', null),
  contact_id: '019bc186-8f00-7b00-8e00-7f7f7f7f7f7f',
  audience_id: campaign.audience_id,
  form_id: '019bc186-9f00-7c00-8f00-8a8a8a8a8a8a',
  email: 'ann@example.net',
}

export const SAMPLES: Record<EventType, Record<string, unknown>> = {
  'email.sent': email,
  'email.delivered': { ...email, delivery: accepted },
  'email.delayed': { ...email, delay: { attempts: 1, next_attempt_at: '2026-01-15T12:05:00.000Z', ...deferred } },
  'email.bounced': { ...email, bounce: { kind: 'bounced', class: 'hard', ...refused } },
  'email.complained': { ...email, complaint: { feedback_type: 'abuse' } },
  'email.opened': { ...email, open: { machine: false } },
  'email.clicked': { ...email, click: { machine: false, url: 'https://example.org/offer' } },
  'email.rejected': {
    ...email,
    rejection: { kind: 'suppressed', reason: 'The address was suppressed.', suppression_reason: 'hard_bounce' },
  },
  'email.unsubscribed': email,
  'inbound_email.received': {
    inbound_email_id: '019bc186-5d00-7e00-8b00-4c4c4c4c4c4c',
    inbox_id: '019bc186-6e00-7f00-8c00-5d5d5d5d5d5d',
    domain_id: email.domain_id,
    status: 'received',
    envelope: { from: 'ann@example.net', to: ['hello@example.org'] },
    subject: 'Re: First email',
    from: 'Ann <ann@example.net>',
    to: ['hello@example.org'],
    cc: [],
    reply_to: [],
    message_id: '<reply-1@example.net>',
    in_reply_to: email.message_id,
    references: [email.message_id],
    authentication: { spf: 'pass', dkim: 'pass', dmarc: 'pass', arc: 'none' },
    attachments: [],
    size: 1432,
    received_at: '2026-01-15T12:00:00.000Z',
    text: 'Thanks, got it.',
    truncated: false,
  },
  'campaign.sending': { ...campaign, status: 'sending', previous_status: 'scheduled' },
  'campaign.sent': { ...campaign, status: 'sent', previous_status: 'sending' },
  'campaign.paused': { ...campaign, status: 'paused', previous_status: 'sending' },
  'campaign.failed': { ...campaign, status: 'failed', previous_status: 'sending' },
  'domain.verified': domain('active', 'verifying'),
  'domain.verification_failed': domain('failed', 'verifying'),
  'domain.suspended': domain('suspended', 'active'),
  'domain.reputation_warning': { ...domain('active', null), ...bad },
  'domain.reputation_recovered': { ...domain('active', null), ...good },
  'domain.tls_failures': {
    ...domain('active', null),
    day: '2026-01-14',
    sessions: 420,
    failures: 12,
    results: { 'certificate-expired': 12 },
  },
  'domain.receiver_warning': { ...domain('active', null), ...receiver, current: 0.18, baseline: 0.01 },
  'domain.receiver_recovered': { ...domain('active', null), ...receiver, current: 0.02, baseline: 0.01 },
  'contact.confirmed': contact,
  'contact.unsubscribed': { ...contact, form_id: null },
  'form.paused': {
    ...domain('active', null),
    form_id: contact.form_id,
    form_name: 'Website',
    reason: '201 sign-ups within an hour, the limit is 200.',
  },
  'usage.limit_approaching': { ...usage, used: 80_000 },
  'usage.limit_reached': { ...usage, used: 100_000 },
  'subscription.past_due': { plan: 'growth', state: 'past_due', previous_state: 'active' },
  'subscription.downgrade_scheduled': { plan: 'growth', downgrade_to: 'starter', at: '2026-02-01T00:00:00.000Z' },
  'subscription.revoked': { plan: 'growth', state: 'revoked', previous_state: 'past_due' },
  'agent.pool.promoted': { ...agent, pool: 'trusted', ...good },
  'agent.pool.demoted': { ...agent, pool: 'probation', ...bad },
  'agent.pool.recovered': { ...agent, previous_pool: 'damaged', pool: 'probation', ...good },
  'agent.reputation.damaged': { ...agent, pool: 'damaged', ...bad },
}
