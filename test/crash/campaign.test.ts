// A campaign that is paused and resumed, and whose server is killed with kill -9, repeatedly (D44). Each recipient gets
// exactly one email. The only permitted duplicates are emails that the sink had answered with 250 and whose result the
// killed process had not yet committed. They are counted for each kill, from the database of the dead process.
//
// The server is a separate process, `postrider serve`, with the system's clock. DNS and receiving server are the kit's.
// POSTRIDER_CRASH_RECIPIENTS sets the number of recipients, POSTRIDER_CRASH_ROUNDS the number of pauses and kills,
// POSTRIDER_CRASH_SEED the moments.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { seeded } from '../kit/seeded.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'

const RECIPIENTS = Number(process.env['POSTRIDER_CRASH_RECIPIENTS'] ?? 600)
const ROUNDS = Number(process.env['POSTRIDER_CRASH_ROUNDS'] ?? 2)
const SEED = Number(process.env['POSTRIDER_CRASH_SEED'] ?? 1)
const DOMAINS = 5
const BATCH = 1000
const BYSTANDER = 'bystander'
/** Results of email that may be in unfinished commits (delivery/deliver.ts), and one email for each open connection. */
const UNCOMMITTED = 100 + 200

test(`a campaign to ${RECIPIENTS}, paused and killed ${ROUNDS} times each: one email per contact, and correct statistics`, async (t) => {
  const dataDir = temporaryDirectory('crash')
  const random = seeded(SEED)
  const copies = new Map<string, number>()
  let heard = 0
  const exchanger = await startTestExchanger({
    final: (mail) => {
      const [to] = mail.to
      if (to!.startsWith(BYSTANDER)) return undefined
      copies.set(to!, (copies.get(to!) ?? 0) + 1)
      heard++
      mail.message = ''
      return undefined
    },
  })
  // A first appliance makes everything there is before the campaign starts, and leaves its DNS running.
  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now() - 60_000) })
  const domain = await setUp.activeDomain('here.test')
  for (let n = 0; n < DOMAINS; n++) {
    setUp.dns.set(`d${n}.test`, 'MX', [`10 mx.d${n}.test`])
    setUp.dns.set(`mx.d${n}.test`, 'A', ['127.0.0.1'])
  }
  const kit = campaignKit(() => setUp)
  const audience = await kit.audience(domain)
  const wanted = new Set<string>()
  const { store } = setUp.appliance.deps
  for (let from = 0; from < RECIPIENTS; from += BATCH) {
    const page = Array.from(
      { length: Math.min(BATCH, RECIPIENTS - from) },
      (_, n) => `n${from + n}@d${n % DOMAINS}.test`,
    )
    await kit.fill(
      audience,
      page.map((email, n) => ({ email, name: `Reader ${n}`, custom_fields: { plan: `plan ${n % 7}` } })),
    )
    // One in 50 has left or must not be written to, for one reason or the other.
    const about = { user_key: domain.user_key, domain_key: domain.key }
    await store.write((tx) => {
      for (const [n, email] of page.entries())
        if (n % 50 !== 7) wanted.add(email)
        else if (n % 100 === 7)
          suppress(
            tx,
            { ...about, address: email, reason: 'unsubscribe', scope: 'marketing', source: 'manual' },
            Date.now(),
          )
        else suppress(tx, { ...about, address: email, reason: 'manual', scope: 'all', source: 'manual' }, Date.now())
    })
  }
  const campaign = await kit.draft(audience, {
    body_html: `<p>Dear {{name}}, your {{plan}}. <a href="{{unsubscribe_url}}">Leave</a></p>${'<p>text</p>'.repeat(50)}`,
  })
  // Campaigns to one reader in each domain, made to show that the queue has had its turn.
  const bystanders = await kit.audience(domain, 'Bystanders')
  await kit.fill(
    bystanders,
    Array.from({ length: DOMAINS }, (_, n) => `${BYSTANDER}@d${n}.test`),
  )
  const others: string[] = []
  for (let n = 0; n < 3 * ROUNDS; n++) others.push(await kit.draft(bystanders))
  await setUp.appliance.stop()
  const configFile = configFor(
    dataDir,
    setUp.dns,
    `[delivery]
port = ${exchanger.port}
retry = ["200ms"]
`,
  )

  let server: Server | undefined
  const ask = async (method: string, path: string, attributes?: Record<string, unknown>, id = campaign) => {
    const response = await fetch(`${server!.url}/api/v1/campaigns/${id}${path}`, {
      method,
      headers: { authorization: `Bearer ${setUp.token}`, ...(attributes ? { 'content-type': JSON_API } : {}) },
      ...(attributes ? { body: JSON.stringify({ data: { type: 'campaigns', id, attributes } }) } : {}),
    })
    // oxlint-disable-next-line typescript/no-explicit-any
    const body = (await response.json()) as { data: { attributes: Record<string, any> } }
    assert.equal(response.status, 200, JSON.stringify(body))
    return body.data.attributes
  }
  const status = async (id = campaign): Promise<string> => (await ask('GET', '', undefined, id))['status'] as string
  /** Waits until so many emails were heard, or the campaign is at its end. */
  const reach = (count: number): Promise<unknown> => until(() => heard >= count, `${count} mails at the sink`)

  /** No mail is in hand, and the queue has had its turn since: another campaign went out. */
  const silence = async (): Promise<void> => {
    const inHand = raw(`select 1 from deliveries where status = 'active' limit 1`)
    const reader = openStore(dataDir)
    try {
      await until(() => reader.all(inHand).length === 0, 'no mail in hand')
    } finally {
      reader.close()
    }
    const other = others.pop()!
    await ask('PATCH', '', { status: 'scheduled' }, other)
    await until(async () => (await status(other)) === 'sent', 'the other campaign')
  }

  // 2 * ROUNDS moments, a pause and a kill in turn, spread over the run. Duplicates by kills do not count as progress.
  const part = wanted.size / (2 * ROUNDS + 1)
  let excused = 0
  const excusedOf = new Map<string, number>()
  const kills: number[] = []
  let late = 0
  const kill = async (): Promise<void> => {
    server!.process.kill('SIGKILL')
    assert.equal(await server!.ended, 'SIGKILL')
    const dead = openStore(dataDir)
    try {
      const rows = dead.all(
        raw<{ address: string }>(
          `select address from deliveries where status = 'delivered' and address not like '${BYSTANDER}@%'`,
        ),
      )
      const committed = new Set(rows.map(({ address }) => address))
      for (const address of committed) assert.ok(copies.has(address), `${address} is delivered, and nobody heard of it`)
      const lost = [...copies.keys()].filter((address) => !committed.has(address))
      for (const address of lost) excusedOf.set(address, (excusedOf.get(address) ?? 0) + 1)
      assert.ok(lost.length <= UNCOMMITTED, `${lost.length} mails were heard and not written down`)
      excused += lost.length
      kills.push(lost.length)
    } finally {
      dead.close()
    }
  }
  try {
    server = await startServer(configFile)
    await ask('PATCH', '', { status: 'scheduled' })
    for (let round = 0; round < ROUNDS; round++) {
      await reach(part * (2 * round + 0.5 + random() * 0.5) + excused)
      await ask('PATCH', '', { status: 'paused' })
      const atPause = heard
      // Only emails past MAIL may arrive.
      await silence()
      const after = heard
      late = Math.max(late, after - atPause)
      await silence()
      assert.equal(heard, after, 'nothing is sent while it is paused')
      if (round === 1) {
        // A paused campaign stays paused through a crash.
        await kill()
        server = await startServer(configFile)
        await silence()
        assert.equal(heard, after, 'nothing is sent by the next process either')
        assert.equal(await status(), 'paused')
      }
      await ask('PATCH', '', { status: 'sending' })
      if (round === 1) continue
      await reach(Math.min(part * (2 * round + 1.5 + random() * 0.5) + excused, wanted.size + excused - 1))
      await kill()
      server = await startServer(configFile)
    }
    await until(async () => (await status()) === 'sent', 'the end of the campaign')
    const { recipients } = await ask('GET', '')
    const stats = await ask('GET', '/stats')
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)

    assert.deepEqual(
      [...wanted].filter((address) => !copies.has(address)),
      [],
      'nobody is forgotten',
    )
    assert.deepEqual(
      [...copies.keys()].filter((address) => !wanted.has(address)),
      [],
      'nobody else is written to',
    )
    let doubles = 0
    for (const [address, count] of copies) {
      doubles += count - 1
      const borne = excusedOf.get(address) ?? 0
      assert.ok(
        count - 1 <= borne,
        `${address} has ${count} copies; ${borne} were heard and not written down before a kill`,
      )
    }
    assert.equal(recipients, wanted.size)
    assert.equal(stats['recipients'], wanted.size)
    assert.equal(stats['deliveries'], copies.size, 'the figures are those of the sink')
    assert.equal(stats['bounces'], 0)
    const end = openStore(dataDir)
    try {
      assert.deepEqual(
        end.all(
          raw(`select status, count(*) as n from outbound_emails where "to" not like '${BYSTANDER}@%' group by 1`),
        ),
        [{ status: 'delivered', n: wanted.size }],
      )
      assert.deepEqual(
        end.all(raw(`select status, count(*) as n from deliveries where address not like '${BYSTANDER}@%' group by 1`)),
        [{ status: 'delivered', n: wanted.size }],
      )
      assert.deepEqual(end.verify(), [])
    } finally {
      end.close()
    }
    t.diagnostic(
      `${wanted.size} recipients, ${heard} mails heard, ${doubles} doubles; heard and not written down at each kill: ${kills.join(', ')}; ` +
        `at most ${late} after a pause`,
    )
  } finally {
    if (server?.process.exitCode === null && server.process.signalCode === null) {
      server.process.kill('SIGKILL')
      await server.ended
    }
    await exchanger.close()
    await setUp.dns.close()
  }
})
