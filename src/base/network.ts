// Which addresses of the network we may connect to. Mail exchangers, attachment URLs and webhook URLs are named by
// strangers; none of them may lead us to this machine or its private network unless the operator listed it in
// `network.allow_private` (D28, D55).
import { BlockList, isIP, isIPv6 } from 'node:net'

const FORBIDDEN = new BlockList()
for (const [network, bits] of [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  // The metadata service of one large cloud has a public address.
  ['168.63.129.16', 32],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
] as const)
  FORBIDDEN.addSubnet(network, bits, 'ipv4')
for (const [network, bits] of [
  // With the IPv4-compatible addresses of old, ::127.0.0.1 and its like.
  ['::', 96],
  ['64:ff9b::', 96],
  ['64:ff9b:1::', 48],
  ['100::', 64],
  ['2002::', 16],
  ['fc00::', 7],
  ['fe80::', 9],
  ['ff00::', 8],
] as const)
  FORBIDDEN.addSubnet(network, bits, 'ipv6')

/** Says yes or no to one address literal; see `allowOnly`. */
export type AddressCheck = (address: string) => boolean

/** True for an IP address literal. */
export const isAddress = (text: string): boolean => isIP(text) !== 0

/** The eight groups of an IPv6 address, in hexadecimal without leading zeros. */
function groupsOf(address: string): string[] {
  // URL parsing writes an address in one form alone; "::" stands for as many zero groups as are missing.
  const [head = '', tail] = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1).split('::')
  const groups = head === '' ? [] : head.split(':')
  const rest = tail ? tail.split(':') : []
  return [...groups, ...Array<string>(8 - groups.length - rest.length).fill('0'), ...rest]
}

/** Who is counted by an address where there is a limit: itself, or of IPv6 the /64 that one customer has (RFC 6177 §2). */
export function customerOf(address: string): string {
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(address) ?? []
  if (mapped !== undefined || isIP(address) !== 6) return mapped ?? address
  return `${groupsOf(address).slice(0, 4).join(':')}::/64`
}

/** An address as names of the reverse DNS and of blocklists write it (RFC 1035 §3.5, RFC 3596 §2.5, RFC 5782 §2): "1.2.0.192". */
export const reversed = (address: string): string =>
  isIP(address) === 6
    ? groupsOf(address)
        .flatMap((group) => group.padStart(4, '0').split(''))
        .toReversed()
        .join('.')
    : address.split('.').toReversed().join('.')

/** True for an IP network in CIDR form or a single address. */
export function isNetwork(text: string): boolean {
  const [address, bits, more] = text.split('/')
  if (more !== undefined || address === undefined || isIP(address) === 0) return false
  return bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= (isIPv6(address) ? 128 : 32))
}

/** A check that admits public addresses and those in `allowed` (CIDR networks or single addresses). */
export function allowPublicAnd(allowed: readonly string[]): AddressCheck {
  const list = new BlockList()
  for (const network of allowed) {
    const [address, bits] = network.split('/') as [string, string | undefined]
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    list.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
  }
  return (address) => {
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    return isIP(address) !== 0 && (!FORBIDDEN.check(address, family) || list.check(address, family))
  }
}

/** `host:port` or `[v6]:port` as a person writes it; undefined when it is neither. */
export function parseEndpoint(text: string): { host: string; port: number } | undefined {
  const [, v6, host, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(text) ?? []
  if (port === undefined || Number(port) > 65535) return undefined
  return { host: v6 ?? host ?? '', port: Number(port) }
}

export function formatEndpoint(host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
}
