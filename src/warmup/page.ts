// Warm-up, for operators: the pairs of sending IP address and receiver with their limits, and a pair with its days.
import { html } from 'hono/html'
import { upTo } from '../base/text.ts'
import type { Actions } from '../views/actions.ts'
import { listPlaces, onePlace } from '../views/pages.ts'
import { numbers, rowTable } from '../views/table.ts'
import { serverTabs } from '../views/html/frame.ts'
import type { Form } from '../views/html/place.ts'
import { number, objects, text, type Thing } from '../views/html/visit.ts'
import { badge, count, facts, live, time, timeUntil, type Html } from '../views/html/widgets.ts'
import { warmups } from './api.ts'
import { TOTAL } from './schedule.ts'
import { NO_PAIR } from './shown.ts'

type ShownPair = Thing<typeof warmups>

const HERE = '/server/warmup'

/** The name and the meaning of each state. */
const STATES: Readonly<Record<string, readonly [name: string, meaning: string]>> = {
  warming: ['warming up', 'The daily limit rises after each good day.'],
  holding: ['holding', 'The provider defers or rejects some email, so the daily limit stays until the next good day.'],
  reduced: [
    'reduced',
    'The provider deferred or rejected too much email, so the daily limit was lowered. Good days raise it again.',
  ],
  warm: ['warm', 'Warm-up is complete: no limit applies.'],
  manual: ['manual', 'An operator set the daily limit.'],
  unlimited: ['unlimited', 'An operator removed the daily limit.'],
}

const stateOf = (pair: ShownPair): Html => badge(STATES[text(pair, 'state')]?.[0] ?? text(pair, 'state'))
const receiverOf = (pair: ShownPair): string =>
  text(pair, 'receiver') === TOTAL ? 'All providers' : text(pair, 'receiver')
const titleOf = (pair: ShownPair): string => `${receiverOf(pair)} from ${text(pair, 'source')}`
const limit = (value: unknown): string => (typeof value === 'number' ? count(value) : 'no limit')

const list = listPlaces({
  path: HERE,
  operator: true,
  title: 'Server',
  about:
    'Daily limits per provider and sending IP address. Providers accept little email from a new IP address, and more after each good day. Transactional email is sent first. Campaigns over the limit wait for the next day.',
  above: ({ visit }) => serverTabs(visit, HERE),
  list: () => ({
    of: warmups,
    from: '/warmups',
    caption: 'Daily limits by provider and sending IP address',
    live: true,
    search: 'Provider or sending IP address',
    columns: [
      { title: 'Provider', width: 20, of: receiverOf, to: ({ id }) => `${HERE}/${id}` },
      { title: 'Sending IP', width: 15, of: 'source' },
      { title: 'Status', kind: 'status', of: stateOf },
      { title: 'Daily limit', kind: 'figure', of: ({ attributes }) => limit(attributes.daily_limit) },
      ...numbers({ used: 'Used', waiting: 'Queued' }),
      // The pair's own page contains the reply of the receiver.
      { title: 'Reason', wraps: true, of: (pair) => upTo(text(pair, 'reason'), ': “') },
    ],
    empty: NO_PAIR,
    noMatch: html`No results. <a href="${HERE}">Show all</a>`,
  }),
})

const usedOf = (pair: ShownPair): string =>
  count(number(pair, 'used')) +
  (pair.attributes.remaining === null ? '' : ` (${limit(pair.attributes.remaining)} remaining)`)

const VERDICTS: Readonly<Record<string, string>> = { good: 'good', bad: 'bad', neutral: 'no change' }

/** The days with email, the newest first. */
const days = (pair: ShownPair): Html =>
  rowTable(
    'History',
    [
      { title: 'Day', of: 'day' },
      { title: 'Limit', kind: 'figure', of: ({ daily_limit }) => limit(daily_limit) },
      ...numbers({
        used: 'Used',
        deferred: 'Deferred',
        refused: 'Rejected',
        complained: 'Complaints',
        bounced: 'Bounced',
      }),
      { title: 'Result', of: ({ verdict }) => (verdict === null ? 'today' : (VERDICTS[verdict] ?? '')) },
    ],
    objects(pair, 'history').toReversed(),
    'No emails yet.',
  )

/** The limit as it was typed, such as "5,000", without separators. */
const typedLimit = (given: Form): string => given.get('daily_limit').replaceAll(/[\s.,’']/g, '')

const actionsOf = (pair: ShownPair): Actions<typeof warmups> => ({
  fix: {
    label: 'Set limit',
    fields: {
      daily_limit: {
        label: 'Recipients per day',
        type: 'number',
        required: true,
        digits: true,
        value: text(pair, 'state') === 'manual' ? text(pair, 'daily_limit') : '',
        hint: 'A limit that you set stays until you change it.',
        read: (given) => (/^\d+$/.test(typedLimit(given)) ? Number(typedLimit(given)) : typedLimit(given)),
      },
    },
    said: (one, given) => `${titleOf(one)}: the limit is now ${typedLimit(given)} recipients per day.`,
  },
  release: {
    label: 'Resume automatic warm-up',
    when: (one) => ['manual', 'unlimited'].includes(text(one, 'state')),
    ask: { attributes: { daily_limit: null } },
    said: (one) => `${titleOf(one)}: automatic warm-up resumed.`,
  },
  skip: {
    label: 'Remove limit',
    when: (one) => text(one, 'state') !== 'unlimited',
    ask: 'skip',
    said: (one) => `${titleOf(one)}: the limit was removed.`,
  },
  restart: {
    label: 'Restart warm-up',
    confirm: (one) => `The warm-up of ${titleOf(one)} restarts at the first step.`,
    ask: 'restart',
    said: (one) => `${titleOf(one)}: warm-up restarted at the first step.`,
  },
})

const onePair = onePlace({
  path: `${HERE}/:id`,
  operator: true,
  of: warmups,
  list: [HERE, 'Warm-up'],
  title: titleOf,
  actions: (_, pair) => actionsOf(pair),
  head: ({ one }) =>
    text(one, 'receiver') === TOTAL
      ? ''
      : html`<a class="button plain" href="/why/${encodeURIComponent(text(one, 'receiver'))}">Why?</a>`,
  body: async ({ button, form, one, visit }) =>
    html`${serverTabs(visit, HERE)}
      ${live(
        visit,
        html`${facts([
            ['Daily limit', limit(one.attributes.daily_limit)],
            ['Used today', usedOf(one)],
            ['Queued', `${count(number(one, 'waiting'))} (all sending IP addresses)`],
            ['Status', html`${stateOf(one)} ${STATES[text(one, 'state')]?.[1] ?? ''}`],
            ['Reason', text(one, 'reason') || '–'],
            ['Since', time(one.attributes.since)],
            ['Step', text(one, 'step') || '–'],
            ['Next email', one.attributes.next_at === null ? 'Now' : timeUntil(one.attributes.next_at)],
          ])}
          <h2>History</h2>
          ${days(one)}`,
      )}
      <h2>Change the limit</h2>
      ${await form('fix')}
      <div class="row">${button('release')} ${button('skip')} ${button('restart')}</div>`,
})

export const warmupPlaces = [...list, onePair]
