// Listening addresses in IPv4 and IPv6. A machine may lack IPv6, by its kernel or by its settings: then "all addresses
// of IPv6" is replaced by "all addresses of IPv4".
import { codeOf } from '../base/errors.ts'
import type { Log } from '../base/log.ts'
import { formatEndpoint, isBeside } from '../base/network.ts'

/** The listeners that the sandbox can place elsewhere. */
type ListenerName = 'http' | 'https' | 'http-plain' | 'smtp' | 'submission' | 'submissions'

export interface ListenAddress {
  host: string
  port: number
  /** True when the same port is also opened for IPv4 (RFC 3493 §5.3). */
  ipv6Only: boolean
}

/** An address of the sandbox: the option that sets it, and whether the next free port is used if it is in use. */
export interface SandboxAddress {
  option: string
  next: boolean
}

/** The log, and the addresses of the sandbox. */
export interface Opening {
  log: Pick<Log, 'info'>
  sandbox?: Partial<Record<ListenerName, SandboxAddress>> | undefined
}

/** Ports that are tried, one after the other. */
const MOST_TRIED = 100

/**
 * Whether a socket could not be opened because the machine lacks the address family: the error of a system call, or an
 * error with such a cause.
 */
const lacksFamily = (thrown: unknown): boolean => /^(?:EAFNOSUPPORT|EADDRNOTAVAIL)$/.test(causeOf(thrown))

const causeOf = (thrown: unknown): string => codeOf(thrown) || (thrown instanceof Error ? codeOf(thrown.cause) : '')

/**
 * Opens the addresses of one listener, one after the other. On a machine without IPv6, "::" becomes "0.0.0.0", or is
 * left out if the list contains that too. Throws the errors of `open`. The caller then closes the addresses that are
 * open already.
 */
export async function openEach<T>(
  endpoints: readonly { host: string; port: number }[],
  door: ListenerName,
  { log, sandbox }: Opening,
  open: (address: ListenAddress) => Promise<T>,
): Promise<T[]> {
  const opened: T[] = []
  for (const { host, port } of endpoints) {
    const ipv6Only = isBeside({ host, port }, endpoints)
    try {
      const last = sandbox?.[door]?.next ? Math.min(port + MOST_TRIED, 65_535) : port
      opened.push(await openFrom({ host, port, ipv6Only }, last, log, open))
    } catch (thrown) {
      if (host !== '::' || !lacksFamily(thrown)) throw thrown
      log.info('ipv6_not_available', { address: formatEndpoint(host, port) })
      if (!ipv6Only) opened.push(await open({ host: '0.0.0.0', port, ipv6Only: false }))
    }
  }
  return opened
}

/** Opens the address, or the same with the next free port up to `last`. No port is opened to be closed again. */
async function openFrom<T>(
  address: ListenAddress,
  last: number,
  log: Opening['log'],
  open: (address: ListenAddress) => Promise<T>,
): Promise<T> {
  for (let { port } = address; ; port++)
    try {
      return await open({ ...address, port })
    } catch (thrown) {
      if (port >= last || causeOf(thrown) !== 'EADDRINUSE') throw thrown
      log.info('port_in_use', { address: formatEndpoint(address.host, port) })
    }
}
