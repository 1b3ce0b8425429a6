// The notifications to the service manager from a server with data of a released version, on a disk that is slow or
// hangs: strace(1) delays each sync of the executable.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { spawnSync } from 'node:child_process'
import { releasedData, type Released } from '../kit/released.ts'
import { until } from '../kit/until.ts'
import { withPrograms } from './rig/need.ts'
import { PROGRAM, PYTHON, READY, serviceRig } from './rig/service.ts'

const { configured, folder, notices, run } = serviceRig('service-faults')
const absent = [
  ...[PYTHON].filter((file) => !existsSync(file)),
  ...(spawnSync('strace', ['-V']).error ? ['strace'] : []),
]

/** strace's options for a disk whose syncs take so many milliseconds longer. */
const slowed = (ms: number): string[] => {
  const syncs = 'fsync,fdatasync'
  return ['-f', '-o', '/dev/null', '-e', `trace=${syncs}`, '-e', `inject=${syncs}:delay_enter=${ms * 1000}`]
}

/** Posts a mail, as a program does; answers when it was accepted. */
async function post(said: { out: string }, { token }: Released): Promise<number> {
  const [, http] = /"event":"server_ready".*?"http":"([^"]+)"/.exec(said.out)!
  const attributes = { from: 'hello@here.test', to: 'you@elsewhere.test', subject: 'Hello', html: '<p>Hello.</p>' }
  const { status } = await fetch(`http://${http}/api/v1/outbound-emails`, {
    method: 'POST',
    headers: { Authorization: `Bearer ${token}`, 'Content-Type': 'application/vnd.api+json' },
    body: JSON.stringify({ data: { type: 'outbound-emails', attributes } }),
  })
  return status
}

/** strace's options for a disk that fails each fsync(2) of a file whose name ends so. */
const failingAt = (...names: string[]): string[] => [
  '-f',
  '-o',
  '/dev/null',
  '-e',
  'trace=fsync,fdatasync',
  '-e',
  'inject=fsync,fdatasync:error=EIO',
  ...names.flatMap((name) => ['-P', name]),
]

withPrograms('a backup on a failing disk', absent, () => {
  test('a failed sync during a backup or restore test is reported in one sentence with the fix', async () => {
    const dataDir = join(folder, 'fails')
    releasedData('0.1.0', dataDir)
    const to = join(folder, 'fails-to')
    mkdirSync(to)
    const environment = { POSTRIDER_BACKUP_TO: to }
    const words = (...command: string[]): string[] => [
      process.execPath,
      PROGRAM,
      '--config',
      configured('fails'),
      ...command,
    ]
    const whole = (...command: string[]) => run(process.execPath, words(...command).slice(1), environment)
    assert.equal(await whole('upgrade').ended, 0)
    assert.equal(await whole('backup', 'now').ended, 0)
    for (const [names, command] of [
      [[join(dataDir, 'erasures.ledger')], ['backup', 'now']],
      [[], ['backup', 'now']],
      [[], ['backup', 'drill']],
      [[], ['backup', join(folder, 'fails.zip')]],
    ] as const) {
      const failed = run('strace', [...failingAt(...names), ...words(...command)], environment)
      assert.equal(await failed.ended, 1, command.join(' '))
      const said = `${failed.said.err}${failed.said.out}`
      assert.match(said, /(?:check|choose) [^\n]*\.$/m, said)
      assert.doesNotMatch(said, /^ +at |the log says more|node:/m, said)
    }
  })
})

withPrograms('a service with a slow disk', absent, () => {
  test('a migration extends the timeout of systemd and reports its progress until the server is ready', async () => {
    const address = `@postrider-migrates-${process.pid}`
    const told = await notices(address)
    releasedData('0.1.0', join(folder, 'migrates'))
    const argv = [
      ...slowed(1500),
      '--seccomp-bpf',
      process.execPath,
      PROGRAM,
      '--config',
      configured('migrates'),
      'serve',
    ]
    const server = run('strace', argv, { NOTIFY_SOCKET: address })
    await told.heard(/^READY=1$/)
    const before = told.list().slice(
      0,
      told.list().findIndex(({ text }) => text === 'READY=1'),
    )
    const asking = before.filter(({ text }) => text.startsWith('EXTEND_TIMEOUT_USEC='))
    assert.ok(asking.length >= 2, JSON.stringify(before))
    for (const { text } of asking)
      assert.match(
        text,
        /^EXTEND_TIMEOUT_USEC=300000000\nSTATUS=upgrading the database: (?:copy|migration|rewriting) for \d+ s$/,
      )
    // systemd would end a start that asks for nothing: so it hears of each second.
    for (const [n, { at }] of asking.entries())
      if (n > 0) assert.ok(at - asking[n - 1]!.at < 5, `${at - asking[n - 1]!.at} s`)
    process.kill(Number(/"event":"server_ready".*?"pid":(\d+)/.exec(server.said.out)![1]), 'SIGTERM')
    assert.equal(await server.ended, 0, server.said.err)
  })

  test('SIGTERM right after the server is ready stops it cleanly', async () => {
    // After the ready line of a first start some megabytes are written and synced.
    const argv = ['--seccomp-bpf', ...slowed(400), process.execPath, PROGRAM, '--config', configured('signal'), 'serve']
    const server = run('strace', argv)
    await until(() => READY.test(server.said.out), 'the server')
    process.kill(Number(/"event":"server_ready".*?"pid":(\d+)/.exec(server.said.out)![1]), 'SIGTERM')
    assert.equal(await server.ended, 0, server.said.err)
  })

  test('the server updates its status with the keep-alive under load, and sends no watchdog notice while a commit hangs', async () => {
    const address = `@postrider-hangs-${process.pid}`
    const told = await notices(address)
    const released = releasedData('0.2.0', join(folder, 'hangs'))
    const env = { NOTIFY_SOCKET: address, WATCHDOG_USEC: '3000000' }
    const server = run(process.execPath, [PROGRAM, '--config', configured('hangs'), 'serve'], env)
    await until(() => READY.test(server.said.out), 'the server')
    const lives = (): number => told.count('WATCHDOG=1')
    const statuses = () => told.list().filter(({ text }) => text.includes('STATUS='))
    while (statuses().length < 4) {
      assert.equal(await post(server.said, released), 201)
      await pause(100)
    }
    // Each is sent by a process of its own, so the single intervals vary.
    const [first, , , fourth] = statuses()
    assert.ok(fourth!.at - first!.at > 2.5, `${fourth!.at - first!.at} s`)
    await until(() => lives() >= 3, 'notices of life')

    const tracer = run('strace', [
      ...slowed(4000).filter((each) => each !== '--seccomp-bpf'),
      '-p',
      String(server.child.pid),
    ])
    await until(() => /attached/.test(tracer.said.err), 'strace')
    const began = lives()
    // A promise is not made before the disk has it: the answers come late, and no notice of life meanwhile.
    const answers = Promise.all([post(server.said, released), post(server.said, released)])
    const from = performance.now()
    assert.deepEqual(await answers, [201, 201])
    const seconds = (performance.now() - from) / 1000
    assert.ok(seconds > 4, `${seconds} s`)
    assert.ok(lives() - began <= 1, `${lives() - began} notices of life in ${seconds} s`)
    tracer.child.kill('SIGINT')
    await tracer.ended
    const after = lives()
    await until(() => lives() > after, 'a notice of life after it')
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 0, server.said.err)
  })
})
