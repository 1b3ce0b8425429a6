// The pages, API and commands that show email queued for warm-up, with the reason.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'
import { mailsOf } from '../mail/mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    config: {
      warmup: { private: true, transactional_overflow: 'wait' },
      delivery: { sources: [{ address: '127.0.0.1' }, { address: '127.0.0.2' }] },
    },
    routes: ['there.test', 'free.test'],
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))
const { become, post, show } = mailsOf(() => postrider)
const kit = campaignKit(() => postrider)
let ann: Guest
let id: string

const words = (html: string): string =>
  html
    .replace(/^[^]*<main/, '')
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/\s+/g, ' ')

const waits = (mail: string): Promise<unknown> =>
  until(async () => (await show(mail)).recipients[0]?.response?.startsWith('warm-up:'), 'a wait')

setUp(async () => {
  assert.ok(domain.id)
  await become(await post({ to: 'first@there.test' }), 'delivered')
  // No source may send more than one recipient a day there.
  await until(async () => {
    const { body } = await postrider.api('GET', '/warmups?filter[receiver]=there.test')
    for (const { id: pair } of body.data)
      await postrider.api('PATCH', `/warmups/${pair}`, {
        data: { type: 'warmups', id: pair, attributes: { daily_limit: 1 } },
      })
    const mail = await post({ to: 'next@there.test' })
    return until(async () => {
      const [recipient] = (await show(mail)).recipients
      return recipient?.status === 'delivered' ? 'sent' : recipient?.response?.startsWith('warm-up:') && 'waits'
    }).then((what) => (what === 'waits' ? (id = mail) : undefined))
  }, 'every source has sent what it may')
  ann = await signedIn(postrider)
})

test('shows the reason on the page of an email and at the command line', async () => {
  const said = /[Ww]arm-up: the limit for there\.test is reached for today/
  assert.match(words((await ann.open(`/mail/${id}`)).text), said)
  assert.match((await postrider.commands.run(['mail', 'show', id])).stdout, said)
  assert.match(
    (await postrider.api('GET', `/explanations?filter[subject]=${id}`)).body.data.attributes.summary,
    /warm-up/,
  )
})

test('shows warm-up as the reason in the queue, except for a hold, and no reason for other domains', async () => {
  const reason = async (lane: string): Promise<unknown> =>
    (await postrider.api('GET', `/lanes?filter[domain]=${lane}`)).body.data[0]?.attributes.reason
  assert.equal(await reason('there.test'), 'warm-up')
  const { text } = await ann.open('/queue')
  assert.match(text, /<span class="badge waits"\s*>warm-up<\/span\s*>/)
  assert.match(text, /href="\/why\/there\.test"/)
  const [listed] = await postrider.commands.json<{ reason: string }[]>('queue', 'lanes')
  assert.equal(listed?.reason, 'warm-up')
  await postrider.api('POST', '/lanes/there.test/hold')
  assert.equal(await reason('there.test'), 'hold')
  assert.doesNotMatch((await ann.open('/queue')).text, /href="\/why\/there\.test"/)
  await postrider.api('POST', '/lanes/there.test/release')
  await postrider.api('POST', '/lanes/free.test/hold')
  const free = await post({ to: 'bob@free.test' })
  assert.equal(await reason('free.test'), 'hold')
  await postrider.api('POST', '/lanes/free.test/release')
  await become(free, 'delivered')
  assert.equal(await reason('free.test'), undefined)
})

test('queues an email again that an operator retries, with the same reason', async () => {
  await postrider.api('POST', '/lanes/there.test/retry')
  await until(async () => {
    const [recipient] = (await show(id)).recipients
    return (recipient?.next_attempt_at ?? '') > new Date(postrider.clock.now()).toISOString()
  }, 'it was put off again')
  await waits(id)
})

test('shows the number of queued emails of a campaign', async () => {
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['a@there.test', 'b@there.test', 'c@free.test'])
  const campaign = await kit.draft(audience)
  const forecast = async () => (await postrider.api('GET', `/campaigns/${campaign}/forecast`)).body.data.attributes
  assert.equal((await forecast()).waiting_for_warmup, 0)
  await kit.patch(campaign, { status: 'scheduled' })
  await until(async () => {
    // An answer is remembered for some seconds.
    postrider.clock.advance(10_000)
    return (await forecast()).waiting_for_warmup === 2
  }, 'two wait')
  assert.equal((await kit.show(campaign))['status'], 'sending')
  const { text } = await ann.open(`/campaigns/${campaign}`)
  assert.match(words(text), /2 emails are queued because mailbox providers limit how much they accept per day/)
  assert.match(text, /href="\/why\/[^"]*"\s*>Why\?/)
  assert.match(words((await ann.open(`/why/${campaign}`)).text), /The daily warm-up limit for the provider is reached/)
})

test('links from the page of a pair to the explanation of its receiver', async () => {
  const { body } = await postrider.api('GET', '/warmups?filter[receiver]=there.test')
  const { text } = await ann.open(`/server/warmup/${body.data[0].id}`)
  assert.match(text, /href="\/why\/there\.test"\s*>Why\?/)
  assert.equal((await ann.open('/why/there.test')).status, 200)
  const total = (await postrider.api('GET', '/warmups?filter[receiver]=*')).body.data[0]
  assert.doesNotMatch((await ann.open(`/server/warmup/${total.id}`)).text, /href="\/why\//)
})
