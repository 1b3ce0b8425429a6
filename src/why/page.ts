// Why a mail waits or was refused: the causes in order, each with its evidence and what to do, and what is not known.
import { html } from 'hono/html'
import { page } from '../webui/frame.ts'
import { found, type Place } from '../webui/place.ts'
import { badge, table, time, type Cell, type Html } from '../webui/widgets.ts'
import { objects, text, type Thing, type Visit } from '../webui/visit.ts'
import { explanations } from './api.ts'
import type { ExplainedCause } from './explain.ts'

type ShownExplanation = Thing<typeof explanations>

/** The strength of a cause, as its reader understands it. */
const SURE: Readonly<Record<string, string>> = {
  shown: 'Certain: the words below say it.',
  likely: 'Likely: it fits what is known.',
  possible: 'Possible: it fits, and so may other things.',
}

const linked = (words: string, href: string | null): Cell =>
  href === null ? words : html`<a href="${href}">${words}</a>`

const causeOf = ({ cause, evidence, mend, says, strength }: ExplainedCause): Html =>
  html`<h2>${says}</h2>
    <p>${mend}</p>
    <p class="soft">${SURE[strength] ?? ''}</p>
    ${table(
      `Evidence: ${cause.replaceAll('_', ' ')}`,
      [
        { title: 'What shows it', wraps: true },
        { title: 'Known from', width: 15 },
        { title: 'When', kind: 'time' },
      ],
      evidence.map(({ at, href, source, text: words }) => [linked(words, href), source, time(at)]),
      '',
    )}`

const unknowns = (one: ShownExplanation): Html | '' =>
  objects(one, 'not_known').length === 0
    ? ''
    : html`<h2>Not known</h2>
        ${table(
          'Not known',
          [
            { title: 'Question', wraps: true },
            { title: 'Why it is not known, and what would tell', wraps: true },
          ],
          objects(one, 'not_known').map(({ because, question }) => [question, because]),
          '',
        )}`

const askedOf = (one: ShownExplanation): Html =>
  html`<details>
    <summary>What was read</summary>
    ${table(
      'What was read',
      ['What', { title: 'State', kind: 'status' }, { title: 'Rows', kind: 'figure' }, { title: 'Since', kind: 'time' }],
      objects(one, 'asked').map(({ rows, since, source, state }) => [source, badge(state), rows, time(since)]),
      '',
    )}
  </details>`

/** The pages above an explanation: those of what it is about. */
async function above(visit: Visit, one: ShownExplanation): Promise<(readonly [string, string])[]> {
  const subject = text(one, 'subject')
  const way = encodeURIComponent(subject)
  if (text(one, 'kind') === 'domain')
    return [
      ['/domains', 'Domains'],
      [`/domains/${way}`, subject],
    ]
  if (text(one, 'kind') === 'receiver')
    return [
      ['/receivers', 'Receivers'],
      [`/receivers/${way}`, subject],
    ]
  const campaign = await visit.ask('GET', `/campaigns/${way}`)
  const name = campaign.one?.attributes['name']
  return typeof name === 'string'
    ? [
        ['/campaigns', 'Campaigns'],
        [`/campaigns/${way}`, name],
      ]
    : [
        ['/mail', 'Mail'],
        [`/mail/${way}`, 'This mail'],
      ]
}

/** What is known at once; the first cause has a heading of its own. */
const leadOf = (one: ShownExplanation): string =>
  text(one, 'summary')
    .replace(objects(one, 'causes')[0]?.says ?? '', '')
    .trim()

/** What is asked. */
function titleOf(one: ShownExplanation): string {
  const subject = text(one, 'subject')
  if (text(one, 'kind') === 'receiver') return `Why? Mail to ${subject}`
  return text(one, 'kind') === 'domain' ? `Why? Mail from ${subject}` : 'Why?'
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
        ${causes.map(causeOf)} ${unknowns(one)} ${askedOf(one)}`,
    })
  },
}
