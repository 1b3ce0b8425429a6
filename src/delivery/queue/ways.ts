// The routes by which mail can leave: the sources of this server (base/sources.ts), one of each family, and relays. If
// there is a choice, mail is bound to a route when it is first claimed, and keeps it over all attempts and restarts:
// the route is a part of the name of its lane (message/lane-names.ts). So each route has its own connections, limits
// and pauses. Without a choice, no route is stored.
import { createHash } from 'node:crypto'
import { checkFamilies, sourcesHere, type SourceAddress } from '../../base/sources.ts'
import type { Config } from '../../base/config.ts'
import type { Relay } from '../../smtp/route.ts'
import { OperatorError } from '../../base/errors.ts'
import { boundLane, boundTo, domainOf, isBulk, relayIn, unboundLane, wayBy } from '../../message/lane-names.ts'
import type { Reader, Store } from '../../store/database.ts'
import { dueGroups } from '../../store/due.ts'
import { db, raw } from '../../store/query.ts'
import { LANES } from './claim.ts'

/** The sources to send from: at most one of each family. */
export type Way = readonly SourceAddress[]

const named = (way: Way): string => way.map(({ address }) => address).join(',')

/** A fixed number for a domain and a position in the list of sources. */
const rank = (domain: string, index: number): string => createHash('sha256').update(`${index} ${domain}`).digest('hex')

export class Ways {
  readonly sources: readonly SourceAddress[]
  /** Routes and `warmup.route` are read at each use: a reload changes them. */
  readonly #config: Pick<Config, 'delivery' | 'warmup'>
  /** Whether there is a choice, so that mail is bound to a route. */
  readonly isChoice: boolean

  constructor(config: Pick<Config, 'delivery' | 'hostname' | 'warmup'>) {
    this.sources = sourcesHere(config)
    this.#config = config
    this.isChoice = ([4, 6] as const).some((family) => this.#of(family).length > 1)
  }

  /** The relay for mail over a warm-up limit, or '' without such a relay. */
  get #overflow(): string {
    return this.#config.warmup.route
  }

  /** All relays that have a name. */
  get #relays(): readonly Relay[] {
    return this.#config.delivery.routes.filter(({ name }) => name !== '')
  }

  /**
   * Throws an OperatorError if the machine lacks the address family of a source, or the relay of warm-up does not
   * exist.
   */
  check(): void {
    checkFamilies(this.sources)
    const route = this.#overflow
    if (route !== '' && this.#relays.every(({ name }) => name !== route))
      throw new OperatorError(
        `"warmup.route" is "${route}", which is not in "delivery.routes"; use the "name" of a route.`,
      )
  }

  #of(family: 4 | 6): SourceAddress[] {
    return this.sources.filter((source) => source.family === family)
  }

  /** The sources of a family for a kind of mail. If no source has a matching role, those of the other roles. */
  #serving(family: 4 | 6, bulk: boolean): SourceAddress[] {
    const all = this.#of(family)
    const fit = all.filter(({ role }) => role === 'any' || role === (bulk ? 'bulk' : 'transactional'))
    return fit.length > 0 ? fit : all
  }

  /** The sources that mail of a lane is sent from: the lane's own, or all of them without a choice. */
  of(lane: string): Way {
    const way = boundTo(lane)
    return way === undefined ? this.sources : this.#named(way)
  }

  /** The relay that a lane is bound to, or undefined if it is not bound to a relay. */
  relayOf(lane: string): Relay | undefined {
    const relay = relayIn(lane)
    return relay === undefined ? undefined : this.#relays.find(({ name }) => name === relay)
  }

  /** The lane of the relay for overflow, or undefined if there is no such relay. */
  relayLane(unbound: string): string | undefined {
    return this.#overflow === '' ? undefined : boundLane(unbound, wayBy(this.#overflow))
  }

  /** The sources of a route that are still configured. */
  #named(way: string): SourceAddress[] {
    const addresses = way.split(',')
    return this.sources.filter(({ address }) => addresses.includes(address))
  }

  /**
   * The lanes to which mail of an unbound lane may be bound, the first choice first. The order is fixed for the
   * recipient domain, so that a domain sees one address as long as it can be used.
   */
  choices(lane: string): string[] {
    if (!this.isChoice || boundTo(lane) !== undefined) return [lane]
    const bulk = isBulk(lane)
    const [four, six] = [this.#serving(4, bulk), this.#serving(6, bulk)]
    const domain = domainOf(lane)
    const order = Array.from({ length: Math.max(four.length, six.length) }, (_, index) => index)
      .map((index) => ({ index, rank: rank(domain, index) }))
      .sort((one, other) => (one.rank < other.rank ? -1 : 1))
    return order.map(({ index }) =>
      boundLane(lane, named([four, six].flatMap((list) => list[index % list.length] ?? []))),
    )
  }

  /** The lane for mail of a lane with the present sources. The first choice replaces a source that was removed. */
  kept(lane: string, { oldest }: { oldest: Way }): string {
    const way = boundTo(lane)
    const unbound = unboundLane(lane)
    if (way === undefined) return this.isChoice ? boundLane(lane, named(oldest)) : lane
    if (relayIn(lane) !== undefined) return this.relayOf(lane) ? lane : unbound
    const kept = this.#named(way)
    if (kept.length === way.split(',').length) return lane
    if (!this.isChoice) return unbound
    const [first = unbound] = this.choices(unbound)
    const added = this.of(first).filter(({ family }) => kept.every((source) => source.family !== family))
    return boundLane(unbound, named([...kept, ...added]))
  }

  /** The first source of each family in an order of addresses. */
  oldest(order: readonly string[]): Way {
    const sorted = this.sources.toSorted((one, other) => order.indexOf(one.address) - order.indexOf(other.address))
    return ([4, 6] as const).flatMap((family) => sorted.find((source) => source.family === family) ?? [])
  }
}

/**
 * Call it at a start with changed sources. Mail with an attempt keeps its source, even one from before there was a
 * choice. If that source was removed, the mail gets another.
 */
export async function rebind(store: Store, ways: Ways): Promise<void> {
  ways.check()
  const before = addressesIn(store)
  const now = ways.sources.map(({ address }) => address)
  const gone = before.filter((address) => !now.includes(address))
  const come = now.filter((address) => !before.includes(address))
  const lanes = waitingLaneNames(store)
  const relayGone = lanes.some((lane) => relayIn(lane) !== undefined && !ways.relayOf(lane))
  if (gone.length + come.length === 0 && !relayGone) return
  await store.write((tx) => {
    for (const address of gone) tx.run(db.deleteFrom('source_addresses').where('address', '=', address))
    for (const address of come) tx.run(db.insertInto('source_addresses').values({ address }))
    const oldest = ways.oldest(addressesIn(tx))
    for (const lane of lanes) {
      const kept = ways.kept(lane, { oldest })
      if (kept === lane) continue
      tx.run(
        raw(
          `update deliveries set lane = ? where status in ('queued', 'held') and lane = ?${boundTo(lane) === undefined ? ' and attempts > 0' : ''}`,
          [kept, lane],
        ),
      )
    }
  })
}

const addressesIn = (reader: Reader): string[] =>
  reader.all(db.selectFrom('source_addresses').select('address').orderBy('key')).map(({ address }) => address)

const waitingLaneNames = (reader: Reader): string[] => [
  ...new Set(
    [LANES, { ...LANES, status: 'held' }].flatMap((queue) => dueGroups<string>(reader, queue).map(({ name }) => name)),
  ),
]
