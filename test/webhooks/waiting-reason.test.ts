// The reason why a delivery of an event is pending or held, in the API and on the page of the webhook.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'
import { happen, makeHook } from './hooks.ts'

const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ receiver }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
let ann: Guest
setUp(async () => void (ann = await signedIn(postrider)))

test('a delivery to a failing endpoint names its last error before it is attempted itself', async () => {
  receiver.answer = (_, response) => response.writeHead(503).end()
  const hook = await makeHook(postrider, receiver, domain, ['campaign.sent'])
  for (let n = 1; n <= 3; n++) {
    await happen(postrider, domain, 'campaign.sent')
    await until(async () => (await hook.show()).consecutive_failures === n, `${n} failures`)
  }
  await happen(postrider, domain, 'campaign.sent')
  await until(async () => (await hook.deliveries()).length === 4, 'the delivery')
  const { attributes } = (await hook.deliveries()).at(-1)
  const reason = 'Endpoint failing: returned status 503'
  assert.deepEqual(
    [attributes.outcome, attributes.attempts, attributes.reason, attributes.waiting_reason],
    ['pending', 0, null, reason],
  )
  // It is not attempted before the endpoint is.
  assert.equal(attributes.next_attempt_at, (await hook.show()).held_until)
  const { text } = await ann.open(`/webhooks/${hook.id}?outcome=pending`)
  assert.ok(text.includes(`>${reason}</td>`), text)
})

test('a held delivery says that the webhook is disabled, paused or removed, and its page offers no requests to it', async () => {
  receiver.answer = (_, response) => response.writeHead(410).end()
  const hook = await makeHook(postrider, receiver, domain, ['campaign.sent'])
  await happen(postrider, domain, 'campaign.sent')
  await until(async () => (await hook.show()).status === 'disabled', 'disabled')
  await happen(postrider, domain, 'campaign.sent')
  const held = () => hook.deliveries('&filter[outcome]=held')
  await until(async () => (await held()).length === 2, 'the held deliveries')
  const reasons = async () => new Set((await held()).map(({ attributes }) => attributes.waiting_reason))
  const disabled = 'Webhook disabled: the endpoint returned 410 Gone'
  assert.deepEqual(await reasons(), new Set([disabled]))
  const { text } = await ann.open(`/webhooks/${hook.id}?outcome=held`)
  assert.ok(text.includes(`>${disabled}</td>`), text)
  assert.match(text, /aria-current="true"\s*>Held</)
  assert.match(text, /<span class="badge waits"\s*>held</)
  assert.match(text, />Resume</)
  assert.doesNotMatch(text, />Resend<|>Send test event</)
  await hook.change({ active: true })
  assert.deepEqual(await reasons(), new Set(['Held while the webhook was paused or disabled']))
  assert.match((await ann.open(`/webhooks/${hook.id}?outcome=held`)).text, />Resend</)
  await hook.change({ active: false })
  assert.deepEqual(await reasons(), new Set(['Webhook paused']))
  await postrider.api('DELETE', `/webhooks/${hook.id}`)
  assert.deepEqual(await reasons(), new Set(['Webhook removed']))
})
