// Figures by receiver: which mailbox providers and domains accept the mail, and why others refuse it.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { count, figures, live, pageOf, pager, percent, table } from '../webui/widgets.ts'
import { receivers } from './api-statistics.ts'
import type { Place } from '../webui/place.ts'
import { number, text, objects } from '../webui/visit.ts'
import { periodOf, periods } from '../webui/period.ts'

const MEDIANS: Record<string, string> = {
  '5s': 'under 5 s',
  '1m': 'under a minute',
  '10m': 'under 10 minutes',
  '1h': 'under an hour',
  longer: 'over an hour',
}

export const receiversPlace: Place = {
  path: '/receivers',
  async show(visit) {
    const period = periodOf(visit, '7d')
    const answer = await visit.get(receivers, `/statistics/receivers?filter%5Bperiod%5D=${period}&${pageOf(visit)}`)
    const rows = answer.many.map((each) => {
      const volume = number(each, 'volume')
      const refusals = objects(each, 'refusals')
      return [
        html`<a href="/mail?q=${encodeURIComponent(`to:@${text(each, 'name')}`)}">${text(each, 'name')}</a>`,
        count(volume),
        volume === 0 ? '–' : percent(number(each, 'delivered') / volume),
        count(number(each, 'deferred')),
        count(number(each, 'refused')),
        MEDIANS[text(each, 'median')] ?? '–',
        refusals.length === 0
          ? ''
          : html`<ul class="refusals">
              ${refusals.map(({ times, words }) => html`<li>${words} <span class="soft">× ${count(times)}</span></li>`)}
            </ul>`,
      ]
    })
    return page(visit, {
      title: 'Receivers',
      about:
        'Which providers and domains accept your mail, how fast, and why others refuse it. Mail that bounced after it was accepted counts as delivered here.',
      errors: answer.errors,
      actions: periods(visit, period),
      body: html`${live(
        visit,
        html`${table(
          'Receivers',
          [
            { title: 'Receiver', width: 20 },
            ...figures('Mails', 'Delivered', 'Put off', 'Refused'),
            { title: 'Typical time', kind: 'time' },
            { title: 'What they said', wraps: true },
          ],
          rows,
          'No mail in this time. Choose a longer one.',
        )}
        ${pager(visit, answer)}`,
      )}`,
    })
  },
}
