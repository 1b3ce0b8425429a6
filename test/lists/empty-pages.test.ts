// Empty lists link to the next step: a first domain, and then a first audience. The choice of an audience shows how
// many contacts get a campaign, not how many it has (D144).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'

const postrider = ofFile(() => startTestAppliance())
const kit = campaignKit(() => postrider)
let ann: Guest

setUp(async () => void (ann = await signedIn(postrider)))

test('leads to a new domain, then to a new audience, and counts the subscribers of a choice', async () => {
  assert.match((await ann.open('/audiences')).text, /No audiences yet\.[^]*href="\/domains\/new">Add a domain first</)
  const domain = await postrider.activeDomain('here.test')
  assert.match((await ann.open('/audiences')).text, /No audiences yet\.[^]*href="\/audiences\/new"/)
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['one@there.test', 'two@there.test', 'three@there.test'])
  const { body } = await postrider.api('GET', `/audiences/${audience}/contacts`)
  const { id } = body.data[0]
  const left = { data: { type: 'contacts', id, attributes: { status: 'unsubscribed' } } }
  assert.equal((await postrider.api('PATCH', `/contacts/${id}`, left)).status, 200)
  const { text } = await ann.open('/campaigns/new')
  const [, words] = new RegExp(`<option value="${audience}"[^>]*>([^<]*)<`).exec(text)!
  assert.match(words!, /\b2\b/)
  assert.doesNotMatch(words!, /\b3\b/)
})
