// Confirmation emails count in the reputation of their domain, as all its emails do (AU44).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { feedback } from '../inbound/home.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'
import { deliver } from '../kit/sender.ts'
import { SITE, signupKit } from '../kit/signups.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger({
  answer: (line) => (/^RCPT.*<bad/.test(line) ? '550 5.1.1 No such user' : undefined),
})
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))

interface Figures {
  deliveries: number
  bounces: number
  complaints: number
}

test('the delivery, the bounce and the complaint of confirmation emails count for the domain (AU44)', async () => {
  const domain = await postrider.activeDomain('here.test')
  // Only an authenticated complaint counts.
  postrider.dns.set('there.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
  const audience = await campaignKit(() => postrider).audience(domain)
  const { slug } = await formKit(() => postrider).open({ audience }, { origins: [SITE] })
  const visitor = signupKit(() => postrider)
  const figures = async (): Promise<Figures> =>
    (await postrider.api('GET', `/domains/${domain.id}/reputation`)).body.data.attributes.series.at(-1)
  const counted = (wanted: Figures) =>
    until(async () => {
      const { bounces, complaints, deliveries } = await figures()
      const same = deliveries === wanted.deliveries && bounces === wanted.bounces && complaints === wanted.complaints
      return same || undefined
    }, JSON.stringify(wanted))

  for (const name of ['good', 'bad']) await visitor.signUp(slug, `${name}@there.test`)
  await counted({ deliveries: 1, bounces: 1, complaints: 0 })
  const copy = exchanger.heard.find(({ to }) => to.includes('good@there.test'))
  assert.ok(copy)
  const message = feedback(copy.from, 'abuse', 'good@there.test', copy.message)
  await deliver(postrider.appliance.smtp[0]!, { from: 'feedback@there.test', to: copy.from, message })
  await counted({ deliveries: 1, bounces: 1, complaints: 1 })
})
