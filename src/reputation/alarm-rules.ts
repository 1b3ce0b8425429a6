// When a receiver raises an alarm (DV77): thresholds from config/receiver-alarms.toml, and the judgement on two sums.
import { parse } from 'smol-toml'
import { z } from 'zod'
import { configAsset } from '../base/assets.ts'
import { RECEIVER_ALARM_KINDS, type ReceiverAlarmKind } from '../states/receiver-alarm.ts'
import { medianSeconds, type ReceiverSums } from './receivers.ts'

const amount = z.number().positive()
const rule = z.strictObject({
  /** So many times what is usual, or more. */
  times: amount,
  /** So much more than what is usual, or more. */
  points: amount.optional(),
  /** More than this. */
  over: amount.optional(),
  /** This, or more, where nothing is known of the week before. */
  alone: amount.optional(),
})
const schema = z.strictObject({
  least: z.int().min(1),
  least_week: z.int().min(1),
  deferred: rule,
  refused: rule,
  complained: rule,
  slow: rule,
})

export type AlarmRules = z.output<typeof schema>

/** Reads the rules of a file. Throws when it is malformed. */
export const parseAlarmRules = (text: string): AlarmRules => schema.parse(parse(text))

let shipped: AlarmRules | undefined
export const alarmRules = (): AlarmRules => (shipped ??= parseAlarmRules(configAsset('receiver-alarms.toml')))

/** What a receiver did, as a kind of alarm measures it. Null: nothing was measured. */
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

/** What is unusual in a day, against the week before it. */
export function judgeReceiver(day: ReceiverSums, week: ReceiverSums, rules = alarmRules()): AlarmJudgement[] {
  if (day.tried < rules.least) return []
  return RECEIVER_ALARM_KINDS.flatMap((kind) => {
    const measured = measure(kind, day)
    const usual = week.tried < rules.least_week ? null : measure(kind, week)
    const limits = limitsOf(rules[kind], usual)
    return measured !== null && limits && passes(measured, limits)
      ? [{ kind, measured, usual, threshold: Math.max(limits.from, limits.over) }]
      : []
  })
}

type AlarmLimits = { from: number; over: number }

/** `from`: this or more; `over`: more than this. Undefined: there is nothing to compare with. */
function limitsOf(
  { alone, over = 0, points = 0, times }: AlarmRules['deferred'],
  usual: number | null,
): AlarmLimits | undefined {
  if (usual === null) return alone === undefined ? undefined : { from: alone, over: 0 }
  return { from: Math.max(times * usual, usual + points), over }
}

/** Shares are compared with some room for how they are stored: 0.1 + 0.05 is not 0.15. */
const ROUNDING = 1e-9
const passes = (measured: number, { from, over }: AlarmLimits): boolean =>
  measured >= from - ROUNDING && measured > over + ROUNDING

/** Whether an alarm may close: what is measured now lies below the half of what opened it. */
export const isCalm = (measured: number | null, threshold: number): boolean => (measured ?? 0) < threshold / 2
