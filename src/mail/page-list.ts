// Mail: one search over all sent mail, filters that write its words, and the whole of what was found as a file. Under a
// mail that did not arrive stands what the server said, and when it is tried again.
import { html } from 'hono/html'
import { csv } from '../webui/csv.ts'
import { page } from '../webui/frame.ts'
import { badge, live, pageOf, pager, table, time, type Html } from '../webui/widgets.ts'
import { done, type Place } from '../webui/place.ts'
import { answerOf, objects, relatedId, text, type Visit } from '../webui/visit.ts'
import { outboundEmails } from './api.ts'
import { chosen, countIn, countsFor, filters, hints, states } from './page-filters.ts'
import type { MailResource } from './page-contents.ts'
import { nameOf, wordIn } from './page-words.ts'

/** Rows of a page. */
const SIZE = 50

const searchOf = (q: string): string => (q === '' ? '' : `&filter%5Bsearch%5D=${encodeURIComponent(q)}`)

/** Why a mail did not arrive, or not yet: the server's words, and the next try. */
function why(mail: MailResource): Html | '' {
  const some = objects(mail, 'recipients').filter(({ status }) => status !== 'delivered' && status !== 'sent')
  const one = some.find(({ role }) => role === 'to') ?? some[0]
  if (!one) return ''
  const said = answerOf(one)
  const next = one.next_attempt_at
  if (said === '') return ''
  return html`<span class="why" title="${said}"
    ><span>${said}</span>${next === null ? '' : html`<span>· next try ${time(next)}</span>`}</span
  >`
}

function rowOf(mail: MailResource) {
  return [
    html`<a href="/mail/${mail.id}">${text(mail, 'to')}</a>`,
    badge(text(mail, 'status')),
    html`${text(mail, 'subject') || html`<span class="soft">(no subject)</span>`}${why(mail)}`,
    time(mail.attributes.created_at),
    text(mail, 'from'),
  ]
}

/** What stands in place of the rows. */
const nothing = (q: string, refused: boolean): Html | string =>
  q === ''
    ? html`No mail yet. <a href="/tokens/new">Create a token</a>: your program sends with it.`
    : refused
      ? 'The search was not understood.'
      : html`Nothing fits that search. <a href="/mail">Show all mail</a>`

async function show(visit: Visit): Promise<Response> {
  const q = visit.query('q')
  if (visit.query('set') !== '') {
    const words = chosen(visit)
    return visit.context.redirect(words === '' ? '/mail' : `/mail?q=${encodeURIComponent(words)}`, 303)
  }
  const [answer, bar] = await Promise.all([
    visit.get(outboundEmails, `/outbound-emails?${pageOf(visit, SIZE)}${searchOf(q)}`),
    filters(visit, q),
  ])
  // The search box of every page leads straight to the only mail that fits.
  const [only] = answer.many
  if (visit.query('from') === 'anywhere' && only && answer.many.length === 1 && !answer.next && !answer.previous)
    return visit.context.redirect(`/mail/${only.id}`, 303)
  const counts = await countsFor(visit, q, answer)
  const total = countIn(counts, wordIn(q, 'status').toLowerCase())
  return page(visit, {
    title: 'Mail',
    about: 'Every mail that was sent, the newest first: did somebody get it, and if not, why?',
    errors: answer.errors,
    done: done(visit),
    actions:
      answer.many.length === 0
        ? ''
        : html`<a class="button plain" href="/mail.csv${q === '' ? '' : `?q=${encodeURIComponent(q)}`}">Export</a>`,
    body: html`${bar}
    ${live(
      visit,
      html`${states(q, counts)}
      ${table(
        'Mail',
        [
          { title: 'To', width: 25 },
          { title: 'Status', kind: 'status' },
          'Subject',
          { title: 'Accepted', kind: 'time' },
          { title: 'From', width: 20 },
        ],
        answer.many.map(rowOf),
        nothing(q, answer.errors.length > 0),
      )}
      ${pager(visit, answer, { rows: answer.many.length, size: SIZE, ...total })}`,
    )}
    ${hints()}`,
  })
}

/** A reply in its parts; a text that begins with the codes is taken apart. */
function partsOf(of: { smtp_code: number | null; enhanced_code: string | null; response: string | null }): string[] {
  const [, code = '', enhanced = '', words = ''] =
    /^(?:(\d{3})(?:[ -]|$))?(?:(\d\.\d{1,3}\.\d{1,3})(?: |$))?([^]*)$/.exec(of.response ?? '') ?? []
  return [String(of.smtp_code ?? code), of.enhanced_code ?? enhanced, words]
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

/** Every mail of a search as a file, a line for each recipient. */
const download: Place = {
  path: '/mail.csv',
  async show(visit) {
    const q = visit.query('q')
    // A search that is refused is explained by the page.
    const { errors } = await visit.get(outboundEmails, `/outbound-emails?page%5Bsize%5D=1${searchOf(q)}`)
    if (errors.length > 0) return visit.context.redirect(`/mail?q=${encodeURIComponent(q)}`, 303)
    const day = new Date(visit.now()).toISOString().slice(0, 10)
    return csv(visit, `mail-${day}.csv`, {
      of: outboundEmails,
      path: `/outbound-emails?include=campaign${searchOf(q)}`,
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
          ...partsOf(recipient),
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

export const listPlaces: readonly Place[] = [{ path: '/mail', show }, download]
