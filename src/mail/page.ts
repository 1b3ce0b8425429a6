// Mail: one search over all sent mail, and for one mail each step of its delivery with the servers' replies.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { button, field, form } from '../webui/forms.ts'
import {
  badge,
  count,
  exactTime,
  facts,
  live,
  pageOf,
  pager,
  search,
  table,
  time,
  timeUntil,
  type Html,
} from '../webui/widgets.ts'
import { done, found, lead, type Place } from '../webui/place.ts'
import { attempts } from '../delivery/api-attempts.ts'
import { outboundWebhooks } from '../webhooks/api.ts'
import { outboundEmailStats } from './api-stats.ts'
import { outboundEmails } from './api.ts'
import { contents, type MailResource } from './page-contents.ts'
import {
  answerOf,
  flag,
  number,
  objects,
  relatedId,
  text,
  type Answer,
  type Thing,
  type Visit,
} from '../webui/visit.ts'

const HINT =
  'Words match addresses and subjects. Also to: from: subject: status: domain: campaign: agent: before: after:'

const list: Place = {
  path: '/mail',
  async show(visit) {
    const q = visit.query('q')
    const answer = await visit.get(
      outboundEmails,
      `/outbound-emails?${pageOf(visit)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}`,
    )
    // The search box of every page leads straight to the only mail that fits.
    const [only] = answer.many
    if (visit.query('from') === 'anywhere' && only && answer.many.length === 1 && !answer.next && !answer.previous)
      return visit.context.redirect(`/mail/${only.id}`, 303)
    // On a phone the first columns are seen: who, and what became of it.
    const rows = answer.many.map((mail) => [
      html`<a href="/mail/${mail.id}">${text(mail, 'to')}</a>`,
      badge(text(mail, 'status')),
      text(mail, 'subject') || html`<span class="soft">(no subject)</span>`,
      time(mail.attributes.created_at),
      text(mail, 'from'),
    ])
    return page(visit, {
      title: 'Mail',
      about: 'Every mail that was sent, the newest first: did somebody get it, and if not, why?',
      errors: answer.errors,
      done: done(visit),
      body: html`${search(visit, 'Search', HINT)}
      ${live(
        visit,
        html`${table(
          'Mail',
          [
            'To',
            { title: 'Status', kind: 'status' },
            'Subject',
            { title: 'Accepted', kind: 'time' },
            { title: 'From', width: 20 },
          ],
          rows,
          q === ''
            ? html`No mail yet. <a href="/tokens">Make a token</a>; your program sends with it, over HTTP or SMTP.`
            : answer.errors.length > 0
              ? 'The search was not understood.'
              : 'Nothing fits that search.',
        )}
        ${pager(visit, answer)}`,
      )}`,
    })
  },
}

/** One step of a mail's delivery. */
interface TimelineStep {
  at: string
  what: Html
}

type AttemptResource = Thing<typeof attempts>
type Told = Thing<typeof outboundWebhooks>

function timeline(mail: MailResource, tried: readonly AttemptResource[], told: readonly Told[]): Html {
  const steps: TimelineStep[] = [{ at: text(mail, 'created_at'), what: html`Accepted` }]
  for (const attempt of tried) {
    const said = answerOf(attempt.attributes)
    if (flag(attempt, 'reported')) {
      steps.push({
        at: text(attempt, 'at'),
        what: html`A report for ${text(attempt, 'address')} came back: ${badge(text(attempt, 'outcome'))}
        ${said === '' ? '' : html`<blockquote>${said}</blockquote>`}`,
      })
      continue
    }
    const where = text(attempt, 'remote_mta')
    const dialogue = text(attempt, 'dialogue')
    steps.push({
      at: text(attempt, 'at'),
      what: html`Attempt ${text(attempt, 'number')} for ${text(attempt, 'address')}: ${badge(text(attempt, 'outcome'))}
      ${where === '' ? '' : html`<span class="soft">at ${where}${text(attempt, 'tls') === '' ? ', without TLS' : ` over ${text(attempt, 'tls')}`}</span>`}
      ${said === '' ? '' : html`<blockquote>${said}</blockquote>`}
      ${
        dialogue === ''
          ? ''
          : html`<details>
              <summary>The SMTP dialogue</summary>
              <pre tabindex="0">${dialogue}</pre>
            </details>`
      }`,
    })
  }
  for (const delivery of told) {
    const webhook = relatedId(delivery, 'webhook')
    const status = text(delivery, 'response_status')
    const reason = text(delivery, 'reason')
    steps.push({
      at: text(delivery, 'created_at'),
      what: html`<code>${text(delivery, 'event')}</code> for
        ${webhook ? html`<a href="/webhooks/${webhook}">a webhook</a>` : 'a webhook that was removed'}:
        ${badge(text(delivery, 'outcome'))} ${status === '' ? '' : html`<span class="soft">answered ${status}</span>`}
        ${reason === '' ? '' : html`<blockquote>${reason}</blockquote>`}`,
    })
  }
  for (const [name, words] of [
    ['first_opened_at', 'A person opened it for the first time.'],
    ['first_clicked_at', 'A person followed a link for the first time.'],
    ['complained_at', 'The recipient complained about it.'],
    ['suppressed_at', 'It was not sent: the address is suppressed.'],
    ['rejected_at', 'This server refused to send it.'],
  ] as const)
    if (text(mail, name) !== '') steps.push({ at: text(mail, name), what: html`${words}` })
  steps.sort((one, other) => (one.at < other.at ? -1 : one.at > other.at ? 1 : 0))
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
      each.response ?? '',
      timeUntil(each.next_attempt_at),
    ]),
    'Nobody.',
  )
}

/** What an operator can do with a mail that waits. */
function inQueue(visit: Visit, mail: MailResource): Html | '' {
  const waits = objects(mail, 'recipients').some(({ status }) => status === 'queued')
  if (!visit.operator || !waits) return ''
  return html`<div class="row">
    ${button(visit, 'retry', 'Try now')} ${button(visit, 'hold', 'Hold')} ${button(visit, 'release', 'Release')}
    ${button(visit, 'drop', 'Fail now', { danger: true, confirm: 'The recipients that still wait fail. This cannot be taken back.' })}
  </div>`
}

async function showOne(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const id = visit.context.req.param('id')!
  const { one } = found(await visit.get(outboundEmails, `/outbound-emails/${id}`))
  const [tried, told, stats] = await Promise.all([
    visit.all(attempts, `/outbound-emails/${id}/attempts`, 500),
    visit.all(outboundWebhooks, `/outbound-emails/${id}/webhook-deliveries`, 500),
    visit.get(outboundEmailStats, `/outbound-emails/${id}/stats`),
  ])
  const campaign = relatedId(one, 'campaign')
  const figures = stats.one
  const files = objects(one, 'attachments').length
  return page(visit, {
    title: text(one, 'subject') || '(no subject)',
    crumbs: [['/mail', 'Mail']],
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
            ...(campaign ? ([['Campaign', html`<a href="/campaigns/${campaign}">its page</a>`]] as const) : []),
            ...(figures && figures.attributes.opens !== null
              ? ([
                  ['Opens and clicks', `${count(number(figures, 'opens'))} and ${count(number(figures, 'clicks'))}`],
                ] as const)
              : []),
          ])}
          <h2>Delivery</h2>
          ${timeline(one, tried, told)} ${recipients(one)}`,
      )}
      ${inQueue(visit, one)}
      <h2>Contents</h2>
      ${contents(visit, one)}
      ${
        visit.reading || campaign || text(one, 'html') === '' || files > 0
          ? files > 0
            ? html`<p class="soft">A mail with attachments is sent again by the program that made it.</p>`
            : ''
          : html`<h2>Send it again</h2>
              ${form(
                visit,
                'again',
                html`${field({ name: 'to', label: 'To', type: 'email', value: text(one, 'to').replace(/^.*<(.*)>$/, '$1'), required: true })}
                  <button>Send again</button>`,
              )}`
      }
      <p class="apart">
        ${button(visit, 'remove', 'Remove the stored mail', {
          danger: true,
          confirm: 'The mail and its text are removed here. What was delivered is not taken back.',
        })}
      </p>`,
  })
}

const one: Place = {
  path: '/mail/:id',
  show: (visit) => showOne(visit),
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    if (given.action === 'remove') {
      const gone = await visit.ask('DELETE', `/outbound-emails/${id}`)
      return gone.status === 204 ? lead(visit, '/mail', 'removed') : showOne(visit, gone.errors)
    }
    if (['retry', 'hold', 'release', 'drop'].includes(given.action)) {
      const moved = await visit.ask('POST', `/outbound-emails/${id}/${given.action}`)
      return moved.status === 202 ? lead(visit, `/mail/${id}`, 'moved') : showOne(visit, moved.errors)
    }
    const { one: mail } = found(await visit.get(outboundEmails, `/outbound-emails/${id}`))
    const answer = await visit.ask('POST', '/outbound-emails', {
      type: 'outbound-emails',
      attributes: {
        from: text(mail, 'from'),
        to: given.get('to'),
        subject: text(mail, 'subject'),
        html: text(mail, 'html'),
        text: mail.attributes.text ?? null,
        reply_to: mail.attributes.reply_to ?? null,
        headers: mail.attributes.headers ?? {},
      },
    })
    return answer.one ? lead(visit, `/mail/${answer.one.id}`, 'sent') : showOne(visit, answer.errors)
  },
}

export const mailPlaces = [list, one]
