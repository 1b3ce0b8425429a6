// Webhook endpoints and their deliveries.
import { z } from 'zod'
import { iso } from '../base/clock.ts'
import { EVENT_TYPES } from '../store/states/events.ts'
import { WEBHOOK_STATUSES } from '../store/states/webhook.ts'
import { relatedIn } from '../jsonapi/related.ts'
import { field } from '../jsonapi/resource.ts'
import { deliveriesAboutMail } from './about-mail.ts'
import { isEventType } from './catalogue.ts'
import { changeWebhook, createWebhook, removeWebhook, type WebhookDelivery, type WebhooksDeps } from './endpoints.ts'
import { attemptsOf, deliverSample, lastFailure, replayDelivery } from './replay.ts'
import { waitingReasons } from './waiting-reason.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { line, name } from '../jsonapi/schemas.ts'
import { valuesOf } from '../store/schema/tables.ts'

const depsOf = ({ bells, fetching, ...parts }: ApiDeps): WebhooksDeps => ({
  ...parts,
  allowed: fetching.allowed,
  ring: bells.webhooks,
})
const time = (about: string) => field(z.iso.datetime(), { kind: 'time', about })

const HEARD = ['*', ...EVENT_TYPES] as const

const events = z
  .array(z.string('must be a string'), { error: 'must be a list of event types, or ["*"]' })
  .min(1, 'must contain at least one event type, or be ["*"]')
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
      context.addIssue({ code: 'custom', message: 'must contain either "*" only or event types', input: list })
  })
  .meta({ items: { type: 'string', enum: HEARD }, uniqueItems: true })
  .transform((list) => [...new Set(list)])

const domain = relatedIn('domain', 'domains')

export const webhooks = define('webhooks', {
  table: 'webhooks',
  path: '/webhooks/:webhook',
  scope: 'webhooks',
  only: 'deleted_at is null',
  about: 'HTTPS endpoints that receive events, signed according to Standard Webhooks.',
  attributes: {
    name: field(name(), {
      create: 'required',
      update: true,
      sort: true,
      about: 'Name of the webhook.',
      example: 'Shop',
    }),
    url: field(line(2000), {
      create: 'required',
      update: true,
      about: 'HTTPS URL that events are posted to.',
      example: 'https://shop.example.org/hook',
    }),
    events: field(events, {
      create: 'required',
      update: true,
      kind: 'json',
      answer: z.array(z.enum(HEARD)),
      about: 'Event types to send, or ["*"] for all.',
      example: ['email.delivered', 'email.bounced'],
    }),
    format: field(z.enum(valuesOf('webhooks', 'format'), 'must be "standard" or "listmonk"'), {
      create: 'optional',
      about:
        'Form of the requests. `standard` (the default): events as Standard Webhooks. `listmonk`: bounces and complaints as the endpoint `/webhooks/bounce` of listmonk accepts them, and no other events.',
    }),
    username: field(
      line(255)
        .min(1, 'must not be empty')
        .refine((text) => !text.includes(':'), 'must not contain a colon')
        .nullable(),
      {
        create: 'optional',
        update: true,
        about:
          'User name for HTTP Basic authentication. Only for the format `listmonk`: the name of an API user. Null if requests are not authenticated.',
      },
    ),
    password: field(line(1000).min(1, 'must not be empty').nullable(), {
      create: 'optional',
      update: true,
      read: 'never',
      about:
        'Password for HTTP Basic authentication, stored encrypted: for listmonk, the token of the API user. Required to change `url` to another server if a password is stored.',
    }),
    active: field(z.boolean('must be true or false'), {
      update: true,
      kind: 'flag',
      about:
        'Whether events are delivered. False pauses the webhook. True resumes it, including after it was disabled.',
    }),
    rotate_secret: field(z.boolean('must be true or false'), {
      update: true,
      read: 'never',
      about:
        'Whether to generate a new signing secret. Requests are signed with the old and the new secret for 24 hours.',
    }),
    secret: field(z.string(), {
      read: 'once',
      about: 'Signing secret. It is returned only once, when it is generated.',
      example: 'whsec_…',
    }),
    secret_hint: field(z.string(), { about: 'Last four characters of the signing secret.', example: 'Qk0=' }),
    status: field(z.enum(WEBHOOK_STATUSES), {
      sort: true,
      about: 'Status. `paused`: by you. `disabled`: by this server.',
    }),
    disabled_reason: field(z.enum(valuesOf('webhooks', 'disabled_reason')).nullable(), {
      about: 'Reason why the webhook was disabled. Null if it was not.',
    }),
    consecutive_failures: field(z.int(), { about: 'Number of failed attempts since the last success.' }),
    held_until: field(z.iso.datetime().nullable(), {
      kind: 'time',
      about: 'Time until which deliveries are paused because the endpoint fails. Null if they are not.',
    }),
    last_failure: field(z.string().nullable(), {
      about: 'Error of the last attempt. Null if no attempt has failed since the last success.',
    }),
    created_at: { ...time('Time when the webhook was created.'), sort: true },
    updated_at: { ...time('Time of the last change.'), sort: true },
  },
  relationships: { domain: { type: 'domains', column: 'domain_key', create: true } },
  extend(rows, { reader }) {
    for (const row of rows) {
      row['active'] = row['status'] === 'active' ? 1 : 0
      row['last_failure'] = row['consecutive_failures'] === 0 ? null : lastFailure(reader, row.key)
    }
  },
  actions: [
    { kind: 'list', about: 'List webhooks.' },
    {
      kind: 'create',
      refuses: ['not_found'],
      about: 'Create a webhook for a sending domain.',
      before: domain.before,
      run: async (call) => {
        const { attributes, caller, parts } = call
        const made = await createWebhook(depsOf(parts), caller.userKey, domain.of(call).key, attributes)
        const { webhook, secret } = made
        return { row: { ...webhook }, once: { secret } }
      },
    },
    { kind: 'show', about: 'Get a webhook.' },
    {
      kind: 'update',
      about: 'Update, pause or resume a webhook, or rotate its signing secret.',
      run: async ({ parts, row, attributes }) => {
        const { webhook, secret } = await changeWebhook(depsOf(parts), row.key, attributes)
        return { row: { ...webhook }, once: secret === undefined ? {} : { secret } }
      },
    },
    {
      kind: 'act',
      path: 'test',
      id: 'testWebhook',
      refuses: ['transition_not_allowed'],
      about: 'Send a test event: an example of the first event type of the webhook. It is listed with the deliveries.',
      extension: true,
      run: async ({ parts, row }) => {
        await deliverSample({ ...parts, ring: parts.bells.webhooks }, row)
        return { row }
      },
    },
    {
      kind: 'delete',
      about: 'Delete a webhook. Its deliveries stay on record.',
      run: ({ parts, row }) => removeWebhook(depsOf(parts), row.key),
    },
  ],
})

const attempt = z.object({
  number: z.int().describe('Number of the attempt, from 1.'),
  at: z.iso.datetime().describe('Time when the request was sent.'),
  duration: z.int().describe('Duration in milliseconds.'),
  response_status: z.int().nullable().describe('HTTP status of the response. Null if there was no response.'),
  response_body: z.string().nullable().describe('Beginning of the response body. Null if there was no response.'),
  reason: z.string().nullable().describe('Reason why there was no response. Null if there was one.'),
})

export const outboundWebhooks = define('outbound-webhooks', {
  table: 'outbound_webhooks',
  path: '/deliveries/:outboundWebhook',
  scope: 'webhooks',
  about: 'Deliveries of events to webhooks, with all attempts.',
  attributes: {
    event: field(z.enum(EVENT_TYPES), { sort: true, about: 'Event type.' }),
    outcome: field(z.enum(['pending', 'delivered', 'failed', 'held']), {
      about: 'Delivery status. `held`: the webhook was paused or disabled.',
    }),
    attempts: field(z.int(), { about: 'Number of attempts.' }),
    response_status: field(z.int().nullable(), { about: 'HTTP status of the last response. Null if absent.' }),
    response_body: field(z.string().nullable(), {
      about: 'Body of the last response, truncated. Null if absent.',
    }),
    reason: field(z.string().nullable(), { about: 'Error of the last attempt. Null if it succeeded.' }),
    waiting_reason: field(z.string().nullable(), {
      about:
        'Reason why the delivery is pending or held, such as a failing endpoint. Null if it is attempted next or ended.',
    }),
    next_attempt_at: field(z.iso.datetime().nullable(), {
      kind: 'time',
      about: 'Time of the next attempt. Null if no attempt is planned.',
    }),
    payload: field(z.string(), {
      read: 'single',
      about: 'Request body, byte for byte.',
      example: '{"type":"email.sent","timestamp":"2026-01-15T12:00:00.000Z","data":{}}',
    }),
    attempt_log: field(z.array(attempt), {
      read: 'single',
      about: 'All attempts, each with time, duration in milliseconds, status, body and error.',
    }),
    replay_of: field(z.string().nullable(), {
      about: 'Id of the delivery that this one replays. Null if it is not a replay.',
    }),
    created_at: { ...time('Time when the delivery was created.'), sort: true },
    updated_at: { ...time('Time of the last change.'), sort: true },
  },
  relationships: { webhook: { type: 'webhooks', column: 'webhook_key' } },
  filters: { event: { column: 'event' }, outcome: { column: 'status', means: { pending: ['pending', 'active'] } } },
  extend(rows, { reader, single }) {
    const waits = waitingReasons(reader, rows as unknown as WebhookDelivery[])
    for (const row of rows) {
      Object.assign(row, waits(row as unknown as WebhookDelivery))
      row['outcome'] = row['status'] === 'active' ? 'pending' : row['status']
      if (single)
        row['attempt_log'] = attemptsOf(reader, row.key).map((attempt) => ({ ...attempt, at: iso(attempt.at) }))
    }
  },
  actions: [
    {
      kind: 'list',
      path: '/webhooks/:webhook/deliveries',
      id: 'listWebhookDeliveries',
      within: { type: 'webhooks', column: 'webhook_key', removed: true },
      about: 'List the deliveries of a webhook. This includes deleted webhooks.',
    },
    {
      kind: 'view',
      path: '/outbound-emails/:outboundEmail/webhook-deliveries',
      within: { type: 'outbound-emails', column: 'key' },
      params: ['page'],
      id: 'listWebhookDeliveriesOfMail',
      about: 'List webhook deliveries about an email, in the order of its events.',
      extension: true,
      run: ({ parent, parts }) => deliveriesAboutMail(parts.store, parent.key),
    },
    { kind: 'show', id: 'getDelivery', about: 'Get a delivery with its attempts.' },
    {
      kind: 'act',
      path: 'replay',
      id: 'replayDelivery',
      about: 'Replay a delivery. The event is sent again under a new webhook-id.',
      run: async ({ parts, row }) => ({
        row: { ...(await replayDelivery({ ...parts, ring: parts.bells.webhooks }, row.key)) },
      }),
    },
  ],
})
