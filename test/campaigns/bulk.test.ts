// Campaign email next to other email: a transactional email overtakes thousands.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const kit = campaignKit(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))

test('a transactional email overtakes 1,200 campaign emails for the same domain', async () => {
  const domain = await postrider.activeDomain('here.test')
  const audience = await kit.audience(domain)
  for (let from = 0; from < 1200; from += 400)
    await kit.fill(
      audience,
      Array.from({ length: 400 }, (_, n) => `n${from + n}@there.test`),
    )
  const campaign = await kit.draft(audience)
  assert.equal((await kit.patch(campaign, { status: 'scheduled' })).status, 200)
  for (let n = 0; n < 3; n++) {
    await until(() => exchanger.heard.length >= 200 * (n + 1))
    const at = exchanger.heard.length
    const to = `somebody${n}@there.test`
    const sent = document('outbound-emails', { from: 'a@here.test', to, subject: 'Now', html: '<p>x</p>' })
    assert.equal((await postrider.api('POST', '/outbound-emails', sent)).status, 201)
    const heardAt = (): number => exchanger.heard.findIndex((mail) => mail.to[0] === to)
    await until(() => heardAt() >= 0, 'the mail')
    // Other emails sent in between were already in progress, or use other connections.
    assert.ok(heardAt() - at < 500, `${heardAt() - at} mails of the campaign went before it`)
  }
  assert.ok(exchanger.heard.length < 1200, 'the campaign had not ended before')
  await until(async () => (await kit.show(campaign))['status'] === 'sent', 'the end')
  assert.equal(new Set(exchanger.heard.map(({ to }) => to[0])).size, 1203)
  assert.equal(exchanger.heard.length, 1203)
  assert.equal((await kit.stats(campaign))['deliveries'], 1200)
})

for (const [name, most] of [
  ['one', 1],
  ['two', 2],
] as const)
  test(`a server that accepts ${name} at once gets a transactional email between campaign emails, without a pause (D34, D64)`, async () => {
    const place = `narrow-${name}.test`
    postrider.dns.set(place, 'MX', [`10 mx.${place}`])
    postrider.dns.set(`mx.${place}`, 'A', ['127.0.0.1'])
    const domain = await postrider.activeDomain(`from-${name}.test`)
    const audience = await kit.audience(domain)
    await kit.fill(
      audience,
      Array.from({ length: 400 }, (_, n) => `n${n}@${place}`),
    )
    // The connections of the test before are idle: they end by the clock.
    postrider.clock.advance(10_000)
    await until(() => exchanger.open === 0, 'no connection')
    const before = exchanger.heard.length
    exchanger.script.greeting = (open) => (open > most ? '421 4.7.0 Too many connections' : '220 mx.test ESMTP')
    const campaign = await kit.draft(audience)
    assert.equal((await kit.patch(campaign, { status: 'scheduled' })).status, 200)
    for (let n = 0; n < 3; n++) {
      await until(() => exchanger.heard.length >= before + 30 * (n + 1), `${30 * (n + 1)} mails`)
      const to = `somebody${n}@${place}`
      const sent = document('outbound-emails', {
        from: `a@from-${name}.test`,
        to,
        subject: 'Now',
        html: '<p>x</p>',
      })
      const { body } = await postrider.api('POST', '/outbound-emails', sent)
      // No clock is turned: neither mail waits for a pause.
      await until(() => exchanger.heard.some((mail) => mail.to[0] === to), 'the mail')
      const { id } = body.data as { id: string }
      const attempts = async () =>
        (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.recipients[0]
      await until(async () => (await attempts()).status === 'delivered', 'its verdict')
      assert.equal((await attempts()).attempts, 1)
    }
    assert.ok(exchanger.heard.length < before + 403, 'the campaign had not ended before')
    await until(() => exchanger.heard.length === before + 403, 'the campaign goes on')
    exchanger.script.greeting = '220 mx.test ESMTP'
  })
