// Sources: the local addresses that mail leaves from ("delivery.source", and "delivery.sources" with more about each).
import { networkInterfaces } from 'node:os'
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
  /** The name that it says in EHLO. */
  hostname: string
  /** Whether its mail has a warm-up. */
  warmup: boolean
}

/** Every source, in the order of the configuration; none: the system chooses the address. */
export function sourcesOf({ delivery, hostname }: { delivery: SourceSettings; hostname: string }): SourceAddress[] {
  const plain = delivery.source.map((address) => ({ address, role: 'any' as const, hostname: '', warmup: true }))
  return [...plain, ...delivery.sources].map((each) => ({
    ...each,
    address: canonical(each.address),
    family: familyOf(each.address),
    hostname: (each.hostname || hostname).toLowerCase(),
  }))
}

/** The first address that stands twice: the place of its second mention. */
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
 * Throws an OperatorError when a source is of a family of which this machine has no address at all. A process that may
 * not ask for them, as under a unit without AF_NETLINK, learns it at the first connection.
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
      `Mail cannot leave from ${strange.address} ("delivery.source" or "delivery.sources"): this machine has no IPv${strange.family}; remove the address or give the machine one.`,
    )
}
