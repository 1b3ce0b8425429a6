// Transactional email: submit, list, show and delete.
import { MAIL_BODY } from '../jsonapi/body.ts'
import { createHash } from 'node:crypto'
import { z } from 'zod'
import { iso, isTime } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { EMAIL_STATUSES } from '../store/states/outbound-email.ts'
import { definer, field, type Call, type Caller } from '../jsonapi/resource.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { ListedRow } from '../store/list.ts'
import { bodyOf, shownBody } from './body.ts'
import { fillLean, ofLargeCampaign } from './bulk.ts'
import { deliveriesOf, moveQueued, retryNow, type ClaimedMove } from '../delivery/queue/operator.ts'
import { waitingReasons } from '../delivery/waiting-reason.ts'
import type { Delivery } from '../delivery/results/settle.ts'
import { agentOf, ofCaller, requireSendingDomain, requireSubscription } from './accept/admit.ts'
import { deleteEmail, keyForDay, submitEmail, type SubmitDeps } from './accept/submit.ts'
import { search } from './search.ts'
import { cancelScheduled, reschedule } from './schedule.ts'
import { sourceOf, type SourceDeps } from './source.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { selected } from '../jsonapi/fields.ts'
import {
  address,
  addresses,
  attachment,
  headerFields,
  line,
  messageIdText,
  metadataObject,
  momentOrDuration,
  tagList,
  text,
  unsubscribeLinks,
} from '../jsonapi/schemas.ts'
import { valuesOf } from '../store/schema/tables.ts'

const MEGABYTE = 1024 * 1024
const MAX_ADDRESSES = 10
const MAX_ATTACHMENTS = 20

/** The dependencies of the email resource. */
export interface MailParts extends Required<Pick<SubmitDeps, 'claimNew'>>, Pick<SourceDeps, 'campaignLetter'> {
  /** Holds or drops an email that waits in memory for its turn. Returns how many recipients moved. */
  moveWaiting: (emailKey: number, on: ClaimedMove) => Promise<number>
}
type Parts = ApiDeps & MailParts

/** The codes of errors of the actions that write an email from its attributes. */
export const SEND_REFUSALS = [
  'not_found',
  'subscription_inactive',
  'idempotency_conflict',
  'agent_paused',
  'recipient_suppressed',
  'domain_not_active',
  'tracking_disabled',
  'address_outside_domain',
  'reserved_header',
  'forbidden_attachment',
  'attachment_unavailable',
  'message_too_large',
  'volume_exceeded',
] as const

export const submitDepsOf = ({ bells, ...parts }: Parts): SubmitDeps => ({ ...parts, ring: bells.deliveries })
const choice = (about: string) =>
  field(z.boolean('must be true, false or null').nullable(), { create: 'optional', kind: 'flag', about })
const more = (about: string) =>
  field(addresses(MAX_ADDRESSES).nullable(), {
    create: 'optional',
    kind: 'json',
    answer: z.array(z.string()).nullable(),
    about,
  })
const timeOrNull = (about: string) => field(z.iso.datetime().nullable(), { kind: 'time', about })

const recipient = z.object({
  address: z.string().describe('Email address.'),
  role: z.enum(valuesOf('deliveries', 'role')).describe('Field of the email that contains the address.'),
  status: z.enum(EMAIL_STATUSES).describe('Delivery status for this recipient.'),
  smtp_code: z
    .int()
    .min(0)
    .nullable()
    .describe('Last SMTP reply code, such as 250 or 550. Null before the first reply.'),
  enhanced_code: z.string().nullable().describe('Last enhanced status code, such as 5.1.1. Null if absent.'),
  response: z.string().nullable().describe('Text of the last SMTP reply. Null before the first reply.'),
  remote_mta: z.string().nullable().describe('Receiving server that replied. Null before the first reply.'),
  attempts: z.int().min(0).describe('Number of delivery attempts, including one in progress.'),
  next_attempt_at: z.iso
    .datetime()
    .nullable()
    .describe('Time of the next attempt. Null unless the recipient is queued and not on hold.'),
  waiting_reason: z
    .string()
    .nullable()
    .describe(
      'Reason why the recipient is queued, such as a paused campaign or a deferral. Null if it is next in line or not queued.',
    ),
})

/** An attachment in API responses, without its content. */
const attached = z.object({
  filename: z.string().describe('File name.'),
  content_type: z.string().describe('Media type.'),
  content_id: z.string().nullable().describe('Id for references from the HTML body, as `cid:ID`. Null if absent.'),
  disposition: z
    .enum(['attachment', 'inline'])
    .describe('Whether it is a separate file or displayed within the HTML body.'),
  size: z.int().describe('Size in bytes.'),
})
const UNKEPT = 'Null when the body is no longer stored.'

/** A recipient as the API shows it. `active` and `held` are internal states of the queue, shown as `queued`. */
function show(
  delivery: Delivery,
  { next_attempt_at, waiting_reason }: ReturnType<ReturnType<typeof waitingReasons>>,
): z.output<typeof recipient> {
  const { address, role, status, smtp_code, enhanced_code, response, remote_mta, attempts } = delivery
  const open = status === 'active' || status === 'held'
  return {
    address,
    role,
    status: open ? 'queued' : status,
    smtp_code,
    enhanced_code,
    response,
    remote_mta,
    attempts,
    // A corrupt value becomes '', which jsonapi/document.ts reports.
    next_attempt_at: next_attempt_at === null ? null : isTime(next_attempt_at) ? iso(next_attempt_at) : '',
    waiting_reason,
  }
}

function extend(
  rows: ListedRow[],
  { reader, parts, single }: { reader: Reader; parts: ApiDeps; single: boolean },
): void {
  const all = deliveriesOf(
    reader,
    rows.map(({ key }) => key),
  )
  const reasonOf = waitingReasons(reader, all, parts.clock.now())
  const deliveries = Map.groupBy(all, ({ email_key }) => email_key)
  fillLean(reader, rows)
  for (const row of rows) {
    row['stream'] ??= 'transactional'
    row['recipients'] = (deliveries.get(row.key) ?? []).map((each) => show(each, reasonOf(each)))
    // An email that was just accepted has its body already.
    if (single && row['html'] === undefined) Object.assign(row, bodyOf(reader, parts.spool, row.key))
  }
}

const MOVES = [
  ['hold', 'Hold an email. It is not delivered until you release it.'],
  ['release', 'Release a held email.'],
  ['retry', 'Retry a queued email now.'],
  ['drop', 'Cancel the delivery of a queued email. Recipients without a final status fail.'],
] as const

/** Moves the undecided recipients of an email. Throws 422 if this is not possible for any of them. */
async function moveOne(parts: Parts, { id, key }: ListedRow, on: (typeof MOVES)[number][0]): Promise<ListedRow> {
  const queued = await (on === 'retry' ? retryNow(parts, String(id)) : moveQueued(parts, String(id), on))
  const waiting = on === 'hold' || on === 'drop' ? await parts.moveWaiting(key, on) : 0
  if (waiting + queued === 0) {
    const isUnderWay = deliveriesOf(parts.store, [key]).some(({ status }) => status === 'active')
    throw refuse(
      'transition_not_allowed',
      isUnderWay && on !== 'release'
        ? 'A delivery attempt for this email is in progress. Try again when it has finished. If it succeeds, there is nothing left to change.'
        : `No recipient of this email is in a status that allows "${on}". Check the status of its recipients.`,
    )
  }
  parts.bells.queue()
  return { ...parts.store.one(db.selectFrom('outbound_emails').selectAll().where('key', '=', key)) }
}

/** The key of a day (UTC) by which a repeat of a token with the same Message-ID and recipient is found. */
export function repeatKeyOf(
  { tokenId }: Caller,
  { message_id, to }: { message_id?: string | null | undefined; to: string },
): ((day: number) => string) | undefined {
  if (typeof message_id !== 'string') return undefined
  const pair = createHash('sha256').update(`${tokenId}\n${message_id}\n${to}`).digest('hex').slice(0, 32)
  return (day) => `message-id ${day} ${pair}`
}

export const outboundEmails = definer<Parts>()('outbound-emails', {
  table: 'outbound_emails',
  path: '/outbound-emails/:outboundEmail',
  scope: 'emails',
  marketing: 'campaign_key is not null',
  about: 'Transactional emails. Delivery is asynchronous. The status of an email is that of its `to` recipient.',
  attributes: {
    from: field(address(), {
      create: 'required',
      about: 'Sender. The domain of the address selects the sending domain.',
      example: 'Shop <hello@example.org>',
    }),
    to: field(address(), { create: 'required', about: 'Primary recipient.', example: 'ann@example.net' }),
    cc: more('Visible additional recipients: one address or up to 10. Null if absent.'),
    bcc: more('Hidden additional recipients: one address or up to 10. Null if absent.'),
    reply_to: more(
      'Addresses for replies: one or up to 10, on the sending domain, its subdomains or its parent domains. Null if replies go to the sender.',
    ),
    subject: field(line(998), {
      create: 'required',
      sort: true,
      about: 'Subject. For a campaign email, merge tags are filled in with the present data of the contact.',
      example: 'Your order',
    }),
    html: field(text(5 * MEGABYTE), {
      create: 'required',
      read: 'single',
      answer: z.string().nullable(),
      about: `HTML body. If empty, only the plain text body is sent. ${UNKEPT}`,
      example: '<p>It is on its way.</p>',
    }),
    text: field(text(5 * MEGABYTE).nullable(), {
      create: 'optional',
      read: 'single',
      about: `Plain text body. Generated from the HTML body if absent or blank. ${UNKEPT}`,
    }),
    idempotency_key: field(line(256, 'characters').min(1, 'must not be empty').nullable(), {
      create: 'optional',
      about:
        'Idempotency key. Another request with the same key and content returns the same email instead of sending it again. Null if absent.',
    }),
    agent_id: field(line(128, 'characters').min(1, 'must not be empty').nullable(), {
      create: 'optional',
      about: 'Agent that sends the email. Its reputation is tracked separately. Null if absent.',
    }),
    track_opens: choice('Whether opens are tracked. If null, the setting of the domain applies.'),
    track_clicks: choice('Whether clicks are tracked. If null, the setting of the domain applies.'),
    ai_disclosure: choice('Whether a header marks the email as generated by a machine. Null means no.'),
    attachments: field(
      z.array(attachment()).max(MAX_ATTACHMENTS, { error: `must contain at most ${MAX_ATTACHMENTS} attachments` }),
      {
        create: 'optional',
        read: 'single',
        answer: z.array(attached).nullable(),
        about: `Attachments. Responses contain their names, types and sizes. ${UNKEPT}`,
      },
    ),
    headers: field(headerFields(), {
      create: 'optional',
      read: 'single',
      answer: z.record(z.string(), z.string()).nullable(),
      about: `Custom header fields, by name. ${UNKEPT}`,
    }),
    unsubscribe: field(unsubscribeLinks().nullable(), {
      create: 'optional',
      read: 'single',
      about:
        'Unsubscribe links for the header `List-Unsubscribe`, if you manage the list yourself. Null if absent, or if the body is no longer stored.',
      example: { uris: ['https://example.org/leave/1017'], one_click: true, mail: false },
    }),
    on_suppressed: field(z.enum(['refuse', 'record'], 'must be "refuse" or "record"'), {
      create: 'optional',
      read: 'never',
      about:
        'What happens if a recipient is suppressed: the email is refused (the default), or the recipient is recorded as suppressed and the others get the email.',
    }),
    tags: field(tagList().nullable(), {
      create: 'optional',
      kind: 'json',
      answer: z.array(z.string()).nullable(),
      about: 'Up to 10 labels. Webhooks contain them, and `filter[tag]` finds them. Null if absent.',
      example: ['welcome'],
    }),
    metadata: field(metadataObject().nullable(), {
      create: 'optional',
      kind: 'json',
      answer: z.record(z.string(), z.string()).nullable(),
      about: 'Up to 50 strings by name, such as ids of your application. Webhooks contain them. Null if absent.',
      example: { order: '1017' },
    }),
    scheduled_at: field(momentOrDuration.nullable(), {
      create: 'optional',
      update: true,
      kind: 'time',
      answer: z.iso.datetime().nullable(),
      about:
        'Time when the email is sent: a timestamp at most 30 days ahead, or a duration from now such as "PT5M". If null or in the past, it is sent now.',
      example: '2026-01-31T09:00:00Z',
    }),
    stream: field(z.enum(valuesOf('outbound_emails', 'stream'), 'must be "transactional" or "bulk"'), {
      create: 'optional',
      about:
        'Kind of email: "transactional" (the default), or "bulk" such as a newsletter. Bulk email does not delay transactional email, and is not sent to recipients who unsubscribed.',
    }),
    status: field(z.enum(EMAIL_STATUSES), { sort: true, about: 'Delivery status for the primary recipient.' }),
    message_id: field(messageIdText(), {
      create: 'optional',
      answer: z.string(),
      about:
        'Message-ID header. Replies refer to it. If absent, it is generated. Another request of the same token with the same Message-ID, recipient and content within 24 hours returns the same email.',
      example: '<019bc186-de00-738a-a9ec-e0b19577265d@example.org>',
    }),
    recipients: field(z.array(recipient), { about: 'Recipients, each with its delivery status.' }),
    queued_at: timeOrNull('Time when the email was accepted.'),
    sent_at: timeOrNull('Time when the email was handed to a receiving server. Null until then.'),
    delivered_at: timeOrNull('Time when the receiving server accepted the email. Null until then.'),
    bounced_at: timeOrNull('Time when the email was permanently rejected. Null if it was not.'),
    complained_at: timeOrNull('Time when the recipient complained. Null if they did not.'),
    rejected_at: timeOrNull('Time when this server rejected the email. Null if it did not.'),
    suppressed_at: timeOrNull('Time when a suppression prevented delivery. Null if delivery was not prevented.'),
    failed_at: timeOrNull('Time when delivery was given up. Null if it was not.'),
    cancelled_at: timeOrNull('Time when the scheduled email was cancelled. Null if it was not.'),
    first_opened_at: timeOrNull('Time of the first open by a person. Null until then.'),
    first_clicked_at: timeOrNull('Time of the first click by a person. Null until then.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time when the email was created.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'Time of the last change.' }),
  },
  relationships: {
    domain: { type: 'domains', column: 'domain_key' },
    campaign: { type: 'campaigns', column: 'campaign_key', optional: true },
    batch: { type: 'outbound-email-batches', column: 'batch_key', optional: true },
    contact: { type: 'contacts', column: 'contact_key', optional: true },
  },
  filters: {
    status: { column: 'status' },
    campaign: { column: 'campaign_key', type: 'campaigns', cheaper: ofLargeCampaign },
    batch: { column: 'batch_key', type: 'outbound-email-batches', about: 'Filter by batch.', extension: true },
    agent_id: { column: 'agent_id' },
    domain: { column: 'domain_key', type: 'domains' },
    to: { column: 'to' },
    tag: {
      column: 'tags',
      sql: (tag) => ({
        sql: `exists (select 1 from json_each(outbound_emails.tags) where value = ?)`,
        parameters: [tag],
        sliced: true,
      }),
      about: 'Filter by tag.',
      extension: true,
    },
    stream: {
      column: 'stream',
      sql: (stream) => ({
        sql: `coalesce(outbound_emails.stream, iif(campaign_key is null, 'transactional', 'bulk')) = ?`,
        parameters: [stream],
      }),
      about: 'Filter by stream. Emails of campaigns are bulk email.',
      extension: true,
    },
    id: selected,
    search,
  },
  extend,
  actions: [
    {
      kind: 'create',
      scope: 'emails:send',
      audit: 'never',
      bodyLimit: MAIL_BODY,
      refuses: SEND_REFUSALS,
      about: 'Send an email. The response means that the email is on disk and will be delivered.',
      before: ({ parts, caller, attributes }) => {
        requireSubscription(parts.store, caller.userKey)
        requireSendingDomain(parts.store, caller.userKey, attributes['from'])
      },
      run: async ({ parts, caller, attributes }) => {
        const repeat = repeatKeyOf(caller, attributes)
        const { body, email, replayed } = await submitEmail(submitDepsOf(parts), caller.userKey, {
          ...attributes,
          agent_id: agentOf(caller.agentId, attributes.agent_id),
          idempotency_key: attributes.idempotency_key ?? (repeat && keyForDay(parts, caller.userKey, repeat)),
          ...ofCaller(caller),
        })
        return {
          row: { ...email, ...(body && shownBody(body)) },
          ...(replayed ? { headers: { 'Idempotent-Replayed': 'true' } } : {}),
        }
      },
    },
    { kind: 'list', about: 'List emails.' },
    { kind: 'show', about: 'Get an email.' },
    {
      kind: 'download',
      path: 'raw',
      id: 'downloadOutboundEmail',
      refuses: ['message_too_large'],
      about:
        'Get an email as a MIME message. It is the message as it is sent, but without DKIM-Signature: each delivery attempt is signed separately.',
      extension: true,
      run: ({ parts, row }) => sourceOf(parts, row),
    },
    {
      kind: 'update',
      scope: 'emails:send',
      audit: 'never',
      refuses: ['not_editable'],
      about: 'Change the time of a scheduled email. Only `scheduled_at` can be changed.',
      extension: true,
      run: async ({ parts, row, attributes: { scheduled_at } }) => ({
        row: scheduled_at === undefined ? row : { ...(await reschedule(parts, row.key, scheduled_at)) },
      }),
    },
    {
      kind: 'act',
      path: 'cancel',
      id: 'cancelOutboundEmail',
      scope: 'emails:send',
      audit: 'never',
      refuses: ['transition_not_allowed'],
      about: 'Cancel a scheduled email.',
      extension: true,
      run: async ({ parts, row }) => ({ row: { ...(await cancelScheduled(parts, row!.key)) } }),
    },
    ...MOVES.map(([on, about]) => ({
      kind: 'act' as const,
      path: on,
      id: `${on}Email`,
      operator: true as const,
      refuses: ['transition_not_allowed'] as const,
      about: `${about} Operators only.`,
      extension: true as const,
      run: async ({ parts, row }: Call<Parts>) => ({ row: await moveOne(parts, row!, on) }),
    })),
    {
      kind: 'delete',
      about: 'Delete an email. Copies that were delivered are not affected.',
      run: ({ parts, row }) => deleteEmail(submitDepsOf(parts), row.key),
    },
  ],
})
