// Lanes that the operator holds (D81): all mail for a receiving domain waits, new mail too, until the domain is
// released. A hold survives a restart.
import type { Clock } from '../../base/clock.ts'
import type { Reader, Store } from '../../store/database.ts'
import { boundBetween, bulkLane } from '../../message/lane-names.ts'
import { db, raw } from '../../store/query.ts'

/** The receiving domains that are held. */
export function heldLanes(reader: Reader): Set<string> {
  return new Set(reader.all(db.selectFrom('lane_holds').select('lane')).map(({ lane }) => lane))
}

/** The lanes of a receiving domain: of campaign mail and of other mail, and those of both that are bound to a way. */
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

/** Holds or releases a receiving domain. */
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
