// What the reports about a domain say: who sends in its name, what the next DMARC policy would cost, how connections to
// it did; and the names that its owner gives to addresses.
import { z } from 'zod'
import { refuse } from '../base/errors.ts'
import { DAY, iso } from '../base/clock.ts'
import { domains } from '../domains/api.ts'
import { define, type ApiDeps } from '../jsonapi/define.ts'
import { count, EXTENSION, time, words, wordsOrNull } from '../jsonapi/fields.ts'
import { field, parentOf, type Call } from '../jsonapi/resource.ts'
import { line } from '../jsonapi/schemas.ts'
import { raw } from '../store/query.ts'
import type { RowOf } from '../schema/tables.ts'
import { valuesOf } from '../schema/tables.ts'
import { dmarcEvidence, PERIOD_DAYS } from './evidence.ts'
import { forgetSource, nameSource } from './known.ts'
import { dayOfTime, dmarcSources, hostsOf, KNOWN, namesOfSources, type SourcesDeps } from './sources.ts'

/** The most sources of a list, and those whose names reverse DNS is asked for. */
const MOST_SOURCES = 1000
const MOST_HOSTS = 25
/** The most rows of TLS figures in a list. */
const MOST_TLS = 5000

const PERIODS: Readonly<Record<string, number>> = { '7d': 7, '30d': 30, '90d': 90 }
const period = {
  period: { column: 'period', about: `How far back: 7d, 30d (when absent) or 90d, in days of UTC. ${EXTENSION}` },
}

type Viewed = Call<ApiDeps> & { filters: ReadonlyMap<string, string[]> }

/** The first day of the period. Throws 400 for an unknown one. */
function sinceDay({ filters, now }: Viewed): number {
  const [asked = '30d', ...more] = filters.get('period') ?? []
  const days = more.length === 0 && Object.hasOwn(PERIODS, asked) ? PERIODS[asked] : undefined
  if (days === undefined)
    throw refuse('unsupported_filter', 'The period is 7d, 30d or 90d.', { parameter: 'filter[period]' })
  return dayOfTime(now) - days + 1
}

const depsOf = ({ parts }: Viewed): SourcesDeps => ({ ...parts, resolver: parts.fetching.resolver })
const within = { type: 'domains', column: 'domain_key' } as const
const day = (at: number): string => iso(at * DAY).slice(0, 10)
const list = (about: string) => field(z.array(z.string()), { about })

async function sourcesShown(call: Viewed) {
  const domain = parentOf(domains, call)
  const since = sinceDay(call)
  const wanted = call.filters.get('known')
  if (wanted?.some((each) => !(KNOWN as readonly string[]).includes(each)))
    throw refuse('unsupported_filter', `A source is ${KNOWN.join(', ')}.`, { parameter: 'filter[known]' })
  const all = (await dmarcSources(depsOf(call), domain, since))
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
      shown: { domainKey: domain.key, since, today: dayOfTime(call.now), address },
    }
  })
}

export const dmarcSourceFigures = define('dmarc-sources', {
  table: 'dmarc_figures',
  about: `Who sends mail in the name of a domain, as authenticated DMARC reports say. ${EXTENSION}`,
  attributes: {
    address: words(
      'The address that the mail came from; others: the sum of strangers that a day has no row for; a named network: the sum of its addresses that a day has no row for.',
    ),
    addresses: count('How many addresses it stands for; of a sum, at most.'),
    host: wordsOrNull(`Its name in reverse DNS, for the ${MOST_HOSTS} sources with most mail.`),
    known: field(z.enum(KNOWN), {
      about:
        'this_server; relay: a relay of this server; named: its owner named it; forwarder: our signature passes there, or receivers say that it was forwarded; else unknown.',
    }),
    name: wordsOrNull('The name that the owner gave it.'),
    messages: count('Messages.'),
    pass: count('Those that passed DMARC.'),
    fail: count('Those that failed it.'),
    dkim_pass: count('Those with an aligned DKIM signature.'),
    spf_pass: count('Those with an aligned SPF pass.'),
    dispositions: field(z.object({ none: z.int(), quarantine: z.int(), reject: z.int(), pass: z.int() }), {
      about: 'What receivers did with them.',
    }),
    dkim_domains: list('Domains whose DKIM signature passed.'),
    spf_domains: list('Domains whose SPF passed.'),
    reporters: list('Who reported it; what one reporter alone says has that name.'),
    first_seen: words('The first day (UTC) of the period with mail of it.'),
    last_seen: words('The last one.'),
  },
  filters: { ...period, known: { column: 'known', about: `Only sources of these kinds. ${EXTENSION}` } },
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
      about: `List who sends in the name of a domain, those with most mail first. ${EXTENSION}`,
      run: sourcesShown,
    },
  ],
})

const policies = valuesOf('domains', 'dmarc_policy')

export const dmarcEvidences = define('dmarc-evidence', {
  table: 'dmarc_figures',
  called: 'DmarcEvidence',
  about: `What the next DMARC policy of a domain would cost, by the reports of ${PERIOD_DAYS} days that came in time; of one provider and day at most 10,000 messages count. ${EXTENSION}`,
  attributes: {
    days: count('Days of which authenticated reports speak; reports that come on one day speak of one.'),
    reporters: count('Authenticated reporters.'),
    messages: count('Messages that they saw and that are evidence.'),
    pass: count('Those that passed DMARC.'),
    fail: count('Those that failed it.'),
    known_fail: count('Failing messages of sources that are known, or that pass mail on.'),
    unknown_sources: count('Addresses that nobody named and that nothing explains.'),
    policy: field(z.enum(policies).nullable(), { about: 'The policy that DNS showed at the last check.' }),
    next: field(z.enum(policies).nullable(), { about: 'The next stricter one; null: there is none.' }),
    next_costs: count('Messages of known sources that it would have kept away.'),
    ready: field(z.boolean(), { about: 'Whether the evidence for the next policy is complete.' }),
    because: list('What lacks; when it is ready, what would have been refused.'),
    record: wordsOrNull('Where the record of the next policy stands in DNS.'),
    value: wordsOrNull('What it says then; addresses for reports that it names stay.'),
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
      about: `The evidence for the next DMARC policy of a domain. ${EXTENSION}`,
      async run(call) {
        const domain = parentOf(domains, call)
        return [{ key: 0, id: domain.id, ...(await dmarcEvidence(depsOf(call), domain)) }]
      },
    },
  ],
})

export const tlsFigures = define('tls-figures', {
  table: 'tls_figures',
  about: `How connections with mail to a domain did, as authenticated TLS reports say. ${EXTENSION}`,
  attributes: {
    day: words('The day (UTC).'),
    reporter: words('Who says it.'),
    policy_type: field(z.enum(valuesOf('tls_figures', 'policy_type')), { about: 'The kind of the policy.' }),
    policy_domain: words('The domain of the policy.'),
    success: count('Connections as the policy asks.'),
    failure: count('Connections that failed.'),
    results: field(z.record(z.string(), z.int()), {
      kind: 'json',
      about: 'Failed connections by result, as reported.',
    }),
  },
  filters: period,
  actions: [
    {
      kind: 'view',
      path: '/domains/:domain/tls-figures',
      within,
      id: 'listTlsFigures',
      scope: 'domains:read',
      params: ['filter', 'page'],
      about: `List how connections to a domain did, the newest day first. ${EXTENSION}`,
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
          }))
      },
    },
  ],
})

export const knownSources = define('known-sources', {
  table: 'known_sources',
  about: `Addresses that send in a domain's name and that its owner knows. ${EXTENSION}`,
  attributes: {
    network: field(line(64), {
      create: 'required',
      about: 'An address, or a network.',
      example: '198.51.100.0/24',
    }),
    name: field(line(100, 'characters'), { create: 'required', about: 'Whose it is.', example: 'newsletter service' }),
    created_at: { ...time('When it was named.'), sort: true },
  },
  relationships: { domain: { type: 'domains', column: 'domain_key' } },
  actions: [
    {
      kind: 'create',
      path: '/domains/:domain/known-sources',
      within,
      id: 'nameSource',
      scope: 'domains:write',
      about: `Name an address or a network that sends in the domain's name; a named one gets the new name. ${EXTENSION}`,
      run: async (call) => ({ row: await nameSource(call.parts, parentOf(domains, call), call.attributes) }),
    },
    {
      kind: 'list',
      path: '/domains/:domain/known-sources',
      within,
      id: 'listKnownSources',
      scope: 'domains:read',
      params: ['sort', 'fields', 'page'],
      about: `List the addresses that are named. ${EXTENSION}`,
    },
    {
      kind: 'delete',
      path: '/known-sources/:knownSource',
      id: 'forgetKnownSource',
      scope: 'domains:write',
      about: `Take a name back. ${EXTENSION}`,
      run: ({ parts, row }) => forgetSource(parts, row.key),
    },
  ],
})
