// The finders of domains: whether published records contain this server, and whether its host name has an address.
import { HOUR } from '../base/clock.ts'
import { counted } from '../base/text.ts'
import {
  fail,
  ok,
  unanswered,
  warn,
  type AccountFinder,
  type Finder,
  type FinderDeps,
  type Finding,
} from '../parts/findings/finding.ts'
import { listDomains } from './find.ts'
import { isOfHost, lacksAddress, lookUp, wantedRecords } from './records.ts'

/** The maximum number of checked domains. The others are only counted. */
const AT_MOST = 50

/** Looks up the SPF and MX records that the present configuration needs. */
async function publishedNames({ config, resolver, store }: FinderDeps): Promise<Finding[]> {
  const id = 'published names'
  if (!store) return []
  const domains = listDomains(store)
  const found = await Promise.all(
    domains.slice(0, AT_MOST).map(async (domain) => {
      const records = wantedRecords(store, domain, config).filter(isOfHost)
      const results = await Promise.all(records.map((record) => lookUp(resolver, record)))
      const other = results.find(({ observed, verified }) => verified === false && observed !== null)
      const silent = results.some(({ verified }) => verified === null)
      return { name: domain.name, observed: other?.observed?.replaceAll('\n', '; '), silent }
    }),
  )
  const names = found.filter(({ observed }) => observed !== undefined)
  const silent = found.filter((each) => each.silent).length
  const [first] = names
  if (!first && silent > 0) return [unanswered(id, `SPF and MX of ${counted(silent, 'domain')}`)]
  if (!first)
    return [
      ok(id, `the published SPF and MX records of ${counted(domains.length, 'domain')} contain ${config.hostname}`),
    ]
  return [
    fail(
      id,
      `${names.map(({ name, observed }) => `SPF or MX of ${name} ("${observed}")`).join(', ')} does not include this server: its name ${config.hostname}, a sending IP address, or the "spf" of a route`,
      `Publish the records that "postrider domain records ${first.name}" prints.`,
    ),
  ]
}

/** The result of the domain checks, which run every half hour while the address is missing. */
const missingAddress = ({ config: { hostname }, store }: FinderDeps): Finding[] =>
  store && lacksAddress(store)
    ? [
        fail(
          'address',
          `${hostname} has no A or AAAA record, so SPF fails for the return path and bounce messages do not arrive`,
          `Publish an A record for ${hostname} (and an AAAA record if it sends over IPv6).`,
        ),
      ]
    : []

/** The domains of an account that cannot send. */
export const accountFindings: AccountFinder = ({ store, userKey }) =>
  listDomains(store)
    .filter(({ status, user_key }) => user_key === userKey && status !== 'active')
    .map(({ name, status }) => {
      const found =
        status === 'suspended'
          ? fail('domain', `${name} is suspended: it cannot send`, 'Only the operator can reactivate it.')
          : (status === 'verifying' ? warn : fail)(
              'domain',
              `${name} is ${status}: it cannot send${status === 'verifying' ? ' yet' : ''}`,
              'Publish the DNS records that its page shows.',
            )
      return { ...found, subject: name, href: `/domains/${name}` }
    })

export const findings: readonly Finder[] = [
  { runs: 'doctor', find: publishedNames },
  { alert: { subject: 'hostname', lasts: HOUR }, find: missingAddress },
]
