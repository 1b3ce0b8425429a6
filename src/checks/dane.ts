// Whether receiving servers can be verified with DANE: the DNS servers must be trusted (net/validated.ts), validate,
// and answer queries for TLSA records that do not exist. The queries use signed names of the root zone.
import type { Config } from '../base/config.ts'
import { formatEndpoint } from '../base/network.ts'
import { SECOND } from '../base/clock.ts'
import { askServer, serversOf, type DnsServerAddress } from '../net/dns-question.ts'
import { areTrusted } from '../net/validated.ts'
import { fail, ok, unanswered, type Finder, type Finding } from '../parts/findings/finding.ts'

const PATIENCE = 4 * SECOND
/** Maximum number of DNS servers that are checked. resolv.conf has at most three. */
const MOST = 8

const HOW =
  'To verify receiving servers with DANE, run a validating resolver on this machine ("apt install unbound") and set dns.servers = ["127.0.0.1:53"].'

type ResolverStanding = 'validating' | 'not validating' | 'silent' | 'no TLSA'

/** Email is sent without DANE otherwise. That is not a problem, so the text only explains how to enable it. */
const without = (detail: string): Finding => ok('DANE', `${detail}. ${HOW}`)

export async function daneFinding({ config }: { config: Pick<Config, 'delivery' | 'dns'> }): Promise<Finding> {
  if (!config.delivery.dane) return ok('DANE', 'off ("delivery.dane" is false)')
  const servers = serversOf(config.dns.servers).slice(0, MOST)
  const named = (list: readonly DnsServerAddress[]): string =>
    list.map(({ host, port }) => formatEndpoint(host, port)).join(', ')
  const far = servers.filter((server) => !areTrusted([server], config.dns.trusted))
  if (far.length > 0 || servers.length === 0)
    return without(`resolver not local: DNSSEC results of ${named(far) || 'the resolver'} could be changed in transit`)
  const standings = await Promise.all(servers.map(standingOf))
  const those = (wanted: ResolverStanding): string => named(servers.filter((_, index) => standings[index] === wanted))
  if (standings.includes('no TLSA'))
    return fail(
      'DANE',
      `${those('no TLSA')} does not answer TLSA queries, so email to signed domains is deferred`,
      'Configure it to resolve all record types, use another resolver ("dns.servers"), or set "delivery.dane" to false.',
    )
  if (standings.includes('not validating')) return without(`not validating: ${those('not validating')}`)
  if (standings.includes('silent')) return unanswered('DANE', `the root (${those('silent')})`)
  return ok('DANE', `validating: ${those('validating')}`)
}

async function standingOf(server: DnsServerAddress): Promise<ResolverStanding> {
  const root = await askServer(server, { name: '.', type: 'NS' }, PATIENCE)
  if ('failure' in root) return 'silent'
  if (!root.secure || root.code !== 'NOERROR') return 'not validating'
  // No top-level domain begins with an underscore: the root's denial is signed.
  const none = await askServer(server, { name: '_25._tcp', type: 'TLSA' }, PATIENCE)
  return 'code' in none && (none.code === 'NXDOMAIN' || none.code === 'NOERROR') ? 'validating' : 'no TLSA'
}

export const daneFinder: Finder = {
  runs: 'background',
  effect: 'The DNS resolver cannot look up TLSA records: email to domains with DNSSEC is deferred.',
  find: async (deps) => [await daneFinding(deps)],
}
