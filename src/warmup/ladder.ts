// The rules of a pair's day, without a store: its allowance, its verdict, the step that follows (DV2 to DV4, DV6).
import type { Shares, ShapingRules } from '../smtp/shaping-file.ts'
import { SHARES } from '../smtp/shaping-file.ts'
import type { WarmupState } from '../states/warmup.ts'

/** The receiver that stands for all receivers of a source together. */
export const TOTAL = '*'

/** What holds for a receiver: its ladder and thresholds. */
export interface Ladder {
  steps: readonly number[]
  least: number
  hold: Shares
  back: Shares
}

/** The ladder of a receiver by the rules in force. */
export function ladderOf({ provider, warmup }: ShapingRules, receiver: string): Ladder {
  const { back, hold, ladder, least, others, total } = warmup
  if (receiver === TOTAL) return { steps: total, least, hold, back }
  const entry = provider.find(({ name }) => name === receiver)
  if (!entry) return { steps: others, least, hold, back }
  return {
    steps: entry.ladder ?? ladder,
    least,
    hold: Object.assign({}, hold, entry.hold),
    back: Object.assign({}, back, entry.back),
  }
}

export interface LadderPlace {
  status: WarmupState
  step: number
  fixed: number | null
}

/** The recipients that a day allows; null: no allowance. */
export function allowanceOf({ steps }: Ladder, { fixed, status, step }: LadderPlace): number | null {
  if (status === 'warm' || status === 'skipped') return null
  if (status === 'fixed') return fixed ?? 0
  return stepAt(steps, step)
}

const stepAt = (steps: readonly number[], step: number): number =>
  steps[Math.max(0, Math.min(step, steps.length - 1))] ?? 0

/** What was tried in a day, and what the receiver said about us. */
export interface DayFigures {
  tried: number
  bulk: number
  deferred: number
  refused: number
  complained: number
  bounced: number
  blocked: number
}

/** The first threshold that a day has passed. Shares count from `least` recipients on. */
export function passed(figures: DayFigures, thresholds: Shares, least: number): keyof Shares | undefined {
  if (figures.tried < least) return undefined
  return SHARES.find((each) => figures[each] / figures.tried > thresholds[each])
}

export type DayVerdict = 'good' | 'bad' | 'nothing'

/** What a day says about a pair. Without an allowance there is no good day, but a bad one. */
export function verdictOf(ladder: Ladder, allowance: number | null, figures: DayFigures): DayVerdict {
  if (figures.blocked > 0 || passed(figures, ladder.back, ladder.least)) return 'bad'
  if (passed(figures, ladder.hold, ladder.least) || allowance === null) return 'nothing'
  return figures.tried * 2 >= allowance && figures.tried > 0 ? 'good' : 'nothing'
}

/** The step above a number of recipients: the first that allows more, else the last. */
export function stepAbove(steps: readonly number[], recipients: number): number {
  const found = steps.findIndex((step) => step > recipients)
  return found < 0 ? steps.length - 1 : found
}

/** The step below a number of recipients: the last that allows less, else the first. */
export const stepBelow = (steps: readonly number[], recipients: number): number =>
  Math.max(
    0,
    steps.findLastIndex((step) => step < recipients),
  )

/** Days with little mail after which a pair begins to fall, and the days for each further step. */
const QUIET = 30
const WEEK = 7

/** Whether a day is one with little mail: under a tenth of what it allowed; for a warm pair, of its largest day. */
export const isQuiet = (level: number, tried: number): boolean => tried * 10 < Math.max(1, level)

/**
 * Whether the end of a day takes a step from a pair, after so many days with little mail in a row, this one included: a
 * warm pair falls once, any other a step for each further week (DV4).
 */
export const fallsAfter = (quietDays: number, status: WarmupState): boolean =>
  status === 'warm' ? quietDays >= QUIET : quietDays > QUIET && (quietDays - QUIET) % WEEK === 0

/** The part of an allowance that bulk mail leaves to transactional mail (DV6). */
const RESERVED = 0.2

export interface DayUse {
  tried: number
  bulk: number
  /** Transactional mail of a day, the mean of the 7 days before. */
  usual: number
  /** Bulk mail was ended for the day. */
  closed: boolean
}

/** Recipients that bulk mail may still try. */
export function roomForBulk(allowance: number | null, { bulk, closed, tried, usual }: DayUse): number {
  if (closed) return 0
  if (allowance === null) return Infinity
  const kept = Math.max(allowance * RESERVED, usual, tried - bulk)
  return Math.max(0, Math.floor(allowance - kept - bulk))
}

/** What `warmup.transactional_over` and `transactional_most` say. */
export interface OverLimit {
  over: 'send' | 'relay' | 'wait'
  /** How many times the allowance; 0: no limit. */
  most: number
}

/** Recipients that transactional mail may still try. */
export function roomForTransactional(allowance: number | null, { tried }: DayUse, { most, over }: OverLimit): number {
  if (allowance === null || (over === 'send' && most === 0)) return Infinity
  return Math.max(0, (over === 'send' ? allowance * most : allowance) - tried)
}
