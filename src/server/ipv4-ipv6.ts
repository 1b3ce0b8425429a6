// Listening addresses in IPv4 and IPv6. A machine may lack IPv6, by its kernel or by its settings: then "all addresses
// of IPv6" is replaced by "all addresses of IPv4".
import type { Socket } from 'node:net'
import { codeOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { formatEndpoint, isBeside } from '../base/network.ts'
import type { DoorName, PassedSockets } from './passed-sockets.ts'

export interface ListenAddress {
  host: string
  port: number
  /** True when the same port is also opened for IPv4 (RFC 3493 §5.3). */
  ipv6Only: boolean
  /** A socket that the service manager has opened there. */
  opened?: Socket
}

/** What opens addresses: the log, and the sockets of the service manager. */
export interface Opening {
  log: Pick<Log, 'info'>
  sockets: PassedSockets
}

/**
 * Whether a socket could not be opened because the machine lacks the address family: the error of a system call, or an
 * error with such a cause.
 */
const lacksFamily = (thrown: unknown): boolean =>
  /^(?:EAFNOSUPPORT|EADDRNOTAVAIL)$/.test(codeOf(thrown) || (thrown instanceof Error ? codeOf(thrown.cause) : ''))

/**
 * Opens the addresses of a door, one after the other; what the service manager has opened is taken as it is. On a
 * machine without IPv6, "::" becomes "0.0.0.0", or is left out when that is in the list too. Throws the errors of
 * `open`; then the caller closes the addresses that are open already.
 */
export async function openEach<T>(
  endpoints: readonly { host: string; port: number }[],
  door: DoorName,
  { log, sockets }: Opening,
  open: (address: ListenAddress) => Promise<T>,
): Promise<T[]> {
  const opened: T[] = []
  const { passed, others } = sockets.take(door, endpoints)
  for (const address of passed) opened.push(await open({ ...address, ipv6Only: false }))
  for (const { host, port } of others) {
    const ipv6Only = isBeside({ host, port }, endpoints)
    try {
      opened.push(await open({ host, port, ipv6Only }))
    } catch (thrown) {
      if (host !== '::' || !lacksFamily(thrown)) throw thrown
      log.info('this machine has no IPv6', { address: formatEndpoint(host, port) })
      if (!ipv6Only) opened.push(await open({ host: '0.0.0.0', port, ipv6Only: false }))
    }
  }
  return opened
}
