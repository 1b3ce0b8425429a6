// Days of time zones, made of whole hours.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HOUR, iso } from '../../src/base/clock.ts'
import { daysOf, hoursOf, isZone } from '../../src/base/zone.ts'

/** The last days: their start, and their number of hours. */
const shown = (zone: string, now: string, count: number): [string, number][] =>
  daysOf(zone, Date.parse(now), count).map(({ at, from, until }) => [iso(at).slice(0, 16), until - from])

test('a day starts at midnight of its zone, and the last day ends with the current hour', () => {
  assert.deepEqual(shown('America/Los_Angeles', '2026-11-29T10:20Z', 2), [
    ['2026-11-28T08:00', 24],
    ['2026-11-29T08:00', 3],
  ])
  assert.deepEqual(shown('UTC', '2026-11-29T00:00Z', 2), [
    ['2026-11-28T00:00', 24],
    ['2026-11-29T00:00', 1],
  ])
})

test('a day on which the clocks change has 23 or 25 hours, even if they change at midnight', () => {
  assert.deepEqual(shown('Europe/Berlin', '2026-10-26T10:00Z', 3), [
    ['2026-10-23T22:00', 24],
    ['2026-10-24T22:00', 25],
    ['2026-10-25T23:00', 12],
  ])
  assert.deepEqual(shown('Asia/Beirut', '2026-03-30T10:00Z', 3), [
    ['2026-03-27T22:00', 24],
    ['2026-03-28T22:00', 23],
    ['2026-03-29T21:00', 14],
  ])
})

test('days of zones with half and quarter hours are rounded to hours without a gap', () => {
  for (const [zone, start] of [
    ['Asia/Kolkata', '2026-11-28T18:30'],
    ['Asia/Kathmandu', '2026-11-28T18:15'],
    ['Pacific/Chatham', '2026-11-28T10:15'],
  ] as const) {
    const days = daysOf(zone, Date.parse('2026-11-29T10:00Z'), 60)
    assert.ok(
      days.some(({ at }) => iso(at).startsWith(start)),
      zone,
    )
    for (const [index, { from }] of days.entries()) if (index > 0) assert.equal(days[index - 1]!.until, from)
  }
})

test('the last day of hours contains the current hour', () => {
  const hours = hoursOf(Date.parse('2026-11-29T10:20Z'))
  assert.deepEqual(
    [hours.length, iso(hours[0]!.at), hours.at(-1)!.at / HOUR],
    [25, '2026-11-28T10:00:00.000Z', hours.at(-1)!.from],
  )
})

test('recognises names of zones', () => {
  for (const name of ['UTC', 'Europe/Berlin', 'America/Argentina/Buenos_Aires']) assert.ok(isZone(name), name)
  for (const name of ['', 'Nowhere/Land', '"><script>', '+01:00', 'x'.repeat(100)]) assert.ok(!isZone(name), name)
})
