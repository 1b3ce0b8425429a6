// The daily limits in use: how many recipients can be attempted now, and the replies of receivers. The figures of a
// pair are kept in memory, so rows are read for an email only once a day and after a row of `warmups` has changed.
import { wordsOf } from '../reputation/receivers.ts'
import { shapingRules, type ShapingRules } from '../smtp/shaping.ts'
import type { Reader, Tx } from '../store/database.ts'
import { HISTORY_DAYS, judgeDays, judgeNow, type JudgeDeps } from './judge.ts'
import {
  addToDay,
  beginning,
  dayIn,
  dayOf,
  findPair,
  isStopped,
  pairIn,
  weekBefore,
  type Pair,
  type WarmupRow,
} from './pairs.ts'
import {
  capacityForBulk,
  capacityForTransactional,
  dailyLimitOf,
  scheduleOf,
  TOTAL,
  type DayUse,
  type WarmupLevel,
} from './schedule.ts'

/** The figures of a pair on a day. */
interface PairDay extends DayUse {
  key: number
  day: number
  dailyLimit: number | null
}

/** A receiver's reply about this server. `block`: it rejects all email of the sending IP address. */
export interface ReplyAboutUs {
  /** The day on which the email was sent. */
  mailDay: number
  kind: 'deferred' | 'refused' | 'complained' | 'bounced' | 'block'
  text: string
  now: number
}

/** Pairs in memory. Above this number all are read again. */
const MOST_KEPT = 50_000

const totalOf = ({ source }: Pair): Pair => ({ source, receiver: TOTAL })
const nameOf = ({ receiver, source }: Pair): string => `${source} ${receiver}`

export class DailyLimits {
  readonly #deps: JudgeDeps
  readonly #pairs = new Map<string, PairDay>()
  #generation = -1
  #rules: ShapingRules | undefined

  constructor(deps: JudgeDeps) {
    this.#deps = deps
  }

  get #enabled(): boolean {
    return this.#deps.config.warmup.enabled
  }

  /** Counts and returns how many of the `wanted` recipients can be attempted now. */
  take(tx: Tx, pair: Pair, { bulk, now, wanted }: { bulk: boolean; wanted: number; now: number }): number {
    const both = [pair, totalOf(pair)].map((each) => this.#inTx(tx, each, now))
    const capacity = this.#enabled ? Math.min(...both.map((each) => this.#capacity(each, bulk))) : wanted
    const taken = Math.max(0, Math.min(wanted, capacity))
    if (taken === 0) return 0
    for (const each of both) {
      each.tried += taken
      if (bulk) each.bulk += taken
      addToDay(tx, each.key, each.day, { tried: taken, bulk: bulk ? taken : 0 })
    }
    // The figures in memory count email that is not in the store then.
    tx.afterUndo(() => this.#forget())
    return taken
  }

  /** The number of recipients that can be attempted now. Infinity means no limit. */
  capacity(reader: Reader, pair: Pair, { bulk, now }: { bulk: boolean; now: number }): number {
    if (!this.#enabled) return Infinity
    return Math.min(...[pair, totalOf(pair)].map((each) => this.#capacity(this.#known(reader, each, now), bulk)))
  }

  /** Whether bulk email of a pair is stopped for the day. */
  isClosed(reader: Reader, pair: Pair, now: number): boolean {
    return this.#enabled && [pair, totalOf(pair)].some((each) => this.#known(reader, each, now).closed)
  }

  /** Stops bulk email of a pair at once, before the block that stops it is stored. */
  close(pair: Pair): void {
    const known = this.#pairs.get(nameOf(pair))
    if (known) known.closed = true
  }

  /** Releases slots of recipients for which RCPT was not sent. `takenAt` is the time of `take`. */
  giveBack(tx: Tx, pair: Pair, { bulk, count, takenAt }: { bulk: boolean; count: number; takenAt: number }): void {
    const day = dayOf(takenAt)
    const amounts = { tried: -count, bulk: bulk ? -count : 0 }
    for (const each of [pair, totalOf(pair)]) {
      const known = this.#pairs.get(nameOf(each))
      const key = known?.key ?? findPair(tx, each)?.key
      if (key === undefined) continue
      addToDay(tx, key, day, amounts)
      // Later, because until the commit the slots are not free.
      tx.afterCommit(() => {
        const still = this.#pairs.get(nameOf(each))
        if (still !== known || still?.day !== day) return
        still.tried += amounts.tried
        still.bulk += amounts.bulk
      })
    }
  }

  /** Counts a reply about this server for its receiver, and acts on it at once. */
  note(tx: Tx, pair: Pair, { kind, mailDay, now, text }: ReplyAboutUs): void {
    if (mailDay < dayOf(now) - HISTORY_DAYS) return
    const row = this.#judged(tx, pair, now)
    addToDay(tx, row.key, mailDay, kind === 'block' ? { blocked: 1 } : { [kind]: 1 })
    if (!this.#enabled) return
    judgeNow({ ...this.#deps, tx, now }, row, mailDay, wordsOf({ code: null, enhanced: null, text }))
    this.#pairs.delete(nameOf(pair))
  }

  #forget(): void {
    this.#pairs.clear()
  }

  #capacity(of: PairDay, bulk: boolean): number {
    const { transactional_overflow: over, transactional_overflow_factor: most } = this.#deps.config.warmup
    return bulk ? capacityForBulk(of.dailyLimit, of) : capacityForTransactional(of.dailyLimit, of, { over, most })
  }

  /** The row of a pair, whose days are judged up to yesterday. */
  #judged(tx: Tx, pair: Pair, now: number): WarmupRow {
    const row = pairIn(tx, pair, now)
    judgeDays({ ...this.#deps, tx, now }, row)
    return row
  }

  #inTx(tx: Tx, pair: Pair, now: number): PairDay {
    const known = this.#current(tx, pair, now)
    if (known) return known
    const row = this.#judged(tx, pair, now)
    // The row of a new pair changes no other one: their figures in memory stay right.
    this.#generation = tx.generation('warmups', 'changed')
    if (this.#pairs.size >= MOST_KEPT) this.#forget()
    const kept = this.#read(tx, pair, row, now)
    this.#pairs.set(nameOf(pair), kept)
    // The row may be undone with this transaction.
    tx.afterUndo(() => this.#forget())
    return kept
  }

  #known(reader: Reader, pair: Pair, now: number): PairDay {
    const known = this.#current(reader, pair, now)
    if (known) return known
    // Past days are evaluated if that can be stored. Otherwise the pair is not kept in memory.
    if ('run' in reader) return this.#inTx(reader as Tx, pair, now)
    const row = findPair(reader, pair) ?? { key: 0, fixed: null, ...beginning(reader, pair) }
    return this.#read(reader, pair, row, now)
  }

  /** The figures in memory, if they still apply. */
  #current(reader: Reader, pair: Pair, now: number): PairDay | undefined {
    const generation = reader.generation('warmups', 'changed')
    const rules = shapingRules()
    if (generation !== this.#generation || rules !== this.#rules) this.#forget()
    this.#generation = generation
    this.#rules = rules
    const known = this.#pairs.get(nameOf(pair))
    return known?.day === dayOf(now) ? known : undefined
  }

  #read(reader: Reader, pair: Pair, row: WarmupLevel & { key: number }, now: number): PairDay {
    const day = dayOf(now)
    const { bulk, tried, verdict } = dayIn(reader, row.key, day)
    const usual = weekBefore(reader, row.key, day).transactional
    const dailyLimit = dailyLimitOf(scheduleOf(shapingRules(), pair.receiver), row)
    return { key: row.key, day, dailyLimit, tried, bulk, usual, closed: isStopped(row, verdict) }
  }
}
