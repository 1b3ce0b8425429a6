// The delivery engine: claim -> compose -> sign -> connect -> talk -> settle, for as many lanes at once as there are mails for.
//
// Guarantees: what is in memory is bounded by the number of connections, whatever the backlog; a lane that stands still holds
// up no other; every claimed delivery ends settled or released; after stop() nothing runs.
import type { Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { Loop } from '../base/loop.ts'
import type { SmtpSession } from '../smtp/client.ts'
import { ownVerdict, type Verdict } from '../smtp/verdict.ts'
import { deliveryMachine } from '../states/delivery.ts'
import { move } from '../store/move.ts'
import { attempt, type AttemptDesk, type Attempted, type Connection, type Sessions } from './attempt.ts'
import { becameDue, claimLane, dueLanes, laneDue, releaseAll, type Consignment } from './claim.ts'
import { IDLE, Lane, LANE_CONNECTIONS, MAILS_PER_CONNECTION } from './lanes.ts'
import { settle } from './settle.ts'

export interface DeliveryDesk extends AttemptDesk {
  clock: Clock
  config: Pick<Config, 'delivery' | 'hostname'>
}

/** Consignments in memory for each connection that may be open. */
const WINDOW_PER_CONNECTION = 4

export class DeliveryEngine {
  readonly #desk: DeliveryDesk
  readonly #lanes = new Map<string, Lane>()
  readonly #loop: Loop
  readonly #open = new Set<SmtpSession>()
  readonly #sessions: Sessions
  readonly #running = new Set<Promise<void>>()
  #senders = 0
  #inMemory = 0
  #rescan = true
  #stopping = false

  constructor(desk: DeliveryDesk) {
    this.#desk = desk
    const stopping = (): boolean => this.#stopping
    this.#sessions = {
      opened: (session) => void this.#open.add(session),
      leave: ({ session }) => {
        this.#open.delete(session)
        session.quit()
      },
      get closing() {
        return stopping()
      },
    }
    this.#loop = new Loop({ name: 'deliveries', clock: desk.clock, log: desk.log, run: (now) => this.#run(now) })
  }

  /** Takes back what a dead process had claimed, and begins. */
  async start(): Promise<void> {
    const released = await releaseAll(this.#desk.store, this.#desk.clock.now())
    if (released > 0)
      this.#desk.log.info('deliveries released', {
        count: released,
        reason: 'an earlier process ended while it had them',
      })
    this.#loop.start()
  }

  /** Says that mail for a lane is due; without a lane, that anything may have changed. */
  ring(domain?: string): void {
    if (domain === undefined) this.#rescan = true
    else this.#lane(domain).due = this.#desk.clock.now()
    this.#loop.ring()
  }

  /** Ends within `patience` real milliseconds: what is being talked about is finished, what waits is released. */
  async stop(patience = 8000): Promise<void> {
    this.#stopping = true
    await this.#loop.stop()
    for (const lane of this.#lanes.values()) {
      for (const hand of lane.idle.splice(0)) hand(undefined)
      await this.#release(lane.waiting.splice(0))
    }
    const cut = setTimeout(() => {
      for (const session of this.#open) session.destroy()
    }, patience)
    await Promise.all(this.#running)
    clearTimeout(cut)
  }

  #lane(domain: string): Lane {
    let lane = this.#lanes.get(domain)
    if (!lane) this.#lanes.set(domain, (lane = new Lane(domain)))
    return lane
  }

  async #run(now: number): Promise<number | null> {
    const { config, store } = this.#desk
    if (this.#rescan) {
      this.#rescan = false
      for (const { lane: domain, due } of dueLanes(store)) {
        const lane = this.#lane(domain)
        lane.due = due
        // Made due while the lane was paused (queue retry): the operator's wish goes before the lane's own patience.
        if (lane.pausedUntil > now && becameDue(store, domain, lane.pausedAt, now)) lane.pausedUntil = now
      }
    }
    const window = config.delivery.max_connections * WINDOW_PER_CONNECTION
    const ready = [...this.#lanes.values()].filter((lane) => (lane.wakeAt() ?? Infinity) <= now && lane.room(now) > 0)
    let space = window - this.#inMemory
    if (ready.length > 0 && space > 0) {
      const share = Math.max(1, Math.floor(space / ready.length))
      const claimed = await store.write((tx) =>
        ready.flatMap((lane) => {
          const limit = Math.min(lane.room(now), share, space)
          if (limit <= 0) return []
          const consignments = claimLane(tx, lane.domain, now, limit)
          lane.due = laneDue(tx, lane.domain)
          space -= consignments.length
          return consignments
        }),
      )
      for (const consignment of claimed) this.#dispatch(consignment)
      // Those served go to the back of the line.
      for (const lane of ready) if (this.#lanes.delete(lane.domain)) this.#lanes.set(lane.domain, lane)
    }
    let next: number | null = null
    for (const lane of this.#lanes.values()) {
      const wake = lane.wakeAt()
      if (lane.empty) this.#lanes.delete(lane.domain)
      // A lane without room is looked at again when it has some.
      else if (wake !== null && (wake > now || (lane.room(now) > 0 && space > 0))) next = Math.min(next ?? wake, wake)
    }
    return next
  }

  #dispatch(consignment: Consignment): void {
    const lane = this.#lane(consignment.lane)
    this.#inMemory++
    const hand = lane.idle.shift()
    if (hand) hand(consignment)
    else lane.waiting.push(consignment)
    this.#staff(lane)
  }

  /** Starts a sender where mail waits and both the lane and the whole have a connection left. */
  #staff(lane: Lane): void {
    const { max_connections } = this.#desk.config.delivery
    while (
      !this.#stopping &&
      lane.waiting.length > 0 &&
      lane.senders < LANE_CONNECTIONS &&
      this.#senders < max_connections
    ) {
      const work = lane.waiting.shift()!
      lane.senders++
      this.#senders++
      const run = this.#send(lane, work)
        .catch((thrown) => void this.#desk.log.fault(`sender for ${lane.domain}`, thrown))
        .finally(() => {
          lane.senders--
          this.#senders--
          this.#running.delete(run)
          for (const other of this.#lanes.values()) this.#staff(other)
        })
      this.#running.add(run)
    }
  }

  /** One sender: works off the lane on one connection, renewed when it is used up. */
  async #send(lane: Lane, work: Consignment | undefined): Promise<void> {
    let connection: Connection | undefined
    try {
      while (work) {
        lane.inHand++
        try {
          connection = await this.#deliver(lane, work, connection)
        } finally {
          lane.inHand--
          this.#inMemory--
        }
        if (lane.due !== null) this.#loop.ring()
        work = lane.waiting.shift() ?? (await this.#nextFor(lane, connection))
      }
    } finally {
      if (connection) this.#sessions.leave(connection)
    }
  }

  /** Waits a little with an open connection for more mail; undefined when none came. */
  #nextFor(lane: Lane, connection: Connection | undefined): Promise<Consignment | undefined> | undefined {
    const { clock, config } = this.#desk
    if (!connection || this.#stopping || this.#senders >= config.delivery.max_connections) return undefined
    return new Promise((resolve) => {
      const hand = (work: Consignment | undefined): void => {
        cancel()
        resolve(work)
      }
      const cancel = clock.wake(clock.now() + IDLE, () => {
        lane.idle.splice(lane.idle.indexOf(hand), 1)
        resolve(undefined)
      })
      lane.idle.push(hand)
    })
  }

  /** One consignment, settled or released whatever happens; returns the connection if it can carry more. */
  async #deliver(lane: Lane, work: Consignment, open: Connection | undefined): Promise<Connection | undefined> {
    let attempted: Attempted
    try {
      attempted = await attempt(this.#desk, lane, work, open, this.#sessions)
    } catch (thrown) {
      const id = this.#desk.log.fault(`delivery of ${work.email.message_id}`, thrown)
      const verdict = ownVerdict('deferred', '4.3.0', `An error of this server (log id ${id}).`, { stage: 'compose' })
      attempted = { verdicts: work.deliveries.map(() => verdict), connection: open }
    }
    await this.#settle(lane, work, attempted.verdicts)
    const { connection } = attempted
    if (!connection || (connection.session.usable && connection.mails < MAILS_PER_CONNECTION)) return connection
    this.#sessions.leave(connection)
    return undefined
  }

  async #settle(lane: Lane, work: Consignment, verdicts: readonly Verdict[], heed = true): Promise<void> {
    const { clock, config, log, store } = this.#desk
    const now = clock.now()
    const unsent = (verdict: Verdict): boolean =>
      this.#stopping && verdict.kind === 'deferred' && verdict.code === null && !verdict.handed
    await store.write((tx) => {
      for (const [index, delivery] of work.deliveries.entries()) {
        const verdict = verdicts[index]!
        if (unsent(verdict))
          move(tx, deliveryMachine, delivery.key, 'lapse', { leased_until: null, next_attempt_at: now })
        else settle(tx, { delivery, verdict, now, config })
      }
    })
    for (const [index, { address }] of work.deliveries.entries()) {
      const { kind, code, enhanced, text, host, tls } = verdicts[index]!
      log.info('delivery', {
        message_id: work.email.message_id,
        to: address,
        result: kind,
        code,
        enhanced,
        response: text,
        host,
        tls,
      })
    }
    if (!heed) void 0
    else if (verdicts.some(({ kind }) => kind === 'deferred')) this.#note(lane, now, verdicts)
    else lane.relax()
    // What was put off is due again some time; the lane must know when.
    if (verdicts.some(({ kind }) => kind === 'deferred')) lane.due = laneDue(store, lane.domain)
    this.#loop.ring()
  }

  /** An exchanger that nobody reaches, or that asks for patience, gets it; what was claimed for it is deferred with it. */
  #note(lane: Lane, now: number, verdicts: readonly Verdict[]): void {
    const host = verdicts.find(
      ({ stage, code }) => code === 421 || ['dns', 'connect', 'greeting', 'ehlo'].includes(stage),
    )
    if (!host) return
    lane.backOff(now)
    const others = lane.waiting.splice(0)
    if (others.length > 0)
      void Promise.all(
        others.map((other) => {
          this.#inMemory--
          return this.#settle(
            lane,
            other,
            other.deliveries.map(() => ({ ...host, handed: false, dialogue: null })),
            false,
          )
        }),
      ).catch((thrown) => void this.#desk.log.fault('settle', thrown))
  }

  async #release(waiting: Consignment[]): Promise<void> {
    if (waiting.length === 0) return
    const now = this.#desk.clock.now()
    await this.#desk.store.write((tx) => {
      for (const { deliveries } of waiting)
        for (const { key } of deliveries)
          move(tx, deliveryMachine, key, 'lapse', { leased_until: null, next_attempt_at: now })
    })
    this.#inMemory -= waiting.length
  }
}
