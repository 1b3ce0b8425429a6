// How long a campaign takes (DV12): by today's allowances, what is used of them, and the ladders if all days are good.
import type { Config } from '../base/config.ts'
import { DAY, HOUR } from '../base/clock.ts'
import { shapingRules } from '../smtp/shaping-file.ts'
import type { Reader } from '../store/database.ts'
import { db, raw } from '../store/query.ts'
import { sourceNames } from './begin.ts'
import { allowanceOf, ladderOf, roomForBulk, TOTAL, type Ladder, type LadderPlace } from './ladder.ts'
import { beginning, dayOf, isTurnedOff, UNCOUNTED } from './pairs.ts'
import { receiversOf } from './shown.ts'

export interface ReceiverForecast {
  receiver: string
  recipients: number
  /** How many of them today. */
  today: number
  /** On how many days; null: it never ends. */
  days: number | null
}

export interface Forecast {
  recipients: number
  days: number | null
  ends_at: number | null
  relayed: number
  receivers: ReceiverForecast[]
  exact: boolean
  reason: string | null
}

type ForecastDeps = { store: Reader; config: Pick<Config, 'delivery' | 'hostname' | 'warmup'> }

/** A longer forecast says nothing. */
const LONGEST = 1000
const WEEK = 7

/** What is known of a pair today. */
interface PairToday extends LadderPlace {
  tried: number
  bulk: number
  usual: number
  closed: boolean
}

/** A pair in the days to come. */
class Climber {
  readonly #ladder: Ladder
  #at: PairToday
  /** What bulk mail may still try on the day. */
  #room: number

  constructor(receiver: string, at: PairToday) {
    this.#ladder = ladderOf(shapingRules(), receiver)
    this.#at = { ...at }
    this.#room = roomForBulk(allowanceOf(this.#ladder, at), at)
  }

  get room(): number {
    return this.#room
  }

  take(recipients: number): void {
    this.#room -= recipients
    this.#at.tried += recipients
  }

  /** The next day, after a good one; a day without enough mail is none (DV4). */
  climb(): void {
    const { status, step, tried } = this.#at
    const allowance = allowanceOf(this.#ladder, this.#at)
    const last = this.#ladder.steps.length - 1
    if (allowance !== null && tried * 2 >= allowance)
      if (status === 'holding' || status === 'back') this.#at.status = 'warming'
      else if (status === 'warming' && step >= last) this.#at.status = 'warm'
      else if (status === 'warming') this.#at.step++
    this.#at = { ...this.#at, tried: 0, bulk: 0, closed: false }
    this.#room = roomForBulk(allowanceOf(this.#ladder, this.#at), this.#at)
  }
}

/** The pairs of a source as they are today, read at once. */
function pairsToday(reader: Reader, source: string, now: number): (receiver: string) => PairToday {
  const day = dayOf(now)
  const rows = reader.all(
    raw<LadderPlace & { receiver: string; tried: number; bulk: number; week: number; closed: 0 | 1 }>(
      `select w.receiver, w.status, w.step, w.fixed, w.closed_day is ? as closed,
         coalesce(sum(case when d.day = ? then d.tried end), 0) as tried,
         coalesce(sum(case when d.day = ? then d.bulk end), 0) as bulk,
         coalesce(sum(case when d.day < ? then d.tried - d.bulk end), 0) as week
       from warmups w left join warmup_days d on d.warmup_key = w.key and d.day >= ? and d.day <= ?
       where w.source = ? group by w.key`,
      [day, day, day, day, day - WEEK, day, source],
    ),
  )
  const known = new Map(
    rows.map(({ closed, receiver, week, ...row }) => [receiver, { ...row, usual: week / WEEK, closed: closed === 1 }]),
  )
  return (receiver) =>
    known.get(receiver) ?? {
      ...beginning(reader, { source, receiver }),
      fixed: null,
      tried: 0,
      bulk: 0,
      usual: 0,
      closed: false,
    }
}

/** What becomes of so many recipients, by their domains, if they are written to from now on. */
export function forecast(
  { config, store }: ForecastDeps,
  byDomain: ReadonlyMap<string, number>,
  now: number,
): Forecast {
  const { known, receivers, uncounted } = grouped(store, config, byDomain)
  const recipients = [...byDomain.values()].reduce((sum, each) => sum + each, 0)
  const free = freeOf(store, config)
  const atOnce = ([receiver, some]: readonly [string, number]): ReceiverForecast => ({
    receiver,
    recipients: some,
    today: some,
    days: 1,
  })
  const unbounded = uncounted.map(atOnce)
  if (free !== null) {
    const all = [...receivers.map(atOnce), ...unbounded]
    const days = recipients === 0 ? 0 : 1
    return { recipients, days, ends_at: now, relayed: 0, receivers: all, exact: true, reason: free }
  }
  const relays = config.warmup.bulk_over === 'relay' && config.warmup.route !== ''
  const walked = overDays(store, sourcesOf(store, config), receivers, relays ? 1 : LONGEST, now)
  const relayed = relays ? walked.reduce((sum, each) => sum + each.recipients - each.today, 0) : 0
  const shown = [...(relays ? walked.map((each) => ({ ...each, days: 1 })) : walked), ...unbounded]
  const days = shown.reduce<number | null>(
    (most, each) => (most === null || each.days === null ? null : Math.max(most, each.days)),
    0,
  )
  return {
    recipients,
    days,
    ends_at: days === null ? null : days <= 1 ? now : (dayOf(now) + days - 1) * DAY + HOUR,
    relayed,
    receivers: shown,
    exact: known,
    reason: known
      ? null
      : 'Who receives for some domains shows with the first mail to them; until then each counts as a small receiver.',
  }
}

/** Why no warm-up counts at all; null: it counts. */
function freeOf(reader: Reader, { delivery, warmup }: ForecastDeps['config']): string | null {
  if (!warmup.enabled || isTurnedOff(reader)) return 'Warm-up is off.'
  return delivery.routes.some(({ domains }) => domains.includes('*')) ? 'All mail goes by a relay.' : null
}

/** The addresses that campaigns leave from: those that were noted at the start. */
function sourcesOf(reader: Reader, config: Pick<Config, 'delivery' | 'hostname'>): string[] {
  const seen = reader.all(db.selectFrom('warmup_sources').select(['source', 'seen_at']))
  const last = Math.max(...seen.map(({ seen_at }) => seen_at))
  const names = seen.filter(({ seen_at }) => seen_at === last).map(({ source }) => source)
  return names.length > 0 ? names : sourceNames(config)
}

interface GroupedRecipients {
  /** Whether the receiver of each domain is known. */
  known: boolean
  /** Those with most recipients first; a domain whose receiver is not known stands for itself. */
  receivers: [string, number][]
  /** Domains without a warm-up: of a route, or at addresses that are not public (DV17). */
  uncounted: [string, number][]
}

function grouped(
  reader: Reader,
  { delivery }: Pick<Config, 'delivery'>,
  byDomain: ReadonlyMap<string, number>,
): GroupedRecipients {
  const routed = new Set(delivery.routes.flatMap(({ domains }) => domains))
  const of = receiversOf(reader, [...byDomain.keys()])
  const sums = new Map<string, number>()
  const uncounted: [string, number][] = []
  let known = true
  for (const [domain, times] of byDomain) {
    const found = routed.has(domain) ? UNCOUNTED : of.get(domain)
    if (found === UNCOUNTED) uncounted.push([domain, times])
    else sums.set(found ?? domain, (sums.get(found ?? domain) ?? 0) + times)
    if (found === undefined) known = false
  }
  const receivers = [...sums].toSorted(([one, most], [other, more]) => more - most || (one < other ? -1 : 1))
  return { known, receivers, uncounted }
}

function overDays(
  reader: Reader,
  sources: readonly string[],
  receivers: readonly (readonly [string, number])[],
  longest: number,
  now: number,
): ReceiverForecast[] {
  const today = sources.map((source) => pairsToday(reader, source, now))
  const totals = today.map((of) => new Climber(TOTAL, of(TOTAL)))
  const all = receivers.map(([receiver, recipients]) => ({
    // A receiver that no day has reached yet stands where it stands today.
    pairs: undefined as Climber[] | undefined,
    left: recipients,
    shown: { receiver, recipients, today: 0, days: null as number | null },
  }))
  let open = all
  for (let day = 1; day <= longest && open.length > 0; day++) {
    for (const each of open) {
      if (totals.every(({ room }) => room === 0)) break
      each.pairs ??= today.map((of) => new Climber(each.shown.receiver, of(each.shown.receiver)))
      for (const [index, total] of totals.entries()) {
        const pair = each.pairs[index]
        const taken = Math.min(each.left, pair?.room ?? 0, total.room)
        each.left -= taken
        pair?.take(taken)
        total.take(taken)
        if (day === 1) each.shown.today += taken
      }
      if (each.left === 0) each.shown.days = day
    }
    for (const { pairs = [] } of open) for (const pair of pairs) pair.climb()
    for (const total of totals) total.climb()
    open = open.filter(({ left }) => left > 0)
  }
  return all.map(({ shown }) => shown)
}
