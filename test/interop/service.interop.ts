// Postrider as a service: what it tells the service manager, as a receiver that asks the kernel for the sender hears it
// (N1, N2), and sockets that it is given by a holder as systemd is and by systemd's own (N3).
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { until } from '../kit/until.ts'
import { withPrograms } from './rig/need.ts'
import { PROGRAM, PYTHON, READY, SERVICE, serviceRig } from './rig/service.ts'

const ACTIVATE = '/usr/bin/systemd-socket-activate'

const { configured, folder, notices, run } = serviceRig('service')

withPrograms(
  'as a service',
  [PYTHON].filter((file) => !existsSync(file)),
  () => {
    for (const address of [`@postrider-${process.pid}`, join(folder, 'notify')])
      test(`READY, STATUS, RELOADING, WATCHDOG and STOPPING come from its own pid to ${address[0] === '@' ? 'an abstract address' : 'a path'} (N1)`, async () => {
        const told = await notices(address)
        const { heard } = told
        const server = run(
          process.execPath,
          [PROGRAM, '--config', configured(address[0] === '@' ? 'abstract' : 'path'), 'serve'],
          { NOTIFY_SOCKET: address, WATCHDOG_USEC: '3000000' },
        )
        await heard(/^READY=1\n$/)
        await until(() => READY.test(server.said.out), 'the ready line, which is written first')
        await heard(/^STATUS=ok: 0 recipients in the queue\n$/)
        await heard(/^WATCHDOG=1\n$/)
        server.child.kill('SIGHUP')
        await heard(/^RELOADING=1\nMONOTONIC_USEC=\d+\n$/)
        await until(() => told.count('READY=1') === 2, 'READY after the reload')
        server.child.kill('SIGTERM')
        assert.equal(await server.ended, 0, server.said.err)
        await heard(/^STOPPING=1\n$/)
        assert.deepEqual([...new Set(told.list().map(({ pid }) => pid))], [server.child.pid])
      })

    test('a loop that is blocked says nothing of life: it is ended, started again, and ready (N2)', async () => {
      const address = `@postrider-blocked-${process.pid}`
      const { count } = await notices(address)
      // The fault: from SIGUSR2 on, the loop turns no more.
      const fault = join(folder, 'fault.mjs')
      writeFileSync(fault, `process.on('SIGUSR2', () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0))`)
      const config = configured('blocked')
      const serve = () =>
        run(process.execPath, ['--import', fault, PROGRAM, '--config', config, 'serve'], {
          NOTIFY_SOCKET: address,
          WATCHDOG_USEC: '3000000',
        })
      const blocked = serve()
      await until(() => count('WATCHDOG=1') >= 3, 'notices of life')
      blocked.child.kill('SIGUSR2')
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

    test('connections wait in the sockets that it was given while it starts again, in both families (N3)', async () => {
      const config = configured('sockets')
      const holder = run(PYTHON, [SERVICE, 'sockets', process.execPath, PROGRAM, '--config', config, 'serve'])
      await until(() => holder.said.out.includes('\n'), 'the sockets')
      const [smtp, http] = (JSON.parse(holder.said.out.split('\n')[0]!) as { ports: [number, number] }).ports
      const starts = (): number => holder.said.out.split('"event":"ready"').length - 1
      const pid = (): number => Number([...holder.said.out.matchAll(/"event":"ready".*?"pid":(\d+)/g)].at(-1)![1])
      const asked = (): Promise<number> => fetch(`http://[::1]:${http}/health`).then(({ status }) => status)
      const greeted = (): Promise<string> =>
        new Promise((resolve, reject) => {
          const socket = connect(smtp, '127.0.0.1').on('error', reject)
          socket.once('data', (chunk: Buffer) => (socket.destroy(), resolve(chunk.toString())))
        })
      holder.child.stdin.write('smtp:http\n')
      await until(() => starts() === 1, 'the first start')
      assert.match(holder.said.out, new RegExp(`"http":"\\[::1\\]:${http}","smtp":\\["127\\.0\\.0\\.1:${smtp}"\\]`))
      for (const name of ['LISTEN_PID', 'LISTEN_FDS'])
        assert.ok(readFileSync(`/proc/${pid()}/environ`, 'utf8').includes(name), 'it was given the variables')
      assert.deepEqual([await asked(), (await greeted()).slice(0, 4)], [200, '220 '])
      process.kill(pid(), 'SIGTERM')
      await until(() => holder.said.out.includes('"ended": true'), 'the end')
      // Nobody serves: these connections are taken by the kernel, and wait.
      const waiting = [...Array.from({ length: 10 }, asked), ...Array.from({ length: 10 }, greeted)]
      holder.child.stdin.write('smtp:http\n')
      const answers = await Promise.all(waiting)
      assert.deepEqual(
        answers.map((each) => String(each).slice(0, 3)),
        [...Array<string>(10).fill('200'), ...Array<string>(10).fill('220')],
      )
      process.kill(pid(), 'SIGTERM')
      holder.child.stdin.end()
      assert.equal(await holder.ended, 0, holder.said.err)
    })
  },
)

withPrograms(
  'with systemd-socket-activate',
  [ACTIVATE].filter((file) => !existsSync(file)),
  () => {
    test('the first connection starts it, and is served, in both families (N3)', async () => {
      const { createServer } = await import('node:net')
      // Free ports: systemd-socket-activate prints none that it has chosen.
      const free = async (host: string): Promise<number> => {
        const probe = createServer().listen(0, host)
        await new Promise((resolve) => probe.once('listening', resolve))
        const { port } = probe.address() as { port: number }
        await new Promise((resolve) => probe.close(resolve))
        return port
      }
      const [smtp, http] = [await free('127.0.0.1'), await free('::1')]
      const argv = ['-l', `127.0.0.1:${smtp}`, '-l', `[::1]:${http}`, '--fdname=smtp:http', process.execPath, PROGRAM]
      const server = run(ACTIVATE, [...argv, '--config', configured('activated'), 'serve'])
      await until(() => /Listening on \[::1\]/.test(server.said.err), 'the sockets')
      assert.equal((await fetch(`http://[::1]:${http}/health`)).status, 200)
      const greeting = await new Promise<string>((resolve, reject) => {
        const socket = connect(smtp, '127.0.0.1').on('error', reject)
        socket.once('data', (chunk: Buffer) => (socket.destroy(), resolve(chunk.toString())))
      })
      assert.match(greeting, /^220 mx\.service\.test /)
      assert.match(server.said.out, READY)
      server.child.kill('SIGTERM')
      assert.equal(await server.ended, 0, server.said.err)
    })
  },
)
