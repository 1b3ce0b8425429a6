// Whether exchangers can be proven by DANE: the servers must be believed (net/validated.ts), they must validate, and
// they must answer a question for TLSA records that do not exist. The signed names that are asked are the root's own.
import type { Config } from '../base/config.ts'
import { formatEndpoint } from '../base/network.ts'
import { SECOND } from '../base/clock.ts'
import { askServer, serversOf, type DnsServerAddress } from '../net/dns-question.ts'
import { areTrusted } from '../net/validated.ts'
import { bad, unasked, well, type Finding } from './doctor-machine.ts'

const PATIENCE = 4 * SECOND
/** The most servers that are asked; a system's list has three. */
const MOST = 8

const HOW =
  'For proven exchangers run a resolver that validates on this machine ("apt install unbound"), and set dns.servers = ["127.0.0.1:53"].'

type ResolverStanding = 'validating' | 'not validating' | 'silent' | 'no TLSA'

/** Mail goes without DANE where this is not so: nothing is wrong, and how to get it stands beside it. */
const without = (detail: string): Finding => well('DANE', `${detail}. ${HOW}`)

export async function judgeDane({ config }: { config: Pick<Config, 'delivery' | 'dns'> }): Promise<Finding> {
  if (!config.delivery.dane) return well('DANE', 'off, as "delivery.dane" says')
  const servers = serversOf(config.dns.servers).slice(0, MOST)
  const named = (list: readonly DnsServerAddress[]): string =>
    list.map(({ host, port }) => formatEndpoint(host, port)).join(', ')
  const far = servers.filter((server) => !areTrusted([server], config.dns.trusted))
  if (far.length > 0 || servers.length === 0)
    return without(`not local: what ${named(far) || 'nobody'} says of DNSSEC could be changed on its way here`)
  const standings = await Promise.all(servers.map(standingOf))
  const those = (wanted: ResolverStanding): string => named(servers.filter((_, index) => standings[index] === wanted))
  if (standings.includes('no TLSA'))
    return bad(
      'DANE',
      `${those('no TLSA')} fails when it is asked for TLSA records: mail to signed domains waits`,
      'Let it resolve every type of record, ask another resolver ("dns.servers"), or set "delivery.dane" to false.',
    )
  if (standings.includes('not validating')) return without(`not validating: ${those('not validating')}`)
  if (standings.includes('silent')) return unasked('DANE', `the root (${those('silent')})`)
  return well('DANE', `validating: ${those('validating')}`)
}

async function standingOf(server: DnsServerAddress): Promise<ResolverStanding> {
  const root = await askServer(server, { name: '.', type: 'NS' }, PATIENCE)
  if ('failure' in root) return 'silent'
  if (!root.secure || root.code !== 'NOERROR') return 'not validating'
  // No top-level domain begins with an underscore: the root's denial is signed.
  const none = await askServer(server, { name: '_25._tcp', type: 'TLSA' }, PATIENCE)
  return 'code' in none && (none.code === 'NXDOMAIN' || none.code === 'NOERROR') ? 'validating' : 'no TLSA'
}
