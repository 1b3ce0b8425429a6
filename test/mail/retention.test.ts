// How long the body of a sent email is kept (retention.outbound_bodies).
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DAY, HOUR } from '../../src/base/clock.ts'
import { removeOldBodies } from '../../src/mail/retention.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from './mails.ts'

const { attempted, become, post, show } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    // Only the test removes bodies.
    config: { delivery: { lifetime: '60d' }, retention: { outbound_bodies: '0' } },
    domains: ['here.test'],
    routes: ['there.test'],
  }),
)

const spooled = (): number => readdirSync(join(postrider.dataDir, 'spool')).length

test('deletes the body and file of a finished email after the retention time, and keeps queued and newer ones', async () => {
  const { deps } = postrider.appliance
  const small = await post({ to: 'small@there.test' })
  const large = await post({ to: 'large@there.test', html: `<p>${'x'.repeat(400_000)}</p>` })
  await Promise.all([become(small, 'delivered'), become(large, 'delivered')])
  exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
  const waiting = await post({ to: 'waiting@there.test' })
  await attempted(waiting, 1)
  postrider.clock.leap(30 * DAY)
  const young = await post({ to: 'young@there.test' })
  // Their next attempts are set by now: the clock is turned past them below.
  await Promise.all([attempted(waiting, 2), attempted(young, 1)])
  assert.equal(await removeOldBodies(deps, postrider.clock.now() - 30 * DAY), 0, 'to the millisecond')
  assert.equal(spooled(), 1)
  assert.equal(await removeOldBodies(deps, postrider.clock.now() - 30 * DAY + 1), 2)
  assert.equal(spooled(), 0)
  for (const id of [small, large]) {
    const { html, status, subject, text } = await show(id)
    assert.deepEqual({ html, status, text }, { html: null, status: 'delivered', text: null })
    assert.ok(subject)
  }
  for (const id of [waiting, young]) assert.ok((await show(id))['html'], id)
  exchanger.script = {}
  postrider.clock.leap(DAY)
  await become(waiting, 'delivered')
  assert.equal(await removeOldBodies(deps, postrider.clock.now() - 30 * DAY), 1)
})

test('deletes the body that the emails of a batch share with the last of theirs', async () => {
  const { deps } = postrider.appliance
  await removeOldBodies(deps, postrider.clock.now())
  const email = { from: 'ann@here.test', subject: 'x', html: `<p>${'x'.repeat(100_000)}</p>` }
  const recipients = ['first', 'second'].map((name) => ({ to: `${name}@there.test` }))
  exchanger.script = { answer: (line) => (line.includes('second@') ? '451 4.2.1 Later' : undefined) }
  const batch = document('outbound-email-batches', { email, recipients })
  const { body } = await postrider.api('POST', '/outbound-email-batches', batch)
  const [first, second] = body.data.attributes.results as { id: string }[]
  await Promise.all([become(first!.id, 'delivered'), attempted(second!.id, 1)])
  postrider.clock.leap(30 * DAY)
  const before = spooled()
  assert.equal(await removeOldBodies(deps, postrider.clock.now()), 1)
  assert.equal((await show(first!.id))['html'], null)
  assert.ok((await show(second!.id))['html'])
  exchanger.script = {}
  postrider.clock.leap(DAY)
  await become(second!.id, 'delivered')
  assert.equal(spooled(), before)
  assert.equal(await removeOldBodies(deps, postrider.clock.now()), 1)
  assert.equal(spooled(), before - 1)
})

test('looks for expired bodies every hour', async () => {
  const own = await startTestAppliance({
    config: { delivery: { port: exchanger.port }, retention: { outbound_bodies: '30d' } },
  })
  const mails = mailsOf(() => own)
  try {
    await own.activeDomain('here.test')
    mails.receiver('hourly.test')
    const id = await mails.post({ to: 'a@hourly.test' })
    await mails.become(id, 'delivered')
    own.clock.leap(30 * DAY)
    await mails.become(await mails.post({ to: 'b@hourly.test' }), 'delivered')
    assert.ok((await mails.show(id))['html'], 'not past it yet')
    own.clock.leap(HOUR - 1)
    await mails.become(await mails.post({ to: 'c@hourly.test' }), 'delivered')
    assert.ok((await mails.show(id))['html'], 'nobody has looked again')
    own.clock.leap(1)
    await until(async () => (await mails.show(id))['html'] === null, 'its body removed')
  } finally {
    await own.stop()
  }
})
