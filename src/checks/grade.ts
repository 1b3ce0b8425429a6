// `postrider doctor --grade DOMAIN`: the mail test of internet.nl for a domain, as a table. A row passes, fails with
// its remedy, has to be corrected by another party (the DNS host), or is not tested.
import { sole } from '../base/lists.ts'
import type { Config } from '../base/config.ts'
import type { Resolver } from '../net/resolver.ts'
import { organisationalDomain } from '../message/address.ts'
import { dnsOf } from '../net/dns-question.ts'
import { encryption, placeOf } from './grade-exchangers.ts'
import { isOurs, judged, theirs, worse, type GradeDeps, type GradeRow } from './grade-rows.ts'
import { answers } from './grade-tls.ts'
import { forTerminal } from '../base/clean-text.ts'
import { answer, table, type Terminal } from '../commands/terminal.ts'

/** The most exchangers that are tested, as in internet.nl. */
const MOST = 10

export async function grade(config: Config, resolver: Resolver, domain: string, terminal: Terminal): Promise<void> {
  const rows = await rowsOf({ config, resolver, ask: dnsOf(config) }, domain)
  const ours = rows.filter(({ result }) => result === 'pass' || result === 'fail')
  const points = ours.filter(({ result }) => result === 'pass').length
  answer(terminal, { domain, points, of: ours.length, rows }, () =>
    [
      table(
        ['CATEGORY', 'TEST', 'RESULT', 'FIX'],
        rows.map(({ category, mend, result, test }) => [
          category,
          test,
          result.replace('_', ' '),
          mend === null ? '' : forTerminal(mend),
        ]),
      ),
      '',
      `${points} of ${ours.length} points of what is ours (${Math.round((100 * points) / Math.max(ours.length, 1))} %).`,
    ].join('\n'),
  )
  if (points < ours.length) process.exitCode = 1
}

async function rowsOf(deps: GradeDeps, domain: string): Promise<GradeRow[]> {
  const { resolver } = deps
  const found = await resolver.mx(domain)
  const named = found.kind === 'found' ? found.records : []
  const exchangers = named
    .filter(({ exchange }) => exchange !== '')
    .toSorted((a, b) => a.priority - b.priority)
    .slice(0, MOST)
    .map(({ exchange }) => exchange)
  const none =
    found.kind === 'failed'
      ? `DNS does not answer for the MX records of ${domain} (${found.reason}): ask again.`
      : named.length === 0
        ? `Publish an MX record: "${domain}. 3600 IN MX 10 ${deps.config.hostname}."`
        : null
  const [names, signed, authentic] = await Promise.all([
    namesByIpv6(deps, domain, exchangers, none),
    dnssec(deps, domain, exchangers),
    authentication(deps, domain),
  ])
  const tls = await encryption(deps, domain, exchangers)
  return [
    ...names,
    ...signed,
    ...authentic,
    ...tls,
    { category: 'rpki', test: 'rpki', result: 'not_asked', mend: null },
  ]
}

async function namesByIpv6(
  { ask, config, resolver }: GradeDeps,
  domain: string,
  exchangers: readonly string[],
  none: string | null,
): Promise<GradeRow[]> {
  const row = judged('ipv6')
  const servers =
    (await ask(organisationalDomain(domain) ?? domain, 'NS'))?.answers.filter(({ type }) => type === 'NS') ?? []
  const reached = await Promise.all(
    servers.map(async (server) => (await resolver.aaaa(String((server as { data: unknown }).data))).kind === 'found'),
  )
  const mx = await Promise.all(
    exchangers.map(async (host): Promise<GradeRow> => {
      const found = await resolver.aaaa(host)
      const addresses = found.kind === 'found' ? found.records : []
      const up = await Promise.all(addresses.map((address) => answers(placeOf(config, host, address))))
      const judgedHost = row(
        'mx',
        addresses.length > 0 && up.every(Boolean),
        `Give ${host} an AAAA record, and let port 25 answer there ("smtp.listen" with [::]:25).`,
      )
      return isOurs({ config }, host) ? judgedHost : theirs(judgedHost, `Whoever runs ${host}`)
    }),
  )
  return [
    theirs(
      row('name_servers', reached.filter(Boolean).length >= 2, 'Ask the DNS host for two name servers with IPv6.'),
    ),
    mx.length > 0 ? mx.reduce(worse) : withoutExchanger(none),
  ]
}

/** `none`: the remedy; null when the domain declares that it accepts no mail (RFC 7505). */
const withoutExchanger = (none: string | null): GradeRow => ({
  category: 'ipv6',
  test: 'mx',
  result: none === null ? 'not_asked' : 'fail',
  mend: none,
})

async function dnssec({ ask }: GradeDeps, domain: string, exchangers: readonly string[]): Promise<GradeRow[]> {
  const row = judged('dnssec')
  const secure = async (name: string, type: 'SOA' | 'A'): Promise<boolean> => (await ask(name, type))?.secure === true
  const hosts = await Promise.all(exchangers.map((host) => secure(host, 'A')))
  const mend = 'Turn DNSSEC on at the DNS host and the registrar, and ask a resolver that validates.'
  return [
    theirs(row('domain', await secure(domain, 'SOA'), mend)),
    hosts.length === 0
      ? { category: 'dnssec', test: 'mx', result: 'not_asked', mend: null }
      : theirs(row('mx', hosts.every(Boolean), mend)),
  ]
}

async function authentication({ ask, config, resolver }: GradeDeps, domain: string): Promise<GradeRow[]> {
  const row = judged('auth')
  const texts: Texts = async (name, wanted) => {
    const found = await resolver.txt(name)
    return found.kind === 'found' ? found.records.filter((text) => wanted.test(text)) : []
  }
  const own = await texts(`_dmarc.${domain}`, /^v\s*=\s*DMARC1\s*(?:;|$)/)
  const organisation = organisationalDomain(domain) ?? domain
  const inherited = own.length === 0 && organisation !== domain
  const dmarc = inherited ? await texts(`_dmarc.${organisation}`, /^v\s*=\s*DMARC1\s*(?:;|$)/) : own
  const tag = (name: string): string | undefined =>
    new RegExp(`(?:^|;)\\s*${name}\\s*=\\s*(\\w+)`, 'i').exec(dmarc[0] ?? '')?.[1]?.toLowerCase()
  const policy = (inherited ? tag('sp') : undefined) ?? tag('p')
  const spf = await texts(domain, SPF)
  const keys = await ask(`_domainkey.${domain}`, 'TXT')
  return [
    row('dmarc', dmarc.length === 1, `Publish one DMARC record: "postrider domain dmarc ${domain}".`),
    row(
      'dmarc_policy',
      dmarc.length === 1 && /^(?:quarantine|reject)$/.test(policy ?? '') && tag('t') !== 'y',
      `Ask for quarantine or reject: "postrider domain dmarc ${domain} --policy quarantine".`,
    ),
    // An answer other than NXDOMAIN means that there are names below _domainkey (RFC 8020).
    row('dkim', keys?.code === 'NOERROR', `Publish the DKIM records: "postrider domain records ${domain}".`),
    row('spf', spf.length === 1, `Publish one SPF record at ${domain} itself: "v=spf1 a:${config.hostname} ~all".`),
    row(
      'spf_policy',
      await endsStrictly(texts, domain, sole(spf)),
      `End the SPF record of ${domain} with ~all or -all.`,
    ),
  ]
}

type Texts = (name: string, wanted: RegExp) => Promise<string[]>

const SPF = /^v=spf1(?:\s|$)/i
/** The most redirect= steps that are followed: each costs a receiver a DNS query (RFC 7208 §4.6.4). */
const REDIRECTS = 10

/**
 * Whether a record ends in ~all or -all, itself or through redirect= (RFC 7208 §6.1), which applies only without "all".
 */
async function endsStrictly(
  texts: Texts,
  domain: string,
  record: string | undefined,
  redirects = REDIRECTS,
): Promise<boolean> {
  if (record === undefined) return false
  const terms = record.toLowerCase().split(/\s+/)
  const all = terms.find((term) => /^[-~?+]?all$/.test(term))
  if (all !== undefined) return /^[-~]/.test(all)
  const [, target] = /^redirect=(.+)$/.exec(terms.find((term) => term.startsWith('redirect=')) ?? '') ?? []
  if (target === undefined || redirects === 0) return false
  const next = target.replaceAll('%{d}', domain)
  const found = await texts(next, SPF)
  return endsStrictly(texts, next, sole(found), redirects - 1)
}
