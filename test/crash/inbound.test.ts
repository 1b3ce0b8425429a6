// kill -9 right after the 250: after the next start every accepted message is there exactly once and complete, both in
// the database and in the spool.
//
// The servers are separate processes, `postrider serve`, with the system's clock. Several data directories are used in
// parallel. POSTRIDER_CRASH_KILLS is the number of kills in all.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { RawClient } from '../smtp/raw.ts'

const KILLS = Number(process.env['POSTRIDER_CRASH_KILLS'] ?? 2)
const SIDE_BY_SIDE = KILLS > 2 ? 2 : 1

/** One data directory: sends a message, gets its 250 and kills the server, `kills` times. Then checks the messages. */
async function takeTurns(turn: number, kills: number): Promise<void> {
  const dataDir = temporaryDirectory('inbound-crash')
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  await setUp.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
  await setUp.appliance.stop()
  const configFile = configFor(dataDir, setUp.dns)
  let server: Server | undefined
  const accepted: string[] = []
  try {
    for (let n = 0; n < kills; n++) {
      server = await startServer(configFile)
      const subject = `turn ${turn} kill ${n}`
      // Every other one is large enough for the spool.
      const body = n % 2 === 0 ? 'Hello\r\n' : `${'large '.repeat(12)}\r\n`.repeat(5000)
      const client = await RawClient.greeted(server.smtp[0]!)
      await client.begin('box@here.test')
      client.write(`Message-ID: <${turn}.${n}@there.test>\r\nSubject: ${subject}\r\n\r\n${body}`)
      const { code } = await client.ask('.')
      server.process.kill('SIGKILL')
      assert.equal(code, 250)
      accepted.push(subject)
      client.destroy()
      assert.equal(await server.ended, 'SIGKILL')
    }
    server = await startServer(configFile)
    const store = openStore(dataDir)
    try {
      const waiting = raw('select message_key from inbound_waiting')
      await until(() => store.all(waiting).length === 0, 'everything read')
      const rows = store.all(
        raw<{ subject: string; status: string; reason: string | null }>(
          'select subject, status, reason from inbound_emails',
        ),
      )
      assert.deepEqual([...new Set(rows.map(({ reason }) => reason))], [null])
      assert.deepEqual(rows.map(({ subject }) => subject).sort(), [...accepted].sort(), 'each exactly once')
      assert.deepEqual([...new Set(rows.map(({ status }) => status))], ['received'])
      const events = store.first(
        raw<{ n: number }>(`select count(*) as n from events where type = 'inbound_email.received'`),
      )
      assert.equal(events!.n, accepted.length, 'each told once')
      const files = store.all(raw<{ spool: string }>('select spool from inbound_messages where spool is not null'))
      assert.equal(files.length, Math.floor(kills / 2))
      assert.deepEqual(readdirSync(join(dataDir, 'spool')).sort(), files.map(({ spool }) => spool).sort())
      assert.deepEqual(store.all(raw('pragma integrity_check')), [{ integrity_check: 'ok' }])
    } finally {
      store.close()
    }
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  } finally {
    if (server?.process.exitCode === null && server.process.signalCode === null) {
      server.process.kill('SIGKILL')
      await server.ended
    }
    await setUp.dns.close()
  }
}

test(`killed ${KILLS} times right after the 250: every accepted message is stored once`, async () => {
  const each = Math.ceil(KILLS / SIDE_BY_SIDE)
  await Promise.all(Array.from({ length: SIDE_BY_SIDE }, (_, turn) => takeTurns(turn, each)))
})
