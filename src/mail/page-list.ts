// Emails: one search over all sent mail, filters that change the search terms, and a download of all results. An email
// that was not delivered is shown with the server's reply and the time of the next attempt.
import { dateOf } from '../base/clock.ts'
import { html } from 'hono/html'
import { chosenIn, csv } from '../views/html/csv.ts'
import { page } from '../views/html/frame.ts'
import { badge, filter, live, pageOf, pager, table, time, type Html, count } from '../views/html/widgets.ts'
import { performBulk, selectable, type Bulk } from '../views/bulk.ts'
import { orderOf } from '../views/table.ts'
import { done, type Place } from '../views/html/place.ts'
import { objects, relatedId, text, type Visit, type Answer } from '../views/html/visit.ts'
import { answerOf, replyParts } from '../views/html/reply.ts'
import { outboundEmails } from './api.ts'
import type { MailResource } from './page-contents.ts'
import { nameOf, termsIn, wordIn, dayAfter, dayIn, dayOf, dayWord, withWords } from './page-words.ts'
import { outboundEmailCounts } from './api-counts.ts'
import { statusOf } from './search.ts'

const SIZE = 50

const searchOf = (q: string): string => (q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`)

/** Why an email was not delivered, or not yet: the reason or the server's reply, and the next attempt. */
function why(mail: MailResource): Html | '' {
  const some = objects(mail, 'recipients').filter(({ status }) => status !== 'delivered' && status !== 'sent')
  const one = some.find(({ role }) => role === 'to') ?? some[0]
  if (!one) return ''
  const said = one.waiting_reason ?? answerOf(one)
  const next = one.next_attempt_at
  if (said === '') return ''
  return html`<span class="why" title="${said}"
    ><span>${said}</span>${next === null ? '' : html`<span>· next attempt ${time(next)}</span>`}</span
  >`
}

function rowOf(mail: MailResource) {
  return [
    html`<a href="/mail/${mail.id}">${text(mail, 'to')}</a>`,
    badge(text(mail, 'status')),
    html`<span class="text">${text(mail, 'subject') || html`<span class="soft">(no subject)</span>`}</span
      >${why(mail)}`,
    time(mail.attributes.created_at),
    text(mail, 'from'),
  ]
}

/** The text in place of the rows. A domain that is not a sending domain is likely that of a recipient. */
async function nothing(visit: Visit, q: string, refused: boolean): Promise<Html | string> {
  if (q === '') return html`No emails yet. <a href="/tokens/new">Create a token</a> so that your application can send.`
  if (refused) return 'The search is not valid.'
  const domain = wordIn(q, 'domain')
  const own =
    domain === '' || (await visit.names('/sender-domains')).some((each) => each.includes(domain.toLowerCase()))
  const receiver = withWords(q, { domain: '', receiver: domain })
  return html`No emails match.
    ${own ? '' : html`<code>domain:</code> is a domain that you send from, and ${domain} is not one of yours. For emails to it, search <a href="${to(receiver)}">${receiver}</a>.`}
    <a href="/mail">Show all emails</a>`
}

const bulkOf = ({ operator }: Visit): Bulk<typeof outboundEmails> => ({
  of: outboundEmails,
  named: (mail) => text(mail, 'to'),
  noun: 'email',
  file: '/mail.csv',
  actions: operator ? { retry: { label: 'Retry', said: 'Retrying', ask: 'retry' } } : {},
})

async function show(visit: Visit, errors: Answer['errors'] = []): Promise<Response> {
  const q = visit.query('q')
  if (visit.query('set') !== '') {
    const words = chosen(visit)
    return visit.context.redirect(words === '' ? '/mail' : `/mail?q=${encodeURIComponent(words)}`, 303)
  }
  const { asked, sorted } = orderOf(visit, outboundEmails)
  const [answer, bar] = await Promise.all([
    visit.get(outboundEmails, `/outbound-emails?${pageOf(visit, SIZE)}${searchOf(q)}${asked}`),
    filters(visit, q),
  ])
  // The search box of every page redirects to the only match.
  const [only] = answer.many
  if (visit.query('from') === 'anywhere' && only && answer.many.length === 1 && !answer.next && !answer.previous)
    return visit.context.redirect(`/mail/${only.id}`, 303)
  const { bar: actions, boxes } = selectable(visit, bulkOf(visit), answer.many)
  const counts = await countsFor(visit, q, answer)
  const word = wordIn(q, 'status').toLowerCase()
  // Emails are counted by their status, not by the reason why they are queued.
  const total = statusOf(word) === word ? countIn(counts, word) : { total: 0, more: answer.next !== null }
  return page(visit, {
    title: 'Emails',
    about: 'All emails, newest first, with their delivery status.',
    errors: [...errors, ...answer.errors],
    done: done(visit),
    actions:
      answer.many.length === 0
        ? ''
        : html`<a class="button plain" href="/mail.csv${q === '' ? '' : `?q=${encodeURIComponent(q)}`}">Export</a>`,
    body: html`${filter(termsIn(q), bar)}
    ${live(
      visit,
      html`${states(q, counts)}
      ${table(
        'Emails',
        [
          { title: 'To', width: 25 },
          { title: 'Status', kind: 'status', sort: 'status,created_at' },
          'Subject',
          { title: 'Accepted', kind: 'time', sort: 'created_at' },
          { title: 'From', width: 15, wide: true },
        ],
        answer.many.map(rowOf),
        answer.many.length === 0 ? await nothing(visit, q, answer.errors.length > 0) : '',
        { sorted, ...boxes },
      )}
      ${actions} ${pager(visit, answer, { rows: answer.many.length, size: SIZE, ...total })}`,
    )}
    ${hints()}`,
  })
}

const TITLES = [
  'accepted_at',
  'from',
  'recipient',
  'role',
  'status',
  'subject',
  'campaign',
  'agent',
  'smtp_code',
  'enhanced_code',
  'response',
  'server',
  'attempts',
  'next_attempt_at',
  'delivered_at',
  'message_id',
  'id',
]

/** A download with every email of a search, one line for each recipient. */
const download: Place = {
  path: '/mail.csv',
  async show(visit) {
    const q = visit.query('q')
    // The page explains a rejected search.
    const { errors } = await visit.get(outboundEmails, `/outbound-emails?page%5Bsize%5D=1${searchOf(q)}`)
    if (errors.length > 0) return visit.context.redirect(`/mail?q=${encodeURIComponent(q)}`, 303)
    const day = dateOf(visit.now())
    return csv(visit, `mail-${day}.csv`, {
      of: outboundEmails,
      path: `/outbound-emails?include=campaign${searchOf(q)}${chosenIn(visit)}`,
      titles: TITLES,
      row: (mail, included) =>
        objects(mail, 'recipients').map((recipient) => [
          text(mail, 'created_at'),
          text(mail, 'from'),
          recipient.address,
          recipient.role,
          recipient.status,
          text(mail, 'subject'),
          nameOf(included.get(relatedId(mail, 'campaign') ?? '')?.attributes),
          text(mail, 'agent_id'),
          ...replyParts(recipient),
          recipient.remote_mta ?? '',
          String(recipient.attempts),
          recipient.next_attempt_at ?? '',
          recipient.role === 'to' ? text(mail, 'delivered_at') : '',
          text(mail, 'message_id'),
          mail.id,
        ]),
    })
  },
}

const list: Place = {
  path: '/mail',
  show: (visit) => show(visit),
  act: (visit, given) => performBulk(visit, bulkOf(visit), given, (errors) => show(visit, errors)),
}

export const listPlaces: readonly Place[] = [list, download]

// The bar of filters above the list of emails: states with their counts, time, the sender's domain, campaign, agent.
// All of them change the terms in the search box.

/**
 * The states in the order of the bar, in the words of pages. Rare states are shown only if there are emails with them.
 */
const STATES = [
  ['delivered', 'Delivered'],
  ['queued', 'Queued'],
  ['bounced', 'Bounced'],
  ['scheduled', 'Scheduled', 'rare'],
  ['complained', 'Complained'],
  ['failed', 'Failed', 'rare'],
  ['suppressed', 'Suppressed', 'rare'],
  ['rejected', 'Rejected', 'rare'],
  ['sent', 'Sent', 'rare'],
  ['cancelled', 'Cancelled', 'rare'],
] as const

/** How many emails have each status, or undefined if the search was refused. */
export type MailCounts = readonly { status: string; count: number; more: boolean }[] | undefined

/**
 * The counts of a search without its status term, so that the bar shows how many emails each status would find. If all
 * emails of the search are on the page, they are counted there.
 */
export async function countsFor(visit: Visit, q: string, listed: Answer<typeof outboundEmails>): Promise<MailCounts> {
  if (listed.errors.length > 0 || visit.rights.marketing) return undefined
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

/** How many emails have a state, or with '' how many there are in all. */
export function countIn(counts: MailCounts, state: string): { total: number; more: boolean } {
  const some = counts?.filter(({ status }) => state === '' || status === state) ?? []
  return { total: some.reduce((sum, each) => sum + each.count, 0), more: some.some(({ more }) => more) }
}

/** The states as links, each with its count. */
export function states(q: string, counts: MailCounts): Html {
  const state = statusOf(wordIn(q, 'status').toLowerCase())
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

/** A choice of one term. A typed value that is not an option is added to the options. */
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

/** The search term for a campaign's name, or undefined if it would find other campaigns too. */
function campaignWord(names: readonly string[], at: number): string | undefined {
  const name = names[at]?.toLowerCase() ?? ''
  const isPlain = name === name.replaceAll('"', '').trim() && !/^(?:|yes|no)$/.test(name)
  return isPlain && names.every((each, index) => index === at || !each.toLowerCase().includes(name))
    ? names[at]
    : undefined
}

/** How many campaigns the choice contains, the newest ones. Others can be typed. */
const CAMPAIGNS = 50

/** The bar below the states: time, and the choices. */
export async function filters(visit: Visit, q: string): Promise<Html> {
  const [domains, agents, campaigns] = await Promise.all([
    visit.names('/sender-domains'),
    visit.ask('GET', '/agents?page%5Bsize%5D=100'),
    visit.ask('GET', `/campaigns?page%5Bsize%5D=${CAMPAIGNS}`),
  ])
  const names = campaigns.many.map(({ attributes }) => nameOf(attributes))
  const named = campaigns.many.map(({ id }, at) => [campaignWord(names, at) ?? id, names[at] ?? ''] as const)
  const day = dayOf(wordIn(q, 'before'))
  return html`<form class="filters" method="get" action="/mail" data-auto>
    <input type="hidden" name="set" value="yes" /><input type="hidden" name="q" value="${q}" />
    ${times(visit, q)}
    ${select(q, { name: 'domain', label: 'Sending domain', options: [['', 'Any domain'], ...domains.map(([, name]) => [name, name] as const)] })}
    ${select(q, { name: 'campaign', label: 'Campaign', options: [['', 'All emails'], ['yes', 'Campaign emails'], ['no', 'Transactional emails'], ...named] })}
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

/** The search of a submitted filter form. */
export function chosen(visit: Visit): string {
  const q = visit.query('q')
  const words: Record<string, string> = {}
  for (const name of ['domain', 'campaign', 'agent'])
    if (visit.context.req.query(name) !== undefined) words[name] = visit.query(name)
  const [after, before] = [visit.query('after'), visit.query('before')]
  // A time that was typed in another form stays, unless a day was chosen.
  if (after !== dayOf(wordIn(q, 'after'))) words['after'] = dayWord(after, visit.zone)
  const last = before === '' ? '' : dayAfter(before, 1)
  if (last !== dayOf(wordIn(q, 'before'))) words['before'] = dayWord(last, visit.zone)
  return withWords(q, words)
}

/** The meaning of the search terms. */
export const hints = (): Html =>
  html`<details>
    <summary>Search syntax</summary>
    <p class="soft">
      Free text matches addresses and subjects. Filters: <code>to:</code> <code>from:</code> <code>subject:</code>
      <code>status:</code> a status, or <code>deferred</code>, <code>held</code> or <code>warm-up</code> for queued
      emails · <code>domain:</code> your sending domain · <code>receiver:</code> a recipient domain, or a provider such
      as <code>Google</code> · <code>campaign:</code> a name, <code>yes</code> or <code>no</code> ·
      <code>agent:</code> · <code>after:</code> <code>before:</code> a date. Put values with spaces in quotes:
      <code>subject:"your order"</code>.
    </p>
  </details>`
