// Postrider as a service: the notifications that the service manager receives.
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../kit/until.ts'
import { withPrograms } from './rig/need.ts'
import { PROGRAM, PYTHON, READY, serviceRig } from './rig/service.ts'

const { configured, folder, notices, run } = serviceRig('service')

withPrograms(
  'as a service',
  [PYTHON].filter((file) => !existsSync(file)),
  () => {
    for (const address of [`@postrider-${process.pid}`, join(folder, 'notify')])
      test(`READY, STATUS, RELOADING, WATCHDOG and STOPPING are sent by systemd-notify to ${address[0] === '@' ? 'an abstract address' : 'a path'}`, async () => {
        const told = await notices(address)
        const { heard } = told
        const server = run(
          process.execPath,
          [PROGRAM, '--config', configured(address[0] === '@' ? 'abstract' : 'path'), 'serve'],
          { NOTIFY_SOCKET: address, WATCHDOG_USEC: '3000000' },
        )
        await heard(/^READY=1$/)
        await until(() => READY.test(server.said.out), 'the ready line, which is written first')
        await heard(/^WATCHDOG=1\nSTATUS=ok: 0 recipients in the queue$/)
        await heard(/^WATCHDOG=1$/)
        server.child.kill('SIGHUP')
        await heard(/^RELOADING=1\nMONOTONIC_USEC=\d+$/)
        await until(() => told.count('READY=1') === 2, 'READY after the reload')
        server.child.kill('SIGTERM')
        assert.equal(await server.ended, 0, server.said.err)
        await heard(/^STOPPING=1$/)
      })

    test('a server with a blocked event loop sends no keep-alive, and is killed, restarted and ready', async () => {
      const address = `@postrider-blocked-${process.pid}`
      const { count } = await notices(address)
      // The fault: from SIGURG on, the loop turns no more.
      const fault = join(folder, 'fault.mjs')
      writeFileSync(fault, `process.on('SIGURG', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))`)
      const config = configured('blocked')
      const serve = () =>
        run(process.execPath, ['--import', fault, PROGRAM, '--config', config, 'serve'], {
          NOTIFY_SOCKET: address,
          WATCHDOG_USEC: '3000000',
        })
      const blocked = serve()
      await until(() => count('WATCHDOG=1') >= 3, 'notices of life')
      blocked.child.kill('SIGURG')
      // As systemd does it: no notice within the patience, then SIGABRT, then a new start.
      let last = { count: 0, at: 0 }
      await until(() => {
        if (count('WATCHDOG=1') !== last.count) last = { count: count('WATCHDOG=1'), at: performance.now() }
        return performance.now() - last.at > 3000
      }, 'three seconds without a notice of life')
      blocked.child.kill('SIGABRT')
      assert.equal(await blocked.ended, 'SIGABRT')
      const again = serve()
      await until(() => count('READY=1') === 2, 'READY of the next server')
      again.child.kill('SIGTERM')
      assert.equal(await again.ended, 0, again.said.err)
    })
  },
)
