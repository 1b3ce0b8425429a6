// Tests `postrider subscription set` and the reputation column of `domain list`.
import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Commands } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { makeInstallation } from '../kit/installation.ts'

const folder = temporaryDirectory('subscription')
const config = join(folder, 'here.toml')
const commands = new Commands(folder, ['--config', config])

before(async () => {
  writeFileSync(
    config,
    `hostname = "mx.here.test"
     data_dir = ${JSON.stringify(join(folder, 'data'))}
     [plans]
     starter = { included_volume = 10, branded_tracking = false }
     growth = { included_volume = 100, branded_tracking = true }`,
  )
  makeInstallation(join(folder, 'data'))
  await commands.json('user', 'add', 'ann@owner.test', '--name', 'Ann')
})
after(async () => {
  await commands.close()
})

const set = (...argv: string[]) => commands.json('subscription', 'set', 'ann@owner.test', ...argv)

test('shows the subscription without options, and sets plan, state and downgrade', async () => {
  const plain = {
    user: 'ann@owner.test',
    plan: 'unlimited',
    state: 'active',
    downgrade_to: null,
    downgrade_at: null,
    used_this_month: 0,
  }
  assert.deepEqual(await set(), plain)
  assert.deepEqual(await set('--plan', 'growth', '--state', 'past_due'), {
    ...plain,
    plan: 'growth',
    state: 'past_due',
  })
  const scheduled = await set('--downgrade-to', 'starter', '--at', '2099-02-01')
  assert.deepEqual([scheduled.downgrade_to, scheduled.downgrade_at], ['starter', '2099-02-01T00:00:00.000Z'])
  const { code, stdout } = await commands.run(['subscription', 'set', 'ann@owner.test'])
  assert.equal(code, 0)
  assert.match(
    stdout,
    /ann@owner\.test: plan growth, past_due, 0 recipients this month, changes to starter at 2099-02-01/,
  )
  assert.equal((await set('--plan', 'unlimited', '--state', 'active')).downgrade_to, null)
})

test('rejects invalid options in one sentence before any change', async () => {
  const fails = (...argv: string[]) => commands.fails('subscription', 'set', 'ann@owner.test', ...argv)
  assert.match(await fails('--plan', 'gold'), /no plan "gold"/)
  assert.match(await fails('--downgrade-to', 'starter'), /needs two options/)
  assert.match(await fails('--at', '2099-01-01'), /needs two options/)
  for (const at of ['tomorrow', '2099-02-31', '5', '2099-13-01', '01/02/2099'])
    assert.match(await fails('--downgrade-to', 'starter', '--at', at), /is not a date; use 2026-02-01/, at)
  assert.match(await fails('--downgrade-to', 'starter', '--at', '2020-01-01'), /is in the past/)
  assert.match(await commands.fails('subscription', 'set', 'no@body.test'), /no@body\.test/)
  await commands.misused('subscription', 'set')
  await commands.misused('subscription', 'set', 'ann@owner.test', '--state', 'gone')
  assert.equal((await set()).plan, 'unlimited')
})

test('domain list shows the reputation', async () => {
  await commands.json('domain', 'add', 'here.test', '--user', 'ann@owner.test')
  const [domain] = await commands.json('domain', 'list')
  assert.equal(domain.reputation, 'good')
  const { stdout } = await commands.run(['domain', 'list'])
  assert.match(stdout, /REPUTATION/)
  assert.match(stdout, /good/)
  assert.ok(existsSync(config))
})
