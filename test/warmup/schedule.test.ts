// The rules of a day, without a store.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { shapingRules } from '../../src/smtp/shaping.ts'
import {
  dailyLimitOf,
  scheduleOf,
  capacityForBulk,
  capacityForTransactional,
  exceeded,
  stepBelow,
  TOTAL,
  verdictOf,
  type DayFigures,
} from '../../src/warmup/schedule.ts'
import { isAboutUs } from '../../src/smtp/reply-reason.ts'

const others = scheduleOf(shapingRules(), 'there.test')
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

const verdict = (...given: Parameters<typeof verdictOf>): string => verdictOf(...given).verdict

describe('the shipped schedules', () => {
  test('equal those of the specification, by receiver', () => {
    const rules = shapingRules()
    assert.deepEqual(
      scheduleOf(rules, 'Google').steps,
      [50, 100, 200, 400, 800, 1500, 3000, 6000, 10000, 20000, 40000, 80000],
    )
    assert.deepEqual(others.steps, [20, 40, 80, 160, 320, 640, 1200, 2500, 5000, 10000])
    assert.equal(scheduleOf(rules, TOTAL).steps[0], 300)
    const microsoft = scheduleOf(rules, 'Microsoft consumer')
    assert.deepEqual([microsoft.steps[0], microsoft.steps.at(-1), microsoft.hold.deferred], [25, 40_000, 0.005])
    assert.deepEqual([microsoft.hold.refused, microsoft.reduce.deferred], [0.005, 0.1])
    for (const name of ['Telekom', 'Orange']) assert.equal(scheduleOf(rules, name).steps[0], 20)
  })

  test('the daily limit is the step, the number set by an operator, or unlimited', () => {
    const at = { step: 2, fixed: null }
    for (const status of ['warming', 'holding', 'reduced'] as const)
      assert.equal(dailyLimitOf(others, { ...at, status }), 80)
    for (const status of ['warm', 'unlimited'] as const) assert.equal(dailyLimitOf(others, { ...at, status }), null)
    assert.equal(dailyLimitOf(others, { step: 2, fixed: 7, status: 'manual' }), 7)
    // A schedule that became shorter.
    assert.equal(dailyLimitOf(others, { step: 99, fixed: null, status: 'warming' }), 10_000)
  })
})

describe('the verdict of a day', () => {
  test('is good from half of the daily limit on, and not below', () => {
    assert.equal(verdict(others, 40, day({ tried: 20 })), 'good')
    assert.equal(verdict(others, 40, day({ tried: 19 })), 'neutral')
    assert.equal(verdict(others, 0, day({})), 'neutral')
  })

  test('is not good above a hold threshold and bad above a reduce threshold, and the threshold itself is allowed', () => {
    for (const [kind, hold, back] of [
      ['deferred', 20, 100],
      ['refused', 5, 20],
      ['complained', 1, 3],
      ['bounced', 30, 80],
    ] as const) {
      assert.equal(verdict(others, 1000, day({ tried: 1000, [kind]: hold })), 'good', kind)
      assert.equal(verdict(others, 1000, day({ tried: 1000, [kind]: hold + 1 })), 'neutral', kind)
      assert.equal(verdict(others, 1000, day({ tried: 1000, [kind]: back })), 'neutral', kind)
      assert.equal(verdict(others, 1000, day({ tried: 1000, [kind]: back + 1 })), 'bad', kind)
    }
  })

  test('rates count from 20 attempts on, a block from the first', () => {
    assert.equal(exceeded(day({ tried: 19, deferred: 19 }), others.reduce, others.least), undefined)
    assert.equal(exceeded(day({ tried: 20, deferred: 3 }), others.reduce, others.least), 'deferred')
    assert.equal(verdict(others, 20, day({ tried: 1, blocked: 1 })), 'bad')
  })

  test('only replies about this server count', () => {
    for (const each of ['rate', 'block', 'reputation', 'authentication', 'reverse', 'policy'] as const)
      assert.ok(isAboutUs(each))
    for (const each of ['greylist', 'full', 'user', 'content', 'tls', undefined] as const) assert.ok(!isAboutUs(each))
  })
})

describe('steps', () => {
  test('stepBelow returns the last step below a number of recipients, else the first', () => {
    assert.deepEqual(
      [0, 20, 21, 40, 41, 99_999].map((mean) => stepBelow(others.steps, mean)),
      [0, 0, 0, 0, 1, 9],
    )
  })
})

describe('priority', () => {
  const use = { tried: 0, bulk: 0, usual: 0, closed: false }

  test('bulk email leaves a fifth, or as much as transactional email usually needs or has used', () => {
    assert.equal(capacityForBulk(100, use), 80)
    assert.equal(capacityForBulk(100, { ...use, usual: 55 }), 45)
    assert.equal(capacityForBulk(100, { ...use, tried: 90, bulk: 60 }), 10)
    assert.equal(capacityForBulk(100, { ...use, tried: 90, bulk: 50 }), 10)
    assert.equal(capacityForBulk(100, { ...use, tried: 150, bulk: 20 }), 0)
    assert.equal(capacityForBulk(null, use), Infinity)
    assert.equal(capacityForBulk(100, { ...use, closed: true }), 0)
    assert.equal(capacityForBulk(null, { ...use, closed: true }), 0)
  })

  test('transactional email exceeds the daily limit by the configured factor', () => {
    const used = { ...use, tried: 90 }
    assert.equal(capacityForTransactional(100, used, { over: 'send', most: 5 }), 410)
    assert.equal(capacityForTransactional(100, used, { over: 'send', most: 0 }), Infinity)
    assert.equal(capacityForTransactional(100, used, { over: 'wait', most: 5 }), 10)
    assert.equal(capacityForTransactional(100, { ...used, tried: 120 }, { over: 'relay', most: 5 }), 0)
    assert.equal(capacityForTransactional(null, used, { over: 'wait', most: 5 }), Infinity)
    // The end of bulk mail for a day is not theirs.
    assert.equal(capacityForTransactional(100, { ...used, closed: true }, { over: 'send', most: 5 }), 410)
  })
})
