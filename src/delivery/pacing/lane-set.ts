// The lanes that have mail. A lane is created with the learned limits of its receiving servers when it gets mail, and
// is removed when it is empty.
import { SET_BACK } from '../../base/clock.ts'
import type { Reader } from '../../store/database.ts'
import { dueGroups } from '../../store/due.ts'
import { unboundLane } from '../../message/lane-names.ts'
import { becameDue, LANES } from '../queue/claim.ts'
import { heldLanes } from '../queue/waiting.ts'
import type { Ways } from '../queue/ways.ts'
import type { LearnedLane } from './lane-memory.ts'
import { Lane } from './lanes.ts'
import type { Limits, Shaping } from '../../smtp/shaping.ts'
import type { Route } from '../wire/connect.ts'
import { bestOf } from '../wire/host-balance.ts'
import { ServerGroups, type ServerGroup } from './server-group.ts'
import { KnownLimits } from './concurrency.ts'

export class LaneSet {
  readonly #lanes = new Map<string, Lane>()
  readonly #shaping: Shaping
  readonly #known = new KnownLimits()
  readonly #groups = new ServerGroups()
  #held = new Set<string>()
  /** The time of the last scan. */
  #scannedAt = 0
  readonly #ways: Ways
  readonly #share: (hosts: Route['hosts']) => number
  /** Sources that recently could not be used, and until when no mail is bound to them. */
  readonly #unusable = new Map<string, number>()

  /** `share`: the part of the hosts of a relay that is in use now. */
  constructor(shaping: Shaping, ways: Ways, share: (hosts: Route['hosts']) => number) {
    this.#shaping = shaping
    this.#ways = ways
    this.#share = share
  }

  of(name: string): Lane {
    const known = this.#lanes.get(name)
    if (known) return known
    const lane = new Lane(name, this.#shaping.limitsFor(undefined), this.#known.of(name))
    lane.held = this.#held.has(lane.domain)
    lane.choices = this.#ways.choices(name)
    this.#lanes.set(name, lane)
    return lane
  }

  /** The lanes by which mail of a lane may go out now, the first choice first: those whose sources can be used. */
  targetsOf(lane: Lane, now: number): [Lane, ...Lane[]] {
    const [first = lane.name] = lane.choices
    if (first === lane.name) return [lane]
    const [usable = this.of(first), ...others] = lane.choices
      .filter((name) => this.#ways.of(name).every(({ address }) => (this.#unusable.get(address) ?? 0) <= now))
      .map((name) => this.of(name))
    return [usable, ...others]
  }

  /** The lane from which the mail of a lane was claimed, or undefined if that is the lane itself. */
  unboundOf({ name }: Lane): Lane | undefined {
    const unbound = unboundLane(name)
    return unbound === name ? undefined : this.of(unbound)
  }

  /** No mail is bound to a source until a time, because it cannot be used. */
  avoid(address: string, until: number): void {
    this.#unusable.set(address, until)
  }

  /** Takes over the limits that an earlier process learned, without its pauses: a restart attempts mail at once. */
  recall(lanes: readonly LearnedLane[]): void {
    for (const { connections, lane, learned_at, per_second } of lanes) {
      const { pace, width } = this.#known.of(lane)
      if (connections !== null) width.restore(connections, learned_at)
      if (per_second !== null) pace.restore(per_second, learned_at)
    }
  }

  /** The clock was set back (D120): pauses end, and limits with a time in the future get the present time. */
  #setBack(now: number): void {
    for (const group of this.#groups.values()) group.resume()
    for (const lane of this.#lanes.values()) lane.resume(now)
    for (const [, { pace, width }] of this.#known.entries()) {
      if (width.learnedAt > now) width.restore(width.allowed, now)
      if (pace.learnedAt > now) pace.restore(pace.perSecond, now)
    }
  }

  learned(now: number): LearnedLane[] {
    return [...this.#known.entries()].flatMap(([lane, { pace, width }]) => {
      const known = this.#lanes.get(lane)
      const paused = known?.pauseLearned(now) ?? null
      const connections = width.stale(now) || width.allowed === Infinity ? null : width.allowed
      const perSecond = pace.stale(now) || pace.perSecond === Infinity ? null : Number(pace.perSecond.toFixed(3))
      if (connections === null && perSecond === null && paused === null) return []
      const learned_at = Math.max(width.learnedAt, pace.learnedAt, paused === null ? 0 : (known?.pausedAt ?? 0))
      return [{ lane, connections, per_second: perSecond, paused_until: paused, learned_at }]
    })
  }

  values(): IterableIterator<Lane> {
    return this.#lanes.values()
  }

  /** The group (set of receiving servers) of a lane, or undefined if the lane's route was not found yet. */
  groupOf(lane: Lane): ServerGroup | undefined {
    return this.#groups.of(lane)
  }

  /** All groups, those of campaign mail last, because other mail goes first. */
  groups(): ServerGroup[] {
    return [...this.#groups.values()].sort((one, other) => Number(one.bulk) - Number(other.bulk))
  }

  /** Sets the route of a lane: the lane joins the lanes with the same receiving servers. */
  go(lane: Lane, route: Route): void {
    lane.route = { ...route, sources: this.#ways.of(lane.name) }
    const { hosts } = route
    const limits = (): Limits => {
      const found = this.#shaping.limitsFor(hosts[0])
      // The limits of a relay apply to each of its hosts.
      return hosts[0]?.relay ? { ...found, domain_connections: found.domain_connections * bestOf(hosts).length } : found
    }
    this.#groups.take(lane, lane.route, limits, () => this.#share(hosts))
  }

  /** Reads which lanes have mail, and which lanes are held. Returns the lanes that are newly held. */
  rescan(reader: Reader, now: number): Lane[] {
    if (now < this.#scannedAt - SET_BACK) this.#setBack(now)
    this.#scannedAt = now
    this.#held = heldLanes(reader)
    for (const { name, due } of dueGroups<string>(reader, LANES)) {
      const lane = this.of(name)
      lane.due = due
      // The operator made the mail due during the pause (queue retry), which ends the pause.
      if (lane.pausedUntil > now && becameDue(reader, name, lane.pausedAt, now)) lane.pausedUntil = now
    }
    return [...this.values()].filter((lane) => {
      const before = lane.held
      lane.held = this.#held.has(lane.domain)
      return lane.held && !before
    })
  }

  /** Moves a lane to the end of the order of lanes. */
  served(lane: Lane): void {
    if (this.#lanes.delete(lane.name)) this.#lanes.set(lane.name, lane)
  }

  /** Removes lanes without mail, and old limits. Returns whether there are learned limits. */
  sweep(now: number): boolean {
    let any = false
    for (const lane of this.#lanes.values()) {
      any ||= lane.learned.isAny || lane.pauseLearned(now) !== null
      if (!lane.empty) continue
      this.#lanes.delete(lane.name)
      this.#groups.leave(lane)
    }
    this.#groups.sweep()
    this.#known.sweep(now, (name) => this.#lanes.has(name))
    return any
  }
}
