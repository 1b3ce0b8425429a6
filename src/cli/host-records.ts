// The records of the server itself: the addresses of its name, and the reverse entry of each (PTR). They are for the
// person who sets it up; what a domain needs is the domain's.
import { networkInterfaces } from 'node:os'
import type { Config } from '../base/config.ts'
import { canonical, familyOf, isPublic, reversed } from '../base/network.ts'
import { sourcesOf } from '../base/sources.ts'
import { TTL } from '../domains/records.ts'
import { zoneLine } from '../domains/zone-lines.ts'
import type { Resolver } from '../net/resolver.ts'

export interface HostRecords {
  hostname: string
  /** Every one must have a reverse entry that names the host; none where only the outside knows them, as behind NAT. */
  addresses: string[]
}

/**
 * The addresses of this server: as DNS has them for its name, else those that mail leaves from by the configuration,
 * else the public ones of this machine.
 */
export async function hostRecords(
  { config, resolver }: { config: Config; resolver: Pick<Resolver, 'a' | 'aaaa'> },
  ask = networkInterfaces,
): Promise<HostRecords> {
  const { hostname } = config
  const answers = await Promise.all([resolver.a(hostname), resolver.aaaa(hostname)])
  const published = answers.flatMap((answer) => (answer.kind === 'found' ? answer.records : []))
  const sources = sourcesOf(config).map(({ address }) => address)
  const found = [published, sources.filter(isPublic), publicHere(ask)].find((each) => each.length > 0)
  return { hostname, addresses: [...new Set((found ?? []).map(canonical))] }
}

function publicHere(ask: typeof networkInterfaces): string[] {
  try {
    const all = Object.values(ask()).flatMap((addresses = []) => addresses.map(({ address }) => address))
    return all.filter(isPublic)
  } catch {
    // A process may not ask, as under a unit without AF_NETLINK.
    return []
  }
}

export const typeOfAddress = (address: string): 'A' | 'AAAA' => (familyOf(address) === 6 ? 'AAAA' : 'A')

/** Lines for the zone of the host name. */
export const hostZone = ({ addresses, hostname: name }: HostRecords): string[] =>
  addresses.map((value) => zoneLine({ name, ttl: TTL, type: typeOfAddress(value), value }))

/** Lines for the reverse zones, which whoever gives the addresses has. */
export const reverseZone = ({ addresses, hostname }: HostRecords): string[] =>
  addresses.map((address) => {
    const name = `${reversed(address)}.${familyOf(address) === 6 ? 'ip6' : 'in-addr'}.arpa`
    return `${name}. ${TTL} IN PTR ${hostname}.`
  })

/** What is to be said of the reverse entries. */
export const reverseText = ({ addresses, hostname }: HostRecords): string =>
  `The reverse entry (PTR) of ${addresses.length === 0 ? 'its public address' : addresses.join(' and of ')} must name ${hostname}: whoever gives you the address sets it.`

/** The lines of the server for a person. */
export const hostText = (host: HostRecords): string => {
  const lines = host.addresses.length > 0 ? hostZone(host) : [`${host.hostname}. A <the public address of this server>`]
  return `; of this server\n${lines.join('\n')}\n\n${reverseText(host)}`
}
