// Every event type for webhooks (specification "Event types", D50, D51): its cause, the webhooks that get it, and the
// shape of its data. A test checks the examples against the schemas; the documentation prints them.
import { isOneOf } from '../base/one-of.ts'
import { z } from 'zod'
import { EVENT_TYPES, type EventType } from '../states/events.ts'
import { valuesOf } from '../schema/tables.ts'

const id = z.string()
const reply = {
  smtp_code: z.int().nullable(),
  enhanced_code: z.string().nullable(),
  response: z.string().nullable(),
  remote_mta: z.string().nullable(),
}

const email = {
  email_id: id,
  message_id: z.string(),
  domain_id: id,
  from: z.string(),
  recipient: z.string().nullable(),
  recipient_role: z.enum(valuesOf('deliveries', 'role')).nullable(),
  subject: z.string(),
  agent_id: z.string().nullable(),
  campaign_id: id.nullable(),
  contact_id: id.nullable(),
}

const emailWith = <T extends z.ZodRawShape>(shape: T) => z.object({ ...email, ...shape })
const domain = {
  domain_id: id,
  name: z.string(),
  status: z.string(),
  previous_status: z.string().nullable(),
}
const campaign = z.object({
  campaign_id: id,
  name: z.string(),
  audience_id: id,
  domain_id: id,
  recipients: z.int().nullable(),
  status: z.string(),
  previous_status: z.string(),
  failure: z.string().optional(),
})
/** The results of mail in the period for which reputation is computed. */
const figures = { deliveries: z.int(), bounces: z.int(), complaints: z.int() }
const warned = z.strictObject({ ...domain, ...figures })
const usage = z.strictObject({ plan: z.string(), included_volume: z.int(), used: z.int(), month: z.string() })
const subscription = z.strictObject({ plan: z.string(), state: z.string(), previous_state: z.string() })
const downgrade = z.strictObject({ plan: z.string(), downgrade_to: z.string(), at: z.iso.datetime() })
const agent = z.strictObject({ agent_id: z.string(), pool: z.string(), previous_pool: z.string(), ...figures })

export interface EventDescription {
  /** The cause of the event. */
  about: string
  /** Whether the webhooks of the domain get the event, or all webhooks of the user. */
  to: 'domain' | 'user'
  data: z.ZodType
}

const of = (about: string, to: 'domain' | 'user', data: z.ZodType): EventDescription => ({ about, to, data })

export const CATALOGUE: Record<EventType, EventDescription> = {
  'email.sent': of('The mail was handed to a mail exchanger.', 'domain', emailWith({})),
  'email.delivered': of('The exchanger accepted the mail.', 'domain', emailWith({ delivery: z.object(reply) })),
  'email.delayed': of(
    'The mail could not be delivered yet and will be tried again; at first, then at most every 4 hours.',
    'domain',
    emailWith({ delay: z.object({ attempts: z.int(), next_attempt_at: z.iso.datetime(), ...reply }) }),
  ),
  'email.bounced': of(
    'A recipient was refused for good (kind bounced), or the mail could not be delivered in time or at all (kind failed).',
    'domain',
    emailWith({ bounce: z.object({ kind: z.string().nullable(), class: z.string().nullable(), ...reply }) }),
  ),
  'email.complained': of(
    'A recipient complained about the mail.',
    'domain',
    emailWith({ complaint: z.object({ feedback_type: z.string().nullable() }) }),
  ),
  'email.opened': of('The mail was opened.', 'domain', emailWith({ open: z.object({ machine: z.boolean() }) })),
  'email.clicked': of(
    'A link was followed.',
    'domain',
    emailWith({ click: z.object({ machine: z.boolean(), url: z.string() }) }),
  ),
  'email.rejected': of(
    'This server refused to send the mail after accepting it: its domain was removed, the recipient suppressed, …',
    'domain',
    emailWith({ rejection: z.object({ kind: z.string().nullable(), reason: z.string().nullable() }) }),
  ),
  'email.unsubscribed': of('A recipient unsubscribed.', 'domain', emailWith({})),
  'inbound_email.received': of(
    'A mail arrived in an inbox.',
    'domain',
    z.object({
      inbound_email_id: id,
      inbox_id: id,
      domain_id: id,
      status: z.string(),
      envelope: z.object({ from: z.string(), to: z.array(z.string()) }),
      subject: z.string().nullable(),
      from: z.string().nullable(),
      to: z.array(z.string()),
      cc: z.array(z.string()),
      reply_to: z.array(z.string()),
      message_id: z.string().nullable(),
      in_reply_to: z.string().nullable(),
      references: z.array(z.string()),
      authentication: z.object({ spf: z.string(), dkim: z.string(), dmarc: z.string(), arc: z.string() }),
      attachments: z.array(z.object({ id, filename: z.string().nullable(), content_type: z.string(), size: z.int() })),
      size: z.int(),
      received_at: z.iso.datetime(),
      text: z.string(),
      truncated: z.boolean(),
    }),
  ),
  'campaign.sending': of('A campaign began to send, or went on after a pause.', 'domain', campaign),
  'campaign.sent': of('A campaign has been sent.', 'domain', campaign),
  'campaign.paused': of('A campaign was paused.', 'domain', campaign),
  'campaign.failed': of('A campaign could not be sent.', 'domain', campaign),
  'domain.verified': of('A sending domain became active.', 'domain', z.looseObject(domain)),
  'domain.verification_failed': of(
    'A sending domain was not verified within its window.',
    'domain',
    z.looseObject(domain),
  ),
  'domain.suspended': of('The removal of a sending domain failed; it is suspended.', 'domain', z.looseObject(domain)),
  'domain.reputation_warning': of('Bounces or complaints of a domain passed the limit.', 'domain', warned),
  'domain.reputation_recovered': of('Bounces and complaints of a domain are back below the limit.', 'domain', warned),
  'usage.limit_approaching': of('80 % of the plan’s volume is used.', 'user', usage),
  'usage.limit_reached': of('The plan’s volume is used up.', 'user', usage),
  'subscription.past_due': of('The subscription is past due.', 'user', subscription),
  'subscription.downgrade_scheduled': of('A downgrade of the plan was scheduled.', 'user', downgrade),
  'subscription.revoked': of('The subscription was revoked.', 'user', subscription),
  'agent.pool.promoted': of('An agent’s pool was promoted.', 'user', agent),
  'agent.pool.demoted': of('An agent’s pool was demoted.', 'user', agent),
  'agent.pool.recovered': of('An agent’s reputation recovered.', 'user', agent),
  'agent.reputation.damaged': of('An agent’s reputation was damaged.', 'user', agent),
}

export const isEventType = (text: string): text is EventType => isOneOf(EVENT_TYPES, text)
