// Figures by receiver: which mailbox providers and domains accept the email, how fast, and why others reject it. A row
// links to the page of its receiver.
import { html } from 'hono/html'
import { sparkLine } from '../views/html/chart.ts'
import { page } from '../views/html/frame.ts'
import {
  badge,
  count,
  counted,
  figures,
  live,
  pageOf,
  pager,
  percent,
  table,
  type Html,
} from '../views/html/widgets.ts'
import type { Place } from '../views/html/place.ts'
import { flag, number, objects, text } from '../views/html/visit.ts'
import { periodFilters, periodOf, periods } from '../views/html/period.ts'
import { receivers } from './api-receivers.ts'
import { receiverPlace } from './page-receiver.ts'
import { estimateOf, serviceOf, verdictOf, type ReceiverFound } from './page-times.ts'

/** The minimum number of rows. Small domains beyond it are folded. */
const SHOWN = 10

/** The most frequent reason: its description if known, otherwise the reply of the receiver. */
function topReason(receiver: ReceiverFound): Html | '' {
  const [top] = objects(receiver, 'refusals')
  return top === undefined
    ? ''
    : html`<span class="why" title="${top.words}"
        ><span>${top.reason ?? top.words}</span><span>× ${count(top.times)}</span></span
      >`
}

const spark = (receiver: ReceiverFound): Html => {
  const hours = objects(receiver, 'series')
  return sparkLine(`Delivered, deferred and rejected by ${text(receiver, 'name')}`, [
    { tone: 'good', values: hours.map(({ delivered }) => delivered) },
    { tone: 'waits', values: hours.map(({ deferred }) => deferred) },
    { tone: 'bad', values: hours.map(({ refused }) => refused) },
  ])
}

/** The first columns of each list of receivers. */
const rowOf = (receiver: ReceiverFound, period: string) => {
  const volume = number(receiver, 'volume')
  const waiting = number(receiver, 'waiting')
  const name = text(receiver, 'name')
  return [
    html`<a href="/receivers/${encodeURIComponent(name)}?period=${period}">${name}</a>
      <span class="soft">${serviceOf(receiver)}</span>${topReason(receiver)}`,
    badge(verdictOf(receiver)),
    count(volume),
    volume === 0 ? '–' : percent(number(receiver, 'delivered') / volume),
    waiting === 0 ? '–' : count(waiting),
    estimateOf(receiver.attributes.median_seconds),
    estimateOf(receiver.attributes.p95_seconds),
  ]
}

const COLUMNS = [
  { title: 'Provider or domain' },
  { title: 'Status', kind: 'status' },
  { title: 'Emails', kind: 'share' },
  ...figures('Delivered'),
  { title: 'Queued', kind: 'share' },
  ...figures('Typical', 'Slowest 5%'),
] as const

/** Providers first, then domains with a verdict or with queued email, then small ones, which are folded. */
function grouped(all: readonly ReceiverFound[]): { shown: ReceiverFound[]; folded: ReceiverFound[] } {
  const weight = (each: ReceiverFound): number =>
    flag(each, 'provider') ? 0 : text(each, 'verdict') !== 'quiet' || number(each, 'waiting') > 0 ? 1 : 2
  const sorted = all.toSorted((one, other) => weight(one) - weight(other))
  const most = Math.max(SHOWN, sorted.filter((each) => weight(each) < 2).length)
  return { shown: sorted.slice(0, most), folded: sorted.slice(most) }
}

const receiversPlace: Place = {
  path: '/receivers',
  async show(visit) {
    const period = periodOf(visit, '7d')
    const answer = await visit.get(receivers, `/statistics/receivers?${periodFilters(visit, period)}&${pageOf(visit)}`)
    const { folded, shown } = grouped(answer.many)
    return page(visit, {
      title: 'Receivers',
      about:
        'Delivery results by mailbox provider and recipient domain. Emails that bounced later also count as delivered.',
      errors: answer.errors,
      actions: periods(visit, period),
      body: html`${live(
        visit,
        html`${table(
          'Receivers',
          [...COLUMNS, { title: 'Trend', kind: 'spark' }],
          shown.map((each) => [...rowOf(each, period), spark(each)]),
          'No emails in this period. Try a longer one.',
        )}
        ${
          folded.length === 0
            ? ''
            : html`<details>
                <summary>${counted(folded.length, 'more domain')}</summary>
                ${table(
                  'Small domains',
                  COLUMNS,
                  folded.map((each) => rowOf(each, period)),
                  '',
                )}
              </details>`
        }
        ${pager(visit, answer)}`,
      )}`,
    })
  },
}

export const receiverPlaces: readonly Place[] = [receiversPlace, receiverPlace]
