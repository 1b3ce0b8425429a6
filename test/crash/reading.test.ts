// A process that dies while it reads a large message: after the second time the message is kept unread, and is not read
// again at a start. Other messages are read. The servers are separate processes, `postrider serve`, with the system's
// clock.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { deliver } from '../kit/sender.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'

/** Takes seconds to read: pieces of a Japanese charset without an end. */
const LARGE =
  'Subject: large\r\nContent-Type: text/plain; charset=iso-2022-jp\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n' +
  '=1B$B=\r\n'.repeat(700_000)
const CLAIMED = raw<{ id: string; size: number; attempts: number }>(
  'select m.id, m.size, w.attempts from inbound_waiting w join inbound_messages m on m.key = w.message_key',
)

test('a message that crashes the server twice stays unread, and the others are read (D139)', async () => {
  const dataDir = temporaryDirectory('reading-crash')
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now()) })
  await setUp.activeDomain('here.test')
  await setUp.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
  await setUp.appliance.stop()
  const config = configFor(dataDir, setUp.dns)
  const store = openStore(dataDir)
  const claimed = (attempts: number): Promise<unknown> =>
    until(() => store.all(CLAIMED).some((row) => row.size > 1e6 && row.attempts === attempts), `${attempts} claims`)
  const kill = async (server: Server): Promise<void> => {
    server.process.kill('SIGKILL')
    assert.equal(await server.ended, 'SIGKILL')
  }
  let server: Server | undefined
  try {
    server = await startServer(config)
    const host = { host: '127.0.0.1', port: server.smtp[0]! }
    await deliver(host, { to: 'box@here.test', message: LARGE })
    await claimed(1)
    await deliver(host, { to: 'box@here.test', message: 'Subject: beside\r\n\r\nHello.\r\n' })
    await kill(server)
    server = await startServer(config)
    await claimed(2)
    await kill(server)
    server = await startServer(config)
    await until(() => store.all(CLAIMED).length === 0, 'none waits')
    const rows = store.all(
      raw<{ status: string; reason: string | null; content: number }>(
        `select e.status, e.reason, m.spool is not null as content from inbound_emails e
         join inbound_messages m on m.key = e.message_key order by m.size`,
      ),
    )
    assert.deepEqual(rows, [
      { status: 'received', reason: null, content: 0 },
      { status: 'parse_rejected', reason: 'The server ended each time while it read it.', content: 1 },
    ])
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  } finally {
    if (server?.process.exitCode === null && server.process.signalCode === null) await kill(server)
    store.close()
    await setUp.dns.close()
  }
})
