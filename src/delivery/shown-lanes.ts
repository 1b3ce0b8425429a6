// The receiving domains as the API, the console and the commands show them: what waits there, what is on hold, and what
// exchangers were found to take.
import { domainOf } from '../message/lane-names.ts'
import type { Reader } from '../store/database.ts'
import { learnedLanes, learnedOf, type LearnedOf } from './pacing/lane-memory.ts'
import { heldLanes } from './queue/holds.ts'
import { isWarmingUp, waitingLanes, type WaitingLane } from './queue/waiting.ts'

const MAX_LANES = 1000

export interface ShownLane extends WaitingLane, LearnedOf {
  /** Whether the operator holds it. */
  hold: boolean
}

/** The domains with mail that waits, on hold, or with limits learned in the last hour. */
export function shownLanes(reader: Reader, now: number): ShownLane[] {
  const held = heldLanes(reader)
  const learned = learnedLanes(reader, now)
  const also = [...held, ...learned.map(({ lane }) => domainOf(lane))]
  return waitingLanes(reader, also, MAX_LANES).map((lane) => ({
    ...lane,
    hold: held.has(lane.domain),
    ...learnedOf(learned, lane.domain),
  }))
}

/** One domain, also when nothing is known of it. */
export function shownLane(reader: Reader, now: number, domain: string): ShownLane {
  const none = { domain, queued: 0, active: 0, held: 0, next: null, hold: false }
  const found = shownLanes(reader, now).find((lane) => lane.domain === domain)
  return found ?? { ...none, connections: null, per_second: null, paused_until: null, learned_at: null }
}

export const LANE_REASONS = ['hold', 'pause', 'warm-up'] as const

/** Why mail of a domain is not tried now, in a word; null: it is tried when its turn comes. */
export const reasonOfLane = (
  reader: Reader,
  { domain, hold, paused_until, queued }: Pick<ShownLane, 'domain' | 'hold' | 'paused_until' | 'queued'>,
): (typeof LANE_REASONS)[number] | null =>
  hold ? 'hold' : paused_until !== null ? 'pause' : queued > 0 && isWarmingUp(reader, domain) ? 'warm-up' : null
