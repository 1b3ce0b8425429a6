// Warm-up (operator): the pairs of source and receiver with what today allows, and one pair with its days.
import { html } from 'hono/html'
import { DAY } from '../base/clock.ts'
import { upTo } from '../base/text.ts'
import { barChart } from '../webui/chart.ts'
import { button, field, form } from '../webui/forms.ts'
import { page } from '../webui/frame.ts'
import { done, found, type Form, type Place } from '../webui/place.ts'
import { number, objects, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import {
  badge,
  count,
  facts,
  figures,
  live,
  pageOf,
  pager,
  search,
  table,
  tile,
  time,
  timeUntil,
  type Html,
} from '../webui/widgets.ts'
import { warmups } from './api.ts'
import { TOTAL } from './ladder.ts'
import { NO_PAIR } from './shown.ts'

type ShownPair = Thing<typeof warmups>

/** The tabs of the server's pages, of which this is one. */
export type ServerTabs = (here: string) => Html

const HERE = '/server/warmup'
const SIZE = 50
/** The days of the chart. */
const SHOWN_DAYS = 35
const LABELS = { allowance: 'Recipients a day' } as const

/** A state, as a page says it. */
const STATES: Readonly<Record<string, string>> = {
  warming: 'warming up',
  holding: 'holding',
  back: 'went back',
  warm: 'warm',
  fixed: 'set by hand',
  skipped: 'no limit',
}

const SAYS: Readonly<Record<string, string>> = {
  warming: 'Each good day allows more.',
  holding: 'The receiver hesitates, so the number stays until a good day.',
  back: 'The receiver objected, so less is allowed; good days raise it again.',
  warm: 'The receiver knows this address: no mail waits because of warm-up.',
  fixed: 'An operator set the number.',
  skipped: 'An operator let it send without a limit.',
}

const stateOf = (pair: ShownPair): string => STATES[text(pair, 'state')] ?? text(pair, 'state')
const receiverOf = (pair: ShownPair): string =>
  text(pair, 'receiver') === TOTAL ? 'All receivers' : text(pair, 'receiver')
/** What a page and a sentence call it. */
const titleOf = (pair: ShownPair): string => `${receiverOf(pair)} from ${text(pair, 'source')}`
const limit = (value: unknown): string => (typeof value === 'number' ? count(value) : 'no limit')

/** To what is known of the receiver, with the mail that waits there. */
const whyOf = (receiver: string): Html =>
  html`<a class="button plain" href="/why/${encodeURIComponent(receiver)}">Why?</a>`

function listed(pairs: readonly ShownPair[], searched: boolean): Html {
  return table(
    'What each receiver gets from each source address',
    [
      { title: 'Receiver', width: 20 },
      { title: 'Source address', width: 15 },
      { title: 'State', kind: 'status' },
      ...figures('Allowed', 'Used', 'Waiting'),
      { title: 'Why', wraps: true },
    ],
    pairs.map((pair) => [
      html`<a href="${HERE}/${pair.id}">${receiverOf(pair)}</a>`,
      text(pair, 'source'),
      badge(stateOf(pair)),
      limit(pair.attributes.allowance),
      count(number(pair, 'used')),
      count(number(pair, 'waiting')),
      // The words of the receiver stand on the page of the pair.
      upTo(text(pair, 'reason'), ': “'),
    ]),
    searched ? html`Nothing fits. <a href="${HERE}">Show all</a>` : NO_PAIR,
  )
}

const list = (tabs: ServerTabs): Place => ({
  path: HERE,
  operator: true,
  async show(visit) {
    const q = visit.query('q')
    const filter = q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`
    const answer = await visit.get(warmups, `/warmups?${pageOf(visit, SIZE)}${filter}`)
    return page(visit, {
      title: 'Server',
      about:
        'How many recipients each source address of this server may write to today, by receiver. A receiver takes little mail from an address that is new to it, and more after each good day. Campaign mail waits for the next day; single mail goes first.',
      done: done(visit),
      errors: answer.errors,
      body: html`${tabs(HERE)} ${search(visit, 'Receiver or source address')}
      ${live(visit, html`${listed(answer.many, q !== '')} ${pager(visit, answer)}`)}`,
    })
  },
})

function tiles(pair: ShownPair): Html {
  return html`<section class="tiles" aria-label="Today">
    ${tile('Allowed', limit(pair.attributes.allowance), { note: html`<span>recipients today</span>` })}
    ${tile('Used', count(number(pair, 'used')), {
      note: html`<span>${pair.attributes.left === null ? 'no limit' : `${limit(pair.attributes.left)} left`}</span>`,
    })}
    ${tile('Waiting', count(number(pair, 'waiting')), { note: html`<span>recipients, from all source addresses</span>` })}
    ${tile('By a relay', count(number(pair, 'relayed')), { note: html`<span>recipients today, from all source addresses</span>` })}
  </section>`
}

const VERDICTS: Readonly<Record<string, string>> = { good: 'good', bad: 'bad', nothing: 'no change' }

/** The days with mail as bars and as a table. */
function days(visit: Visit, pair: ShownPair): Html | '' {
  const all = objects(pair, 'history')
  if (all.length === 0) return html`<p class="soft">No mail yet.</p>`
  const by = new Map(all.map((each) => [Date.parse(each.day), each]))
  const today = Math.floor(visit.now() / DAY)
  const at = Array.from({ length: SHOWN_DAYS }, (_, day) => (today - SHOWN_DAYS + 1 + day) * DAY)
  const no = at.map((day) => {
    const { bounced = 0, complained = 0, deferred = 0, refused = 0 } = by.get(day) ?? {}
    return deferred + refused + complained + bounced
  })
  return html`${barChart({
      title: 'Recipients by day (UTC)',
      zone: 'UTC',
      at,
      series: [
        {
          name: 'No trouble',
          tone: 'good',
          values: at.map((day, index) => Math.max(0, (by.get(day)?.used ?? 0) - (no[index] ?? 0))),
        },
        { name: 'Retried, refused, bounced or complained', tone: 'bad', values: no },
      ],
    })}
    <details>
      <summary>The days as a table</summary>
      ${table(
        'Days',
        ['Day', ...figures('Allowed', 'Used', 'Retried', 'Refused', 'Complaints', 'Bounced'), 'The day was'],
        all
          .toReversed()
          .map((each) => [
            each.day,
            limit(each.allowance),
            count(each.used),
            count(each.deferred),
            count(each.refused),
            count(each.complained),
            count(each.bounced),
            each.verdict === null ? 'today' : (VERDICTS[each.verdict] ?? ''),
          ]),
        '',
      )}
    </details>`
}

/** What an operator can set. */
function settings(visit: Visit, pair: ShownPair, typed: string | undefined, error: string | undefined): Html {
  const state = text(pair, 'state')
  const byHand = state === 'fixed' || state === 'skipped'
  const allowance = field({
    name: 'allowance',
    label: LABELS.allowance,
    type: 'number',
    required: true,
    digits: true,
    value: typed ?? (state === 'fixed' ? String(pair.attributes.allowance ?? '') : ''),
    hint: 'A number that is set stays until you change it.',
    error,
  })
  return html`<h2>Change it</h2>
    ${form(visit, 'fix', html`${allowance}<button>Set the number</button>`)}
    <div class="row">
      ${byHand ? button(visit, 'release', 'Go on by itself') : ''}
      ${state === 'skipped' ? '' : button(visit, 'skip', 'No limit')}
      ${button(visit, 'restart', 'Begin again', { confirm: `${titleOf(pair)} begins again at the first step.` })}
    </div>`
}

async function showOne(
  visit: Visit,
  tabs: ServerTabs,
  { errors = [], typed }: { errors?: Answer['errors']; typed?: string } = {},
): Promise<Response> {
  const { one } = found(await visit.get(warmups, `/warmups/${visit.context.req.param('id')}`))
  const state = text(one, 'state')
  const step = one.attributes.step
  return page(visit, {
    title: titleOf(one),
    crumbs: [[HERE, 'Warm-up']],
    actions: text(one, 'receiver') === TOTAL ? '' : whyOf(text(one, 'receiver')),
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${tabs(HERE)}
    ${live(
      visit,
      html`${tiles(one)}
        ${facts([
          ['State', html`${badge(stateOf(one))} ${SAYS[state] ?? ''}`],
          ['Why', text(one, 'reason') || '–'],
          ['Since', time(one.attributes.since)],
          ['Step', typeof step === 'number' ? count(step) : '–'],
          ['Opens again', one.attributes.next_at === null ? 'It is open.' : timeUntil(one.attributes.next_at)],
        ])}
        <h2>Day by day</h2>
        ${days(visit, one)}`,
    )}
    ${settings(visit, one, typed, errors.find((each) => each.field === 'allowance')?.detail)}`,
  })
}

/** What an action does: a request to the API, and what is said then. */
async function act(visit: Visit, id: string, given: Form): Promise<[answer: Answer<typeof warmups>, said: string]> {
  const patch = (allowance: number | string | null): Promise<Answer> =>
    visit.ask('PATCH', `/warmups/${id}`, { type: 'warmups', id, attributes: { allowance } })
  const { one } = found(await visit.get(warmups, `/warmups/${id}`))
  const name = titleOf(one)
  const asked = async (answer: Promise<Answer>, said: string): Promise<[Answer<typeof warmups>, string]> => [
    (await answer) as Answer<typeof warmups>,
    said,
  ]
  const typed = given.get('allowance').replaceAll(/[\s.,’']/g, '')
  if (given.action === 'skip') return asked(visit.ask('POST', `/warmups/${id}/skip`), `${name}: no limit from now on.`)
  if (given.action === 'restart')
    return asked(visit.ask('POST', `/warmups/${id}/restart`), `${name}: it begins again at the first step.`)
  if (given.action === 'release') return asked(patch(null), `${name}: it goes on by itself.`)
  return asked(patch(/^\d+$/.test(typed) ? Number(typed) : typed), `${name}: ${typed} recipients a day from now on.`)
}

const onePair = (tabs: ServerTabs): Place => ({
  path: `${HERE}/:id`,
  operator: true,
  show: (visit) => showOne(visit, tabs),
  async act(visit, given) {
    const id = visit.context.req.param('id') ?? ''
    const [answer, said] = await act(visit, id, given)
    return answer.one
      ? visit.say(`${HERE}/${id}`, said)
      : showOne(visit, tabs, { errors: answer.errors, typed: given.get('allowance') })
  },
})

export const warmupPlaces = (tabs: ServerTabs): Place[] => [list(tabs), onePair(tabs)]
