// When a receiver raises an alarm: the thresholds, and the comparison of the last 24 hours with the week before.
import { RECEIVER_ALARM_KINDS, type ReceiverAlarmKind } from '../store/states/receiver-alarm.ts'
import { medianSeconds, type ReceiverSums } from './receivers.ts'

/** The minimum number of attempted recipients in the last 24 hours, and in the week before. */
const LEAST = 50
const LEAST_WEEK = 200

interface AlarmRule {
  /** The minimum ratio to the week before. */
  times: number
  /** The minimum difference to the week before. */
  points?: number
  /** A value that must be exceeded. */
  over?: number
  /** The minimum if the week before has too little email. Without it, there is no alarm then. */
  alone?: number
}

/** Rates are fractions of the attempted recipients. `slow` is the median delivery time in seconds. */
const RULES: Record<ReceiverAlarmKind, AlarmRule> = {
  deferred: { times: 3, points: 0.05, alone: 0.1 },
  refused: { times: 2, points: 0.02, alone: 0.05 },
  complained: { times: 2, over: 0.001, alone: 0.003 },
  slow: { times: 5, over: 600 },
}

/** The value that a kind of alarm measures at a receiver, or null if there is no value. */
export function measure(kind: ReceiverAlarmKind, sums: ReceiverSums): number | null {
  if (kind === 'slow') return medianSeconds(sums)
  const part = kind === 'deferred' ? sums.put_off : sums[kind]
  return sums.tried === 0 ? null : part / sums.tried
}

export interface AlarmJudgement {
  kind: ReceiverAlarmKind
  measured: number
  usual: number | null
  threshold: number
}

/** Returns the alarms of a day, compared with the week before it. */
export function judgeReceiver(day: ReceiverSums, week: ReceiverSums): AlarmJudgement[] {
  if (day.tried < LEAST) return []
  return RECEIVER_ALARM_KINDS.flatMap((kind) => {
    const measured = measure(kind, day)
    const usual = week.tried < LEAST_WEEK ? null : measure(kind, week)
    const limits = limitsOf(RULES[kind], usual)
    return measured !== null && limits && passes(measured, limits)
      ? [{ kind, measured, usual, threshold: Math.max(limits.from, limits.over) }]
      : []
  })
}

type AlarmLimits = { from: number; over: number }

/** `from` is inclusive, `over` exclusive. Undefined if there is no value to compare with. */
function limitsOf({ alone, over = 0, points = 0, times }: AlarmRule, usual: number | null): AlarmLimits | undefined {
  if (usual === null) return alone === undefined ? undefined : { from: alone, over: 0 }
  return { from: Math.max(times * usual, usual + points), over }
}

/** The tolerance of comparisons for rounding: 0.1 + 0.05 is not 0.15. */
const ROUNDING = 1e-9
const passes = (measured: number, { from, over }: AlarmLimits): boolean =>
  measured >= from - ROUNDING && measured > over + ROUNDING

/** Whether an alarm can close: the current value is below half of its threshold. */
export const isCalm = (measured: number | null, threshold: number): boolean => (measured ?? 0) < threshold / 2
