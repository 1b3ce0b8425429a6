// SIGTERM during work, as a container engine sends it: open work is released in time, and no accepted message is lost.
// The other files of this folder test kills.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { document, JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { RawClient } from '../smtp/raw.ts'

const RECIPIENTS = 300
const SESSIONS = 50

test('SIGTERM with 50 open sessions and a running campaign exits with 0 and loses no accepted message', async () => {
  const dataDir = temporaryDirectory('stop')
  const copies = new Map<string, number>()
  /** While it is held back, the receiving server has heard an email and does not answer. */
  let holding = true
  let heard = 0
  const exchanger = await startTestExchanger({
    final(mail) {
      heard++
      const [to] = mail.to
      mail.message = ''
      if (holding && heard > RECIPIENTS / 3) return new Promise<string>(() => {})
      copies.set(to!, (copies.get(to!) ?? 0) + 1)
      return undefined
    },
  })
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now() - 60_000) })
  const domain = await setUp.activeDomain('here.test')
  await setUp.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
  const wanted = Array.from({ length: RECIPIENTS }, (_, n) => `n${n}@d${n % 5}.test`)
  for (let n = 0; n < 5; n++) {
    setUp.dns.set(`d${n}.test`, 'MX', [`10 mx.d${n}.test`])
    setUp.dns.set(`mx.d${n}.test`, 'A', ['127.0.0.1'])
  }
  const kit = campaignKit(() => setUp)
  const audience = await kit.audience(domain)
  await kit.fill(audience, wanted)
  const campaign = await kit.draft(audience)
  await setUp.appliance.stop()
  const configFile = configFor(
    dataDir,
    setUp.dns,
    `[delivery]\nport = ${exchanger.port}\nretry = ["200ms"]\n[warmup]\nenabled = false\n`,
  )
  let server: Server | undefined
  const accepted: string[] = []
  const clients: RawClient[] = []
  try {
    let log = ''
    server = await startServer(configFile, { heard: (chunk) => (log += chunk) })
    const { smtp, url } = server
    const response = await fetch(`${url}/api/v1/campaigns/${campaign}`, {
      method: 'PATCH',
      headers: { authorization: `Bearer ${setUp.token}`, 'content-type': JSON_API },
      body: JSON.stringify({ data: { type: 'campaigns', id: campaign, attributes: { status: 'scheduled' } } }),
    })
    assert.equal(response.status, 200)
    // A third of them within a message, a third before it, a third between two.
    for (let n = 0; n < SESSIONS; n++) {
      const client = await RawClient.greeted(smtp[0]!)
      clients.push(client)
      if (n % 3 === 1) continue
      await client.begin('box@here.test')
      client.write(`Message-ID: <${n}@there.test>\r\nSubject: stop ${n}\r\n\r\nHello\r\n`)
      if (n % 3 === 0) continue
      assert.equal((await client.ask('.')).code, 250)
      accepted.push(`stop ${n}`)
    }
    await until(() => heard > RECIPIENTS / 3, 'a campaign in the middle')
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0, log)
    assert.match(log, /"event":"server_stopping"[^]*"event":"server_stopped"/)

    holding = false
    server = await startServer(configFile)
    await until(() => wanted.every((to) => copies.has(to)), 'everybody has the campaign')
    const store = openStore(dataDir)
    try {
      await until(() => store.all(raw('select message_key from inbound_waiting')).length === 0, 'everything read')
      const rows = store.all(raw<{ subject: string }>('select subject from inbound_emails'))
      assert.deepEqual(rows.map(({ subject }) => subject).sort(), accepted.sort(), 'each that was taken with 250, once')
      assert.deepEqual(store.verify(), [])
    } finally {
      store.close()
    }
    assert.deepEqual(
      [...copies].filter(([, count]) => count > 1),
      [],
      'nobody has it twice',
    )
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)
  } finally {
    for (const client of clients) client.destroy()
    if (server?.process.exitCode === null && server.process.signalCode === null) {
      server.process.kill('SIGKILL')
      await server.ended
    }
    await exchanger.close()
    await setUp.dns.close()
  }
})
