// Overview: the statistics of the account's email, and problems that need attention.
import { must } from '../base/errors.ts'
import { hasStrongSignIn } from '../users/passkeys.ts'
import type { ApiDeps } from '../jsonapi/define.ts'
import { button } from '../views/html/forms.ts'
import type { AttributesOf } from '../jsonapi/shown.ts'
import { firstSteps, type Known } from './first-steps.ts'
import { DAY } from '../base/clock.ts'
import { RATE_LIMITS, rateSeverity } from '../reputation/findings.ts'
import { html } from 'hono/html'
import { inUtc, oldDays, periodFilters, periodName, periodOf, periods } from '../views/html/period.ts'
import { page } from '../views/html/frame.ts'
import { barChart, dayWriter } from '../views/html/chart.ts'
import { badge, count, figures, live, percent, table, tile, time, type Html } from '../views/html/widgets.ts'
import { done, type Place } from '../views/html/place.ts'
import { presentFindings, serverState } from '../checks/api.ts'
import { troubles, type NeedsLook } from '../views/html/troubles.ts'
import { campaigns } from '../campaigns/api.ts'
import { domains } from '../domains/api.ts'
import { statistics } from '../reputation/api-statistics.ts'
import { flag, number, objects, text, texts, type Answer, type Thing, type Visit } from '../views/html/visit.ts'

type Stats = Thing<typeof statistics>

/** A bar for a rate, with marks from which providers may throttle and block. */
function limits(value: number, [warn, bad]: readonly [number, number], state: string): Html {
  const x = (share: number): number => Math.round(Math.min(share / (bad * 1.5), 1) * 1000) / 10
  return html`<svg class="limits" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect class="ground" y="2" width="100" height="4" rx="2" />
    <rect class="${state}" y="2" width="${x(value)}" height="4" />
    ${[warn, bad].map((mark) => html`<rect class="mark" x="${x(mark)}" width="0.5" height="8" />`)}
  </svg>`
}

const TONES = { ok: 'good', warn: 'waits', fail: 'bad' } as const

/** The change of a figure or a rate against the previous period. Screen readers read it in words. */
function change(value: number, before: number | undefined, period: string, kind: 'figure' | 'rate'): Html | '' {
  if (before === undefined || (kind === 'figure' && before === 0)) return ''
  const by = kind === 'rate' ? Math.round((value - before) * 1e4) / 100 : Math.round((value / before - 1) * 100)
  const size = count(Math.abs(by))
  const sign = by === 0 ? '±' : by > 0 ? '+' : '−'
  const words =
    by === 0 ? 'unchanged' : `${by > 0 ? 'up' : 'down'} ${size}${kind === 'rate' ? ' percentage points' : '%'}`
  return html`<small class="change"
    ><span aria-hidden="true">${sign}${size}${kind === 'rate' ? ' pp' : '%'}</span
    ><span class="hidden">, ${words} from the previous ${periodName(period)}</span></small
  >`
}

interface ShownStats {
  stats: Stats
  period: string
  /** The start of the period, as a word of the search. */
  since: string
}

const rate = ({ period, since, stats }: ShownStats, name: keyof typeof RATE_LIMITS, label: string): Html => {
  const value = number(stats, name)
  const [warn, bad] = RATE_LIMITS[name]
  const state = TONES[rateSeverity(name, value)]
  const before = stats.attributes.previous ?? undefined
  // A rate of no emails is not a rate.
  const former = before?.sent ? before[name] : undefined
  const shown = html`<b class="${state === 'good' ? '' : state}">${percent(value)}</b
    >${change(value, former, period, 'rate')}`
  return tile(label, shown, {
    to: mailOf(name === 'bounce_rate' ? 'bounced' : 'complained', since),
    note: html`${limits(value, [warn, bad], state)}<span
        >warning at ${percent(warn)}, blocking at ${percent(bad)}</span
      >`,
  })
}

/** The path of the email list for a period and a status. */
const mailOf = (status: string, since: string): string =>
  `/mail?q=${encodeURIComponent(`${status === '' ? '' : `status:${status} `}after:${since}`)}`

/**
 * The figures above the chart. "Delivered" has the meaning that it has in the chart: accepted by receiving servers. The
 * recipients of these that bounced later are shown next to it.
 */
function tiles(visit: Visit, stats: Stats, period: string): Html {
  const series = objects(stats, 'series')
  const start = period === '24h' ? new Date(visit.now() - DAY).toISOString() : (series[0]?.at ?? '')
  const shown: ShownStats = { stats, period, since: `${start.slice(0, 16)}Z` }
  const before = stats.attributes.previous ?? undefined
  const acceptedOf = (points: readonly { delivered: number }[]): number =>
    points.reduce((sum, { delivered }) => sum + delivered, 0)
  const [sent, accepted] = [number(stats, 'sent'), acceptedOf(series)]
  const later = accepted - number(stats, 'delivered')
  return html`${tile('Sent', html`${count(sent)}${change(sent, before?.sent, period, 'figure')}`, {
    to: mailOf('', shown.since),
    note: html`<span>delivered or bounced</span>`,
  })}
  ${tile(
    'Delivered',
    html`${count(accepted)}${change(accepted, before && acceptedOf(before.series), period, 'figure')}`,
    {
      to: mailOf('delivered', shown.since),
      note: html`<span>accepted by the receiving server${later > 0 ? `, ${count(later)} bounced later` : ''}</span>`,
    },
  )}
  ${rate(shown, 'bounce_rate', 'Bounce rate')} ${rate(shown, 'complaint_rate', 'Complaint rate')}`
}

/** The maximum number of campaigns on the overview. */
const NEWEST = 3

const newest = (some: readonly Thing<typeof campaigns>[]): Html | '' =>
  some.length === 0
    ? ''
    : html`<h2>Recent campaigns</h2>
        ${table(
          'Recent campaigns',
          ['Name', { title: 'Status', kind: 'status' }, { title: 'Started', kind: 'time' }],
          some.map((each) => [
            html`<a href="/campaigns/${each.id}">${text(each, 'name')}</a>`,
            badge(text(each, 'status')),
            time(each.attributes.started_at ?? each.attributes.scheduled_at),
          ]),
          '',
        )}`

/** The attempts of a period in a chart, and in a table of the same figures for users who cannot use a chart. */
function chart(visit: Visit, stats: Stats, period: string): Html {
  const series = objects(stats, 'series')
  const attempts = stats.attributes.previous?.series.map(
    ({ deferred, delivered, refused }) => delivered + deferred + refused,
  )
  const day = dayWriter(visit.place)
  return html`${barChart({
      title: `${period === '24h' ? 'Emails per hour' : 'Emails per day'}${inUtc(visit, period)}`,
      place: visit.place,
      at: series.map(({ at }) => Date.parse(at)),
      series: [
        { name: 'Delivered', tone: 'good', values: series.map(({ delivered }) => delivered) },
        { name: 'Deferred', tone: 'waits', values: series.map(({ deferred }) => deferred) },
        { name: 'Rejected', tone: 'bad', values: series.map(({ refused }) => refused) },
      ],
      line: attempts && { name: `Previous ${periodName(period)}`, values: attempts },
    })}
    ${oldDays(visit, text(stats, 'utc_days_before'))}
    <p class="soft">
      Counted per recipient. Delivered: the receiving server accepted the email. Deferred: it was temporarily rejected
      and is retried. Rejected: it bounced at once. Later bounces count only in the bounce rate.
    </p>
    <details>
      <summary>Show as table</summary>
      ${table(
        'Results over time',
        [
          { title: period === '24h' ? 'Hour' : `Day${inUtc(visit, period)}`, kind: 'time' },
          ...figures('Delivered', 'Deferred', 'Rejected', ...(attempts ? ['Previous'] : [])),
        ],
        series.map(({ at, deferred, delivered, refused }, index) => [
          period === '24h' ? time(at) : day(at),
          ...[delivered, deferred, refused, ...(attempts ? [attempts[index] ?? 0] : [])].map(count),
        ]),
        '',
      )}
    </details>`
}

const sandboxPanel = (visit: Visit): Html =>
  html`<section class="panel">
    <h2>Sandbox</h2>
    <p>
      Everything works as in production, except that DNS and the receiving servers are simulated. Addresses that start
      with bounce, defer, refuse, complain or reply trigger that result.
    </p>
    ${button(visit, 'test', 'Send me a test email')}
  </section>`

/** Sends an email to the user from the first active domain, or from the sandbox. */
async function sendTest(visit: Visit): Promise<Answer> {
  const [first] = await visit.names('/sender-domains?filter%5Bstatus%5D=active')
  const attributes = {
    from: `Postrider <hello@${first?.[1] ?? ''}>`,
    to: visit.person.user.email,
    subject: 'Your first email from Postrider',
    html: '<h1>It works</h1><p>Your server signed this email with DKIM and delivered it to the mail server of your address.</p>',
    text: 'It works. Your server signed this email with DKIM and delivered it to the mail server of your address.',
  }
  return visit.ask('POST', '/outbound-emails', { type: 'outbound-emails', attributes })
}

type ShownFinding = NonNullable<AttributesOf<typeof serverState>['findings']>[number]

const ACTION = 'See details'

const ofServer = ({ check, detail, effect, href, status }: ShownFinding): NeedsLook[] =>
  status === 'ok'
    ? []
    : [
        {
          weight: status === 'fail' ? 'bad' : 'waits',
          what:
            effect === null ? html`<b>${check}</b>: ${detail}` : html`${effect} <span class="soft">${detail}</span>`,
          to: href,
          action: 'How to fix it',
        },
      ]

function group(name: string, found: readonly NeedsLook[]): Html | '' {
  if (found.length === 0) return ''
  const ranked = [
    ...found.filter(({ weight }) => weight === 'bad'),
    ...found.filter(({ weight }) => weight === 'waits'),
  ]
  return html`<h3>${name}</h3>
    ${troubles(ranked)}`
}

/** Shows the problems, those with the greatest effect first. */
async function attention(visit: Visit, { server }: Known): Promise<Html> {
  const { many } = await visit.get(presentFindings, '/findings?page%5Bsize%5D=100')
  const delivery = many.map((each): NeedsLook => ({
    weight: text(each, 'status') === 'fail' ? 'bad' : 'waits',
    what: `${text(each, 'detail')}.`,
    to: text(each, 'href'),
    action: ACTION,
  }))
  const problems = server ? texts(server, 'troubles') : []
  const machine = [
    ...problems.map((what): NeedsLook => ({ weight: 'bad', what, to: '/server', action: 'How to fix it' })),
    ...(server ? objects(server, 'findings').flatMap(ofServer) : []),
  ]
  return html`<h2>Needs attention</h2>
    ${delivery.length + machine.length === 0 ? html`<p>All clear.</p>` : html`${group('Delivery', delivery)} ${group('Server', machine)}`}`
}

export const overview = (deps: Pick<ApiDeps, 'store'>): Place => ({
  path: '/',
  async act(visit) {
    const answer = await sendTest(visit)
    return answer.one
      ? visit.say(`/mail/${answer.one.id}`, `A test email to ${visit.person.user.email} was queued.`)
      : show(deps, visit, answer.errors)
  },
  show: (visit) => show(deps, visit),
})

async function show(deps: Pick<ApiDeps, 'store'>, visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  // The figures of an account include its transactional email.
  if (visit.rights.marketing) return visit.context.redirect(`/campaigns${new URL(visit.context.req.url).search}`, 303)
  const period = periodOf(visit)
  const [{ one }, latest] = await Promise.all([
    visit.get(statistics, `/statistics?${periodFilters(visit, period)}`),
    visit.get(campaigns, `/campaigns?page%5Bsize%5D=${NEWEST}`),
  ])
  const stats = must(one, 'The statistics')
  const [senders, state] = await Promise.all([
    visit.get(domains, '/domains?page%5Bsize%5D=100'),
    visit.operator && !visit.elsewhere ? visit.get(serverState, '/server') : undefined,
  ])
  const strong = hasStrongSignIn(deps.store, visit.person.user.key)
  const known = { senders: senders.many, server: state?.one, strong }
  const sandbox = known.server !== undefined && flag(known.server, 'sandbox')
  const [open, steps] = await Promise.all([
    attention(visit, known),
    sandbox ? sandboxPanel(visit) : firstSteps(visit, known),
  ])
  const series = objects(stats, 'series')
  const quiet = series.every(({ deferred, delivered, refused }) => delivered + deferred + refused === 0)
  return page(visit, {
    title: 'Overview',
    about: 'Delivery results, and problems that need your attention.',
    done: done(visit),
    errors,
    actions: periods(visit, period),
    body: live(
      visit,
      html`${visit.person.role === 'reader' ? html`<div class="alert">You are viewing the account of <strong>${visit.account.email}</strong>. Your access is read-only.</div>` : ''}
        ${steps}
        <section class="tiles" aria-label="Statistics">${tiles(visit, stats, period)}</section>
        ${quiet ? html`<div class="empty">No emails in this period.</div>` : chart(visit, stats, period)} ${open}
        ${newest(latest.many)}`,
    ),
  })
}
