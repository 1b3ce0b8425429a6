// Places: what may be tried now, counted in the store, and what a receiver says at once.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { raw } from '../../src/store/query.ts'
import { TOTAL } from '../../src/warmup/ladder.ts'
import { Warmup } from '../../src/warmup/places.ts'
import { shownWarmups } from '../../src/warmup/shown.ts'
import { turn } from '../../src/warmup/settings.ts'
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
const afterRestart = (): Warmup => new Warmup(at)

describe('places', () => {
  test('are sums over all mail of a pair, and of all receivers of a source (DV1)', async () => {
    assert.equal(await at.take(100), 16)
    assert.equal(await at.take(100), 0)
    // Another receiver and another source have room of their own.
    const other = { ...PAIR, receiver: 'elsewhere.test' }
    assert.equal(await at.take(5, true, other), 5)
    assert.equal(await at.take(5, true, { ...PAIR, source: '192.0.2.2' }), 5)
    // The total of a source: 300 on its first step, 240 of them for bulk mail.
    let taken = 16 + 5
    for (let receiver = 0; receiver < 40; receiver++)
      taken += await at.take(100, true, { ...PAIR, receiver: `r${receiver}.test` })
    assert.equal(taken, 240)
  })

  test('transactional mail has its fifth, and goes on to five times the allowance (DV6)', async () => {
    assert.equal(await at.take(100), 16)
    assert.equal(await at.take(4, false), 4)
    assert.equal(await at.take(1000, false), 80)
    assert.equal(await at.take(1, false), 0)
    for (const transactional_over of ['wait', 'relay'] as const) {
      at.config.warmup.transactional_over = transactional_over
      const pair = { ...PAIR, receiver: `${transactional_over}.test` }
      assert.equal(await at.take(1000, false, pair), 20)
    }
  })

  test('bulk leaves what transactional mail needed in the week before (DV6)', async () => {
    for (let day = 0; day < 7; day++) {
      await at.take(12, false)
      await at.nextDay()
    }
    // 12 of 20 was a good day, 12 of 40 is too little for the next step.
    assert.equal(at.row()?.step, 1)
    assert.equal(at.room(), 28)
  })

  test('are read from the store after a restart; what was not given back stays used (DV7)', async () => {
    await at.take(10)
    assert.equal(afterRestart().roomFor(at.store, PAIR, { bulk: true, now: at.clock.now() }), 6)
    await at.store.write((tx) => at.warmup.giveBack(tx, PAIR, { bulk: true, count: 4, takenAt: at.clock.now() }))
    assert.equal(at.room(), 10)
    assert.equal(afterRestart().roomFor(at.store, PAIR, { bulk: true, now: at.clock.now() }), 10)
    assert.equal(triedInStore(), 6)
  })

  test('are not counted by a transaction that fails, and are not free before the one that gives them back ends (DV7)', async () => {
    await at.take(6)
    const failing = at.store.write((tx) => {
      assert.equal(at.warmup.take(tx, PAIR, { bulk: true, wanted: 10, now: at.clock.now() }), 10)
      throw new Error('on purpose')
    })
    await assert.rejects(failing, /on purpose/)
    assert.equal(at.room(), 10)
    assert.equal(triedInStore(), 6)
    const undone = at.store.write((tx) => {
      at.warmup.giveBack(tx, PAIR, { bulk: true, count: 6, takenAt: at.clock.now() })
      throw new Error('on purpose')
    })
    await assert.rejects(undone, /on purpose/)
    assert.equal(at.room(), 10)
  })

  test('two writes of one commit share what is left, also when one of them fails (DV7)', async () => {
    const taken = await Promise.allSettled([
      at.take(9),
      at.store.write((tx) => {
        at.warmup.take(tx, PAIR, { bulk: true, wanted: 5, now: at.clock.now() })
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

  test('given back after midnight are of the day on which they were taken (DV7)', async () => {
    const takenAt = at.clock.now()
    await at.take(16)
    await at.nextDay()
    await at.take(16)
    await at.store.write((tx) => at.warmup.giveBack(tx, PAIR, { bulk: true, count: 16, takenAt }))
    assert.deepEqual(
      at.history().map(({ used }) => used),
      [0, 16],
    )
  })

  test('a pair opens in the first hour of the next day, each at a moment of its own (DV8)', () => {
    const now = at.clock.now()
    const midnight = (Math.floor(now / DAY) + 1) * DAY
    const moments = Array.from({ length: 200 }, (_, n) => at.warmup.opensAt({ ...PAIR, receiver: `r${n}.test` }, now))
    assert.ok(moments.every((moment) => moment >= midnight && moment < midnight + HOUR))
    assert.ok(new Set(moments).size > 150)
    assert.equal(at.warmup.opensAt(PAIR, now), at.warmup.opensAt(PAIR, now + 1))
  })

  test('cost no statement but one for the sums of a commit, however many are taken (DV7)', async () => {
    await at.take(1)
    let read = 0
    at.store.watch((sql) => void (read += /^\s*(?:select|insert)/i.test(sql) ? 1 : 0))
    await at.store.write((tx) => {
      for (let n = 0; n < 10; n++) at.warmup.take(tx, PAIR, { bulk: true, wanted: 1, now: at.clock.now() })
    })
    assert.equal(read, 1)
  })
})

describe('1,000 receivers and 8 sources', () => {
  test('taking places costs a few microseconds for a mail, and the list a page (DV97)', async () => {
    const pairs = Array.from({ length: 8000 }, (_, n) => ({
      source: `192.0.2.${n % 8}`,
      receiver: `r${Math.floor(n / 8)}.test`,
    }))
    const now = at.clock.now()
    const round = (): Promise<unknown> =>
      at.store.write((tx) => {
        for (const pair of pairs) at.warmup.take(tx, pair, { bulk: false, wanted: 1, now })
      })
    await round()
    await at.store.write((tx) => tx.run(raw(`update warmups set status = 'warm'`)))
    await round()
    // 5 rounds of 8,000: about 1 % of what a mail costs, 500 microseconds.
    await costing(600, async () => {
      for (let times = 0; times < 5; times++) await round()
    })
    assert.equal(costingAtOnce(150, () => shownWarmups(at, now)).length, 8008)
  })
})

describe('what a receiver says', () => {
  test('past a hold threshold the pair holds at once, with figures and words (DV5)', async () => {
    await at.take(16)
    await at.take(34, false)
    await at.note('deferred', 1, { words: '421 4.7.0 too much from ann@here.test' })
    assert.equal(at.row()?.status, 'warming')
    await at.note('deferred', 1, { words: '421 4.7.0 too much from ann@here.test' })
    const row = at.row()
    assert.equal(row?.status, 'holding')
    assert.equal(
      row?.reason,
      '2 of 50 recipients were put off (4%; up to 2% is fine): “421 4.7.0 too much from <address>”.',
    )
    // The step stays, and the day is not good although enough was tried and more mail made the share small.
    await at.take(30, false)
    await at.nextDay()
    assert.deepEqual([at.row()?.step, at.history()[0]?.verdict], [0, 'nothing'])
    await at.take(16)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step, at.row()?.reason], ['warming', 0, null])
  })

  test('a block ends bulk mail for the day, and transactional mail goes on (DV5)', async () => {
    await at.take(3)
    await at.note('block', 1, { words: '550 5.7.1 blocked (S3140)' })
    assert.deepEqual(
      [at.row()?.status, at.row()?.reason],
      ['back', 'The receiver blocks this address: “550 5.7.1 blocked (S3140)”.'],
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

  test('past a back threshold the pair loses one step, once a day, and gets it back by good days (DV5)', async () => {
    await at.take(16)
    await at.nextDay()
    await at.take(32)
    await at.nextDay()
    assert.equal(at.row()?.step, 2)
    await at.take(64)
    await at.note('refused', 20, { words: '550 5.7.1 no' })
    assert.deepEqual([at.row()?.status, at.row()?.step], ['back', 1])
    assert.equal(at.room(), 0)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['back', 1])
    await at.take(32)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 1])
    await at.take(32)
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 2])
  })

  test('complaints count for the day of the mail, as long as it is in the history (DV3)', async () => {
    await at.take(16)
    await at.take(4, false)
    await at.nextDay()
    assert.equal(at.row()?.step, 1)
    await at.note('complained', 1, { ago: 1 })
    assert.deepEqual([at.row()?.status, at.row()?.step, at.history()[0]?.verdict], ['back', 0, 'bad'])
    // Bulk mail of today goes on, and the same day costs one step alone.
    assert.equal(at.room(), 16)
    const moved = at.row()
    await at.note('complained', 3, { ago: 1 })
    assert.deepEqual(at.row(), moved)
    await at.nextDay(40)
    const late = at.row()
    await at.note('complained', 9, { ago: 41 })
    assert.deepEqual(at.row(), late)
  })

  test('a warm pair goes back to the step below the mean of its week (DV3)', async () => {
    await at.take(1)
    await at.store.write((tx) => tx.run(raw(`update warmups set status = 'warm', step = 9 where receiver <> '*'`)))
    await at.store.write((tx) => tx.run(raw(`update warmups set status = 'skipped' where receiver = '*'`)))
    for (let day = 0; day < 7; day++) {
      assert.equal(await at.take(700), 700)
      await at.nextDay()
    }
    await at.take(100)
    await at.note('deferred', 11)
    assert.deepEqual([at.row()?.status, at.row()?.step, at.room()], ['back', 5, 0])
  })

  test('the operator is told when a pair goes back, at most once a pair and day (DV18)', async () => {
    const told = () =>
      at.store.all(
        raw<{ subject: string; text: string; recipient: string }>('select subject, text, recipient from notices'),
      )
    await at.take(16)
    await at.take(20, false)
    await at.note('block', 3, { words: 'no' })
    await at.note('refused', 9)
    assert.deepEqual(
      told().map(({ recipient, subject }) => [recipient, subject]),
      [['operator@here.test', 'Warm-up: there.test went back (192.0.2.1)']],
    )
    assert.match(told()[0]!.text, /blocks this address: “no”[^]*at most 20 recipients a day/)
    await at.nextDay()
    await at.note('block')
    assert.equal(told().length, 2)
  })

  test('is held against the total of the source once a receiver, and from three receivers on (DV3)', async () => {
    const total = { source: PAIR.source, receiver: TOTAL }
    const refusing = (name: string) => ({ source: PAIR.source, receiver: name })
    await at.take(100, false)
    // Whoever has an exchanger of their own can refuse as much as they are sent.
    for (const name of ['one.test', 'two.test']) {
      await at.take(30, false, refusing(name))
      await at.note('refused', 30, { pair: refusing(name), words: 'no' })
      assert.equal(at.row(refusing(name))?.status, 'back')
    }
    assert.equal(at.row(total)?.status, 'warming')
    assert.ok(at.room(true, refusing('other.test')) > 0)
    await at.take(1, false, refusing('three.test'))
    await at.note('refused', 1, { pair: refusing('three.test') })
    const { reason, status } = at.row(total)!
    assert.equal(status, 'holding')
    assert.match(reason ?? '', /^Recipients of 3 receivers, each counted once, of 161 recipients were refused \(1\.86%/)
    await at.nextDay()
    assert.equal(at.history(total).at(-1)?.verdict, 'nothing')
  })
})

describe('what an operator sets', () => {
  test('holds from the next question on: a number, none, the first step, by itself again (DV15)', async () => {
    await at.take(16)
    await at.nextDay()
    await at.set({ fix: 10 })
    assert.deepEqual([at.row()?.status, at.room()], ['fixed', 8])
    await at.set('skip')
    assert.equal(at.room(), 240, 'the total of the source counts on')
    await at.set('release')
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 1])
    await at.set('restart')
    assert.deepEqual([at.row()?.step, at.room()], [0, 16])
    assert.deepEqual([at.row()?.set_by, at.warmup.setAt(at.store)], ['ann', at.clock.now()])
  })

  test('a fixed or skipped pair is moved by no day (DV15)', async () => {
    await at.take(16)
    await at.set({ fix: 100 })
    await at.take(60)
    await at.note('deferred', 30)
    await at.nextDay(45)
    assert.deepEqual([at.row()?.status, at.row()?.fixed], ['fixed', 100])
  })

  test('turned off, nothing is bounded or moved and all states stay (DV15)', async () => {
    await at.take(16)
    await at.store.write((tx) => turn(tx, false, 'ann', at.clock.now()))
    assert.equal(at.room(), Infinity)
    assert.equal(await at.take(5000), 5000)
    await at.note('block')
    await at.nextDay()
    assert.deepEqual([at.row()?.status, at.row()?.step], ['warming', 0])
    await at.store.write((tx) => turn(tx, true, 'ann', at.clock.now()))
    assert.equal(at.room(), 16)
    at.config.warmup.enabled = false
    assert.equal(at.room(), Infinity)
  })
})
