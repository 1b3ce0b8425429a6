// The page "Privacy": what is stored about a person is counted before the buttons that export and erase it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)

test('counts what is stored about a person, and names it before an erasure', async () => {
  const ann = await signedIn(postrider)
  await kit.fill(await kit.audience(domain), ['mia@there.test', 'xmia@there.test'])
  for (const to of ['Mia@there.test', 'xmia@there.test']) {
    const mail = { from: 'ann@here.test', to, cc: ['mia@there.test'], subject: 'Hi', html: '<p>Hi</p>' }
    assert.equal((await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))).status, 201)
  }
  assert.doesNotMatch((await ann.open('/privacy')).text, />Erase data</)
  assert.match((await ann.open('/privacy?q=nobody')).text, /“nobody” is not an email address\./)
  assert.match((await ann.open('/privacy?q=other@there.test')).text, /No data about “other@there\.test” is stored\./)
  const page = await ann.open('/privacy?q=mia@there.test')
  assert.match(page.text, /<a href="\/mail\?q=to%3Amia%40there\.test">2<\/a>/)
  assert.match(
    page.text,
    /removes mia@there\.test from 2 emails, 0 received messages, 1 audience, 1 consent, 0 suppressions, and from texts that mention it/,
  )
  const { body } = await postrider.api('GET', '/recipients/mia@there.test')
  assert.partialDeepStrictEqual(body.data.attributes, {
    emails: 2,
    received: 0,
    contacts: 1,
    consents: 1,
    suppressions: 0,
  })
  assert.equal((await postrider.api('GET', '/recipients/nobody')).status, 422)
  assert.match((await ann.send(page, 'export')).text, /Exporting the data of mia@there\.test\./)
  assert.match((await ann.send(page, 'forget')).text, /Erasing the data of mia@there\.test\./)
  await until(async () => (await postrider.api('GET', '/recipients/mia@there.test')).status === 404, 'the erasure')
})
