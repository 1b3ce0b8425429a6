// The page of one receiver: figures, replies and their meaning, learned pace, and links to its email.
import { html } from 'hono/html'
import { barChart, dayWriter } from '../views/html/chart.ts'
import { page } from '../views/html/frame.ts'
import { found, type Place } from '../views/html/place.ts'
import { inUtc, oldDays, periodFilters, periodOf, periods } from '../views/html/period.ts'
import {
  badge,
  count,
  counted,
  figures,
  live,
  percent,
  table,
  tile,
  time,
  type Cell,
  type Html,
} from '../views/html/widgets.ts'
import { troubles } from '../views/html/troubles.ts'
import { number, objects, text, texts, type Visit } from '../views/html/visit.ts'
import { ALARM_EFFECTS } from './alarm-words.ts'
import { receiverAlarms } from './api-alarms.ts'
import { receivers } from './api-receivers.ts'
import { estimateOf, verdictOf, type ReceiverFound } from './page-times.ts'

/** The descriptions of verdicts. */
const SAYS: Readonly<Record<string, string>> = {
  good: 'This provider accepts your email without delay.',
  slow: 'This provider is slow: it defers many attempts, or delivery takes over an hour. Postrider retries at a lower rate. Pause campaigns to it until the deferrals end.',
  refusing:
    'This provider rejects at least 10% of your email. The replies below name the reason. Fix it before you send more.',
  quiet: 'Not enough email in this period for a rating.',
}

/** Receiving domains whose pace is shown. */
const MAX_DOMAINS = 50

const mailOf = (receiver: ReceiverFound, status: string): string =>
  `/mail?q=${encodeURIComponent(`receiver:"${text(receiver, 'name').replaceAll('"', '')}"${status}`)}`

function complaintNote(receiver: ReceiverFound): Html {
  const [delivered, unmatched] = [number(receiver, 'delivered'), number(receiver, 'unmatched_complaints')]
  return html`<span
    >${delivered === 0 ? '' : `${percent(number(receiver, 'complained') / delivered)} of delivered`}${unmatched === 0 ? '' : `, ${count(unmatched)} more without a matching email`}</span
  >`
}

function tiles(receiver: ReceiverFound): Html {
  const volume = number(receiver, 'volume')
  const of = (name: 'delivered' | 'refused'): Cell => (volume === 0 ? '–' : percent(number(receiver, name) / volume))
  return html`<section class="tiles" aria-label="Statistics">
    ${tile('Delivered', of('delivered'), { note: html`<span>${count(number(receiver, 'delivered'))} of ${counted(volume, 'email')}</span>` })}
    ${tile('Queued', count(number(receiver, 'waiting')), {
      to: mailOf(receiver, ' status:queued'),
      note: html`<span>recipients, now</span>`,
    })}
    ${tile('Deferred', percent(number(receiver, 'deferred_rate')), { note: html`<span>${counted(number(receiver, 'deferred'), 'attempt')} deferred</span>` })}
    ${tile('Rejected', of('refused'), { note: html`<span>${count(number(receiver, 'refused'))} rejected or expired</span>` })}
    ${tile('Complaints', count(number(receiver, 'complained')), { note: complaintNote(receiver) })}
    ${tile('Delivery time', estimateOf(receiver.attributes.median_seconds), {
      note: html`<span>Slowest 5%: ${estimateOf(receiver.attributes.p95_seconds)}</span>`,
    })}
  </section>`
}

/** The attempts of a period in a chart, and in a table. */
function chart(visit: Visit, receiver: ReceiverFound, period: string): Html {
  const all = objects(receiver, 'series')
  const day = dayWriter(visit.place)
  return html`${barChart({
      title: `${period === '24h' ? 'Attempts per hour' : 'Attempts per day'}${inUtc(visit, period)}`,
      place: visit.place,
      at: all.map(({ at }) => Date.parse(at)),
      series: [
        { name: 'Delivered', tone: 'good', values: all.map(({ delivered }) => delivered) },
        { name: 'Deferred', tone: 'waits', values: all.map(({ deferred }) => deferred) },
        { name: 'Rejected', tone: 'bad', values: all.map(({ refused }) => refused) },
      ],
    })}
    ${oldDays(visit, text(receiver, 'utc_days_before'))}
    <details>
      <summary>Show as table</summary>
      ${table(
        'Attempts over time',
        [
          { title: period === '24h' ? 'Hour' : `Day${inUtc(visit, period)}`, kind: 'time' },
          ...figures('Delivered', 'Deferred', 'Rejected', 'Complaints', 'Median'),
        ],
        all.map(({ at, complained, deferred, delivered, median_seconds, refused }) => [
          period === '24h' ? time(at) : day(at),
          count(delivered),
          count(deferred),
          count(refused),
          count(complained),
          estimateOf(median_seconds),
        ]),
        '',
      )}
    </details>`
}

/** The open alarms of the receiver: the unusual value, since when, the most frequent reply and its meaning. */
async function alarmsOf(visit: Visit, receiver: ReceiverFound): Promise<Html | ''> {
  if (text(receiver, 'alarm') === '') return ''
  const name = encodeURIComponent(text(receiver, 'name'))
  const { many } = await visit.get(
    receiverAlarms,
    `/statistics/alarms?filter%5Bstate%5D=open&filter%5Breceiver%5D=${name}&page%5Bsize%5D=10`,
  )
  return troubles(
    many.map((alarm) => ({
      weight: 'bad',
      what: html`${text(alarm, 'message')}
        <span class="soft">Since ${time(alarm.attributes.opened_at)}.</span>
        ${text(alarm, 'meaning') === '' ? '' : html`<br />${text(alarm, 'meaning')}`}
        ${text(alarm, 'reply') === '' ? '' : html`<br /><code>${text(alarm, 'reply')}</code>`}`,
      to: `/why/${name}`,
      action: 'Why?',
    })),
  )
}

const repliesOf = (receiver: ReceiverFound): Html =>
  html`<h2>Replies</h2>
    ${table(
      'Replies',
      [
        { title: 'Meaning and fix', width: 40, wraps: true },
        { title: 'SMTP reply', wraps: true },
        { title: 'Times', kind: 'share' },
      ],
      objects(receiver, 'refusals').map(({ reason, times, words }) => [
        reason ?? html`<span class="soft">Unknown reply</span>`,
        html`<code>${words}</code>`,
        count(times),
      ]),
      'No rejections or deferrals in this period.',
    )}`

/** The learned pace, for operators because it applies to the whole server. */
async function pace(visit: Visit, receiver: ReceiverFound): Promise<Html | ''> {
  const domains = texts(receiver, 'domains').slice(0, MAX_DOMAINS)
  if (!visit.operator) return ''
  const wanted = domains.map(encodeURIComponent).join(',')
  const lanes =
    domains.length === 0
      ? []
      : (await visit.ask('GET', `/lanes?page%5Bsize%5D=${MAX_DOMAINS}&filter%5Bdomain%5D=${wanted}`)).many
  return html`<h2>Current limits</h2>
    ${table(
      'Current limits',
      [
        'Domain',
        ...figures('Queued'),
        { title: 'Connections', kind: 'figure', width: 15 },
        ...figures('Per second'),
        { title: 'Paused until', kind: 'time' },
        { title: 'Since', kind: 'time' },
      ],
      lanes.map(({ attributes: lane }) => [
        html`<a href="/queue?q=${encodeURIComponent(String(lane['domain']))}">${String(lane['domain'])}</a>
          ${lane['hold'] === true ? badge('on hold') : ''}`,
        count(Number(lane['queued']) + Number(lane['held'])),
        learned(lane['connections']),
        learned(lane['per_second']),
        time(lane['paused_until']),
        time(lane['learned_at']),
      ]),
      'No email in the last hour, and an empty queue. The default limits apply.',
    )}
    <p class="soft">
      Limits that Postrider learned in the last hour, from the email of all accounts. “–” means that no limit was
      reached.
    </p>`
}

const learned = (limit: unknown): Cell => (typeof limit === 'number' ? count(Math.round(limit * 100) / 100) : '–')

export const receiverPlace: Place = {
  path: '/receivers/:receiver',
  async show(visit) {
    const period = periodOf(visit, '7d')
    const path = encodeURIComponent(visit.context.req.param('receiver') ?? '')
    const { one } = found(await visit.get(receivers, `/statistics/receivers/${path}?${periodFilters(visit, period)}`))
    const waiting = number(one, 'waiting')
    return page(visit, {
      title: text(one, 'name'),
      crumbs: [['/receivers', 'Receivers']],
      actions: html`${periods(visit, period)}
        ${waiting === 0 ? '' : html`<a class="button plain" href="${mailOf(one, ' status:queued')}">Queued emails</a>`}
        <a class="button plain" href="${mailOf(one, '')}">All emails</a>
        <a class="button plain" href="/why/${encodeURIComponent(text(one, 'name'))}">Why?</a>`,
      body: live(
        visit,
        html`<p>
            ${badge(verdictOf(one))}
            ${one.attributes.alarm ? ALARM_EFFECTS[one.attributes.alarm] : SAYS[verdictOf(one)]}
          </p>
          ${await alarmsOf(visit, one)} ${tiles(one)} ${chart(visit, one, period)} ${repliesOf(one)}
          ${await pace(visit, one)}`,
      ),
    })
  },
}
