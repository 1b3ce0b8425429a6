// How many days a campaign takes: by today's limits and their use, and the schedules if every day is good.
import { DAY, HOUR } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { shapingRules } from '../smtp/shaping.ts'
import type { Reader } from '../store/database.ts'
import { raw } from '../store/query.ts'
import { beginning, dayOf, isStopped, receiversOf, UNCOUNTED, type WarmupDay } from './pairs.ts'
import { sentToday, type Forecast, type ReceiverForecast } from '../parts/gate.ts'
import { capacityForBulk, dailyLimitOf, scheduleOf, TOTAL, type DayUse, type WarmupLevel } from './schedule.ts'
import { sourcesHere } from '../base/sources.ts'
import { sourceNames } from './sources.ts'

interface ForecastDeps {
  store: Reader
  config: Pick<Config, 'delivery' | 'hostname' | 'warmup'>
}

/** The longest forecast in days. */
const LONGEST = 1000

/** A pair on the days to come. */
class FuturePair {
  readonly #receiver: string
  #level: WarmupLevel
  #tried: number
  /** Recipients that bulk email can still attempt on the day. */
  capacity: number

  constructor(receiver: string, { fixed, status, step, ...use }: WarmupLevel & DayUse) {
    this.#receiver = receiver
    this.#level = { fixed, status, step }
    this.#tried = use.tried
    this.capacity = capacityForBulk(this.#limit, use)
    this.#usual = use.usual
  }

  readonly #usual: number

  get #limit(): number | null {
    return dailyLimitOf(scheduleOf(shapingRules(), this.#receiver), this.#level)
  }

  take(recipients: number): void {
    this.capacity -= recipients
    this.#tried += recipients
  }

  /** The next day. A day on which half of the limit was used is good. */
  advance(): void {
    const { status, step } = this.#level
    const limit = this.#limit
    if (limit !== null && this.#tried * 2 >= limit)
      if (status === 'holding' || status === 'reduced') this.#level.status = 'warming'
      else if (status === 'warming' && step >= scheduleOf(shapingRules(), this.#receiver).steps.length - 1)
        this.#level.status = 'warm'
      else if (status === 'warming') this.#level.step++
    this.#tried = 0
    this.capacity = capacityForBulk(this.#limit, { tried: 0, bulk: 0, usual: this.#usual, closed: false })
  }
}

/** Returns a function that creates the current pair of a source and a receiver. Reads all rows once. */
function pairsToday(reader: Reader, source: string, now: number): (receiver: string) => FuturePair {
  const day = dayOf(now)
  const rows = reader.all(
    raw<WarmupLevel & { receiver: string; tried: number; bulk: number; usual: number; verdict: WarmupDay['verdict'] }>(
      `select w.receiver, w.status, w.step, w.fixed, max(case when d.day = ? then d.verdict end) as verdict,
         coalesce(sum(case when d.day = ? then d.tried end), 0) as tried,
         coalesce(sum(case when d.day = ? then d.bulk end), 0) as bulk,
         coalesce(sum(case when d.day < ? then d.tried - d.bulk end), 0) / 7.0 as usual
       from warmups w left join warmup_days d on d.warmup_key = w.key and d.day between ? and ?
       where w.source = ? group by w.key`,
      [day, day, day, day, day - 7, day, source],
    ),
  )
  const known = new Map(rows.map((row) => [row.receiver, { ...row, closed: isStopped(row, row.verdict) }]))
  const none = { fixed: null, tried: 0, bulk: 0, usual: 0, closed: false }
  return (receiver) =>
    new FuturePair(receiver, known.get(receiver) ?? { ...beginning(reader, { source, receiver }), ...none })
}

/** The forecast for recipients, by their domains, if they are sent to from now on. */
export function forecast(
  { config, store }: ForecastDeps,
  byDomain: ReadonlyMap<string, number>,
  now: number,
): Forecast {
  if (!config.warmup.enabled) return sentToday(byDomain, now, 'Warm-up is off.')
  if (config.delivery.routes.some(({ domains }) => domains.includes('*')))
    return sentToday(byDomain, now, 'All email is sent via a relay.')
  const { known, limited, unlimited } = grouped(store, config, byDomain)
  const recipients = [...byDomain.values()].reduce((sum, each) => sum + each, 0)
  const relays = config.warmup.bulk_overflow === 'relay' && config.warmup.route !== ''
  const sources = sourceNames(config, sourcesHere(config)).map((source) => pairsToday(store, source, now))
  const spread = overDays(sources, limited, relays ? 1 : LONGEST)
  const relayed = relays ? spread.reduce((sum, each) => sum + each.recipients - each.today, 0) : 0
  const receivers = [
    ...spread.map((each) => (relays ? { ...each, days: 1 } : each)),
    ...sentToday(unlimited, now).receivers,
  ]
  const never = receivers.some(({ days }) => days === null)
  const days = never ? null : Math.max(0, ...receivers.map((each) => each.days ?? 0))
  return {
    recipients,
    days,
    ends_at: days === null ? null : days <= 1 ? now : (dayOf(now) + days - 1) * DAY + HOUR,
    relayed,
    receivers,
    exact: known,
    reason: known
      ? null
      : 'The provider of some domains is unknown until the first email to them. Until then, each counts as a small provider.',
  }
}

interface GroupedRecipients {
  /** Whether the receiver of each domain is known. */
  known: boolean
  /** By receiver, the largest first. A domain whose receiver is unknown is its own. */
  limited: [string, number][]
  /** Domains without a warm-up: of a route, or at private addresses. */
  unlimited: Map<string, number>
}

function grouped(
  reader: Reader,
  { delivery }: Pick<Config, 'delivery'>,
  byDomain: ReadonlyMap<string, number>,
): GroupedRecipients {
  const routed = new Set(delivery.routes.flatMap(({ domains }) => domains))
  const of = receiversOf(reader, [...byDomain.keys()])
  const sums = new Map<string, number>()
  const unlimited = new Map<string, number>()
  let known = true
  for (const [domain, count] of byDomain) {
    const found = routed.has(domain) ? UNCOUNTED : of.get(domain)
    if (found === UNCOUNTED) unlimited.set(domain, count)
    else sums.set(found ?? domain, (sums.get(found ?? domain) ?? 0) + count)
    if (found === undefined) known = false
  }
  const limited = [...sums].toSorted(([one, most], [other, more]) => more - most || (one < other ? -1 : 1))
  return { known, limited, unlimited }
}

function overDays(
  sources: readonly ((receiver: string) => FuturePair)[],
  receivers: readonly (readonly [string, number])[],
  longest: number,
): ReceiverForecast[] {
  const totals = sources.map((of) => of(TOTAL))
  const all = receivers.map(([receiver, recipients]) => ({
    // A receiver that no day has reached yet is as it is today.
    pairs: undefined as FuturePair[] | undefined,
    left: recipients,
    shown: { receiver, recipients, today: 0, days: null } as ReceiverForecast,
  }))
  let open = all
  for (let day = 1; day <= longest && open.length > 0; day++) {
    for (const each of open) {
      if (totals.every(({ capacity }) => capacity === 0)) break
      each.pairs ??= sources.map((of) => of(each.shown.receiver))
      for (const [index, total] of totals.entries()) {
        const pair = each.pairs[index]
        const taken = Math.min(each.left, pair?.capacity ?? 0, total.capacity)
        each.left -= taken
        pair?.take(taken)
        total.take(taken)
        if (day === 1) each.shown.today += taken
      }
      if (each.left === 0) each.shown.days = day
    }
    for (const pair of [...totals, ...open.flatMap(({ pairs = [] }) => pairs)]) pair.advance()
    open = open.filter(({ left }) => left > 0)
  }
  return all.map(({ shown }) => shown)
}
