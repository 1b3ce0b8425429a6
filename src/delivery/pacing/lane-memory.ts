// Keeps the learned limits of receiving servers in the store, so that they survive a restart and commands can show them
// (D64). Only the server writes them, some seconds after a change. Limits older than an hour are forgotten.
import { HOUR, SECOND, type Cancel, type Clock } from '../../base/clock.ts'
import type { Log } from '../../base/log.ts'
import type { Reader, Store, Tx } from '../../store/database.ts'
import { db } from '../../store/query.ts'
import type { RowOf } from '../../store/schema/tables.ts'
import { domainOf } from '../../message/lane-names.ts'

export type LearnedLane = RowOf<'learned_lanes'>

const WRITTEN_AFTER = 3 * SECOND
export const REMEMBERED = HOUR

/** The limits learned in the last hour, by lane. Times in ms since the epoch, or null if unknown. */
export function learnedLanes(reader: Reader, now: number): LearnedLane[] {
  const rows = reader.all(
    db
      .selectFrom('learned_lanes')
      .selectAll()
      .where('learned_at', '>', now - REMEMBERED)
      .orderBy('lane'),
  )
  // Pauses that have ended are left out.
  return rows
    .map((row) => ({ ...row, paused_until: (row.paused_until ?? 0) > now ? row.paused_until : null }))
    .filter((row) => row.connections !== null || row.per_second !== null || row.paused_until !== null)
}

/** The learned limits of a recipient domain. `learned_at`: the time of the last change. */
export interface LearnedOf extends Omit<LearnedLane, 'lane' | 'learned_at'> {
  learned_at: number | null
}

/** The learned limits of a recipient domain: the stricter ones of campaign mail and other mail. */
export function learnedOf(learned: readonly LearnedLane[], domain: string): LearnedOf {
  const known = learned.filter(({ lane }) => domainOf(lane) === domain)
  const of = (name: Exclude<keyof LearnedLane, 'lane'>): number[] => known.flatMap((lane) => lane[name] ?? [])
  const least = (numbers: number[]): number | null => (numbers.length > 0 ? Math.min(...numbers) : null)
  const most = (numbers: number[]): number | null => (numbers.length > 0 ? Math.max(...numbers) : null)
  return {
    connections: least(of('connections')),
    per_second: least(of('per_second')),
    paused_until: most(of('paused_until')),
    learned_at: most(of('learned_at')),
  }
}

export class LaneMemory {
  readonly #deps: { store: Store; clock: Clock; log: Log }
  readonly #learned: (now: number) => LearnedLane[]
  #written = new Map<string, LearnedLane>()
  #cancel: Cancel | null = null

  /** `learned` returns the present limits. */
  constructor(deps: { store: Store; clock: Clock; log: Log }, learned: (now: number) => LearnedLane[]) {
    this.#deps = deps
    this.#learned = learned
  }

  recall(): LearnedLane[] {
    const lanes = learnedLanes(this.#deps.store, this.#deps.clock.now())
    this.#written = new Map(lanes.map((row) => [row.lane, row]))
    return lanes
  }

  /** Call it when a limit may have changed. Cheap. */
  note(): void {
    const { clock } = this.#deps
    this.#cancel ??= clock.wake(clock.now() + WRITTEN_AFTER, () => {
      this.#cancel = null
      void this.write()
    })
  }

  /** Writes the changed limits. If the write fails, it is repeated with the next change. */
  async write(): Promise<void> {
    this.#cancel?.()
    this.#cancel = null
    const { clock, log, store } = this.#deps
    const now = clock.now()
    const learned = new Map(this.#learned(now).map((row) => [row.lane, row]))
    const changed = [...learned.values()].filter((row) => !isSame(row, this.#written.get(row.lane)))
    const gone = [...this.#written.keys()].filter((lane) => !learned.has(lane))
    if (changed.length === 0 && gone.length === 0) return
    try {
      await store.write((tx) => keep(tx, changed, gone, now))
      this.#written = learned
    } catch (thrown) {
      log.fault('storing lane state', thrown)
    }
  }
}

const isSame = (row: LearnedLane, other: LearnedLane | undefined): boolean =>
  row.connections === other?.connections &&
  row.per_second === other.per_second &&
  row.paused_until === other.paused_until &&
  row.learned_at === other.learned_at

function keep(tx: Tx, changed: readonly LearnedLane[], gone: readonly string[], now: number): void {
  for (const { lane, ...row } of changed)
    tx.run(
      db
        .insertInto('learned_lanes')
        .values({ lane, ...row })
        .onConflict((conflict) => conflict.column('lane').doUpdateSet(row)),
    )
  for (const lane of gone) tx.run(db.deleteFrom('learned_lanes').where('lane', '=', lane))
  tx.run(db.deleteFrom('learned_lanes').where('learned_at', '<=', now - REMEMBERED))
}
