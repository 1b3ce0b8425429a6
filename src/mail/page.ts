// One mail: each step of its delivery with the servers' replies, its contents, and what can be done with it.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, dangers, field, form } from '../webui/forms.ts'
import { badge, count, counted, facts, live, table, timeUntil, type Html } from '../webui/widgets.ts'
import { done, found, type Place } from '../webui/place.ts'
import { attempts } from '../delivery/api-attempts.ts'
import { outboundWebhooks } from '../webhooks/api.ts'
import { outboundEmailStats } from './api-stats.ts'
import { outboundEmails } from './api.ts'
import { contents, type MailResource } from './page-contents.ts'
import { listPlaces } from './page-list.ts'
import { nameOf } from './page-words.ts'
import { timeline } from './page-way.ts'
import { answerOf, number, objects, relatedId, text, type Answer, type Visit } from '../webui/visit.ts'

function recipients(mail: MailResource): Html {
  const rows = objects(mail, 'recipients')
  return table(
    'Recipients',
    [
      { title: 'Recipient', width: 30 },
      { title: 'Status', kind: 'status' },
      { title: 'Last answer', wraps: true },
      { title: 'Next try', kind: 'time' },
    ],
    rows.map((each) => [
      html`${each.address} ${each.role === 'to' ? '' : html`<span class="soft">${each.role}</span>`}`,
      badge(each.status),
      answerOf(each),
      timeUntil(each.next_attempt_at),
    ]),
    'Nobody.',
  )
}

/** The recipients that still wait. */
const waiting = (mail: MailResource) => objects(mail, 'recipients').filter(({ status }) => status === 'queued')

/** The campaign of a mail, as its page needs it. */
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

/** What an operator can do with a mail that waits; mail of a paused campaign goes on with its campaign. */
function inQueue(visit: Visit, mail: MailResource, campaign: OfCampaign | undefined): Html | '' {
  if (!visit.operator || waiting(mail).length === 0) return ''
  if (campaign?.paused)
    return html`<p class="soft">Held by the campaign ${linkTo(campaign)} (paused); it goes on with it.</p>`
  return html`<div class="row">
    ${button(visit, 'retry', 'Try now')} ${button(visit, 'hold', 'Hold')} ${button(visit, 'release', 'Release')}
  </div>`
}

const dangersOf = (visit: Visit, mail: MailResource): Html | '' => {
  const recipients = counted(waiting(mail).length, 'recipient')
  const fails = button(visit, 'drop', 'Fail now', {
    danger: true,
    confirm: `${recipients} of “${titleOf(mail)}” will fail. This cannot be undone.`,
  })
  const removes = button(visit, 'remove', 'Remove the stored mail', {
    danger: true,
    confirm: `“${titleOf(mail)}” to ${text(mail, 'to')} and its text are removed here. What was delivered stays where it is.`,
  })
  return dangers(visit, [
    ...(visit.operator && waiting(mail).length > 0
      ? [[`${recipients} will fail; no further try is made.`, fails] as const]
      : []),
    ['The mail and its text are removed here. What was delivered stays where it is.', removes],
  ])
}

const titleOf = (mail: MailResource): string => text(mail, 'subject') || '(no subject)'

/** A form that sends the mail again; a program that attached files has them, this server only as long as the body. */
function again(visit: Visit, mail: MailResource, campaign: OfCampaign | undefined): Html | '' {
  if (visit.reading || campaign || text(mail, 'html') === '') return ''
  if (objects(mail, 'attachments').length > 0)
    return html`<p class="soft">A mail with attachments is sent again by the program that made it.</p>`
  return html`<h2>Send it again</h2>
    ${form(
      visit,
      'again',
      html`${field({ name: 'to', label: 'To', type: 'email', value: bare(text(mail, 'to')), required: true })}
        <button>Send again</button>`,
    )}`
}

/** An address without its name. */
const bare = (address: string): string => address.replace(/^.*<(.*)>$/, '$1')

async function showOne(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(outboundEmails, `/outbound-emails/${id}`))
  const [tried, told, stats, campaign, parts] = await Promise.all([
    visit.all(attempts, `/outbound-emails/${id}/attempts`, 500),
    visit.all(outboundWebhooks, `/outbound-emails/${id}/webhook-deliveries`, 500),
    visit.get(outboundEmailStats, `/outbound-emails/${id}/stats`),
    campaignOf(visit, one),
    contents(visit, one),
  ])
  const figures = stats.one
  return page(visit, {
    title: titleOf(one),
    crumbs: [['/mail', 'Mail']],
    actions: html`<a class="button plain" href="/why/${id}">Why?</a>`,
    errors,
    done: done(visit),
    body: html`${live(
        visit,
        html`${facts([
            ['Status', badge(text(one, 'status'))],
            ['From', text(one, 'from')],
            ['To', text(one, 'to')],
            ['Message-ID', html`<code>${text(one, 'message_id')}</code>`],
            ...(text(one, 'agent_id') === '' ? [] : ([['Agent', text(one, 'agent_id')]] as const)),
            ...(campaign ? ([['Campaign', linkTo(campaign)]] as const) : []),
            ...(figures && figures.attributes.opens !== null
              ? ([
                  ['Opens and clicks', `${count(number(figures, 'opens'))} and ${count(number(figures, 'clicks'))}`],
                ] as const)
              : []),
          ])}
          <h2>Delivery</h2>
          ${timeline(one, tried, told)} ${recipients(one)} ${inQueue(visit, one, campaign)}`,
      )}
      <h2>Contents</h2>
      ${parts} ${again(visit, one, campaign)} ${dangersOf(visit, one)}`,
  })
}

/** What is said after an operator moved a mail. */
const MOVED: Readonly<Record<string, (mail: MailResource, many: string) => string>> = {
  retry: (mail) => `${bare(text(mail, 'to'))} is tried now.`,
  hold: (mail) => `Held: nothing is tried for ${bare(text(mail, 'to'))} until it is released.`,
  release: (mail) => `Released: ${bare(text(mail, 'to'))} is tried when its turn comes.`,
  drop: (mail, many) => `${many} of “${titleOf(mail)}” failed; no further try is made.`,
}

/** The fields of a mail that is sent once more. */
const copyOf = (mail: MailResource, to: string) => ({
  from: text(mail, 'from'),
  to,
  subject: text(mail, 'subject'),
  html: text(mail, 'html'),
  text: mail.attributes.text ?? null,
  reply_to: mail.attributes.reply_to ?? null,
  headers: mail.attributes.headers ?? {},
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
        ? visit.say('/mail', `Removed “${titleOf(mail)}” to ${bare(text(mail, 'to'))}.`)
        : showOne(visit, gone.errors)
    }
    if (Object.hasOwn(MOVED, given.action)) {
      const moved = await visit.ask('POST', `/outbound-emails/${id}/${given.action}`)
      const words = MOVED[given.action]?.(mail, counted(waiting(mail).length, 'recipient')) ?? ''
      return moved.status === 202 ? visit.say(`/mail/${id}`, words) : showOne(visit, moved.errors)
    }
    const attributes = copyOf(mail, given.get('to'))
    const answer = await visit.ask('POST', '/outbound-emails', { type: 'outbound-emails', attributes })
    return answer.one
      ? visit.say(`/mail/${answer.one.id}`, `Sent again to ${bare(given.get('to'))}.`)
      : showOne(visit, answer.errors)
  },
}

export const mailPlaces = [...listPlaces, one]
