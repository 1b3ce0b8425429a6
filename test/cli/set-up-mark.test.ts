// A configuration that was set up but has no data: its disk is not mounted, so no new installation is created.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { Commands, sentenceOf, start } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('mark')
const commands = new Commands(folder)
after(async () => {
  await commands.close()
})
const MORE = '[http]\nlisten = "127.0.0.1:0"\n[smtp]\nlisten = ["127.0.0.1:0"]\n[dns]\nservers = ["127.0.0.1:9"]\n'

test('serve and init reject a configuration of init whose data is missing, and init --new starts over', async () => {
  const [config, data] = [join(folder, 'init.toml'), join(folder, 'data')]
  const init = ['--config', config, 'init', '--domain', 'here.test', '--hostname', 'mx.here.test']
  const named = ['--email', 'ann@owner.test', '--data', data]
  const env = { POSTRIDER_DNS_SERVERS: '127.0.0.1:9' }
  const run = (argv: readonly string[]) => commands.run(argv, { env })
  assert.equal((await run([...init, ...named])).code, 0)
  for (const mounted of [false, true]) {
    rmSync(data, { recursive: true })
    if (mounted) mkdirSync(data, { mode: 0o700 })
    for (const argv of [
      ['--config', config, 'serve'],
      [...init, ...named],
    ]) {
      const said = sentenceOf(await run(argv))
      assert.ok(said.startsWith(`${data} contains no installation, although ${config} was set up before`), said)
      assert.deepEqual(existsSync(data) ? readdirSync(data) : undefined, mounted ? [] : undefined)
    }
    assert.equal((await run([...init, ...named, '--new'])).code, 0)
  }
})

test('serve marks a configuration once a user exists, and health is not ok until then', async () => {
  const [config, data] = [join(folder, 'serve.toml'), makeInstallation(join(folder, 'served'))]
  writeFileSync(config, `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(data)}\n${MORE}`)
  const on = (...argv: string[]) => commands.run(['--config', config, ...argv])
  for (const set of [false, true]) {
    if (set) assert.equal((await on('user', 'add', 'ann@owner.test')).code, 0)
    const server = start(['--config', config, 'serve'], folder)
    try {
      const [, http] = await server.said(/"event":"server_ready".*"http":"([^"]+)"/)
      const health = await (await fetch(`http://${http}/health`)).json()
      if (set) assert.deepEqual(health, { status: 'ok' })
      else
        assert.deepEqual(health, {
          status: 'degraded',
          reasons: ['This server is not set up: it has no user and no domain.'],
        })
      assert.equal((await on('health')).code, set ? 0 : 1)
    } finally {
      server.child.kill('SIGTERM')
      await server.ended
    }
    assert.equal(existsSync(`${config}.set-up`), set)
  }
  rmSync(data, { recursive: true })
  assert.match(sentenceOf(await on('serve')), /contains no installation, .*; mount its disk/)
  assert.equal(existsSync(data), false)
})
