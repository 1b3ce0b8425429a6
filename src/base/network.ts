// The addresses that this server may connect to. Untrusted senders and users choose MX hosts, attachment URLs and
// webhook URLs. These must not lead to this machine or its private network, unless the operator lists the network in
// `network.allow_private` (D28, D55).
import { BlockList, isIP, isIPv6, SocketAddress, type AddressInfo } from 'node:net'

/** IPv4 networks that are not public: the IANA special-purpose address registry, multicast and the reserved class E. */
const SPECIAL_V4 = new BlockList()
for (const network of [
  '0.0.0.0/8',
  '10.0.0.0/8',
  '100.64.0.0/10',
  '127.0.0.0/8',
  // The metadata service of a large cloud has a public address.
  '168.63.129.16/32',
  '169.254.0.0/16',
  '172.16.0.0/12',
  '192.0.0.0/24',
  '192.0.2.0/24',
  '192.88.99.0/24',
  '192.168.0.0/16',
  '198.18.0.0/15',
  '198.51.100.0/24',
  '203.0.113.0/24',
  '224.0.0.0/4',
  '240.0.0.0/4',
])
  addNetwork(SPECIAL_V4, network)

/**
 * Public IPv6 addresses are in 2000::/3 (IANA, "Internet Protocol Version 6 Address Space"). All others are special.
 */
const GLOBAL_V6 = new BlockList()
addNetwork(GLOBAL_V6, '2000::/3')
/** Special-purpose networks within 2000::/3: protocol assignments with Teredo, documentation, 6to4. */
const SPECIAL_V6 = new BlockList()
for (const network of ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']) addNetwork(SPECIAL_V6, network)

/** Networks that hold an IPv4 address in the last 32 bits and lead to it: mapped (RFC 4291) and NAT64 (RFC 6052). */
const EMBEDDING = new BlockList()
for (const network of ['::ffff:0:0/96', '64:ff9b::/96']) addNetwork(EMBEDDING, network)

/** Adds a network in CIDR form (RFC 4291 §2.3), such as 192.0.2.0/24, or a single address. */
export function addNetwork(list: BlockList, network: string): void {
  const [address = '', bits] = network.split('/')
  const family = isIPv6(address) ? 'ipv6' : 'ipv4'
  list.addSubnet(address, Number(bits ?? (family === 'ipv6' ? 128 : 32)), family)
}

/** The address that a connection really reaches: for an IPv6 address with an embedded IPv4 address, the latter. */
function targetOf(address: string): string {
  // BlockList treats a mapped address as the IPv4 address itself.
  if (!isIPv6(address)) return address
  const groups = groupsOf(address).map((group) => parseInt(group, 16))
  const mapped = groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff
  if (!mapped && !EMBEDDING.check(address, 'ipv6')) return address
  const [high = 0, low = 0] = groups.slice(6)
  return [high >> 8, high & 255, low >> 8, low & 255].join('.')
}

/** Whether an address literal is in the public network. */
export function isPublic(address: string): boolean {
  const target = targetOf(address)
  if (!isIPv6(target)) return isIP(target) !== 0 && !SPECIAL_V4.check(target, 'ipv4')
  return GLOBAL_V6.check(target, 'ipv6') && !SPECIAL_V6.check(target, 'ipv6')
}

/** Whether a connection to an address literal is allowed (`allowPublicAnd`). */
export type AddressCheck = (address: string) => boolean

export const familyOf = (address: string): 4 | 6 => (isIPv6(address) ? 6 : 4)

/** An address in one form: an IPv6 address can be written in several. */
export const canonical = (address: string): string =>
  new SocketAddress({ address, family: isIPv6(address) ? 'ipv6' : 'ipv4' }).address

export const isAddress = (text: string): boolean => isIP(text) !== 0

/** The eight groups of an IPv6 address, in hexadecimal without leading zeros. */
export function groupsOf(address: string): string[] {
  // The URL parser writes an address in one form. "::" replaces the missing zero groups.
  const [head = '', tail] = new URL(`http://[${address.replace(/%.*/, '')}]`).hostname.slice(1, -1).split('::')
  const groups = head === '' ? [] : head.split(':')
  const rest = tail ? tail.split(':') : []
  return [...groups, ...Array<string>(8 - groups.length - rest.length).fill('0'), ...rest]
}

/** The key of an address for limits: the address itself, or for IPv6 its /64, which one customer has (RFC 6177 §2). */
export function customerOf(address: string): string {
  const [, mapped] = /^::ffff:([\d.]+)$/i.exec(address) ?? []
  if (mapped !== undefined || isIP(address) !== 6) return mapped ?? address
  return `${groupsOf(address).slice(0, 4).join(':')}::/64`
}

/** An address in the order of reverse DNS and blocklists (RFC 1035 §3.5, RFC 3596 §2.5, RFC 5782 §2): "1.2.0.192". */
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

/** Whether an address literal is in one of these networks (CIDR or single addresses). */
export function inNetworks(networks: readonly string[]): AddressCheck {
  const list = new BlockList()
  for (const network of networks) addNetwork(list, network)
  return (address) => isIP(address) !== 0 && list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

/** A check that allows public addresses and those in `allowed` (CIDR networks or single addresses). */
export function allowPublicAnd(allowed: readonly string[]): AddressCheck {
  const list = new BlockList()
  for (const network of allowed) addNetwork(list, network)
  return (address) => {
    if (isIP(address) === 0) return false
    const target = targetOf(address)
    return isPublic(address) || list.check(target, isIPv6(target) ? 'ipv6' : 'ipv4')
  }
}

/** Reads `host:port` or `[v6]:port`, or undefined if the text is neither. */
export function parseEndpoint(text: string): { host: string; port: number } | undefined {
  const [, v6, host, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([^:[\]\s]*)):(\d{1,5})$/.exec(text) ?? []
  if (port === undefined || Number(port) > 65535) return undefined
  return { host: v6 ?? host ?? '', port: Number(port) }
}

/** The address at which this machine reaches a listener. For one on all addresses, it is loopback. */
export const reachedAt = (host: string): string =>
  ({ '': '127.0.0.1', '0.0.0.0': '127.0.0.1', '::': '::1' })[host] ?? host

/** The text of an endpoint: `host:port`, for IPv6 `[v6]:port`. */
export function formatEndpoint(host: string, port: number): string {
  return isIPv6(host) ? `[${host}]:${port}` : `${host}:${port}`
}

/** Whether 0.0.0.0 is also listened on, at the same port: then "::" must not accept IPv4 as well (RFC 3493 §5.3). */
export const isBeside = (
  endpoint: { host: string; port: number },
  all: readonly { host: string; port: number }[],
): boolean => endpoint.host === '::' && all.some(({ host, port }) => host === '0.0.0.0' && port === endpoint.port)

/** The port of a server that listens on a TCP or UDP address. Throws an Error before it listens. */
export function portOf(server: { address(): AddressInfo | string | null }): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server does not listen on a port.')
  return address.port
}
