// One email: each step of its delivery with the servers' replies, its contents, and the actions on it.
import { html } from 'hono/html'
import { page } from '../views/html/frame.ts'
import { button, dangers, field, form } from '../views/html/forms.ts'
import { badge, count, counted, facts, live, table, timeUntil, type Html, exactTime } from '../views/html/widgets.ts'
import { done, found, type Place } from '../views/html/place.ts'
import { attempts } from '../delivery/api-attempts.ts'
import { HELD } from '../delivery/waiting-reason.ts'
import { suppressions } from '../suppressions/api.ts'
import { stopWords } from '../suppressions/stops.ts'
import { outboundWebhooks } from '../webhooks/api.ts'
import { outboundEmailStats } from './api-stats.ts'
import { outboundEmails } from './api.ts'
import { contents, type MailResource } from './page-contents.ts'
import { listPlaces } from './page-list.ts'
import { nameOf } from './page-words.ts'
import { number, objects, relatedId, text, type Answer, type Visit, flag, type Thing } from '../views/html/visit.ts'
import { answerOf } from '../views/html/reply.ts'
import { HIDDEN } from '../message/return-path.ts'
import { protectionWords } from '../smtp/security.ts'

function recipients(mail: MailResource): Html {
  const rows = objects(mail, 'recipients')
  return table(
    'Recipients',
    [
      { title: 'Recipient', width: 30 },
      { title: 'Status', kind: 'status' },
      { title: 'Details', wraps: true },
      { title: 'Next attempt', kind: 'time' },
    ],
    rows.map((each) => [
      html`${each.address} ${each.role === 'to' ? '' : html`<span class="soft">${each.role}</span>`}`,
      badge(each.status),
      each.waiting_reason ?? answerOf(each),
      timeUntil(each.next_attempt_at),
    ]),
    'No recipients.',
  )
}

/** The recipients that still wait. */
const waiting = (mail: MailResource) => objects(mail, 'recipients').filter(({ status }) => status === 'queued')

/** The columns of a campaign that the page of an email needs. */
interface OfCampaign {
  id: string
  name: string
  paused: boolean
}

async function campaignOf(visit: Visit, mail: MailResource): Promise<OfCampaign | undefined> {
  const id = relatedId(mail, 'campaign')
  if (id === undefined) return undefined
  const attributes = (await visit.ask('GET', `/campaigns/${id}`)).one?.attributes
  return { id, name: nameOf(attributes) || 'its page', paused: attributes?.['status'] === 'paused' }
}

const linkTo = ({ id, name }: OfCampaign): Html => html`<a href="/campaigns/${id}">${name}</a>`

/** The actions of an operator on a queued email. Mail of a paused campaign resumes with its campaign. */
function inQueue(visit: Visit, mail: MailResource, campaign: OfCampaign | undefined): Html | '' {
  if (text(mail, 'status') === 'scheduled' && visit.allows('emails:send'))
    return html`<div class="row">
      ${button(visit, 'now', 'Send now')}
      ${button(visit, 'cancel', 'Cancel email', {
        danger: true,
        confirm: `“${titleOf(mail)}” to ${bare(text(mail, 'to'))} will not be sent. This cannot be undone.`,
      })}
    </div>`
  if (waiting(mail).length === 0) return ''
  if (campaign?.paused)
    return html`<p class="soft">Held by the campaign ${linkTo(campaign)} (paused). Resume the campaign to send it.</p>`
  if (!visit.operator) return ''
  const held = waiting(mail).filter(({ waiting_reason }) => waiting_reason === HELD)
  const rest = held.length < waiting(mail).length
  return html`<div class="row">
    ${rest ? html`${button(visit, 'retry', 'Retry now')} ${button(visit, 'hold', 'Hold')}` : ''}
    ${held.length > 0 ? button(visit, 'release', 'Release') : ''}
  </div>`
}

const dangersOf = (visit: Visit, mail: MailResource): Html | '' => {
  const recipients = counted(waiting(mail).length, 'recipient')
  const fails = button(visit, 'drop', 'Fail now', {
    danger: true,
    confirm: `Delivery of “${titleOf(mail)}” to ${recipients} will be marked as failed. This cannot be undone.`,
  })
  const removes = button(visit, 'remove', 'Delete email', {
    danger: true,
    confirm: `This deletes “${titleOf(mail)}” to ${text(mail, 'to')} from this server. Recipients keep the emails that were delivered.`,
  })
  return dangers(visit, [
    ...(visit.operator && waiting(mail).length > 0
      ? [
          [
            `Stops delivery to ${recipients} and marks ${waiting(mail).length === 1 ? 'it' : 'them'} as failed.`,
            fails,
          ] as const,
        ]
      : []),
    ['Deletes the email and its content from this server. Recipients keep the emails that were delivered.', removes],
  ])
}

const titleOf = (mail: MailResource): string => text(mail, 'subject') || '(no subject)'

/** The suppression that blocks transactional email to an address, with a link to it, or ''. */
async function suppressed(visit: Visit, mail: MailResource, address: string): Promise<Html | ''> {
  const of = `filter[domain]=${relatedId(mail, 'domain') ?? ''}&filter[email]=${encodeURIComponent(address)}`
  const { many } = await visit.get(suppressions, `/suppressions?filter[scope]=all&${of}`)
  const entry = many.find(({ attributes: { expires_at: until } }) => !until || Date.parse(until) > visit.now())
  return entry === undefined
    ? ''
    : html`<div class="alert">
        <p>
          ${address} is suppressed:
          ${stopWords({ reason: text(entry, 'reason'), erased: text(entry, 'email').startsWith('#') })}.
          <a href="/suppressions?q=${encodeURIComponent(address)}">View the suppression</a>, or resend to another
          address.
        </p>
      </div>`
}

/** A form that resends the email. Emails with attachments have to be resent by the application. */
async function again(
  visit: Visit,
  mail: MailResource,
  campaign: OfCampaign | undefined,
  to = bare(text(mail, 'to')),
): Promise<Html | ''> {
  if (visit.reading || campaign || text(mail, 'html') === '') return ''
  const has =
    objects(mail, 'attachments').length > 0
      ? 'attachments'
      : `${text(mail, 'html')} ${text(mail, 'text')}`.includes(HIDDEN)
        ? 'links that only its recipient sees'
        : undefined
  if (has)
    return html`<p class="soft">
      The console cannot resend an email that has ${has}. Resend it from your application.
    </p>`
  return html`<h2>Resend</h2>
    ${await suppressed(visit, mail, to)}
    ${form(
      visit,
      'again',
      html`${field({ name: 'to', label: 'To', type: 'email', value: to, required: true })} <button>Resend</button>`,
    )}`
}

/** An address without its name. */
const bare = (address: string): string => address.replace(/^.*<(.*)>$/, '$1')

async function showOne(visit: Visit, errors: Answer['errors'] = [], to?: string): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(outboundEmails, `/outbound-emails/${id}`))
  const [tried, calls, stats, campaign, parts] = await Promise.all([
    visit.all(attempts, `/outbound-emails/${id}/attempts`, 500),
    visit.allows('webhooks:read') ? visit.all(outboundWebhooks, `/outbound-emails/${id}/webhook-deliveries`, 500) : [],
    visit.get(outboundEmailStats, `/outbound-emails/${id}/stats`),
    campaignOf(visit, one),
    contents(visit, one),
  ])
  const figures = stats.one
  return page(visit, {
    title: titleOf(one),
    crumbs: [['/mail', 'Emails']],
    actions: visit.allows('emails:read') ? html`<a class="button plain" href="/why/${id}">Why?</a>` : '',
    errors,
    done: done(visit),
    body: html`${live(
        visit,
        html`${facts([
            ['Status', badge(text(one, 'status'))],
            ...(text(one, 'status') === 'scheduled'
              ? ([['Scheduled for', exactTime(text(one, 'scheduled_at'))]] as const)
              : []),
            ['From', text(one, 'from')],
            ['To', text(one, 'to')],
            ['Message-ID', html`<code>${text(one, 'message_id')}</code>`],
            ...(text(one, 'stream') === 'bulk' ? ([['Stream', 'Bulk email']] as const) : []),
            ...(text(one, 'agent_id') === '' ? [] : ([['Agent', text(one, 'agent_id')]] as const)),
            ...(campaign ? ([['Campaign', linkTo(campaign)]] as const) : []),
            ...(figures && figures.attributes.opens !== null
              ? ([
                  ['Opens and clicks', `${count(number(figures, 'opens'))} and ${count(number(figures, 'clicks'))}`],
                ] as const)
              : []),
          ])}
          <h2>Delivery</h2>
          ${timeline(one, tried, calls)} ${recipients(one)} ${inQueue(visit, one, campaign)}`,
      )}
      <h2>Contents</h2>
      ${parts} ${again(visit, one, campaign, to)} ${dangersOf(visit, one)}`,
  })
}

/** The messages after somebody moved an email. */
const MOVED: Readonly<Record<string, (mail: MailResource, many: string) => string>> = {
  cancel: (mail) => `Cancelled: “${titleOf(mail)}” to ${bare(text(mail, 'to'))} is not sent.`,
  retry: (mail) => `Retrying ${bare(text(mail, 'to'))} now.`,
  hold: (mail) => `Held: delivery to ${bare(text(mail, 'to'))} stops until you release it.`,
  release: (mail) => `Released: delivery to ${bare(text(mail, 'to'))} resumes.`,
  drop: (mail, many) => `Marked ${many} of “${titleOf(mail)}” as failed.`,
}

/** The fields of an email that is resent. */
const copyOf = (mail: MailResource, to: string) => ({
  from: text(mail, 'from'),
  to,
  subject: text(mail, 'subject'),
  html: text(mail, 'html'),
  text: mail.attributes.text ?? null,
  reply_to: mail.attributes.reply_to ?? null,
  headers: mail.attributes.headers ?? {},
  stream: mail.attributes.stream ?? 'transactional',
})

const one: Place = {
  path: '/mail/:id',
  show: (visit) => showOne(visit),
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    const { one: mail } = found(await visit.get(outboundEmails, `/outbound-emails/${id}`))
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/outbound-emails/${id}`)
      return gone.status === 204
        ? visit.say('/mail', `Deleted “${titleOf(mail)}” to ${bare(text(mail, 'to'))}.`)
        : showOne(visit, gone.errors)
    }
    if (given.action === 'now') {
      const attributes = { scheduled_at: null }
      const sent = await visit.ask('PATCH', `/outbound-emails/${id}`, { type: 'outbound-emails', id, attributes })
      return sent.one ? visit.say(`/mail/${id}`, 'The email is sent now.') : showOne(visit, sent.errors)
    }
    if (Object.hasOwn(MOVED, given.action)) {
      const moved = await visit.ask('POST', `/outbound-emails/${id}/${given.action}`)
      const words = MOVED[given.action]?.(mail, counted(waiting(mail).length, 'recipient')) ?? ''
      return moved.status === 202 ? visit.say(`/mail/${id}`, words) : showOne(visit, moved.errors)
    }
    const attributes = copyOf(mail, given.get('to'))
    const answer = await visit.ask('POST', '/outbound-emails', { type: 'outbound-emails', attributes })
    return answer.one
      ? visit.say(`/mail/${answer.one.id}`, `Resent to ${bare(given.get('to'))}.`)
      : showOne(visit, answer.errors, given.get('to'))
  },
}

export const mailPlaces = [...listPlaces, one]

// The timeline of an email: each step of its delivery with the servers' replies, in the order of time. Webhook calls
// are one step that can be unfolded.

/** One step of an email's delivery. */
interface TimelineStep {
  at: string
  what: Html
}

export type AttemptResource = Thing<typeof attempts>
export type Told = Thing<typeof outboundWebhooks>

/** The meaning of a reply, above the reply itself. */
const meaning = (attempt: AttemptResource): Html | '' =>
  text(attempt, 'reason') === '' ? '' : html`<div>${text(attempt, 'reason')}</div>`

const quote = (said: string): Html | '' => (said === '' ? '' : html`<blockquote>${said}</blockquote>`)

function attemptStep(attempt: AttemptResource): TimelineStep {
  const at = text(attempt, 'at')
  const said = answerOf(attempt.attributes)
  const outcome = badge(text(attempt, 'outcome'))
  if (flag(attempt, 'reported'))
    return {
      at,
      what: html`Bounce message for ${text(attempt, 'address')}: ${outcome} ${meaning(attempt)} ${quote(said)}`,
    }
  const where = text(attempt, 'remote_mta')
  const dialogue = text(attempt, 'dialogue')
  const { tls } = attempt.attributes
  const source = text(attempt, 'source')
  const route = text(attempt, 'route')
  return {
    at,
    what: html`Attempt ${text(attempt, 'number')} for ${text(attempt, 'address')}: ${outcome}
    ${where === '' ? '' : html`<span class="soft">at ${where} ${protectionWords(tls?.protocol ?? null, tls?.verified_by ?? null)}${source === '' ? '' : `, from ${source}`}${route === '' ? '' : `, via relay ${route}`}</span>`}
    ${meaning(attempt)} ${quote(said)}
    ${
      dialogue === ''
        ? ''
        : html`<details>
            <summary>SMTP transcript</summary>
            <pre tabindex="0">${dialogue}</pre>
          </details>`
    }`,
  }
}

/** The webhook calls, folded into one step at the time of the first. It shows how many calls failed. */
function webhookStep(calls: readonly Told[]): TimelineStep[] {
  const [first] = calls
  if (!first) return []
  const taken = calls.filter((each) => text(each, 'outcome') === 'delivered').length
  return [
    {
      at: text(first, 'created_at'),
      what: html`<details>
        <summary>
          ${counted(calls.length, 'webhook call')}${taken === calls.length ? '' : html`, ${calls.length - taken} not delivered`}
        </summary>
        <ul class="calls">
          ${calls.map((each) => html`<li>${webhookCall(each)}</li>`)}
        </ul>
      </details>`,
    },
  ]
}

function webhookCall(delivery: Told): Html {
  const webhook = relatedId(delivery, 'webhook')
  const status = text(delivery, 'response_status')
  return html`<code>${text(delivery, 'event')}</code> for
    ${webhook ? html`<a href="/webhooks/${webhook}">a webhook</a>` : 'a deleted webhook'}:
    ${badge(text(delivery, 'outcome'))} ${status === '' ? '' : html`<span class="soft">HTTP ${status}</span>`}
    ${exactTime(text(delivery, 'created_at'))} ${quote(text(delivery, 'waiting_reason') || text(delivery, 'reason'))}`
}

const MOMENTS = [
  ['first_opened_at', 'First open.'],
  ['first_clicked_at', 'First click.'],
  ['complained_at', 'Marked as spam by the recipient.'],
  ['suppressed_at', 'Not sent: the address is suppressed.'],
  ['rejected_at', 'Rejected by this server.'],
  ['cancelled_at', 'Cancelled before it was sent.'],
] as const

export function timeline(mail: MailResource, tried: readonly AttemptResource[], calls: readonly Told[]): Html {
  const steps: TimelineStep[] = [
    { at: text(mail, 'created_at'), what: html`Accepted` },
    ...tried.map(attemptStep),
    ...webhookStep(calls),
    ...MOMENTS.flatMap(([name, words]) =>
      text(mail, name) === '' ? [] : [{ at: text(mail, name), what: html`${words}` }],
    ),
  ].sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0))
  return html`<ol class="timeline">
    ${steps.map(
      ({ at, what }) =>
        html`<li>
          ${exactTime(at)}
          <div>${what}</div>
        </li>`,
    )}
  </ol>`
}
