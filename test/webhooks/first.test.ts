import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Webhook } from 'standardwebhooks'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ exchanger, receiver, routes: ['there.test'] }))

test('what happens to a mail is pushed, signed so that any Standard Webhooks library verifies it', async () => {
  const domain = await postrider.activeDomain('here.test')
  const made = await postrider.api(
    'POST',
    '/webhooks',
    document(
      'webhooks',
      { name: 'app', url: `${receiver.url}/hook`, events: ['email.sent', 'email.delivered'] },
      { relationships: { domain: { data: { type: 'domains', id: domain.id } } } },
    ),
  )
  assert.equal(made.status, 201, JSON.stringify(made.body))
  const { secret } = made.body.data.attributes
  assert.match(secret, /^whsec_/)
  const posted = await postrider.api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', { from: 'a@here.test', to: 'b@there.test', subject: 'Hello', html: '<p>x</p>' }),
  )
  assert.equal(posted.status, 201, JSON.stringify(posted.body))
  await until(() => receiver.requests.length >= 2, 'two events')
  const clock = Date.now
  Date.now = () => postrider.clock.now()
  try {
    for (const { headers, body } of receiver.requests) new Webhook(secret).verify(body, headers)
  } finally {
    Date.now = clock
  }
  const types = receiver.requests.map(({ body }) => String(JSON.parse(body).type))
  assert.deepEqual(types.toSorted(), ['email.delivered', 'email.sent'])
  const list = await until(async () => {
    const { body } = await postrider.api('GET', `/webhooks/${made.body.data.id}/deliveries?filter[outcome]=delivered`)
    return body.data.length === 2 ? body.data : undefined
  }, 'deliveries on record')
  assert.equal(list[0].attributes.response_status, 200)
})
