// "Review and send": the recipients of a campaign, its checks, a test, and its start, now or scheduled. To start a
// large campaign, the user types the number of recipients.
import { html } from 'hono/html'
import { MINUTE } from '../base/clock.ts'
import { field, form } from '../views/html/forms.ts'
import { badge, count, counted, type Html } from '../views/html/widgets.ts'
import { found, type Form, type Place } from '../views/html/place.ts'
import {
  flag,
  number,
  relatedId,
  text,
  type Answer,
  type Thing,
  type Visit,
  record,
  texts,
} from '../views/html/visit.ts'
import { campaignReach } from './api-reach.ts'
import { campaigns } from './api.ts'
import { askAgain, forecastOf, forecastPart, takesLong, type ShownForecast } from './page-forecast.ts'
import { campaignPage, shownOf, type ShownCampaign } from './page-frame.ts'
import { getIt, reachTiles, reachWords, type Reachable } from './page-reach.ts'
import { Refusal } from '../base/errors.ts'
import { contacts } from './api-audiences.ts'
import { campaignLinks, spamVerdicts } from './api-checks.ts'
import { contentApart } from './content-apart.ts'
import type { Check } from './content-checks.ts'

const LABELS = { email: 'Send a test to', at: 'Start time', typed: 'Number of recipients' } as const
const PAST = 'That time has passed, so the campaign was not scheduled. Choose a later time or send it now.'

/** From this number of recipients on, the user must type the number. */
const MANY = 1000

const reachOfCampaign = async (visit: Visit, id: string): Promise<Thing<typeof campaignReach>> =>
  found(await visit.get(campaignReach, `/campaigns/${id}/reach`)).one

/** A time in the user's time zone: "24 Nov 15:00", with the year if it is not the current one. */
export function momentIn(zone: string, at: number, now: number): string {
  const part = (options: Intl.DateTimeFormatOptions, when = at): string =>
    new Intl.DateTimeFormat('en-GB', { timeZone: zone, ...options }).format(when)
  const year = part({ year: 'numeric' })
  const day = part({ day: 'numeric', month: 'short' })
  return `${day}${year === part({ year: 'numeric' }, now) ? '' : ` ${year}`} ${part({ hour: '2-digit', minute: '2-digit' })}`
}

const items = (checks: readonly Check[]): Html =>
  html`<ul class="checks">
    ${checks.map(({ ok, words }) => html`<li>${badge(ok ? 'ok' : 'warn')} ${words}</li>`)}
  </ul>`

/** The checks: failed ones first, passed ones folded. */
function list(checks: readonly Check[], slow: Html): Html {
  const right = checks.filter(({ ok }) => ok)
  const wrong = checks.filter(({ ok }) => !ok)
  return html`${wrong.length === 0 ? '' : items(wrong)}
    <details>
      <summary>${counted(right.length, 'check')} passed</summary>
      ${items(right)}
    </details>
    ${slow}`
}

/** The text of the prompt before a start. */
function question({ audience, campaign, segment }: ShownCampaign, reach: Reachable, checks: readonly Check[]): string {
  const doubts = checks.filter(({ ok }) => !ok).map(({ words }) => `\nWarning: ${words}`)
  const to = flag(campaign, 'test_mode')
    ? 'its test recipient'
    : audience
      ? `“${text(audience, 'name')}”${segment ? `, segment “${text(segment, 'name')}”` : ''}`
      : 'a deleted audience'
  return `“${text(campaign, 'subject')}” will be sent to ${to}. ${reachWords(reach)}${doubts.join('')}`
}

const blocked = (blocks: readonly Check[]): string =>
  `${blocks.map(({ words }) => words).join(' ')} Fix this before you send the campaign.`

interface SendForm {
  errors?: Answer['errors']
  typed?: Form
  /** Present if the campaign takes days: the start must be confirmed again. */
  long?: ShownForecast
}

function starts(
  visit: Visit,
  shown: ShownCampaign,
  { checks, errors = [], reach, typed }: SendForm & { checks: readonly Check[]; reach: Reachable },
): Html {
  const gets = number(reach, 'recipients')
  const moved = text(shown.campaign, 'status') === 'scheduled'
  const fault = (name: string): string | undefined => errors.find((each) => each.field === name)?.detail
  const later = typed?.action === 'later' || typed?.action === 'reschedule'
  const number_ = (id: string, shownHere: boolean): Html | '' =>
    gets > MANY
      ? field({
          name: 'typed',
          id,
          label: LABELS.typed,
          required: true,
          value: shownHere ? (typed?.get('typed') ?? '') : '',
          hint: `You are sending to more than ${count(MANY)} people. Type ${count(gets)} to confirm.`,
          error: shownHere ? fault('typed') : undefined,
        })
      : ''
  const at = field({
    name: 'at',
    label: LABELS.at,
    type: 'datetime-local',
    required: true,
    hint: 'In UTC.',
    value: typed?.get('at') ?? (moved ? text(shown.campaign, 'scheduled_at').slice(0, 16) : ''),
    error: fault('at'),
  })
  if (gets === 0) return html`<div class="alert"><p>This campaign has no recipients, so it cannot be sent.</p></div>`
  const confirm = question(shown, reach, checks)
  const blocks = checks.filter(({ blocks: stops, ok }) => stops && !ok)
  if (blocks.length > 0 && !moved)
    return html`<div class="alert">
      <p>${blocked(blocks)} <a href="/campaigns/${shown.campaign.id}/edit">Edit</a></p>
    </div>`
  if (moved) return form(visit, 'reschedule', html`${at}${number_('typed', true)}<button>Reschedule</button>`)
  return html`<div class="row starts">
    ${form(visit, 'now', html`${number_('typed', !later)}<button>Send now</button>`, { confirm })}
    <details ${later ? html`open` : ''}>
      <summary class="button plain">Schedule…</summary>
      ${form(visit, 'later', html`${at}${number_('typed-later', later)}<button>Schedule</button>`, { confirm })}
    </details>
  </div>`
}

async function showSend(visit: Visit, { errors = [], long, typed }: SendForm = {}): Promise<Response> {
  const shown = await shownOf(visit)
  const { campaign } = shown
  const { id } = campaign
  const status = text(campaign, 'status')
  // A started campaign has a report instead of this page.
  if (status !== 'draft' && status !== 'scheduled') return visit.context.redirect(`/campaigns/${id}`, 303)
  const reach = await reachOfCampaign(visit, id)
  const [forecast, checks, slow] = await Promise.all([
    long ?? forecastOf(visit, id),
    checksOf(visit, campaign, shown.domain, reach),
    slowChecks(visit, id),
  ])
  return campaignPage(visit, shown, {
    errors,
    labels: LABELS,
    body: html`${long && typed ? askAgain(visit, long, typed) : ''}
      <h2>Recipients</h2>
      ${
        flag(campaign, 'test_mode')
          ? html`<p>Test mode: sends only to ${text(campaign, 'test_recipient_email') || '(no address)'}.</p>`
          : reachTiles(reach, relatedId(campaign, 'audience'))
      }
      ${forecastPart(forecast)}
      <h2>Checks</h2>
      ${list(checks, slow)}
      <h2>Test email</h2>
      ${form(
        visit,
        'test',
        html`${field({ name: 'email', label: LABELS.email, type: 'email', value: typed?.get('email') || visit.person.user.email, required: true, error: errors.find((each) => each.field === 'email')?.detail })}<button
            class="plain"
          >
            Send test
          </button>`,
      )}
      <h2>${status === 'scheduled' ? 'Start time' : 'Send'}</h2>
      ${starts(visit, shown, { checks, errors, reach, ...(typed === undefined ? {} : { typed }) })}`,
  })
}

/** Starts a campaign now or schedules it. */
async function start(visit: Visit, id: string, given: Form): Promise<Response> {
  const here = `/campaigns/${id}`
  const refuse = (field: 'at' | 'typed', detail: string): Promise<Response> =>
    showSend(visit, { errors: [{ detail, field, code: 'invalid_value' }], typed: given })
  const later = given.action !== 'now'
  const at = later ? Date.parse(`${given.get('at')}:00Z`) : null
  // The API starts a campaign with a past time at once (D43). In this form a past time is treated as a typing mistake.
  if (at !== null && (Number.isNaN(at) || at < visit.now() - MINUTE)) return refuse('at', PAST)
  const campaign = found(await visit.get(campaigns, here)).one
  const blocks = await blocksOf(campaign)
  // A scheduled campaign keeps its content: its time is changed all the same.
  if (blocks.length > 0 && given.action !== 'reschedule')
    return showSend(visit, {
      errors: [{ detail: blocked(blocks), field: undefined, code: 'invalid_value' }],
      typed: given,
    })
  const reach = await reachOfCampaign(visit, id)
  const gets = number(reach, 'recipients')
  if (gets > MANY && given.get('typed').replaceAll(/[\s.,’']/g, '') !== String(gets))
    return refuse('typed', `Type ${count(gets)}, the number of recipients, to confirm.`)
  const forecast = await forecastOf(visit, id)
  if (takesLong(forecast, given)) return showSend(visit, { typed: given, long: forecast })
  const scheduled_at = at === null ? null : new Date(at).toISOString()
  const answer =
    given.action === 'reschedule'
      ? await visit.ask('POST', `${here}/reschedule`, { type: 'campaign-schedules', attributes: { scheduled_at } })
      : await visit.ask('PATCH', here, { type: 'campaigns', id, attributes: { scheduled_at, status: 'scheduled' } })
  if (!answer.one) return showSend(visit, { errors: answer.errors, typed: given })
  return visit.say(
    here,
    at === null ? `Started: ${getIt(reach)}` : `Scheduled for ${momentIn(visit.zone, at, visit.now())}.`,
  )
}

export const send: Place = {
  path: '/campaigns/:id/send',
  changes: true,
  show: (visit) => showSend(visit),
  also: (given) =>
    given.action === 'now'
      ? 'Sending starts now.'
      : given.action === 'later'
        ? `Sending starts on ${given.get('at').replace('T', ' ')} UTC.`
        : '',
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    if (given.action !== 'test') return start(visit, id, given)
    const answer = await visit.ask('POST', `/campaigns/${id}/test`, {
      type: 'campaign-tests',
      attributes: { email: given.get('email') },
    })
    return answer.one
      ? visit.say(`/campaigns/${id}/send`, `Test email queued for ${given.get('email')}.`)
      : showSend(visit, { errors: answer.errors, typed: given })
  },
}

// The checks of a campaign on its page "Review and send": of its text (content-checks.ts), of the size of its emails,
// and those that take seconds (links, SpamAssassin), which a link starts.

export type { Check } from './content-checks.ts'

/** The texts of a campaign, as the worker thread reads them. */
const contentOf = (campaign: Thing<typeof campaigns>) => ({
  subject: text(campaign, 'subject'),
  body_html: text(campaign, 'body_html'),
  body_text: text(campaign, 'body_text') || null,
})

const stop = (words: string): Check => ({ ok: false, words, blocks: true })

/** Checks from the worker thread. Text that it cannot read stops the start. */
const orStop = (checks: Promise<Check[]>): Promise<Check[]> =>
  checks.catch((thrown: unknown) => {
    if (thrown instanceof Refusal) return [stop(thrown.message)]
    throw thrown
  })

/** The checks that block a start: no subject or no text. */
export const blocksOf = async (campaign: Thing<typeof campaigns>): Promise<Check[]> =>
  (await orStop(contentApart('emptyChecks', contentOf(campaign)))).filter(({ ok }) => !ok)

export async function checksOf(
  visit: Visit,
  campaign: Thing<typeof campaigns>,
  domain: string,
  reach: Thing<typeof campaignReach>,
): Promise<Check[]> {
  const audience = relatedId(campaign, 'audience')
  const sample =
    audience === undefined
      ? { many: [], next: null }
      : await visit.get(contacts, `/audiences/${audience}/contacts?page%5Bsize%5D=100`)
  const some = sample.many.map((each) => ({
    email: text(each, 'email'),
    name: text(each, 'name'),
    custom_fields: JSON.stringify(record(each, 'custom_fields')),
  }))
  const oversize = text(reach, 'oversize')
  return [
    ...(oversize === '' ? [] : [stop(oversize)]),
    ...(await orStop(contentApart('checks', contentOf(campaign), domain, { some, all: sample.next === null }))),
  ]
}

/** A link that starts the checks, or their results. */
export async function slowChecks(visit: Visit, id: string): Promise<Html> {
  if (visit.reading) return html``
  if (visit.query('look') !== 'closer')
    return html`<p><a href="?look=closer">Check links, images and the spam score</a> (takes a few seconds).</p>`
  const [links, spam] = await Promise.all([
    visit.all(campaignLinks, `/campaigns/${id}/links`, 50),
    visit.get(spamVerdicts, `/campaigns/${id}/spam-verdict`),
  ])
  const silent = links.filter((link) => !flag(link, 'ok'))
  const verdict = spam.one
  const score = verdict ? number(verdict, 'score') : 0
  const required = verdict ? number(verdict, 'required') : 0
  const rules = verdict ? texts(verdict, 'rules') : []
  return html`<ul class="checks">
    ${
      silent.length === 0
        ? html`<li>
            ${badge('ok')}
            ${links.length === 0 ? 'There are no links to check.' : `Every link and image loads (${links.length}).`}
          </li>`
        : silent.map((link) => html`<li>${badge('warn')} ${text(link, 'url')} ${text(link, 'found')}.</li>`)
    }
    ${
      verdict && flag(verdict, 'judged')
        ? html`<li>
            ${badge(score < required ? 'ok' : 'warn')} SpamAssassin score: ${score}. Emails with ${required} or more
            count as spam. ${rules.length === 0 ? '' : html`<span class="soft">${rules.join(', ')}</span>`}
          </li>`
        : html`<li class="soft">
            ${verdict ? text(verdict, 'reason') : (spam.errors[0]?.detail ?? '')} The spam score was not checked.
          </li>`
    }
  </ul>`
}
