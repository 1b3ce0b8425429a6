// A month and more by the rules alone: nothing passes an allowance, and steps follow mail, not the calendar.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { shapingRules } from '../../src/smtp/shaping-file.ts'
import { raw } from '../../src/store/query.ts'
import { closeDays, forgetDays } from '../../src/warmup/close.ts'
import { ladderOf, TOTAL } from '../../src/warmup/ladder.ts'
import { dayIn } from '../../src/warmup/pairs.ts'
import { Warmup } from '../../src/warmup/places.ts'
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
  at.config.warmup.transactional_over = 'wait'
  await at.take(1_000_000, false, pair)
}

describe('the ladder over weeks', () => {
  test('full days climb it, past the last step the pair is warm (DV3)', async () => {
    const { steps } = ladderOf(shapingRules(), PAIR.receiver)
    for (const step of steps) {
      await fill()
      assert.equal(at.history().at(-1)?.used, step)
      await at.nextDay()
    }
    assert.deepEqual([at.row()?.status, at.room() > 10_000], ['warm', true])
  })

  test('a quiet month on the first step is the first step (DV4)', async () => {
    await at.take(5)
    await at.nextDay(35)
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 0])
  })

  test('after 30 quiet days a step is lost for each 7 days more, not below the first (DV4)', async () => {
    for (let day = 0; day < 4; day++) {
      await fill()
      await at.nextDay()
    }
    assert.equal(at.row()?.step, 4)
    const steps: number[] = []
    for (let day = 1; day <= 75; day++) {
      await at.nextDay()
      steps.push(at.row()!.step)
    }
    assert.deepEqual(
      [29, 35, 36, 43, 50, 57, 74].map((index) => steps[index]),
      [4, 4, 3, 2, 1, 0, 0],
    )
    assert.match(at.row()?.reason ?? '', /days with little mail/)
  })

  test('mail of a tenth of the allowance keeps the step (DV4)', async () => {
    for (let day = 0; day < 3; day++) {
      await fill()
      await at.nextDay()
    }
    for (let day = 0; day < 45; day++) {
      await at.take(16)
      await at.nextDay()
    }
    assert.equal(at.row()?.step, 3)
  })

  test('a warm pair falls to the step above its largest day of the last 60 (DV4)', async () => {
    await at.take(1)
    await at.store.write((tx) => tx.run(raw(`update warmups set status = 'warm', step = 9`)))
    assert.equal(await at.take(600), 600)
    await at.nextDay(30)
    assert.equal(at.row()?.status, 'warm')
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 5])
  })

  test('days on which the server was down are judged when it is back (DV3, DV16)', async () => {
    await fill()
    at.clock.leap(3 * DAY)
    // A question alone may ask before; it remembers nothing of a day that is not judged.
    assert.equal(at.room(), 16)
    // The first mail of a day judges what is over, before the hourly task does.
    assert.equal(await at.take(1_000_000), 32)
    assert.deepEqual(
      at.history().map(({ verdict }) => verdict),
      ['good', null],
    )
    assert.equal(await closeDays(at), 0)
  })

  test('figures are kept for 60 days and shown for 35 (DV4)', async () => {
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
    test(`nothing passes an allowance, whatever is taken, given back, failed and restarted (DV7), seed ${seed}`, async () => {
      const random = seeded(seed)
      const upTo = (most: number): number => Math.floor(random() * (most + 1))
      at.config.warmup.transactional_over = 'wait'
      const receivers = ['Google', 'Microsoft consumer', 'Yahoo', 'r1.test', 'r2.test']
      let { warmup } = at
      const sum = new Map<string, number>()
      const count = (receiver: string, by: number): void => {
        for (const name of [receiver, TOTAL]) sum.set(name, (sum.get(name) ?? 0) + by)
      }
      for (let day = 0; day < 31; day++) {
        sum.clear()
        const allowances = new Map<string, number | null>()
        for (let turn = 0; turn < 20; turn++) {
          const pair = { source: PAIR.source, receiver: receivers[upTo(receivers.length - 1)]! }
          const bulk = random() < 0.7
          const now = at.clock.now()
          const wanted = upTo(80)
          const fails = random() < 0.1
          const work = at.store.write((tx) => {
            const taken = warmup.take(tx, pair, { bulk, wanted, now })
            if (fails) throw new Error('on purpose')
            return taken
          })
          const taken = fails ? await work.catch(() => 0) : await work
          count(pair.receiver, taken)
          const back = upTo(2) === 0 ? upTo(taken) : 0
          if (back > 0) {
            await at.store.write((tx) => warmup.giveBack(tx, pair, { bulk, count: back, takenAt: now }))
            count(pair.receiver, -back)
          }
          if (random() < 0.03) await at.note('deferred', upTo(3), { pair })
          // A killed process: what it remembered is gone.
          if (random() < 0.05) warmup = new Warmup(at)
          for (const [name, used] of sum) {
            const row = at.row({ source: PAIR.source, receiver: name })
            if (!row) continue
            const { steps } = ladderOf(shapingRules(), name)
            // What the day allowed at most: the pair may have gone back in its course.
            const most = Math.max(allowances.get(name) ?? 0, row.status === 'warm' ? Infinity : steps[row.step]!)
            allowances.set(name, most)
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
