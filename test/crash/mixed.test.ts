// kill -9 under mixed load, with a ledger outside the server: posts, inbound mail, a campaign and webhooks at once. All
// accepted work is done. Each duplicate must be explained: the receiving server (or the endpoint) had it, and the
// killed process had not committed that. POSTRIDER_CRASH_MIXED sets the number of kills, POSTRIDER_CRASH_SEED the
// moments.
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { document, JSON_API, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger } from '../kit/exchanger.ts'
import { HOST, startTestReceiver } from '../kit/receiver.ts'
import { seeded } from '../kit/seeded.ts'
import { configFor, startServer, type Server } from '../kit/server-process.ts'
import { until } from '../kit/until.ts'
import { start } from '../commands/command.ts'
import type { Promised, Work } from './ledger.ts'

const KILLS = Number(process.env['POSTRIDER_CRASH_MIXED'] ?? 2)
const SEED = Number(process.env['POSTRIDER_CRASH_SEED'] ?? 1)
/** A round lasts until so many promises were given, drawn again each time. */
const MOST = 80
const DOMAINS = 5
/** A campaign begins in each round of these, and goes to so many. */
const CAMPAIGN_EVERY = 4
const READERS = 150

interface Row {
  [name: string]: unknown
}

/** Queries a database whose server may be dead. */
function ask<T = Row>(dataDir: string, sql: string): T[] {
  const database = new Database(join(dataDir, 'postrider.db'), { readonly: true, timeout: 10_000 })
  try {
    return database.prepare(sql).all() as T[]
  } finally {
    database.close()
  }
}

test(`killed ${KILLS} times under mixed load: every promise of the ledger is kept, every double is explained`, async (t) => {
  const dataDir = temporaryDirectory('mixed')
  const ledger = `${dataDir}.ledger`
  const random = seeded(SEED)
  /** Copies by recipient, and which of them came in the present round. */
  const copies = new Map<string, number>()
  const fresh = new Set<string>()
  const exchanger = await startTestExchanger({
    final: (mail) => {
      const to = mail.to[0]!
      copies.set(to, (copies.get(to) ?? 0) + 1)
      fresh.add(to)
      mail.message = ''
      return undefined
    },
  })
  const receiver = await startTestReceiver()
  const pushes = new Map<string, number>()
  const freshPushes = new Set<string>()
  receiver.answer = ({ headers }, response) => {
    const id = headers['webhook-id']!
    pushes.set(id, (pushes.get(id) ?? 0) + 1)
    freshPushes.add(id)
    receiver.requests.length = 0
    response.writeHead(200).end()
  }

  const setUp = await startTestAppliance({ dataDir, clock: new ManualClock(Date.now() - 60_000) })
  await setUp.activeDomain('here.test')
  const told = await setUp.activeDomain('told.test')
  for (let n = 0; n < DOMAINS; n++) {
    setUp.dns.set(`d${n}.test`, 'MX', [`10 mx.d${n}.test`])
    setUp.dns.set(`mx.d${n}.test`, 'A', ['127.0.0.1'])
  }
  setUp.dns.set(HOST, 'A', ['127.0.0.1'])
  await setUp.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: 'box@here.test' }))
  const relationships = { domain: { data: { type: 'domains', id: told.id } } }
  await setUp.api(
    'POST',
    '/webhooks',
    document('webhooks', { name: 'Hook', url: `${receiver.url}/hook`, events: ['*'] }, { relationships }),
  )
  const kit = campaignKit(() => setUp)
  const wanted = new Set<string>()
  const campaigns: string[] = []
  for (let n = 0; n < Math.ceil(KILLS / CAMPAIGN_EVERY); n++) {
    const audience = await kit.audience(told, `Readers ${n}`)
    const readers = Array.from({ length: READERS }, (_, m) => `c${n}-${m}@d${m % DOMAINS}.test`)
    for (const reader of readers) wanted.add(reader)
    await kit.fill(audience, readers)
    campaigns.push(await kit.draft(audience))
  }
  await setUp.appliance.stop()
  const configFile = configFor(
    dataDir,
    setUp.dns,
    `[delivery]
port = ${exchanger.port}
retry = ["200ms"]
[webhooks]
ca_file = ${JSON.stringify(receiver.caFile)}
retry = ["200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms", "200ms"]
probe = ["200ms"]
`,
  )
  const witness = fork(fileURLToPath(new URL('ledger.ts', import.meta.url)), {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const refused: string[] = []
  const given = new Map<number, number>()
  let endedRound = -1
  witness.on('message', (said: { promised?: number; ended?: number; refused?: string }) => {
    if (said.promised !== undefined) given.set(said.promised, (given.get(said.promised) ?? 0) + 1)
    endedRound = said.ended ?? endedRound
    if (said.refused !== undefined) refused.push(said.refused)
  })

  let server: Server | undefined
  /** How often each may come again: the database did not know of it at a kill. */
  const excused = new Map<string, number>()
  const excusedPushes = new Map<string, number>()
  const unwritten: number[] = []
  const excuse = (into: Map<string, number>, names: Iterable<string>): number => {
    let count = 0
    for (const name of names) {
      into.set(name, (into.get(name) ?? 0) + 1)
      count++
    }
    return count
  }
  const began = performance.now()
  try {
    for (let round = 0; round < KILLS; round++) {
      server = await startServer(configFile)
      const { smtp, url } = server
      if (round % CAMPAIGN_EVERY === 0) {
        const id = campaigns[round / CAMPAIGN_EVERY]!
        const response = await fetch(`${url}/api/v1/campaigns/${id}`, {
          method: 'PATCH',
          headers: { authorization: `Bearer ${setUp.token}`, 'content-type': JSON_API },
          body: JSON.stringify({ data: { type: 'campaigns', id, attributes: { status: 'scheduled' } } }),
        })
        assert.equal(response.status, 200, await response.text())
      }
      witness.send({
        from: ['me@told.test', 'me@here.test'],
        to: Array.from({ length: DOMAINS }, (_, n) => `d${n}.test`),
        url,
        smtp: smtp[0]!,
        token: setUp.token,
        file: ledger,
        round,
      } satisfies Work)
      const enough = 1 + Math.floor(random() * MOST)
      await until(() => given.get(round)! >= enough, `${enough} promises`)
      server.process.kill('SIGKILL')
      witness.send('gone')
      assert.equal(await server.ended, 'SIGKILL')
      await until(() => endedRound === round, 'the end of the round')
      const open = ask<{ address: string }>(dataDir, `select address from deliveries where status <> 'delivered'`)
      const here = open.map(({ address }) => address).filter((address) => fresh.has(address))
      const answered = ask<{ id: string }>(dataDir, `select id from outbound_webhooks where status <> 'delivered'`)
      const hooks = answered.map(({ id }) => id).filter((id) => freshPushes.has(id))
      unwritten.push(excuse(excused, here))
      excuse(excusedPushes, hooks)
      fresh.clear()
      freshPushes.clear()
    }
    const killing = performance.now() - began
    assert.deepEqual([...new Set(refused)], [], 'nothing but 201 and 250 was answered')

    server = await startServer(configFile)
    await until(
      async () => {
        await pause(200)
        return (
          ask<{ n: number }>(
            dataDir,
            `select (select count(*) from deliveries where status in ('queued', 'active')) + (select count(*) from outbound_webhooks where status in ('pending', 'active'))
             + (select count(*) from inbound_waiting) + (select count(*) from campaigns where status in ('scheduled', 'sending')) as n`,
          )[0]!.n === 0
        )
      },
      'everything at its end',
      () => ({
        now: Date.now(),
        deliveries: ask(
          dataDir,
          `select key, status, attempts, next_attempt_at, leased_until, smtp_code, response, trouble_since from deliveries where status in ('queued', 'active') limit 5`,
        ),
        webhooks: ask(
          dataDir,
          `select key, event, status, attempts, next_attempt_at from outbound_webhooks where status in ('pending', 'active') limit 5`,
        ),
        messages: ask(dataDir, `select message_key, attempts, next_attempt_at from inbound_waiting limit 5`),
        campaigns: ask(
          dataDir,
          `select key, status, enqueued, recipients from campaigns where status in ('scheduled', 'sending')`,
        ),
      }),
    )
    server.process.kill('SIGTERM')
    assert.equal(await server.ended, 0)

    const lines = readFileSync(ledger, 'utf8').trim().split('\n')
    const promised = lines.map((line) => JSON.parse(line) as Promised)
    const posts = promised.filter(({ kind }) => kind === 'post').map(({ name }) => name)
    const messages = promised.filter(({ kind }) => kind === 'message').map(({ name }) => name)
    assert.deepEqual(
      [...posts, ...wanted].filter((to) => !copies.has(to)),
      [],
      'promised, and not heard',
    )
    const kept = new Map(
      ask<{ subject: string; n: number }>(dataDir, `select subject, count(*) as n from inbound_emails group by 1`).map(
        ({ n, subject }) => [subject, n],
      ),
    )
    assert.deepEqual(
      messages.filter((name) => kept.get(name) !== 1),
      [],
      'taken with 250, and not once in the inbox',
    )
    const bad = `select status, count(*) as n from %s where status <> 'delivered' group by 1`
    for (const table of ['deliveries', 'outbound_emails', 'outbound_webhooks'])
      assert.deepEqual(ask(dataDir, bad.replace('%s', table)), [], table)
    assert.deepEqual(ask(dataDir, `select status, reason from inbound_emails where status <> 'received'`), [])
    assert.deepEqual(ask(dataDir, `select status from campaigns where status <> 'sent'`), [])

    // One by one.
    let doubles = 0
    for (const [to, count] of copies) {
      doubles += count - 1
      assert.ok(
        count - 1 <= (excused.get(to) ?? 0),
        `${to} came ${count} times; at ${excused.get(to) ?? 0} kills its yes was not on the disk`,
      )
    }
    let repeats = 0
    for (const [id, count] of pushes) {
      repeats += count - 1
      assert.ok(count - 1 <= (excusedPushes.get(id) ?? 0), `webhook ${id} came ${count} times`)
    }
    const rows = ask<{ id: string }>(dataDir, 'select id from outbound_webhooks')
    assert.deepEqual(
      rows.filter(({ id }) => !pushes.has(id)),
      [],
      'an event that was recorded was not pushed',
    )
    const verify = start(['--config', configFile, 'verify'], dataDir)
    assert.equal(await verify.ended, 0, verify.stdout() + verify.stderr())
    t.diagnostic(
      `${KILLS} kills (seed ${SEED}), ${Math.round(killing / KILLS)} ms a round: ${posts.length} mails, ${messages.length} messages, ${wanted.size} readers promised, 0 lost; ` +
        `${doubles} mails and ${repeats} webhooks twice, all of them taken before a kill and not on the disk (${unwritten.reduce((sum, n) => sum + n, 0)} such)`,
    )
  } finally {
    witness.disconnect()
    if (server?.process.exitCode === null && server.process.signalCode === null) {
      server.process.kill('SIGKILL')
      await server.ended
    }
    await exchanger.close()
    await receiver.close()
    await setUp.dns.close()
    rmSync(ledger, { force: true })
  }
})
