// Schedules of five fields.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { iso } from '../../src/base/clock.ts'
import { nextRun, parseCron } from '../../src/base/cron.ts'

for (const [text, after, next] of [
  ['0 2 * * *', '2026-01-15T12:00:00Z', '2026-01-16T02:00:00.000Z'],
  ['0 2 * * *', '2026-01-15T02:00:00Z', '2026-01-16T02:00:00.000Z'],
  ['0 2 * * *', '2026-01-15T01:59:59Z', '2026-01-15T02:00:00.000Z'],
  ['*/15 * * * *', '2026-01-15T12:01:00Z', '2026-01-15T12:15:00.000Z'],
  ['30 1 * * mon-fri', '2026-01-16T12:00:00Z', '2026-01-19T01:30:00.000Z'],
  ['0 0 1,15 * *', '2026-01-15T12:00:00Z', '2026-02-01T00:00:00.000Z'],
  ['0 0 1 * 7', '2026-01-15T12:00:00Z', '2026-01-18T00:00:00.000Z'],
  ['0 0 29 feb *', '2026-01-15T12:00:00Z', '2028-02-29T00:00:00.000Z'],
  ['5/20 23 31 dec *', '2026-12-31T23:45:00Z', '2027-12-31T23:05:00.000Z'],
] as const)
  test(`the next time of "${text}" after ${after} is ${next}`, () => {
    const cron = parseCron(text)
    assert.ok(cron)
    assert.equal(iso(nextRun(cron, Date.parse(after))!), next)
  })

for (const text of [
  '',
  '* * * *',
  '* * * * * *',
  '60 * * * *',
  '* 24 * * *',
  '0 0 30 2 *',
  'a * * * *',
  '*/0 * * * *',
  '5-1 * * * *',
  '1-2-3 * * * *',
  '0 0 0 * *',
])
  test(`rejects "${text}" as a schedule`, () => assert.equal(parseCron(text), undefined))
