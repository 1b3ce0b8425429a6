// What delivery asks of warm-up: how many recipients may be tried now (DV1, DV6, DV7), and what became of them. The
// count is written in the caller's transaction, so a place that was taken stays taken after `kill -9`. The figures of a
// pair are remembered: nothing is read for a mail but once a day, and after a row of `warmups` has changed.
import { DAY } from '../base/clock.ts'
import { wordsOf } from '../reputation/receivers.ts'
import { shapingRules, type ShapingRules } from '../smtp/shaping-file.ts'
import type { Reader, Tx } from '../store/database.ts'
import { lastSet } from './settings.ts'
import { receiversOf } from './shown.ts'
import { raw } from '../store/query.ts'
import type { SumTable } from '../store/sums.ts'
import { HISTORY_DAYS, judgeAtOnce, judgeDays, type JudgeDeps } from './judge.ts'
import { allowanceOf, ladderOf, roomForBulk, roomForTransactional, TOTAL, type DayUse } from './ladder.ts'
import {
  addToDay,
  beginning,
  dayIn,
  dayOf,
  findPair,
  opensAt,
  isTurnedOff,
  pairIn,
  sumsOf,
  type Pair,
  type WarmupRow,
  UNCOUNTED,
} from './pairs.ts'

/** What is remembered of a pair for a day. */
interface Remembered extends DayUse {
  key: number
  day: number
  allowance: number | null
}

/** Pairs that are remembered; beyond this number all are read again. */
const MOST_REMEMBERED = 50_000
const WEEK = 7

/** What became of a recipient, about us. `block`: the receiver refuses all mail of the source. */
export interface AboutUs {
  /** The day (`dayOf`) on which the mail was tried. */
  mailDay: number
  kind: 'deferred' | 'refused' | 'complained' | 'bounced' | 'block'
  /** What the receiver said, '' when it said nothing. */
  words: string
  now: number
}

const RELAYED: SumTable = { table: 'warmup_relayed', by: ['receiver', 'day'], of: ['relayed'] }

/** A domain's receiver is written again after this time. */
const SEEN_AGAIN = 7 * DAY

export class Warmup {
  readonly #deps: JudgeDeps
  readonly #pairs = new Map<string, Remembered>()
  readonly #domains = new Map<string, { receiver: string; seenAt: number }>()
  #generation = -1
  #rules: ShapingRules | undefined

  constructor(deps: JudgeDeps) {
    this.#deps = deps
  }

  /** Whether allowances count now (DV15). */
  counts(reader: Reader): boolean {
    return this.#deps.config.warmup.enabled && !isTurnedOff(reader)
  }

  /** Counts and returns how many of the `wanted` recipients may be tried now. */
  take(tx: Tx, pair: Pair, { bulk, now, wanted }: { bulk: boolean; wanted: number; now: number }): number {
    const one = this.#inTx(tx, pair, now)
    const all = this.#inTx(tx, { source: pair.source, receiver: TOTAL }, now)
    const room = this.counts(tx) ? Math.min(this.#room(one, bulk), this.#room(all, bulk)) : wanted
    const taken = Math.max(0, Math.min(wanted, room))
    if (taken === 0) return 0
    for (const each of [one, all]) {
      each.tried += taken
      if (bulk) each.bulk += taken
      addToDay(tx, each.key, each.day, { tried: taken, bulk: bulk ? taken : 0 })
    }
    // What was remembered counts mail that is not in the store then.
    tx.afterUndo(() => this.forget())
    return taken
  }

  /** How many recipients may be tried now, without counting; Infinity: no allowance. */
  roomFor(reader: Reader, pair: Pair, { bulk, now }: { bulk: boolean; now: number }): number {
    if (!this.counts(reader)) return Infinity
    const room = (of: Pair): number => this.#room(this.#known(reader, of, now) ?? this.#asNew(reader, of, now), bulk)
    return Math.min(room(pair), room({ source: pair.source, receiver: TOTAL }))
  }

  /** The pair of a receiver whose mail has one source; the first where there are several. */
  pairWith(reader: Reader, receiver: string): Pair | undefined {
    return reader.first(
      raw<Pair>('select source, receiver from warmups where receiver = ? order by key limit 1', [receiver]),
    )
  }

  /** Whether bulk mail of a pair was ended for the day (DV5). */
  isClosed(reader: Reader, pair: Pair, now: number): boolean {
    return this.counts(reader) && this.#known(reader, pair, now)?.closed === true
  }

  /** Gives places back when RCPT was not sent; `takenAt` is the time of `take`. */
  giveBack(tx: Tx, pair: Pair, { bulk, count, takenAt }: { bulk: boolean; count: number; takenAt: number }): void {
    const day = dayOf(takenAt)
    const amounts = { tried: -count, bulk: bulk ? -count : 0 }
    for (const each of [pair, { source: pair.source, receiver: TOTAL }]) {
      const known = this.#pairs.get(nameOf(each))
      const key = known?.key ?? findPair(tx, each)?.key
      if (key === undefined) continue
      addToDay(tx, key, day, amounts)
      // Later, because until the commit the places are not free.
      tx.afterCommit(() => {
        const still = this.#pairs.get(nameOf(each))
        if (still !== known || still?.day !== day) return
        still.tried += amounts.tried
        still.bulk += amounts.bulk
      })
    }
  }

  /** Counts what a receiver said about us, and acts on it at once (DV3, DV5). */
  note(tx: Tx, pair: Pair, { kind, mailDay, now, words }: AboutUs): void {
    if (mailDay < dayOf(now) - HISTORY_DAYS) return
    const said = wordsOf({ code: null, enhanced: null, text: words })
    // That one receiver blocks an address says nothing about the others.
    for (const receiver of kind === 'block' ? [pair.receiver] : [pair.receiver, TOTAL]) {
      const row = this.#judged(tx, { source: pair.source, receiver }, now)
      addToDay(tx, row.key, mailDay, kind === 'block' ? { blocked: 1 } : { [kind]: 1 })
      if (this.counts(tx)) judgeAtOnce({ ...this.#deps, tx, now }, row, mailDay, said)
    }
  }

  /** When a pair opens again: on the next day, in its first hour, each pair at a minute of its own (DV8). */
  opensAt(pair: Pair, now: number): number {
    return opensAt(pair, now)
  }

  /** Counts recipients that a relay took over (DV10); after a restart the receiver may be given as its domain. */
  noteRelayed(tx: Tx, given: string, now: number, count = 1): void {
    const receiver = receiversOf(tx, [given]).get(given) || given
    tx.add(RELAYED, [receiver, dayOf(now)], [count])
  }

  /** Remembers which receiver a recipient domain has, so that a forecast knows it (DV12); null: it has no warm-up. */
  learn(tx: Tx, domain: string, found: string | null, now: number): void {
    const receiver = found ?? UNCOUNTED
    const known = this.#domains.get(domain)
    if (known?.receiver === receiver && now - known.seenAt < SEEN_AGAIN) return
    tx.run(
      raw(
        `insert into warmup_domains (domain, receiver, seen_at) values (?, ?, ?)
         on conflict (domain) do update set receiver = excluded.receiver, seen_at = excluded.seen_at`,
        [domain, receiver, now],
      ),
    )
    tx.afterCommit(() => {
      if (this.#domains.size >= MOST_REMEMBERED) this.#domains.clear()
      this.#domains.set(domain, { receiver, seenAt: now })
    })
  }

  /** When an operator last changed what holds: mail that waits for its pair is looked at again then (DV15). */
  setAt(reader: Reader): number {
    return lastSet(reader)
  }

  /** Forgets what is remembered: it is read again. */
  forget(): void {
    this.#pairs.clear()
  }

  #room(of: Remembered, bulk: boolean): number {
    const { transactional_most: most, transactional_over: over } = this.#deps.config.warmup
    return bulk ? roomForBulk(of.allowance, of) : roomForTransactional(of.allowance, of, { over, most })
  }

  /** The row of a pair with every day judged that is over. */
  #judged(tx: Tx, pair: Pair, now: number): WarmupRow {
    const row = pairIn(tx, pair, now)
    judgeDays({ ...this.#deps, tx, now }, row, !this.counts(tx))
    return row
  }

  #inTx(tx: Tx, pair: Pair, now: number): Remembered {
    const known = this.#fresh(tx, pair, now)
    if (known) return known
    const row = this.#judged(tx, pair, now)
    // The row of a new pair changes no other one: what is remembered of those stays right.
    this.#generation = tx.generation('warmups', 'changed')
    return this.#remember(tx, pair, row, now)
  }

  #known(reader: Reader, pair: Pair, now: number): Remembered | undefined {
    const known = this.#fresh(reader, pair, now)
    if (known) return known
    const row = findPair(reader, pair)
    if (!row) return undefined
    if (row.judged_day >= dayOf(now) - 1) return this.#remember(reader, pair, row, now)
    // The first question of a day: the days that are over are judged where that can be written, and nothing is
    // remembered where it cannot.
    return 'run' in reader ? this.#inTx(reader as Tx, pair, now) : this.#read(reader, pair, row, now)
  }

  /** What is remembered of a pair, when it still holds. */
  #fresh(reader: Reader, pair: Pair, now: number): Remembered | undefined {
    const generation = reader.generation('warmups', 'changed')
    const rules = shapingRules()
    if (generation !== this.#generation || rules !== this.#rules) this.forget()
    this.#generation = generation
    this.#rules = rules
    const known = this.#pairs.get(nameOf(pair))
    return known?.day === dayOf(now) ? known : undefined
  }

  #remember(reader: Reader, pair: Pair, row: WarmupRow, now: number): Remembered {
    if (this.#pairs.size >= MOST_REMEMBERED) this.forget()
    const remembered = this.#read(reader, pair, row, now)
    this.#pairs.set(nameOf(pair), remembered)
    // What was read may be undone with the transaction that it was read in.
    if ('afterUndo' in reader) (reader as Tx).afterUndo(() => this.forget())
    return remembered
  }

  #read(reader: Reader, pair: Pair, row: WarmupRow, now: number): Remembered {
    const day = dayOf(now)
    const { bulk, tried } = dayIn(reader, row.key, day)
    const usual = sumsOf(reader, row.key, day - WEEK, day).transactional / WEEK
    const allowance = allowanceOf(ladderOf(shapingRules(), pair.receiver), row)
    return { key: row.key, day, allowance, tried, bulk, usual, closed: row.closed_day === day }
  }

  /** A pair that nothing was tried for yet; it is not remembered, because it has no row. */
  #asNew(reader: Reader, pair: Pair, now: number): Remembered {
    const at = { ...beginning(reader, pair), fixed: null }
    const allowance = allowanceOf(ladderOf(shapingRules(), pair.receiver), at)
    return { key: 0, day: dayOf(now), allowance, tried: 0, bulk: 0, usual: 0, closed: false }
  }
}

const nameOf = ({ receiver, source }: Pair): string => `${source} ${receiver}`
