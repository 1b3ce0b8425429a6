// How failures are logged.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { counters } from '../../src/base/counters.ts'
import { createLog } from '../../src/base/log.ts'
import { ManualClock } from '../kit/clock.ts'

const faults = (): number => counters.faults.values().reduce((sum, [, count]) => sum + count, 0)

const OF_THIS_MACHINE =
  'SQLITE_FULL ENOSPC EDQUOT EFBIG EIO EROFS EACCES EPERM SQLITE_IOERR_WRITE EMFILE ENFILE ENOMEM DAMAGED'.split(' ')

test('logs a problem of this machine as such and not as a bug, at any call (D72)', () => {
  const lines: string[] = []
  const log = createLog({ clock: new ManualClock(), level: 'info', form: 'json', write: (line) => lines.push(line) })
  const before = faults()
  for (const code of OF_THIS_MACHINE)
    assert.match(log.fault('loop queue', Object.assign(new Error('full'), { code })), /^[0-9a-f-]{36}$/)
  assert.deepEqual(
    lines.map((line) => JSON.parse(line) as Record<string, string>).map(({ code, event, what }) => [event, what, code]),
    OF_THIS_MACHINE.map((code) => ['problem_reported', 'loop queue', code]),
  )
  assert.equal(faults(), before)
  log.fault('loop queue', new Error('something else'))
  assert.equal(faults(), before + 1)
})
