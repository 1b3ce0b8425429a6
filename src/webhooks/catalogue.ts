// The event types of webhooks (specification "Event types", D50, D51): the cause, the receiving webhooks, and the
// schema of the data. A test checks the examples against the schemas, and the documentation prints them.
import { isOneOf } from '../base/one-of.ts'
import { z } from 'zod'
import { BRAKE_REASONS } from '../store/states/campaign.ts'
import { EVENT_TYPES, type EventType } from '../store/states/events.ts'
import { RECEIVER_ALARM_KINDS } from '../store/states/receiver-alarm.ts'
import { valuesOf } from '../store/schema/tables.ts'

const words = (about: string) => z.string().describe(about)
const number = (about: string) => z.int().describe(about)
const reply = {
  smtp_code: number('SMTP reply code, such as 250 or 550. Null if the server did not reply.').nullable(),
  enhanced_code: words('Enhanced status code, such as 5.1.1. Null if absent.').nullable(),
  response: words('Text of the reply. Null if the server did not reply.').nullable(),
  remote_mta: words('Host name of the receiving server. Null if no server was reached.').nullable(),
}
const domain_id = words('Id of the sending domain.')

const email = {
  email_id: words('Id of the email.'),
  message_id: words('Message-ID of the email.'),
  domain_id,
  from: words('Sender.'),
  recipient: words('Recipient that the event is about. Null if it concerns the whole email.').nullable(),
  recipient_role: z
    .enum(valuesOf('deliveries', 'role'))
    .nullable()
    .describe('Header field that contains the recipient. Null if `recipient` is null.'),
  subject: words('Subject.'),
  agent_id: words('Agent that sent the email. Null if no agent was named.').nullable(),
  batch_id: words('Batch of the email. Null for a single email.').nullable(),
  campaign_id: words('Campaign of the email. Null for transactional email.').nullable(),
  contact_id: words('Contact that it was sent to. Null for transactional email.').nullable(),
  tags: z.array(z.string()).describe('Tags of the email. Empty without any.'),
  metadata: z.record(z.string(), z.string()).describe('Metadata of the email. Empty without any.'),
}

/** The results of checks (RFC 8601). */
const VERDICT = 'Result, such as `pass`, `fail` or `none`.'
const machine = z.boolean().describe('True if an automatic client, such as a scanner, caused it.')

const emailWith = <T extends z.ZodRawShape>(shape: T) => z.object({ ...email, ...shape })
const status = words('Current status.')
const previous_status = words('Previous status.')
const domain = {
  domain_id,
  name: words('Name of the domain.'),
  status,
  previous_status: words('Previous status. Null if absent.').nullable(),
}
const campaign = z.object({
  campaign_id: words('Id of the campaign.'),
  name: words('Name of the campaign.'),
  audience_id: words('Audience of the campaign.'),
  domain_id,
  recipients: number('Number of recipients. Null until they are counted.').nullable(),
  status,
  previous_status,
  failure: words('Reason for the failure or for an automatic pause. Absent without one.').optional(),
  reason: z.enum(BRAKE_REASONS).describe('What paused the campaign automatically. Absent otherwise.').optional(),
})
/** Delivery results in the period from which reputation is computed. */
const figures = {
  deliveries: number('Number of deliveries in the period.'),
  bounces: number('Number of bounces in the period.'),
  complaints: number('Number of complaints in the period.'),
}
const warned = z.strictObject({ ...domain, ...figures })
const ofReceiver = z.strictObject({
  ...domain,
  receiver: words('Mailbox provider, or recipient domain.'),
  kind: z.enum(RECEIVER_ALARM_KINDS).describe('Kind of anomaly.'),
  current: z
    .number()
    .describe('Rate among the recipients attempted in the last 24 hours, 0 to 1. For `slow`, the median in seconds.'),
  baseline: z.number().nullable().describe('The same for the week before. Null if there was too little email.'),
  volume: number('Number of recipients attempted in the last 24 hours.'),
  reply: words('Most frequent reply of the receiving servers. Null if absent.').nullable(),
})
const plan = words('Plan of the account.')
const usage = z.strictObject({
  plan,
  included_volume: number('Recipients per month that the plan includes.'),
  used: number('Recipients used this month.'),
  month: words('Month, as YYYY-MM.'),
})
const subscription = z.strictObject({
  plan,
  state: words('Current state.'),
  previous_state: words('Previous state.'),
})
const downgrade = z.strictObject({
  plan,
  downgrade_to: words('Plan after the downgrade.'),
  at: z.iso.datetime().describe('Time of the downgrade.'),
})
const agent = z.strictObject({
  agent_id: words('Agent.'),
  pool: words('Current pool.'),
  previous_pool: words('Previous pool.'),
  ...figures,
})

const contact = z.strictObject({
  ...domain,
  contact_id: words('Contact.'),
  audience_id: words('Audience.'),
  form_id: words('Form. Null if no form is involved.').nullable(),
  email: words('Address of the contact.'),
})
const pausedForm = z.strictObject({
  ...domain,
  form_id: words('Form.'),
  form_name: words('Name of the form.'),
  reason: words('Why the form was paused.'),
})

export interface EventDescription {
  about: string
  /** Which webhooks receive the event: those of the domain, or all webhooks of the user. */
  to: 'domain' | 'user'
  data: z.ZodType
}

const of = (about: string, to: 'domain' | 'user', data: z.ZodType): EventDescription => ({ about, to, data })

export const CATALOGUE: Record<EventType, EventDescription> = {
  'email.sent': of('The email was handed to the receiving server.', 'domain', emailWith({})),
  'email.delivered': of(
    'The receiving server accepted the email.',
    'domain',
    emailWith({ delivery: z.object(reply).describe('Reply of the receiving server.') }),
  ),
  'email.delayed': of(
    'The email was deferred and will be retried. Sent for the first deferral, then at most every 4 hours.',
    'domain',
    emailWith({
      delay: z
        .object({
          attempts: number('Number of attempts.'),
          next_attempt_at: z.iso.datetime().describe('Time of the next attempt.'),
          ...reply,
        })
        .describe('Reason for the delay.'),
    }),
  ),
  'email.bounced': of(
    'The email was permanently rejected for a recipient (kind `bounced`), or could not be delivered (kind `failed`).',
    'domain',
    emailWith({
      bounce: z
        .object({
          kind: words(
            '`bounced`: permanently rejected. `failed`: not delivered in time, or not deliverable. Null if unknown.',
          ).nullable(),
          class: words(
            'Class of the rejection, such as `hard` if the recipient does not exist. Null if unknown.',
          ).nullable(),
          ...reply,
        })
        .describe('Reason for the bounce.'),
    }),
  ),
  'email.complained': of(
    'A recipient marked the email as spam.',
    'domain',
    emailWith({
      complaint: z
        .object({
          feedback_type: words('Feedback type of the report, such as `abuse` (RFC 5965). Null if unknown.').nullable(),
        })
        .describe('Complaint report of the mailbox provider.'),
    }),
  ),
  'email.opened': of(
    'The email was opened.',
    'domain',
    emailWith({ open: z.object({ machine }).describe('Details of the open.') }),
  ),
  'email.clicked': of(
    'A link in the email was clicked.',
    'domain',
    emailWith({ click: z.object({ machine, url: words('Target of the link.') }).describe('Details of the click.') }),
  ),
  'email.rejected': of(
    'Postrider did not send the email after accepting it, for example because its domain was removed or the recipient was suppressed.',
    'domain',
    emailWith({
      rejection: z
        .object({
          kind: words('Resulting status, such as `suppressed`. Null if unknown.').nullable(),
          reason: words('Reason, as a sentence. Null if unknown.').nullable(),
          suppression_reason: z
            .enum([...valuesOf('suppressions', 'reason'), 'erasure'])
            .nullable()
            .describe(
              'Why the recipient is suppressed. Null if the reason is another one, or from an earlier version.',
            ),
        })
        .describe('Reason for the rejection.'),
    }),
  ),
  'email.unsubscribed': of('A recipient unsubscribed.', 'domain', emailWith({})),
  'inbound_email.received': of(
    'A message arrived in an inbox.',
    'domain',
    z.object({
      inbound_email_id: words('Id of the received message.'),
      inbox_id: words('Inbox that received it.'),
      domain_id: words('Domain of the inbox.'),
      status: words('Status of the message: `received` if it was parsed without a problem.'),
      envelope: z
        .object({ from: words('Sender.'), to: z.array(z.string()).describe('Recipients.') })
        .describe('SMTP envelope.'),
      subject: words('Subject. Null if absent.').nullable(),
      from: words('From header. Null if absent.').nullable(),
      to: z.array(z.string()).describe('To header.'),
      cc: z.array(z.string()).describe('Cc header.'),
      reply_to: z.array(z.string()).describe('Reply-To header.'),
      message_id: words('Message-ID header. Null if absent.').nullable(),
      in_reply_to: words('Message-ID of the email that it replies to. Null if absent.').nullable(),
      references: z.array(z.string()).describe('Message-IDs of the thread, oldest first.'),
      authentication: z
        .object({ spf: words(VERDICT), dkim: words(VERDICT), dmarc: words(VERDICT), arc: words(VERDICT) })
        .describe('Results of the sender authentication (RFC 8601).'),
      attachments: z
        .array(
          z.object({
            id: words('Id for the download URL.'),
            filename: words('File name. Null if absent.').nullable(),
            content_type: words('Media type declared by the sender.'),
            size: number('Size in bytes.'),
          }),
        )
        .describe('Attachments.'),
      size: number('Size of the message in bytes.'),
      received_at: z.iso.datetime().describe('Time of receipt.'),
      text: words('Text body, or its first 8 KB.'),
      truncated: z.boolean().describe('True if the text is truncated.'),
    }),
  ),
  'campaign.sending': of('A campaign started sending, or resumed after a pause.', 'domain', campaign),
  'campaign.sent': of('A campaign was sent to all of its recipients.', 'domain', campaign),
  'campaign.paused': of('A campaign was paused.', 'domain', campaign),
  'campaign.failed': of('A campaign failed.', 'domain', campaign),
  'domain.verified': of('A sending domain became active.', 'domain', z.looseObject(domain)),
  'domain.verification_failed': of(
    'A sending domain was not verified within the verification window.',
    'domain',
    z.looseObject(domain),
  ),
  'domain.suspended': of(
    'A sending domain was suspended, because removing it failed.',
    'domain',
    z.looseObject(domain),
  ),
  'domain.reputation_warning': of('The bounce or complaint rate of a domain exceeded its limit.', 'domain', warned),
  'domain.reputation_recovered': of(
    'The bounce and complaint rates of a domain are below their limits again.',
    'domain',
    warned,
  ),
  'domain.receiver_warning': of(
    'A mailbox provider suddenly defers, rejects or delays more of your email than before.',
    'domain',
    ofReceiver,
  ),
  'domain.receiver_recovered': of('A mailbox provider accepts your email as usual again.', 'domain', ofReceiver),
  'contact.confirmed': of('A contact confirmed its subscription.', 'domain', contact),
  'contact.unsubscribed': of(
    'A contact unsubscribed from one audience. Unsubscribing from all campaigns of a domain causes `email.unsubscribed`.',
    'domain',
    contact,
  ),
  'form.paused': of(
    'A form was paused automatically, because of too many sign-ups, bounces or refusals.',
    'domain',
    pausedForm,
  ),
  'usage.limit_approaching': of('80 % of the volume of the plan is used.', 'user', usage),
  'usage.limit_reached': of('The volume of the plan is used up.', 'user', usage),
  'subscription.past_due': of('The subscription is past due.', 'user', subscription),
  'subscription.downgrade_scheduled': of('A downgrade of the plan was scheduled.', 'user', downgrade),
  'subscription.revoked': of('The subscription was revoked.', 'user', subscription),
  'agent.pool.promoted': of('An agent moved to a better pool.', 'user', agent),
  'agent.pool.demoted': of('An agent moved to a worse pool.', 'user', agent),
  'agent.pool.recovered': of('The reputation of an agent recovered.', 'user', agent),
  'domain.tls_failures': of(
    'TLS reports show failed connections for email to the domain. Sent at most once per day.',
    'domain',
    z.strictObject({
      ...domain,
      day: words('Day of the connections (UTC), as YYYY-MM-DD.'),
      sessions: number('Number of reported connections.'),
      failures: number('Number of failed connections.'),
      results: z.record(z.string(), z.int()).describe('Failed connections per result type (RFC 8460 §4.3).'),
    }),
  ),
  'agent.reputation.damaged': of('The reputation of an agent was damaged.', 'user', agent),
}

export const isEventType = (text: string): text is EventType => isOneOf(EVENT_TYPES, text)
