// The sending IP addresses of this server and of its relays.
import { type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { isAddress } from '../base/network.ts'
import { sourcesOf } from '../base/sources.ts'
import { remembering } from '../net/remembered.ts'
import type { Resolver } from '../net/resolver.ts'
import { relayHosts } from '../smtp/route.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { addressOf } from './reading/values.ts'

export interface OwnDeps {
  store: Reader
  clock: Clock
  config: { hostname: string; delivery: Pick<Config['delivery'], 'source' | 'sources' | 'routes'> }
  resolver: Resolver
}

export interface OwnAddresses {
  own: ReadonlySet<string>
  relays: ReadonlySet<string>
  /** Whether any email is sent over relays. */
  relayed: boolean
}

/** DNS answers are remembered for half a minute. */
const asking = new WeakMap<Resolver, ReturnType<typeof remembering>>()

/** Returns a function that looks up the TXT records of a name. Without a response they are empty. */
export function asker({
  clock,
  resolver,
}: Pick<OwnDeps, 'clock' | 'resolver'>): (name: string, type: string) => Promise<string[]> {
  const ask = asking.get(resolver) ?? remembering(resolver, clock)
  asking.set(resolver, ask)
  return async (name, type) => {
    const { answer } = await ask(name, type)
    return answer.kind === 'found' ? answer.records.filter((each) => typeof each === 'string') : []
  }
}

async function addressesOf(ask: ReturnType<typeof asker>, hosts: readonly string[]): Promise<Set<string>> {
  const found = await Promise.all(
    hosts.map(async (host) =>
      isAddress(host) ? [host] : (await Promise.all([ask(host, 'A'), ask(host, 'AAAA')])).flat(),
    ),
  )
  return new Set(found.flat().flatMap((address) => addressOf(address) ?? []))
}

/** The addresses that are known without DNS: those of the configuration, and those whose reverse DNS is watched. */
export function ownAddressesHere({ config, store }: Pick<OwnDeps, 'config' | 'store'>): OwnAddresses {
  const watched = store.all(raw<{ subject: string }>(`select subject from watches where kind = 'reverse'`))
  const own = new Set([...sourcesOf(config).map(({ address }) => address), ...watched.map(({ subject }) => subject)])
  return { own, relays: new Set(), relayed: config.delivery.routes.length > 0 }
}

/** The same with the addresses of this host and of the relays in DNS. */
export async function ownAddresses(deps: OwnDeps): Promise<OwnAddresses> {
  const { delivery, hostname } = deps.config
  const ask = asker(deps)
  const hosts = await Promise.all(delivery.routes.map((relay) => relayHosts({ ...deps, hostname }, relay)))
  const named = hosts.flatMap((found) => (Array.isArray(found) ? found.map(({ name }) => name) : []))
  const [own, relays] = await Promise.all([
    addressesOf(ask, [hostname, ...sourcesOf(deps.config).map(({ address }) => address)]),
    addressesOf(ask, named),
  ])
  const { own: here } = ownAddressesHere(deps)
  return { own: new Set([...own, ...here]), relays, relayed: delivery.routes.length > 0 }
}
