// Addresses that are listened on, in both families of IP. A machine may lack IPv6, by its kernel or by its settings:
// what is configured for all addresses of IPv6 is then opened for those of IPv4.
import { codeOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { formatEndpoint, isBeside } from '../base/network.ts'

export interface Address {
  host: string
  port: number
  /** The same port of IPv4 is listened on beside it (RFC 3493 §5.3). */
  ipv6Only: boolean
}

/**
 * Whether a socket could not be had because the machine lacks the family: the error of a system call, or one with it as
 * its cause.
 */
const lacksFamily = (thrown: unknown): boolean =>
  /^(?:EAFNOSUPPORT|EADDRNOTAVAIL)$/.test(codeOf(thrown) || (thrown instanceof Error ? codeOf(thrown.cause) : ''))

/**
 * Opens one address after the other. On a machine without IPv6, "::" is "0.0.0.0", and nothing where that is in the
 * list as well. Throws what `open` throws; closing what was opened is the caller's.
 */
export async function openEach<T>(
  endpoints: readonly { host: string; port: number }[],
  log: Pick<Log, 'info'>,
  open: (address: Address) => Promise<T>,
): Promise<T[]> {
  const opened: T[] = []
  for (const { host, port } of endpoints) {
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
