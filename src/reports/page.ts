// The pages about received reports: the sources of a domain, the reports themselves, the results of TLS connections.
import { html } from 'hono/html'
import { domainNamed } from '../domains/page.ts'
import { button, fieldMaker, form } from '../views/html/forms.ts'
import { page } from '../views/html/frame.ts'
import { done, found, type Form, type Place } from '../views/html/place.ts'
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
} from '../views/html/widgets.ts'
import { flag, number, text, texts, type Answer, type Thing, type Visit } from '../views/html/visit.ts'
import { aggregateReports } from './api.ts'
import { dmarcEvidences, dmarcSourceFigures, knownSources, tlsFigures } from './api-figures.ts'
import { fixOf, type TlsResults } from './tls-figures.ts'
import { WORDS } from './words.ts'

type EvidenceShown = Thing<typeof dmarcEvidences>
type SourceShown = Thing<typeof dmarcSourceFigures>

const PERIODS = [
  ['7d', '7 days'],
  ['30d', '30 days'],
  ['90d', '90 days'],
] as const
/** Names of the policies in TLS reports. */
const POLICIES: Readonly<Record<string, string>> = { sts: 'MTA-STS', tlsa: 'DANE', 'no-policy-found': 'none' }
const LABELS = { network: 'Address or network', name: 'Service' } as const

const KNOWN: Readonly<Record<string, string>> = {
  this_server: 'this server',
  relay: 'your relay',
  forwarder: 'forwarder',
  unknown: 'unknown',
}

const tabsOf = (name: string, here: 'sources' | 'received' | 'tls'): Html =>
  tabs('Reports', [
    { to: `/domains/${name}/reports`, name: 'Sources', here: here === 'sources' },
    { to: `/domains/${name}/reports/received`, name: 'Reports', here: here === 'received' },
    { to: `/domains/${name}/reports/tls`, name: 'TLS', here: here === 'tls' },
  ])

function tabbed(
  visit: Visit,
  name: string,
  here: 'sources' | 'received' | 'tls',
  body: Html,
  errors: Answer['errors'] = [],
) {
  return page(visit, {
    title: `Reports for ${name}`,
    about:
      'Daily reports from mailbox providers: who sends as your domain (DMARC), and whether TLS connections to your server worked.',
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

/** The evidence for the next policy, and the record to publish for it. */
function evidenceShown(evidence: EvidenceShown): Html {
  const messages = number(evidence, 'messages')
  const next = text(evidence, 'next')
  const ready = flag(evidence, 'ready')
  const policy = text(evidence, 'policy')
  return html`<section class="tiles" aria-label="The last 14 days">
      ${tile('Messages', count(messages), { note: html`<span>in the last 14 days, from ${counted(number(evidence, 'reporters'), 'provider')}</span>` })}
      ${tile('Pass DMARC', share(number(evidence, 'pass'), messages), { note: html`<span>aligned DKIM or SPF</span>` })}
      ${tile('Fail DMARC', count(number(evidence, 'fail')), { note: html`<span>${count(number(evidence, 'known_fail'))} of them from known sources</span>` })}
      ${tile('Unknown addresses', count(number(evidence, 'unknown_sources')), { note: html`<span>not matched to a service of yours</span>` })}
    </section>
    <h2>Your DMARC policy</h2>
    <p>
      ${policy === '' ? '' : html`Current policy: <code>p=${policy}</code>.`}
      ${next === '' ? '' : ready ? html`You are ready for <code>p=${next}</code>.` : html`Not ready for <code>p=${next}</code> yet:`}
    </p>
    <ul>
      ${texts(evidence, 'reasons').map((each) => html`<li>${each}</li>`)}
    </ul>
    ${next === '' || text(evidence, 'value') === '' ? '' : stepShown(evidence, next, ready || policy === '')}`
}

/** The change in DNS for the next policy, now or later. */
const stepShown = (evidence: EvidenceShown, next: string, now: boolean): Html =>
  html`<p>
      ${
        now
          ? html`To change the policy, set the TXT record at <code>${text(evidence, 'record')}</code> to the value below
              at your DNS provider. The next check of the domain picks it up.`
          : 'Keep the current record until then: a stricter policy could block your own email.'
      }
    </p>
    <details ${now ? html`open` : ''}>
      <summary>Record for p=${next}</summary>
      <p class="soft">TXT at <code>${text(evidence, 'record')}</code></p>
      ${codeShown('next', text(evidence, 'value'))}
    </details>`

/** An address, or the addresses of a sum. */
function addressShown(source: SourceShown): string {
  const [address, addresses] = [text(source, 'address'), number(source, 'addresses')]
  if (address === 'others') return `up to ${count(addresses)} other sources`
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
    passing.length === 0 ? html`<span class="soft">none</span>` : passing.join(', '),
    only === undefined ? '' : more.length === 0 ? only : `${only} and ${count(more.length)} more`,
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
        <h2>Sending sources</h2>
        ${segments(
          'Period',
          PERIODS.map(([each, title]) => ({
            to: `/domains/${name}/reports?period=${each}`,
            name: title,
            here: each === period,
          })),
        )}
        ${table(
          'Sending sources',
          [
            { title: 'Address', wraps: true },
            { title: 'Source', kind: 'status' },
            { title: 'Emails', kind: 'share' },
            ...figures('Pass'),
            { title: 'Passes for', wraps: true },
            { title: 'Reported by', width: 20 },
          ],
          sources.many.map(sourceRow),
          'No reports yet. Providers send them daily once the DMARC record contains the report address of this server.',
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
  return html`<h2>Known sources</h2>
    ${table(
      'Known sources',
      ['Address or network', 'Service', { title: '', kind: 'action' }],
      named.map((each) => [
        html`<code>${text(each, 'network')}</code>`,
        text(each, 'name'),
        button(visit, 'forget', 'Remove', { to, fields: { id: each.id, network: text(each, 'network') } }),
      ]),
      'No known sources yet. Add the services that send for you, such as a shop or a help desk.',
    )}
    ${
      visit.reading
        ? ''
        : form(
            visit,
            'name',
            html`${entry('network', { required: true, hint: 'For example 198.51.100.7 or 198.51.100.0/24.' })}
              ${entry('name', { required: true, hint: 'For example "help desk".' })} <button>Add source</button>`,
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
        ? visit.say(here, `${given.get('network')} was removed.`)
        : showSources(visit, gone.errors)
    }
    const [network, name] = [given.get('network').trim(), given.get('name').trim()]
    const answer = await visit.ask('POST', `/domains/${domain.id}/known-sources`, {
      type: 'known-sources',
      attributes: { network, name },
    })
    return answer.one ? visit.say(here, `${network} was added as ${name}.`) : showSources(visit, answer.errors, given)
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
        text(report, 'kind') === 'dmarc'
          ? (['pass', 'fail'] as const)
          : (['successful_sessions', 'failed_sessions'] as const)
      const why = text(report, 'reason')
      const read = text(report, 'outcome') === 'read'
      const proven = flag(report, 'authenticated')
      const skipped = number(report, 'skipped_records')
      return [
        text(report, 'reporter') || 'unknown',
        badge(read ? (proven ? (skipped > 0 ? 'partly counted' : 'counted') : 'not authenticated') : 'rejected'),
        time(report.attributes.received_at),
        text(report, 'kind') === 'dmarc' ? 'DMARC' : 'TLS',
        text(report, 'begin').slice(0, 10),
        read ? count(number(report, passed)) : '–',
        read ? count(number(report, failed)) : '–',
        why === ''
          ? proven
            ? skipped === 0
              ? ''
              : `${count(skipped)} of ${count(skipped + number(report, 'records'))} ${passed === 'pass' ? 'records' : 'policies'} were skipped.`
            : 'The report is not authenticated, so it is not counted.'
          : WORDS[why as keyof typeof WORDS],
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
            { title: 'Status', kind: 'status' },
            { title: 'Received', kind: 'time' },
            { title: 'Kind', width: 10 },
            { title: 'Day (UTC)', width: 10 },
            { title: 'Passed', kind: 'share' },
            { title: 'Failed', kind: 'share' },
            { title: 'Reason', width: 20, wraps: true },
          ],
          rows,
          'No reports yet. Providers send them daily once the DMARC record contains the report address of this server.',
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
    const answer = await visit.get(tlsFigures, `/domains/${domain.id}/tls-statistics?${pageOf(visit)}`)
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
          'TLS results',
          [
            { title: 'Day (UTC)', width: 15 },
            { title: 'Reported by', wraps: true },
            { title: 'Policy', width: 15 },
            ...figures('Succeeded', 'Failed'),
            { title: 'Failures', wraps: true },
          ],
          answer.many.map((row) => [
            text(row, 'day'),
            text(row, 'reporter'),
            POLICIES[text(row, 'policy_type')] ?? text(row, 'policy_type'),
            count(number(row, 'successful_sessions')),
            count(number(row, 'failed_sessions')),
            results(row)
              .map(([result, sessions]) => `${result} × ${count(sessions)}`)
              .join(', '),
          ]),
          'No TLS reports yet. Providers send them once the TLS-RPT record of the domain is published.',
        )}
        ${pager(visit, answer)}
        ${
          seen.size === 0
            ? ''
            : html`<h2>How to fix it</h2>
                <ul>
                  ${[...seen].map((result) => html`<li><code>${result}</code>: ${fixOf(result)}</li>`)}
                </ul>`
        }`,
      )}`,
    )
  },
}

export const reportPlaces: readonly Place[] = [sourcesPlace, receivedPlace, tlsPlace]

/** The section on the page of a domain. */
export async function reportsPanel(visit: Visit, domainId: string, name: string): Promise<Html> {
  const { one } = found(await visit.get(dmarcEvidences, `/domains/${domainId}/dmarc-evidence`))
  const messages = number(one, 'messages')
  const seen =
    messages === 0
      ? 'No reports in the last 14 days.'
      : `Last 14 days: ${counted(messages, 'email')} reported by ${counted(number(one, 'reporters'), 'provider')}, ${count(number(one, 'fail'))} failed DMARC.`
  return html`<p>${seen} <a href="/domains/${name}/reports">View reports</a></p>`
}
