// To be forgotten: afterwards no octet of the data directory says the address, and it is still not written to.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { filesWith } from '../kit/files-with.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { makeHook } from '../webhooks/hooks.ts'

const ADDRESS = 'ann.somebody@there.test'
let refusing = false
const kit = campaignKit(() => postrider)

const exchanger = testExchanger({
  answer: (line) =>
    refusing && line.startsWith(`RCPT TO:<${ADDRESS}>`) ? `550 5.1.1 <${ADDRESS}> unknown user` : undefined,
})
const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ exchanger, receiver, routes: ['there.test'] }))

setUp(async () => {
  const domain = await postrider.activeDomain('here.test')
  await makeHook(postrider, receiver, domain)
})

const send = (attributes: Record<string, unknown>) =>
  postrider.api('POST', '/outbound-emails', {
    data: {
      type: 'outbound-emails',
      attributes: {
        from: 'me@here.test',
        to: ADDRESS,
        subject: `For ${ADDRESS}`,
        html: `<p>${ADDRESS}</p>`,
        ...attributes,
      },
    },
  })

test('an address in every kind of record is forgotten, and is still not written to', async () => {
  const domain = (await postrider.api('GET', '/domains')).body.data[0]
  const big = `<p>${ADDRESS}</p>${'x'.repeat(400_000)}`
  for (const more of [
    {},
    { html: big },
    { to: 'bob@there.test', cc: [ADDRESS] },
    { to: 'bob@there.test', html: `<p>Ask ANN.Somebody@there.test</p>` },
  ])
    assert.equal((await send(more)).status, 201)
  await postrider.api('POST', '/inboxes', {
    data: { type: 'inboxes', attributes: { name: 'Me', address: 'me@here.test' } },
  })
  await receive(postrider, { from: ADDRESS, to: 'me@here.test' })
  const encoded = Buffer.from(`Write to ${ADDRESS} please, as soon as you can.`).toString('base64')
  await receive(postrider, {
    from: 'bob@there.test',
    to: 'me@here.test',
    message: `From: bob@there.test\nTo: me@here.test\nSubject: x\nContent-Transfer-Encoding: base64\n\n${encoded}\n`,
  })
  await until(() => exchanger.heard.length === 4, 'the mails')
  refusing = true
  const audience = await kit.audience(domain)
  await kit.fill(audience, [{ email: ADDRESS, name: 'Ann', custom_fields: { note: ADDRESS } }, 'bob@there.test'])
  const c = await kit.draft(audience, { body_html: `<p>{{email}}, not ${ADDRESS}</p>` })
  await kit.send(c)
  await until(
    async () => (await postrider.api('GET', `/suppressions?filter[email]=${ADDRESS}`)).body.data.length > 0,
    'the bounce',
  )
  assert.notDeepEqual(await filesWith(postrider.dataDir, ADDRESS), [])
  const { meta: _, data: before } = (await postrider.api('GET', '/outbound-emails?page[size]=100')).body

  const asked = await postrider.api('DELETE', `/recipients/${ADDRESS}/forget`)
  assert.equal(asked.status, 202, JSON.stringify(asked.body))
  assert.equal(asked.body.data.type, 'recipient-erasures')
  assert.match(asked.body.data.attributes.recipient_hash, /^[0-9a-f]{64}$/)
  await until(() => {
    const [row] = postrider.appliance.deps.store.all({
      compile: () => ({ sql: 'select status from privacy_requests', parameters: [] }),
    }) as { status: string }[]
    return row?.status === 'done'
  }, 'the erasure')
  assert.deepEqual(await filesWith(postrider.dataDir, ADDRESS), [])
  const { data: now } = (await postrider.api('GET', '/outbound-emails?page[size]=100')).body
  assert.equal(now.length, before.length)

  const again = await send({ subject: 'x', html: '<p>x</p>' })
  assert.equal(again.status, 422)
  assert.equal(again.body.errors[0].code, 'recipient_suppressed')
  const repeated = await postrider.api('DELETE', `/recipients/${ADDRESS}/forget`)
  assert.equal(repeated.status, 202)
  assert.equal(repeated.body.data.id, asked.body.data.id)
  assert.equal((await postrider.api('DELETE', '/recipients/nobody@there.test/forget')).status, 404)
  assert.equal((await postrider.api('DELETE', '/recipients/nobody/forget')).status, 422)
  assert.equal((await postrider.asOther('DELETE', '/recipients/bob@there.test/forget')).status, 404)
})
