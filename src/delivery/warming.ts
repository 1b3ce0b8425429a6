// Delivery within the allowances of warm-up: mail is claimed with places for its recipients (DV7), by another source
// that has room where one has none (DV9), by the relay that stands in (DV10), or it is put off until its pair opens
// (DV8). So the receiver of a lane has to be known before mail is claimed for it.
import { HOUR, iso, MINUTE } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { isPublic, type AddressCheck } from '../base/network.ts'
import { unboundLane } from '../message/lane-names.ts'
import type { Resolver } from '../net/resolver.ts'
import { receiverOf } from '../reputation/receivers.ts'
import { findAddresses, type Host } from '../smtp/route.ts'
import type { RowOf } from '../schema/tables.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { SYSTEM_SOURCE } from '../warmup/begin.ts'
import { dayOf } from '../warmup/pairs.ts'
import type { Warmup } from '../warmup/places.ts'
import type { Lane } from './pacing/lanes.ts'
import { UNTRIED } from './queue/claim.ts'
import type { Claim, MailSource, MailTransaction } from './queue/transaction.ts'
import type { Ways } from './queue/ways.ts'
import { emailOf, tellPutOff } from './results/settle.ts'
import { WarmupPlace, type Counted } from './results/warmup-place.ts'
import { isVerdict, type Route } from './wire/connect.ts'

export interface WarmingDeps {
  warmup: Warmup
  ways: Ways
  resolver: Resolver
  allowed: AddressCheck
  config: Pick<Config, 'delivery' | 'warmup'>
}

/** Mail that was claimed, and the lane by which it goes out. */
export interface ClaimedFor {
  to: Lane
  mails: MailTransaction[]
}

/** A lane by which mail can go out; `room`: the recipients that warm-up lets it try now. */
interface WayOut {
  to: Lane
  counted: Counted | null
  room: number
  /** Nothing more goes out today, not even what was tried today. */
  closed: boolean
}

/** How long the receiver of a domain is believed; while there is no route to it, how long mail counts for none. */
const BELIEVED = HOUR
const UNROUTED = MINUTE
const MOST_KNOWN = 50_000
/** Recipients that are put off by one statement. */
const PUT_OFF_AT_ONCE = 1000

type PutOffRow = Pick<RowOf<'deliveries'>, 'key' | 'email_key' | 'attempts' | 'delayed_at'>

export class Warming {
  readonly #deps: WarmingDeps
  /** The receivers of recipient domains; null: mail to it has no warm-up. */
  readonly #receivers = new Map<string, { receiver: string | null; routed: boolean; until: number }>()

  constructor(deps: WarmingDeps) {
    this.#deps = deps
  }

  /** Where mail of a lane counts; null: nowhere. Undefined: its route must be found first. */
  countedOf({ domain, name }: Lane, now: number): Counted | null | undefined {
    const { config, ways } = this.#deps
    if (!config.warmup.enabled) return null
    const known = this.#receivers.get(domain)
    if (ways.relayOf(name)) return { receiver: known?.receiver ?? receiverOf(null, domain), sources: [] }
    const sources =
      ways.sources.length === 0
        ? [SYSTEM_SOURCE]
        : ways.of(name).flatMap(({ address, warmup }) => (warmup ? [address] : []))
    if (sources.length === 0) return null
    if (!known || known.until <= now) return undefined
    return known.receiver === null ? null : { receiver: known.receiver, sources }
  }

  /** Learns the receiver of a domain from its route; undefined: there is none at present. */
  async learn(domain: string, route: Route | undefined, now: number): Promise<void> {
    const receiver = route ? await this.#receiverOf(domain, route.hosts) : null
    if (this.#receivers.size >= MOST_KNOWN) this.#receivers.clear()
    this.#receivers.set(domain, { receiver, routed: route !== undefined, until: now + (route ? BELIEVED : UNROUTED) })
  }

  /** Mail to relays, to this server itself, and to exchangers that are not public has no warm-up (DV17). */
  async #receiverOf(domain: string, hosts: readonly Host[]): Promise<string | null> {
    const [first] = hosts
    if (!first || first.relay || first.address !== undefined) return null
    if (!this.#deps.config.warmup.private && !(await this.#anyPublic(hosts))) return null
    return receiverOf(first.name, domain)
  }

  async #anyPublic(hosts: readonly Host[]): Promise<boolean> {
    const { allowed, resolver } = this.#deps
    let found = false
    for (const host of hosts) {
      const addresses = await findAddresses(resolver, host, allowed)
      if (isVerdict(addresses)) continue
      found = true
      if (addresses.some(isPublic)) return true
    }
    return !found
  }

  /** Whether mail in memory has a place with the receiver of its lane; undefined: the receiver is not known. */
  fits({ place }: MailTransaction, lane: Lane, now: number): boolean | undefined {
    const counted = this.countedOf(lane, now)
    return counted === undefined ? undefined : counted === null || place?.receiver === counted.receiver
  }

  /** The lanes by which mail can go out: those without an allowance first, else in their order (DV20). */
  #choices(reader: Reader, lanes: readonly Lane[], now: number): WayOut[] {
    const choices = lanes.map((to): WayOut => {
      const counted = this.countedOf(to, now) ?? null
      const room = this.#room(reader, to, counted, now)
      return { to, counted, room, closed: room <= 0 && to.bulk && this.#isClosed(reader, counted, now) }
    })
    return choices.length < 2
      ? choices
      : choices.toSorted((one, other) => Number(other.room === Infinity) - Number(one.room === Infinity))
  }

  #isClosed(reader: Reader, counted: Counted | null, now: number): boolean {
    const { receiver = '', sources = [] } = counted ?? {}
    return sources.some((source) => this.#deps.warmup.isClosed(reader, { source, receiver }, now))
  }

  #room(reader: Reader, { bulk }: Lane, counted: Counted | null, now: number): number {
    if (!counted) return Infinity
    const { receiver, sources } = counted
    return Math.min(
      ...sources.map((source) => this.#deps.warmup.roomFor(reader, { source, receiver }, { bulk, now })),
      Infinity,
    )
  }

  /** Whether mail to a domain is known to have no warm-up, whatever its source. */
  #isKnownFree({ domain, name }: Lane): boolean {
    const known = this.#receivers.get(domain)
    return known?.receiver === null && known.routed && !this.#deps.ways.relayOf(name)
  }

  #placeIn(tx: Tx, to: Lane, counted: Counted, now: number): WarmupPlace {
    // A relay says nothing of the receiver, which may not be known after a restart.
    if (counted.sources.length > 0) this.#deps.warmup.learn(tx, to.domain, counted.receiver, now)
    return new WarmupPlace(this.#deps.warmup, counted, { bulk: to.bulk, now })
  }

  /** A lane with room for a new mail, and its place there; undefined: the mail has to go into the queue. */
  placeNew(
    tx: Tx,
    lanes: readonly Lane[],
    recipients: number,
    now: number,
  ): { to: Lane; place: WarmupPlace | undefined } | undefined {
    const [first] = lanes
    // It gets its place when its receiver is known (`fits`).
    if (first && this.countedOf(first, now) === undefined) return { to: first, place: undefined }
    const choice = this.#choices(tx, lanes, now).find(({ room }) => room >= recipients)
    if (!choice) return undefined
    const { counted, to } = choice
    return { to, place: counted ? this.#placeIn(tx, to, counted, now) : undefined }
  }

  /**
   * Claims due mail of a lane that goes out by one of `lanes`, within the allowances; `mostOf`: how much each may
   * claim. What may not be tried today is put off, or goes by the relay.
   */
  claim(tx: Tx, source: MailSource, { lane, lanes, limit, mostOf, relay }: WantedMail, now: number): ClaimedFor[] {
    const claimed: ClaimedFor[] = []
    let left = limit
    const claim = (to: Lane, counted: Counted | null, what: Pick<Claim, 'limit' | 'only'>): number => {
      const mails = source.claim(tx, { lane: lane.name, to: to.name, now, ...what })
      const recipients = mails.flatMap(({ deliveries }) => deliveries)
      if (this.#isKnownFree(to)) this.#deps.warmup.learn(tx, to.domain, null, now)
      if (counted && mails.length > 0) {
        const place = this.#placeIn(tx, to, counted, now)
        place.take(tx, recipients)
        for (const mail of mails) mail.place = place
      }
      claimed.push({ to, mails })
      left -= recipients.length
      return recipients.length
    }
    const choices = this.#choices(tx, lanes, now)
    for (const { closed, counted, room, to } of choices) {
      const most = Math.min(left, mostOf(to))
      // What was tried today has its place.
      if (room < most && counted && !closed) claim(to, counted, { limit: most, only: { triedOn: dayOf(now) } })
      const some = Math.min(left, mostOf(to), room)
      if (some > 0 && claim(to, counted, { limit: some }) < some) return claimed
    }
    if (left <= 0 || choices.some(({ counted, to }) => this.#room(tx, to, counted, now) > 0)) return claimed
    if (relay) {
      const some = Math.min(left, mostOf(relay))
      if (some > 0) claim(relay, this.countedOf(relay, now) ?? null, { limit: some, only: 'untried' })
    }
    const [first] = choices
    if (first?.counted) this.#putOff(tx, lane, choices, { now, tried: relay !== undefined })
    return claimed
  }

  /** The lane of the relay by which mail goes that has no room; undefined when it waits instead. */
  relayFor({ bulk, name }: Lane): string | undefined {
    const { bulk_over, transactional_over } = this.#deps.config.warmup
    return (bulk ? bulk_over : transactional_over) === 'relay' && unboundLane(name) === name
      ? this.#deps.ways.relayLane(name)
      : undefined
  }

  /** Puts off due mail of a lane until the first of its pairs opens; `tried`: mail alone that was tried before. */
  #putOff(tx: Tx, lane: Lane, choices: readonly WayOut[], { now, tried }: { now: number; tried: boolean }): void {
    const { config, warmup } = this.#deps
    const pairs = choices.flatMap(({ counted }) =>
      counted ? counted.sources.map((source) => ({ source, receiver: counted.receiver })) : [],
    )
    const opens = Math.min(...pairs.map((pair) => warmup.opensAt(pair, now)))
    // What was tried today has its place, unless the day is over for it.
    const day = choices.every(({ closed }) => closed) ? -1 : dayOf(now)
    const words = `warm-up: ${pairs[0]?.receiver} gets no more of this mail today; it goes on at ${iso(opens)}`
    const waiting = tx.all(
      raw<PutOffRow>(
        `update deliveries set next_attempt_at = ?, response = ?, smtp_code = null, enhanced_code = null, remote_mta = null,
           expires_at = iif(attempts = 0, ?, expires_at)
         where key in (select key from deliveries where status = 'queued' and lane = ? and next_attempt_at <= ?
           and (tried_day is null or tried_day <> ?)${tried ? ` and not ${UNTRIED}` : ''}
           order by next_attempt_at limit ${PUT_OFF_AT_ONCE})
         returning key, email_key, attempts, delayed_at`,
        [opens, words, opens + config.delivery.lifetime, lane.name, now, day],
      ),
    )
    // A campaign tells how many of its mails wait.
    if (lane.bulk) return
    const mails = waiting.flatMap(({ email_key, ...row }) => {
      const email = tx.first(emailOf({ key: email_key }))
      return email ? [{ ...row, email }] : []
    })
    tellPutOff(tx, mails, { now, next: opens, response: words })
  }
}

/** A claim: mail of `lane` that goes out by one of `lanes`; `relay`: the lane of the relay for what has no room. */
export interface WantedMail {
  lane: Lane
  lanes: readonly Lane[]
  limit: number
  mostOf: (to: Lane) => number
  relay: Lane | undefined
}

/** Recipients that are made due by one statement. */
const FREED_AT_ONCE = 10_000

/** Makes mail due that waits for a warm-up, because an operator changed an allowance (DV15). */
export async function freeWaiting(store: Store, now: number): Promise<void> {
  for (let more = true; more;)
    more = await store.writeSoon(
      (tx) =>
        tx.run(
          raw(
            `update deliveries set next_attempt_at = ? where key in (select key from deliveries
               where status = 'queued' and next_attempt_at > ? and response >= 'warm-up:' and response < 'warm-up;'
               limit ${FREED_AT_ONCE})`,
            [now, now],
          ),
        ).changes === FREED_AT_ONCE,
    )
}
