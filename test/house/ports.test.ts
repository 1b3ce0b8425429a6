// No test uses a fixed port: test/kit/ports.ts ends every process that does. These tests prove that it is loaded into
// the processes that tests start, and that it recognises a fixed port.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { Commands, start } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { SERVER_ENVIRONMENT } from '../kit/environment.ts'
import { FIXED_PORT, fixedPort, lowestChosen } from '../kit/ports.ts'

const PROGRAM = `require('node:net').createServer().listen(25, '127.0.0.1', () => process.exit(0)).on('error', () => process.exit(0))`

test('ends a process of a test that listens at a fixed port, and names the port', () => {
  for (const env of [process.env, SERVER_ENVIRONMENT]) {
    const { status, stderr } = spawnSync(process.execPath, ['-e', PROGRAM], { env, encoding: 'utf8' })
    assert.equal(status, FIXED_PORT, stderr)
    assert.match(stderr, /a test uses the fixed port 25 \(listen\)/)
  }
})

test('ends servers and commands that tests start, even with an environment of their own', async () => {
  const folder = temporaryDirectory('ports')
  const ports = ['--http', '80', '--smtp', '0', '--submission', '0', '--submissions', '0']
  const dev = start(['dev', ...ports], folder, { TMPDIR: folder })
  assert.equal(await dev.ended, FIXED_PORT, dev.stderr())
  await using commands = new Commands(folder)
  await assert.rejects(commands.run(['health', '--url', 'http://127.0.0.1:25']), /ended its process/)
})

const CHOSEN = 32_768
for (const [call, args, port] of [
  ['listen', [25], 25],
  ['listen', [{ port: 8025, host: '127.0.0.1' }], 8025],
  ['listen', ['587', '::'], 587],
  ['listen', [1], 1],
  ['listen', [0], undefined],
  ['listen', [{ port: 0, host: '::' }], undefined],
  ['listen', [40_000], undefined],
  ['listen', [{ path: '/a.sock' }], undefined],
  ['listen', ['/a.sock'], undefined],
  ['connect', [[{ port: 25, host: 'localhost' }, null]], 25],
  ['connect', [25, '127.0.0.9'], 25],
  ['connect', [{ port: '8025', host: '127.0.0.1', path: null }], 8025],
  ['connect', [{ port: 25, host: '192.0.2.1' }], undefined],
  ['connect', [{ port: 1, host: '127.0.0.1' }], undefined],
] as const)
  test(`takes ${call}(${JSON.stringify(args)}) for ${port === undefined ? 'no fixed port' : `port ${port}`}`, () => {
    assert.equal(fixedPort(call, args, CHOSEN), port)
  })

test('knows which ports this system chooses', () => {
  assert.ok(lowestChosen() > 1024)
  assert.equal(lowestChosen('/nowhere/at/all'), 49_152)
})
