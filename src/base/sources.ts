// Sources: the local addresses that send mail ("delivery.source", and "delivery.sources" with more settings for each).
import { hostname as hostNameHere, networkInterfaces } from 'node:os'
import { OperatorError } from './errors.ts'
import { canonical, familyOf } from './network.ts'

/** The two settings of the configuration. */
interface SourceSettings {
  source: readonly string[]
  sources: readonly Omit<SourceAddress, 'family'>[]
}

export interface SourceAddress {
  /** In the one form in which it is stored and compared. */
  address: string
  family: 4 | 6
  role: 'any' | 'transactional' | 'bulk'
  /** The host name for EHLO. */
  hostname: string
  /** Whether its mail has a warm-up. */
  warmup: boolean
  /** The host name of the machine of a failover pair that has the address, or '' for an address that moves. */
  machine: string
}

type SourceConfig = { delivery: SourceSettings; hostname: string }

/** The sources that this machine can use. If the list is empty, the system chooses the address. */
export const sourcesHere = (config: SourceConfig, here = hostNameHere()): SourceAddress[] =>
  sourcesOf(config).filter(({ machine }) => machine === '' || isSameMachine(machine, here))

/** A host name with or without its domain. */
const isSameMachine = (machine: string, here: string): boolean => {
  const [name, own] = [machine.toLowerCase(), here.toLowerCase()]
  return name === own || name === own.split('.')[0] || name.split('.')[0] === own
}

/** Every source, in the order of the configuration: those of both machines of a failover pair. */
export function sourcesOf({ delivery, hostname }: SourceConfig): SourceAddress[] {
  const plain = delivery.source.map((address) => ({
    address,
    role: 'any' as const,
    hostname: '',
    warmup: true,
    machine: '',
  }))
  return [...plain, ...delivery.sources].map((each) => ({
    ...each,
    address: canonical(each.address),
    family: familyOf(each.address),
    hostname: (each.hostname || hostname).toLowerCase(),
  }))
}

/** The first address that is listed twice, with the position of the second entry. */
export function repeatedSource({
  source,
  sources,
}: SourceSettings): { path: (string | number)[]; address: string } | undefined {
  const seen = new Set<string>()
  const named = [
    ...source.map((address, index) => ({ address, path: ['delivery', 'source', index] })),
    ...sources.map(({ address }, index) => ({ address, path: ['delivery', 'sources', index, 'address'] })),
  ]
  return named.find(({ address }) => seen.size === seen.add(canonical(address)).size)
}

/**
 * Throws an OperatorError if this machine has no address of a source's family. A process that cannot list addresses, as
 * in a unit without AF_NETLINK, only sees this at the first connection.
 */
export function checkFamilies(sources: readonly SourceAddress[], ask = networkInterfaces): void {
  let interfaces: ReturnType<typeof ask>
  try {
    interfaces = ask()
  } catch {
    return
  }
  const here = new Set(Object.values(interfaces).flatMap((addresses = []) => addresses.map(({ family }) => family)))
  const strange = sources.find(({ family }) => !here.has(`IPv${family}`))
  if (strange)
    throw new OperatorError(
      `${strange.address} ("delivery.source" or "delivery.sources") cannot be used, because this machine has no IPv${strange.family}; remove the address, or configure IPv${strange.family}.`,
    )
}
