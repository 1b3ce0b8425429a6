// Waiting mail by receiving domain, for the operator. It is counted from indexes, so that the cost depends on the
// number of waiting mails and not on the number of all mails.
import type { Reader } from '../../store/database.ts'
import { raw } from '../../store/query.ts'
import { domainOf, isBulk } from '../../message/lane-names.ts'
import { lanesOf } from './holds.ts'

/** The last answer is searched among this many queued mails of a lane: those whose next attempt is the latest. */
const LOOKED_AT = 100

export interface WaitingLane {
  /** The receiving domain. */
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

/** Every receiving domain with undecided mail, and those in `also`; the domains with most mail first. */
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

/** How much held mail of a lane is looked at to say which campaigns hold it. */
export const HELD_LOOKED_AT = 10_000

export interface HoldingCampaign {
  id: string
  name: string
  /** The address of its owner. */
  account: string
  recipients: number
}

/** The paused campaigns that hold mail for a domain: it is held until its campaign goes on. */
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

/** The last answer to mail that waits for a domain; null when there is none. */
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

/** Whether mail for a domain waits for its warm-up, as delivery/warming.ts writes it. */
export const isWarmingUp = (reader: Reader, domain: string): boolean =>
  reader.first(
    raw(
      `select 1 as waits from deliveries where status = 'queued' and response >= 'warm-up:' and response < 'warm-up;'
         and lane in (select value from json_each(?)) limit 1`,
      [JSON.stringify(lanesOf(reader, domain))],
    ),
  ) !== undefined
