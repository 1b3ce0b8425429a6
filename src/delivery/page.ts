// The queue (operator): waiting mail by receiving domain, the reasons, and actions on it.
import { html } from 'hono/html'
import { lanes } from './api.ts'
import { HELD_LOOKED_AT, type HoldingCampaign } from './queue/waiting.ts'
import { page } from '../webui/frame.ts'
import { isNameIn } from '../base/one-of.ts'
import { button, menuOf } from '../webui/forms.ts'
import {
  counted,
  badge,
  count,
  figures,
  live,
  pageOf,
  pager,
  search,
  table,
  time,
  timeUntil,
  type Html,
} from '../webui/widgets.ts'
import { done, found, type Place } from '../webui/place.ts'
import { flag, number, objects, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'

/** That mail is held by a paused campaign; a campaign of another account has no page here. */
const heldNote = (visit: Visit, { account, id, name, recipients }: HoldingCampaign): Html =>
  html`<div class="soft">
    ${count(recipients)} held by the campaign
    ${account === visit.account.email ? html`<a href="/campaigns/${id}">${name}</a>` : html`${name} of ${account}`}
    (paused)
  </div>`

/** What was learned of the exchangers of a lane; nothing when nothing is known. */
function learnedNote(lane: Thing<typeof lanes>): Html | '' {
  const [connections, perSecond] = [lane.attributes.connections, lane.attributes.per_second]
  const until = lane.attributes.paused_until
  const known = [
    ...(connections === null ? [] : [html`takes ${counted(number(lane, 'connections'), 'connection')} at once`]),
    ...(perSecond === null ? [] : [html`takes ${number(lane, 'per_second')} mails a second`]),
    ...(until === null ? [] : [html`no connection works, paused until ${time(until)}`]),
  ]
  return known.length === 0
    ? ''
    : html`<div class="soft">${known.map((each, at) => html`${at > 0 ? ', ' : ''}${each}`)}</div>`
}

/** That its receiver gets no more today; nothing is wrong then, and the last answer says when it goes on. */
const warmupNote = (domain: string): Html => html`${badge('warm-up')} <a href="/why/${domain}">Why?</a>`

/** What can be done with lanes, in one form each; several are named with spaces between. */
function actionsOf(visit: Visit, lane: Thing<typeof lanes>): (Html | '')[] {
  const name = text(lane, 'domain')
  const fields = { lane: name }
  const waiting = number(lane, 'queued') + number(lane, 'held')
  const isEmpty = waiting + number(lane, 'active') === 0
  const byCampaigns = objects(lane, 'held_by').reduce((sum, { recipients }) => sum + recipients, 0)
  // Mail that a paused campaign holds goes on with it, not by a release.
  const releases = flag(lane, 'hold') || Math.min(number(lane, 'held'), HELD_LOOKED_AT) > byCampaigns
  const confirm = `${counted(waiting, 'recipient')} at ${name} will fail, and the senders are told. This cannot be undone.`
  return [
    isEmpty ? '' : button(visit, 'retry', 'Try now', { fields }),
    releases ? button(visit, 'release', 'Release', { fields }) : button(visit, 'hold', 'Hold', { fields }),
    isEmpty ? '' : button(visit, 'drop', 'Fail now', { fields, danger: true, confirm }),
  ]
}

function rowOf(visit: Visit, lane: Thing<typeof lanes>, at: number) {
  const name = text(lane, 'domain')
  const waiting = number(lane, 'queued') + number(lane, 'held')
  const isEmpty = waiting + number(lane, 'active') === 0
  const mail = `/mail?q=${encodeURIComponent(`status:queued receiver:${name}`)}`
  return [
    html`<a href="${mail}">${name}</a> ${flag(lane, 'hold') ? badge('on hold') : ''} ${isEmpty ? badge('empty') : ''}
      ${text(lane, 'reason') === 'warm-up' ? warmupNote(name) : ''} ${learnedNote(lane)}
      ${objects(lane, 'held_by').map((campaign) => heldNote(visit, campaign))}`,
    count(waiting),
    count(flag(lane, 'hold') ? waiting : number(lane, 'held')),
    count(number(lane, 'active')),
    timeUntil(lane.attributes.next_attempt_at),
    text(lane, 'response'),
    menuOf(`lane-${at}`, `What to do with ${name}`, actionsOf(visit, lane)),
  ]
}

/** The same for all lanes that a search found. */
function forAll(visit: Visit, found: readonly Thing<typeof lanes>[]): Html | '' {
  if (visit.query('q') === '' || found.length < 2) return ''
  const fields = { lane: found.map((lane) => text(lane, 'domain')).join(' ') }
  const these = `these ${found.length}`
  return html`<div class="row">
    ${button(visit, 'retry', `Try ${these} now`, { fields })} ${button(visit, 'hold', `Hold ${these}`, { fields })}
    ${button(visit, 'release', `Release ${these}`, { fields })}
  </div>`
}

/** Rows of a page, and the most lanes of one form. */
const SIZE = 50

async function show(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const answer = found(await orEmpty(visit))
  return page(visit, {
    title: 'Queue',
    about: 'What waits on this server, by the domain of the recipient. A hold covers what waits and what comes.',
    errors,
    done: done(visit),
    body: html`${search(visit, 'Domain or reason')}
    ${live(
      visit,
      html`${forAll(visit, answer.many)}
      ${table(
        'Receiving domains',
        [
          { title: 'Domain', width: 30, wraps: true },
          ...figures('Waiting', 'Held', 'Under way'),
          { title: 'Next try', kind: 'time' },
          { title: 'Last answer', wraps: true },
          { title: '', kind: 'more' },
        ],
        answer.many.map((lane, at) => rowOf(visit, lane, at)),
        visit.query('q') === '' ? 'Nothing waits.' : html`Nothing fits. <a href="/queue">Show all</a>`,
      )}
      ${pager(visit, answer)}`,
    )}`,
  })
}

/** A page treats an answer without a resource as 404. An empty queue is not a 404, so it gets an empty resource. */
async function orEmpty(visit: Visit): Promise<Answer<typeof lanes>> {
  const q = visit.query('q')
  const answer = await visit.get(
    lanes,
    `/lanes?${pageOf(visit, SIZE)}${q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`}`,
  )
  return answer.status === 200 ? { ...answer, one: answer.one ?? { type: 'lanes', id: '', attributes: {} } } : answer
}

/** What is said after an action, with the domain or their number. */
const SAID = {
  hold: (lane: string) => `Held: mail for ${lane} waits until it is released.`,
  release: (lane: string) => `Released: mail for ${lane} goes on.`,
  retry: (lane: string) => `Mail for ${lane} is tried now.`,
  drop: (lane: string) => `The mail that waited for ${lane} has failed.`,
}

export const queue: Place = {
  path: '/queue',
  operator: true,
  show: (visit) => show(visit),
  async act(visit, given) {
    const what = isNameIn(SAID, given.action) ? given.action : 'retry'
    const names = given.get('lane').split(' ').slice(0, SIZE)
    for (const name of names) {
      const answer = await visit.ask('POST', `/lanes/${encodeURIComponent(name)}/${what}`)
      if (answer.status !== 202) return show(visit, answer.errors)
    }
    return visit.say('/queue', SAID[what](names.length === 1 ? (names[0] ?? '') : counted(names.length, 'domain')))
  },
}
