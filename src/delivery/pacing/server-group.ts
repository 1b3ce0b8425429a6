// A group is a set of receiving servers. Lanes with the same receiving servers share one group: its connections carry
// the mail of all these lanes in turn, and its limits apply to all of them together. So thousands of domains at one
// provider need few connections. Campaign mail has separate groups, as it has separate lanes. The limits of the
// receiving servers apply to both together, and other mail goes first.
import { SECOND, type Clock } from '../../base/clock.ts'
import type { Limits } from '../../smtp/shaping.ts'
import type { Route } from '../wire/connect.ts'
import type { Lane } from './lanes.ts'
import type { MailTransaction } from '../queue/transaction.ts'
import { Width } from './concurrency.ts'

/** How long an unused connection is kept. */
const IDLE = 3 * SECOND

/** An email, and the lane that it belongs to. */
export interface Work {
  lane: Lane
  mail: MailTransaction
}

/** A pause of a group. `shared`: it applies to the groups of all sources. */
interface Pause {
  at: number
  until: number
  shared: boolean
}
const NO_PAUSE: Pause = { at: 0, until: 0, shared: false }

export class ServerGroup {
  readonly bulk: boolean
  readonly limits: Limits
  /** The learned number of connections that the receiving servers accept, shared with `other`. */
  readonly width: Width
  /** The group of the same receiving servers for the other kind of mail: campaign mail, or all other mail. */
  other: ServerGroup | undefined
  /** No connection worked, and no email was accepted since. */
  #closed = false
  senders = 0
  /** The pause of the group: no connection works. */
  #pause = NO_PAUSE
  /** Senders without work: call one with an email, or with undefined to end it. */
  readonly idle: ((work: Work | undefined) => void)[] = []
  /** All lanes whose mail goes here. */
  readonly lanes = new Set<Lane>()
  /** Lanes that may have waiting mail. The first is the next. */
  readonly #turns = new Set<Lane>()

  /** The groups of the same receiving servers and kind of mail, by all sources. */
  readonly #kin: ReadonlySet<ServerGroup>
  /** The part of the hosts of a relay that is in use now: the limits are those of all hosts together. */
  readonly #share: () => number

  constructor(
    limits: Limits,
    bulk: boolean,
    other?: ServerGroup,
    kin: ReadonlySet<ServerGroup> = new Set<ServerGroup>(),
    share = () => 1,
  ) {
    this.#kin = kin
    this.#share = share
    this.limits = limits
    this.bulk = bulk
    this.width = other?.width ?? new Width()
    this.other = other
    if (other) other.other = this
  }

  /**
   * The most connections of the group. A known provider has a limit for all domains together. The learned limit applies
   * to both groups of the receiving servers. Campaign mail leaves one of these connections to other mail, or yields the
   * only one while other mail waits. While campaign mail cannot connect, other mail tries a single connection first.
   */
  get most(): number {
    const { domain_connections, provider_connections } = this.limits
    const most = this.width.of(Math.round((provider_connections || domain_connections) * this.#share()))
    const { other } = this
    if (!this.bulk && other !== undefined && other.#closed) return Math.min(most, 1)
    if (this.width.allowed === Infinity) return most
    const left = Math.max(0, this.width.allowed - (other?.senders ?? 0))
    if (!this.bulk) return Math.min(most, left)
    const share = this.width.allowed > 1 ? this.width.allowed - 1 : other !== undefined && other.#wants ? 0 : 1
    return Math.min(most, left, share)
  }

  /** The connections to the receiving servers, of both groups. */
  get open(): number {
    return this.senders + (this.other?.senders ?? 0)
  }

  /** Whether a sender must end after its email: other mail needs its connection, or a host of the relay is left out. */
  get yields(): boolean {
    return (this.bulk || this.#share() < 1) && this.senders > this.most
  }

  /** Whether the other group has mail that waits for a connection of this one. */
  get isAwaited(): boolean {
    return this.other?.hasWork === true && this.open >= this.width.allowed
  }

  get #wants(): boolean {
    return this.hasWork || this.senders > this.idle.length
  }

  /** Adds a lane with its waiting mail, and with the limits that were learned of its receiving servers before. */
  join(lane: Lane): void {
    lane.limits = this.limits
    this.lanes.add(lane)
    this.width.learn(lane.learned.width)
    lane.learned.width = this.width
    lane.pausedWith(this.#pause)
    this.offer(lane)
  }

  /**
   * Pauses all lanes of the group, and lanes that join later, because mail of `finder` found no working connection.
   * Unless the failure is about the source only, mail by other sources pauses too. Returns the lanes by other sources.
   */
  backOff(finder: Lane, now: number, ofSource = false): Lane[] {
    finder.backOff(now)
    const pause = { at: now, until: Math.max(finder.pausedUntil, this.#pause.until), shared: !ofSource }
    const others = ofSource ? [] : [...this.#kin].filter((group) => group !== this)
    for (const group of [this, ...others]) group.#close(pause)
    return others.flatMap(({ lanes }) => [...lanes])
  }

  #close(pause: Pause): void {
    this.#closed = true
    if (pause.until > this.#pause.until) this.#pause = pause
    for (const lane of this.lanes) lane.pausedWith(this.#pause)
  }

  /**
   * Call it when an email was accepted: a pause of the group, and of `other`, ends for all lanes. Returns whether there
   * was a pause.
   */
  succeeded(now: number): boolean {
    this.width.succeeded(now)
    const own = this.#reopen(now)
    let others = this.other !== undefined && this.other.#reopen(now)
    // An accepted email ends the pauses that all sources share.
    for (const group of this.#kin) if (group !== this && group.#pause.shared) others = group.#reopen(now) || others
    return own || others
  }

  #reopen(now: number): boolean {
    this.#closed = false
    const paused = this.#pause.until > now
    if (paused) for (const lane of this.lanes) lane.reopen(this.#pause, now)
    this.#pause = NO_PAUSE
    return paused
  }

  /** Ends the pause, because the clock was set. */
  resume(): void {
    this.#pause = NO_PAUSE
  }

  /** Call it when a lane may have waiting mail. */
  offer(lane: Lane): void {
    this.#turns.add(lane)
  }

  /** Takes the next email, or undefined if no lane has mail that may go now. Lanes take turns. */
  next(): Work | undefined {
    const lane = this.#nextLane()
    const mail = lane?.waiting.shift()
    if (!lane || !mail) return undefined
    this.#turns.delete(lane)
    if (lane.waiting.length > 0) this.#turns.add(lane)
    lane.inHand++
    return { lane, mail }
  }

  /** Whether `next` has mail. */
  get hasWork(): boolean {
    return this.#nextLane() !== undefined
  }

  #nextLane(): Lane | undefined {
    for (const lane of this.#turns)
      // The lane's mail was released or settled, or has another group now.
      if (!this.lanes.has(lane) || lane.waiting.length === 0) this.#turns.delete(lane)
      // A domain gets no more connections than its own limit, even when its provider accepts more.
      else if (lane.inHand < lane.width.of(this.limits.domain_connections)) return lane
    return undefined
  }

  /** Waits up to IDLE for more mail while the connection stays open. Resolves with undefined if no mail comes. */
  idleFor(clock: Clock): Promise<Work | undefined> {
    return new Promise((resolve) => {
      const waiter = (work: Work | undefined): void => {
        cancel()
        resolve(work)
      }
      const cancel = clock.wake(clock.now() + IDLE, () => {
        this.idle.splice(this.idle.indexOf(waiter), 1)
        resolve(undefined)
      })
      this.idle.push(waiter)
    })
  }
}

/** A unique name of a group, from its receiving servers with their preferences and the TLS settings. */
function serversOf({ enforced, hosts }: Route): string {
  const ranks = [...new Set(hosts.map(({ preference = 0 }) => preference))].sort((a, b) => a - b)
  const servers = hosts.map(({ address, name, port, preference = 0, relay, unlisted }) =>
    [
      ranks.indexOf(preference),
      name,
      port,
      address ?? '',
      relay?.tls ?? '',
      relay?.username ?? '',
      unlisted ?? '',
    ].join(' '),
  )
  return [enforced ? 'enforced' : '', ...servers.sort()].join('\n')
}

export class ServerGroups {
  readonly #groups = new Map<string, ServerGroup>()
  readonly #taken = new WeakMap<Lane, ServerGroup>()
  /** The groups of the same receiving servers and kind of mail, by all sources. */
  readonly #kin = new Map<string, Set<ServerGroup>>()

  /** The group of a lane, or undefined if its route was not found yet. */
  of(lane: Lane): ServerGroup | undefined {
    return this.#taken.get(lane)
  }

  /** Puts a lane into the group of a route. `limits` is used when no other lane is in that group yet. */
  take(lane: Lane, route: Route, limits: () => Limits, share?: () => number): ServerGroup {
    const servers = serversOf(route)
    const from = (route.sources ?? []).map(({ address }) => address).join(' ')
    const nameFor = (bulk: boolean): string => `${from}\n${bulk ? 'bulk' : ''}\n${servers}`
    const name = nameFor(lane.bulk)
    const kinName = `${lane.bulk ? 'bulk' : ''}\n${servers}`
    const kin = this.#kin.get(kinName) ?? new Set()
    this.#kin.set(kinName, kin)
    const group =
      this.#groups.get(name) ?? new ServerGroup(limits(), lane.bulk, this.#groups.get(nameFor(!lane.bulk)), kin, share)
    this.#groups.set(name, group)
    kin.add(group)
    this.leave(lane)
    this.#taken.set(lane, group)
    group.join(lane)
    return group
  }

  leave(lane: Lane): void {
    this.#taken.get(lane)?.lanes.delete(lane)
    this.#taken.delete(lane)
  }

  values(): IterableIterator<ServerGroup> {
    return this.#groups.values()
  }

  /** Forgets groups that no lane uses. */
  sweep(): void {
    for (const [name, group] of this.#groups) {
      const { lanes, other, senders } = group
      if (lanes.size > 0 || senders > 0) continue
      this.#groups.delete(name)
      for (const kin of this.#kin.values()) kin.delete(group)
      if (other) other.other = undefined
    }
    for (const [name, kin] of this.#kin) if (kin.size === 0) this.#kin.delete(name)
  }
}

/** Removes an idle sender from the list of its group and returns it. `of`: only of a group with these limits. */
export function someIdle(groups: Iterable<ServerGroup>, of?: Limits): ServerGroup['idle'][number] | undefined {
  for (const { idle, limits } of groups) if (idle.length > 0 && (!of || limits.name === of.name)) return idle.shift()
  return undefined
}
