// Another process holds a transaction of the database and renews it each second, as Litestream does, during an erasure:
// /health responds at once, and the erasure completes after the reader.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { startTestDns } from '../kit/zone.ts'
import { filesWith } from '../kit/files-with.ts'
import { startPostrider } from './rig/postrider.ts'
import { Sandbox, until } from './rig/sandbox.ts'

/** What the specification asks for is 50 ms; a stopped loop was 5000. A busy machine is given more. */
const MOST_HEALTH = 500
/** Two tries of the erasure. */
const HELD_FOR = 12_000
const ENDS_WITHIN = 60_000

/** Never without a transaction for longer than a moment, and never in the same one for longer than a second. */
const READER = `import Database from '${import.meta.resolve('better-sqlite3')}'
const databases = [0, 1].map(() => new Database(process.argv[1], { readonly: true }))
const begin = (database) => {
  database.exec('begin')
  database.prepare('select count(*) from outbound_emails').get()
}
begin(databases[0])
console.log('reads')
setInterval(() => {
  begin(databases[1])
  databases[0].exec('commit')
  databases.reverse()
}, 1000)`

const box = new Sandbox('reader')
const dns = await startTestDns()
after(async () => {
  await box.close()
  await dns.close()
})

test('an erasure next to a reader that renews its transaction each second keeps /health fast, and completes after the reader', async (t) => {
  const postrider = await startPostrider({ dns, hostname: 'mx.postrider.test', deliveryPort: 1 })
  try {
    const [, http = ''] = /"http":"([^"]+)"/.exec(postrider.log()) ?? []
    await postrider.sendingDomain('here.test')
    for (let n = 0; n < 50; n++)
      await postrider.post({
        from: 'me@here.test',
        to: n === 0 ? 'ann.somebody@there.test' : `n${n}@there.test`,
        subject: 'Hello',
        html: `<p>${'x'.repeat(20_000)}</p>`,
      })
    const file = `${postrider.dataDir}/postrider.db`
    const script = ['--input-type=module', '-e', READER, file]
    const reader = box.daemon(process.execPath, script, 'reader.log')
    await until(
      () => box.read('reader.log').includes('reads'),
      20_000,
      () => `the reader does not read: ${box.read('reader.log')}`,
    )
    assert.equal((await postrider.api('DELETE', '/recipients/ann.somebody@there.test/forget')).status, 202)
    const took: number[] = []
    const watch = async (): Promise<void> => {
      const began = performance.now()
      assert.equal((await fetch(`http://${http}/health`)).status, 200)
      took.push(performance.now() - began)
      await pause(10)
    }
    for (const end = performance.now() + HELD_FOR; performance.now() < end;) await watch()
    assert.ok(reader.alive())
    assert.match(postrider.log(), /"event":"erasure_waiting"/)
    const quick = took.toSorted((one, other) => one - other)
    await reader.stop()
    const gone = performance.now()
    const done = (): boolean => postrider.log().includes('"event":"privacy_request_completed"')
    while (!done() && performance.now() - gone < ENDS_WITHIN) await watch()
    assert.ok(done(), 'the erasure did not end within a minute')
    const most = Math.max(...took)
    t.diagnostic(
      `/health ${took.length} times beside the reader: median ${quick[quick.length >> 1]?.toFixed(1)} ms, most ${most.toFixed(0)} ms; the erasure ended ${((performance.now() - gone) / 1000).toFixed(1)} s after the reader`,
    )
    assert.ok(most < MOST_HEALTH, `${most} ms`)
    assert.deepEqual(await filesWith(postrider.dataDir, 'ann.somebody@there.test'), [])
  } finally {
    await postrider.stop()
  }
})
