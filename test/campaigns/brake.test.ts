// Campaigns that pause automatically, because too many of their emails bounce or are complained about (AU105, AU106).
import assert from 'node:assert/strict'
import { beforeEach, test } from 'node:test'
import { listNotices } from '../../src/users/notices.ts'
import { feedback } from '../inbound/home.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { makeHook } from '../webhooks/hooks.ts'

const exchanger = testExchanger()
const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ exchanger, receiver, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
let round = 0

// Only an authenticated complaint counts.
setUp(() => postrider.dns.set('there.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all']))

beforeEach(() => {
  round++
  exchanger.heard.length = 0
  exchanger.script = { answer: (line) => (/^RCPT.*<bad/.test(line) ? '550 5.1.1 No such user' : undefined) }
})

/** Contacts of which the first `bad` bounce. */
const names = (count: number, bad = 0): string[] =>
  Array.from({ length: count }, (_, n) => `${n < bad ? 'bad' : 'good'}-${round}-${n}@there.test`)

async function started(contacts: readonly string[], attributes: Record<string, unknown> = {}): Promise<string> {
  const audience = await kit.audience(domain, `Round ${round}`)
  await kit.fill(audience, contacts)
  const id = await kit.draft(audience, { name: `Round ${round}`, ...attributes })
  assert.equal((await kit.patch(id, { status: 'scheduled' })).status, 200)
  return id
}

/** The campaign once it no longer sends. */
const rested = (id: string) =>
  until(async () => {
    const now = await kit.show(id)
    return ['scheduled', 'sending'].includes(now['status']) ? undefined : now
  }, 'the end or pause of the campaign')

const notices = () =>
  listNotices(postrider.appliance.deps.store).filter(({ subject }) => subject.includes(`Round ${round}`))

/** The automatic pauses in the metrics, by reason (AU111). The reason is their only label. */
async function paused(): Promise<Record<string, number>> {
  const text = await (await fetch(`${postrider.url}/metrics`)).text()
  const found = text.matchAll(/^postrider_campaigns_paused_automatically_total\{reason="(\w+)"\} (\d+)$/gm)
  return Object.fromEntries(Array.from(found, ([, reason, count]) => [reason, Number(count)]))
}

/** A complaint of a recipient, as its provider reports it. */
async function complain(email: string): Promise<void> {
  const copy = exchanger.heard.find(({ to }) => to.includes(email))
  assert.ok(copy, email)
  const message = feedback(copy.from, 'abuse', email, copy.message)
  await deliver(postrider.appliance.smtp[0]!, { from: 'feedback@there.test', to: copy.from, message })
}

test('pauses a campaign whose emails bounce, says which metric passed which limit, and notifies once', async () => {
  const hook = await makeHook(postrider, receiver, domain, ['campaign.paused'])
  const now = await rested(await started(names(400, 300)))
  assert.equal(now['status'], 'paused')
  assert.match(now['failure'], /^\d+ of \d+ emails bounced \([\d.]+%\), more than the limit of (?:5|15)%\./)
  assert.ok(now['concluded'] < 400, 'every email was sent before the pause')
  const [event] = await hook.arrived(1)
  const { data } = JSON.parse(event!.body)
  assert.deepEqual([data.status, data.reason, data.failure], ['paused', 'bounces', now['failure']])
  assert.equal(notices().length, 1)
  assert.ok(notices()[0]!.text.includes(now['failure']))
})

test('counts from zero after a resume, so that a list that stays bad pauses again, and each pause is in the metrics (AU111)', async () => {
  const id = await started(names(400, 400))
  const first = (await rested(id))['concluded']
  const before = await paused()
  assert.equal((await kit.patch(id, { status: 'sending' })).status, 200)
  const again = await rested(id)
  assert.equal(again['status'], 'paused')
  assert.deepEqual(await paused(), { ...before, bounces: before['bounces']! + 1 })
  assert.ok(again['concluded'] >= first + 50, `paused after ${again['concluded'] - first} further results`)
  assert.equal(notices().length, 2)
})

test('sends on while bounces stay below the limit', async () => {
  assert.equal((await rested(await started(names(200, 4))))['status'], 'sent')
  assert.equal(notices().length, 0)
})

test('campaigns to fewer than 50 recipients and test campaigns do not pause', async () => {
  assert.equal((await rested(await started(names(49, 49))))['status'], 'sent')
  const test = { test_mode: true, test_recipient_email: `bad-${round}-test@there.test` }
  assert.equal((await rested(await started(names(3), test)))['status'], 'sent')
})

test('pauses at the fifth complaint before 500 deliveries', async () => {
  const deferred = { answer: (line: string) => (/^RCPT.*<later/.test(line) ? '450 4.2.0 Later' : undefined) }
  exchanger.script = deferred
  const contacts = [...names(60), `later-${round}@there.test`]
  const id = await started(contacts)
  await until(() => exchanger.heard.length >= 60, 'the emails')
  for (const email of contacts.slice(0, 4)) await complain(email)
  await until(async () => (await kit.stats(id))['complaints'] === 4, 'four complaints')
  assert.equal((await kit.show(id))['status'], 'sending')
  await complain(contacts[4]!)
  const now = await rested(id)
  assert.equal(now['status'], 'paused')
  assert.match(now['failure'], /^5 recipients of \d+ delivered emails complained, which reaches the limit of 5\./)
})

test('a limit of 0 turns the pause off', async () => {
  await using other = await startTestAppliance({
    exchanger: testExchanger({ answer: (line) => (line.startsWith('RCPT') ? '550 5.1.1 No such user' : undefined) }),
    routes: ['there.test'],
    config: { campaigns: { brake_bounces: 0, brake_complaints: 0 } },
  })
  const its = campaignKit(() => other)
  const audience = await its.audience(await other.activeDomain('here.test'))
  await its.fill(audience, names(150))
  assert.equal(await its.send(await its.draft(audience)), 'sent')
})

test('does not pause when every email has its result', async () => {
  // The limit is exceeded with the last result, and not with the one before it.
  assert.equal((await rested(await started(names(100, 6))))['status'], 'sent')
  assert.equal(notices().length, 0)
})
