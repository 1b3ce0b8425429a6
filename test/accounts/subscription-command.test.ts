// `postrider subscription set`, `agent list`, `export` and the reputation column of `domain list`, as an operator sees
// them.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { Commands } from '../commands/command.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-subscription-'))
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
  await commands.json('user', 'add', 'ann@owner.test', '--name', 'Ann')
})
after(async () => {
  await commands.close()
  rmSync(folder, { recursive: true })
})

const set = (...argv: string[]) => commands.json('subscription', 'set', 'ann@owner.test', ...argv)

test('without options it shows; a plan, a state and a downgrade are set', async () => {
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
  assert.match(stdout, /ann@owner\.test: plan growth, past_due, 0 recipients this month; starter from 2099-02-01/)
  assert.equal((await set('--plan', 'unlimited', '--state', 'active')).downgrade_to, null)
})

test('what cannot be is said in a sentence, and changes nothing', async () => {
  const fails = (...argv: string[]) => commands.fails('subscription', 'set', 'ann@owner.test', ...argv)
  assert.match(await fails('--plan', 'gold'), /no plan "gold"/)
  assert.match(await fails('--downgrade-to', 'starter'), /needs both/)
  assert.match(await fails('--at', '2099-01-01'), /needs both/)
  for (const at of ['tomorrow', '2099-02-31', '5', '2099-13-01', '01/02/2099'])
    assert.match(await fails('--downgrade-to', 'starter', '--at', at), /is not a date; write it as 2026-02-01/, at)
  assert.match(await fails('--downgrade-to', 'starter', '--at', '2020-01-01'), /lies in the future/)
  assert.match(await commands.fails('subscription', 'set', 'no@body.test'), /no@body\.test/)
  await commands.misused('subscription', 'set')
  await commands.misused('subscription', 'set', 'ann@owner.test', '--state', 'gone')
  assert.equal((await set()).plan, 'unlimited')
})

test('domain list tells the reputation', async () => {
  await commands.json('domain', 'add', 'here.test', '--user', 'ann@owner.test')
  const [domain] = await commands.json('domain', 'list')
  assert.equal(domain.reputation, 'good')
  const { stdout } = await commands.run(['domain', 'list'])
  assert.match(stdout, /REPUTATION/)
  assert.match(stdout, /good/)
  assert.ok(existsSync(config))
})
