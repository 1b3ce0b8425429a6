// The page of an explanation: ranked causes, each with its evidence and fix, and open questions.
import { html } from 'hono/html'
import { page } from '../views/html/frame.ts'
import { found, type Place } from '../views/html/place.ts'
import { badge, table, time, type Cell, type Html } from '../views/html/widgets.ts'
import { objects, text, type Thing, type Visit } from '../views/html/visit.ts'
import { explanations } from './api.ts'
import type { ExplainedCause } from './explain.ts'

type ShownExplanation = Thing<typeof explanations>

/** The confidence of a cause, as a sentence. */
const SURE: Readonly<Record<string, string>> = {
  confirmed: 'Certain: the evidence below proves it.',
  likely: 'Likely: it is consistent with the evidence.',
  possible: 'Possible: the evidence also allows other causes.',
}

const linked = (words: string, href: string | null): Cell =>
  href === null ? words : html`<a href="${href}">${words}</a>`

const causeOf = ({ cause, confidence, evidence, fix, message }: ExplainedCause): Html =>
  html`<h2>${message}</h2>
    <p>${fix}</p>
    <p class="soft">${SURE[confidence] ?? ''}</p>
    ${table(
      `Evidence: ${cause.replaceAll('_', ' ')}`,
      [
        { title: 'Evidence', wraps: true },
        { title: 'Source', width: 15 },
        { title: 'Time', kind: 'time' },
      ],
      evidence.map(({ at, href, source, text: words }) => [linked(words, href), source, time(at)]),
      '',
    )}`

const unknowns = (one: ShownExplanation): Html | '' =>
  objects(one, 'unknowns').length === 0
    ? ''
    : html`<h2>Unknown</h2>
        ${table(
          'Unknown',
          [
            { title: 'Question', wraps: true },
            { title: 'Why it is unknown, and how to find out', wraps: true },
          ],
          objects(one, 'unknowns').map(({ question, reason }) => [question, reason]),
          '',
        )}`

const sourcesOf = (one: ShownExplanation): Html =>
  html`<details>
    <summary>Sources checked</summary>
    ${table(
      'Sources checked',
      [
        'Source',
        { title: 'State', kind: 'status' },
        { title: 'Rows', kind: 'figure' },
        { title: 'Since', kind: 'time' },
      ],
      objects(one, 'sources').map(({ rows, since, source, state }) => [source, badge(state), rows, time(since)]),
      '',
    )}
  </details>`

/** The breadcrumbs: the pages of the subject. */
async function above(visit: Visit, one: ShownExplanation): Promise<(readonly [string, string])[]> {
  const subject = text(one, 'subject')
  const way = encodeURIComponent(subject)
  if (text(one, 'kind') === 'domain')
    return [
      ['/domains', 'Domains'],
      [`/domains/${way}`, subject],
    ]
  if (text(one, 'kind') === 'receiver') {
    // A recipient domain is not a receiver of its own if another host answered for it.
    const receiver = await visit.ask('GET', `/statistics/receivers/${way}`)
    return [['/receivers', 'Receivers'], ...(receiver.one ? [[`/receivers/${way}`, subject] as const] : [])]
  }
  const campaign = await visit.ask('GET', `/campaigns/${way}`)
  const name = campaign.one?.attributes['name']
  return typeof name === 'string'
    ? [
        ['/campaigns', 'Campaigns'],
        [`/campaigns/${way}`, name],
      ]
    : [
        ['/mail', 'Emails'],
        [`/mail/${way}`, 'This email'],
      ]
}

/** The status without the first cause, which has its own heading. */
const leadOf = (one: ShownExplanation): string =>
  text(one, 'summary')
    .replace(objects(one, 'causes')[0]?.message ?? '', '')
    .trim()

function titleOf(one: ShownExplanation): string {
  const subject = text(one, 'subject')
  if (text(one, 'kind') === 'receiver') return `Why? Email to ${subject}`
  return text(one, 'kind') === 'domain' ? `Why? Email from ${subject}` : 'Why?'
}

export const whyPlace: Place = {
  path: '/why/:subject',
  async show(visit) {
    const asked = encodeURIComponent(visit.context.req.param('subject') ?? '')
    const { one } = found(await visit.get(explanations, `/explanations?filter%5Bsubject%5D=${asked}`))
    const causes = objects(one, 'causes')
    return page(visit, {
      title: titleOf(one),
      crumbs: await above(visit, one),
      body: html`<p>${leadOf(one)}</p>
        ${causes.map(causeOf)} ${unknowns(one)} ${sourcesOf(one)}`,
    })
  },
}
