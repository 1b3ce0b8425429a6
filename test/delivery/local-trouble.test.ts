// Local trouble never ends an email (D72): the email waits, without an attempt and without paths in what users see.
// Replies of receiving servers are kept until the store can write them.
import assert from 'node:assert/strict'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Store } from '../../src/store/database.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { DAY, mailsOf } from '../mail/mails.ts'

const lines: string[] = []
const { attempted, become, post, receiver, show, turnToNext } = mailsOf(() => postrider)
let rcpt: string | undefined
let atFinalDot: (() => void) | undefined

const exchanger = testExchanger({
  answer: (command) => (command.startsWith('RCPT') ? rcpt : undefined),
  final: () => {
    atFinalDot?.()
    return undefined
  },
})
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, logged: { level: 'info', lines }, domains: ['here.test'] }),
)

const heardBy = (address: string) => exchanger.heard.filter(({ to }) => to.includes(address))
const large = `<p>${'x'.repeat(300_000)}</p>`

/** A large email that was deferred once, with the spool missing at its next attempt. `back` restores the spool. */
async function waiting(to: string): Promise<{ id: string; back: () => void }> {
  rcpt = '451 4.7.1 later'
  const id = await post({ to, html: large })
  await attempted(id, 1)
  rcpt = undefined
  const spool = join(postrider.dataDir, 'spool')
  renameSync(spool, `${spool}.away`)
  await turnToNext(id)
  await until(async () => (await show(id)).recipients[0]?.response?.includes('problem on this server'))
  return { id, back: () => renameSync(`${spool}.away`, spool) }
}

test('queues an email without an attempt while the spool is missing, shows no path, and sends it when the spool is back', async () => {
  receiver('away.test')
  const { id, back } = await waiting('a@away.test')
  const shown = await show(id)
  assert.equal(shown.status, 'queued')
  const [recipient] = shown.recipients
  assert.equal(recipient?.attempts, 1)
  assert.match(recipient?.response ?? '', /problem on this server/)
  assert.doesNotMatch(JSON.stringify(shown), /spool/)
  const health = await postrider.raw('/health')
  assert.equal(health.status, 200)
  assert.equal(health.body.status, 'degraded')
  assert.doesNotMatch(JSON.stringify(health.body), /\//)
  assert.ok(lines.some((line) => /"problem_reported"/.test(line) && /ENOENT/.test(line)))
  // 10 s, then as long as it has lasted, at most 10 minutes.
  const waits: number[] = []
  for (let turns = 0; turns < 10; turns++) {
    const { next_attempt_at } = (await show(id)).recipients[0]!
    waits.push(await turnToNext(id))
    await until(async () => {
      const now = (await show(id)).recipients[0]!.next_attempt_at
      return now !== null && now !== next_attempt_at
    })
  }
  assert.deepEqual(
    waits,
    [10, 10, 20, 40, 80, 160, 320, 600, 600, 600].map((seconds) => seconds * 1000),
  )
  back()
  await turnToNext(id)
  const sent = await become(id, 'delivered')
  assert.equal(sent.recipients[0]?.attempts, 2)
})

test('an email fails, and is not rejected, if the problem lasts until it expires', async () => {
  receiver('long.test')
  const { id, back } = await waiting('a@long.test')
  postrider.clock.leap(5 * DAY)
  await become(id, 'failed')
  back()
})

/** Makes every commit of the store fail while `failing()`. `write` and `writeSoon` go through one door. */
function breakStore(store: Store, failing: () => boolean): () => void {
  const write = store.write.bind(store)
  const writeSoon = store.writeSoon.bind(store)
  const fail = () => Promise.reject(Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_WRITE' }))
  store.write = (work) => (failing() ? fail() : write(work)) as never
  store.writeSoon = (work, patience) => (failing() ? fail() : writeSoon(work, patience)) as never
  return () => Object.assign(store, { write, writeSoon })
}

test('keeps an acceptance that it cannot write, sends the email once, and claims no mail of the lane until then', async () => {
  receiver('kept.test')
  const { store } = postrider.appliance.deps
  let broken = false
  const repair = breakStore(store, () => broken)
  atFinalDot = () => (broken = true)
  const id = await post({ to: 'a@kept.test' })
  await until(() => heardBy('a@kept.test').length === 1)
  atFinalDot = undefined
  await until(() => lines.some((line) => /"problem_reported"/.test(line) && /database/.test(line)))
  assert.equal((await show(id)).status, 'queued')
  assert.equal((await postrider.raw('/health')).body.status, 'degraded')
  broken = false
  const other = await post({ to: 'b@kept.test' })
  postrider.clock.leap(30_000)
  assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 1)
  await become(other, 'delivered')
  assert.equal(heardBy('a@kept.test').length, 1)
  repair()
})

test('reports a database write problem, and its end even without further writes', async () => {
  const { store } = postrider.appliance.deps
  const said = async (status: string) => {
    postrider.clock.leap(1000)
    return (await postrider.raw('/health')).body.status === status
  }
  // The problems of other tests have ended by then.
  postrider.clock.leap(16 * 60_000)
  await until(() => said('ok'))
  // SQLite on a full disk ends the transaction itself.
  const full = store.write((tx) => {
    tx.run(raw('rollback'))
    throw Object.assign(new Error('database or disk is full'), { code: 'SQLITE_FULL' })
  })
  await assert.rejects(full, /full/)
  await until(() => said('degraded'))
  const from = postrider.clock.now()
  await until(() => said('ok'))
  assert.ok(postrider.clock.now() - from < 60_000)
})

test('queues an email without an attempt while DNS lookups fail for lack of file descriptors, and sends it later', async () => {
  receiver('unasked.test')
  const { resolver } = postrider.appliance.deps
  const mx = resolver.mx.bind(resolver)
  resolver.mx = () => Promise.resolve({ kind: 'failed', reason: 'EMFILE', local: true })
  const id = await post({ to: 'a@unasked.test' })
  await until(async () => (await show(id)).recipients[0]?.response?.includes('problem on this server'))
  assert.equal((await show(id)).recipients[0]?.attempts, 0)
  assert.equal((await postrider.raw('/health')).body.status, 'degraded')
  resolver.mx = mx
  await turnToNext(id)
  assert.equal((await become(id, 'delivered')).recipients[0]?.attempts, 1)
})
