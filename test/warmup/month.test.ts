// A month and more by the rules alone: a daily limit is never exceeded, and steps depend on email, not on the calendar.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { shapingRules } from '../../src/smtp/shaping.ts'
import { raw } from '../../src/store/query.ts'
import { closeDays, forgetDays } from '../../src/warmup/judge.ts'
import { DailyLimits } from '../../src/warmup/limits.ts'
import { scheduleOf, TOTAL } from '../../src/warmup/schedule.ts'
import { dayIn } from '../../src/warmup/pairs.ts'
import { seeded } from '../kit/seeded.ts'
import { desk, PAIR } from './desk.ts'

let at: ReturnType<typeof desk>
beforeEach(() => {
  at = desk()
})
afterEach(() => at.end())

/** Uses the day to the full: bulk mail and transactional mail. */
const fill = async (pair = PAIR): Promise<void> => {
  await at.take(1_000_000, true, pair)
  at.config.warmup.transactional_overflow = 'wait'
  await at.take(1_000_000, false, pair)
}

describe('the schedule over weeks', () => {
  test('full days raise the step, and past the last step the pair is warm', async () => {
    const { steps } = scheduleOf(shapingRules(), PAIR.receiver)
    for (const step of steps) {
      await fill()
      assert.equal(at.history().at(-1)?.used, step)
      await at.nextDay()
    }
    assert.deepEqual([at.row()?.status, at.room() > 10_000], ['warm', true])
  })

  test('a pair without email for 60 days starts again, unless an operator set it', async () => {
    await fill()
    await at.nextDay()
    assert.equal(at.row()?.step, 1)
    await at.nextDay(59)
    await forgetDays(at)
    assert.equal(at.row()?.step, 1)
    await at.set({ fix: 7 })
    await at.nextDay(2)
    await forgetDays(at)
    assert.equal(at.row()?.fixed, 7)
    assert.equal(at.row({ ...PAIR, receiver: TOTAL }), undefined)
  })

  test('evaluates days of downtime after the restart', async () => {
    await fill()
    at.clock.leap(3 * DAY)
    // A query before does not evaluate the past day.
    assert.equal(at.room(), 16)
    // The first email of a day evaluates past days before the hourly task does.
    assert.equal(await at.take(1_000_000), 32)
    assert.deepEqual(
      at.history().map(({ verdict }) => verdict),
      ['good', null],
    )
    assert.equal(await closeDays(at), 0)
  })

  test('keeps statistics for 60 days and shows 35', async () => {
    await at.take(5)
    await at.nextDay(34)
    assert.equal(at.history().length, 1)
    await at.nextDay()
    assert.equal(at.history().length, 0)
    const kept = () => at.store.one(raw<{ n: number }>('select count(*) as n from warmup_days')).n
    await at.nextDay(24)
    await forgetDays(at)
    assert.equal(kept(), 2)
    await at.nextDay(2)
    await forgetDays(at)
    assert.equal(kept(), 0)
  })
})

describe('random months', () => {
  for (const seed of [1, 2])
    test(`never exceeds a daily limit over random claims, releases, failures and restarts, seed ${seed}`, async () => {
      const random = seeded(seed)
      const upTo = (most: number): number => Math.floor(random() * (most + 1))
      at.config.warmup.transactional_overflow = 'wait'
      const receivers = ['Google', 'Microsoft consumer', 'Yahoo', 'r1.test', 'r2.test']
      let { limits } = at
      const sum = new Map<string, number>()
      const count = (receiver: string, by: number): void => {
        for (const name of [receiver, TOTAL]) sum.set(name, (sum.get(name) ?? 0) + by)
      }
      for (let day = 0; day < 31; day++) {
        sum.clear()
        const dailyLimits = new Map<string, number | null>()
        for (let turn = 0; turn < 20; turn++) {
          const pair = { source: PAIR.source, receiver: receivers[upTo(receivers.length - 1)]! }
          const bulk = random() < 0.7
          const now = at.clock.now()
          const wanted = upTo(80)
          const fails = random() < 0.1
          const work = at.store.write((tx) => {
            const taken = limits.take(tx, pair, { bulk, wanted, now })
            if (fails) throw new Error('on purpose')
            return taken
          })
          const taken = fails ? await work.catch(() => 0) : await work
          count(pair.receiver, taken)
          const back = upTo(2) === 0 ? upTo(taken) : 0
          if (back > 0) {
            await at.store.write((tx) => limits.giveBack(tx, pair, { bulk, count: back, takenAt: now }))
            count(pair.receiver, -back)
          }
          if (random() < 0.03) await at.note('deferred', upTo(3), { pair })
          // A killed process loses its memory.
          if (random() < 0.05) limits = new DailyLimits(at)
          for (const [name, used] of sum) {
            const row = at.row({ source: PAIR.source, receiver: name })
            if (!row) continue
            const { steps } = scheduleOf(shapingRules(), name)
            // The maximum of the day, because the pair may have been reduced later.
            const most = Math.max(dailyLimits.get(name) ?? 0, row.status === 'warm' ? Infinity : steps[row.step]!)
            dailyLimits.set(name, most)
            assert.ok(used <= most, `day ${day}: ${name} has used ${used} of ${most}`)
            assert.equal(used, dayIn(at.store, row.key, at.today()).tried, name)
          }
          at.clock.leap(Math.floor(HOUR / 2))
        }
        at.clock.leap(14 * HOUR)
        await closeDays(at)
      }
      assert.ok(at.row({ source: PAIR.source, receiver: 'Google' })!.step > 0)
    })
})
