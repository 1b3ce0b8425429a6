// The bar of filters above the list of mails: states with their counts, time, the sender's domain, campaign, agent. All
// of them write words of the search, which stand in the box.
import { html } from 'hono/html'
import { count, type Html } from '../webui/widgets.ts'
import { objects, text, type Answer, type Visit } from '../webui/visit.ts'
import { outboundEmailCounts } from './api-counts.ts'
import type { outboundEmails } from './api.ts'
import { dayAfter, dayIn, dayOf, dayWord, nameOf, withWords, wordIn } from './page-words.ts'

/** The states in the order of the bar, in the words of pages; those that are rare are shown when there are any. */
const STATES = [
  ['delivered', 'Delivered'],
  ['queued', 'Waiting'],
  ['bounced', 'Bounced'],
  ['complained', 'Complained'],
  ['failed', 'Failed', 'rare'],
  ['suppressed', 'Suppressed', 'rare'],
  ['rejected', 'Rejected', 'rare'],
  ['sent', 'Answer pending', 'rare'],
] as const

/** How many mails have each status; undefined when the search was refused. */
export type MailCounts = readonly { status: string; count: number; more: boolean }[] | undefined

/**
 * The counts of a search without its word for the status, so that the bar shows what each status would find. When all
 * mails of the search stand on the page, they are counted there.
 */
export async function countsFor(visit: Visit, q: string, listed: Answer<typeof outboundEmails>): Promise<MailCounts> {
  if (listed.errors.length > 0) return undefined
  if (wordIn(q, 'status') === '' && listed.next === null && listed.previous === null) {
    const groups = Map.groupBy(listed.many, (mail) => text(mail, 'status'))
    return [...groups].map(([status, { length }]) => ({ status, count: length, more: false }))
  }
  const search = encodeURIComponent(withWords(q, { status: '' }))
  const { one } = await visit.get(outboundEmailCounts, `/statistics/outbound-emails?filter%5Bsearch%5D=${search}`)
  return one && objects(one, 'statuses')
}

const to = (q: string): string => (q === '' ? '/mail' : `/mail?q=${encodeURIComponent(q)}`)

const segment = (q: string, here: boolean, name: string, many?: string): Html =>
  html`<a href="${to(q)}" ${here ? html`aria-current="true"` : ''}
    >${name}${many === undefined ? '' : html` <span class="soft">${many}</span>`}</a
  >`

const shown = (many: number, more: boolean): string => `${count(many)}${more ? '+' : ''}`

/** How many mails have a state; with '', how many there are. */
export function countIn(counts: MailCounts, state: string): { total: number; more: boolean } {
  const some = counts?.filter(({ status }) => state === '' || status === state) ?? []
  return { total: some.reduce((sum, each) => sum + each.count, 0), more: some.some(({ more }) => more) }
}

/** The states as links, each with its count. */
export function states(q: string, counts: MailCounts): Html {
  const state = wordIn(q, 'status').toLowerCase()
  const all = countIn(counts, '')
  return html`<nav class="segments" aria-label="Status">
    ${segment(withWords(q, { status: '' }), state === '', 'All', counts && shown(all.total, all.more))}
    ${STATES.map(([status, name, rare]) => {
      const { more, total } = countIn(counts, status)
      if (rare && total === 0 && state !== status) return ''
      return segment(withWords(q, { status }), state === status, name, counts && shown(total, more))
    })}
  </nav>`
}

function times(visit: Visit, q: string): Html {
  const today = dayIn(visit.zone, visit.now())
  const [after, before] = [wordIn(q, 'after'), wordIn(q, 'before')]
  const since = (days: number): string => dayWord(dayAfter(today, 1 - days), visit.zone)
  return html`<nav class="segments" aria-label="Time">
    ${segment(withWords(q, { after: '', before: '' }), after === '' && before === '', 'Any time')}
    ${(
      [
        ['Today', 1],
        ['7 days', 7],
        ['30 days', 30],
      ] as const
    ).map(([name, days]) =>
      segment(withWords(q, { after: since(days), before: '' }), before === '' && after === since(days), name),
    )}
  </nav>`
}

interface WordChoice {
  name: string
  label: string
  options: readonly (readonly [value: string, label: string])[]
}

/** A choice of one word; a value that was typed and is none of the options is one more. */
const select = (q: string, { label, name, options }: WordChoice): Html | '' => {
  const value = wordIn(q, name)
  const known = options.some(([each]) => each.toLowerCase() === value.toLowerCase())
  const all = known ? options : [...options, [value, value] as const]
  if (options.length < 2) return ''
  return html`<select name="${name}" aria-label="${label}">
    ${all.map(
      ([each, words]) =>
        html`<option value="${each}" ${each.toLowerCase() === value.toLowerCase() ? html`selected` : ''}>
          ${words}
        </option>`,
    )}
  </select>`
}

/** The name of a campaign as a word of the search; undefined when it would find others too. */
function campaignWord(names: readonly string[], at: number): string | undefined {
  const name = names[at]?.toLowerCase() ?? ''
  const isPlain = name === name.replaceAll('"', '').trim() && !/^(?:|yes|no)$/.test(name)
  return isPlain && names.every((each, index) => index === at || !each.toLowerCase().includes(name))
    ? names[at]
    : undefined
}

/** The newest campaigns that the choice names; others are typed. */
const CAMPAIGNS = 50

/** The bar below the states: time, and the choices. */
export async function filters(visit: Visit, q: string): Promise<Html> {
  const [domains, agents, campaigns] = await Promise.all([
    visit.names('/domains'),
    visit.ask('GET', '/agents?page%5Bsize%5D=100'),
    visit.ask('GET', `/campaigns?page%5Bsize%5D=${CAMPAIGNS}`),
  ])
  const names = campaigns.many.map(({ attributes }) => nameOf(attributes))
  const named = campaigns.many.map(({ id }, at) => [campaignWord(names, at) ?? id, names[at] ?? ''] as const)
  const day = dayOf(wordIn(q, 'before'))
  return html`<form class="filters" method="get" action="/mail" data-auto>
    <input type="hidden" name="set" value="yes" /><input type="hidden" name="q" value="${q}" />
    ${times(visit, q)}
    ${select(q, { name: 'domain', label: 'Domain of the sender', options: [['', 'Any domain'], ...domains.map(([, name]) => [name, name] as const)] })}
    ${select(q, { name: 'campaign', label: 'Campaign', options: [['', 'Campaign or not'], ['yes', 'Of a campaign'], ['no', 'Not of a campaign'], ...named] })}
    ${select(q, { name: 'agent', label: 'Agent', options: [['', 'Any agent'], ...agents.many.map(({ id }) => [id, id] as const)] })}
    <details class="dates">
      <summary>Dates</summary>
      <div>
        <label>From <input type="date" name="after" value="${dayOf(wordIn(q, 'after'))}" /></label>
        <label>To <input type="date" name="before" value="${day === '' ? '' : dayAfter(day, -1)}" /></label>
        <button class="plain small">Apply</button>
      </div>
    </details>
    <button class="plain small apply">Apply</button>
  </form>`
}

/** The search that a sent form of filters means. */
export function chosen(visit: Visit): string {
  const q = visit.query('q')
  const words: Record<string, string> = {}
  for (const name of ['domain', 'campaign', 'agent'])
    if (visit.context.req.query(name) !== undefined) words[name] = visit.query(name)
  const [after, before] = [visit.query('after'), visit.query('before')]
  // A time that was typed into the box in another form stays, unless a day was chosen.
  if (after !== dayOf(wordIn(q, 'after'))) words['after'] = dayWord(after, visit.zone)
  const last = before === '' ? '' : dayAfter(before, 1)
  if (last !== dayOf(wordIn(q, 'before'))) words['before'] = dayWord(last, visit.zone)
  return withWords(q, words)
}

/** What the words of the search mean. */
export const hints = (): Html =>
  html`<details>
    <summary>Words of the search</summary>
    <p class="soft">
      Words match addresses and subjects. <code>to:</code> <code>from:</code> <code>subject:</code>
      <code>status:</code> · <code>domain:</code> is the sender’s domain, <code>receiver:</code> the domain of the
      recipient, or a provider such as <code>Google</code> · <code>campaign:</code> a name, <code>yes</code> or
      <code>no</code> · <code>agent:</code> · <code>after:</code> <code>before:</code> a date. Several words are put in
      quotes: <code>subject:"your order"</code>.
    </p>
  </details>`
