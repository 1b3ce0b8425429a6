// Lanes that the operator holds (D81): mail for a receiving domain waits, what comes too, until it is released, also
// over a restart. And what waits by lane, for who decides.
import type { Clock } from '../../base/clock.ts'
import type { Reader, Store } from '../../store/database.ts'
import { db, raw } from '../../store/query.ts'
import { domainOf } from '../lane-names.ts'

/** The receiving domains that are held. */
export function heldLanes(reader: Reader): Set<string> {
  return new Set(reader.all(db.selectFrom('lane_holds').select('lane')).map(({ lane }) => lane))
}

/** Holds a receiving domain, or lets it go. */
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

export interface LaneState {
  /** The receiving domain. */
  domain: string
  queued: number
  active: number
  held: number
  /** When the oldest of them was accepted or last moved. */
  oldest: number | null
  next: number | null
  /** What was said last of those that wait. */
  response: string | null
}

/** Every receiving domain with undecided mail, or that is held; those with most mail first. */
export function laneStates(reader: Reader, most: number): LaneState[] {
  const rows = reader.all(
    raw<{ lane: string; queued: number; active: number; held: number; oldest: number | null; next: number | null }>(
      `select lane, sum(status = 'queued') as queued, sum(status = 'active') as active, sum(status = 'held') as held,
         min(expires_at) as oldest, min(case when status = 'queued' then next_attempt_at end) as next
       from deliveries where status in ('queued', 'active', 'held') group by lane`,
    ),
  )
  const lanes = new Map<string, LaneState>()
  const least = (one: number | null, other: number | null): number | null =>
    one === null ? other : other === null ? one : Math.min(one, other)
  for (const { lane, ...row } of rows) {
    const domain = domainOf(lane)
    const known = lanes.get(domain)
    lanes.set(domain, {
      domain,
      queued: row.queued + (known?.queued ?? 0),
      active: row.active + (known?.active ?? 0),
      held: row.held + (known?.held ?? 0),
      oldest: least(row.oldest, known?.oldest ?? null),
      next: least(row.next, known?.next ?? null),
      response: null,
    })
  }
  for (const domain of heldLanes(reader))
    if (!lanes.has(domain))
      lanes.set(domain, { domain, queued: 0, active: 0, held: 0, oldest: null, next: null, response: null })
  const sorted = [...lanes.values()]
    .toSorted(
      (one, other) => other.queued + other.held - (one.queued + one.held) || (one.domain < other.domain ? -1 : 1),
    )
    .slice(0, most)
  for (const lane of sorted) lane.response = lastResponse(reader, lane.domain)
  return sorted
}

function lastResponse(reader: Reader, domain: string): string | null {
  const row = reader.first(
    raw<{ response: string | null }>(
      `select response from deliveries where status = 'queued' and lane in (?, ?) and response is not null
       order by updated_at desc limit 1`,
      [domain, `~${domain}`],
    ),
  )
  return row?.response ?? null
}
