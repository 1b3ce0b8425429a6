// How many recipients can be attempted now, counted in the store, and how a reply of a receiver changes it.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { DailyLimits } from '../../src/warmup/limits.ts'
import { opensAt } from '../../src/warmup/pairs.ts'
import { lastSet } from '../../src/warmup/settings.ts'
import { shownWarmups } from '../../src/warmup/shown.ts'
import { costing, costingAtOnce } from '../kit/cost.ts'
import { desk, PAIR } from './desk.ts'

let at: ReturnType<typeof desk>
beforeEach(() => {
  at = desk()
})
afterEach(() => at.end())

const triedInStore = (): number =>
  at.store.one(
    raw<{ tried: number }>(
      `select coalesce(sum(tried), 0) as tried from warmup_days where warmup_key = (select key from warmups where receiver = ?)`,
      [PAIR.receiver],
    ),
  ).tried
/** The same store, as a process sees it that has just started. */
const afterRestart = (): DailyLimits => new DailyLimits(at)

describe('slots', () => {
  test('are counted over all email of a pair, and over all receivers of a sending IP address', async () => {
    assert.equal(await at.take(100), 16)
    assert.equal(await at.take(100), 0)
    // Another receiver and another source have their own capacity.
    const other = { ...PAIR, receiver: 'elsewhere.test' }
    assert.equal(await at.take(5, true, other), 5)
    assert.equal(await at.take(5, true, { ...PAIR, source: '192.0.2.2' }), 5)
    // The total of a source: 300 on its first step, 240 of them for bulk mail.
    let taken = 16 + 5
    for (let receiver = 0; receiver < 40; receiver++)
      taken += await at.take(100, true, { ...PAIR, receiver: `r${receiver}.test` })
    assert.equal(taken, 240)
  })

  test('transactional email has a fifth reserved, and continues up to five times the daily limit', async () => {
    assert.equal(await at.take(100), 16)
    assert.equal(await at.take(4, false), 4)
    assert.equal(await at.take(1000, false), 80)
    assert.equal(await at.take(1, false), 0)
    for (const transactional_overflow of ['wait', 'relay'] as const) {
      at.config.warmup.transactional_overflow = transactional_overflow
      const pair = { ...PAIR, receiver: `${transactional_overflow}.test` }
      assert.equal(await at.take(1000, false, pair), 20)
    }
  })

  test('bulk email leaves as many as transactional email needed in the week before', async () => {
    for (let day = 0; day < 7; day++) {
      await at.take(12, false)
      await at.nextDay()
    }
    // 12 of 20 was a good day, 12 of 40 is too little for the next step.
    assert.equal(at.row()?.step, 1)
    assert.equal(at.room(), 28)
  })

  test('are read from the store after a restart, including used slots that were not released', async () => {
    await at.take(10)
    assert.equal(afterRestart().capacity(at.store, PAIR, { bulk: true, now: at.clock.now() }), 6)
    await at.store.write((tx) => at.limits.giveBack(tx, PAIR, { bulk: true, count: 4, takenAt: at.clock.now() }))
    assert.equal(at.room(), 10)
    assert.equal(afterRestart().capacity(at.store, PAIR, { bulk: true, now: at.clock.now() }), 10)
    assert.equal(triedInStore(), 6)
  })

  test('are not counted by a failed transaction, and are free only after the commit that releases them', async () => {
    await at.take(6)
    const failing = at.store.write((tx) => {
      assert.equal(at.limits.take(tx, PAIR, { bulk: true, wanted: 10, now: at.clock.now() }), 10)
      throw new Error('on purpose')
    })
    await assert.rejects(failing, /on purpose/)
    assert.equal(at.room(), 10)
    assert.equal(triedInStore(), 6)
    const undone = at.store.write((tx) => {
      at.limits.giveBack(tx, PAIR, { bulk: true, count: 6, takenAt: at.clock.now() })
      throw new Error('on purpose')
    })
    await assert.rejects(undone, /on purpose/)
    assert.equal(at.room(), 10)
  })

  test('two writes of one commit share the remaining limit, even if one of them fails', async () => {
    const taken = await Promise.allSettled([
      at.take(9),
      at.store.write((tx) => {
        at.limits.take(tx, PAIR, { bulk: true, wanted: 5, now: at.clock.now() })
        throw new Error('on purpose')
      }),
      at.take(9),
    ])
    assert.deepEqual(
      taken.map((each) => (each.status === 'fulfilled' ? each.value : 'failed')),
      [9, 'failed', 7],
    )
    assert.equal(triedInStore(), 16)
  })

  test('released after midnight count for the day on which they were taken', async () => {
    const takenAt = at.clock.now()
    await at.take(16)
    await at.nextDay()
    await at.take(16)
    await at.store.write((tx) => at.limits.giveBack(tx, PAIR, { bulk: true, count: 16, takenAt }))
    assert.deepEqual(
      at.history().map(({ used }) => used),
      [0, 16],
    )
  })

  test('each pair resumes at its own time in the first hour of the next day', () => {
    const now = at.clock.now()
    const midnight = (Math.floor(now / DAY) + 1) * DAY
    const moments = Array.from({ length: 200 }, (_, n) => opensAt({ ...PAIR, receiver: `r${n}.test` }, now))
    assert.ok(moments.every((moment) => moment >= midnight && moment < midnight + HOUR))
    assert.ok(new Set(moments).size > 150)
    assert.equal(opensAt(PAIR, now), opensAt(PAIR, now + 1))
  })

  test('cost one statement per commit for the sums, however many are taken', async () => {
    await at.take(1)
    let read = 0
    at.store.watch((sql) => void (read += /^\s*(?:select|insert)/i.test(sql) ? 1 : 0))
    await at.store.write((tx) => {
      for (let n = 0; n < 10; n++) at.limits.take(tx, PAIR, { bulk: true, wanted: 1, now: at.clock.now() })
    })
    assert.equal(read, 1)
  })
})

describe('1,000 receivers and 8 sources', () => {
  test('taking one costs a few microseconds per email, and the list fits the time limit of a page', async () => {
    const pairs = Array.from({ length: 8000 }, (_, n) => ({
      source: `192.0.2.${n % 8}`,
      receiver: `r${Math.floor(n / 8)}.test`,
    }))
    const now = at.clock.now()
    const round = (): Promise<unknown> =>
      at.store.write((tx) => {
        for (const pair of pairs) at.limits.take(tx, pair, { bulk: false, wanted: 1, now })
      })
    await round()
    await at.store.write((tx) => tx.run(raw(`update warmups set status = 'warm'`)))
    await round()
    // 5 rounds of 8,000: about 1 % of the cost of an email, 500 microseconds.
    await costing(600, async () => {
      for (let times = 0; times < 5; times++) await round()
    })
    assert.equal(costingAtOnce(150, () => shownWarmups(at, now)).length, 8008)
  })
})

describe('the replies of a receiver', () => {
  test('the pair holds immediately above a hold threshold, with rates and a reason', async () => {
    await at.take(16)
    await at.take(34, false)
    await at.note('deferred', 1, { text: '421 4.7.0 too much from ann@here.test' })
    assert.equal(at.row()?.status, 'warming')
    await at.note('deferred', 1, { text: '421 4.7.0 too much from ann@here.test' })
    const row = at.row()
    assert.equal(row?.status, 'holding')
    assert.equal(row?.reason, '2 of 50 recipients were deferred (4%; limit 2%): “421 4.7.0 too much from <address>”.')
    // The step stays, and the day is not good although enough was attempted and more email lowered the rate.
    await at.take(30, false)
    await at.nextDay()
    assert.deepEqual([at.row()?.step, at.history()[0]?.verdict], [0, 'neutral'])
    await at.take(16)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step, at.row()?.reason], ['warming', 0, null])
  })

  test('a block stops bulk email for the day, and transactional email continues', async () => {
    await at.take(3)
    await at.note('block', 1, { text: '550 5.7.1 blocked (S3140)' })
    assert.deepEqual(
      [at.row()?.status, at.row()?.reason],
      ['reduced', 'The provider blocks this IP address: “550 5.7.1 blocked (S3140)”.'],
    )
    assert.equal(at.room(), 0)
    assert.equal(await at.take(5), 0)
    assert.equal(await at.take(5, false), 5)
    // Other receivers of the source go on.
    assert.equal(await at.take(5, true, { ...PAIR, receiver: 'elsewhere.test' }), 5)
    await at.nextDay()
    assert.equal(await at.take(5), 5)
    assert.equal(at.history()[0]?.verdict, 'bad')
  })

  test('above a reduce threshold the pair loses one step, once per day, and regains it by good days', async () => {
    await at.take(16)
    await at.nextDay()
    await at.take(32)
    await at.nextDay()
    assert.equal(at.row()?.step, 2)
    await at.take(64)
    await at.note('refused', 20, { text: '550 5.7.1 no' })
    assert.deepEqual([at.row()?.status, at.row()?.step], ['reduced', 1])
    assert.equal(at.room(), 0)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['reduced', 1])
    await at.take(32)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 1])
    await at.take(32)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 2])
  })

  test('complaints count for the day of the email while that day is in the history', async () => {
    await at.take(16)
    await at.take(4, false)
    await at.nextDay()
    assert.equal(at.row()?.step, 1)
    await at.note('complained', 1, { ago: 1 })
    assert.deepEqual([at.row()?.status, at.row()?.step, at.history()[0]?.verdict], ['reduced', 0, 'bad'])
    // Today's bulk email continues, and the same day costs only one step.
    assert.equal(at.room(), 16)
    const moved = at.row()
    await at.note('complained', 3, { ago: 1 })
    assert.deepEqual(at.row(), moved)
    await at.nextDay(40)
    const late = at.row()
    await at.note('complained', 9, { ago: 41 })
    assert.deepEqual(at.row(), late)
  })

  test('a warm pair is reduced to the step below the mean of its week', async () => {
    await at.take(1)
    await at.store.write((tx) => tx.run(raw(`update warmups set status = 'warm', step = 9 where receiver <> '*'`)))
    await at.store.write((tx) => tx.run(raw(`update warmups set status = 'unlimited' where receiver = '*'`)))
    for (let day = 0; day < 7; day++) {
      assert.equal(await at.take(700), 700)
      await at.nextDay()
    }
    await at.take(100)
    await at.note('deferred', 11)
    assert.deepEqual([at.row()?.status, at.row()?.step, at.room()], ['reduced', 5, 0])
  })

  test('replies of one receiver change neither other receivers nor the total of the sending IP address', async () => {
    await at.take(100, false)
    await at.note('refused', 30, { text: 'no' })
    const others = ['*', 'other.test'].map((receiver) => ({ source: PAIR.source, receiver }))
    assert.equal(at.row(others[0])?.status, 'warming')
    assert.equal(at.room(true, others[1]), 16)
  })

  test('notifies the operator when a pair is reduced, at most once per pair and day', async () => {
    const told = () =>
      at.store.all(
        raw<{ subject: string; text: string; recipient: string }>('select subject, text, recipient from notices'),
      )
    await at.take(16)
    await at.take(20, false)
    await at.note('block', 3, { text: 'no' })
    await at.note('refused', 9)
    assert.deepEqual(
      told().map(({ recipient, subject }) => [recipient, subject]),
      [['operator@here.test', 'Warm-up: limit for there.test reduced (192.0.2.1)']],
    )
    assert.match(told()[0]!.text, /blocks this IP address: “no”[^]*at most 20 recipients per day/)
    await at.nextDay()
    await at.note('block')
    assert.equal(told().length, 2)
  })
})

describe('the settings of an operator', () => {
  test('apply to the next email: a limit, no limit, the first step, the schedule again', async () => {
    await at.take(16)
    await at.nextDay()
    await at.set({ fix: 10 })
    assert.deepEqual([at.row()?.status, at.room()], ['manual', 8])
    await at.set('skip')
    assert.equal(at.room(), 240, 'the total of the source counts on')
    await at.set('release')
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 1])
    await at.set('restart')
    assert.deepEqual([at.row()?.step, at.room()], [0, 16])
    assert.deepEqual([at.row()?.set_by, lastSet(at.store)], ['ann', at.clock.now()])
  })

  test('no day changes a manual or unlimited pair', async () => {
    await at.take(16)
    await at.set({ fix: 100 })
    await at.take(60)
    await at.note('deferred', 30)
    await at.nextDay(45)
    assert.deepEqual([at.row()?.status, at.row()?.fixed], ['manual', 100])
  })

  test('does not limit email and keeps all states while warm-up is off', async () => {
    await at.take(16)
    at.config.warmup.enabled = false
    assert.equal(at.room(), Infinity)
    assert.equal(await at.take(5000), 5000)
    await at.note('block')
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 0])
    at.config.warmup.enabled = true
    assert.equal(at.room(), 16)
  })
})
