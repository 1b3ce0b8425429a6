// "Review and send": who gets a campaign and who does not, its checks, a test, and then its start, now or at a time. A
// start to many takes their number, typed.
import { html } from 'hono/html'
import { MINUTE } from '../base/clock.ts'
import { field, form } from '../webui/forms.ts'
import { badge, count, counted, type Html } from '../webui/widgets.ts'
import { found, type Form, type Place } from '../webui/place.ts'
import { flag, number, relatedId, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import { campaignReaches } from './api-reach.ts'
import { campaigns } from './api.ts'
import { blocksOf, checksOf, type Check } from './page-checks.ts'
import { askAgain, forecastOf, forecastPart, takesLong, type ShownForecast } from './page-forecast.ts'
import { campaignPage, shownOf, type ShownCampaign } from './page-frame.ts'
import { getIt, reachTiles, reachWords, type Reachable } from './page-reach.ts'
import { slowChecks } from './page-slow-checks.ts'

const LABELS = { email: 'Send one mail to', at: 'When', typed: 'How many get it' } as const
const PAST = 'That time is past, so that nothing was started. Choose another, or send it now.'

/** From this number of recipients on a person types it. */
const MANY = 1000

const reachOfCampaign = async (visit: Visit, id: string): Promise<Thing<typeof campaignReaches>> =>
  found(await visit.get(campaignReaches, `/campaigns/${id}/reach`)).one

/** A point in time in the person's zone: "24 Nov 15:00", with the year when it is another. */
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

/** The checks, what is wrong first and what is right folded. */
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

/** What a start does, as a question before it. */
function question({ audience, campaign }: ShownCampaign, reach: Reachable, checks: readonly Check[]): string {
  const doubts = checks.filter(({ ok }) => !ok).map(({ words }) => `\nCheck: ${words}`)
  const to = flag(campaign, 'test_mode') ? 'its test recipient' : audience ? `“${text(audience, 'name')}”` : 'nobody'
  return `“${text(campaign, 'subject')}” goes to ${to}. ${reachWords(reach)}${doubts.join('')}`
}

const blocked = (blocks: readonly Check[]): string =>
  `${blocks.map(({ words }) => words).join(' ')} The campaign cannot be sent like this.`

interface SendForm {
  errors?: Answer['errors']
  typed?: Form
  /** It takes long: the start that was asked for is asked for once more. */
  long?: ShownForecast
}

function starts(
  visit: Visit,
  shown: ShownCampaign,
  { checks, errors = [], reach, typed }: SendForm & { checks: readonly Check[]; reach: Reachable },
): Html {
  const gets = number(reach, 'gets')
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
          hint: `Type ${count(gets)}: a start to more than ${count(MANY)} is not one click.`,
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
  if (gets === 0) return html`<div class="alert"><p>Nobody gets it, so it is not sent.</p></div>`
  const confirm = question(shown, reach, checks)
  const blocks = checks.filter(({ blocks: stops, ok }) => stops && !ok)
  if (blocks.length > 0 && !moved)
    return html`<div class="alert">
      <p>${blocked(blocks)} <a href="/campaigns/${shown.campaign.id}/edit">Edit it</a></p>
    </div>`
  if (moved) return form(visit, 'reschedule', html`${at}${number_('typed', true)}<button>Change the time</button>`)
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
  // What has begun has a report, and nothing to start.
  if (status !== 'draft' && status !== 'scheduled') return visit.context.redirect(`/campaigns/${id}`, 303)
  const [reach, forecast, checks, slow] = await Promise.all([
    reachOfCampaign(visit, id),
    long ?? forecastOf(visit, id),
    checksOf(visit, campaign, shown.domain),
    slowChecks(visit, id),
  ])
  return campaignPage(visit, shown, {
    errors,
    labels: LABELS,
    body: html`${long && typed ? askAgain(visit, long, typed) : ''}
      <h2>Who gets it</h2>
      ${
        flag(campaign, 'test_mode')
          ? html`<p>It is a test: it goes to ${text(campaign, 'test_recipient_email') || 'nobody'} alone.</p>`
          : reachTiles(reach, relatedId(campaign, 'audience'))
      }
      ${forecastPart(forecast)}
      <h2>Checks</h2>
      ${list(checks, slow)}
      <h2>Test mail</h2>
      ${form(
        visit,
        'test',
        html`${field({ name: 'email', label: LABELS.email, type: 'email', value: typed?.get('email') || visit.person.user.email, required: true, error: errors.find((each) => each.field === 'email')?.detail })}<button
            class="plain"
          >
            Send the test
          </button>`,
      )}
      <h2>${status === 'scheduled' ? 'When it starts' : 'Send it'}</h2>
      ${starts(visit, shown, { checks, errors, reach, ...(typed === undefined ? {} : { typed }) })}`,
  })
}

/** Starts a campaign now, or at a time. */
async function start(visit: Visit, id: string, given: Form): Promise<Response> {
  const here = `/campaigns/${id}`
  const refuse = (field: 'at' | 'typed', detail: string): Promise<Response> =>
    showSend(visit, { errors: [{ detail, field, code: 'invalid_value' }], typed: given })
  const later = given.action !== 'now'
  const at = later ? Date.parse(`${given.get('at')}:00Z`) : null
  // The API starts a campaign with a past time at once (D43). In this form a past time is treated as a typing mistake.
  if (at !== null && (Number.isNaN(at) || at < visit.now() - MINUTE)) return refuse('at', PAST)
  const campaign = found(await visit.get(campaigns, here)).one
  const blocks = blocksOf(campaign)
  // A scheduled campaign keeps its content: its time is changed all the same.
  if (blocks.length > 0 && given.action !== 'reschedule')
    return showSend(visit, {
      errors: [{ detail: blocked(blocks), field: undefined, code: 'invalid_value' }],
      typed: given,
    })
  const reach = await reachOfCampaign(visit, id)
  const gets = number(reach, 'gets')
  if (gets > MANY && given.get('typed').replaceAll(/[\s.,’']/g, '') !== String(gets))
    return refuse('typed', `${count(gets)} get it: type this number.`)
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
      ? 'It starts now.'
      : given.action === 'later'
        ? `It starts on ${given.get('at').replace('T', ' ')} UTC.`
        : '',
  async act(visit, given) {
    const id = visit.context.req.param('id')!
    if (given.action !== 'test') return start(visit, id, given)
    const answer = await visit.ask('POST', `/campaigns/${id}/test`, {
      type: 'campaign-tests',
      attributes: { email: given.get('email') },
    })
    return answer.one
      ? visit.say(`/campaigns/${id}/send`, `A test is on its way to ${given.get('email')}.`)
      : showSend(visit, { errors: answer.errors, typed: given })
  },
}
