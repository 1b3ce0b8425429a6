// Every event type for webhooks (specification "Event types", D50, D51): its cause, the webhooks that get it, and the
// shape of its data. A test checks the examples against the schemas; the documentation prints them.
import { isOneOf } from '../base/one-of.ts'
import { z } from 'zod'
import { EVENT_TYPES, type EventType } from '../states/events.ts'
import { RECEIVER_ALARM_KINDS } from '../states/receiver-alarm.ts'
import { valuesOf } from '../schema/tables.ts'

const words = (about: string) => z.string().describe(about)
const number = (about: string) => z.int().describe(about)
const reply = {
  smtp_code: number('The code of the reply, such as 250 or 550.').nullable(),
  enhanced_code: words('The enhanced code of the reply, such as 5.1.1.').nullable(),
  response: words('The words of the reply.').nullable(),
  remote_mta: words('The mail exchanger that replied.').nullable(),
}
const domain_id = words('The id of the sending domain.')

const email = {
  email_id: words('The id of the mail.'),
  message_id: words('The Message-ID of the mail.'),
  domain_id,
  from: words('The sender.'),
  recipient: words('The recipient that it is about; null when it is about the mail.').nullable(),
  recipient_role: z.enum(valuesOf('deliveries', 'role')).nullable().describe('The field of the mail that names it.'),
  subject: words('The subject.'),
  agent_id: words('The agent that sent it.').nullable(),
  campaign_id: words('The campaign that it belongs to.').nullable(),
  contact_id: words('The contact that it went to.').nullable(),
}

/** The results of checks (RFC 8601). */
const VERDICT = 'The result: pass, fail, none and so on.'
const machine = z.boolean().describe('Whether it was a program, such as a scanner, and not a person.')

const emailWith = <T extends z.ZodRawShape>(shape: T) => z.object({ ...email, ...shape })
const status = words('The status that it has now.')
const previous_status = words('The status that it had before.')
const domain = {
  domain_id,
  name: words('The name of the domain.'),
  status,
  previous_status: previous_status.nullable(),
}
const campaign = z.object({
  campaign_id: words('The id of the campaign.'),
  name: words('Its name.'),
  audience_id: words('The audience that it goes to.'),
  domain_id,
  recipients: number('How many contacts get it; null until that is counted.').nullable(),
  status,
  previous_status,
  failure: words('Why it failed.').optional(),
})
/** The results of mail in the period for which reputation is computed. */
const figures = {
  deliveries: number('Deliveries in the period.'),
  bounces: number('Bounces in the period.'),
  complaints: number('Complaints in the period.'),
}
const warned = z.strictObject({ ...domain, ...figures })
const ofReceiver = z.strictObject({
  ...domain,
  receiver: words('The receiver: a provider, or a domain.'),
  kind: z.enum(RECEIVER_ALARM_KINDS).describe('What is unusual.'),
  now: z
    .number()
    .describe('The share of the recipients tried in the last 24 hours, 0 to 1; of `slow` the median in seconds.'),
  before: z.number().nullable().describe('The same in the week before; null: there was too little mail.'),
  volume: number('The recipients tried in the last 24 hours.'),
  words: words('The receiver’s commonest words.').nullable(),
})
const plan = words('The plan of the account.')
const usage = z.strictObject({
  plan,
  included_volume: number('The mails that the plan includes in a month.'),
  used: number('The mails of this month.'),
  month: words('The month, as YYYY-MM.'),
})
const subscription = z.strictObject({
  plan,
  state: words('The state that it has now.'),
  previous_state: words('The state that it had before.'),
})
const downgrade = z.strictObject({
  plan,
  downgrade_to: words('The plan that follows.'),
  at: z.iso.datetime().describe('When it follows.'),
})
const agent = z.strictObject({
  agent_id: words('The agent.'),
  pool: words('The pool that it is in now.'),
  previous_pool: words('The pool that it was in before.'),
  ...figures,
})

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
  'email.delivered': of(
    'The exchanger accepted the mail.',
    'domain',
    emailWith({ delivery: z.object(reply).describe('What the exchanger said.') }),
  ),
  'email.delayed': of(
    'The mail could not be delivered yet and will be tried again; at first, then at most every 4 hours.',
    'domain',
    emailWith({
      delay: z
        .object({
          attempts: number('How often it was tried.'),
          next_attempt_at: z.iso.datetime().describe('When it is tried next.'),
          ...reply,
        })
        .describe('Why it waits.'),
    }),
  ),
  'email.bounced': of(
    'A recipient was refused for good (kind bounced), or the mail could not be delivered in time or at all (kind failed).',
    'domain',
    emailWith({
      bounce: z
        .object({
          kind: words('`bounced`: refused for good; `failed`: not delivered.').nullable(),
          class: words('What the refusal is about, such as `hard`: there is no such recipient.').nullable(),
          ...reply,
        })
        .describe('Why it came back.'),
    }),
  ),
  'email.complained': of(
    'A recipient complained about the mail.',
    'domain',
    emailWith({
      complaint: z
        .object({ feedback_type: words('The kind of the report, such as `abuse` (RFC 5965).').nullable() })
        .describe('The report of the receiver.'),
    }),
  ),
  'email.opened': of(
    'The mail was opened.',
    'domain',
    emailWith({ open: z.object({ machine }).describe('The opening.') }),
  ),
  'email.clicked': of(
    'A link was followed.',
    'domain',
    emailWith({ click: z.object({ machine, url: words('Where the link leads.') }).describe('The click.') }),
  ),
  'email.rejected': of(
    'This server refused to send the mail after accepting it: its domain was removed, the recipient suppressed, …',
    'domain',
    emailWith({
      rejection: z
        .object({
          kind: words('What became of it, such as `suppressed`.').nullable(),
          reason: words('Why, in a sentence.').nullable(),
        })
        .describe('Why it was not sent.'),
    }),
  ),
  'email.unsubscribed': of('A recipient unsubscribed.', 'domain', emailWith({})),
  'inbound_email.received': of(
    'A mail arrived in an inbox.',
    'domain',
    z.object({
      inbound_email_id: words('The id of the mail.'),
      inbox_id: words('The inbox that it came to.'),
      domain_id: words('The domain of the inbox.'),
      status: words('What came of it: `received` when all is well.'),
      envelope: z
        .object({ from: words('The sender.'), to: z.array(z.string()).describe('The recipients.') })
        .describe('Whom the sending server named.'),
      subject: words('The subject.').nullable(),
      from: words('The header From.').nullable(),
      to: z.array(z.string()).describe('The header To.'),
      cc: z.array(z.string()).describe('The header Cc.'),
      reply_to: z.array(z.string()).describe('The header Reply-To.'),
      message_id: words('The header Message-ID.').nullable(),
      in_reply_to: words('The Message-ID that it answers.').nullable(),
      references: z.array(z.string()).describe('The Message-IDs of the thread.'),
      authentication: z
        .object({ spf: words(VERDICT), dkim: words(VERDICT), dmarc: words(VERDICT), arc: words(VERDICT) })
        .describe('Whether the sender is proven.'),
      attachments: z
        .array(
          z.object({
            id: words('For the address of its download.'),
            filename: words('The name that the sender gave it.').nullable(),
            content_type: words('The media type that the sender named.'),
            size: number('Its size in bytes.'),
          }),
        )
        .describe('The files in it.'),
      size: number('The size of the message in bytes.'),
      received_at: z.iso.datetime().describe('When it came.'),
      text: words('The text, or the beginning of a long one.'),
      truncated: z.boolean().describe('Whether the text is cut.'),
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
  'domain.receiver_warning': of(
    'A receiver suddenly takes less of your mail, or takes it later. An extension of the interface.',
    'domain',
    ofReceiver,
  ),
  'domain.receiver_recovered': of(
    'A receiver takes your mail as usual again. An extension of the interface.',
    'domain',
    ofReceiver,
  ),
  'usage.limit_approaching': of('80 % of the plan’s volume is used.', 'user', usage),
  'usage.limit_reached': of('The plan’s volume is used up.', 'user', usage),
  'subscription.past_due': of('The subscription is past due.', 'user', subscription),
  'subscription.downgrade_scheduled': of('A downgrade of the plan was scheduled.', 'user', downgrade),
  'subscription.revoked': of('The subscription was revoked.', 'user', subscription),
  'agent.pool.promoted': of('An agent’s pool was promoted.', 'user', agent),
  'agent.pool.demoted': of('An agent’s pool was demoted.', 'user', agent),
  'agent.pool.recovered': of('An agent’s reputation recovered.', 'user', agent),
  'domain.report_trouble': of(
    'Others report that encrypted connections with mail to the domain failed; at most once a day. An extension of the interface.',
    'domain',
    z.strictObject({
      ...domain,
      day: words('The day (UTC) of the connections, as YYYY-MM-DD.'),
      sessions: number('Connections of that day, as all reporters say.'),
      failures: number('Those that failed.'),
      results: z.record(z.string(), z.int()).describe('Failed connections by result (RFC 8460 §4.3).'),
    }),
  ),
  'agent.reputation.damaged': of('An agent’s reputation was damaged.', 'user', agent),
}

export const isEventType = (text: string): text is EventType => isOneOf(EVENT_TYPES, text)
