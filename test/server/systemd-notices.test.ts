// The notifications that systemd receives, and when. test/interop/service.interop.ts sends them with systemd-notify.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SECOND } from '../../src/base/clock.ts'
import { createLog } from '../../src/base/log.ts'
import { SystemdNotices, statusOf } from '../../src/server/systemd-notices.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

/** A server under systemd, and the variables that systemd receives. */
function managed(more: Record<string, string> = {}, fault?: Error) {
  const clock = new ManualClock()
  const received: string[] = []
  const logged: string[] = []
  const environment: Record<string, string | undefined> = { NOTIFY_SOCKET: '@test', PATH: '/bin', ...more }
  const manager = new SystemdNotices({
    clock,
    environment,
    pid: 7,
    log: createLog({ clock, level: 'info', form: 'json', write: (line) => logged.push(line) }),
    async notify(address, variables) {
      assert.equal(address, '@test')
      await Promise.resolve()
      if (fault) throw fault
      received.push(variables.join(' '))
    },
  })
  const life = { status: 'ok', slowest: 0 }
  const follow = (): void => manager.follow({ status: () => life.status, slowestCommit: () => life.slowest })
  /** Advances second by second, so that each notification is sent before the next. */
  const pass = async (seconds: number): Promise<void> => {
    for (let second = 0; second < seconds; second++) {
      clock.advance(SECOND)
      await sent()
    }
  }
  return { clock, environment, follow, life, logged, manager, pass, received }
}

/** Resolves when the notifications of a chain of promises have been sent. */
const sent = (): Promise<void> => new Promise((done) => setImmediate(done))

describe('systemd receives', () => {
  test('READY, RELOADING with the monotonic time, STOPPING and a longer start timeout, in this order', async () => {
    const { manager, received } = managed()
    manager.extend('the database is upgraded\nREADY=1')
    manager.ready()
    manager.reloading()
    manager.ready()
    manager.stopping()
    await sent()
    assert.equal(received[0], 'EXTEND_TIMEOUT_USEC=300000000 STATUS=the database is upgraded READY=1')
    assert.equal(received[1], 'READY=1')
    assert.match(received[2]!, /^RELOADING=1 MONOTONIC_USEC=\d+$/)
    assert.deepEqual(received.slice(3), ['READY=1', 'STOPPING=1'])
  })

  test('a changed status every 20 s until the stop', async () => {
    const { follow, life, manager, pass, received } = managed()
    follow()
    for (let second = 1; second <= 45; second++) {
      life.status = `ok ${second}`
      await pass(1)
    }
    await pass(60)
    assert.deepEqual(received, ['STATUS=ok', 'STATUS=ok 20', 'STATUS=ok 40', 'STATUS=ok 45'])
    manager.stopping()
    life.status = 'changed'
    await pass(60)
    assert.equal(received.at(-1), 'STOPPING=1')
  })

  test('a keep-alive every 20 s if it has a watchdog for this process', async () => {
    const { environment, follow, pass, received } = managed({ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '7' })
    follow()
    await pass(60)
    assert.deepEqual(received, ['WATCHDOG=1 STATUS=ok', ...Array<string>(3).fill('WATCHDOG=1')])
    assert.deepEqual(environment, { PATH: '/bin' }, 'child processes do not inherit the variables')
    for (const more of [{ WATCHDOG_USEC: '60000000', WATCHDOG_PID: '8' }, {}]) {
      const other = managed(more)
      other.follow()
      await other.pass(60)
      assert.deepEqual(other.received, ['STATUS=ok'])
    }
  })

  test('no keep-alive after a turn of the loop or a commit of 20 s, until the next 20 s were without one', async () => {
    for (const hang of ['loop', 'commit']) {
      const { clock, follow, life, pass, received } = managed({ WATCHDOG_USEC: '60000000' })
      const alive = (): number => received.filter((text) => text.startsWith('WATCHDOG=1')).length
      follow()
      await pass(20)
      assert.equal(alive(), 2, hang)
      // A turn that comes late: no timer runs until then.
      if (hang === 'loop') clock.leap(21 * SECOND)
      else life.slowest = 20 * SECOND
      await pass(1)
      life.slowest = 0
      await pass(hang === 'loop' ? 1 : 20)
      assert.equal(alive(), 2, hang)
      await pass(20)
      assert.equal(alive(), 3, hang)
    }
  })

  test('no notification if systemd-notify fails: the server logs it once and continues', async () => {
    const fault = Object.assign(new Error('not found'), { code: 'ENOENT' })
    const { follow, logged, manager, pass, received } = managed({ WATCHDOG_USEC: '60000000' }, fault)
    manager.ready()
    follow()
    await pass(60)
    manager.stopping()
    await sent()
    assert.deepEqual(received, [])
    assert.equal(logged.length, 1)
    assert.match(logged[0]!, /"event":"systemd_notify_failed",.*"address":"@test","error":"ENOENT"/)
    const alone = new SystemdNotices({ clock: new ManualClock(), environment: {}, log: assert.fail as never })
    alone.ready()
    alone.follow({ status: assert.fail as never, slowestCommit: () => 0 })
  })
})

test('the status contains the queue and the first problem', async () => {
  await using postrider = await startTestAppliance({ domains: ['here.test'] })
  const { deps } = postrider.appliance
  assert.equal(statusOf(deps), 'ok: 0 recipients in the queue')
  deps.troubles.report('storage', 'The disk is full.')
  assert.equal(statusOf(deps), 'degraded: The disk is full. 0 recipients in the queue')
})

test('the store returns the duration of the slowest commit since the last call', async () => {
  const folder = temporaryDirectory('slowest')
  const store = openStore(folder)
  try {
    assert.equal(store.slowestCommit(), 0)
    await store.write((tx) => tx.first(raw('select 1')))
    await store.write(() => {})
    assert.ok(store.slowestCommit() > 0)
    assert.equal(store.slowestCommit(), 0)
  } finally {
    store.close()
  }
})
