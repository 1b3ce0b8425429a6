// What the service manager is told, and when. The datagrams themselves, their sender's pid and systemd's own socket
// activation are in test/interop/service.interop.ts.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { MINUTE, SECOND } from '../../src/base/clock.ts'
import { createLog } from '../../src/base/log.ts'
import { datagramsTo } from '../../src/base/native.ts'
import { SystemdNotices, statusOf } from '../../src/server/systemd-notices.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'

/** A server that has been told of a service manager, and what that hears. */
function managed(more: Record<string, string> = {}, sends = true) {
  const clock = new ManualClock()
  const heard: string[] = []
  const logged: string[] = []
  const environment: Record<string, string | undefined> = { NOTIFY_SOCKET: '@test', PATH: '/bin', ...more }
  const manager = new SystemdNotices({
    clock,
    environment,
    pid: 7,
    log: createLog({ clock, level: 'info', form: 'json', write: (line) => logged.push(line) }),
    sender: () => (sends ? (text) => heard.push(text) > 0 : undefined),
  })
  const life = { status: 'ok', slowest: 0 }
  const follow = (): void => manager.follow({ status: () => life.status, slowestCommit: () => life.slowest })
  return { clock, environment, follow, heard, life, logged, manager }
}

describe('the service manager hears', () => {
  test('READY, RELOADING with the monotonic time, STOPPING, and that a start takes longer (N1)', () => {
    const { heard, manager } = managed()
    manager.extend('the database is upgraded\nREADY=1')
    manager.ready()
    manager.reloading()
    manager.ready()
    manager.stopping()
    assert.equal(heard[0], 'EXTEND_TIMEOUT_USEC=300000000\nSTATUS=the database is upgraded READY=1\n')
    assert.equal(heard[1], 'READY=1\n')
    assert.match(heard[2]!, /^RELOADING=1\nMONOTONIC_USEC=\d+\n$/)
    assert.deepEqual(heard.slice(3), ['READY=1\n', 'STOPPING=1\n'])
  })

  test('the status when it has changed, and at most once in five seconds (N1)', () => {
    const { clock, follow, heard, life, manager } = managed()
    follow()
    for (let second = 1; second <= 12; second++) {
      life.status = `ok ${second}`
      clock.advance(SECOND)
    }
    clock.advance(MINUTE)
    assert.deepEqual(heard, ['STATUS=ok\n', 'STATUS=ok 5\n', 'STATUS=ok 10\n', 'STATUS=ok 12\n'])
    manager.stopping()
    life.status = 'changed'
    clock.advance(MINUTE)
    assert.equal(heard.at(-1), 'STOPPING=1\n', 'nothing is told after the stop')
  })

  test('each 20 s that the server lives, where it waits for that (N2)', () => {
    const { clock, environment, follow, heard } = managed({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '7' })
    const lives = (): number => heard.filter((text) => text === 'WATCHDOG=1\n').length
    follow()
    assert.equal(lives(), 1)
    clock.advance(MINUTE)
    assert.equal(lives(), 4)
    assert.deepEqual(environment, { PATH: '/bin' }, 'a child finds none of it')
    for (const more of [{ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '8' }, {}]) {
      const other = managed(more)
      other.follow()
      other.clock.advance(MINUTE)
      assert.deepEqual(other.heard, ['STATUS=ok\n'], 'another process is watched, or none')
    }
  })

  test('nothing of life after a turn of the loop or a commit of 20 s or more, until the next 20 s were well (N2)', () => {
    for (const hang of ['loop', 'commit']) {
      const { clock, follow, heard, life } = managed({ WATCHDOG_USEC: '60000000' })
      const lives = (): number => heard.filter((text) => text === 'WATCHDOG=1\n').length
      follow()
      clock.advance(20 * SECOND)
      assert.equal(lives(), 2, hang)
      // A turn that comes late: nothing runs meanwhile.
      if (hang === 'loop') clock.leap(21 * SECOND)
      else life.slowest = 20 * SECOND
      clock.advance(SECOND)
      life.slowest = 0
      clock.advance(hang === 'loop' ? SECOND : 20 * SECOND)
      assert.equal(lives(), 2, hang)
      clock.advance(20 * SECOND)
      assert.equal(lives(), 3, hang)
    }
  })

  test('nothing where there is no way to it: that is logged once, and the server goes on (N1)', () => {
    const { clock, follow, heard, logged, manager } = managed({ WATCHDOG_USEC: '60000000' }, false)
    manager.ready()
    follow()
    clock.advance(MINUTE)
    manager.stopping()
    assert.deepEqual(heard, [])
    assert.equal(logged.length, 1)
    assert.match(logged[0]!, /"event":"the service manager is not told","address":"@test"/)
    const alone = new SystemdNotices({ clock, environment: {}, log: assert.fail as never })
    alone.ready()
  })
})

test('an address of another family has no way to it (N1)', () => {
  for (const address of ['', '@', '/', 'vsock:2:1', `/${'x'.repeat(200)}`])
    assert.equal(datagramsTo(address), undefined)
})

test('the status names the queue, and the first trouble (N1)', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { deps } = postrider.appliance
  assert.equal(statusOf(deps), 'ok: 0 recipients in the queue')
  deps.troubles.report('storage', 'The disk is full.')
  assert.equal(statusOf(deps), 'degraded: The disk is full. 0 recipients in the queue')
})

test('the store says how slow its slowest commit was since it was asked (N2)', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-slowest-'))
  const store = openStore(folder)
  try {
    assert.equal(store.slowestCommit(), 0)
    await store.write((tx) => tx.first(raw('select 1')))
    await store.write(() => {})
    assert.ok(store.slowestCommit() > 0)
    assert.equal(store.slowestCommit(), 0)
  } finally {
    store.close()
    rmSync(folder, { recursive: true })
  }
})
