// Moves pairs by the results of their days: at once if a receiver blocks or rejects too much, and at the end of each
// day. A day costs at most one step. If a limit is reduced, the operator gets a notice.
import { percent } from '../base/text.ts'
import { DAY, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import type { Log } from '../base/log.ts'
import { addNotice } from '../users/notices.ts'
import { operatorOf } from '../users/operator-notices.ts'
import { shapingRules } from '../smtp/shaping.ts'
import { warmupMachine, type WarmupMove } from '../store/states/warmup.ts'
import type { Store, Tx } from '../store/database.ts'
import { move } from '../store/move.ts'
import { db, raw } from '../store/query.ts'
import { dayIn, dayOf, weekBefore, type WarmupRow } from './pairs.ts'
import {
  dailyLimitOf,
  exceeded,
  scheduleOf,
  stepBelow,
  TOTAL,
  verdictOf,
  type DayFigures,
  type DayVerdict,
  type Schedule,
} from './schedule.ts'

export interface JudgeDeps {
  config: Pick<Config, 'notices' | 'warmup' | 'hostname'>
  log: Log
  /** Wakes the loop that sends notices. */
  noticed: () => void
}

/** A transaction and its time. */
export interface Moment extends JudgeDeps {
  tx: Tx
  now: number
}

/** Days for which figures are kept. A pair without email for as long starts again. */
const KEPT_DAYS = 60
/** Days for which the receiver of a domain is kept after its last email. */
const DOMAINS_KEPT_DAYS = 180
/** Days of the history: results of older email are ignored. */
export const HISTORY_DAYS = 35

const REPLIED = {
  deferred: 'were deferred',
  refused: 'were rejected',
  complained: 'complained',
  bounced: 'bounced',
} as const

/** Why a day is not good. `reply` is the text of the receiver. */
function reasonFor(schedule: Schedule, figures: DayFigures, kind: 'hold' | 'reduce', reply: string): string {
  const quoted = reply === '' ? '' : `: “${reply}”`
  if (figures.blocked > 0 && kind === 'reduce') return `The provider blocks this IP address${quoted}.`
  const share = exceeded(figures, schedule[kind], schedule.least)
  if (!share) return `The provider rejects email${quoted}.`
  const rate = `${percent(figures[share] / figures.tried)}; limit ${percent(schedule[kind][share])}`
  return `${figures[share]} of ${figures.tried} recipients ${REPLIED[share]} (${rate})${quoted}.`
}

/** Moves a pair and sets its row, changing `row` too. False if its state does not allow the move. */
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
    tx.afterCommit(() => log.info('warmup_state_changed', { source, receiver, from: made.from, to: made.to, reason }))
  return true
}

/** Reduces a pair by one step, a warm one to the step below its week, and notifies the operator. */
function reduce(at: Moment, row: WarmupRow, { steps }: Schedule, reason: string): void {
  const { config, noticed, now, tx } = at
  const step =
    row.status === 'warm'
      ? stepBelow(steps, weekBefore(tx, row.key, dayOf(now)).tried)
      : Math.max(0, Math.min(row.step, steps.length - 1) - 1)
  if (!moveTo(at, row, 'bad', { step, reason })) return
  const operator = operatorOf(tx, config)
  if (!operator) return
  const { receiver, source } = row
  const whom = receiver === TOTAL ? `all providers` : receiver
  const text = `${reason}

Postrider on ${config.hostname} now sends to at most ${steps[step] ?? 0} recipients per day at ${whom} from ${source}. The limit
rises again after good days. No email is lost: transactional email is sent first, and campaign email over the limit stays
in the queue. For all limits, see Server, Warm-up in the console or run "postrider warmup show".
`
  addNotice(tx, { ...operator, domain_key: null, subject: `Warm-up: limit for ${whom} reduced (${source})`, text }, now)
  tx.afterCommit(noticed)
}

/** Sets the verdict of a day, with the limit that it started with. */
const decide = (tx: Tx, key: number, day: number, dailyLimit: number | null, verdict: DayVerdict): unknown =>
  tx.run(
    raw('update warmup_days set verdict = ?, daily_limit = coalesce(daily_limit, ?) where warmup_key = ? and day = ?', [
      verdict,
      dailyLimit,
      key,
      day,
    ]),
  )

/** Applies the figures of a day that have just changed. A bad day stops bulk email until it is over. */
export function judgeNow(at: Moment, row: WarmupRow, day: number, reply: string): void {
  const schedule = scheduleOf(shapingRules(), row.receiver)
  const figures = dayIn(at.tx, row.key, day)
  if (figures.verdict === 'bad' || row.status === 'unlimited') return
  const limit = dailyLimitOf(schedule, row)
  const { held, verdict } = verdictOf(schedule, limit, figures)
  if (verdict === 'bad') {
    decide(at.tx, row.key, day, limit, 'bad')
    reduce(at, row, schedule, reasonFor(schedule, figures, 'reduce', reply))
  } else if (held && figures.verdict !== 'neutral') {
    decide(at.tx, row.key, day, limit, 'neutral')
    moveTo(at, row, 'hold', { reason: reasonFor(schedule, figures, 'hold', reply) })
  }
}

/** Judges the days of a pair that are over, even those on which the server was down. */
export function judgeDays(at: Moment, row: WarmupRow): void {
  const { config, now, tx } = at
  const yesterday = dayOf(now) - 1
  if (row.judged_day >= yesterday) return
  if (config.warmup.enabled)
    for (let day = Math.max(row.judged_day + 1, yesterday - KEPT_DAYS); day <= yesterday; day++) judgeDay(at, row, day)
  tx.run(db.updateTable('warmups').set({ judged_day: yesterday }).where('key', '=', row.key))
  row.judged_day = yesterday
}

function judgeDay(at: Moment, row: WarmupRow, day: number): void {
  const { tx } = at
  // A day that exceeded a threshold stays so, although more email makes the rate small again.
  judgeNow(at, row, day, '')
  const { verdict: known, ...figures } = dayIn(tx, row.key, day)
  if (known !== null || figures.tried === 0) return
  const schedule = scheduleOf(shapingRules(), row.receiver)
  const limit = dailyLimitOf(schedule, row)
  const { verdict } = verdictOf(schedule, limit, figures)
  decide(tx, row.key, day, limit, verdict)
  if (verdict !== 'good') return
  const last = schedule.steps.length - 1
  if (row.status !== 'warming') moveTo(at, row, 'good')
  else if (row.step >= last) moveTo(at, row, 'graduate', { step: last })
  else moveTo(at, row, 'good', { step: row.step + 1 })
}

/** Pairs that one transaction judges. */
const AT_ONCE = 50

type CloseDeps = JudgeDeps & { store: Store; clock: Clock }

/** Judges every pair through yesterday. Returns how many were judged. */
export async function closeDays(deps: CloseDeps): Promise<number> {
  const { clock, store } = deps
  const yesterday = dayOf(clock.now()) - 1
  const open = db.selectFrom('warmups').selectAll().where('judged_day', '<', yesterday).limit(AT_ONCE)
  for (let judged = 0; ;) {
    const count = await store.write((tx) => {
      const rows = tx.all(open)
      for (const row of rows) judgeDays({ ...deps, tx, now: clock.now() }, row)
      return rows.length
    })
    judged += count
    if (count < AT_ONCE) return judged
  }
}

/** Deletes old figures, and pairs without email for as long, except those that an operator set. */
export async function forgetDays({ clock, store }: Pick<CloseDeps, 'clock' | 'store'>): Promise<void> {
  const today = dayOf(clock.now())
  const before = today - KEPT_DAYS
  await store.writeSoon((tx) => {
    tx.run(raw('delete from warmup_days where day < ?', [before]))
    tx.run(
      raw(
        `delete from warmups where set_at is null and created_at < ?
           and not exists (select 1 from warmup_days d where d.warmup_key = warmups.key)`,
        [before * DAY],
      ),
    )
    tx.run(raw('delete from warmup_domains where seen_at < ?', [(today - DOMAINS_KEPT_DAYS) * DAY]))
  })
}
