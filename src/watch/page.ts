// What the watch knows, for operators: what needs somebody, everything that is watched, and the history of each.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import type { Place } from '../webui/place.ts'
import { text, type Thing, type Visit } from '../webui/visit.ts'
import { badge, live, pageOf, pager, table, time, type Html } from '../webui/widgets.ts'
import { watchChanges, watches } from './api.ts'

type Watched = Thing<typeof watches>

const PATH = '/server/watch'

/** What was asked, in words. */
const ASKED: Readonly<Record<string, string>> = { reverse: 'Reverse DNS', forward: 'Name leads back' }

const asked = (watch: Watched): string => text(watch, 'list') || (ASKED[text(watch, 'kind')] ?? '')

const pageOfList = (watch: Watched): Html | '' => {
  const to = text(watch, 'page')
  return to === '' ? '' : html` <a href="${to}" rel="noreferrer" target="_blank">Page of the list</a>`
}

const needed = (open: readonly Watched[]): Html =>
  open.length === 0
    ? html`<p>Nothing is listed, and reverse DNS is right, as far as there were answers.</p>`
    : html`<h2>Needs attention</h2>
        ${table(
          'Needs attention',
          [
            { title: 'State', kind: 'status' },
            { title: 'What', wraps: true },
            { title: 'What to do', wraps: true },
            { title: 'Since', kind: 'time' },
          ],
          open.map((watch) => [
            badge(text(watch, 'state')),
            text(watch, 'words'),
            html`${text(watch, 'mend')}${pageOfList(watch)}`,
            time(watch.attributes.since),
          ]),
          '',
        )}`

/** Where the row of a watch leads: to the same part of the list, with its history. */
function historyOf(visit: Visit, { id }: Watched): string {
  const query = new URLSearchParams(new URL(visit.context.req.url).search)
  query.set('watch', id)
  return `${PATH}?${query.toString()}#history`
}

const everything = (visit: Visit, all: readonly Watched[]): Html =>
  table(
    'Everything that is watched',
    [
      'What',
      { title: 'Asked', width: 25 },
      { title: 'State', kind: 'status' },
      { title: 'Answer', wraps: true, width: 30 },
      { title: 'Last asked', kind: 'time' },
    ],
    all.map((watch) => [
      html`<a href="${historyOf(visit, watch)}">${text(watch, 'subject')}</a>`,
      asked(watch),
      badge(text(watch, 'state')),
      text(watch, 'state') === 'unknown' ? text(watch, 'words') : text(watch, 'answer'),
      time(watch.attributes.checked_at),
    ]),
    html`Nothing is watched yet. The first look is ten minutes after the start of the server, at its public addresses
      and at the domains that can send. It never comes where <code>watch.every</code> is <code>"0"</code>.`,
  )

async function history(visit: Visit, all: readonly Watched[]): Promise<Html | ''> {
  const id = visit.query('watch')
  if (id === '') return ''
  const changes = await visit.get(watchChanges, `/watches/${encodeURIComponent(id)}/history?page%5Bsize%5D=100`)
  if (changes.status !== 200) return ''
  const watch = all.find((each) => each.id === id)
  return html`<h2 id="history">History${watch ? ` of ${text(watch, 'subject')}: ${asked(watch)}` : ''}</h2>
    ${table(
      'History',
      [
        { title: 'When', kind: 'time' },
        { title: 'State', kind: 'status' },
        { title: 'Answer', wraps: true },
      ],
      changes.many.map((change) => [
        time(change.attributes.at),
        badge(text(change, 'state')),
        text(change, 'answer') || '-',
      ]),
      'Nothing has changed since it is watched. Changes are kept for 400 days.',
    )}`
}

/** `parts`: the links to the parts of the page of the server. */
export const watchPlace = (parts: (here: string) => Html): Place => ({
  path: PATH,
  operator: true,
  async show(visit) {
    const [open, all] = await Promise.all([
      visit.get(watches, '/watches?filter%5Bstate%5D=listed,wrong&page%5Bsize%5D=100'),
      visit.get(watches, `/watches?${pageOf(visit)}`),
    ])
    return page(visit, {
      title: 'Server',
      about:
        'Whether blocklists name the source addresses and domains of this server, and whether reverse DNS is right.',
      body: html`${parts(PATH)}
      ${live(
        visit,
        html`${needed(open.many)}
          <h2>Everything that is watched</h2>
          ${everything(visit, all.many)} ${pager(visit, all)} ${await history(visit, all.many)}
          <p class="soft">
            A change counts when two answers ten minutes apart agree. Nothing here stops or slows mail: what receivers
            make of a list is their choice.
          </p>`,
      )}`,
    })
  },
})
