// Moves pairs by what their days say: at once when a receiver says no (DV5), and at the end of each day (DV3, DV4).
// Every move goes by the table of states; when a pair goes back, the operator is told, once a day (DV18).
import { DAY } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { shapingRules, SHARES, type Shares } from '../smtp/shaping-file.ts'
import { warmupMachine, type WarmupMove } from '../states/warmup.ts'
import { addNotice } from '../accounts/notices.ts'
import { operatorOf } from '../accounts/operator-notices.ts'
import type { Reader, Tx } from '../store/database.ts'
import { move } from '../store/move.ts'
import { db, raw } from '../store/query.ts'
import {
  allowanceOf,
  fallsAfter,
  isQuiet,
  ladderOf,
  passed,
  stepAbove,
  stepBelow,
  TOTAL,
  verdictOf,
  type DayFigures,
  type Ladder,
} from './ladder.ts'
import { dayIn, dayOf, sumsOf, type WarmupRow } from './pairs.ts'

export interface JudgeDeps {
  config: Pick<Config, 'notices' | 'warmup' | 'hostname'>
  log: Log
  /** Wakes the loop that mails notices. */
  noticed: () => void
}

/** A transaction at a time. */
export interface Moment extends JudgeDeps {
  tx: Tx
  now: number
}

/** Days whose mail counts for the level of a pair. */
const WEEK = 7
/** Days of the largest day to which a warm pair falls (DV4), and for which figures are kept. */
export const KEPT_DAYS = 60
/** Days of the history: what is said later about older mail does not count. */
export const HISTORY_DAYS = 35

const percent = (share: number): string => `${Number((share * 100).toPrecision(3))}%`

const SAID = {
  deferred: 'were put off',
  refused: 'were refused',
  complained: 'complained',
  bounced: 'bounced',
} as const

/** Receivers that must say the same before it says something about a source. */
const LEAST_RECEIVERS = 3

/**
 * The figures by which a day is judged. What a receiver says is held against its own pair; against the total of the
 * source it counts once, and from some receivers on: else whoever keeps one exchanger could end the bulk mail of all
 * accounts.
 */
function judgedFigures(
  reader: Reader,
  { key, receiver, source }: WarmupRow,
  day: number,
  { hold, least }: Ladder,
): ReturnType<typeof dayIn> & { ofReceivers?: true } {
  const figures = dayIn(reader, key, day)
  if (receiver !== TOTAL || !passed(figures, hold, least)) return figures
  const receivers = reader.one(
    raw<Shares>(
      `select ${SHARES.map((each) => `count(*) filter (where d.${each} > 0) as ${each}`).join(', ')}
       from warmup_days d join warmups w on w.key = d.warmup_key
       where w.source = ? and w.receiver <> ? and d.day = ?`,
      [source, TOTAL, day],
    ),
  )
  const heard = SHARES.map((each) => [each, receivers[each] < LEAST_RECEIVERS ? 0 : receivers[each]] as const)
  return { ...figures, ...Object.fromEntries(heard), ofReceivers: true }
}

/** Why a day is not good, in figures; `words`: what the receiver said. */
function reasonFor(
  ladder: Ladder,
  figures: DayFigures & { ofReceivers?: true },
  kind: 'hold' | 'back',
  words: string,
): string {
  const said = words === '' ? '' : `: “${words}”`
  if (figures.blocked > 0 && kind === 'back') return `The receiver blocks this address${said}.`
  const share = passed(figures, ladder[kind], ladder.least)
  if (!share) return `The receiver says no${said}.`
  const times = figures.ofReceivers
    ? `Recipients of ${figures[share]} receivers, each counted once, of ${figures.tried} recipients ${SAID[share]}`
    : `${figures[share]} of ${figures.tried} recipients ${SAID[share]}`
  return `${times} (${percent(figures[share] / figures.tried)}; up to ${percent(ladder[kind][share])} is fine)${said}.`
}

/** Moves a pair and sets its row; `row` is changed too. False when its state does not allow the move. */
export function moveTo(
  { log, now, tx }: Moment,
  row: WarmupRow,
  on: WarmupMove,
  set: Partial<Pick<WarmupRow, 'step' | 'fixed' | 'reason'>> = {},
): boolean {
  const made = move(tx, warmupMachine, row.key, on, { reason: null, ...set, updated_at: now })
  if (!made) return false
  const since = made.from === made.to && on === 'good' ? row.since : now
  tx.run(db.updateTable('warmups').set({ since }).where('key', '=', row.key))
  Object.assign(row, { reason: null, ...set, status: made.to, since, updated_at: now })
  const { reason, receiver, source } = row
  if (made.by === 'auto' && (made.from !== made.to || on === 'bad'))
    tx.afterCommit(() => log.info('warm-up moved', { source, receiver, from: made.from, to: made.to, why: reason }))
  return true
}

/** A pair goes back by one step; a warm one to the step below its week. The operator is told. */
function goBack(at: Moment, row: WarmupRow, reason: string): void {
  const { now, tx } = at
  const { steps } = ladderOf(shapingRules(), row.receiver)
  const today = dayOf(now)
  const step =
    row.status === 'warm'
      ? stepBelow(steps, sumsOf(tx, row.key, today - WEEK, today).tried / WEEK)
      : Math.max(0, Math.min(row.step, steps.length - 1) - 1)
  if (moveTo(at, row, 'bad', { step, reason })) tell(at, row, steps[step] ?? 0)
}

function tell({ config, noticed, now, tx }: Moment, row: WarmupRow, allowance: number): void {
  const today = dayOf(now)
  const operator = operatorOf(tx, config)
  if (row.told_day === today || !operator) return
  tx.run(db.updateTable('warmups').set({ told_day: today }).where('key', '=', row.key))
  row.told_day = today
  const { receiver, source } = row
  const whom = receiver === TOTAL ? `all receivers` : receiver
  const text = `${row.reason ?? ''}

From now on ${config.hostname} writes to at most ${allowance} recipients a day at ${whom} from ${source}, and to more after
good days. Nothing is lost: campaign mail waits, single mail goes on. The page Server, Warm-up and "postrider warmup show"
show all receivers.
`
  addNotice(tx, { ...operator, domain_key: null, subject: `Warm-up: ${whom} went back (${source})`, text }, now)
  tx.afterCommit(noticed)
}

/** Heeds what a reply, complaint or report has changed; its day has it already. It may end the bulk mail of today. */
export function judgeAtOnce(at: Moment, row: WarmupRow, mailDay: number, words: string): void {
  const { now, tx } = at
  const ladder = ladderOf(shapingRules(), row.receiver)
  const figures = judgedFigures(tx, row, mailDay, ladder)
  const today = dayOf(now)
  const verdict = verdictOf(ladder, allowanceOf(ladder, row), figures)
  const held = passed(figures, ladder.hold, ladder.least) !== undefined
  if (mailDay < today) return judgeLate(at, row, { ladder, figures, mailDay, words, verdict, held })
  if (verdict !== 'bad') {
    if (held) moveTo(at, row, 'hold', { reason: reasonFor(ladder, figures, 'hold', words) })
    return
  }
  if (row.closed_day === today || row.status === 'skipped') return
  tx.run(db.updateTable('warmups').set({ closed_day: today }).where('key', '=', row.key))
  row.closed_day = today
  goBack(at, row, reasonFor(ladder, figures, 'back', words))
}

interface Late {
  ladder: Ladder
  figures: ReturnType<typeof dayIn>
  mailDay: number
  words: string
  verdict: ReturnType<typeof verdictOf>
  held: boolean
}

/** A day that was judged gets a worse verdict: the pair goes back or holds from now on, once for that day. */
function judgeLate(at: Moment, row: WarmupRow, late: Late): void {
  const { figures, held, ladder, mailDay, verdict, words } = late
  // A day that is not judged yet gets its verdict with this figure in it.
  if (mailDay > row.judged_day || figures.verdict === 'bad' || figures.verdict === null) return
  if (verdict === figures.verdict || (verdict === 'nothing' && !held)) return
  if (verdict === 'good') return
  setVerdict(at.tx, row.key, mailDay, figures.allowance, verdict)
  if (verdict === 'bad') goBack(at, row, reasonFor(ladder, figures, 'back', words))
  else moveTo(at, row, 'hold', { reason: reasonFor(ladder, figures, 'hold', words) })
}

const setVerdict = (
  tx: Tx,
  key: number,
  day: number,
  allowance: number | null,
  verdict: ReturnType<typeof verdictOf>,
): unknown =>
  tx.run(db.updateTable('warmup_days').set({ allowance, verdict }).where('warmup_key', '=', key).where('day', '=', day))

/** Judges the days that are over, also those during which the server was down. `off`: their days change nothing. */
export function judgeDays(at: Moment, row: WarmupRow, off: boolean): void {
  const { now, tx } = at
  const yesterday = dayOf(now) - 1
  if (row.judged_day >= yesterday) return
  const first = Math.max(row.judged_day + 1, yesterday - KEPT_DAYS)
  for (let day = first; day <= yesterday; day++) {
    if (off) row.quiet_day = day + 1
    else judgeDay(at, row, day)
  }
  tx.run(db.updateTable('warmups').set({ judged_day: yesterday, quiet_day: row.quiet_day }).where('key', '=', row.key))
  row.judged_day = yesterday
}

function judgeDay(at: Moment, row: WarmupRow, day: number): void {
  const { tx } = at
  const ladder = ladderOf(shapingRules(), row.receiver)
  const figures = judgedFigures(tx, row, day, ladder)
  const allowance = allowanceOf(ladder, row)
  const found = verdictOf(ladder, allowance, figures)
  // A threshold that was passed in the course of the day counts, although more mail made the share small again.
  const heldThen = row.status === 'holding' && dayOf(row.since) === day
  const verdict = row.closed_day === day ? 'bad' : heldThen && found === 'good' ? 'nothing' : found
  setVerdict(tx, row.key, day, allowance, verdict)
  if (verdict === 'bad' && row.closed_day !== day) goBack(at, row, reasonFor(ladder, figures, 'back', ''))
  if (verdict === 'good') rise(at, row, ladder)
  else if (verdict === 'nothing' && passed(figures, ladder.hold, ladder.least))
    moveTo(at, row, 'hold', { reason: reasonFor(ladder, figures, 'hold', '') })
  settleQuiet(at, row, { ladder, day, allowance, tried: figures.tried })
}

function rise(at: Moment, row: WarmupRow, { steps }: Ladder): void {
  if (row.status !== 'warming') return void moveTo(at, row, 'good', {})
  if (row.step >= steps.length - 1) moveTo(at, row, 'graduate', { step: steps.length - 1 })
  else moveTo(at, row, 'good', { step: row.step + 1 })
}

interface DayOfPair {
  ladder: Ladder
  day: number
  allowance: number | null
  tried: number
}

/** Counts days with little mail, and takes a step after weeks of them. */
function settleQuiet(at: Moment, row: WarmupRow, of: DayOfPair): void {
  const { now, tx } = at
  const { allowance, day, ladder, tried } = of
  const largest = sumsOf(tx, row.key, day - KEPT_DAYS + 1, day + 1).largest
  if (!isQuiet(allowance ?? largest, tried)) return void (row.quiet_day = day + 1)
  const days = day - row.quiet_day + 1
  if (!fallsAfter(days, row.status)) return
  const reason = `${days} days with little mail: a receiver forgets an address that it does not see.`
  if (row.status === 'warm') {
    moveTo(at, row, 'quiet', { step: stepAbove(ladder.steps, largest), reason })
    row.quiet_day = day + 1
  } else if (row.status !== 'fixed' && row.status !== 'skipped' && row.step > 0) {
    const step = Math.min(row.step, ladder.steps.length - 1) - 1
    tx.run(db.updateTable('warmups').set({ step, reason, updated_at: now }).where('key', '=', row.key))
    Object.assign(row, { step, reason })
  }
}

/** The time at which a day begins. */
export const startOf = (day: number): number => day * DAY
