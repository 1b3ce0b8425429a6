// Webhook endpoints and their deliveries.
import { z } from 'zod'
import { iso } from '../base/clock.ts'
import { refuse } from '../base/errors.ts'
import { EVENT_TYPES } from '../states/events.ts'
import { WEBHOOK_STATUSES } from '../states/webhook.ts'
import { field } from '../jsonapi/resource.ts'
import { findOwned, type ListedRow } from '../store/list.ts'
import { deliveriesAboutMail } from './about-mail.ts'
import { isEventType } from './catalogue.ts'
import { changeWebhook, createWebhook, removeWebhook, type WebhooksDeps } from './endpoints.ts'
import { attemptsOf, deliverSample, lastFailure, replayDelivery } from './replay.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { EXTENSION } from '../jsonapi/fields.ts'
import { line, name } from '../jsonapi/schemas.ts'
import { valuesOf } from '../schema/tables.ts'

const depsOf = ({ bells, fetching, ...parts }: ApiDeps): WebhooksDeps => ({
  ...parts,
  allowed: fetching.allowed,
  ring: bells.webhooks,
})
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', about })

const HEARD = ['*', ...EVENT_TYPES] as const

const events = z
  .array(z.string('must be a string'), { error: 'must be a list of event types, or ["*"]' })
  .min(1, 'must name at least one event type, or be ["*"]')
  .superRefine((list, context) => {
    for (const [index, type] of list.entries())
      if (type !== '*' && !isEventType(type))
        context.addIssue({
          code: 'custom',
          message: `must be one of ${EVENT_TYPES.join(', ')}, or *`,
          path: [index],
          input: type,
        })
    if (list.includes('*') && list.length > 1)
      context.addIssue({ code: 'custom', message: 'must hold "*" alone or event types, not both', input: list })
  })
  .meta({ items: { type: 'string', enum: HEARD }, uniqueItems: true })
  .transform((list) => [...new Set(list)])

/** The user's domain that the request names; undefined when it names none. */
function domainOf({
  parts,
  caller,
  related,
}: {
  parts: ApiDeps
  caller: { userKey: number }
  related: Record<string, string>
}): ListedRow | undefined {
  const id = related['domain']
  if (id === undefined) return undefined
  const domain = findOwned(parts.store, 'domains', caller.userKey, id, 'deleted_at is null')
  if (!domain)
    throw refuse('not_found', 'The domain that the webhook is to belong to does not exist.', {
      pointer: '/data/relationships/domain',
    })
  return domain
}

export const webhooks = define('webhooks', {
  table: 'webhooks',
  only: 'deleted_at is null',
  about: 'HTTPS endpoints to which events are pushed, signed after Standard Webhooks.',
  attributes: {
    name: field(name(), {
      create: 'required',
      update: true,
      sort: true,
      about: 'A name to recognise it by.',
      example: 'Shop',
    }),
    url: field(line(2000), {
      create: 'required',
      update: true,
      about: 'The https URL that is posted to.',
      example: 'https://shop.example.org/hook',
    }),
    events: field(events, {
      create: 'required',
      update: true,
      kind: 'json',
      answer: z.array(z.enum(HEARD)),
      about: 'Event types to hear, or ["*"] for all.',
      example: ['email.delivered', 'email.bounced'],
    }),
    active: field(z.boolean('must be true or false'), {
      update: true,
      kind: 'flag',
      about: 'False pauses deliveries; true begins again, also after it was disabled.',
    }),
    rotate_secret: field(z.boolean('must be true or false'), {
      update: true,
      read: 'never',
      about: 'True makes a new signing secret; the old one signs along for 24 hours.',
    }),
    secret: field(z.string(), {
      read: 'once',
      about: 'The signing secret, shown when it is made and never again.',
      example: 'whsec_…',
    }),
    secret_hint: field(z.string(), { about: 'The last four characters of the secret.', example: 'Qk0=' }),
    status: field(z.enum(WEBHOOK_STATUSES), {
      sort: true,
      about: 'active, paused by you, or disabled by this server.',
    }),
    disabled_reason: field(z.enum(valuesOf('webhooks', 'disabled_reason')).nullable(), {
      about: 'Why it was disabled.',
    }),
    consecutive_failures: field(z.int(), { about: 'Failed attempts since the last success.' }),
    held_until: field(z.iso.datetime().nullable(), {
      kind: 'time',
      about: 'Until when a failing endpoint gets no calls.',
    }),
    last_failure: field(z.string().nullable(), {
      about: 'Why the last attempt failed; null: none has since the last success.',
    }),
    created_at: { ...time('When it was created.'), sort: true },
    updated_at: { ...time('When it last changed.'), sort: true },
  },
  relationships: { domain: { type: 'domains', column: 'domain_key', create: true } },
  extend(rows, { reader }) {
    for (const row of rows) {
      row['active'] = row['status'] === 'active' ? 1 : 0
      row['last_failure'] = row['consecutive_failures'] === 0 ? null : lastFailure(reader, row.key)
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/webhooks',
      scope: 'webhooks:read',
      params: ['sort', 'include', 'fields', 'page'],
      about: 'List your webhooks.',
    },
    {
      kind: 'create',
      path: '/webhooks',
      scope: 'webhooks:write',
      refuses: ['not_found'],
      about: 'Create a webhook for a sending domain.',
      before: (call) => void domainOf(call),
      run: async (call) => {
        const domain = domainOf(call)
        if (!domain) throw refuse('required', 'Name the sending domain in relationships.domain.', { pointer: '/data' })
        const { webhook, secret } = await createWebhook(
          depsOf(call.parts),
          call.caller.userKey,
          domain.key,
          call.attributes,
        )
        return { row: { ...webhook }, once: { secret } }
      },
    },
    { kind: 'show', path: '/webhooks/:webhook', scope: 'webhooks:read', about: 'Show a webhook.' },
    {
      kind: 'update',
      path: '/webhooks/:webhook',
      scope: 'webhooks:write',
      about: 'Change, pause, resume or rotate a webhook.',
      run: async ({ parts, row, attributes }) => {
        const { webhook, secret } = await changeWebhook(depsOf(parts), row.key, attributes)
        return { row: { ...webhook }, once: secret === undefined ? {} : { secret } }
      },
    },
    {
      kind: 'act',
      path: '/webhooks/:webhook/test',
      id: 'testWebhook',
      scope: 'webhooks:write',
      refuses: ['transition_not_allowed'],
      about: `Deliver an example of the first event type that the webhook hears; it is listed with the deliveries. ${EXTENSION}`,
      run: async ({ parts, row }) => {
        await deliverSample({ ...parts, ring: parts.bells.webhooks }, row)
        return { row }
      },
    },
    {
      kind: 'delete',
      path: '/webhooks/:webhook',
      scope: 'webhooks:write',
      about: 'Remove a webhook; its deliveries stay on record.',
      run: ({ parts, row }) => removeWebhook(depsOf(parts), row.key),
    },
  ],
})

const attempt = z.object({
  number: z.int().describe('From 1.'),
  at: z.iso.datetime().describe('When it was sent.'),
  duration: z.int().describe('How long it took, in ms.'),
  response_status: z.int().nullable().describe('The status of the answer; null without one.'),
  response_body: z.string().nullable().describe('The beginning of the answer.'),
  reason: z.string().nullable().describe('Why there was no answer.'),
})

export const outboundWebhooks = define('outbound-webhooks', {
  table: 'outbound_webhooks',
  about: 'Deliveries of events to webhooks, with every attempt.',
  attributes: {
    event: field(z.enum(EVENT_TYPES), { sort: true, about: 'The event type.' }),
    outcome: field(z.enum(['pending', 'delivered', 'failed', 'held']), {
      about: 'What became of it; held: the webhook was paused or disabled.',
    }),
    attempts: field(z.int(), { about: 'How often it was tried.' }),
    response_status: field(z.int().nullable(), { about: 'Status of the endpoint’s last answer.' }),
    response_body: field(z.string().nullable(), { about: 'Body of the endpoint’s last answer, cut.' }),
    reason: field(z.string().nullable(), { about: 'Why the last attempt failed.' }),
    next_attempt_at: field(z.iso.datetime().nullable(), { kind: 'time', about: 'When it is tried again.' }),
    payload: field(z.string(), {
      read: 'single',
      about: 'The body that is sent, byte for byte.',
      example: '{"type":"email.sent","timestamp":"2026-01-15T12:00:00.000Z","data":{}}',
    }),
    attempt_log: field(z.array(attempt), {
      read: 'single',
      about: 'Every attempt with time, duration in ms, status, body and reason.',
    }),
    replay_of: field(z.string().nullable(), { about: 'The delivery that this one repeats.' }),
    created_at: { ...time('When it was created.'), sort: true },
    updated_at: { ...time('When it last changed.'), sort: true },
  },
  relationships: { webhook: { type: 'webhooks', column: 'webhook_key' } },
  filters: { event: { column: 'event' }, outcome: { column: 'status', means: { pending: ['pending', 'active'] } } },
  extend(rows, { reader, single }) {
    for (const row of rows) {
      row['outcome'] = row['status'] === 'active' ? 'pending' : row['status']
      if (single)
        row['attempt_log'] = attemptsOf(reader, row.key).map((attempt) => ({ ...attempt, at: iso(attempt.at) }))
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/webhooks/:webhook/deliveries',
      scope: 'webhooks:read',
      id: 'listWebhookDeliveries',
      params: ['filter', 'sort', 'include', 'fields', 'page'],
      within: { type: 'webhooks', column: 'webhook_key', removed: true },
      about: 'List the deliveries of a webhook, also of a deleted one.',
    },
    {
      kind: 'view',
      path: '/outbound-emails/:outboundEmail/webhook-deliveries',
      within: { type: 'outbound-emails', column: 'key' },
      params: ['page'],
      id: 'listWebhookDeliveriesOfMail',
      scope: 'webhooks:read',
      about: `List what webhooks were told of a mail, in the order of its events. ${EXTENSION}`,
      run: ({ parent, parts }) => deliveriesAboutMail(parts.store, parent.key),
    },
    {
      kind: 'show',
      path: '/deliveries/:outboundWebhook',
      scope: 'webhooks:read',
      id: 'getDelivery',
      about: 'Show a delivery with its attempts.',
    },
    {
      kind: 'act',
      path: '/deliveries/:outboundWebhook/replay',
      scope: 'webhooks:write',
      id: 'replayDelivery',
      about: 'Deliver the event again, under a new webhook-id.',
      run: async ({ parts, row }) => ({
        row: { ...(await replayDelivery({ ...parts, ring: parts.bells.webhooks }, row.key)) },
      }),
    },
  ],
})
