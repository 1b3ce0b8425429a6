// Commands on the data of a sandbox use its DNS and its receiving server, never the DNS of their configuration (D216).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLog } from '../../src/base/log.ts'
import { startSandbox, type Sandbox } from '../../src/server/sandbox/start.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { Commands } from '../commands/command.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestDns } from '../kit/zone.ts'

const loopback = { host: '127.0.0.1', port: 0 }
const start = (dataDir: string): Promise<Sandbox> =>
  startSandbox({ http: loopback, smtp: loopback, dataDir, clock: new ManualClock(Date.now()), log: silentLog })

type Checked = { status: string; records: { required: boolean; verified: boolean }[] }
const verified = ({ records }: Checked): boolean[] =>
  records.filter(({ required }) => required).map((record) => record.verified)

test('commands on the data of a sandbox use its DNS and its receiving server, even while it is stopped', async (t) => {
  const dataDir = temporaryDirectory('kept')
  // The DNS of the configuration: no name of the sandbox is there.
  const real = await startTestDns()
  const commands = Commands.beside({ dataDir }, `[dns]\nservers = ["127.0.0.1:${real.port}"]\n`)
  t.after(async () => {
    await commands.close()
    await real.close()
  })
  const sandbox = await start(dataDir)
  try {
    const checked = await commands.json<Checked>('domain', 'check', sandbox.domain)
    assert.equal(checked.status, 'active')
    assert.deepEqual([...new Set(verified(checked))], [true])
    assert.equal((await commands.json<Checked>('domain', 'rotate-dkim', sandbox.domain)).status, 'verifying')
    const again = await commands.json<Checked>('domain', 'check', sandbox.domain)
    assert.deepEqual([again.status, ...new Set(verified(again))], ['active', true])
    const posted = await commands.json('webhook', 'test', `${sandbox.receiver}/`)
    assert.equal(posted.response_status, 200)
  } finally {
    await sandbox.stop()
  }
  const after = await commands.json<Checked>('domain', 'check', sandbox.domain)
  assert.deepEqual([after.status, ...new Set(verified(after))], ['active', true])
  assert.deepEqual(real.asked, [])
  assert.match(await commands.fails('serve'), /contains the data of a sandbox; run "postrider dev --data /)
})

test('the sandbox rejects the data of a server', async () => {
  await using postrider = await startTestAppliance()
  await postrider.appliance.stop()
  await assert.rejects(start(postrider.dataDir), /contains the data of the server mx\.postrider\.test/)
})
