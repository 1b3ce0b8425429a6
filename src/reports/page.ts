// What others report about a domain: who sends in its name, the reports themselves, how encrypted connections did.
import { html } from 'hono/html'
import { domainNamed } from '../domains/page.ts'
import { button, fieldMaker, form } from '../webui/forms.ts'
import { page } from '../webui/frame.ts'
import { done, found, type Form, type Place } from '../webui/place.ts'
import {
  badge,
  codeShown,
  count,
  counted,
  figures,
  live,
  pageOf,
  pager,
  percent,
  segments,
  table,
  tabs,
  tile,
  time,
  type Cell,
  type Html,
} from '../webui/widgets.ts'
import { flag, number, text, texts, type Answer, type Thing, type Visit } from '../webui/visit.ts'
import { aggregateReports } from './api.ts'
import { dmarcEvidences, dmarcSourceFigures, knownSources, tlsFigures } from './api-figures.ts'
import { fixOf, type TlsResults } from './tls-figures.ts'
import { wordsOf } from './words.ts'

type EvidenceShown = Thing<typeof dmarcEvidences>
type SourceShown = Thing<typeof dmarcSourceFigures>

const PERIODS = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
] as const
/** Policies of TLS reports, as pages call them. */
const POLICIES: Readonly<Record<string, string>> = { sts: 'MTA-STS', tlsa: 'DANE', 'no-policy-found': 'none' }
const LABELS = { network: 'Address or network', name: 'Whose it is' } as const

/** A source in the words of the page. */
const KNOWN: Readonly<Record<string, string>> = {
  this_server: 'this server',
  relay: 'your relay',
  forwarder: 'forwards',
  unknown: 'unknown',
}

const tabsOf = (name: string, here: 'sources' | 'received' | 'tls'): Html =>
  tabs('Reports', [
    { to: `/domains/${name}/reports`, name: 'Who sends in your name', here: here === 'sources' },
    { to: `/domains/${name}/reports/received`, name: 'Reports', here: here === 'received' },
    { to: `/domains/${name}/reports/tls`, name: 'Encryption', here: here === 'tls' },
  ])

function tabbed(
  visit: Visit,
  name: string,
  here: 'sources' | 'received' | 'tls',
  body: Html,
  errors: Answer['errors'] = [],
) {
  return page(visit, {
    title: `Reports about ${name}`,
    about:
      'Mailbox providers tell once a day which mail they saw in the name of your domain (DMARC), and whether encrypted connections to your server worked (TLS).',
    crumbs: [
      ['/domains', 'Domains'],
      [`/domains/${name}`, name],
    ],
    actions: html`<a class="button plain" href="/why/${name}">Why?</a>`,
    errors,
    labels: LABELS,
    done: done(visit),
    body: html`${tabsOf(name, here)} ${body}`,
  })
}

const share = (part: number, of: number): string => (of === 0 ? '–' : percent(part / of))

/** What the next policy would cost, and the record to publish for it. */
function evidenceShown(evidence: EvidenceShown): Html {
  const messages = number(evidence, 'messages')
  const next = text(evidence, 'next')
  const ready = flag(evidence, 'ready')
  const policy = text(evidence, 'policy')
  return html`<section class="tiles" aria-label="The last 14 days">
      ${tile('Messages', count(messages), { note: html`<span>of 14 days count as evidence, by ${counted(number(evidence, 'reporters'), 'provider')}</span>` })}
      ${tile('Proven', share(number(evidence, 'pass'), messages), { note: html`<span>pass DMARC: signed by you, or from where you allow</span>` })}
      ${tile('Not proven', count(number(evidence, 'fail')), { note: html`<span>${count(number(evidence, 'known_fail'))} of them from addresses that are known here</span>` })}
      ${tile('Unknown addresses', count(number(evidence, 'unknown_sources')), { note: html`<span>no service of yours, as far as is known here</span>` })}
    </section>
    <h2>Your DMARC policy</h2>
    <p>
      ${policy === '' ? 'DNS shows no DMARC record.' : html`DNS says <code>p=${policy}</code>.`}
      ${next === '' ? '' : ready ? html`The evidence for <code>p=${next}</code> is complete.` : html`For <code>p=${next}</code> something is missing still:`}
    </p>
    <ul>
      ${texts(evidence, 'because').map((each) => html`<li>${each}</li>`)}
    </ul>
    ${next === '' || text(evidence, 'value') === '' ? '' : stepShown(evidence, next, ready || policy === '')}`
}

/** What to do in DNS, now or later, for the next policy. */
const stepShown = (evidence: EvidenceShown, next: string, now: boolean): Html =>
  html`<p>
      ${
        now
          ? html`To take this step, let the TXT record at <code>${text(evidence, 'record')}</code> have the value below,
              where your DNS is kept. Nothing is to be set here: the next check of the domain sees it.`
          : 'Leave the record as it is until nothing is missing: a stricter policy may keep away mail of yours.'
      }
    </p>
    <details ${now ? html`open` : ''}>
      <summary>The record for p=${next}</summary>
      <p class="soft">TXT at <code>${text(evidence, 'record')}</code></p>
      ${codeShown('next', text(evidence, 'value'))}
    </details>`

/** An address, or what a sum stands for. */
function addressShown(source: SourceShown): string {
  const [address, addresses] = [text(source, 'address'), number(source, 'addresses')]
  if (address === 'others') return `up to ${count(addresses)} other addresses`
  return addresses > 1 ? `up to ${count(addresses)} addresses of ${address}` : address
}

function sourceRow(source: SourceShown): Cell[] {
  const messages = number(source, 'messages')
  const known = text(source, 'known')
  const [only, ...more] = texts(source, 'reporters')
  const passing = [...new Set([...texts(source, 'dkim_domains'), ...texts(source, 'spf_domains')])]
  return [
    html`<strong>${addressShown(source)}</strong
      >${text(source, 'host') === '' ? '' : html` <span class="soft">${text(source, 'host')}</span>`}`,
    known === 'named' ? text(source, 'name') : badge(KNOWN[known] ?? known),
    count(messages),
    share(number(source, 'pass'), messages),
    passing.length === 0 ? html`<span class="soft">nothing</span>` : passing.join(', '),
    only === undefined ? '' : more.length === 0 ? `${only} alone` : `${only} and ${count(more.length)} more`,
  ]
}

async function showSources(visit: Visit, errors: Answer['errors'] = [], typed?: Form): Promise<Response> {
  const domain = await domainNamed(visit)
  const name = text(domain, 'name')
  const period = PERIODS.find(([each]) => each === visit.query('period'))?.[0] ?? '30d'
  const [evidence, sources, named] = await Promise.all([
    visit.get(dmarcEvidences, `/domains/${domain.id}/dmarc-evidence`),
    visit.get(dmarcSourceFigures, `/domains/${domain.id}/dmarc-sources?filter%5Bperiod%5D=${period}&${pageOf(visit)}`),
    visit.all(knownSources, `/domains/${domain.id}/known-sources`),
  ])
  return tabbed(
    visit,
    name,
    'sources',
    html`${live(
      visit,
      html`${evidenceShown(found(evidence).one)}
        <h2>Who sends in your name</h2>
        ${segments(
          'Period',
          PERIODS.map(([each, title]) => ({
            to: `/domains/${name}/reports?period=${each}`,
            name: title,
            here: each === period,
          })),
        )}
        ${table(
          'Who sends in your name',
          [
            { title: 'Address', wraps: true },
            { title: 'Known as', kind: 'status' },
            { title: 'Mails', kind: 'share' },
            ...figures('Proven'),
            { title: 'Signed or allowed for', wraps: true },
            { title: 'Seen by', width: 20 },
          ],
          sources.many.map(sourceRow),
          'No report yet. Providers send them once a day, from the day on when the DMARC record names this server.',
        )}
        ${pager(visit, sources)}`,
    )}
    ${namedShown(visit, name, named, errors, typed)}`,
    errors,
  )
}

function namedShown(
  visit: Visit,
  name: string,
  named: readonly Thing<typeof knownSources>[],
  errors: Answer['errors'],
  typed: Form | undefined,
): Html {
  const entry = fieldMaker(LABELS, errors, typed)
  const to = `/domains/${name}/reports`
  return html`<h2>Addresses that you know</h2>
    ${table(
      'Addresses that you know',
      ['Address or network', 'Whose it is', { title: '', kind: 'action' }],
      named.map((each) => [
        html`<code>${text(each, 'network')}</code>`,
        text(each, 'name'),
        button(visit, 'forget', 'Remove', { to, fields: { id: each.id, network: text(each, 'network') } }),
      ]),
      'None has a name yet. Name the services that send for you: a newsletter service, a shop, a help desk.',
    )}
    ${
      visit.reading
        ? ''
        : form(
            visit,
            'name',
            html`${entry('network', { required: true, hint: 'Such as 198.51.100.7 or 198.51.100.0/24.' })}
              ${entry('name', { required: true, hint: 'Such as newsletter service.' })} <button>Name it</button>`,
            { to },
          )
    }`
}

const sourcesPlace: Place = {
  path: '/domains/:name/reports',
  show: (visit) => showSources(visit),
  async act(visit, given) {
    const domain = await domainNamed(visit)
    const here = `/domains/${text(domain, 'name')}/reports`
    if (given.action === 'forget') {
      const gone = await visit.ask('DELETE', `/known-sources/${given.get('id')}`)
      return gone.status === 204
        ? visit.say(here, `${given.get('network')} has no name any more.`)
        : showSources(visit, gone.errors)
    }
    const [network, name] = [given.get('network').trim(), given.get('name').trim()]
    const answer = await visit.ask('POST', `/domains/${domain.id}/known-sources`, {
      type: 'known-sources',
      attributes: { network, name },
    })
    return answer.one ? visit.say(here, `${network} is known as ${name}.`) : showSources(visit, answer.errors, given)
  },
}

const receivedPlace: Place = {
  path: '/domains/:name/reports/received',
  async show(visit) {
    const domain = await domainNamed(visit)
    const answer = await visit.get(
      aggregateReports,
      `/domains/${domain.id}/aggregate-reports?sort=-created_at&${pageOf(visit)}`,
    )
    const rows = answer.many.map((report): Cell[] => {
      const [passed, failed] =
        text(report, 'kind') === 'dmarc' ? (['pass', 'fail'] as const) : (['success', 'failure'] as const)
      const why = text(report, 'why')
      const read = text(report, 'outcome') === 'read'
      const proven = flag(report, 'authenticated')
      const skipped = number(report, 'skipped_records')
      return [
        text(report, 'reporter') || 'nobody',
        badge(read ? (proven ? (skipped > 0 ? 'in part' : 'counted') : 'not proven') : 'refused'),
        time(report.attributes.received_at),
        text(report, 'kind') === 'dmarc' ? 'DMARC' : 'TLS',
        text(report, 'begin').slice(0, 10),
        read ? count(number(report, passed)) : '–',
        read ? count(number(report, failed)) : '–',
        why === ''
          ? proven
            ? skipped === 0
              ? ''
              : `${count(skipped)} of ${count(skipped + number(report, 'records'))} ${passed === 'pass' ? 'records' : 'policies'} could not be used.`
            : 'It does not prove who wrote it, so it counts in nothing.'
          : wordsOf(why as Parameters<typeof wordsOf>[0]),
      ]
    })
    return tabbed(
      visit,
      text(domain, 'name'),
      'received',
      live(
        visit,
        html`${table(
          'Reports',
          [
            { title: 'From', wraps: true },
            { title: 'Outcome', kind: 'status' },
            { title: 'Received', kind: 'time' },
            { title: 'Kind', width: 10 },
            { title: 'Day (UTC)', width: 10 },
            { title: 'Passed', kind: 'share' },
            { title: 'Failed', kind: 'share' },
            { title: 'Why not', width: 20, wraps: true },
          ],
          rows,
          'No report yet. Providers send them once a day, from the day on when the DMARC record names this server.',
        )}
        ${pager(visit, answer)}`,
      ),
    )
  },
}

const tlsPlace: Place = {
  path: '/domains/:name/reports/tls',
  async show(visit) {
    const domain = await domainNamed(visit)
    const answer = await visit.get(tlsFigures, `/domains/${domain.id}/tls-figures?${pageOf(visit)}`)
    const results = (row: (typeof answer.many)[number]): [string, number][] =>
      Object.entries((row.attributes.results ?? {}) as TlsResults)
    const seen = new Set(answer.many.flatMap((row) => results(row).map(([result]) => result)))
    return tabbed(
      visit,
      text(domain, 'name'),
      'tls',
      html`${live(
        visit,
        html`${table(
          'Encryption',
          [
            { title: 'Day (UTC)', width: 15 },
            { title: 'Who says it', wraps: true },
            { title: 'Policy', width: 15 },
            ...figures('Worked', 'Failed'),
            { title: 'What failed', wraps: true },
          ],
          answer.many.map((row) => [
            text(row, 'day'),
            text(row, 'reporter'),
            POLICIES[text(row, 'policy_type')] ?? text(row, 'policy_type'),
            count(number(row, 'success')),
            count(number(row, 'failure')),
            results(row)
              .map(([result, sessions]) => `${result} × ${count(sessions)}`)
              .join(', '),
          ]),
          'No report about encrypted connections yet. Providers send them once the TLS_RPT record of the domain is published.',
        )}
        ${pager(visit, answer)}
        ${
          seen.size === 0
            ? ''
            : html`<h2>What to do</h2>
                <ul>
                  ${[...seen].map((result) => html`<li><code>${result}</code>: ${fixOf(result)}</li>`)}
                </ul>`
        }`,
      )}`,
    )
  },
}

export const reportPlaces: readonly Place[] = [sourcesPlace, receivedPlace, tlsPlace]

/** The row on the page of a domain. */
export async function reportsPanel(visit: Visit, domainId: string, name: string): Promise<Html> {
  const { one } = found(await visit.get(dmarcEvidences, `/domains/${domainId}/dmarc-evidence`))
  const messages = number(one, 'messages')
  const seen =
    messages === 0
      ? 'No report about this domain of the last 14 days counts yet.'
      : `Reports of 14 days that count, by ${counted(number(one, 'reporters'), 'provider')}: ${counted(messages, 'mail')} in its name; ${count(number(one, 'fail'))} could not be proven.`
  return html`<p>${seen} <a href="/domains/${name}/reports">Who sends in your name</a></p>`
}
