// Lanes learn how many connections a receiving server accepts (D64): a refused connection does not count as an attempt
// while another works.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Width } from '../../src/delivery/pacing/concurrency.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const { attempted, post, receiver, show } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, config: { workers: { count: 2 } }, domains: ['here.test'] }),
)

const MAILS = 40

for (const [name, most] of [
  ['one', 1],
  ['two', 2],
  ['five', 5],
] as const)
  test(`delivers all emails without delay, each in one attempt, to a host that accepts ${name} at once`, async () => {
    const domain = `takes-${name}.test`
    receiver(domain)
    const before = exchanger.heard.length
    exchanger.script.greeting = (open) => (open > most ? '421 4.7.0 Too many connections' : '220 mx.test ESMTP')
    const ids = await Promise.all(Array.from({ length: MAILS }, (_, n) => post({ to: `n${n}@${domain}` })))
    // The clock does not move, so no email waits for a pause.
    await until(() => exchanger.heard.length === before + MAILS, 'all mails')
    for (const id of ids) {
      const { recipients } = await attempted(id, 1)
      assert.deepEqual([recipients[0]?.status, recipients[0]?.attempts], ['delivered', 1])
    }
    exchanger.script.greeting = '220 mx.test ESMTP'
  })

test('421 in the middle of a session costs no attempt of emails that were not started', async () => {
  receiver('cuts.test')
  const before = exchanger.heard.length
  const seen = new Map<number, number>()
  // Each connection but the first carries two emails and is then cut.
  exchanger.script.answer = (command, connection) => {
    if (!command.startsWith('MAIL') || connection % 3 === 0) return undefined
    seen.set(connection, (seen.get(connection) ?? 0) + 1)
    return seen.get(connection)! > 2 ? '421 4.7.0 Enough for now' : undefined
  }
  const ids = await Promise.all(Array.from({ length: MAILS }, (_, n) => post({ to: `n${n}@cuts.test` })))
  await until(() => exchanger.heard.length === before + MAILS, 'all mails')
  delete exchanger.script.answer
  for (const id of ids) assert.equal((await attempted(id, 1)).recipients[0]?.attempts, 1)
})

test('pauses the lane if no connection works, and counts an attempt for the current email', async () => {
  receiver('closed.test')
  exchanger.script.greeting = () => '421 4.7.0 Not now'
  const id = await post({ to: 'a@closed.test' })
  const shown = await attempted(id, 1)
  assert.equal(shown.recipients[0]?.smtp_code, 421)
  assert.equal((await show(id)).status, 'queued')
  exchanger.script.greeting = '220 mx.test ESMTP'
})

test('halves the limit once for simultaneous rejections, raises it slowly after successes, and forgets it after an hour', () => {
  const width = new Width()
  assert.equal(width.of(20), 20)
  width.refused(20, 0)
  assert.equal(width.of(20), 10)
  for (let open = 19; open > 10; open--) width.refused(open, 1)
  assert.equal(width.of(20), 10)
  width.refused(9, 5000)
  assert.equal(width.of(20), 4)
  for (let now = 5000; now < 26_000; now += 100) width.succeeded(now)
  assert.equal(width.of(20), 6)
  for (let n = 0; n < 9; n++) width.refused(1, 100_000)
  assert.equal(width.of(20), 1)
  assert.equal(width.stale(3_600_000), false)
  assert.equal(width.stale(3_700_001), true)
})
