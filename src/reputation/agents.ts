// The reputation of agents and domains (D39, D65). The outcomes of an agent's mail of the last seven days decide its
// pool, and the pool decides its pace. Each change is reported once.
import { DAY, HOUR, MINUTE, SECOND, type Clock } from '../base/clock.ts'
import type { Log } from '../base/log.ts'
import { Loop } from '../base/loop.ts'
import { agentMachine, type AgentMove, type AgentStatus } from '../store/states/agent.ts'
import type { Reader, Store, Tx } from '../store/database.ts'
import { appendEvent } from '../store/events.ts'
import { move } from '../store/move.ts'
import { db, raw, statement } from '../store/query.ts'
import { RATE_LIMITS } from './findings.ts'
import { addAgent, agentOf, refusePaused, type Agent } from './pauses.ts'
import { agentFigures, closeHour, domainFigures, forgetTallies, type Figures } from './tally.ts'

const WINDOW = 7 * DAY
const ENOUGH = 200
/** Bounces and complaints per 1,000 emails. Whole numbers, so that a rate equal to a limit compares exactly. */
const limit = (severity: 0 | 1) => ({
  bounces: Math.round(RATE_LIMITS.bounce_rate[severity] * 1000),
  complaints: Math.round(RATE_LIMITS.complaint_rate[severity] * 1000),
})
const GOOD = limit(0)
const BAD = limit(1)
const RUINED = { bounces: 100, complaints: 5 }
const EVERY = 5 * MINUTE

/** Milliseconds between two emails of an agent, by its pool. */
export const PACE: Record<AgentStatus, number> = { probation: 500, standard: 100, trusted: 0, damaged: MINUTE }

/** The maximum number of emails that get a new time when a pool changes. */
const RESCHEDULED = 10_000

const setSlot = statement<{ key: number; at: number }>()((arg) =>
  db.updateTable('agents').set({ next_slot_at: arg.at }).where('key', '=', arg.key),
)

/**
 * Reserves and returns the time (ms) of an agent's next email. A new agent starts on probation.
 * Throws 409 while the agent is paused.
 */
export function slotFor(tx: Tx, userKey: number, agentId: string, now: number): number {
  const agent = refusePaused(tx, userKey, agentId) ?? addAgent(tx, userKey, agentId, now)
  const slot = Math.max(now, agent.next_slot_at)
  const pace = PACE[agent.status]
  if (pace > 0) tx.run(setSlot({ key: agent.key, at: slot + pace }))
  return slot
}

/** The time of a retry that would be due at `at`. The retries of a damaged agent follow its pace too. */
export function retrySlot(tx: Tx, userKey: number, agentId: string, at: number): number {
  if (tx.first(agentOf({ user_key: userKey, agent_id: agentId }))?.status !== 'damaged') return at
  const { last } = tx.one(
    raw<{ last: number | null }>(
      `select max(v.next_attempt_at) as last from outbound_emails e join deliveries v on v.email_key = e.key
       where e.user_key = ? and e.status in ('queued', 'sent') and e.agent_id = ? and v.status = 'queued' and v.attempts > 0`,
      [userKey, agentId],
    ),
  )
  return Math.max(at, (last ?? 0) + PACE.damaged)
}

const total = ({ bounces, deliveries }: Figures): number => bounces + deliveries

/** `above`: one rate exceeds its limit. `below`: both rates are under it. */
const above = (figures: Figures, limit: typeof GOOD): boolean =>
  figures.bounces * 1000 > limit.bounces * total(figures) ||
  figures.complaints * 1000 > limit.complaints * total(figures)
const below = (figures: Figures, limit: typeof GOOD): boolean =>
  figures.bounces * 1000 < limit.bounces * total(figures) &&
  figures.complaints * 1000 < limit.complaints * total(figures)

/** The pool change that a week's figures cause, or undefined if the agent stays in its pool. */
function verdictOn(
  reader: Reader,
  { agent_id, status, status_at, user_key }: Agent,
  now: number,
): { on: AgentMove; figures: Figures } | undefined {
  const week = agentFigures(reader, user_key, agent_id, now - WINDOW)
  // A damaged agent recovers if its figures of a week are no longer bad, or if there are none. It stays damaged for
  // at least a day: otherwise a good week before the damage would cancel it at the next check.
  if (status === 'damaged')
    return now - status_at < DAY || above(week, BAD) ? undefined : { on: 'recover', figures: week }
  if (total(week) < ENOUGH) return undefined
  // The same outcomes must not move an agent twice: a further move needs outcomes of the new pool that require it too.
  const here = agentFigures(reader, user_key, agent_id, Math.max(now - WINDOW, status_at - HOUR + 1))
  const on = above(week, RUINED)
    ? 'damage'
    : above(week, BAD) && above(here, BAD)
      ? 'demote'
      : below(week, GOOD) && below(here, GOOD) && total(here) >= ENOUGH
        ? 'promote'
        : undefined
  return on && agentMachine.next(status, on) ? { on, figures: week } : undefined
}

export interface ReputationDeps {
  store: Store
  clock: Clock
  log: Log
  /** Wakes the queue, because email may be due at another time. */
  ringQueue: () => void
}

export class Reputation {
  readonly #deps: ReputationDeps
  readonly #loop: Loop

  constructor(deps: ReputationDeps) {
    this.#deps = deps
    this.#loop = new Loop({ name: 'reputation', clock: deps.clock, log: deps.log, run: (now) => this.#run(now) })
  }

  start(): void {
    this.#loop.start()
  }

  ring(): void {
    this.#loop.ring()
  }

  stop(): Promise<void> {
    return this.#loop.stop()
  }

  async #run(now: number): Promise<number> {
    const { ringQueue, store } = this.#deps
    const agents = store.all(db.selectFrom('agents').selectAll().where('updated_at', '>', 0))
    for (const agent of agents) {
      const verdict = verdictOn(store, agent, now)
      if (!verdict) continue
      await store.write((tx) => changePool(tx, agent, verdict, now))
      ringQueue()
    }
    for (const domain of busyDomains(store, now)) await store.write((tx) => judgeDomain(tx, domain, now))
    await store.writeSoon((tx) => forgetTallies(tx, now))
    return now + EVERY
  }
}

function changePool(tx: Tx, agent: Agent, { figures, on }: { on: AgentMove; figures: Figures }, now: number): void {
  const row = move(tx, agentMachine, agent.key, on, { status_at: now, updated_at: now })
  if (!row?.emits) return
  const { emits, from: previous_pool, to: pool } = row
  // Without this, the outcomes of the current hour would move the agent a second time.
  closeHour(tx, agent.user_key, agent.agent_id, now)
  reschedule(tx, agent, pool, now)
  appendEvent(tx, {
    type: emits,
    user_key: agent.user_key,
    data: { agent_id: agent.agent_id, pool, previous_pool, ...figures },
    at: now,
  })
}

/**
 * Reschedules queued email by the pace of the new pool. A retry does not become earlier than it was. Retries are
 * spread separately, so that new email does not wait hours for an old retry.
 */
function reschedule(tx: Tx, { agent_id, key, user_key }: Agent, pool: AgentStatus, now: number): void {
  const waiting = (tried: string, order: string): WaitingMail[] =>
    tx.all(
      raw<WaitingMail>(
        `select v.key, v.email_key, v.next_attempt_at from outbound_emails e join deliveries v on v.email_key = e.key
         where e.user_key = ? and e.status in ('queued', 'sent') and e.agent_id = ? and v.status = 'queued' and v.attempts ${tried}
         order by ${order} limit ${RESCHEDULED}`,
        [user_key, agent_id],
      ),
    )
  const fresh = spread(tx, waiting('= 0', 'v.key'), PACE[pool], () => now)
  spread(tx, waiting('> 0', 'v.next_attempt_at, v.key'), PACE[pool], ({ next_attempt_at }) => next_attempt_at)
  tx.run(setSlot({ key, at: fresh ?? now }))
}

interface WaitingMail {
  key: number
  email_key: number
  next_attempt_at: number
}

/**
 * Schedules emails `pace` apart and never before their own `notBefore`. Recipients of one email share a time.
 * Returns the first free time after them.
 */
function spread(
  tx: Tx,
  waiting: readonly WaitingMail[],
  pace: number,
  notBefore: (delivery: WaitingMail) => number,
): number | undefined {
  let slot: number | undefined
  let mail: number | undefined
  for (const delivery of waiting) {
    if (slot === undefined || mail !== delivery.email_key)
      slot = Math.max(notBefore(delivery), slot === undefined ? 0 : slot + pace)
    mail = delivery.email_key
    tx.run(db.updateTable('deliveries').set({ next_attempt_at: slot }).where('key', '=', delivery.key))
  }
  return slot === undefined ? undefined : slot + pace
}

interface JudgedAgent {
  key: number
  user_key: number
  warned_at: number | null
}

/** Domains that sent in the last week, and domains under a warning. */
function busyDomains(reader: Reader, now: number): JudgedAgent[] {
  return reader.all(
    raw<JudgedAgent>(
      `select d.key, d.user_key, r.warned_at from domains d left join domain_reputations r on r.domain_key = d.key
       where d.deleted_at is null and (r.warned_at is not null
         or exists (select 1 from tallies t where t.domain_key = d.key and t.hour >= ?))`,
      [Math.floor((now - WINDOW) / HOUR)],
    ),
  )
}

function judgeDomain(tx: Tx, { key, user_key, warned_at }: JudgedAgent, now: number): void {
  const figures = domainFigures(tx, key, now - WINDOW)
  const warn = warned_at === null && total(figures) >= ENOUGH && above(figures, BAD)
  const quiet = total(figures) === 0 && figures.complaints === 0
  const recover = warned_at !== null && (quiet || below(figures, GOOD))
  if (!warn && !recover) return
  const row = { domain_key: key, warned_at: warn ? now : null }
  tx.run(db.replaceInto('domain_reputations').values(row))
  appendEvent(tx, {
    type: warn ? 'domain.reputation_warning' : 'domain.reputation_recovered',
    user_key,
    domain_key: key,
    data: { ...figures },
    at: now,
  })
}

export interface ShownAgent extends Agent, Figures {
  email: string
}

/** Every agent with its owner and the figures of a week, for the operator. */
export function listAgents(reader: Reader, now: number): ShownAgent[] {
  return reader
    .all(
      db
        .selectFrom('agents')
        .innerJoin('users', 'users.key', 'agents.user_key')
        .selectAll('agents')
        .select('users.email')
        .orderBy('agents.key'),
    )
    .map((agent) => ({ ...agent, ...agentFigures(reader, agent.user_key, agent.agent_id, now - WINDOW) }))
}

/** "one a minute", "10 a second", "no limit". */
export function paceOf(status: AgentStatus): string {
  const pace = PACE[status]
  return pace === 0 ? 'no limit' : pace >= MINUTE ? '1 per minute' : `${SECOND / pace} per second`
}
