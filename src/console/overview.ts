// Overview: the figures of the account's mail, and problems that need attention.
import { must } from '../base/errors.ts'
import { passkeysOf } from '../identity/passkeys.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { button } from '../webui/forms.ts'
import { firstSteps } from './first-steps.ts'
import { DAY } from '../base/clock.ts'
import { attention, LIMITS } from './attention.ts'
import { html } from 'hono/html'
import { DAYS, periodOf, periods } from '../webui/period.ts'
import { page } from '../webui/frame.ts'
import { barChart } from '../webui/chart.ts'
import { badge, count, figures, live, percent, table, tile, time, type Html } from '../webui/widgets.ts'
import { done, type Place } from '../webui/place.ts'
import { serverState } from '../checks/api.ts'
import { campaigns } from '../campaigns/api.ts'
import { domains } from '../domains/api.ts'
import { statistics } from '../reputation/api-statistics.ts'
import { flag, number, objects, text, type Answer, type Thing, type Visit } from '../webui/visit.ts'

type Stats = Thing<typeof statistics>

/** A bar for a rate, with marks where receivers begin to distrust and to refuse. */
function limits(value: number, [warn, bad]: readonly [number, number], state: string): Html {
  const x = (share: number): number => Math.round(Math.min(share / (bad * 1.5), 1) * 1000) / 10
  return html`<svg class="limits" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="ground" y="2" width="100" height="4" rx="2" />
    <rect class="${state}" y="2" width="${x(value)}" height="4" />
    ${[warn, bad].map((mark) => html`<rect class="mark" x="${x(mark)}" width="0.5" height="8" />`)}
  </svg>`
}

const rate = (stats: Stats, name: keyof typeof LIMITS, label: string, since: string): Html => {
  const value = number(stats, name)
  const [warn, bad] = LIMITS[name]
  const state = value >= bad ? 'bad' : value >= warn ? 'waits' : 'good'
  return tile(label, html`<b class="${value < warn ? '' : state}">${percent(value)}</b>`, {
    to: mailOf(name === 'bounce_rate' ? 'bounced' : 'complained', since),
    note: html`${limits(value, [warn, bad], state)}<span
        >receivers distrust from ${percent(warn)}, refuse from ${percent(bad)}</span
      >`,
  })
}

/** The mail of a period, with a status, as the list shows it. */
const mailOf = (status: string, since: string): string =>
  `/mail?q=${encodeURIComponent(`${status === '' ? '' : `status:${status} `}after:${since}`)}`

/**
 * The figures above the chart. "Delivered" is what the chart calls so, by construction: what receivers took. How much
 * of it bounced later is said beside it.
 */
function tiles(visit: Visit, stats: Stats, period: string): Html {
  const since = `${new Date(visit.now() - DAYS[period]! * DAY).toISOString().slice(0, 16)}Z`
  const taken = objects(stats, 'series').reduce((sum, { delivered }) => sum + delivered, 0)
  const later = taken - number(stats, 'delivered')
  return html`${tile('Sent', count(number(stats, 'sent')), {
    to: mailOf('', since),
    note: html`<span>delivered or bounced</span>`,
  })}
  ${tile('Delivered', count(taken), {
    to: mailOf('delivered', since),
    note: html`<span>taken by the receivers${later > 0 ? `, ${count(later)} bounced later` : ''}</span>`,
  })}
  ${rate(stats, 'bounce_rate', 'Bounce rate', since)} ${rate(stats, 'complaint_rate', 'Complaint rate', since)}`
}

/** How many campaigns the first page names. */
const NEWEST = 3

const newest = (some: readonly Thing<typeof campaigns>[]): Html | '' =>
  some.length === 0
    ? ''
    : html`<h2>Newest campaigns</h2>
        ${table(
          'Newest campaigns',
          ['Name', { title: 'Status', kind: 'status' }, { title: 'Started', kind: 'time' }],
          some.map((each) => [
            html`<a href="/campaigns/${each.id}">${text(each, 'name')}</a>`,
            badge(text(each, 'status')),
            time(each.attributes.started_at ?? each.attributes.scheduled_at),
          ]),
          '',
        )}`

/** The chart, and a table of the same figures for people who cannot use a chart. */
function chart(visit: Visit, period: string, series: NonNullable<Stats['attributes']['series']>): Html {
  // Past days are stored as days of UTC.
  const zone = period === '24h' ? visit.zone : 'UTC'
  return html`${barChart({
      title: period === '24h' ? 'Mail by hour' : 'Mail by day (UTC)',
      zone,
      at: series.map(({ at }) => Date.parse(at)),
      series: [
        { name: 'Delivered', tone: 'good', values: series.map(({ delivered }) => delivered) },
        { name: 'Waiting', tone: 'waits', values: series.map(({ deferred }) => deferred) },
        { name: 'Bounced at once', tone: 'bad', values: series.map(({ refused }) => refused) },
      ],
    })}
    <p class="soft">
      By the answers of the receivers, recipient by recipient. Delivered: the receiver took it; a bounce that came later
      counts in the bounce rate. Waiting: the receiver asked to come back later, and it is tried again.
    </p>
    <details>
      <summary>The figures as a table</summary>
      ${table(
        'Figures over time',
        ['From (UTC)', ...figures('Delivered', 'Waiting', 'Bounced at once')],
        series.map((each) => [
          each.at.slice(0, 16).replace('T', ' '),
          count(each.delivered),
          count(each.deferred),
          count(each.refused),
        ]),
        '',
      )}
    </details>`
}

const sandboxPanel = (visit: Visit): Html =>
  html`<section class="panel">
    <h2>This is the sandbox</h2>
    <p>
      Everything is real but DNS and the receivers: mail reaches an exchanger that is built in. Addresses that begin
      with bounce, defer, refuse, complain or reply behave so.
    </p>
    ${button(visit, 'test', 'Send me a test mail')}
  </section>`

/** A mail to the person from a domain that may send: the first one, or a try in the sandbox. */
async function sendTest(visit: Visit): Promise<Answer> {
  const [first] = await visit.names('/domains?filter%5Bstatus%5D=active')
  const attributes = {
    from: `Postrider <hello@${first?.[1] ?? ''}>`,
    to: visit.person.user.email,
    subject: 'A first mail from Postrider',
    html: '<h1>It works</h1><p>This mail was signed by your server and delivered to the exchanger of your address.</p>',
    text: 'It works. This mail was signed by your server and delivered to the exchanger of your address.',
  }
  return visit.ask('POST', '/outbound-emails', { type: 'outbound-emails', attributes })
}

export const overview = (deps: Pick<ApiDeps, 'store'>): Place => ({
  path: '/',
  async act(visit) {
    const answer = await sendTest(visit)
    return answer.one
      ? visit.say(`/mail/${answer.one.id}`, `A test mail is on its way to ${visit.person.user.email}.`)
      : show(deps, visit, answer.errors)
  },
  show: (visit) => show(deps, visit),
})

async function show(deps: Pick<ApiDeps, 'store'>, visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const period = periodOf(visit)
  const [{ one }, latest] = await Promise.all([
    visit.get(statistics, `/statistics?filter%5Bperiod%5D=${period}`),
    visit.get(campaigns, `/campaigns?page%5Bsize%5D=${NEWEST}`),
  ])
  const stats = must(one, 'The statistics')
  const { user } = visit.person
  const [senders, state] = await Promise.all([
    visit.get(domains, '/domains?page%5Bsize%5D=100'),
    visit.operator && !visit.elsewhere ? visit.get(serverState, '/server') : undefined,
  ])
  const strong = user.sealed_totp !== null || passkeysOf(deps.store, user.key).length > 0
  const known = { senders: senders.many, server: state?.one, strong }
  const sandbox = known.server !== undefined && flag(known.server, 'sandbox')
  const [open, steps] = await Promise.all([
    attention(visit, stats, known),
    sandbox ? sandboxPanel(visit) : firstSteps(visit, known),
  ])
  const series = objects(stats, 'series')
  const quiet = series.every(({ deferred, delivered, refused }) => delivered + deferred + refused === 0)
  return page(visit, {
    title: 'Overview',
    about: 'How your mail is doing, and what needs attention.',
    done: done(visit),
    errors,
    actions: periods(visit, period),
    body: live(
      visit,
      html`${visit.reading ? html`<div class="alert">You look at the account of <strong>${visit.account.email}</strong>.</div>` : ''}
        ${steps}
        <section class="tiles" aria-label="Figures">${tiles(visit, stats, period)}</section>
        ${quiet ? html`<div class="empty">No mail in this time.</div>` : chart(visit, period, series)} ${open}
        ${newest(latest.many)}`,
    ),
  })
}
