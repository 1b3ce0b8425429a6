// When a receiver raises an alarm: each threshold from both sides, with and without a week to compare with.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { isCalm, judgeReceiver } from '../../src/reputation/alarm-rules.ts'
import { alarmSentence } from '../../src/reputation/alarm-words.ts'
import { medianSeconds, NO_FIGURES, type ReceiverSums } from '../../src/reputation/receivers.ts'

const sums = (given: Partial<ReceiverSums>): ReceiverSums => ({ ...NO_FIGURES, tried: 1000, ...given })
const kinds = (day: Partial<ReceiverSums>, week: Partial<ReceiverSums>): string[] =>
  judgeReceiver(sums(day), sums(week)).map(({ kind }) => kind)
const nothing = { tried: 0 }

test('deferred: three times and five points more than in the week before', () => {
  // Five points above 1 % is 6 %, and three times 3 % is 9 %.
  assert.deepEqual(kinds({ put_off: 60 }, { put_off: 10 }), ['deferred'])
  assert.deepEqual(kinds({ put_off: 59 }, { put_off: 10 }), [])
  assert.deepEqual(kinds({ put_off: 90 }, { put_off: 30 }), ['deferred'])
  assert.deepEqual(kinds({ put_off: 89 }, { put_off: 30 }), [])
  assert.deepEqual(kinds({ put_off: 50 }, {}), ['deferred'])
  assert.deepEqual(kinds({ put_off: 49 }, {}), [])
  // Attempts do not count, recipients do.
  assert.deepEqual(kinds({ deferred: 900, put_off: 49 }, {}), [])
})

test('refused: twice and two points more', () => {
  assert.deepEqual(kinds({ refused: 30 }, { refused: 10 }), ['refused'])
  assert.deepEqual(kinds({ refused: 29 }, { refused: 10 }), [])
  assert.deepEqual(kinds({ refused: 60 }, { refused: 30 }), ['refused'])
  assert.deepEqual(kinds({ refused: 59 }, { refused: 30 }), [])
})

test('complaints: over 0.1 % and twice', () => {
  assert.deepEqual(kinds({ complained: 1 }, {}), [])
  assert.deepEqual(kinds({ complained: 2 }, {}), ['complained'])
  assert.deepEqual(kinds({ complained: 4 }, { complained: 2 }), ['complained'])
  assert.deepEqual(kinds({ complained: 3 }, { complained: 2 }), [])
})

test('slow: a median over ten minutes and five times', () => {
  const usual = { delivered: 1000, within_1m: 1000 }
  const at = (beyond: number) => ({ delivered: 1000, within_10m: 1000 - beyond, within_30m: beyond })
  assert.equal(medianSeconds(sums(at(500))), 600)
  assert.deepEqual(kinds(at(500), usual), [])
  assert.deepEqual(kinds(at(501), usual), ['slow'])
  // Five times the usual: the median of the week is half of three to ten minutes.
  const week = { delivered: 1000, within_10m: 1000 }
  assert.equal(medianSeconds(sums(week)), 390)
  assert.deepEqual(kinds({ delivered: 1000, within_30m: 1000 }, week), [])
  assert.deepEqual(kinds({ delivered: 1000, within_1h: 1000 }, week), ['slow'])
  assert.deepEqual(kinds({ delivered: 1000 }, nothing), [], 'not without a week')
})

test('requires 50 attempts in a day, and without 200 in the week before, 10 %, 5 % or 0.3 %', () => {
  assert.deepEqual(kinds({ tried: 50, put_off: 50 }, {}), ['deferred'])
  assert.deepEqual(kinds({ tried: 49, put_off: 49 }, {}), [])
  assert.deepEqual(kinds({ put_off: 60 }, { tried: 200 }), ['deferred'])
  for (const week of [{ tried: 199 }, nothing]) {
    assert.deepEqual(kinds({ put_off: 100 }, week), ['deferred'])
    assert.deepEqual(kinds({ put_off: 99 }, week), [])
    assert.deepEqual(kinds({ refused: 50 }, week), ['refused'])
    assert.deepEqual(kinds({ refused: 49 }, week), [])
    assert.deepEqual(kinds({ complained: 3 }, week), ['complained'])
    assert.deepEqual(kinds({ complained: 2 }, week), [])
  }
})

test('an alarm is calm below half of its threshold, and without email', () => {
  assert.equal(isCalm(0.03, 0.06), false)
  assert.equal(isCalm(0.0299, 0.06), true)
  assert.equal(isCalm(null, 600), true)
})

test('the median is exact at the ends of the ranges, and right for older rows up to their ends', () => {
  assert.equal(medianSeconds(sums({})), null)
  assert.equal(medianSeconds(sums({ delivered: 10, within_5s: 5, within_15s: 5 })), 5)
  assert.equal(medianSeconds(sums({ delivered: 10, within_15s: 10 })), 10)
  assert.equal(medianSeconds(sums({ delivered: 10, within_5s: 1, within_1m: 4, within_10m: 5 })), 60)
  assert.equal(medianSeconds(sums({ delivered: 10 })), 3 * 3600, 'longer than the last range')
})

test('the sentence of an alarm contains the unusual and the usual value', () => {
  assert.equal(
    alarmSentence({ receiver: 'Google', kind: 'deferred', measured: 0.1234, usual: 0.01 }),
    'In the last 24 hours, Google deferred 12.34% of recipients (the week before: 1%).',
  )
  assert.equal(
    alarmSentence({ receiver: 'a.test', kind: 'slow', measured: 1500, usual: 40 }),
    'In the last 24 hours, a.test accepted half of your email only after 25 min or more (the week before: 40 s).',
  )
  assert.match(
    alarmSentence({ receiver: 'a.test', kind: 'complained', measured: 0.004, usual: null }),
    /^In the last 24 hours, 0\.4% of recipients at a\.test marked your email as spam \(too little volume in the week before/,
  )
})
