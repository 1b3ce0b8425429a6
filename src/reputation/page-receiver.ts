// One receiver: its figures, what it says and what that means, what was learned of its pace, and the way to its mail.
import { html } from 'hono/html'
import { barChart } from '../webui/chart.ts'
import { page } from '../webui/frame.ts'
import { found, type Place } from '../webui/place.ts'
import { periodOf, periods } from '../webui/period.ts'
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
} from '../webui/widgets.ts'
import { troubles } from '../webui/troubles.ts'
import { number, objects, text, texts, type Visit } from '../webui/visit.ts'
import { duration } from './alarm-words.ts'
import { receiverAlarms } from './api-alarms.ts'
import { receivers } from './api-receivers.ts'
import { SLOWEST, TYPICAL, verdictOf, type ReceiverFound } from './page-times.ts'

/** What a verdict says to its reader. */
const SAYS: Readonly<Record<string, string>> = {
  alarm: 'It suddenly takes less of your mail than in the week before, or takes it later.',
  good: 'It takes your mail, and soon.',
  slow: 'It takes your mail late: many attempts are answered with “later”, or mail takes over an hour.',
  refusing: 'It refuses a tenth of your mail or more.',
  quiet: 'Too little mail in this time to say how it does.',
}

/** Receiving domains whose pace is shown. */
const MAX_DOMAINS = 50

const mailOf = (receiver: ReceiverFound, status: string): string =>
  `/mail?q=${encodeURIComponent(`receiver:"${text(receiver, 'name').replaceAll('"', '')}"${status}`)}`

function complaintNote(receiver: ReceiverFound): Html {
  const [delivered, unmatched] = [number(receiver, 'delivered'), number(receiver, 'unmatched_complaints')]
  return html`<span
    >${delivered === 0 ? '' : `${percent(number(receiver, 'complained') / delivered)} of what it took`}${unmatched === 0 ? '' : `; ${count(unmatched)} more name no mail`}</span
  >`
}

function tiles(receiver: ReceiverFound): Html {
  const volume = number(receiver, 'volume')
  const of = (name: 'delivered' | 'refused'): Cell => (volume === 0 ? '–' : percent(number(receiver, name) / volume))
  return html`<section class="tiles" aria-label="Figures">
    ${tile('Delivered', of('delivered'), { note: html`<span>${count(number(receiver, 'delivered'))} of ${counted(volume, 'mail')}</span>` })}
    ${tile('Waiting', count(number(receiver, 'waiting')), {
      to: mailOf(receiver, ' status:queued'),
      note: html`<span>recipients, now</span>`,
    })}
    ${tile('Retried', percent(number(receiver, 'deferred_share')), { note: html`<span>${counted(number(receiver, 'deferred'), 'attempt')} answered with “later”</span>` })}
    ${tile('Bounced at once', of('refused'), { note: html`<span>${count(number(receiver, 'refused'))} refused, or given up</span>` })}
    ${tile('Complaints', count(number(receiver, 'complained')), { note: complaintNote(receiver) })}
    ${tile('Typical', TYPICAL[text(receiver, 'median')] ?? '–', {
      note: html`<span>Slowest 5%: ${SLOWEST[text(receiver, 'slowest')] ?? '–'}</span>`,
    })}
  </section>`
}

/** The bars of a period; past days are stored as days of UTC. */
function chart(visit: Visit, receiver: ReceiverFound, period: string): Html {
  const all = objects(receiver, 'series')
  const title = period === '24h' ? 'Attempts by hour' : 'Attempts by day (UTC)'
  return html`${barChart({
      title,
      zone: period === '24h' ? visit.zone : 'UTC',
      at: all.map(({ at }) => Date.parse(at)),
      series: [
        { name: 'Delivered', tone: 'good', values: all.map(({ delivered }) => delivered) },
        { name: 'Retried', tone: 'waits', values: all.map(({ deferred }) => deferred) },
        { name: 'Bounced at once', tone: 'bad', values: all.map(({ refused }) => refused) },
      ],
    })}
    <details>
      <summary>The figures as a table</summary>
      ${table(
        'Figures over time',
        ['From (UTC)', ...figures('Delivered', 'Retried', 'Bounced', 'Complaints', 'Half within')],
        all.map(({ at, complained, deferred, delivered, median_seconds, refused }) => [
          at.slice(0, 16).replace('T', ' '),
          count(delivered),
          count(deferred),
          count(refused),
          count(complained),
          median_seconds === null ? '–' : duration(median_seconds),
        ]),
        '',
      )}
    </details>`
}

/** The alarms that are open for it: what is unusual, since when, its commonest words and what they mean. */
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
      what: html`${text(alarm, 'says')}
        <span class="soft">Since ${time(alarm.attributes.opened_at)}.</span>
        ${text(alarm, 'meaning') === '' ? '' : html`<br />${text(alarm, 'meaning')}`}
        ${text(alarm, 'words') === '' ? '' : html`<br /><code>${text(alarm, 'words')}</code>`}`,
      to: `/why/${name}`,
      action: 'Why?',
    })),
  )
}

const said = (receiver: ReceiverFound): Html =>
  html`<h2>What they said</h2>
    ${table(
      'What they said',
      [
        { title: 'Meaning, and what to do', width: 40, wraps: true },
        { title: 'The receiver’s words', wraps: true },
        { title: 'Times', kind: 'share' },
      ],
      objects(receiver, 'refusals').map(({ reason, times, words }) => [
        reason ?? html`<span class="soft">Not known here</span>`,
        html`<code>${words}</code>`,
        count(times),
      ]),
      'It refused nothing and answered nothing with “later” in this time.',
    )}`

/** What was learned of the pace, for operators: it is of the whole server. */
async function pace(visit: Visit, receiver: ReceiverFound): Promise<Html | ''> {
  const domains = texts(receiver, 'domains').slice(0, MAX_DOMAINS)
  if (!visit.operator) return ''
  const wanted = domains.map(encodeURIComponent).join(',')
  const lanes =
    domains.length === 0
      ? []
      : (await visit.ask('GET', `/lanes?page%5Bsize%5D=${MAX_DOMAINS}&filter%5Bdomain%5D=${wanted}`)).many
  return html`<h2>The pace now</h2>
    ${table(
      'The pace now',
      [
        'Domain',
        ...figures('Waiting'),
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
      'No mail of the last hour, and nothing that waits: the usual limits apply.',
    )}
    <p class="soft">
      What this server learned of the receiver in the last hour, from the mail of all accounts. “–”: no limit was met.
    </p>`
}

const learned = (limit: unknown): Cell => (typeof limit === 'number' ? count(Math.round(limit * 100) / 100) : '–')

export const receiverPlace: Place = {
  path: '/receivers/:receiver',
  async show(visit) {
    const period = periodOf(visit, '7d')
    const path = encodeURIComponent(visit.context.req.param('receiver') ?? '')
    const { one } = found(await visit.get(receivers, `/statistics/receivers/${path}?filter%5Bperiod%5D=${period}`))
    const waiting = number(one, 'waiting')
    return page(visit, {
      title: text(one, 'name'),
      crumbs: [['/receivers', 'Receivers']],
      actions: html`${periods(visit, period)}
        ${waiting === 0 ? '' : html`<a class="button plain" href="${mailOf(one, ' status:queued')}">Waiting mail</a>`}
        <a class="button plain" href="${mailOf(one, '')}">All mail</a>
        <a class="button plain" href="/why/${encodeURIComponent(text(one, 'name'))}">Why?</a>`,
      body: live(
        visit,
        html`<p>${badge(verdictOf(one))} ${SAYS[verdictOf(one)]}</p>
          ${await alarmsOf(visit, one)} ${tiles(one)} ${chart(visit, one, period)} ${said(one)}
          ${await pace(visit, one)}`,
      ),
    })
  },
}
