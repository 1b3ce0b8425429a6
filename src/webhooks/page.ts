// Webhooks: endpoints for events, each delivery with its answer, and a button to repeat a delivery.
import { html } from 'hono/html'
import { EVENT_TYPES } from '../states/events.ts'
import { page } from '../webui/frame.ts'
import { button, choices, dangers, fieldMaker, form, secretShown } from '../webui/forms.ts'
import {
  badge,
  codeShown,
  count,
  counted,
  exactTime,
  facts,
  figures,
  live,
  pageOf,
  pager,
  table,
  tabs,
  time,
  type Html,
} from '../webui/widgets.ts'
import { outboundWebhooks, webhooks } from './api.ts'
import { done, found, type Form, type Place } from '../webui/place.ts'
import { faultIn, number, objects, text, texts, thingOf, type Answer, type Thing, type Visit } from '../webui/visit.ts'

type WebhookResource = Thing<typeof webhooks>

const LABELS = { name: 'Name', url: 'Address', events: 'Events', domain: 'Sending domain' } as const

/** The chosen events in words. */
const eventsOf = (webhook: WebhookResource): string => texts(webhook, 'events').join(', ').replace(/^\*$/, 'all')

/** Whether somebody should look at an endpoint: it was disabled, or its last attempts failed. */
export const isFailing = (webhook: WebhookResource): boolean =>
  text(webhook, 'status') === 'disabled' ||
  (text(webhook, 'status') === 'active' && number(webhook, 'consecutive_failures') > 0)

/** The state of an endpoint: one that is active but answers nothing well is failing. */
const stateOf = (webhook: WebhookResource): Html => {
  const failures = number(webhook, 'consecutive_failures')
  const failing = text(webhook, 'status') === 'active' && failures > 0
  return failing
    ? html`${badge('failing')} <span class="soft">${counted(failures, 'failure')}</span>`
    : badge(text(webhook, 'status'))
}

const WHY_DISABLED: Record<string, string> = {
  gone: 'The endpoint answered 410: it is gone for good.',
  failures:
    'Too many attempts failed in a row. Nothing is sent until you resume it; what happened meanwhile can be sent again.',
}

/** Why an endpoint fails, or was disabled. */
function troublesOf(webhook: WebhookResource): (readonly [string, Html | string])[] {
  const why = WHY_DISABLED[text(webhook, 'disabled_reason')]
  const last = text(webhook, 'last_failure')
  const next = text(webhook, 'status') === 'active' ? webhook.attributes.held_until : null
  return [
    ...(text(webhook, 'status') === 'disabled' && why !== undefined ? [['Disabled because', why] as const] : []),
    ...(last === '' ? [] : [['Last failure', last] as const]),
    ...(typeof next === 'string' ? [['Next attempt', time(next)] as const] : []),
  ]
}

async function showAll(visit: Visit): Promise<Response> {
  const [answer, options] = await Promise.all([
    visit.get(webhooks, `/webhooks?${pageOf(visit)}`),
    visit.names('/domains'),
  ])
  const rows = answer.many.map((webhook) => [
    html`<a href="/webhooks/${webhook.id}">${text(webhook, 'name')}</a>`,
    text(webhook, 'url'),
    stateOf(webhook),
    eventsOf(webhook),
  ])
  const mayAdd = !visit.reading && options.length > 0
  const noneYet = html`<p>No webhook yet. With one, your program hears what became of each mail.</p>
    ${mayAdd ? html`<a class="button" href="/webhooks/new">New webhook</a>` : ''}`
  return page(visit, {
    title: 'Webhooks',
    about: 'What happens to your mail is pushed to addresses of yours, signed.',
    actions: mayAdd ? html`<a class="button" href="/webhooks/new">New webhook</a>` : '',
    done: done(visit),
    body: html`${table('Webhooks', [{ title: 'Name', width: 20 }, 'Address', { title: 'Status', width: 20 }, 'Events'], rows, noneYet)}
    ${pager(visit, answer)}`,
  })
}

/** The choice of events: all of them, or some, by what they are about. */
function eventChoices(chosen: readonly string[], error: string | undefined): Html {
  const groups = Map.groupBy(EVENT_TYPES, (each) => each.slice(0, each.indexOf('.')))
  return html`<details id="events" ${chosen.length > 0 || error !== undefined ? html`open` : ''}>
    <summary>Only some events</summary>
    <p class="soft">Without a choice the endpoint gets all events, also those of later versions.</p>
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

/** The form for a new webhook, empty or as it was refused. */
async function showNew(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const options = await visit.names('/domains')
  const entry = fieldMaker(LABELS, errors, typed)
  return page(visit, {
    title: 'New webhook',
    about: 'Each event is posted to the address as JSON, signed with a secret that you see once.',
    crumbs: [['/webhooks', 'Webhooks']],
    errors,
    labels: LABELS,
    body: form(
      visit,
      'add',
      html`${entry('name', { required: true })} ${entry('url', { type: 'url', required: true, hint: 'https://…' })}
        ${entry('domain', { options, required: true })}
        ${eventChoices(typed?.all('events') ?? [], faultIn(errors, LABELS)('events'))} <button>Create webhook</button>`,
      { to: '/webhooks' },
    ),
  })
}

const fresh: Place = { path: '/webhooks/new', changes: true, show: (visit) => showNew(visit) }

const list: Place = {
  path: '/webhooks',
  show: (visit) => showAll(visit),
  async act(visit, given) {
    const answer = await visit.ask('POST', '/webhooks', {
      type: 'webhooks',
      attributes: {
        name: given.get('name'),
        url: given.get('url'),
        events: given.all('events').length === 0 ? ['*'] : given.all('events'),
      },
      relationships: { domain: { data: { type: 'domains', id: given.get('domain') } } },
    })
    return answer.one
      ? visit.leadToSecret(`/webhooks/${answer.one.id}`, text(thingOf(webhooks, answer.one), 'secret'))
      : showNew(visit, answer.errors, given)
  },
}

/** The outcomes of deliveries by which the list is filtered. */
const OUTCOMES = [
  ['', 'All'],
  ['delivered', 'Delivered'],
  ['pending', 'Waiting'],
  ['failed', 'Failed'],
  ['held', 'On hold'],
] as const

function deliveryList(visit: Visit, to: string, deliveries: Answer<typeof outboundWebhooks>): Html {
  const outcome = visit.query('outcome')
  return html`${tabs(
    'Deliveries by outcome',
    OUTCOMES.map(([each, name]) => ({
      to: each === '' ? to : `${to}?outcome=${each}`,
      name,
      here: outcome === each,
    })),
  )}
  ${table(
    'Deliveries',
    [
      { title: 'When', kind: 'time' },
      { title: 'Event', width: 20 },
      { title: 'Outcome', kind: 'status' },
      'Why',
      ...figures('Attempts', 'Answer'),
      { title: '', kind: 'action' },
    ],
    deliveries.many.map((each) => [
      exactTime(each.attributes.created_at),
      html`<a href="/webhooks/deliveries/${each.id}">${text(each, 'event')}</a>`,
      badge(text(each, 'outcome')),
      text(each, 'reason'),
      text(each, 'attempts') || '0',
      text(each, 'response_status'),
      button(visit, 'replay', 'Send again', { to, fields: { delivery: each.id, event: text(each, 'event') } }),
    ]),
    outcome === '' ? 'Nothing was sent yet.' : 'No delivery ended so.',
  )}
  ${pager(visit, deliveries)}`
}

async function showOne(visit: Visit, id: string, errors: Answer['errors'] = []): Promise<Response> {
  const { secret } = visit
  const { one } = found(await visit.get(webhooks, `/webhooks/${id}`))
  const outcome = visit.query('outcome')
  const only = OUTCOMES.some(([each]) => each === outcome) && outcome !== '' ? `&filter%5Boutcome%5D=${outcome}` : ''
  const deliveries = await visit.get(outboundWebhooks, `/webhooks/${id}/deliveries?${pageOf(visit)}${only}`)
  const active = text(one, 'status') === 'active'
  const to = `/webhooks/${id}`
  return page(visit, {
    title: text(one, 'name'),
    about: 'An endpoint, and all events that were sent to it.',
    crumbs: [['/webhooks', 'Webhooks']],
    actions: html`${button(visit, 'active', active ? 'Pause' : 'Resume', { to, fields: { value: String(!active) } })}
    ${active ? button(visit, 'test', 'Send a test event', { to }) : ''}`,
    errors,
    done: done(visit),
    body: html`${secret === undefined ? '' : secretShown('the signing secret', secret)}
      ${facts([
        ['Address', text(one, 'url')],
        ['Status', stateOf(one)],
        ...troublesOf(one),
        ['Events', eventsOf(one)],
        ['Secret', html`ends in <code>${text(one, 'secret_hint')}</code>`],
      ])}
      <h2>Deliveries</h2>
      ${live(visit, deliveryList(visit, to, deliveries))}
      ${dangers(visit, [
        [
          'A new secret is shown. For 24 hours both secrets sign.',
          button(visit, 'rotate', 'Rotate the secret', {
            to,
            confirm: 'A new secret is shown. For 24 hours both secrets sign.',
          }),
        ],
        [
          'The webhook gets no more events. Past deliveries stay readable.',
          button(visit, 'remove', 'Remove the webhook', {
            to,
            danger: true,
            confirm: 'It gets no more events. Past deliveries stay readable.',
          }),
        ],
      ])}`,
  })
}

/** Does what a form of the page of a webhook asks for. */
async function actOn(visit: Visit, id: string, given: Form): Promise<Response> {
  const here = `/webhooks/${id}`
  const patch = (attributes: Record<string, unknown>): Promise<Answer> =>
    visit.ask('PATCH', here, { type: 'webhooks', id, attributes })
  const after = (answer: Answer, sentence: (it: WebhookResource) => string): Response | Promise<Response> =>
    answer.one && answer.errors.length === 0
      ? visit.say(here, sentence(thingOf(webhooks, answer.one)))
      : showOne(visit, id, answer.errors)
  switch (given.action) {
    case 'rotate': {
      const answer = await patch({ rotate_secret: true })
      return answer.one
        ? visit.leadToSecret(here, text(thingOf(webhooks, answer.one), 'secret'))
        : showOne(visit, id, answer.errors)
    }
    case 'test':
      return after(await visit.ask('POST', `${here}/test`), (it) => `A test event is on its way to ${text(it, 'url')}.`)
    case 'remove': {
      const { one: it } = found(await visit.get(webhooks, here))
      const gone = await visit.ask('DELETE', here)
      return gone.status === 204
        ? visit.say('/webhooks', `${text(it, 'name')} is removed: it gets no more events.`)
        : showOne(visit, id, gone.errors)
    }
    case 'replay': {
      const answer = await visit.ask('POST', `/deliveries/${given.get('delivery')}/replay`)
      return answer.status === 202
        ? visit.say(here, `${given.get('event') || 'The event'} is sent again.`)
        : showOne(visit, id, answer.errors)
    }
    default: {
      const active = given.get('value') === 'true'
      return after(await patch({ active }), (it) =>
        active ? `${text(it, 'name')} gets events again.` : `${text(it, 'name')} is paused: it gets no events.`,
      )
    }
  }
}

const one: Place = {
  path: '/webhooks/:id',
  show: (visit) => showOne(visit, visit.context.req.param('id')!),
  act: (visit, given) => actOn(visit, visit.context.req.param('id')!, given),
}

/** JSON with an indent, and any other text as it is. */
function indented(words: string): string {
  try {
    return JSON.stringify(JSON.parse(words), null, 2)
  } catch {
    return words
  }
}

const delivery: Place = {
  path: '/webhooks/deliveries/:id',
  async show(visit) {
    const { one: each } = found(await visit.get(outboundWebhooks, `/deliveries/${visit.context.req.param('id')!}`))
    return page(visit, {
      title: text(each, 'event'),
      about: 'An event that was sent to an endpoint, and the endpoint’s answer.',
      crumbs: [['/webhooks', 'Webhooks']],
      body: html`${facts([
          ['Outcome', badge(text(each, 'outcome'))],
          ['Status of the answer', text(each, 'response_status') || '–'],
          ...(text(each, 'reason') === '' ? [] : ([['Why it failed', text(each, 'reason')]] as const)),
          ['When', exactTime(each.attributes.created_at)],
        ])}
        <h2>Attempts</h2>
        ${table(
          'Attempts',
          [{ title: 'When', kind: 'time' }, ...figures('Answer', 'Took'), 'Why it failed'],
          objects(each, 'attempt_log').map(({ at, duration, reason, response_status: status }) => [
            exactTime(at),
            status ?? '–',
            `${count(duration)} ms`,
            reason ?? '',
          ]),
          'None yet.',
        )}
        <h2>Request</h2>
        ${codeShown('payload', indented(text(each, 'payload')))}
        <h2>Answer</h2>
        <pre tabindex="0">${text(each, 'response_body') || '(nothing)'}</pre>`,
    })
  },
}

export const webhookPlaces = [fresh, delivery, list, one]
