// The sources of a domain's email, according to authenticated reports, and whether each sender is known.
import { dayOf } from '../base/clock.ts'
import type { Domain } from '../domains/find.ts'
import type { RowOf } from '../store/schema/tables.ts'
import type { Reader, Store } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { namesOf } from './dmarc-figures.ts'
import { knownSourcesOf, namesOfAddresses, type KnownSource } from './known.ts'
import { asker, ownAddresses, ownAddressesHere, type OwnAddresses, type OwnDeps } from './own.ts'

export const KNOWN = ['this_server', 'relay', 'named', 'forwarder', 'unknown'] as const
export type KnownAs = (typeof KNOWN)[number]

const SUMS = [
  'messages',
  'pass',
  'dkim_pass',
  'spf_pass',
  'none',
  'quarantine',
  'reject',
  'passed',
  'evidence',
  'evidence_pass',
  'evidence_proven',
] as const

/** The figures of a source over several days. */
export type SourceFigures = Pick<
  RowOf<'dmarc_figures'>,
  'address' | 'addresses' | 'forwarded' | 'both' | (typeof SUMS)[number]
> & { first_day: number; last_day: number }

export interface DmarcSource extends SourceFigures {
  known: KnownAs
  /** The name that the owner gave it. */
  name: string | null
}

export interface SourcesDeps extends OwnDeps {
  store: Store
}

interface Days {
  since: number
  today: number
}

/** The kind of a source, by configuration, name and reports. */
export function classifier(
  known: readonly KnownSource[],
  { own, relayed, relays }: OwnAddresses,
): (source: SourceFigures) => Pick<DmarcSource, 'known' | 'name'> {
  const nameOf = namesOfAddresses(known)
  return ({ address, both, dkim_pass, forwarded }) => {
    if (address === '') return { known: 'unknown', name: null }
    const name = nameOf(address) ?? null
    if (own.has(address)) return { known: 'this_server', name }
    // With relays, only the relay's own addresses have both our signature and our SPF.
    if (relays.has(address) || (relayed && both === 1)) return { known: 'relay', name }
    if (name !== null) return { known: 'named', name }
    return { known: dkim_pass > 0 || forwarded === 1 ? 'forwarder' : 'unknown', name: null }
  }
}

/** Reports can begin two days ahead of their arrival. */
const AHEAD = 2

// An address counts once for several days. The addresses behind a sum are unknown, so each day counts all of them.
const OF_DAYS = `select address, iif(address = '' or instr(address, '/') > 0, sum(addresses), 1) as addresses,
    ${SUMS.map((name) => `sum(${name}) as ${name}`).join(', ')}, max(forwarded) as forwarded, max(both) as both,
    min(day) as first_day, max(day) as last_day
  from dmarc_figures where domain_key = ? and day between ? and ? group by address order by messages desc, address`

/** The sources of a domain by the given addresses of this server, those with most messages first. */
function sourcesBy(reader: Reader, domainKey: number, { since, today }: Days, addresses: OwnAddresses): DmarcSource[] {
  const classify = classifier(knownSourcesOf(reader, domainKey), addresses)
  return reader
    .all(raw<SourceFigures>(OF_DAYS, [domainKey, since, today + AHEAD]))
    .map((each) => ({ ...each, ...classify(each) }))
}

/** The sources of a domain from a day on, those with most messages first, and the addresses of this server. */
export async function dmarcSources(
  deps: SourcesDeps,
  { key }: Pick<Domain, 'key'>,
  since: number,
): Promise<{ sources: DmarcSource[]; addresses: OwnAddresses }> {
  const addresses = await ownAddresses(deps)
  return { sources: sourcesBy(deps.store, key, { since, today: dayOf(deps.clock.now()) }, addresses), addresses }
}

/** The same without a DNS query. */
export const sourcesHere = (
  { config, store }: Pick<SourcesDeps, 'config'> & { store: Reader },
  { key }: Pick<Domain, 'key'>,
  days: Days,
): DmarcSource[] => sourcesBy(store, key, days, ownAddressesHere({ config, store }))

/** The sources, and those of the unknown ones that are beyond the `most` largest as one, first. */
export function withOthers(sources: readonly DmarcSource[], most: number): DmarcSource[] {
  let unknown = 0
  const isOther = ({ address, known }: DmarcSource): boolean =>
    known === 'unknown' && (address === '' || ++unknown > most)
  const [others, shown] = [[] as DmarcSource[], [] as DmarcSource[]]
  for (const each of sources) (isOther(each) ? others : shown).push(each)
  const [first, ...more] = others
  if (!first) return shown
  const sum = { ...first, address: '' }
  for (const each of more) {
    for (const name of ['addresses', ...SUMS] as const) sum[name] += each[name]
    sum.first_day = Math.min(sum.first_day, each.first_day)
    sum.last_day = Math.max(sum.last_day, each.last_day)
  }
  return [...shown, sum].sort((one, other) => other.messages - one.messages)
}

/** The host names of addresses, from reverse DNS. */
export async function hostsOf(deps: SourcesDeps, addresses: readonly string[]): Promise<Map<string, string>> {
  const ask = asker(deps)
  const found = await Promise.all(addresses.map(async (address) => [address, (await ask(address, 'PTR'))[0]] as const))
  return new Map(found.flatMap(([address, host]) => (host === undefined ? [] : [[address, host] as const])))
}

const NAMES = ['reporters', 'dkim_domains', 'spf_domains'] as const
type SourceNames = Record<(typeof NAMES)[number], string[]>

/** The reporters of some sources, and the domains for which they pass. */
export function namesOfSources(
  reader: Reader,
  domainKey: number,
  { since, today }: Days,
  addresses: readonly string[],
): Map<string, SourceNames> {
  const days = Array.from({ length: today + AHEAD + 1 - since }, (_, at) => since + at)
  const rows = reader.all(
    raw<Record<'address' | (typeof NAMES)[number], string>>(
      `select distinct address, ${NAMES.join(', ')} from dmarc_figures where domain_key = ?
         and day in (select value from json_each(?)) and address in (select value from json_each(?))`,
      [domainKey, JSON.stringify(days), JSON.stringify(addresses)],
    ),
  )
  const namesIn = (some: typeof rows, column: (typeof NAMES)[number]): string[] => [
    ...new Set(some.flatMap((row) => namesOf(row[column]))),
  ]
  return new Map(
    [...Map.groupBy(rows, ({ address }) => address)].map(([address, some]) => [
      address,
      {
        reporters: namesIn(some, 'reporters'),
        dkim_domains: namesIn(some, 'dkim_domains'),
        spf_domains: namesIn(some, 'spf_domains'),
      },
    ]),
  )
}
