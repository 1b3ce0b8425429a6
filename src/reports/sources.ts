// Who sends in a domain's name, as authenticated reports say, and whether we know them (DV56).
import type { Config } from '../base/config.ts'
import { DAY, type Clock } from '../base/clock.ts'
import { isAddress } from '../base/network.ts'
import { sourcesOf } from '../base/sources.ts'
import type { Domain } from '../domains/find.ts'
import { remembering } from '../net/remembered.ts'
import type { Resolver } from '../net/resolver.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { namesOf } from './dmarc-figures.ts'
import { knownSourcesOf, namesOfAddresses } from './known.ts'
import { addressOf } from './reading/values.ts'

export const KNOWN = ['this_server', 'relay', 'named', 'forwarder', 'unknown'] as const
export type KnownAs = (typeof KNOWN)[number]

interface SourceFigures {
  /** '' for the sum of sources beyond the most rows of a day. */
  address: string
  messages: number
  pass: number
  dkim_pass: number
  spf_pass: number
  none: number
  quarantine: number
  reject: number
  passed: number
  /** Messages with a DKIM signature or an SPF record that passed for some domain. */
  proven: number
  forwarded: number
  /** Both passed for our domain in one message at least. */
  both: number
  first_day: number
  last_day: number
}

export interface DmarcSource extends SourceFigures {
  known: KnownAs
  /** The name that the owner gave it. */
  name: string | null
}

export interface SourcesDeps {
  store: Reader
  clock: Clock
  config: { hostname: string; delivery: Pick<Config['delivery'], 'source' | 'sources' | 'routes'> }
  resolver: Resolver
}

const figures = (reader: Reader, domainKey: number, since: number): SourceFigures[] =>
  reader.all(
    raw<SourceFigures>(
      `select address, sum(messages) as messages, sum(iif(dkim = 1 or spf = 1, messages, 0)) as pass,
         sum(iif(dkim = 1, messages, 0)) as dkim_pass, sum(iif(spf = 1, messages, 0)) as spf_pass,
         sum(iif(disposition = 'none', messages, 0)) as none, sum(iif(disposition = 'quarantine', messages, 0)) as quarantine,
         sum(iif(disposition = 'reject', messages, 0)) as reject, sum(iif(disposition = 'pass', messages, 0)) as passed,
         sum(iif(dkim_domains <> '' or spf_domains <> '', messages, 0)) as proven,
         max(forwarded) as forwarded, max(dkim = 1 and spf = 1) as both, min(day) as first_day, max(day) as last_day
       from dmarc_figures where domain_key = ? and day >= ? group by address order by messages desc, address`,
      [domainKey, since],
    ),
  )

/** Answers of DNS are remembered for half a minute, for all who look. */
const asking = new WeakMap<Resolver, ReturnType<typeof remembering>>()

function asker({
  clock,
  resolver,
}: Pick<SourcesDeps, 'clock' | 'resolver'>): (name: string, type: string) => Promise<string[]> {
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

/** The addresses of this server and of its relays. */
export interface OwnAddresses {
  own: ReadonlySet<string>
  relays: ReadonlySet<string>
  /** Whether mail goes over relays at all. */
  relayed: boolean
}

async function ownAddresses(deps: SourcesDeps): Promise<OwnAddresses> {
  const { delivery, hostname } = deps.config
  const ask = asker(deps)
  const [own, relays] = await Promise.all([
    addressesOf(ask, [hostname, ...sourcesOf(deps.config).map(({ address }) => address)]),
    addressesOf(
      ask,
      delivery.routes.map(({ host }) => host),
    ),
  ])
  return { own, relays, relayed: delivery.routes.length > 0 }
}

/** Who is behind an address, by what is configured, named and reported. */
function classifier(
  reader: Reader,
  domainKey: number,
  { own, relayed, relays }: OwnAddresses,
): (source: SourceFigures) => Pick<DmarcSource, 'known' | 'name'> {
  const nameOf = namesOfAddresses(knownSourcesOf(reader, domainKey))
  return ({ address, both, dkim_pass, forwarded }) => {
    if (address === '') return { known: 'unknown', name: null }
    const name = nameOf(address) ?? null
    if (own.has(address)) return { known: 'this_server', name }
    // Where mail goes over a relay, only the relay's own addresses have our signature and our SPF.
    if (relays.has(address) || (relayed && both === 1)) return { known: 'relay', name }
    if (name !== null) return { known: 'named', name }
    return { known: dkim_pass > 0 || forwarded === 1 ? 'forwarder' : 'unknown', name: null }
  }
}

/** The sources of a domain from a day on, those with most mail first. */
export async function dmarcSources(
  deps: SourcesDeps,
  domain: Pick<Domain, 'key'>,
  sinceDay: number,
): Promise<DmarcSource[]> {
  return sourcesBy(deps.store, domain, sinceDay, await ownAddresses(deps))
}

/** The same by addresses that are known already; no question leaves the server. */
export function sourcesBy(
  reader: Reader,
  domain: Pick<Domain, 'key'>,
  sinceDay: number,
  addresses: OwnAddresses,
): DmarcSource[] {
  const classify = classifier(reader, domain.key, addresses)
  return figures(reader, domain.key, sinceDay).map((each) => ({ ...each, ...classify(each) }))
}

/** The names of the hosts behind addresses, as reverse DNS says. */
export async function hostsOf(deps: SourcesDeps, addresses: readonly string[]): Promise<Map<string, string>> {
  const ask = asker(deps)
  const found = await Promise.all(addresses.map(async (address) => [address, (await ask(address, 'PTR'))[0]] as const))
  return new Map(found.flatMap(([address, host]) => (host === undefined ? [] : [[address, host] as const])))
}

interface SourceNames {
  reporters: string[]
  dkim_domains: string[]
  spf_domains: string[]
}

/** Who reported some sources, and for which domains they passed. */
export function namesOfSources(
  reader: Reader,
  domainKey: number,
  sinceDay: number,
  addresses: readonly string[],
): Map<string, SourceNames> {
  const rows = reader.all(
    raw<Record<'address' | keyof SourceNames, string>>(
      `select distinct address, reporters, dkim_domains, spf_domains from dmarc_figures
       where domain_key = ? and day >= ? and address in (select value from json_each(?))`,
      [domainKey, sinceDay, JSON.stringify(addresses)],
    ),
  )
  const all = new Map<string, Record<keyof SourceNames, Set<string>>>()
  for (const row of rows) {
    const known = all.get(row.address) ?? { reporters: new Set(), dkim_domains: new Set(), spf_domains: new Set() }
    all.set(row.address, known)
    for (const column of ['reporters', 'dkim_domains', 'spf_domains'] as const)
      for (const name of namesOf(row[column])) known[column].add(name)
  }
  return new Map(
    [...all].map(([address, { dkim_domains, reporters, spf_domains }]) => [
      address,
      { reporters: [...reporters], dkim_domains: [...dkim_domains], spf_domains: [...spf_domains] },
    ]),
  )
}

export const dayOfTime = (now: number): number => Math.floor(now / DAY)
