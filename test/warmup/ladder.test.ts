// The rules of a day, without a store.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shapingRules } from '../../src/smtp/shaping-file.ts'
import {
  allowanceOf,
  fallsAfter,
  ladderOf,
  passed,
  roomForBulk,
  roomForTransactional,
  stepAbove,
  stepBelow,
  TOTAL,
  verdictOf,
  type DayFigures,
} from '../../src/warmup/ladder.ts'
import { isAboutUs } from '../../src/smtp/reply-reason.ts'

const others = ladderOf(shapingRules(), 'there.test')
const day = (figures: Partial<DayFigures>): DayFigures => ({
  tried: 0,
  bulk: 0,
  deferred: 0,
  refused: 0,
  complained: 0,
  bounced: 0,
  blocked: 0,
  ...figures,
})

describe('the shipped ladders', () => {
  test('are those of the specification, by receiver (DV2)', () => {
    const rules = shapingRules()
    assert.deepEqual(
      ladderOf(rules, 'Google').steps,
      [50, 100, 200, 400, 800, 1500, 3000, 6000, 10000, 20000, 40000, 80000],
    )
    assert.deepEqual(others.steps, [20, 40, 80, 160, 320, 640, 1200, 2500, 5000, 10000])
    assert.equal(ladderOf(rules, TOTAL).steps[0], 300)
    const microsoft = ladderOf(rules, 'Microsoft consumer')
    assert.deepEqual([microsoft.steps[0], microsoft.steps.at(-1), microsoft.hold.deferred], [25, 40_000, 0.005])
    assert.deepEqual([microsoft.hold.refused, microsoft.back.deferred], [0.005, 0.1])
    for (const name of ['Telekom', 'Orange']) assert.equal(ladderOf(rules, name).steps[0], 20)
  })

  test('an allowance is the step, the number of an operator, or none (DV1)', () => {
    const at = { step: 2, fixed: null }
    for (const status of ['warming', 'holding', 'back'] as const)
      assert.equal(allowanceOf(others, { ...at, status }), 80)
    for (const status of ['warm', 'skipped'] as const) assert.equal(allowanceOf(others, { ...at, status }), null)
    assert.equal(allowanceOf(others, { step: 2, fixed: 7, status: 'fixed' }), 7)
    // A ladder that became shorter.
    assert.equal(allowanceOf(others, { step: 99, fixed: null, status: 'warming' }), 10_000)
  })
})

describe('the verdict of a day', () => {
  test('is good from half of the allowance on, and not below (DV3)', () => {
    assert.equal(verdictOf(others, 40, day({ tried: 20 })), 'good')
    assert.equal(verdictOf(others, 40, day({ tried: 19 })), 'nothing')
    assert.equal(verdictOf(others, 0, day({})), 'nothing')
  })

  test('is not good past a hold threshold and bad past a back threshold; the threshold itself is fine (DV3)', () => {
    for (const [kind, hold, back] of [
      ['deferred', 20, 100],
      ['refused', 5, 20],
      ['complained', 1, 3],
      ['bounced', 30, 80],
    ] as const) {
      assert.equal(verdictOf(others, 1000, day({ tried: 1000, [kind]: hold })), 'good', kind)
      assert.equal(verdictOf(others, 1000, day({ tried: 1000, [kind]: hold + 1 })), 'nothing', kind)
      assert.equal(verdictOf(others, 1000, day({ tried: 1000, [kind]: back })), 'nothing', kind)
      assert.equal(verdictOf(others, 1000, day({ tried: 1000, [kind]: back + 1 })), 'bad', kind)
    }
  })

  test('shares count from 20 tried on, a block from the first (DV3)', () => {
    assert.equal(passed(day({ tried: 19, deferred: 19 }), others.back, others.least), undefined)
    assert.equal(passed(day({ tried: 20, deferred: 3 }), others.back, others.least), 'deferred')
    assert.equal(verdictOf(others, 20, day({ tried: 1, blocked: 1 })), 'bad')
  })

  test('only replies about this server count (DV3)', () => {
    for (const each of ['rate', 'block', 'reputation', 'authentication', 'reverse', 'policy'] as const)
      assert.ok(isAboutUs(each))
    for (const each of ['greylist', 'full', 'user', 'content', 'tls', undefined] as const) assert.ok(!isAboutUs(each))
  })
})

describe('steps', () => {
  test('above and below a number of recipients (DV4, DV14)', () => {
    assert.deepEqual(
      [0, 19, 20, 39, 40, 9999, 10_000, 99_999].map((most) => stepAbove(others.steps, most)),
      [0, 0, 1, 1, 2, 9, 9, 9],
    )
    assert.deepEqual(
      [0, 20, 21, 40, 41, 99_999].map((mean) => stepBelow(others.steps, mean)),
      [0, 0, 0, 0, 1, 9],
    )
  })

  test('are lost after 30 quiet days, one for each 7 days more; a warm pair falls once (DV4)', () => {
    const falls = Array.from({ length: 60 }, (_, at) => at + 1).filter((days) => fallsAfter(days, 'warming'))
    assert.deepEqual(falls, [37, 44, 51, 58])
    assert.ok(!fallsAfter(29, 'warm') && fallsAfter(30, 'warm'))
  })
})

describe('who goes first', () => {
  const use = { tried: 0, bulk: 0, usual: 0, closed: false }

  test('bulk leaves a fifth, or what transactional mail usually needs, or what it has used (DV6)', () => {
    assert.equal(roomForBulk(100, use), 80)
    assert.equal(roomForBulk(100, { ...use, usual: 55 }), 45)
    assert.equal(roomForBulk(100, { ...use, tried: 90, bulk: 60 }), 10)
    assert.equal(roomForBulk(100, { ...use, tried: 90, bulk: 50 }), 10)
    assert.equal(roomForBulk(100, { ...use, tried: 150, bulk: 20 }), 0)
    assert.equal(roomForBulk(null, use), Infinity)
    assert.equal(roomForBulk(100, { ...use, closed: true }), 0)
    assert.equal(roomForBulk(null, { ...use, closed: true }), 0)
  })

  test('transactional mail goes beyond the allowance as it is set (DV6)', () => {
    const used = { ...use, tried: 90 }
    assert.equal(roomForTransactional(100, used, { over: 'send', most: 5 }), 410)
    assert.equal(roomForTransactional(100, used, { over: 'send', most: 0 }), Infinity)
    assert.equal(roomForTransactional(100, used, { over: 'wait', most: 5 }), 10)
    assert.equal(roomForTransactional(100, { ...used, tried: 120 }, { over: 'relay', most: 5 }), 0)
    assert.equal(roomForTransactional(null, used, { over: 'wait', most: 5 }), Infinity)
    // The end of bulk mail for a day is not theirs (DV5).
    assert.equal(roomForTransactional(100, { ...used, closed: true }, { over: 'send', most: 5 }), 410)
  })
})
