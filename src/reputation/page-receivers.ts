// Figures by receiver: which mailbox providers and domains accept the mail, how fast, and why others refuse it. A row
// leads to the page of one receiver.
import { html } from 'hono/html'
import { sparkLine } from '../webui/chart.ts'
import { page } from '../webui/frame.ts'
import { badge, count, figures, live, pageOf, pager, percent, table, type Html } from '../webui/widgets.ts'
import type { Place } from '../webui/place.ts'
import { flag, number, objects, text } from '../webui/visit.ts'
import { periodOf, periods } from '../webui/period.ts'
import { receivers } from './api-receivers.ts'
import { receiverPlace } from './page-receiver.ts'
import { SLOWEST, TYPICAL, verdictOf, type ReceiverFound } from './page-times.ts'

/** Rows that are shown, at least; small domains beyond are folded. */
const SHOWN = 10

/** The commonest reason: in words where it is known, else as the receiver said it. */
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
  return sparkLine(`Delivered, retried and refused by ${text(receiver, 'name')}`, [
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
    html`<a href="/receivers/${encodeURIComponent(name)}?period=${period}">${name}</a>${topReason(receiver)}`,
    badge(verdictOf(receiver)),
    count(volume),
    volume === 0 ? '–' : percent(number(receiver, 'delivered') / volume),
    waiting === 0 ? '–' : count(waiting),
    TYPICAL[text(receiver, 'median')] ?? '–',
    SLOWEST[text(receiver, 'slowest')] ?? '–',
  ]
}

const COLUMNS = [
  { title: 'Receiver', wraps: true },
  { title: 'Verdict', kind: 'status' },
  { title: 'Mails', kind: 'share' },
  ...figures('Delivered'),
  { title: 'Waiting', kind: 'share' },
  ...figures('Typical', 'Slowest 5%'),
] as const

/** Providers first, then domains with a verdict or with mail that waits, then small ones, which are folded. */
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
    const answer = await visit.get(receivers, `/statistics/receivers?filter%5Bperiod%5D=${period}&${pageOf(visit)}`)
    const { folded, shown } = grouped(answer.many)
    return page(visit, {
      title: 'Receivers',
      about:
        'Which providers and domains take your mail, how fast, and why others refuse it. Mail that bounced after it was taken counts as delivered here.',
      errors: answer.errors,
      actions: periods(visit, period),
      body: html`${live(
        visit,
        html`${table(
          'Receivers',
          [...COLUMNS, { title: 'Over time', kind: 'spark' }],
          shown.map((each) => [...rowOf(each, period), spark(each)]),
          'No mail in this time. Choose a longer one.',
        )}
        ${
          folded.length === 0
            ? ''
            : html`<details>
                <summary>${count(folded.length)} more ${folded.length === 1 ? 'domain' : 'domains'}</summary>
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
