// `postrider export list` and `fetch`.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { MINUTE } from '../../src/base/clock.ts'
import { campaignKit } from '../kit/campaign.ts'
import { until } from '../kit/until.ts'
import { startBeside } from '../commands/beside.ts'

const { commands, postrider } = await startBeside()

test('lists requests, and writes a bundle once to a new file, never over an existing one', async () => {
  assert.match((await commands.run(['export', 'list'])).stdout, /There are no privacy requests/)
  const kit = campaignKit(() => postrider)
  await kit.fill(await kit.audience(await postrider.activeDomain('here.test')), ['ann@there.test'])
  const { id } = (await postrider.api('GET', '/recipients/ann@there.test/data')).body.data
  const [row] = await until(async () => {
    const rows = await commands.json('export', 'list')
    return rows[0]?.ready ? rows : undefined
  }, 'the bundle')
  assert.deepEqual([row.id, row.kind, row.status, row.user], [id, 'export', 'done', 'ann@owner.test'])
  assert.match((await commands.run(['export', 'list'])).stdout, new RegExp(`${id}\\s+export\\s+done\\s+yes`))
  const out = join(commands.folder, 'ann.zip')
  assert.equal((await commands.json('export', 'fetch', id, '--out', out)).file, out)
  assert.equal(readFileSync(out).subarray(0, 2).toString(), 'PK')
  assert.match(await commands.fails('export', 'fetch', id, '--out', out), /exists; choose another/)
  assert.match(await commands.fails('export', 'fetch', 'nothing'), /no export nothing/)
  await commands.misused('export', 'fetch')
  await postrider.api('DELETE', '/recipients/ann@there.test/forget')
  await until(async () => {
    // A command that reads the database at that moment makes the erasure wait and try again.
    postrider.clock.leap(MINUTE)
    return (await commands.json('export', 'list')).every((each: { status: string }) => each.status === 'done')
  }, 'the erasure')
  assert.match(await commands.fails('export', 'fetch', id), /The export has expired; request a new one/)
})
