// Overview: the figures of the account's mail, and problems that need attention.
import { must } from '../base/errors.ts'
import { DAY } from '../base/clock.ts'
import { html } from 'hono/html'
import { periodOf, periods } from '../webui/period.ts'
import { page } from '../webui/frame.ts'
import { badge, count, live, percent, type Html } from '../webui/widgets.ts'
import { done, type Place } from '../webui/place.ts'
import { serverState } from '../checks/api.ts'
import { campaigns } from '../campaigns/api.ts'
import { domains } from '../domains/api.ts'
import { statistics } from '../reputation/api-statistics.ts'
import { webhooks } from '../webhooks/api.ts'
import { number, objects, text, type Thing, type Visit } from '../webui/visit.ts'

type Stats = Thing<typeof statistics>

/** Rates from which on receivers begin to distrust a sender. */
const LIMITS = {
  bounce_rate: [0.02, 0.05],
  complaint_rate: [0.001, 0.003],
} as const

const rate = (stats: Stats, name: keyof typeof LIMITS, label: string): Html => {
  const value = number(stats, name)
  const [warn, bad] = LIMITS[name]
  const state = value >= bad ? 'bad' : value >= warn ? 'waits' : 'good'
  return html`<div class="figure-card">
    <span class="soft">${label}</span><strong class="${state}">${percent(value)}</strong>
    <meter
      min="0"
      max="${bad * 2}"
      low="${warn}"
      high="${bad}"
      optimum="0"
      value="${Math.min(value, bad * 2)}"
      aria-label="${label}"
    >
      ${percent(value)}
    </meter>
    <span class="soft">receivers distrust from ${percent(warn)}, refuse from ${percent(bad)}</span>
  </div>`
}

const card = (label: string, value: number): Html =>
  html`<div class="figure-card"><span class="soft">${label}</span><strong>${count(value)}</strong></div>`

/** The rates for which receivers distrust or refuse mail. */
const rates = (stats: Stats): Html[] =>
  (['bounce_rate', 'complaint_rate'] as const).flatMap((name) => {
    const value = number(stats, name)
    const [warn, bad] = LIMITS[name]
    if (value < warn) return []
    const why = name === 'bounce_rate' ? 'bounced: the addresses are old, or were never right' : 'was called spam'
    const mails = value >= bad ? 'Receivers refuse such senders' : 'Receivers begin to distrust such senders'
    return [html`${percent(value)} of the mail in this period ${why}. ${mails}. <a href="/receivers">See where</a>`]
  })

/** The age from which on a backup is called too old. */
const OLD_BACKUP = 8 * DAY

/** Problems that a person should look at, each with a link to its page. */
async function hands(visit: Visit, stats: Stats): Promise<Html[]> {
  const [senders, endpoints, stopped, server] = await Promise.all([
    visit.get(domains, '/domains?page%5Bsize%5D=100'),
    visit.get(webhooks, '/webhooks?page%5Bsize%5D=100'),
    visit.get(campaigns, '/campaigns?filter%5Bstatus%5D=paused,failed&page%5Bsize%5D=10'),
    visit.operator && !visit.elsewhere ? visit.get(serverState, '/server') : undefined,
  ])
  const found: Html[] = rates(stats)
  for (const domain of senders.many)
    if (text(domain, 'status') !== 'active')
      found.push(
        html`<a href="/domains/${text(domain, 'name')}">${text(domain, 'name')}</a> is ${text(domain, 'status')}: it
          cannot send yet.`,
      )
  for (const webhook of endpoints.many)
    if (
      text(webhook, 'status') === 'disabled' ||
      (text(webhook, 'status') === 'active' && number(webhook, 'consecutive_failures') > 0)
    )
      found.push(
        html`The webhook
          <a href="/webhooks/${webhook.id}">${text(webhook, 'name')}</a>
          ${text(webhook, 'status') === 'disabled' ? 'is disabled' : 'is failing'}${text(webhook, 'last_failure') === '' ? '.' : `: ${text(webhook, 'last_failure')}`}`,
      )
  for (const campaign of stopped.many)
    found.push(
      html`The campaign
        <a href="/campaigns/${campaign.id}">${text(campaign, 'name')}</a>
        ${text(campaign, 'status') === 'failed' ? 'could not be sent' : 'is paused'}.`,
    )
  for (const { check, detail, status } of server?.one ? objects(server.one, 'findings') : [])
    if (status !== 'ok') found.push(html`<a href="/server">Server, ${check}</a>: ${detail}`)
  if (server?.one && server.one.attributes.last_backup_at === null)
    found.push(html`No backup was made yet; <code>postrider backup FILE</code> makes one. <a href="/server">More</a>`)
  const backup = Date.parse(server?.one ? text(server.one, 'last_backup_at') : '')
  if (visit.now() - backup > OLD_BACKUP)
    found.push(
      html`The last backup is ${count(Math.floor((visit.now() - backup) / DAY))} days old. <a href="/server">More</a>`,
    )
  if (senders.many.length === 0)
    found.push(html`Nothing can be sent yet: <a href="/domains">add your first domain</a>.`)
  return found
}

/** How many campaigns the first page names. */
const NEWEST = 3

const newest = (some: readonly Thing<typeof campaigns>[]): Html | '' =>
  some.length === 0
    ? ''
    : html`<h2>Newest campaigns</h2>
        <ul>
          ${some.map(
            (each) =>
              html`<li><a href="/campaigns/${each.id}">${text(each, 'name')}</a> ${badge(text(each, 'status'))}</li>`,
          )}
        </ul>`

/** The chart, and a table of the same figures for people who cannot use a chart. */
const chart = (series: NonNullable<Stats['attributes']['series']>): Html =>
  html`<figure
      class="chart"
      data-chart="${JSON.stringify(series)}"
      aria-label="Delivered, deferred and refused over time"
    >
      <noscript>The chart needs a script; the same figures stand in the table below.</noscript>
    </figure>
    <details>
      <summary>The figures as a table</summary>
      <p class="soft">
        By the answers of the receivers, recipient by recipient. A mail that a receiver took counts as delivered here,
        also when it bounced later.
      </p>
      <div class="scroll" tabindex="0" role="region" aria-label="Figures over time">
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col" class="figure">Delivered</th>
              <th scope="col" class="figure">Deferred</th>
              <th scope="col" class="figure">Refused</th>
            </tr>
          </thead>
          <tbody>
            ${series.map(
              (each) =>
                html`<tr>
                  <td>${each.at.slice(0, 16).replace('T', ' ')}</td>
                  <td class="figure">${count(each.delivered)}</td>
                  <td class="figure">${count(each.deferred)}</td>
                  <td class="figure">${count(each.refused)}</td>
                </tr>`,
            )}
          </tbody>
        </table>
      </div>
    </details>`

export const overview: Place = {
  path: '/',
  async show(visit) {
    const period = periodOf(visit)
    const [{ one }, latest] = await Promise.all([
      visit.get(statistics, `/statistics?filter%5Bperiod%5D=${period}`),
      visit.get(campaigns, `/campaigns?page%5Bsize%5D=${NEWEST}`),
    ])
    const stats = must(one, 'The statistics')
    const open = await hands(visit, stats)
    const series = objects(stats, 'series')
    const quiet = series.every(({ deferred, delivered, refused }) => delivered + deferred + refused === 0)
    return page(visit, {
      title: 'Overview',
      about: 'How your mail is doing, and what needs attention.',
      done: done(visit),
      scripts: ['chart.js'],
      body: html`${periods(visit, period)}
      ${live(
        visit,
        html`<section class="cards" aria-label="Figures">
            ${card('Sent', number(stats, 'sent'))} ${card('Delivered', number(stats, 'delivered'))}
            ${rate(stats, 'bounce_rate', 'Bounce rate')} ${rate(stats, 'complaint_rate', 'Complaint rate')}
          </section>
          ${
            quiet
              ? html`<div class="empty">
                  No mail in this time. <a href="/tokens">Make a token</a> and send the first one, or
                  <a href="/campaigns/new">write a newsletter</a>.
                </div>`
              : chart(series)
          }
          <h2>What needs attention</h2>
          ${
            open.length === 0
              ? html`<p>Nothing. All is well.</p>`
              : html`<ul class="hands">
                  ${open.map((each) => html`<li>${each}</li>`)}
                </ul>`
          }
          ${newest(latest.many)}`,
      )}`,
    })
  },
}
