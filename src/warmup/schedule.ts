// The rules of a day, without a store: its limit, its verdict, and the step that follows.
import { SHARES, type ShapingRules, type Shares } from '../smtp/shaping.ts'
import type { WarmupState } from '../store/states/warmup.ts'

/** The name of all receivers of a sending IP address together. */
export const TOTAL = '*'

/** The steps and thresholds of a receiver. */
export interface Schedule {
  steps: readonly number[]
  least: number
  hold: Shares
  reduce: Shares
}

/** The schedule of a receiver by the shaping rules in force. */
export function scheduleOf({ provider, warmup }: ShapingRules, receiver: string): Schedule {
  const { hold, least, others, reduce, schedule, total } = warmup
  if (receiver === TOTAL) return { steps: total, least, hold, reduce }
  const entry = provider.find(({ name }) => name === receiver)
  if (!entry) return { steps: others, least, hold, reduce }
  return {
    steps: entry.schedule ?? schedule,
    least,
    hold: Object.assign({}, hold, entry.hold),
    reduce: Object.assign({}, reduce, entry.reduce),
  }
}

export interface WarmupLevel {
  status: WarmupState
  step: number
  /** The limit that an operator set. */
  fixed: number | null
}

/** The number of recipients per day, or null for no limit. */
export function dailyLimitOf({ steps }: Schedule, { fixed, status, step }: WarmupLevel): number | null {
  if (status === 'warm' || status === 'unlimited') return null
  if (status === 'manual') return fixed ?? 0
  return steps[Math.max(0, Math.min(step, steps.length - 1))] ?? 0
}

/** How many recipients were attempted on a day, and how the receiver replied. */
export interface DayFigures {
  tried: number
  bulk: number
  deferred: number
  refused: number
  complained: number
  bounced: number
  blocked: number
}

/** The first threshold that a day exceeds. Rates count from `least` recipients. */
export function exceeded(figures: DayFigures, thresholds: Shares, least: number): keyof Shares | undefined {
  if (figures.tried < least) return undefined
  return SHARES.find((each) => figures[each] / figures.tried > thresholds[each])
}

export type DayVerdict = 'good' | 'bad' | 'neutral'

/** The verdict of a day. `held`: it exceeds a hold threshold. Without a limit no day is good. */
export function verdictOf(
  schedule: Schedule,
  dailyLimit: number | null,
  figures: DayFigures,
): { verdict: DayVerdict; held: boolean } {
  const { hold, least, reduce } = schedule
  const held = exceeded(figures, hold, least) !== undefined
  if (figures.blocked > 0 || exceeded(figures, reduce, least)) return { verdict: 'bad', held }
  const good = !held && dailyLimit !== null && figures.tried > 0 && figures.tried * 2 >= dailyLimit
  return { verdict: good ? 'good' : 'neutral', held }
}

/** The step below a number of recipients: the last that allows less, or the first. */
export const stepBelow = (steps: readonly number[], recipients: number): number =>
  Math.max(
    0,
    steps.findLastIndex((step) => step < recipients),
  )

/** The part of a limit that bulk email leaves to transactional email. */
const RESERVED = 0.2

export interface DayUse {
  tried: number
  bulk: number
  /** Transactional email per day, the average of the 7 days before. */
  usual: number
  /** Bulk email is stopped for the day. */
  closed: boolean
}

/** Recipients that bulk email can still attempt. */
export function capacityForBulk(dailyLimit: number | null, { bulk, closed, tried, usual }: DayUse): number {
  if (closed) return 0
  if (dailyLimit === null) return Infinity
  const kept = Math.max(dailyLimit * RESERVED, usual, tried - bulk)
  return Math.max(0, Math.floor(dailyLimit - kept - bulk))
}

/** The settings `warmup.transactional_overflow` and `transactional_overflow_factor`. */
export interface Overflow {
  over: 'send' | 'relay' | 'wait'
  /** A multiple of the daily limit. 0 means no limit. */
  most: number
}

/** Recipients that transactional email can still attempt. */
export function capacityForTransactional(
  dailyLimit: number | null,
  { tried }: DayUse,
  { most, over }: Overflow,
): number {
  if (dailyLimit === null || (over === 'send' && most === 0)) return Infinity
  return Math.max(0, (over === 'send' ? dailyLimit * most : dailyLimit) - tried)
}
