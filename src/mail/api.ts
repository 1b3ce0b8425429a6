// Transactional mail: submit, list, show and delete.
import { MAIL_BODY } from '../jsonapi/body.ts'
import { z } from 'zod'
import { iso, isTime } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { EMAIL_STATUSES } from '../states/outbound-email.ts'
import { definer, field, type Call } from '../jsonapi/resource.ts'
import type { Reader } from '../store/database.ts'
import { db } from '../store/query.ts'
import type { ListedRow } from '../store/list.ts'
import { bodyOf, shownBody } from './body.ts'
import { fillLean, ofLargeCampaign } from './campaign-mails.ts'
import { deliveriesOf, moveQueued, retryNow, type ClaimedMove } from '../delivery/queue/operator.ts'
import type { Delivery } from '../delivery/results/settle.ts'
import { agentOf, requireSendingDomain, requireSubscription } from './accept/admit.ts'
import { deleteEmail, submitEmail, type SubmitDeps } from './accept/submit.ts'
import { search } from './search.ts'
import { sourceOf, type SourceDeps } from './source.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { EXTENSION } from '../jsonapi/fields.ts'
import { address, addresses, attachment, headerFields, line, text } from '../jsonapi/schemas.ts'
import { valuesOf } from '../schema/tables.ts'

const MEGABYTE = 1024 * 1024
const MAX_ADDRESSES = 10
const MAX_ATTACHMENTS = 20

/** What the resource of mail needs besides. */
export interface MailParts extends Required<Pick<SubmitDeps, 'claimNew'>>, Pick<SourceDeps, 'campaignLetter'> {
  /** Holds or drops a mail that waits in memory for its turn. Returns how many recipients moved. */
  moveWaiting: (emailKey: number, on: ClaimedMove) => Promise<number>
}
type Parts = ApiDeps & MailParts

const depsOf = ({ bells, ...parts }: Parts): SubmitDeps => ({ ...parts, ring: bells.deliveries })
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
  address: z.string().describe('Whom the mail is for.'),
  role: z.enum(valuesOf('deliveries', 'role')).describe('The field of the mail that names it.'),
  status: z.enum(EMAIL_STATUSES).describe('What became of the mail to this recipient.'),
  smtp_code: z.int().min(0).nullable().describe('The code of the last reply, such as 250 or 550.'),
  enhanced_code: z.string().nullable().describe('The enhanced code of the last reply, such as 5.1.1.'),
  response: z.string().nullable().describe('The words of the last reply.'),
  remote_mta: z.string().nullable().describe('The mail exchanger that replied.'),
  attempts: z.int().min(0).describe('How often it was tried.'),
  next_attempt_at: z.iso.datetime().nullable().describe('When it is tried next, while it waits.'),
})

/** An attachment as answers show it: without its content. */
const attached = z.object({
  filename: z.string().describe('Its name.'),
  content_type: z.string().describe('Its media type.'),
  content_id: z.string().nullable().describe('What the HTML names it by, as cid:ID.'),
  disposition: z.enum(['attachment', 'inline']).describe('A file, or a part of the HTML.'),
  size: z.int().describe('Its size in bytes.'),
})
const UNKEPT = 'null once the body is no longer kept.'

/** A recipient as the API shows it: `active` and `held`, states of the queue alone, are shown as `queued`. */
function show(delivery: Delivery): z.output<typeof recipient> {
  const { address, role, status, smtp_code, enhanced_code, response, remote_mta, attempts, next_attempt_at } = delivery
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
    // A damaged value becomes '', which jsonapi/document.ts reports as damage.
    next_attempt_at:
      next_attempt_at === null || status !== 'queued' ? null : isTime(next_attempt_at) ? iso(next_attempt_at) : '',
  }
}

function extend(
  rows: ListedRow[],
  { reader, parts, single }: { reader: Reader; parts: ApiDeps; single: boolean },
): void {
  const deliveries = Map.groupBy(
    deliveriesOf(
      reader,
      rows.map(({ key }) => key),
    ),
    ({ email_key }) => email_key,
  )
  fillLean(reader, rows)
  for (const row of rows) {
    row['recipients'] = (deliveries.get(row.key) ?? []).map(show)
    // A mail that was just accepted has its body already.
    if (single && row['html'] === undefined) Object.assign(row, bodyOf(reader, parts.spool, row.key))
  }
}

const MOVES = [
  ['hold', 'Hold a mail: nothing is tried until it is released.'],
  ['release', 'Release a mail that is held.'],
  ['retry', 'Try a mail that waits now.'],
  ['drop', 'Give a mail up: its undecided recipients fail.'],
] as const

/** Moves the undecided recipients of a mail. Throws 422 when none of them can be moved so. */
async function moveOne(parts: Parts, { id, key }: ListedRow, on: (typeof MOVES)[number][0]): Promise<ListedRow> {
  const queued = await (on === 'retry' ? retryNow(parts, String(id)) : moveQueued(parts, String(id), on))
  const waiting = on === 'hold' || on === 'drop' ? await parts.moveWaiting(key, on) : 0
  if (waiting + queued === 0) {
    const isUnderWay = deliveriesOf(parts.store, [key]).some(({ status }) => status === 'active')
    throw refuse(
      'transition_not_allowed',
      isUnderWay && on !== 'release'
        ? 'This mail is being delivered now; it can be moved when this attempt has ended, unless it is delivered then.'
        : `No recipient of this mail can be moved by "${on}": look at their states.`,
    )
  }
  parts.bells.queue()
  return { ...parts.store.one(db.selectFrom('outbound_emails').selectAll().where('key', '=', key)) }
}

export const outboundEmails = definer<Parts>()('outbound-emails', {
  table: 'outbound_emails',
  about: 'Transactional mail. Delivery is asynchronous; the status follows the primary recipient.',
  attributes: {
    from: field(address(), {
      create: 'required',
      about: 'The sender; its domain selects the sending domain.',
      example: 'Shop <hello@example.org>',
    }),
    to: field(address(), { create: 'required', about: 'The primary recipient.', example: 'ann@example.net' }),
    cc: more('Further recipients that all can see: one address or up to 10.'),
    bcc: more('Further recipients that nobody sees: one address or up to 10.'),
    reply_to: more('Where replies go: one address or up to 10 of the sending domain’s family.'),
    subject: field(line(998), {
      create: 'required',
      sort: true,
      about: 'The subject; of a campaign’s mail filled with what is known of the contact now.',
      example: 'Your order',
    }),
    html: field(text(5 * MEGABYTE), {
      create: 'required',
      read: 'single',
      answer: z.string().nullable(),
      about: `The HTML body; with an empty one only the text is sent; ${UNKEPT}`,
      example: '<p>It is on its way.</p>',
    }),
    text: field(text(5 * MEGABYTE).nullable(), {
      create: 'optional',
      read: 'single',
      about: `The plain text body; made from the HTML when absent or blank; ${UNKEPT}`,
    }),
    idempotency_key: field(line(256, 'characters').min(1, 'must not be empty').nullable(), {
      create: 'optional',
      about: 'A repeat with the same key and payload answers the same email.',
    }),
    agent_id: field(line(128, 'characters').min(1, 'must not be empty').nullable(), {
      create: 'optional',
      about: 'The agent that sends it, for its own reputation.',
    }),
    track_opens: choice('Whether opens are tracked; null follows the domain.'),
    track_clicks: choice('Whether clicks are tracked; null follows the domain.'),
    ai_disclosure: choice('True says in a header that a machine wrote it.'),
    attachments: field(
      z.array(attachment()).max(MAX_ATTACHMENTS, { error: `must hold at most ${MAX_ATTACHMENTS} attachments` }),
      {
        create: 'optional',
        read: 'single',
        answer: z.array(attached).nullable(),
        about: `Files that travel with it; read as their names, types and sizes, ${UNKEPT}`,
      },
    ),
    headers: field(headerFields(), {
      create: 'optional',
      read: 'single',
      answer: z.record(z.string(), z.string()).nullable(),
      about: `Header fields of your own, by name; ${UNKEPT}`,
    }),
    status: field(z.enum(EMAIL_STATUSES), { sort: true, about: 'What became of the mail to its primary recipient.' }),
    message_id: field(z.string(), {
      about: 'The Message-ID header, for replies.',
      example: '<019bc186-de00-738a-a9ec-e0b19577265d@example.org>',
    }),
    recipients: field(z.array(recipient), { about: 'What became of each recipient.' }),
    queued_at: timeOrNull('When it was accepted.'),
    sent_at: timeOrNull('When it was handed to a mail exchanger.'),
    delivered_at: timeOrNull('When the exchanger accepted it.'),
    bounced_at: timeOrNull('When it was refused for good.'),
    complained_at: timeOrNull('When the recipient complained.'),
    rejected_at: timeOrNull('When this server refused to send it.'),
    suppressed_at: timeOrNull('When it was stopped by a suppression.'),
    failed_at: timeOrNull('When it could not be delivered in time.'),
    first_opened_at: timeOrNull('When a person first opened it.'),
    first_clicked_at: timeOrNull('When a person first followed a link.'),
    created_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it was created.' }),
    updated_at: field(z.iso.datetime(), { kind: 'time', sort: true, about: 'When it last changed.' }),
  },
  relationships: {
    domain: { type: 'domains', column: 'domain_key' },
    campaign: { type: 'campaigns', column: 'campaign_key', optional: true },
    contact: { type: 'contacts', column: 'contact_key', optional: true },
  },
  filters: {
    status: { column: 'status' },
    campaign: { column: 'campaign_key', type: 'campaigns', cheaper: ofLargeCampaign },
    agent_id: { column: 'agent_id' },
    domain: { column: 'domain_key', type: 'domains' },
    to: { column: 'to' },
    search,
  },
  extend,
  actions: [
    {
      kind: 'create',
      path: '/outbound-emails',
      scope: 'emails:send',
      bodyLimit: MAIL_BODY,
      refuses: [
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
      ],
      about: 'Send a mail. The answer means that it is stored durably and will be delivered.',
      before: ({ parts, caller, attributes }) => {
        requireSubscription(parts.store, caller.userKey)
        requireSendingDomain(parts.store, caller.userKey, attributes['from'])
      },
      run: async ({ parts, caller, attributes }) => {
        const { body, email, replayed } = await submitEmail(depsOf(parts), caller.userKey, {
          ...attributes,
          agent_id: agentOf(caller.agentId, attributes.agent_id),
          program: caller.program,
          cappedToken: caller.cappedToken,
        })
        return {
          row: { ...email, ...(body && shownBody(body)) },
          ...(replayed ? { headers: { 'Idempotent-Replayed': 'true' } } : {}),
        }
      },
    },
    {
      kind: 'list',
      path: '/outbound-emails',
      scope: 'emails:read',
      params: ['filter', 'sort', 'include', 'fields', 'page'],
      about: 'List your mails.',
    },
    { kind: 'show', path: '/outbound-emails/:outboundEmail', scope: 'emails:read', about: 'Show a mail.' },
    {
      kind: 'download',
      path: '/outbound-emails/:outboundEmail/raw',
      scope: 'emails:read',
      id: 'downloadOutboundEmail',
      about: `The mail as it is sent, without the DKIM-Signature, which each attempt makes again. ${EXTENSION}`,
      run: ({ parts, row }) => sourceOf(parts, row),
    },
    ...MOVES.map(([on, about]) => ({
      kind: 'act' as const,
      path: `/outbound-emails/:outboundEmail/${on}`,
      id: `${on}Email`,
      scope: 'emails:write' as const,
      operator: true as const,
      refuses: ['transition_not_allowed'] as const,
      about: `${about} For operators. ${EXTENSION}`,
      run: async ({ parts, row }: Call<Parts>) => ({ row: await moveOne(parts, row!, on) }),
    })),
    {
      kind: 'delete',
      path: '/outbound-emails/:outboundEmail',
      scope: 'emails:write',
      about: 'Remove the stored mail; what was delivered is not recalled.',
      run: ({ parts, row }) => deleteEmail(depsOf(parts), row.key),
    },
  ],
})
