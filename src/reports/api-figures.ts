// The figures of reports about a domain: its sources, the cost of the next DMARC policy, and the results of TLS
// connections to it. Also the names that its owner gives to sources.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { DAY, dateOf, dayOf } from '../base/clock.ts'
import { domains } from '../domains/api.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, time, words, wordsOrNull } from '../jsonapi/fields.ts'
import { field, parentOf, type Call } from '../jsonapi/resource.ts'
import { line } from '../jsonapi/schemas.ts'
import { raw } from '../store/query.ts'
import type { RowOf } from '../store/schema/tables.ts'
import { valuesOf } from '../store/schema/tables.ts'
import { dmarcEvidence, PERIOD_DAYS } from './evidence.ts'
import { forgetSource, nameSource } from './known.ts'
import { dmarcSources, hostsOf, KNOWN, namesOfSources, withOthers, type SourcesDeps } from './sources.ts'

/** The most sources of a list, half of them unknown ones, and those with a lookup of the PTR name. */
const MOST_SOURCES = 1000
const MOST_HOSTS = 25
/** The most rows of TLS figures in a list. */
const MOST_TLS = 5000

const PERIODS: Readonly<Record<string, number>> = { '7d': 7, '30d': 30, '90d': 90 }
const period = {
  period: { column: 'period', about: 'Period: 7d, 30d (the default) or 90d. Days are in UTC.' },
}

type Viewed = Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }

/** The first day of the period. Throws 400 for an unknown period. */
function sinceDay({ filters, now }: Viewed): number {
  const [asked = '30d', ...more] = filters.get('period') ?? []
  const days = more.length === 0 && Object.hasOwn(PERIODS, asked) ? PERIODS[asked] : undefined
  if (days === undefined)
    throw refuse('unsupported_filter', 'This period is not supported. Use 7d, 30d or 90d.', {
      parameter: 'filter[period]',
    })
  return dayOf(now) - days + 1
}

const depsOf = ({ parts }: Viewed): SourcesDeps => ({ ...parts, resolver: parts.fetching.resolver })
const within = { type: 'domains', column: 'domain_key' } as const
const day = (at: number): string => dateOf(at * DAY)
const list = (about: string) => field(z.array(z.string()), { about })

async function sourcesShown(call: Viewed) {
  const domain = parentOf(domains, call)
  const since = sinceDay(call)
  const wanted = call.filters.get('known')
  if (wanted?.some((each) => !(KNOWN as readonly string[]).includes(each)))
    throw refuse('unsupported_filter', `This kind of source does not exist. Use ${KNOWN.join(', ')}.`, {
      parameter: 'filter[known]',
    })
  const { sources } = await dmarcSources(depsOf(call), domain, since)
  const all = withOthers(sources, MOST_SOURCES / 2)
    .filter(({ known }) => wanted?.includes(known) ?? true)
    .slice(0, MOST_SOURCES)
  const hosts = await hostsOf(
    depsOf(call),
    all.flatMap(({ address }) => (address === '' ? [] : [address])).slice(0, MOST_HOSTS),
  )
  return all.map((source, key) => {
    const { address, first_day, last_day, messages, none, pass, passed, quarantine, reject } = source
    return {
      ...source,
      key,
      id: `${domain.id}-${address || 'others'}`,
      address: address || 'others',
      host: hosts.get(address) ?? null,
      fail: messages - pass,
      dispositions: { none, quarantine, reject, pass: passed },
      first_seen: day(first_day),
      last_seen: day(last_day),
      shown: { domainKey: domain.key, since, today: dayOf(call.now), address },
    }
  })
}

export const dmarcSourceFigures = define('dmarc-sources', {
  table: 'dmarc_figures',
  about: 'IP addresses that send email with a domain in the From header, according to authenticated DMARC reports.',
  extension: true,
  attributes: {
    address: words(
      'Sending IP address. `others`: the sum of unknown addresses beyond the largest. A named network: the sum of its addresses that are not stored one by one.',
    ),
    addresses: count('Number of IP addresses. For a sum, an upper limit.'),
    host: wordsOrNull(
      `PTR name. Looked up for the ${MOST_HOSTS} sources with most messages. Null for others, or if absent.`,
    ),
    known: field(z.enum(KNOWN), {
      about:
        'Kind of source. `this_server`: this server. `relay`: a relay of this server. `named`: named by you. `forwarder`: our signature passes, or receivers report forwarding. `unknown`: any other.',
    }),
    name: wordsOrNull('Name that you gave it. Null if absent.'),
    messages: count('Number of messages.'),
    pass: count('Number of messages that passed DMARC.'),
    fail: count('Number of messages that failed DMARC.'),
    dkim_pass: count('Number of messages with an aligned DKIM signature.'),
    spf_pass: count('Number of messages with an aligned SPF pass.'),
    dispositions: field(z.object({ none: z.int(), quarantine: z.int(), reject: z.int(), pass: z.int() }), {
      about: 'Number of messages by how receivers handled them.',
    }),
    dkim_domains: list('Domains whose DKIM signature passed.'),
    spf_domains: list('Domains whose SPF passed.'),
    reporters: list('Reporters. For data from only one reporter, the name of that one.'),
    first_seen: words('First day (UTC) of the period with messages.'),
    last_seen: words('Last day (UTC) of the period with messages.'),
  },
  filters: { ...period, known: { column: 'known', about: 'Filter by kind of source. Commas mean "or".' } },
  // Read only for the sources on the requested page.
  extend(rows, { reader }) {
    const all = rows as unknown as (Awaited<ReturnType<typeof sourcesShown>>[number] & Record<string, unknown>)[]
    const [first] = all
    if (!first) return
    const { domainKey, since, today } = first.shown
    const names = namesOfSources(
      reader,
      domainKey,
      { since, today },
      all.map(({ shown }) => shown.address),
    )
    const nothing = { reporters: [], dkim_domains: [], spf_domains: [] }
    for (const row of all) Object.assign(row, names.get(row.shown.address) ?? nothing)
  },
  actions: [
    {
      kind: 'view',
      path: '/domains/:domain/dmarc-sources',
      within,
      id: 'listDmarcSources',
      scope: 'domains:read',
      params: ['filter', 'page'],
      about: 'List IP addresses that send email with a domain, most messages first.',
      run: sourcesShown,
    },
  ],
})

const policies = valuesOf('domains', 'dmarc_policy')

export const dmarcEvidences = define('dmarc-evidence', {
  table: 'dmarc_figures',
  called: 'DmarcEvidence',
  about: `Effect of the next DMARC policy of a domain, according to reports of ${PERIOD_DAYS} days that arrived in time. At most 10,000 messages per provider and day count.`,
  extension: true,
  attributes: {
    days: count('Number of days with authenticated reports. Reports that arrive on the same day count as one day.'),
    reporters: count('Number of authenticated reporters.'),
    messages: count('Number of reported messages that count.'),
    pass: count('Number of messages that passed DMARC.'),
    fail: count('Number of messages that failed DMARC.'),
    known_fail: count('Number of failing messages from known sources and forwarders.'),
    unknown_sources: count('Number of IP addresses that you have not named and that have no other explanation.'),
    policy: field(z.enum(policies).nullable(), { about: 'Policy at the last DNS check. Null if absent.' }),
    next: field(z.enum(policies).nullable(), { about: 'Next stricter policy. Null if absent.' }),
    next_affected: count('Number of messages from known sources that the next policy would have blocked.'),
    ready: field(z.boolean(), { about: 'Whether the evidence for the next policy is complete.' }),
    reasons: list('Missing evidence. If it is complete, the messages that would have been blocked.'),
    record: wordsOrNull('Name of the DNS record for the next policy. Null if there is no next policy.'),
    value: wordsOrNull(
      'Value of the DNS record for the next policy. Report addresses of the present record are kept. Null if there is no next policy.',
    ),
  },
  actions: [
    {
      kind: 'view',
      one: true,
      path: '/domains/:domain/dmarc-evidence',
      within,
      params: [],
      id: 'getDmarcEvidence',
      scope: 'domains:read',
      about: 'Get the evidence for the next DMARC policy of a domain.',
      async run(call) {
        const domain = parentOf(domains, call)
        return [{ key: 0, id: domain.id, ...(await dmarcEvidence(depsOf(call), domain)) }]
      },
    },
  ],
})

export const tlsFigures = define('tls-statistics', {
  table: 'tls_figures',
  about: 'Results of TLS connections to a domain, according to authenticated TLS reports.',
  extension: true,
  attributes: {
    day: words('Day (UTC).'),
    reporter: words('Reporter.'),
    policy_type: field(z.enum(valuesOf('tls_figures', 'policy_type')), { about: 'Type of the policy.' }),
    policy_domain: words('Domain of the policy.'),
    successful_sessions: count('Number of connections that complied with the policy.'),
    failed_sessions: count('Number of connections that failed.'),
    results: field(z.record(z.string(), z.int()), {
      kind: 'json',
      about: 'Number of failed connections by reported result.',
    }),
  },
  filters: period,
  actions: [
    {
      kind: 'view',
      path: '/domains/:domain/tls-statistics',
      within,
      id: 'listTlsStatistics',
      scope: 'domains:read',
      params: ['filter', 'page'],
      about: 'List TLS connection results for a domain, newest day first.',
      run(call) {
        const domain = parentOf(domains, call)
        return call.parts.store
          .all(
            raw<RowOf<'tls_figures'>>(
              `select * from tls_figures where domain_key = ? and day >= ?
               order by day desc, failure desc, reporter, policy_type, policy_domain limit ?`,
              [domain.key, sinceDay(call), MOST_TLS],
            ),
          )
          .map((row, key) => ({
            ...row,
            key,
            id: [domain.id, row.day, row.reporter, row.policy_type, row.policy_domain].join('-'),
            day: day(row.day),
            successful_sessions: row.success,
            failed_sessions: row.failure,
          }))
      },
    },
  ],
})

export const knownSources = define('known-sources', {
  table: 'known_sources',
  about: 'IP addresses and networks that send email with a domain and that you have named.',
  extension: true,
  attributes: {
    network: field(line(64), {
      create: 'required',
      about: 'An IP address or a network.',
      example: '198.51.100.0/24',
    }),
    name: field(line(100, 'characters'), {
      create: 'required',
      about: 'Name of the source.',
      example: 'newsletter service',
    }),
    created_at: { ...time('Time when the source was named.'), sort: true },
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  actions: [
    {
      kind: 'create',
      path: '/domains/:domain/known-sources',
      within,
      id: 'createKnownSource',
      scope: 'domains:write',
      about:
        'Create a name for an IP address or a network that sends email with a domain. If it has a name, the name is replaced.',
      run: async (call) => ({ row: await nameSource(call.parts, parentOf(domains, call), call.attributes) }),
    },
    {
      kind: 'list',
      path: '/domains/:domain/known-sources',
      within,
      id: 'listKnownSources',
      scope: 'domains:read',
      params: ['sort', 'fields', 'page'],
      about: 'List named IP addresses and networks.',
    },
    {
      kind: 'delete',
      path: '/known-sources/:knownSource',
      id: 'deleteKnownSource',
      scope: 'domains:write',
      about: 'Delete the name of an IP address or a network.',
      run: ({ parts, row }) => forgetSource(parts, row.key),
    },
  ],
})
