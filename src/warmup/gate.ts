// The gate of warm-up for delivery (parts/gate.ts): the limits that apply to an email, and the slots that it takes.
import { HOUR, MINUTE } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { isPublic, type AddressCheck } from '../base/network.ts'
import { sourcesHere, type SourceAddress } from '../base/sources.ts'
import { markCounted } from '../delivery/queue/claim.ts'
import { boundTo, domainOf, relayIn } from '../message/lane-names.ts'
import type { Resolver } from '../net/resolver.ts'
import type { Counted, Forecast, DeliveryGate, LateResult, Outlet, SentDelivery, DaySlot } from '../parts/gate.ts'
import { receiverOf } from '../reputation/receivers.ts'
import { asksForLess, isBlock } from '../smtp/about-server.ts'
import { classify } from '../smtp/bounce-class.ts'
import { classOf, isAboutUs, reasonOf } from '../smtp/reply-reason.ts'
import { findAddresses, type Host } from '../smtp/route.ts'
import type { Verdict } from '../smtp/verdict.ts'
import type { Reader, Tx } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { forecast } from './forecast.ts'
import { DailyLimits, type ReplyAboutUs } from './limits.ts'
import type { JudgeDeps } from './judge.ts'
import { dayOf, findPair, opensAt, UNCOUNTED, type Pair } from './pairs.ts'
import { SYSTEM_SOURCE } from './sources.ts'

export interface WarmupDeps extends JudgeDeps {
  resolver: Resolver
  allowed: AddressCheck
  config: JudgeDeps['config'] & Pick<Config, 'delivery'>
}

/** How long the receiver of a domain is kept, and how long its email is not counted while there is no route to it. */
const KEPT = HOUR
const UNROUTED = MINUTE
const MOST_KEPT = 50_000
/** The receiver of a domain is stored again after this time. */
const STORED_AGAIN = 7 * 24 * HOUR

interface KnownDomain {
  receiver: string | null
  routed: boolean
  until: number
  /** The receiver that is stored, and when it was. */
  stored?: { receiver: string; at: number }
}

export class WarmupGate implements DeliveryGate {
  readonly limits: DailyLimits
  readonly #deps: WarmupDeps
  readonly #sources: readonly SourceAddress[]
  readonly #domains = new Map<string, KnownDomain>()

  constructor(deps: WarmupDeps) {
    this.#deps = deps
    this.limits = new DailyLimits(deps)
    this.#sources = sourcesHere(deps.config)
  }

  slotFor(to: Outlet, now: number): DaySlot | null | undefined {
    if (!this.#deps.config.warmup.enabled || relayIn(to.name) !== undefined) return null
    const sources = this.#sourcesOf(to.name)
    if (sources.length === 0) return null
    const known = this.#domains.get(to.domain)
    if (!known || known.until <= now) return undefined
    if (!known.routed) return null
    const receiver = known.receiver ?? UNCOUNTED
    const learn = (tx: Tx): void => learnReceiver(tx, to.domain, known, now)
    return new WarmupSlot(
      this.limits,
      { receiver, sources: known.receiver === null ? [] : sources, learn },
      to.bulk,
      now,
    )
  }

  async routed(domain: string, hosts: readonly Host[] | undefined, now: number): Promise<void> {
    const receiver = hosts ? await this.#receiverAt(domain, hosts) : null
    if (this.#domains.size >= MOST_KEPT) this.#domains.clear()
    const until = now + (hosts ? KEPT : UNROUTED)
    this.#domains.set(domain, { ...this.#domains.get(domain), receiver, routed: hosts !== undefined, until })
  }

  returned(tx: Tx, delivery: SentDelivery, result: LateResult, now: number): void {
    const { lane, remote_mta, source, updated_at } = delivery
    if (relayIn(lane) !== undefined) return
    const kind = lateKind(result)
    if (!kind) return
    const receiver = receiverOf(remote_mta, domainOf(lane))
    // If the server has only one sending address, the row of a delivery has none.
    const pair = source === null ? pairWith(tx, receiver) : { source, receiver }
    if (pair && findPair(tx, pair))
      this.limits.note(tx, pair, { kind, mailDay: dayOf(updated_at), text: result.text, now })
  }

  forecast(reader: Reader, byDomain: ReadonlyMap<string, number>, now: number): Forecast {
    return forecast({ store: reader, config: this.#deps.config }, byDomain, now)
  }

  /** The sending IP addresses of a lane that have a warm-up, one of each family. */
  #sourcesOf(lane: string): string[] {
    const way = boundTo(lane)?.split(',')
    return this.#sources.length === 0
      ? [SYSTEM_SOURCE]
      : this.#sources.flatMap(({ address, warmup }) => (warmup && way?.includes(address) !== false ? [address] : []))
  }

  /** Email to this server itself, and to servers that are not public, has no warm-up. */
  async #receiverAt(domain: string, hosts: readonly Host[]): Promise<string | null> {
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
      if (!Array.isArray(addresses)) continue
      found = true
      if (addresses.some(isPublic)) return true
    }
    return !found
  }
}

/** Stores the receiver of a domain for forecasts. */
export function learnReceiver(
  tx: Tx,
  domain: string,
  known: Pick<KnownDomain, 'receiver' | 'stored'>,
  now: number,
): void {
  const receiver = known.receiver ?? UNCOUNTED
  if (known.stored?.receiver === receiver && now - known.stored.at < STORED_AGAIN) return
  tx.run(
    raw(
      `insert into warmup_domains (domain, receiver, seen_at) values (?, ?, ?)
       on conflict (domain) do update set receiver = excluded.receiver, seen_at = excluded.seen_at`,
      [domain, receiver, now],
    ),
  )
  tx.afterCommit(() => void (known.stored = { receiver, at: now }))
}

/** The pair of a receiver, or the first if it has several. */
const pairWith = (reader: Reader, receiver: string): Pair | undefined =>
  reader.first(raw<Pair>('select source, receiver from warmups where receiver = ? order by key limit 1', [receiver]))

/** Stages before RCPT. At `mail`, RCPT can have been sent together with MAIL (RFC 2920). */
const UNSENT: readonly Verdict['stage'][] = ['compose', 'dns', 'connect', 'greeting', 'ehlo', 'starttls', 'auth']

interface SlotScope {
  receiver: string
  /** The possible sending IP addresses. Email takes a slot at each. If empty, the email is not counted. */
  sources: readonly string[]
  learn: (tx: Tx) => void
}

class WarmupSlot implements DaySlot {
  readonly receiver: string
  readonly day: number | null
  readonly #limits: DailyLimits
  readonly #pairs: readonly Pair[]
  readonly #learn: SlotScope['learn']
  readonly #bulk: boolean
  readonly #takenAt: number

  constructor(limits: DailyLimits, { learn, receiver, sources }: SlotScope, bulk: boolean, now: number) {
    this.receiver = receiver
    this.day = sources.length === 0 ? null : dayOf(now)
    this.#limits = limits
    this.#pairs = sources.map((source) => ({ source, receiver }))
    this.#learn = learn
    this.#bulk = bulk
    this.#takenAt = now
  }

  capacity(reader: Reader): number {
    const at = { bulk: this.#bulk, now: this.#takenAt }
    return Math.min(...this.#pairs.map((pair) => this.#limits.capacity(reader, pair, at)), Infinity)
  }

  isClosed(reader: Reader, now: number): boolean {
    return this.#bulk && this.#pairs.some((pair) => this.#limits.isClosed(reader, pair, now))
  }

  opensAt(now: number): number {
    return Math.min(...this.#pairs.map((pair) => opensAt(pair, now)))
  }

  takeNew(tx: Tx, wanted: number): void {
    this.#learn(tx)
    if (wanted === 0) return
    for (const pair of this.#pairs) this.#limits.take(tx, pair, { bulk: this.#bulk, now: this.#takenAt, wanted })
  }

  take(tx: Tx, deliveries: readonly Counted[]): void {
    const uncounted = this.#uncounted(deliveries)
    this.takeNew(tx, uncounted.length)
    markCounted(tx, uncounted, this.day)
  }

  giveBack(tx: Tx, deliveries: readonly Counted[]): void {
    const uncounted = this.#uncounted(deliveries)
    for (const pair of this.#pairs) this.#free(tx, pair, uncounted.length)
    markCounted(tx, uncounted, null)
  }

  heard(verdicts: readonly Verdict[], now: number): void {
    if (this.day !== dayOf(now)) return
    for (const verdict of verdicts) {
      const pair = this.#pairOf(verdict)
      if (pair && !UNSENT.includes(verdict.stage) && repliesIn(verdict, this.receiver).includes('block'))
        this.#limits.close(pair)
    }
  }

  settled(tx: Tx, delivery: Counted, verdict: Verdict, now: number): void {
    const used = this.#pairOf(verdict)
    if (!used || this.day === null) return
    if (UNSENT.includes(verdict.stage)) return this.giveBack(tx, [delivery])
    for (const pair of this.#pairs) if (pair !== used) this.#free(tx, pair, this.#uncounted([delivery]).length)
    for (const kind of repliesIn(verdict, this.receiver))
      // A recipient that is deferred several times a day counts once.
      if (kind !== 'deferred' || delivery.tried_day !== this.day)
        this.#limits.note(tx, used, { kind, mailDay: this.day, text: verdict.text, now })
  }

  /** The pair that a verdict is about. */
  #pairOf({ source }: Verdict): Pair | undefined {
    return this.#pairs.find((pair) => pair.source === source) ?? this.#pairs[0]
  }

  /** Recipients that were not counted on this day before the claim. */
  #uncounted(deliveries: readonly Counted[]): readonly Counted[] {
    return this.day === null ? [] : deliveries.filter(({ tried_day }) => tried_day !== this.day)
  }

  #free(tx: Tx, pair: Pair, count: number): void {
    if (count > 0) this.#limits.giveBack(tx, pair, { bulk: this.#bulk, count, takenAt: this.#takenAt })
  }
}

/** The kind of a bounce message or complaint, or undefined if it is not about this server. */
function lateKind({ code, enhanced, hard, kind, text }: LateResult): ReplyAboutUs['kind'] | undefined {
  if (kind === 'complained' || hard) return kind
  return isAboutUs(classOf({ code, enhanced, text })) ? 'refused' : undefined
}

/** The kinds of a reply that is about this server, or about an address that does not exist. */
function repliesIn(verdict: Verdict, receiver: string): Exclude<ReplyAboutUs['kind'], 'complained'>[] {
  const { code, enhanced, kind, text } = verdict
  if (code === null || (kind !== 'deferred' && kind !== 'bounced')) return []
  const reason = reasonOf({ code, enhanced, text }, receiver)
  const meant = reason ? reason.class : isBlock(verdict) ? 'block' : asksForLess(verdict) ? 'rate' : undefined
  if (isAboutUs(meant))
    return [kind === 'deferred' ? 'deferred' : 'refused', ...(meant === 'block' ? (['block'] as const) : [])]
  return kind === 'bounced' && classify(verdict) === 'hard' ? ['bounced'] : []
}
