// The queue (operator): queued mail by recipient domain, the reasons, and actions on it.
import { html } from 'hono/html'
import { lanes } from './api.ts'
import { HELD_LOOKED_AT, type HoldingCampaign } from './queue/waiting.ts'
import { page } from '../views/html/frame.ts'
import { isNameIn } from '../base/one-of.ts'
import { button, menuOf } from '../views/html/forms.ts'
import {
  counted,
  badge,
  count,
  figures,
  filter,
  live,
  pageOf,
  pager,
  search,
  table,
  time,
  timeUntil,
  type Html,
} from '../views/html/widgets.ts'
import { performBulk, selectable, type Bulk } from '../views/bulk.ts'
import { orderOf } from '../views/table.ts'
import { done, type Place } from '../views/html/place.ts'
import { flag, number, objects, text, thingOf, type Answer, type Thing, type Visit } from '../views/html/visit.ts'

type LaneResource = Thing<typeof lanes>

/** Shows that a paused campaign holds mail. A campaign of another account has no page here. */
const heldNote = (visit: Visit, { account, id, name, recipients }: HoldingCampaign): Html =>
  html`${count(recipients)} held by the campaign
  ${account === visit.account.email ? html`<a href="/campaigns/${id}">${name}</a>` : html`${name} of ${account}`}
  (paused)`

/** The learned limits of a lane, or '' if there are no limits. */
function learnedNote(lane: LaneResource): Html | '' {
  const [connections, perSecond] = [lane.attributes.connections, lane.attributes.per_second]
  const until = lane.attributes.paused_until
  const known = [
    ...(connections === null ? [] : [html`at most ${counted(number(lane, 'connections'), 'connection')}`]),
    ...(perSecond === null ? [] : [html`at most ${counted(number(lane, 'per_second'), 'email')} per second`]),
    ...(until === null ? [] : [html`unreachable, paused until ${time(until)}`]),
  ]
  return known.length === 0 ? '' : html`${known.map((each, at) => html`${at > 0 ? ', ' : ''}${each}`)}`
}

/**
 * Shows that the daily limit of the receiver is reached. This is not an error, and the last answer contains the time
 * when sending resumes.
 */
const warmupNote = (domain: string): Html => html`${badge('warm-up')} <a href="/why/${domain}">Why?</a>`

/** Whether an operator holds a lane or emails in it. Email of a paused campaign resumes with it, not by a release. */
function isHeldByOperator(lane: LaneResource): boolean {
  const byCampaigns = objects(lane, 'held_by').reduce((sum, { recipients }) => sum + recipients, 0)
  return flag(lane, 'hold') || Math.min(number(lane, 'held'), HELD_LOOKED_AT) > byCampaigns
}

/** How many emails a retry does not send, and what holds them: " 720 stay held by the campaign Spring (paused)." */
function stillHeld(lane: LaneResource): string {
  const held = number(lane, 'held') + (flag(lane, 'hold') ? number(lane, 'queued') : 0)
  const campaigns = objects(lane, 'held_by').map(({ name }) => `the campaign ${name} (paused)`)
  const holders = [...new Set(campaigns), ...(isHeldByOperator(lane) ? ['an operator'] : [])]
  return held === 0 ? '' : ` ${count(held)} ${held === 1 ? 'stays' : 'stay'} held by ${holders.join(' and ')}.`
}

/** The button that retries email, with its number. If some stay held, it asks first. */
function retryButton(visit: Visit, lane: LaneResource): Html | '' {
  const name = text(lane, 'domain')
  const due = flag(lane, 'hold') ? 0 : number(lane, 'queued')
  const held = stillHeld(lane)
  const confirm = held === '' ? {} : { confirm: `Retries ${counted(due, 'email')} to ${name} now.${held}` }
  return due === 0 ? '' : button(visit, 'retry', `Retry ${count(due)} now`, { fields: { lane: name }, ...confirm })
}

/** A form for each action that the lane allows. */
function actionsOf(visit: Visit, lane: LaneResource): (Html | '')[] {
  const name = text(lane, 'domain')
  const fields = { lane: name }
  const waiting = number(lane, 'queued') + number(lane, 'held')
  const isEmpty = waiting + number(lane, 'active') === 0
  const confirm = `Delivery to ${counted(waiting, 'recipient')} at ${name} will be marked as failed, and the senders are notified. This cannot be undone.`
  return [
    retryButton(visit, lane),
    isHeldByOperator(lane)
      ? button(visit, 'release', 'Release', { fields })
      : button(visit, 'hold', 'Hold', { fields }),
    isEmpty ? '' : button(visit, 'drop', 'Fail now', { fields, danger: true, confirm }),
  ]
}

function rowOf(visit: Visit, lane: LaneResource, at: number) {
  const name = text(lane, 'domain')
  const waiting = number(lane, 'queued') + number(lane, 'held')
  const isEmpty = waiting + number(lane, 'active') === 0
  const mail = `/mail?q=${encodeURIComponent(`status:queued receiver:${name}`)}`
  const notes = [learnedNote(lane), ...objects(lane, 'held_by').map((each) => heldNote(visit, each))].filter(Boolean)
  return [
    html`<a href="${mail}">${name}</a> ${flag(lane, 'hold') ? badge('on hold') : ''} ${isEmpty ? badge('empty') : ''}
      ${text(lane, 'reason') === 'warm-up' ? warmupNote(name) : ''}
      ${notes.length === 0 ? '' : html`<span class="why"><span>${notes.map((each, index) => html`${index > 0 ? ' · ' : ''}${each}`)}</span></span>`}`,
    count(waiting),
    count(flag(lane, 'hold') ? waiting : number(lane, 'held')),
    count(number(lane, 'active')),
    timeUntil(lane.attributes.next_attempt_at),
    text(lane, 'response'),
    menuOf(`lane-${at}`, `Actions for ${name}`, actionsOf(visit, lane)),
  ]
}

const BULK: Bulk<typeof lanes> = {
  of: lanes,
  named: (lane) => text(lane, 'domain'),
  noun: 'domain',
  actions: {
    retry: { label: 'Retry', said: 'Retrying', ask: 'retry' },
    hold: { label: 'Hold', said: 'Held', ask: 'hold' },
    release: { label: 'Release', said: 'Released', ask: 'release' },
  },
}

/** Rows of a page. */
const SIZE = 50

async function show(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const { asked, sorted } = orderOf(visit, lanes)
  const answer = await lanesOf(visit, asked)
  const { bar, boxes } = selectable(visit, BULK, answer.many)
  return page(visit, {
    title: 'Queue',
    about: 'Queued email by recipient domain. A hold applies to queued and to new email.',
    errors: [...errors, ...answer.errors],
    done: done(visit),
    body: html`${filter(visit.query('q') === '' ? 0 : 1, search(visit, 'Domain or reason'))}
    ${live(
      visit,
      html`${table(
        'Recipient domains',
        [
          { title: 'Domain', width: 25, sort: 'domain' },
          ...figures('Queued', 'Held'),
          { title: 'Active', kind: 'figure', sort: 'active' },
          { title: 'Next attempt', kind: 'time', sort: 'next_attempt_at' },
          'Last reply',
          { title: '', kind: 'more' },
        ],
        answer.many.map((lane, at) => rowOf(visit, lane, at)),
        visit.query('q') === '' ? 'The queue is empty.' : html`No domains match. <a href="/queue">Show all</a>`,
        { sorted, ...boxes },
      )}
      ${bar} ${pager(visit, answer)}`,
    )}`,
  })
}

const lanesOf = (visit: Visit, order: string): Promise<Answer<typeof lanes>> => {
  const q = visit.query('q')
  const search = q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`
  return visit.get(lanes, `/lanes?${pageOf(visit, SIZE)}${order}${search}`)
}

/** The messages after an action, for the domain and its lane after the action. */
const SAID = {
  hold: (name: string) => `Held: email for ${name} stays in the queue until you release it.`,
  release: (name: string) => `Released: delivery to ${name} resumes.`,
  retry(name: string, after: LaneResource) {
    const due = flag(after, 'hold') ? 0 : number(after, 'moved')
    const limit = text(after, 'reason') === 'warm-up' ? ' The daily limit (warm-up) applies.' : ''
    return `Retrying ${counted(due, 'email')} to ${name} now.${limit}${stillHeld(after)}`
  },
  drop: (name: string) => `Queued email for ${name} was marked as failed.`,
}

export const queue: Place = {
  path: '/queue',
  operator: true,
  show: (visit) => show(visit),
  async act(visit, given) {
    if (given.action === 'bulk') return performBulk(visit, BULK, given, (errors) => show(visit, errors))
    const what = isNameIn(SAID, given.action) ? given.action : 'retry'
    const name = given.get('lane')
    const answer = await visit.ask('POST', `/lanes/${encodeURIComponent(name)}/${what}`)
    if (!answer.one) return show(visit, answer.errors)
    return visit.say('/queue', SAID[what](name, thingOf(lanes, answer.one)))
  },
}
