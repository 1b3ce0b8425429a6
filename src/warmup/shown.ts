// Pairs as the API, the console, commands and /metrics show them.
import { DAY, dateOf } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { domainOf } from '../message/lane-names.ts'
import { shapingRules } from '../smtp/shaping.ts'
import type { Reader } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { HISTORY_DAYS } from './judge.ts'
import { dayOf, isStopped, opensAt, receiversOf, type WarmupDay, type WarmupRow } from './pairs.ts'
import { dailyLimitOf, scheduleOf, TOTAL } from './schedule.ts'

/** The text of an empty list. */
export const NO_PAIR =
  'No providers yet. A provider appears here after the first email to it. Email to this machine and to private networks is not counted.'

export interface ShownWarmup {
  key: number
  id: string
  source: string
  receiver: string
  state: WarmupRow['status']
  /** From 1, or null if no schedule applies. */
  step: number | null
  daily_limit: number | null
  used: number
  remaining: number | null
  waiting: number
  reason: string | null
  since: number
  next_at: number | null
}

/** Recipients queued because of a limit, by receiver. They wait for all sources of their receiver together. */
export function waitingByReceiver(reader: Reader): Map<string, number> {
  const lanes = reader.all(
    raw<{ lane: string; times: number }>(
      `select lane, count(*) as times from deliveries
       where status = 'queued' and response >= 'warm-up:' and response < 'warm-up;' group by lane`,
    ),
  )
  const receivers = receiversOf(
    reader,
    lanes.map(({ lane }) => domainOf(lane)),
  )
  const found = new Map<string, number>()
  for (const { lane, times } of lanes)
    for (const receiver of [receivers.get(domainOf(lane)) ?? domainOf(lane), TOTAL])
      found.set(receiver, (found.get(receiver) ?? 0) + times)
  return found
}

interface Wanted {
  source?: readonly string[] | undefined
  receiver?: readonly string[] | undefined
  id?: readonly string[]
  key?: readonly number[]
}

interface ShownDeps {
  store: Reader
  config: Pick<Config, 'warmup'>
}

/** A pair today, without the email that waits, which belongs to its receiver. */
export type UsedPair = Omit<ShownWarmup, 'waiting'>

/** The matching pairs, most email today first. The total of a source comes before its receivers. */
export function usedPairs({ config, store: reader }: ShownDeps, now: number, wanted: Wanted = {}): UsedPair[] {
  const given = Object.entries(wanted).filter(([, values]) => values !== undefined)
  const rows = reader.all(
    raw<WarmupRow & { tried: number | null; verdict: WarmupDay['verdict'] }>(
      `select w.*, d.tried, d.verdict from warmups w left join warmup_days d on d.warmup_key = w.key and d.day = ?
       where ${['true', ...given.map(([column]) => `w.${column} in (select value from json_each(?))`)].join(' and ')}
       order by w.source, w.receiver <> '*', coalesce(d.tried, 0) desc, w.receiver`,
      [dayOf(now), ...given.map(([, values]) => JSON.stringify(values))],
    ),
  )
  return rows.map((row) => {
    const used = row.tried ?? 0
    // While warm-up is off, a pair has its state and no limit.
    const off = !config.warmup.enabled
    const daily_limit = off ? null : dailyLimitOf(scheduleOf(shapingRules(), row.receiver), row)
    const remaining = daily_limit === null ? null : Math.max(0, daily_limit - used)
    return {
      key: row.key,
      id: row.id,
      source: row.source,
      receiver: row.receiver,
      state: row.status,
      step: row.status === 'warm' || row.status === 'manual' || row.status === 'unlimited' ? null : row.step + 1,
      daily_limit,
      used,
      remaining,
      reason: off ? 'Warm-up is off: no limits apply.' : row.reason,
      since: row.since,
      next_at: remaining === 0 || (!off && isStopped(row, row.verdict)) ? opensAt(row, now) : null,
    }
  })
}

/** The same with the email that waits. */
export function shownWarmups(deps: ShownDeps, now: number, wanted: Wanted = {}): ShownWarmup[] {
  const waiting = waitingByReceiver(deps.store)
  return usedPairs(deps, now, wanted).map((pair) => ({ ...pair, waiting: waiting.get(pair.receiver) ?? 0 }))
}

/** A day of the history of a pair. */
export interface ShownDay {
  day: string
  daily_limit: number | null
  used: number
  deferred: number
  refused: number
  complained: number
  bounced: number
  verdict: WarmupDay['verdict']
}

/** The last days of a pair with email, the oldest first. `limit`: the daily limit that applies now. */
export const historyOfPair = (reader: Reader, key: number, now: number, limit: number | null): ShownDay[] =>
  reader
    .all(
      db
        .selectFrom('warmup_days')
        .select(['day', 'daily_limit', 'tried as used', 'deferred', 'refused', 'complained', 'bounced', 'verdict'])
        .where('warmup_key', '=', key)
        .where('day', '>', dayOf(now) - HISTORY_DAYS)
        .orderBy('day'),
    )
    .map((row) => ({
      ...row,
      day: dateOf(row.day * DAY),
      daily_limit: row.day === dayOf(now) ? limit : row.daily_limit,
    }))

/** Receivers that have their own label in /metrics. */
const MOST_LABELS = 50

/**
 * Figures for /metrics: the receivers with most email today by name, all others as `other`. Email that waits belongs to
 * no source: its source is `*`.
 */
export function warmupFigures(
  deps: ShownDeps,
  now: number,
  measure: 'daily_limit' | 'used' | 'waiting',
): [labels: { source: string; receiver: string }, value: number][] {
  const pairs = shownWarmups(deps, now).filter(({ receiver }) => receiver !== TOTAL)
  const busy = new Map<string, number>()
  for (const { receiver, used, waiting } of pairs) busy.set(receiver, (busy.get(receiver) ?? 0) + used + waiting)
  const byMail = [...busy].toSorted((one, other) => other[1] - one[1])
  const named = new Set(byMail.slice(0, MOST_LABELS).map(([name]) => name))
  const sums = new Map<string, [{ source: string; receiver: string }, number]>()
  const counted = new Set<string>()
  for (const pair of pairs) {
    if (measure === 'waiting' && counted.has(pair.receiver)) continue
    counted.add(pair.receiver)
    const source = measure === 'waiting' ? '*' : pair.source
    const receiver = named.has(pair.receiver) ? pair.receiver : 'other'
    const [labels, sum] = sums.get(`${source} ${receiver}`) ?? [{ source, receiver }, 0]
    sums.set(`${source} ${receiver}`, [labels, sum + (pair[measure] ?? 0)])
  }
  return [...sums.values()]
}
