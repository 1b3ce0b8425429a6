// The delivery engine: claim -> compose -> sign -> connect -> send -> settle, for all lanes that have mail at once.
//
// Guarantees: memory is bounded by the number of connections, not by the backlog. A lane that is stuck delays no other
// lane. Every claimed delivery ends settled or released. All work has ended after stop().
import { MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Cut } from '../base/cut.ts'
import { Loop } from '../base/loop.ts'
import type { Troubles } from '../base/trouble.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'
import type { Store, Tx } from '../store/database.ts'
import type { DeliveryGate } from '../parts/gate.ts'
import { attemptOrWait, type AttemptDeps, type Connection, type SessionKeeper } from './attempt.ts'
import { composeSuspects, findSuspects, type SuspectKeys } from './alone.ts'
import { releaseAll } from './queue/claim.ts'
import { rebind, type Ways } from './queue/ways.ts'
import { moveClaimed, type ClaimedMove } from './queue/operator.ts'
import { findRoute } from './wire/connect.ts'
import { LaneMemory } from './pacing/lane-memory.ts'
import { LaneSet } from './pacing/lane-set.ts'
import { heldByProvider, mayClaimNew, providerShareOf, shareOf, type Lane } from './pacing/lanes.ts'
import { ResultWriter } from './write-results.ts'
import { isRefused, adjustmentOf, sharing, slowedBy, reportTrouble, type Adjustment } from './pacing/feedback.ts'
import { claimRound, type Round } from './round.ts'
import { fits, freeWaiting, slotForNew } from './within-limits.ts'
import { Shaping } from '../smtp/shaping.ts'
import type { MailTransaction, NewClaim, Sources } from './queue/transaction.ts'
import { someIdle, type ServerGroup, type Work } from './pacing/server-group.ts'

export interface DeliveryDeps extends AttemptDeps {
  store: Store
  clock: Clock
  sources: Sources
  ways: Ways
  gate: DeliveryGate
  config: Pick<Config, 'delivery' | 'hostname' | 'warmup' | 'http' | 'log' | 'tls' | 'webhooks'>
  troubles: Troubles
  /** Cancels waiting for DNS answers and for policies. `resolver` uses it too. */
  cut: Cut
}

/** The connection if it can carry more mail. `refused`: the email goes over another. `narrowed`: it is one too many. */
type Used = Connection | 'refused' | 'narrowed' | undefined
/** MailTransactions in memory for each connection. */
const WINDOW_PER_CONNECTION = 4
/** After local trouble the other mail of a lane is retried after this time (ms). */
const LOCAL_PAUSE = 10 * SECOND
/** No mail is bound to a source for this time (ms) after it could not be used. */
const SOURCE_PAUSE = MINUTE
/** The most lanes whose receiver is being looked up. */
const MAX_LOOKED_UP = 100
/** The most results of campaign mail that are being written at once. A crash may cause this many emails to go twice. */
const MAX_SETTLING = 100
/** The verdict for mail whose route was not found before this server stops: it goes back as not attempted. */
const STOPS = ownVerdict('deferred', '4.3.2', 'This server is shutting down.', { stage: 'dns' })

export class DeliveryEngine {
  readonly #deps: DeliveryDeps
  readonly #lanes: LaneSet
  readonly #memory: LaneMemory
  readonly #loop: Loop
  readonly #shaping: Shaping
  readonly #sessions: SessionKeeper
  readonly #running = new Set<Promise<void>>()
  readonly #results: ResultWriter
  #senders = 0
  #idle = 0
  #inMemory = 0
  #settling = 0
  #lookingUp = 0
  /** The emails to compose alone before the first round. */
  #suspects: SuspectKeys[] = []
  #rescan = true
  /** The round of claiming that is in progress. */
  #round: Promise<Round> | undefined
  #stopping = false

  constructor(deps: DeliveryDeps, shaping: Shaping = new Shaping()) {
    this.#deps = deps
    this.#shaping = shaping
    this.#lanes = new LaneSet(shaping, deps.ways, (hosts) => deps.workers.balance.share(hosts, deps.clock.now()))
    this.#memory = new LaneMemory(deps, (now) => this.#lanes.learned(now))
    this.#results = new ResultWriter(deps, {
      ring: () => this.#loop.ring(),
      of: (name) => this.#lanes.of(name),
      unboundOf: (lane) => this.#lanes.unboundOf(lane),
    })
    this.#sessions = {
      leave: ({ session }) => session.quit(),
      closing: () => this.#stopping,
    }
    this.#loop = new Loop({ name: 'deliveries', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  /**
   * Releases the mail that an ended process had claimed, and restores the limits of receiving servers that it had
   * learned.
   */
  async recover({ clock, log, store, ways } = this.#deps): Promise<void> {
    this.#lanes.recall(this.#memory.recall())
    this.#suspects = await findSuspects(this.#deps)
    const count = await releaseAll(store, clock.now())
    if (count > 0) log.info('stale_deliveries_released', { count })
    await rebind(store, ways)
  }

  start(): void {
    this.#loop.start()
  }

  /** Wakes the engine, because mail of a lane is due. Without a lane, the engine rescans all lanes. */
  ring(lane?: string): void {
    if (lane === undefined) this.#rescan = true
    else this.#lanes.of(lane).due = this.#deps.clock.now()
    this.#loop.ring()
  }

  /**
   * Claims capacity for a new email on a lane without other due mail, or returns undefined if the email has to be
   * queued. Queued mail comes first: new mail is not claimed during a round, and half of the memory is left to rounds.
   */
  claimNew(tx: Tx, name: string, recipients: number): NewClaim | undefined {
    const now = this.#deps.clock.now()
    if (this.#rescan || this.#round || this.#stopping || this.#inMemory >= this.#window / 2) return undefined
    const lane = this.#lanes.of(name)
    const targets = this.#lanes.targetsOf(lane, now)
    const found = slotForNew(this.#deps, tx, targets, recipients, now)
    if (!found || !mayClaimNew(lane, found.to, this.#lanes.values(), now)) return undefined
    const { slot, to } = found
    slot?.takeNew(tx, recipients)
    to.learned.pace.went(1, now)
    to.coming++
    this.#inMemory++
    const cancel = (): void => {
      to.coming--
      this.#inMemory--
    }
    const take = (mail: MailTransaction): void => {
      cancel()
      this.#dispatch(mail)
    }
    return { source: this.#deps.sources.submitted, lane: to.name, slot, cancel, take }
  }

  /** Reconsiders email that waits for a daily limit, because the limit has changed. */
  dailyLimitsChanged({ clock, store } = this.#deps): void {
    this.#track(
      freeWaiting(store, clock.now()).then(() => this.ring()),
      'email that waited for a daily limit',
    )
  }

  /**
   * Holds or drops an email that waits here for its turn. Returns how many recipients moved, or 0 if the email does not
   * wait here.
   */
  async moveWaiting(emailKey: number, on: ClaimedMove): Promise<number> {
    const { clock, store } = this.#deps
    // The mail that a round is claiming now waits here when the round is over.
    await this.#round?.catch(() => undefined)
    let moved = 0
    for (const lane of this.#lanes.values()) {
      const at = lane.waiting.findIndex(({ email }) => email.key === emailKey)
      const [work] = at < 0 ? [] : lane.waiting.splice(at, 1)
      if (!work) continue
      try {
        moved += await store.write((tx) => moveClaimed(tx, work, on, clock.now()))
        this.#inMemory--
      } catch (thrown) {
        this.#assign(lane, work)
        throw thrown
      }
    }
    if (moved > 0) this.#loop.ring()
    return moved
  }

  /** Ends within `patience` ms: mail in an SMTP transaction is finished, and waiting mail is released. */
  async stop(patience = 8000): Promise<void> {
    this.#stopping = true
    this.#results.end()
    const inTime = this.#deps.clock.wake(this.#deps.clock.now() + patience, () => {
      this.#deps.cut.cut()
      this.#deps.workers.cut()
      this.#results.giveUp()
    })
    await this.#loop.stop()
    for (const group of this.#lanes.groups()) for (const waiter of group.idle.splice(0)) waiter(undefined)
    for (const lane of this.#lanes.values()) await this.#release(lane, lane.waiting.splice(0))
    await Promise.all(this.#running)
    await this.#memory.write()
    inTime()
  }

  /** The most mail transactions in memory. */
  get #window(): number {
    return this.#deps.config.delivery.max_connections * WINDOW_PER_CONNECTION
  }

  async #run(now: number): Promise<number | null> {
    const { store } = this.#deps
    await composeSuspects(this.#deps, this.#suspects, () => this.#stopping)
    if (this.#rescan) {
      // The operator may have retried mail: such an attempt queries DNS, even after a recent failure.
      this.#deps.resolver.validated?.forgetFailures()
      for (const lane of this.#lanes.rescan(store, now))
        this.#track(this.#release(lane, lane.waiting.splice(0)), `release ${lane.domain}`)
      // Set only after the whole scan: if the database fails in the middle, it is scanned again.
      this.#rescan = false
    }
    const space = {
      targetsOf: (lane: Lane) => this.#lanes.targetsOf(lane, now),
      named: (name: string) => this.#lanes.of(name),
      window: this.#window,
      inMemory: this.#inMemory,
    }
    this.#round = claimRound(this.#deps, [...this.#lanes.values()], space, now)
    try {
      const { claimed, next, served, unknown } = await this.#round
      for (const lane of unknown.slice(0, Math.max(0, MAX_LOOKED_UP - this.#lookingUp))) this.#lookUp(lane, now)
      for (const mail of claimed) this.#dispatch(mail)
      for (const lane of served) this.#lanes.served(lane)
      if (this.#lanes.sweep(now)) this.#memory.note()
      return next
    } finally {
      this.#round = undefined
    }
  }

  /** Looks up the receiver of a lane before its mail is claimed. */
  #lookUp(lane: Lane, now: number): void {
    const [to] = this.#lanes.targetsOf(lane, now)
    if (to.routing) return
    this.#lookingUp++
    const found = this.#findWay(to).finally(() => {
      this.#lookingUp--
      this.#loop.ring()
    })
    this.#track(found, `receiver of ${lane.domain}`)
  }

  #dispatch(mail: MailTransaction): void {
    const lane = this.#lanes.of(mail.lane)
    this.#inMemory++
    this.#assign(lane, mail)
  }

  /** Appends mail to its lane and starts to send it. If the lane has no known group, its route is looked up first. */
  #assign(lane: Lane, mail: MailTransaction): void {
    lane.waiting.push(mail)
    if (this.#stopping) return
    const group = this.#lanes.groupOf(lane)
    const now = this.#deps.clock.now()
    const fitting = fits(this.#deps.gate, mail, lane, now)
    if (!group || !lane.knowsRoute(now) || fitting === undefined)
      return this.#track(this.#findWay(lane), `route to ${lane.domain}`)
    if (!fitting) return this.#track(this.#release(lane, lane.waiting.splice(-1)), `release ${lane.domain}`)
    group.offer(lane)
    this.#staff(group)
  }

  /** Gives waiting mail to idle senders, then to new senders within the limits of group, provider and server. */
  #staff(group: ServerGroup): void {
    if (this.#stopping) return
    while (group.idle.length > 0 && group.hasWork) group.idle.shift()?.(group.next())
    const { max_connections } = this.#deps.config.delivery
    while (
      group.senders < group.most &&
      this.#senders < shareOf(max_connections, group.bulk) &&
      this.#shaping.hasRoom(group.limits) &&
      group.hasWork
    ) {
      group.senders++
      this.#senders++
      this.#shaping.opened(group.limits)
      const work = group.next()
      const sent = this.#send(group, work).finally(() => {
        group.senders--
        this.#senders--
        this.#shaping.closed(group.limits)
        for (const other of this.#lanes.groups()) this.#staff(other)
      })
      this.#track(sent, `sender, first for ${work?.lane.domain}`)
    }
    // An idle connection of the other kind of mail to the same receiving servers ends if this email needs its slot.
    if (group.hasWork && group.senders === 0 && group.most === 0) group.other?.idle.shift()?.(undefined)
    // An idle connection ends if another group needs its slot.
    if (this.#idle > 0 && group.senders < group.most && group.hasWork)
      someIdle(this.#lanes.groups(), this.#senders >= max_connections ? undefined : group.limits)?.(undefined)
  }

  /** Runs a task in the background: its errors are logged, and stop() waits for it. */
  #track(work: Promise<void>, name: string): void {
    const run = work
      .catch((thrown) => void this.#deps.log.fault(name, thrown))
      .finally(() => void this.#running.delete(run))
    this.#running.add(run)
  }

  /** Looks for the route to a lane's domain. If this fails, the waiting mail is settled. */
  async #findWay(lane: Lane): Promise<void> {
    if (lane.routing) return
    lane.routing = true
    const now = this.#deps.clock.now()
    try {
      const relay = this.#deps.ways.relayOf(lane.name)
      const route = await this.#deps.cut.or(findRoute(this.#deps, lane.domain, relay), STOPS)
      if (!relay) await this.#deps.gate.routed(lane.domain, 'kind' in route ? undefined : route.hosts, now)
      if ('kind' in route) {
        const isTried = lane.waiting.length > 0
        if (route.kind === 'deferred' && isTried) lane.backOff(now)
        if (isTried && reportTrouble(this.#deps.troubles, [route])) lane.pauseUntil(now + LOCAL_PAUSE)
        // Mail that arrives while the first emails are settled gets the same verdict.
        while (lane.waiting.length > 0) await this.#settleAll(lane, lane.waiting.splice(0), route)
      } else {
        this.#lanes.go(lane, route)
        // The receiver is not the one at the time of the claim.
        if (lane.waiting.some((mail) => fits(this.#deps.gate, mail, lane, now) === false))
          await this.#release(lane, lane.waiting.splice(0))
        // Mail was claimed before its group was known: mail over the provider's limit goes back, and during a pause all
        // of it.
        const held = heldByProvider(this.#lanes.values()).get(lane.limits.name) ?? 0
        const over = now < lane.pausedUntil ? Infinity : held - providerShareOf(lane)
        if (over > 0) await this.#release(lane, lane.waiting.splice(Math.max(0, lane.waiting.length - over)))
      }
    } catch (thrown) {
      lane.pauseUntil(now + LOCAL_PAUSE)
      await this.#release(lane, lane.waiting.splice(0))
      throw thrown
    } finally {
      lane.routing = false
    }
    const group = this.#lanes.groupOf(lane)
    if (group) this.#staff(group)
  }

  /** One sender: sends the mail of a group over one connection, which is replaced when it is used up. */
  async #send(group: ServerGroup, work: Work | undefined): Promise<void> {
    let connection: Connection | undefined
    try {
      while (work) {
        const { lane, mail } = work
        const used = await this.#deliver(group, work, connection).finally(() => void lane.inHand--)
        // Another connection works: it gets this email, and this sender ends.
        if (used === 'refused') return this.#assign(lane, mail)
        this.#inMemory--
        if (used === 'narrowed') return void (connection = undefined)
        connection = used
        if (lane.due !== null) this.#loop.ring()
        if (group.yields) return
        work = group.next() ?? (await this.#nextFor(group, connection))
      }
    } finally {
      if (connection) await this.#sessions.leave(connection)
    }
  }

  /** Waits a little with an open connection for more mail. Resolves with undefined if no mail comes. */
  #nextFor(group: ServerGroup, connection: Connection | undefined): Promise<Work | undefined> | undefined {
    const { max_connections } = this.#deps.config.delivery
    const full = this.#senders >= max_connections || !this.#shaping.hasRoom(group.limits) || group.isAwaited
    if (!connection || this.#stopping || full) return undefined
    this.#idle++
    return group.idleFor(this.#deps.clock).finally(() => void this.#idle--)
  }

  /** Settles or releases one mail transaction in any case, unless its connection was refused. */
  async #deliver(group: ServerGroup, { lane, mail: work }: Work, open: Connection | undefined): Promise<Used> {
    const begunAt = this.#deps.clock.now()
    const place = { lane, open, sessions: this.#sessions }
    const { connection, elsewhere = false, verdicts, withdrawn } = await attemptOrWait(this.#deps, work, place)
    // The time of the verdict is taken here, because writing the verdict takes time too.
    const now = this.#deps.clock.now()
    if (isRefused({ lane, group }, work, verdicts, now)) {
      if (connection) await this.#sessions.leave(connection)
      return 'refused'
    }
    if (withdrawn) await this.#results.withdraw(lane, work, withdrawn)
    else {
      const results = slowedBy(lane, work, verdicts, { begunAt, now })
      work.slot?.heard(results, now)
      const settled = this.#results.settle(lane, work, results)
      // The lane pauses at once, because the write may take long during a problem, and the lane must not continue until
      // then.
      if (reportTrouble(this.#deps.troubles, results)) {
        lane.pauseUntil(now + LOCAL_PAUSE)
        for (const { kind, source } of results)
          if (kind === 'waiting' && source !== undefined) this.#lanes.avoid(source, now + SOURCE_PAUSE)
      }
      // A campaign's next email is sent while the result of this one is written, together with other results.
      if (work.source.results && this.#settling < MAX_SETTLING) {
        this.#settling++
        this.#track(
          settled.finally(() => void this.#settling--),
          `settle ${lane.name}`,
        )
      } else await settled
      const learned = elsewhere ? undefined : adjustmentOf({ lane, group }, results, connection, now)
      if (this.#adjust(lane, learned, now)) {
        if (connection) await this.#sessions.leave(connection)
        return 'narrowed'
      }
    }
    const spent = verdicts.some(({ code }) => code === 421)
    const isKept = ({ mails, session }: Connection): boolean =>
      !spent &&
      session.usable &&
      mails < group.limits.mails_per_connection &&
      !this.#deps.workers.balance.isOver(lane.route?.hosts ?? [], session, now)
    if (!connection || isKept(connection)) return connection
    // The sender waits until the connection is closed: until then it counts against the receiving server's limit.
    await this.#sessions.leave(connection)
    return undefined
  }

  /** Applies the limits learned from an email's verdicts. Returns true if there is one sender too many. */
  #adjust(lane: Lane, learned: Adjustment, now: number): boolean {
    if (learned?.change === 'narrower') return true
    if (learned?.change === 'closed') {
      for (const each of learned.lanes)
        this.#track(this.#leaveAlone(each, learned.verdict, now), `settle ${each.domain}`)
      for (const each of learned.others)
        this.#track(this.#release(each, each.waiting.splice(0)), `release ${each.domain}`)
    } else if (learned?.change === 'open') this.#loop.ring()
    else if (learned) this.#track(this.#release(lane, lane.waiting.splice(0)), `release ${lane.domain}`)
    return false
  }

  async #leaveAlone(lane: Lane, verdict: Verdict, now: number): Promise<void> {
    const { same, others } = sharing(lane.waiting.splice(0), verdict, now)
    await Promise.all([this.#settleAll(lane, same, verdict), this.#release(lane, others)])
  }

  async #settleAll(lane: Lane, others: MailTransaction[], verdict: Verdict): Promise<void> {
    this.#inMemory -= others.length
    await this.#results.settleAll(lane, others, verdict)
  }

  async #release(lane: Lane, waiting: MailTransaction[]): Promise<void> {
    if (waiting.length === 0) return
    await this.#results.release(lane, waiting)
    this.#inMemory -= waiting.length
    this.#loop.ring()
  }
}
