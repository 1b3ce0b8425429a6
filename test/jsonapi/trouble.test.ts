// The errors that a client gets when this machine fails (D72).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { answerError } from '../../src/jsonapi/errors.ts'
import { judge } from '../../src/smtp/answers.ts'
import { ManualClock } from '../kit/clock.ts'

const DISK = 'ENOSPC EDQUOT EFBIG SQLITE_FULL EIO EROFS EACCES SQLITE_IOERR_WRITE'.split(' ')

for (const [status, codes] of [
  [507, DISK],
  [503, ['EMFILE', 'ENFILE', 'ENOMEM', 'EAGAIN']],
  [500, ['ENOENT', 'DAMAGED', 'ERR_INVALID_ARG_TYPE', '']],
] as const)
  test(`${codes.join(' ')}: ${status}, with a problem report unless it is an internal error (D72)`, () => {
    for (const code of codes) {
      const reported: unknown[] = []
      const faults: unknown[] = []
      const thrown = Object.assign(new Error(`${code}: failed, open '/secret'`), { code })
      const answer = answerError(thrown, {
        clock: new ManualClock(),
        log: { ...silentLog, fault: (_, why) => (faults.push(why), 'an-id') },
        troubles: { report: (...said) => reported.push(said[2]) },
      })
      assert.equal(answer.status, status, code)
      assert.deepEqual([reported, faults], status === 500 ? [[], [thrown]] : [[thrown], []], code)
      assert.equal(answer.headers['Retry-After'], status === 500 ? undefined : '60')
      assert.doesNotMatch(answer.body, /secret/)
    }
  })

test('SMTP replies 452 if the disk is full, and 451 to other errors (D72)', () => {
  const answers = ['EFBIG', 'ENOSPC', 'EMFILE', 'EIO'].map((code) => {
    let said: unknown
    judge(
      (error) => (said = (error as { responseCode?: number } | null)?.responseCode),
      () => {},
      () => {
        throw Object.assign(new Error(code), { code })
      },
    )
    return said
  })
  assert.deepEqual(answers, [452, 452, 451, 451])
})
