// The page of blocklists and reverse DNS, for operators: problems, and all checks.
import { html } from 'hono/html'
import { page, serverTabs } from '../views/html/frame.ts'
import type { Place } from '../views/html/place.ts'
import { text, type Thing } from '../views/html/visit.ts'
import { badge, live, pageOf, pager, table, time, type Html } from '../views/html/widgets.ts'
import { watches } from './api.ts'

type Watched = Thing<typeof watches>

const PATH = '/server/watch'

/** The check, as text. */
const ASKED: Readonly<Record<string, string>> = { reverse: 'Reverse DNS', forward: 'Forward-confirmed DNS' }

const asked = (watch: Watched): string => text(watch, 'list') || (ASKED[text(watch, 'kind')] ?? '')

const pageOfList = (watch: Watched): Html | '' => {
  const to = text(watch, 'url')
  return to === '' ? '' : html` <a href="${to}" rel="noreferrer" target="_blank">Open the list</a>`
}

const needed = (open: readonly Watched[]): Html =>
  open.length === 0
    ? html`<p>All clear: no listings, and reverse DNS is correct.</p>`
    : html`<h2>Needs attention</h2>
        ${table(
          'Needs attention',
          [
            { title: 'Status', kind: 'status' },
            { title: 'Problem', wraps: true },
            { title: 'Fix', wraps: true },
            { title: 'Since', kind: 'time' },
          ],
          open.map((watch) => [
            badge(text(watch, 'state')),
            text(watch, 'message'),
            html`${text(watch, 'fix')}${pageOfList(watch)}`,
            time(watch.attributes.since),
          ]),
          '',
        )}`

const everything = (all: readonly Watched[]): Html =>
  table(
    'All checks',
    [
      'Address or domain',
      { title: 'Check', width: 25 },
      { title: 'Status', kind: 'status' },
      { title: 'DNS answer', wraps: true, width: 30 },
      { title: 'Last checked', kind: 'time' },
    ],
    all.map((watch) => [
      text(watch, 'subject'),
      asked(watch),
      badge(text(watch, 'state')),
      text(watch, 'state') === 'unknown' ? text(watch, 'message') : text(watch, 'answer'),
      time(watch.attributes.checked_at),
    ]),
    html`No checks yet. The first round runs 10 minutes after the server starts, for its public IP addresses and for
      active domains. Setting <code>watch.interval</code> to <code>"0"</code> turns it off.`,
  )

export const watchPlace: Place = {
  path: PATH,
  operator: true,
  async show(visit) {
    const [open, all] = await Promise.all([
      visit.get(watches, '/watches?filter%5Bstate%5D=listed,wrong&page%5Bsize%5D=100'),
      visit.get(watches, `/watches?${pageOf(visit)}`),
    ])
    return page(visit, {
      title: 'Server',
      about: 'Blocklist entries and reverse DNS of the sending IP addresses and domains of this server.',
      body: html`${serverTabs(visit, PATH)}
      ${live(
        visit,
        html`${needed(open.many)}
          <h2>All checks</h2>
          ${everything(all.many)} ${pager(visit, all)}
          <p class="soft">
            A change is confirmed by a second lookup 10 minutes later. These checks do not affect sending: each provider
            decides which blocklists it uses.
          </p>`,
      )}`,
    })
  },
}
