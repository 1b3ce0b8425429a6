// Waiting mail by recipient domain, for the operator. It is counted from indexes, so that the cost depends on the
// number of waiting emails and not on the number of all emails.
import type { Reader, Store } from '../../store/database.ts'
import { raw, db } from '../../store/query.ts'
import { domainOf, isBulk, boundBetween, bulkLane } from '../../message/lane-names.ts'
import type { Clock } from '../../base/clock.ts'

/** The last answer is read from this many queued emails of a lane, those with the latest next attempt. */
const LOOKED_AT = 100

export interface WaitingLane {
  /** The recipient domain. */
  domain: string
  queued: number
  active: number
  held: number
  next: number | null
}

const COUNTED = [
  `select lane, 'queued' as state, count(*) as times, min(next_attempt_at) as next from deliveries where status = 'queued' group by lane`,
  `select lane, 'active', count(*), null from deliveries where status = 'active' group by lane`,
  `select lane, 'held', count(*), null from deliveries where status = 'held' group by lane`,
].join(' union all ')

interface WaitingCount {
  lane: string
  state: 'queued' | 'active' | 'held'
  times: number
  next: number | null
}

/** Every recipient domain with undecided mail, and those in `also`, the domains with most mail first. */
export function waitingLanes(reader: Reader, also: Iterable<string>, most: number): WaitingLane[] {
  const lanes = new Map<string, WaitingLane>()
  const of = (domain: string): WaitingLane => {
    const lane = lanes.get(domain) ?? { domain, queued: 0, active: 0, held: 0, next: null }
    lanes.set(domain, lane)
    return lane
  }
  for (const { lane: name, next, state, times } of reader.all(raw<WaitingCount>(COUNTED))) {
    const lane = of(domainOf(name))
    lane[state] += times
    lane.next = Math.min(next ?? Infinity, lane.next ?? Infinity)
    if (lane.next === Infinity) lane.next = null
  }
  for (const domain of also) of(domain)
  return [...lanes.values()]
    .toSorted(
      (one, other) => other.queued + other.held - (one.queued + one.held) || (one.domain < other.domain ? -1 : 1),
    )
    .slice(0, most)
}

/** How many held emails of a lane are read to find the campaigns that hold them. */
export const HELD_LOOKED_AT = 10_000

export interface HoldingCampaign {
  id: string
  name: string
  /** The address of its owner. */
  account: string
  recipients: number
}

/** The paused campaigns that hold mail for a domain. The mail is held until its campaign resumes. */
export const holdingCampaigns = (reader: Reader, domain: string): HoldingCampaign[] =>
  reader.all(
    raw<HoldingCampaign>(
      `select c.id, c.name, u.email as account, count(*) as recipients
       from (select email_key from deliveries where status = 'held' and lane in (select value from json_each(?)) limit ${HELD_LOOKED_AT}) v
         join outbound_emails e on e.key = v.email_key join campaigns c on c.key = e.campaign_key join users u on u.key = c.user_key
       where c.status = 'paused' group by c.key order by recipients desc`,
      [JSON.stringify(lanesOf(reader, domain).filter(isBulk))],
    ),
  )

/** The last answer to queued mail for a domain, or null. */
export function lastResponse(reader: Reader, domain: string): string | null {
  const lanes = lanesOf(reader, domain)
  const tried = `select * from (select response, updated_at from deliveries where status = 'queued' and lane = ?
       order by next_attempt_at desc limit ${LOOKED_AT})`
  const row = reader.first(
    raw<{ response: string }>(
      `select response from (${lanes.map(() => tried).join(' union all ')}) where response is not null
       order by updated_at desc limit 1`,
      lanes,
    ),
  )
  return row?.response ?? null
}

/** Whether mail for a domain waits for its warm-up, as delivery/within-limits.ts writes it. */
export const isWarmingUp = (reader: Reader, domain: string): boolean =>
  reader.first(
    raw(
      `select 1 as waits from deliveries where status = 'queued' and response >= 'warm-up:' and response < 'warm-up;'
         and lane in (select value from json_each(?)) limit 1`,
      [JSON.stringify(lanesOf(reader, domain))],
    ),
  ) !== undefined

// Lanes that the operator holds (D81): all mail for a recipient domain waits, new mail too, until the domain is
// released. A hold survives a restart.

/** The recipient domains that are held. */
export function heldLanes(reader: Reader): Set<string> {
  return new Set(reader.all(db.selectFrom('lane_holds').select('lane')).map(({ lane }) => lane))
}

/** The lanes of a recipient domain: of campaign mail and of other mail, including those that are bound to a route. */
export function lanesOf(reader: Reader, domain: string): string[] {
  const lanes = [domain, bulkLane(domain)]
  const bound = (status: string): string =>
    `select distinct lane from deliveries where status = '${status}' and lane > ? and lane < ?`
  const both = lanes.flatMap((lane) => boundBetween(lane))
  const found = reader.all(
    raw<{ lane: string }>(['queued', 'queued', 'held', 'held'].map(bound).join(' union '), [...both, ...both]),
  )
  return [...lanes, ...found.map(({ lane }) => lane)]
}

/** Holds or releases a recipient domain. */
export function holdLane(
  { clock, store }: { store: Store; clock: Clock },
  domain: string,
  held: boolean,
): Promise<unknown> {
  return store.write((tx) =>
    tx.run(
      held
        ? db
            .insertInto('lane_holds')
            .values({ lane: domain, held_at: clock.now() })
            .onConflict((conflict) => conflict.doNothing())
        : db.deleteFrom('lane_holds').where('lane', '=', domain),
    ),
  )
}
