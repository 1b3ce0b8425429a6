// The queue (operator): waiting mail by receiving domain, the reasons, and actions on it.
import { html } from 'hono/html'
import { lanes } from './api.ts'
import { HELD_LOOKED_AT, type HoldingCampaign } from './queue/waiting.ts'
import { page } from '../webui/frame.ts'
import { button } from '../webui/forms.ts'
import {
  counted,
  badge,
  count,
  figures,
  live,
  pageOf,
  pager,
  table,
  time,
  timeUntil,
  type Html,
} from '../webui/widgets.ts'
import { done, found, lead, type Place } from '../webui/place.ts'
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

async function show(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const answer = found(await orEmpty(visit))
  const rows = answer.many.map((lane) => {
    const fields = { lane: text(lane, 'domain') }
    const waiting = number(lane, 'queued') + number(lane, 'held')
    const heldBy = objects(lane, 'held_by')
    const byCampaigns = heldBy.reduce((sum, { recipients }) => sum + recipients, 0)
    const held = flag(lane, 'hold') ? waiting : number(lane, 'held')
    const isEmpty = waiting + number(lane, 'active') === 0
    return [
      html`${text(lane, 'domain')} ${flag(lane, 'hold') ? badge('on hold') : ''} ${isEmpty ? badge('empty') : ''}
      ${learnedNote(lane)} ${heldBy.map((campaign) => heldNote(visit, campaign))}`,
      count(waiting),
      count(held),
      count(number(lane, 'active')),
      timeUntil(lane.attributes.next_attempt_at),
      text(lane, 'response'),
      html`<div class="row">
        ${isEmpty ? '' : button(visit, 'retry', 'Try now', { fields })}
        ${flag(lane, 'hold') || Math.min(number(lane, 'held'), HELD_LOOKED_AT) > byCampaigns ? button(visit, 'release', 'Release', { fields }) : button(visit, 'hold', 'Hold', { fields })}
        ${
          isEmpty
            ? ''
            : button(visit, 'drop', 'Fail now', {
                fields,
                danger: true,
                confirm: `${counted(waiting, 'recipient')} at ${text(lane, 'domain')} will fail, and the senders are told. This cannot be taken back.`,
              })
        }
      </div>`,
    ]
  })
  return page(visit, {
    title: 'Queue',
    about:
      'What waits on this server, by receiving domain, and what receivers were found to take in the last hour. A hold covers what waits and what comes, until it is released.',
    errors,
    done: done(visit),
    body: live(
      visit,
      html`${table(
        'Receiving domains',
        [
          { title: 'Domain', width: 25, wraps: true },
          ...figures('Waiting', 'Held', 'Under way'),
          { title: 'Next try', kind: 'time' },
          { title: 'Last answer', wraps: true },
          { title: '', kind: 'actions' },
        ],
        rows,
        'Nothing waits.',
      )}
      ${pager(visit, answer)}`,
    ),
  })
}

/** A page treats an answer without a resource as 404. An empty queue is not a 404, so it gets an empty resource. */
async function orEmpty(visit: Visit): Promise<Answer<typeof lanes>> {
  const answer = await visit.get(lanes, `/lanes?${pageOf(visit)}`)
  return answer.status === 200 ? { ...answer, one: answer.one ?? { type: 'lanes', id: '', attributes: {} } } : answer
}

export const queue: Place = {
  path: '/queue',
  operator: true,
  show: (visit) => show(visit),
  async act(visit, given) {
    const what = ['hold', 'release', 'retry', 'drop'].includes(given.action) ? given.action : 'retry'
    const answer = await visit.ask('POST', `/lanes/${encodeURIComponent(given.get('lane'))}/${what}`)
    return answer.status === 202 ? lead(visit, '/queue', 'moved') : show(visit, answer.errors)
  },
}
