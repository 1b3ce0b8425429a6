// Who sends in a domain's name, as authenticated reports say, and whether we know them (DV56).
import { DAY } from '../base/clock.ts'
import type { Domain } from '../domains/find.ts'
import type { Reader, Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { addTo, daysOf, daysWithFigures, eachDay, sourcesOfDay, sumDays, type DaySource } from './days.ts'
import { namesOf } from './dmarc-figures.ts'
import { namesOfAddresses, type KnownSource } from './known.ts'
import { asker, ownAddresses, ownAddressesHere, type OwnAddresses, type OwnDeps } from './own.ts'

export const KNOWN = ['this_server', 'relay', 'named', 'forwarder', 'unknown'] as const
export type KnownAs = (typeof KNOWN)[number]

interface SourceFigures extends DaySource {
  first_day: number
  last_day: number
}

export interface DmarcSource extends SourceFigures {
  known: KnownAs
  /** The name that the owner gave it. */
  name: string | null
}

export interface SourcesDeps extends OwnDeps {
  store: Store
}

type OfDomain = Pick<Domain, 'key' | 'user_key'>

/** Who is behind an address, by what is configured, named and reported. */
export function classifier(
  known: readonly KnownSource[],
  { own, relayed, relays }: OwnAddresses,
): (source: DaySource) => Pick<DmarcSource, 'known' | 'name'> {
  const nameOf = namesOfAddresses(known)
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

/** The sums of several days. */
class SummedSources {
  readonly #sources = new Map<string, SourceFigures>()

  add(day: number, sources: readonly DaySource[]): void {
    for (const source of sources) {
      const sum = this.#sources.get(source.address)
      if (!sum) {
        this.#sources.set(source.address, { ...source, first_day: day, last_day: day })
        continue
      }
      const { addresses } = sum
      addTo(sum, source)
      // The same address on another day counts once; of those that a sum hides nobody knows.
      if (source.addresses === 1) sum.addresses = addresses
      sum.last_day = day
    }
  }

  /** Those with most mail first. */
  all(known: readonly KnownSource[], addresses: OwnAddresses): DmarcSource[] {
    const classify = classifier(known, addresses)
    return [...this.#sources.values()]
      .map((each) => ({ ...each, ...classify(each) }))
      .sort((one, other) => other.messages - one.messages || (one.address < other.address ? -1 : 1))
  }
}

/** The sources of a domain from a day on, those with most mail first; `take` is told of each day. */
export async function dmarcSources(
  deps: SourcesDeps,
  domain: OfDomain,
  sinceDay: number,
  take?: (day: number, sources: readonly DaySource[], addresses: OwnAddresses) => void,
): Promise<DmarcSource[]> {
  const addresses = await ownAddresses(deps)
  const of = daysOf(deps.store, domain, addresses)
  const sums = new SummedSources()
  const days = daysWithFigures(deps.store, domain.key, sinceDay, dayOfTime(deps.clock.now()))
  await eachDay(deps.store, of, days, (day, sources) => {
    sums.add(day, sources)
    take?.(day, sources, addresses)
  })
  return sums.all(of.known, addresses)
}

/** The same by what is known here; no question leaves the server. It is quick when the days were summed before. */
export function sourcesHere(
  deps: Pick<SourcesDeps, 'config'> & { store: Reader },
  domain: OfDomain,
  { since, today }: { since: number; today: number },
): DmarcSource[] {
  const addresses = ownAddressesHere(deps)
  const of = daysOf(deps.store, domain, addresses)
  const sums = new SummedSources()
  for (const day of daysWithFigures(deps.store, domain.key, since, today))
    sums.add(day, sourcesOfDay(deps.store, of, day))
  return sums.all(of.known, addresses)
}

/** Sums the days that `sourcesHere` reads. */
export async function sumDaysHere(
  deps: Pick<SourcesDeps, 'config' | 'store'>,
  domain: OfDomain,
  { since, today }: { since: number; today: number },
): Promise<void> {
  const of = daysOf(deps.store, domain, ownAddressesHere(deps))
  await sumDays(deps.store, of, daysWithFigures(deps.store, domain.key, since, today))
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

/** The most rows of one source that are read for them. */
const MOST_NAMES = 200

/** Who reported some sources, and for which domains they passed. */
export function namesOfSources(
  reader: Reader,
  domainKey: number,
  { since, today }: { since: number; today: number },
  addresses: readonly string[],
): Map<string, SourceNames> {
  const days = JSON.stringify(daysWithFigures(reader, domainKey, since, today))
  const rowsOf = (address: string) =>
    reader.all(
      raw<Record<keyof SourceNames, string>>(
        `select distinct reporters, dkim_domains, spf_domains from
           (select reporters, dkim_domains, spf_domains from dmarc_figures
            where domain_key = ? and day in (select value from json_each(?)) and address = ? limit ${MOST_NAMES})`,
        [domainKey, days, address],
      ),
    )
  const rows = addresses.flatMap((address) => rowsOf(address).map((row) => ({ ...row, address })))
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
