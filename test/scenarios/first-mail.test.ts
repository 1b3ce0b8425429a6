import assert from 'node:assert/strict'
import { test } from 'node:test'
import { dkimVerify } from 'mailauth/lib/dkim/verify.js'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger({ tls: true })
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))

test('a posted email is delivered signed over TLS and gets the status delivered', async () => {
  await postrider.activeDomain('here.test')
  const posted = await postrider.api(
    'POST',
    '/outbound-emails',
    document('outbound-emails', {
      from: '"Ann Ähre" <ann@here.test>',
      to: 'bob@there.test',
      subject: 'Grüße, "all" of you',
      html: '<p>Hällo</p>',
      text: 'Hällo\n.\nFrom here',
    }),
  )
  assert.equal(posted.status, 201, JSON.stringify(posted.body))
  assert.equal(posted.body.data.attributes.status, 'queued')
  const { id } = posted.body.data
  const shown = await until(async () => {
    const { body } = await postrider.api('GET', `/outbound-emails/${id}`)
    return body.data.attributes.status === 'delivered' ? body.data.attributes : undefined
  }, 'delivery')
  assert.equal(shown.recipients[0].smtp_code, 250)
  assert.equal(shown.recipients[0].status, 'delivered')

  assert.equal(exchanger.heard.length, 1)
  const [{ message, from, to, tls }] = exchanger.heard as [TestExchanger['heard'][0]]
  assert.ok(tls)
  assert.match(from, /^[a-z2-7]{26}@bounce\.here\.test$/)
  assert.deepEqual(to, ['bob@there.test'])
  const { results } = await dkimVerify(Buffer.from(message), {
    resolver: async (name: string, type: string) => {
      const answer = type === 'TXT' ? await postrider.dns.resolver.txt(name) : { kind: 'none' }
      return 'records' in answer ? answer.records.map((text) => [text]) : []
    },
  })
  assert.equal(results[0]?.status.result, 'pass', JSON.stringify(results[0]?.status))
})
