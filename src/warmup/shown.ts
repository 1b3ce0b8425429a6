// Pairs as the API, the console, commands and /metrics show them.
import { DAY, iso } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { domainOf } from '../message/lane-names.ts'
import { shapingRules } from '../smtp/shaping-file.ts'
import type { Reader } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { HISTORY_DAYS } from './judge.ts'
import { allowanceOf, ladderOf, TOTAL } from './ladder.ts'
import { dayOf, isTurnedOff, opensAt, type WarmupDay, type WarmupRow } from './pairs.ts'

/** What is said while there is no pair. */
export const NO_PAIR =
  'No receiver yet. One appears here with the first mail to it; mail to this machine and to private networks does not count.'

export interface ShownWarmup {
  key: number
  id: string
  source: string
  receiver: string
  state: WarmupRow['status']
  /** From 1; null where no ladder counts. */
  step: number | null
  allowance: number | null
  used: number
  left: number | null
  waiting: number
  relayed: number
  reason: string | null
  since: number
  next_at: number | null
}

/** Recipients that wait for a warm-up, by receiver. Mail waits for all sources of its receiver together. */
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
  for (const { lane, times } of lanes) {
    const receiver = receivers.get(domainOf(lane)) ?? domainOf(lane)
    found.set(receiver, (found.get(receiver) ?? 0) + times)
    found.set(TOTAL, (found.get(TOTAL) ?? 0) + times)
  }
  return found
}

/** The receivers of those domains whose receiver is known. */
export const receiversOf = (reader: Reader, domains: readonly string[]): Map<string, string> =>
  new Map(
    reader
      .all(
        raw<{ domain: string; receiver: string }>(
          'select domain, receiver from warmup_domains where domain in (select value from json_each(?))',
          [JSON.stringify(domains)],
        ),
      )
      .map(({ domain, receiver }) => [domain, receiver]),
  )

/** Recipients that a relay took over today, by receiver; under the total: all. */
function relayedToday(reader: Reader, day: number): Map<string, number> {
  const rows = reader.all(db.selectFrom('warmup_relayed').select(['receiver', 'relayed']).where('day', '=', day))
  const sum = rows.reduce((all, { relayed }) => all + relayed, 0)
  return new Map([...rows.map(({ receiver, relayed }) => [receiver, relayed] as const), [TOTAL, sum]])
}

interface Wanted {
  source?: readonly string[] | undefined
  receiver?: readonly string[] | undefined
  state?: readonly string[] | undefined
  id?: string
  key?: number
}

interface ShownDeps {
  store: Reader
  config: Pick<Config, 'warmup'>
}

/** The pairs that fit, those with most mail of today first; the total of a source before its receivers. */
export function shownWarmups({ config, store: reader }: ShownDeps, now: number, wanted: Wanted = {}): ShownWarmup[] {
  const day = dayOf(now)
  const conditions: [string, unknown][] = []
  const among = (column: string, values: readonly string[] | undefined): void => {
    if (values)
      conditions.push([`w.${column} collate nocase in (select value from json_each(?))`, JSON.stringify(values)])
  }
  among('source', wanted.source)
  among('receiver', wanted.receiver)
  among('status', wanted.state)
  if (wanted.key !== undefined) conditions.push(['w.key = ?', wanted.key])
  if (wanted.id !== undefined) conditions.push(['w.id = ?', wanted.id])
  const rows = reader.all(
    raw<WarmupRow & { tried: number | null }>(
      `select w.*, d.tried as tried from warmups w left join warmup_days d on d.warmup_key = w.key and d.day = ?
       ${conditions.length === 0 ? '' : `where ${conditions.map(([sql]) => sql).join(' and ')}`}
       order by w.source, w.receiver <> '*', coalesce(d.tried, 0) desc, w.receiver`,
      [day, ...conditions.map(([, value]) => value)],
    ),
  )
  const waiting = waitingByReceiver(reader)
  const relayed = relayedToday(reader, day)
  const off = !config.warmup.enabled || isTurnedOff(reader)
  return rows.map(({ tried, ...row }) => {
    const shown = shownPair(row, tried ?? 0, now, off)
    return { ...shown, waiting: waiting.get(row.receiver) ?? 0, relayed: relayed.get(row.receiver) ?? 0 }
  })
}

/** A pair today, without what waits or went by a relay, which belongs to its receiver. */
export type UsedPair = Omit<ShownWarmup, 'relayed' | 'waiting'>

/** The pairs of some receivers; they are found by an index. Undefined while warm-up is off. */
export function pairsOfReceivers(
  { config, store: reader }: ShownDeps,
  now: number,
  receivers: readonly string[],
): UsedPair[] | undefined {
  if (!config.warmup.enabled || isTurnedOff(reader)) return undefined
  const rows = reader.all(
    raw<WarmupRow & { tried: number | null }>(
      `select w.*, d.tried as tried from warmups w left join warmup_days d on d.warmup_key = w.key and d.day = ?
       where w.receiver in (select value from json_each(?)) order by w.source, w.receiver`,
      [dayOf(now), JSON.stringify(receivers)],
    ),
  )
  return rows.map(({ tried, ...row }) => shownPair(row, tried ?? 0, now, false))
}

/** While warm-up is off, a pair has its state and no allowance. */
function shownPair(row: WarmupRow, used: number, now: number, off: boolean): UsedPair {
  const allowance = off ? null : allowanceOf(ladderOf(shapingRules(), row.receiver), row)
  const closed = !off && row.closed_day === dayOf(now)
  const left = allowance === null ? null : Math.max(0, allowance - used)
  return {
    key: row.key,
    id: row.id,
    source: row.source,
    receiver: row.receiver,
    state: row.status,
    step: row.status === 'warm' || row.status === 'fixed' || row.status === 'skipped' ? null : row.step + 1,
    allowance,
    used,
    left,
    reason: off ? 'Warm-up is off: nothing is held back.' : row.reason,
    since: row.since,
    next_at: left === 0 || closed ? opensAt(row, now) : null,
  }
}

/** A day of the history of a pair. */
export interface ShownDay {
  day: string
  allowance: number | null
  used: number
  deferred: number
  refused: number
  complained: number
  bounced: number
  verdict: WarmupDay['verdict']
}

/** The last days of a pair with mail, the oldest first. `today`: the allowance that counts now. */
export const historyOfPair = (reader: Reader, key: number, now: number, today: number | null): ShownDay[] =>
  reader
    .all(
      db
        .selectFrom('warmup_days')
        .selectAll()
        .where('warmup_key', '=', key)
        .where('day', '>', dayOf(now) - HISTORY_DAYS)
        .orderBy('day'),
    )
    .map(({ allowance, bounced, complained, day, deferred, refused, tried, verdict }) => ({
      day: iso(day * DAY).slice(0, 10),
      allowance: day === dayOf(now) ? today : allowance,
      used: tried,
      deferred,
      refused,
      complained,
      bounced,
      verdict,
    }))

/** Receivers of /metrics that have a label of their own. */
const MOST_LABELS = 50

type Measure = 'allowance' | 'used' | 'waiting' | 'relayed'

/**
 * Figures of /metrics: the receivers with most mail of today by name, all others as `other`. What waits or went by a
 * relay belongs to no source: its source is `*`.
 */
export function warmupFigures(
  deps: ShownDeps,
  now: number,
  measure: Measure,
): [labels: { source: string; receiver: string }, value: number][] {
  const pairs = shownWarmups(deps, now).filter(({ receiver }) => receiver !== TOTAL)
  const busy = new Map<string, number>()
  for (const { receiver, used, waiting } of pairs) busy.set(receiver, (busy.get(receiver) ?? 0) + used + waiting)
  const byMail = [...busy].toSorted((one, other) => other[1] - one[1])
  const named = new Set(byMail.slice(0, MOST_LABELS).map(([name]) => name))
  const ofSource = measure === 'allowance' || measure === 'used'
  const sums = new Map<string, [{ source: string; receiver: string }, number]>()
  const counted = new Set<string>()
  for (const pair of pairs) {
    if (!ofSource && counted.has(pair.receiver)) continue
    counted.add(pair.receiver)
    const source = ofSource ? pair.source : '*'
    const receiver = named.has(pair.receiver) ? pair.receiver : 'other'
    const [labels, sum] = sums.get(`${source} ${receiver}`) ?? [{ source, receiver }, 0]
    sums.set(`${source} ${receiver}`, [labels, sum + (pair[measure] ?? 0)])
  }
  return [...sums.values()]
}
