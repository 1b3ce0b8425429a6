// Webhooks: endpoints for events, each delivery with its answer, and a button to repeat a delivery.
import { html } from 'hono/html'
import { EVENT_TYPES } from '../store/states/events.ts'
import { button, choices, secretShown } from '../views/html/forms.ts'
import {
  badge,
  codeShown,
  count,
  counted,
  exactTime,
  facts,
  figures,
  table,
  time,
  type Html,
} from '../views/html/widgets.ts'
import { outboundWebhooks, webhooks } from './api.ts'
import { DISABLED } from './waiting-reason.ts'
import type { Form } from '../views/html/place.ts'
import { number, objects, text, texts, type Thing, type Visit } from '../views/html/visit.ts'
import type { Actions } from '../views/actions.ts'
import type { FormView } from '../views/form.ts'
import { listOf, type ListView } from '../views/list.ts'
import { listPlaces, onePlace } from '../views/pages.ts'

type WebhookResource = Thing<typeof webhooks>

const eventsOf = (webhook: WebhookResource): string => texts(webhook, 'events').join(', ').replace(/^\*$/, 'all')

const isActive = (webhook: WebhookResource): boolean => text(webhook, 'status') === 'active'

/** The state of an endpoint. An active endpoint whose responses are errors is failing. */
const stateOf = (webhook: WebhookResource): Html => {
  const failures = number(webhook, 'consecutive_failures')
  return isActive(webhook) && failures > 0
    ? html`${badge('failing')} <span class="soft">${counted(failures, 'failure')}</span>`
    : badge(text(webhook, 'status'))
}

/** Why an endpoint fails, or was disabled. */
function troublesOf(webhook: WebhookResource): (readonly [string, Html | string])[] {
  const why = DISABLED[text(webhook, 'disabled_reason')]
  const last = text(webhook, 'last_failure')
  const next = isActive(webhook) ? webhook.attributes.held_until : null
  return [
    ...(why === undefined ? [] : [['Reason', `${why}. Events are recorded, and you can resend them later.`] as const]),
    ...(last === '' ? [] : [['Last failure', last] as const]),
    ...(typeof next === 'string' ? [['Next attempt', time(next)] as const] : []),
  ]
}

/** The selection of events: all, or some, grouped by subject. */
function eventChoices(typed: Form | undefined, error: string | undefined): Html {
  const chosen = typed?.all('events') ?? []
  const groups = Map.groupBy(EVENT_TYPES, (each) => each.slice(0, each.indexOf('.')))
  return html`<details id="events" ${chosen.length > 0 || error !== undefined ? html`open` : ''}>
    <summary>Select events</summary>
    <p class="soft">If you select none, the endpoint receives all events, including those of later versions.</p>
    <div class="columned">
      ${[...groups].map(([about, types]) =>
        choices({
          name: 'events',
          id: `events-${about}`,
          label: about.replace('_', ' '),
          options: types.map((each) => [each, ''] as const),
          chosen,
          error: about === 'email' ? error : undefined,
        }),
      )}
    </div>
  </details>`
}

const newWebhook: FormView<typeof webhooks> = {
  title: 'New webhook',
  about: 'Postrider posts each event to the URL as JSON, signed with a secret that is shown once.',
  of: webhooks,
  fields: {
    name: { label: 'Name' },
    url: { label: 'URL', type: 'url', hint: 'https://…' },
    domain: { label: 'Sending domain' },
    events: {
      label: 'Events',
      show: eventChoices,
      read: (given) => (given.all('events').length === 0 ? ['*'] : given.all('events')),
    },
    format: {
      label: 'Format',
      options: [
        ['standard', 'Standard Webhooks'],
        ['listmonk', 'listmonk (bounces and complaints)'],
      ],
    },
    username: { label: 'API user', hint: 'Only for listmonk. Leave it empty if its endpoint needs no user.' },
    password: { label: 'API token', type: 'password', autocomplete: 'off', hint: 'Only for listmonk.' },
  },
  button: 'Create webhook',
  done: (visit, one) => visit.leadToSecret(`/webhooks/${one.id}`, text(one, 'secret')),
}

const list = listPlaces({
  path: '/webhooks',
  title: 'Webhooks',
  about: 'Signed HTTP requests to your endpoints when an email is delivered, bounces, is opened and so on.',
  add: { label: 'New webhook', domain: true },
  form: newWebhook,
  list: (): ListView<typeof webhooks> => ({
    of: webhooks,
    from: '/webhooks',
    caption: 'Webhooks',
    columns: [
      { title: 'Name', of: 'name', width: 20, to: ({ id }) => `/webhooks/${id}` },
      { title: 'URL', of: 'url' },
      { title: 'Status', of: stateOf, width: 20 },
      { title: 'Events', of: eventsOf },
    ],
    empty: 'No webhooks yet. Webhooks notify your application of delivery results.',
  }),
})

/** Why a delivery is pending or held, or the error of its last attempt. */
const whyIn = (each: Thing<typeof outboundWebhooks>): string => text(each, 'waiting_reason') || text(each, 'reason')

const deliveriesOf = (visit: Visit, here: string, webhook: WebhookResource): ListView<typeof outboundWebhooks> => ({
  of: outboundWebhooks,
  from: `${here}/deliveries`,
  caption: 'Deliveries',
  live: true,
  tabs: {
    label: 'Deliveries by status',
    name: 'outcome',
    options: [
      { value: '', name: 'All' },
      { value: 'delivered', name: 'Delivered' },
      { value: 'pending', name: 'Pending' },
      { value: 'failed', name: 'Failed' },
      { value: 'held', name: 'Held' },
    ],
  },
  columns: [
    { title: 'Time', kind: 'time', of: ({ attributes }) => exactTime(attributes.created_at) },
    { title: 'Event', of: 'event', width: 15, to: ({ id }) => `/webhooks/deliveries/${id}` },
    { title: 'Status', kind: 'status', of: 'outcome' },
    { title: 'Reason', of: whyIn },
    { title: 'Attempts', kind: 'figure', of: 'attempts' },
    { title: 'Response', kind: 'figure', of: (each) => text(each, 'response_status') },
    {
      title: '',
      kind: 'action',
      // An endpoint that is paused or disabled would only hold it again.
      of: (each) =>
        isActive(webhook)
          ? button(visit, 'replay', 'Resend', { to: here, fields: { delivery: each.id, event: text(each, 'event') } })
          : '',
    },
  ],
  empty: 'No deliveries yet.',
  noMatch: 'No deliveries with this status.',
})

const ACTIONS: Actions<typeof webhooks> = {
  pause: {
    label: 'Pause',
    when: isActive,
    ask: { attributes: { active: false } },
    said: (one) => `${text(one, 'name')} was paused. It receives no events.`,
  },
  resume: {
    label: 'Resume',
    when: (one) => !isActive(one),
    ask: { attributes: { active: true } },
    said: (one) => `${text(one, 'name')} was resumed.`,
  },
  test: {
    label: 'Send test event',
    when: isActive,
    ask: 'test',
    said: (one) => `A test event to ${text(one, 'url')} was queued.`,
  },
  replay: {
    label: 'Resend',
    ask: (_, given) => ({ method: 'POST', path: `/deliveries/${given.get('delivery')}/replay` }),
    said: (_, given) => `${given.get('event') || 'The event'} was queued again.`,
  },
  rotate: {
    label: 'Rotate secret',
    confirm: 'Creates a new signing secret. The old one stays valid for 24 hours.',
    danger: true,
    ask: { attributes: { rotate_secret: true } },
    said: '',
    secret: true,
  },
  remove: {
    label: 'Remove webhook',
    confirm: 'The endpoint receives no more events. Past deliveries are kept.',
    danger: true,
    deletes: true,
    said: (one) => `${text(one, 'name')} was removed.`,
  },
}

const one = onePlace({
  path: '/webhooks/:id',
  of: webhooks,
  list: ['/webhooks', 'Webhooks'],
  title: 'name',
  about: 'Endpoint and its deliveries.',
  actions: ACTIONS,
  head: ({ button: act }) => html`${act('pause')} ${act('resume')} ${act('test')}`,
  async body({ here, one: webhook, visit }) {
    const { secret } = visit
    const { body } = await listOf(visit, deliveriesOf(visit, here, webhook))
    return html`${secret === undefined ? '' : secretShown('the signing secret', secret)}
      ${facts([
        ['URL', text(webhook, 'url')],
        ['Format', text(webhook, 'format')],
        ['Status', stateOf(webhook)],
        ...troublesOf(webhook),
        ['Events', eventsOf(webhook)],
        ['Secret', html`ends in <code>${text(webhook, 'secret_hint')}</code>`],
      ])}
      <h2>Deliveries</h2>
      ${body}`
  },
})

/** JSON with an indent, and any other text as it is. */
function indented(words: string): string {
  try {
    return JSON.stringify(JSON.parse(words), null, 2)
  } catch {
    return words
  }
}

const delivery = onePlace({
  path: '/webhooks/deliveries/:id',
  of: outboundWebhooks,
  list: ['/webhooks', 'Webhooks'],
  title: 'event',
  about: 'The event, and the response of the endpoint.',
  body: ({ one: each }) =>
    html`${facts([
        ['Status', badge(text(each, 'outcome'))],
        ['HTTP status', text(each, 'response_status') || '–'],
        ...(whyIn(each) === '' ? [] : ([['Reason', whyIn(each)]] as const)),
        ['Time', exactTime(each.attributes.created_at)],
      ])}
      <h2>Attempts</h2>
      ${table(
        'Attempts',
        [{ title: 'Time', kind: 'time' }, ...figures('Response', 'Duration'), 'Reason'],
        objects(each, 'attempt_log').map(({ at, duration, reason, response_status: status }) => [
          exactTime(at),
          status ?? '–',
          `${count(duration)} ms`,
          reason ?? '',
        ]),
        'No attempts yet.',
      )}
      <h2>Request</h2>
      ${codeShown('payload', indented(text(each, 'payload')))}
      <h2>Response</h2>
      <pre tabindex="0">${text(each, 'response_body') || '(empty)'}</pre>`,
})

export const webhookPlaces = [delivery, ...list, one]
