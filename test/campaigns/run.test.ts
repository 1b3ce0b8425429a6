// Campaigns over real sockets: paused, resumed, cancelled and deleted while they send; contacts that unsubscribe,
// bounce or are added during the campaign, deferrals, rejections and suspensions. At the end the statistics always
// match the messages received.
import assert from 'node:assert/strict'
import { after, beforeEach, describe, test } from 'node:test'
import { silentLog, type Log } from '../../src/base/log.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { CampaignLetters } from '../../src/campaigns/letters.ts'
import type { QueuedAhead } from '../../src/campaigns/queued-ahead.ts'
import { claimDue, releaseAll } from '../../src/delivery/queue/claim.ts'
import type { Settling } from '../../src/delivery/results/settle.ts'
import { enqueueBulk, settlePage } from '../../src/mail/bulk.ts'
import { verdictOf } from '../../src/smtp/verdict.ts'
import { Gathered } from '../../src/store/gathered.ts'
import { db, raw } from '../../src/store/query.ts'
import { block, report } from '../inbound/home.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { makeHook } from '../webhooks/hooks.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const faults: unknown[] = []
const log: Log = { ...silentLog, fault: (what, thrown) => (faults.push([what, thrown]), silentLog.fault(what, thrown)) }

const kit = campaignKit(() => postrider)

const exchanger = testExchanger()
const receiver = testReceiver()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    receiver,
    config: {
      delivery: { retry: ['1h'], lifetime: '1d' },
    },
    log,
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))

setUp(async () => {
  for (const name of ['there.test', 'elsewhere.test', 'third.test']) route(name, '127.0.0.1')
})
beforeEach(() => {
  round++
  exchanger.script = {}
  exchanger.heard.length = 0
  exchanger.commands.length = 0
})
after(async () => {
  assert.deepEqual(faults, [])
})

function route(name: string, address: string): void {
  postrider.dns.set(name, 'MX', [`10 mx.${name}`])
  postrider.dns.set(`mx.${name}`, 'A', [address])
}

const store = () => postrider.appliance.deps.store
/** Each test has its own recipients, so that a result in one test does not affect another. */
let round = 0
const people = (count: number, at: string | readonly string[] = 'there.test', name = 'n'): string[] =>
  Array.from({ length: count }, (_, n) => `${name}${n}.t${round}@${typeof at === 'string' ? at : at[n % at.length]!}`)
const BYSTANDER = 'bystander'
/** The recipients that got an email, without those of other tests. */
const heard = (): string[] => exchanger.heard.map(({ to }) => to[0]!).filter((to) => !to.startsWith(`${BYSTANDER}@`))
const sorted = (list: Iterable<string>): string[] => [...list].toSorted((a, b) => (a < b ? -1 : 1))

let audiences = 0
async function campaignTo(
  contacts: readonly (string | Record<string, unknown>)[],
  attributes = {},
  of: { id: string } = domain,
) {
  const audience = await kit.audience(of, `List ${++audiences}`)
  for (let from = 0; from < contacts.length; from += 1000) await kit.fill(audience, contacts.slice(from, from + 1000))
  return { audience, campaign: await kit.draft(audience, attributes) }
}
const become = (campaign: string, ...wanted: string[]): Promise<string> =>
  until(async () => {
    const { status } = await kit.show(campaign)
    return wanted.includes(status) ? (status as string) : undefined
  }, wanted.join(' or '))
async function move(campaign: string, status: string): Promise<void> {
  const answer = await kit.patch(campaign, { status })
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
}
const fates = (campaign: string): Record<string, number> =>
  Object.fromEntries(
    store()
      .all(
        raw<{ status: string; n: number }>(
          'select v.status, count(*) as n from deliveries v join outbound_emails e on e.key = v.email_key join campaigns c on c.key = e.campaign_key where c.id = ? group by 1',
          [campaign],
        ),
      )
      .map(({ n, status }) => [status, n]),
  )
const contact = async (audience: string, email: string) =>
  (await postrider.api('GET', `/audiences/${audience}/contacts?filter[email]=${email}`)).body.data[0]

/**
 * Nothing of it is in hand, and the queue has had its turn: a campaign made now to one reader in each of the domains
 * has gone out. What is heard of this one afterwards was sent though nothing called for it.
 */
async function silence(campaign: string): Promise<void> {
  await until(() => fates(campaign)['active'] === undefined, 'no mail in hand')
  const bystanders = ['there.test', 'elsewhere.test', 'third.test'].map((name) => `${BYSTANDER}@${name}`)
  const { campaign: other } = await campaignTo(bystanders)
  assert.equal(await kit.send(other), 'sent')
}

/**
 * Waits until something was heard of the campaign and pauses it: each connection may end the mail it is at, then there
 * is silence.
 */
async function pausedAfter(campaign: string, count: number): Promise<void> {
  await move(campaign, 'scheduled')
  await until(() => heard().length >= count, `${count} mails`)
  await move(campaign, 'paused')
  const [at, open] = [heard().length, exchanger.open]
  await silence(campaign)
  const after = heard().length
  assert.ok(after - at <= open, `${after - at} mails after it was paused`)
  await silence(campaign)
  assert.equal(heard().length, after, 'no mail while it is paused')
}

/** Advances the clock whenever no email of the campaign is in progress, until it is sent. */
const turnedToTheEnd = (campaign: string, step: number): Promise<unknown> =>
  until(async () => {
    if (fates(campaign)['active'] === undefined) postrider.clock.leap(step)
    return (await kit.show(campaign))['status'] === 'sent'
  }, 'the end')

/** Checks that each recipient got one email, no other address got any, and the statistics match. */
async function exactly(campaign: string, wanted: readonly string[]): Promise<void> {
  assert.deepEqual(sorted(heard()), sorted(wanted))
  const { deliveries } = await kit.stats(campaign)
  assert.equal(deliveries, wanted.length)
}

describe('manual changes', () => {
  test('pauses within a second, resumes, and sends to each contact once', async () => {
    const to = people(1150, ['there.test', 'elsewhere.test'])
    const { campaign } = await campaignTo(to)
    await pausedAfter(campaign, 300)
    assert.ok(heard().length < to.length)
    assert.deepEqual(Object.keys(fates(campaign)).toSorted(), ['delivered', 'held'])
    assert.equal((await kit.stats(campaign))['deliveries'], heard().length)
    await move(campaign, 'sending')
    await become(campaign, 'sent')
    await exactly(campaign, to)
    assert.equal((await kit.show(campaign))['recipients'], to.length)
  })

  test('misses no contact after repeated immediate pauses and resumes', async () => {
    const to = people(400, ['there.test', 'elsewhere.test', 'third.test'])
    const { campaign } = await campaignTo(to)
    await move(campaign, 'scheduled')
    await become(campaign, 'sending')
    for (let n = 0; n < 40; n++) {
      if ((await kit.patch(campaign, { status: 'paused' })).status !== 200) break
      // A paused campaign ends with the results of its last emails.
      if ((await kit.patch(campaign, { status: 'sending' })).status !== 200) break
      // A few more emails, up to the number in progress at the next pause.
      const enough = Math.min(heard().length + (n % 11) * 2, to.length)
      if (n % 2 === 0) await until(() => heard().length >= enough)
    }
    await become(campaign, 'sent')
    await exactly(campaign, to)
  })

  test('a paused campaign ends when its last email, which was being sent, gets its result', async () => {
    const { promise, resolve } = Promise.withResolvers<string>()
    exchanger.script = { final: () => promise }
    const { campaign } = await campaignTo(people(1))
    await move(campaign, 'scheduled')
    await until(() => heard().length === 1, 'the email')
    await move(campaign, 'paused')
    assert.deepEqual(fates(campaign), { active: 1 })
    resolve('250 2.0.0 OK')
    await become(campaign, 'sent')
    assert.equal((await kit.stats(campaign))['deliveries'], 1)
  })

  test('a paused campaign stays paused while an email is held', async () => {
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
    const { campaign } = await campaignTo(people(1))
    await move(campaign, 'scheduled')
    await until(() => exchanger.commands.some((line) => line.startsWith('RCPT')), 'the first attempt')
    await until(() => fates(campaign)['queued'] === 1, 'the deferral')
    await move(campaign, 'paused')
    assert.deepEqual(fates(campaign), { held: 1 })
    exchanger.script = {}
    const other = await campaignTo(people(1))
    await move(other.campaign, 'scheduled')
    await become(other.campaign, 'sent')
    assert.equal((await kit.show(campaign))['status'], 'paused')
    await move(campaign, 'cancelled')
  })

  test('resumes before the withdrawn emails are stored', async () => {
    const to = people(300)
    const { campaign } = await campaignTo(to)
    await move(campaign, 'scheduled')
    await until(() => heard().length > 20)
    // One after the other at once: what is claimed meanwhile meets a campaign that pauses, and is given back to one
    // that sends.
    for (let n = 0; n < 20; n++) {
      if ((await kit.patch(campaign, { status: 'paused' })).status !== 200) break
      await kit.patch(campaign, { status: 'sending' })
    }
    await become(campaign, 'sent')
    await exactly(campaign, to)
  })

  test('sends no more email and empties the queue when cancelled while paused', async () => {
    const { campaign } = await campaignTo(people(1150))
    await move(campaign, 'scheduled')
    await until(() => heard().length >= 200)
    assert.equal((await kit.patch(campaign, { status: 'cancelled' })).status, 422)
    await move(campaign, 'paused')
    await move(campaign, 'cancelled')
    await until(() => fates(campaign)['active'] === undefined, 'no mail in hand')
    const count = heard().length
    await silence(campaign)
    assert.equal(heard().length, count)
    assert.ok(count < 1150)
    assert.deepEqual(fates(campaign), { delivered: count })
    assert.equal((await kit.stats(campaign))['deliveries'], count)
    assert.equal(new Set(heard()).size, count)
    postrider.clock.leap(2 * HOUR)
    await silence(campaign)
    assert.equal(heard().length, count)
    assert.equal((await kit.patch(campaign, { status: 'sending' })).status, 422)
  })

  test('cancelling fails emails that were deferred, and keeps their record', async () => {
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
    const { campaign } = await campaignTo(people(30))
    await move(campaign, 'scheduled')
    await until(() => fates(campaign)['queued'] === 30 && deferred(campaign) === 30, 'all put off')
    await move(campaign, 'paused')
    await move(campaign, 'cancelled')
    assert.deepEqual(fates(campaign), { failed: 30 })
    exchanger.script = {}
    postrider.clock.leap(2 * HOUR)
    await silence(campaign)
    assert.deepEqual(fates(campaign), { failed: 30 })
    assert.deepEqual(heard(), [])
  })

  test('cancelling during a second attempt fails the email, too', async () => {
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
    const { campaign } = await campaignTo(people(5))
    await move(campaign, 'scheduled')
    await until(() => deferred(campaign) === 5, 'all put off')
    // The server does not respond now: the second attempt hangs at MAIL, with the others behind it.
    let hold = true
    exchanger.script = { answer: (line) => (hold && line.startsWith('RCPT') ? '' : undefined) }
    postrider.clock.leap(2 * HOUR)
    await until(() => (fates(campaign)['active'] ?? 0) > 0, 'mail in hand')
    await move(campaign, 'paused')
    await move(campaign, 'cancelled')
    hold = false
    exchanger.cut()
    await until(() => fates(campaign)['active'] === undefined, 'nothing in hand')
    for (let n = 0; n < 3; n++) {
      postrider.clock.leap(2 * HOUR)
      await silence(campaign)
    }
    assert.deepEqual(fates(campaign), { failed: 5 })
    assert.deepEqual(heard(), [])
  })

  test('deleting a sending campaign stops it and keeps the sent emails', async () => {
    const { campaign } = await campaignTo(people(1150))
    await move(campaign, 'scheduled')
    await until(() => heard().length >= 200)
    assert.equal((await postrider.api('DELETE', `/campaigns/${campaign}`)).status, 204)
    assert.equal((await postrider.api('GET', `/campaigns/${campaign}`)).status, 404)
    await until(() => fates(campaign)['active'] === undefined, 'no mail in hand')
    const count = heard().length
    await silence(campaign)
    assert.equal(heard().length, count)
    assert.ok(count < 1150)
    assert.deepEqual(fates(campaign), { delivered: count })
  })
})

const deferred = (campaign: string): number =>
  store().first(
    raw<{ n: number }>(
      `select count(*) as n from deliveries v join outbound_emails e on e.key = v.email_key join campaigns c on c.key = e.campaign_key
       where c.id = ? and v.delayed_at is not null and v.status = 'queued'`,
      [campaign],
    ),
  )!.n

describe('changes of the audience', () => {
  test('contacts that unsubscribe, are suppressed, bounce, are removed or are added during a campaign get no email', async () => {
    const to = people(1150, ['there.test', 'elsewhere.test'])
    const { audience, campaign } = await campaignTo(to)
    await pausedAfter(campaign, 100)
    const already = new Set(heard())
    const rest = to.filter((address) => !already.has(address))
    // Of those in the queue, and of those that the walk has not reached.
    const some = [...rest.slice(0, 5), ...rest.slice(-5)]
    const about = { user_key: domain.user_key, domain_key: domain.key }
    const [left, manual, bounced, removed, link] = [0, 1, 2, 3, 4].map((n) => [some[n]!, some[n + 5]!])
    for (const email of left!) {
      const { id } = await contact(audience, email)
      const answer = await postrider.api(
        'PATCH',
        `/contacts/${id}`,
        document('contacts', { status: 'unsubscribed' }, { id }),
      )
      assert.equal(answer.status, 200)
    }
    for (const email of removed!)
      assert.equal((await postrider.api('DELETE', `/contacts/${(await contact(audience, email)).id}`)).status, 204)
    await store().write((tx) => {
      const now = postrider.clock.now()
      for (const address of manual!)
        suppress(tx, { ...about, address, reason: 'manual', scope: 'all', source: 'manual' }, now)
      for (const address of bounced!)
        suppress(tx, { ...about, address, reason: 'hard_bounce', scope: 'all', source: 'dsn' }, now)
      for (const address of link!)
        suppress(tx, { ...about, address, reason: 'unsubscribe', scope: 'marketing', source: 'unsubscribe_link' }, now)
    })
    await kit.fill(audience, people(20, 'third.test', 'late'))
    await move(campaign, 'sending')
    await become(campaign, 'sent')
    const gone = new Set(some)
    await exactly(
      campaign,
      to.filter((address) => !gone.has(address)),
    )
    assert.equal((await contact(audience, bounced![0]!)).attributes.status, 'bounced')
  })

  test('a contact that unsubscribes or is removed after its email was claimed does not get it, even if other contacts are unchanged', async () => {
    const to = people(3)
    const { audience, campaign } = await campaignTo(to)
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
    await move(campaign, 'scheduled')
    await until(() => deferred(campaign) === 3, 'all put off')
    const { appliance, clock } = postrider
    const { config, keyring } = appliance.deps
    const ahead = { attempted: () => {} } as unknown as QueuedAhead
    const letters = new CampaignLetters({ store: store(), clock, keyring, log, config, ahead })
    const [{ lane }] = store().all(raw<{ lane: string }>(`select lane from deliveries where status = 'queued'`)) as [
      { lane: string },
    ]
    const works = await store().write((tx) =>
      claimDue(tx, { campaign: letters, submitted: letters }, { lane, now: clock.now() + 2 * HOUR, limit: 10 }),
    )
    const ended = (): Record<string, string | undefined> =>
      Object.fromEntries(
        works.map((work) => {
          const plan = letters.look(work)
          return [work.deliveries[0]!.address, 'ended' in plan ? plan.ended[0]?.text : 'withdrawn']
        }),
      )
    assert.deepEqual(ended(), { [to[0]!]: undefined, [to[1]!]: undefined, [to[2]!]: undefined })
    const { id } = await contact(audience, to[0]!)
    const left = document('contacts', { status: 'unsubscribed' }, { id })
    assert.equal((await postrider.api('PATCH', `/contacts/${id}`, left)).status, 200)
    const { id: removed } = await contact(audience, to[1]!)
    assert.equal((await postrider.api('DELETE', `/contacts/${removed}`)).status, 204)
    const now = ended()
    assert.match(now[to[0]!] ?? '', /unsubscribed/)
    assert.match(now[to[1]!] ?? '', /removed/)
    assert.equal(now[to[2]!], undefined)
    // The claims end as those of a process that ended.
    await releaseAll(store(), clock.now())
    await move(campaign, 'paused')
    await move(campaign, 'cancelled')
  })

  test('one-click unsubscribe stops unsent email, and counts once', async () => {
    const first = await campaignTo(people(3))
    assert.equal(await kit.send(first.campaign), 'sent')
    const { message, to } = exchanger.heard[0]!
    const path = new URL(/<(http[^>]*)>/.exec(message.replace(/\r\n[ \t]+/g, ''))![1]!).pathname
    exchanger.heard.length = 0
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
    const second = await kit.draft(first.audience)
    await move(second, 'scheduled')
    await until(() => deferred(second) === 3, 'all put off')
    for (let n = 0; n < 2; n++) {
      const init = {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
        body: 'List-Unsubscribe=One-Click',
      }
      assert.equal((await postrider.raw(path, init)).status, 200)
    }
    exchanger.script = {}
    postrider.clock.leap(2 * HOUR)
    await become(second, 'sent')
    await exactly(
      second,
      people(3).filter((address) => address !== to[0]),
    )
    assert.equal((await kit.stats(first.campaign))['unsubscribes'], 1)
    assert.equal((await kit.stats(second))['unsubscribes'], 0)
    assert.deepEqual(fates(second), { delivered: 2, suppressed: 1 })
  })
})

describe('replies of receiving servers', () => {
  test('the campaign stays sending while emails are deferred', async () => {
    exchanger.script = { answer: (line) => (/^RCPT.*<slow/.test(line) ? '451 4.2.1 Later' : undefined) }
    const { campaign } = await campaignTo([...people(10, 'there.test', 'slow'), ...people(40)])
    await move(campaign, 'scheduled')
    await until(() => exchanger.heard.length === 40 && deferred(campaign) === 10, 'the others')
    assert.equal((await kit.show(campaign))['status'], 'sending')
    exchanger.script = {}
    postrider.clock.leap(HOUR + 10 * MINUTE)
    await become(campaign, 'sent')
    await exactly(campaign, [...people(10, 'there.test', 'slow'), ...people(40)])
  })

  test('an unreachable domain delays neither other domains nor the campaign', async () => {
    route('dead.test', '127.0.0.9')
    const alive = people(150, ['elsewhere.test', 'third.test'], 'alive')
    // More than the emails that are queued ahead, before all others.
    const { campaign } = await campaignTo([...people(1200, 'dead.test', 'dead'), ...alive])
    await move(campaign, 'scheduled')
    const { clock } = postrider
    const begun = clock.now()
    // Turned on only as far as somebody waits for.
    await until(() => {
      if (clock.nextAlarm! - clock.now() <= 250) clock.advance(250)
      return heard().length === alive.length
    }, 'those alive')
    assert.ok(
      clock.now() - begun <= 10_000,
      `${clock.now() - begun} ms: seconds, not the minutes of the lane's patience`,
    )
    assert.deepEqual(sorted(heard()), sorted(alive))
    assert.equal((await kit.show(campaign))['status'], 'sending')
    assert.equal((await kit.show(campaign))['recipients'], 1350)
    await turnedToTheEnd(campaign, HOUR)
    await exactly(campaign, alive)
    assert.deepEqual(fates(campaign), { delivered: 150, failed: 1200 })
  })

  test('permanent rejections bounce, and change the contact status', async () => {
    exchanger.script = { answer: (line) => (/^RCPT.*<gone/.test(line) ? '550 5.1.1 No such user' : undefined) }
    const { audience, campaign } = await campaignTo([...people(3, 'there.test', 'gone'), ...people(5)])
    assert.equal(await kit.send(campaign), 'sent')
    await exactly(campaign, people(5))
    assert.partialDeepStrictEqual(await kit.stats(campaign), { recipients: 8, deliveries: 5, bounces: 3 })
    assert.equal((await contact(audience, people(3, 'there.test', 'gone')[1]!)).attributes.status, 'bounced')
    exchanger.heard.length = 0
    exchanger.script = {}
    const next = await kit.draft(audience)
    assert.equal(await kit.send(next), 'sent')
    await exactly(next, people(5))
  })

  test('a bounce message after delivery counts and changes the contact status', async () => {
    const { audience, campaign } = await campaignTo(people(2, 'there.test', 'later'))
    assert.equal(await kit.send(campaign), 'sent')
    const { from, to } = exchanger.heard[0]!
    const message = report(from, [block({ recipient: to[0]!, said: '550 5.1.1 User unknown' })])
    await deliver(postrider.appliance.smtp[0]!, { from: '', to: from, message })
    await until(async () => (await kit.stats(campaign))['bounces'] === 1, 'the bounce')
    assert.partialDeepStrictEqual(await kit.stats(campaign), { recipients: 2, deliveries: 2, bounces: 1 })
    assert.equal((await kit.show(campaign))['concluded'], 2)
    assert.equal((await contact(audience, to[0]!)).attributes.status, 'bounced')
  })
})

describe('the life of a campaign', () => {
  test('a test is not sent to a suppressed address', async () => {
    const about = { user_key: domain.user_key, domain_key: domain.key, address: 'blocked@there.test' }
    await store().write((tx) =>
      suppress(tx, { ...about, reason: 'hard_bounce', scope: 'all', source: 'smtp' }, postrider.clock.now()),
    )
    const { campaign } = await campaignTo(people(1), { test_mode: true, test_recipient_email: 'blocked@there.test' })
    await kit.send(campaign)
    assert.deepEqual(heard(), [])
  })

  test('a campaign to an audience without subscribers ends as sent', async () => {
    const { campaign } = await campaignTo([])
    assert.equal(await kit.send(campaign), 'sent')
    assert.partialDeepStrictEqual(await kit.stats(campaign), { recipients: 0, deliveries: 0 })
  })

  test('a domain suspended meanwhile sends no email until it is active again', async () => {
    const other = await postrider.activeDomain('paused.test')
    const to = people(150)
    const { campaign } = await campaignTo(to, {}, other)
    await move(campaign, 'scheduled')
    await until(() => heard().length >= 50)
    const set = (status: string) =>
      store().write((tx) => tx.run(raw('update domains set status = ? where key = ?', [status, other.key])))
    await set('suspended')
    await silence(campaign)
    const count = heard().length
    await silence(campaign)
    assert.equal(heard().length, count)
    assert.equal((await kit.show(campaign))['status'], 'sending')
    await set('active')
    await turnedToTheEnd(campaign, HOUR)
    await exactly(campaign, to)
  })

  test('a campaign fails if every email is rejected', async () => {
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '451 4.2.1 Later' : undefined) }
    const other = await postrider.activeDomain('removed.test')
    const { campaign } = await campaignTo(people(50), {}, other)
    await move(campaign, 'scheduled')
    await until(() => deferred(campaign) === 50, 'all put off')
    exchanger.script = {}
    assert.equal((await postrider.api('DELETE', `/domains/${other.id}`)).status, 204)
    postrider.clock.leap(HOUR + 10 * MINUTE)
    assert.equal(await become(campaign, 'sent', 'failed'), 'failed')
    assert.match((await kit.show(campaign))['failure'], /rejected/)
    assert.deepEqual(heard(), [])
    assert.partialDeepStrictEqual(await kit.stats(campaign), { recipients: 50, deliveries: 0, bounces: 0 })
  })

  test('a long campaign ends after its domain was removed, without composing more email', async () => {
    const other = await postrider.activeDomain('erased.test')
    const { campaign } = await campaignTo(people(1200), {}, other)
    await pausedAfter(campaign, 100)
    const count = heard().length
    assert.equal((await postrider.api('DELETE', `/domains/${other.id}`)).status, 204)
    await store().write((tx) => tx.run(raw('delete from dkim_keys where domain_key = ?', [other.key])))
    await move(campaign, 'sending')
    await turnedToTheEnd(campaign, 250)
    assert.equal(heard().length, count)
    assert.deepEqual(fates(campaign), { delivered: count, rejected: 1200 - count })
  })

  test('two campaigns at once do not affect each other', async () => {
    const [one, other] = [people(250, 'there.test', 'one'), people(250, ['there.test', 'third.test'], 'other')]
    const [first, second] = [await campaignTo(one), await campaignTo(other)]
    await Promise.all([move(first.campaign, 'scheduled'), move(second.campaign, 'scheduled')])
    await Promise.all([become(first.campaign, 'sent'), become(second.campaign, 'sent')])
    assert.deepEqual(sorted(heard()), sorted([...one, ...other]))
    for (const { campaign } of [first, second])
      assert.partialDeepStrictEqual(await kit.stats(campaign), { recipients: 250, deliveries: 250 })
  })

  test('counts opens and clicks separately from machines, and returns null without tracking', async () => {
    const attributes = { click_tracking_enabled: true, open_tracking_enabled: true }
    await postrider.api('PATCH', `/domains/${domain.id}`, document('domains', attributes, { id: domain.id }))
    const { campaign } = await campaignTo(people(3), { body_html: '<a href="https://shop.test/{{name}}">Shop</a>' })
    assert.equal(await kit.send(campaign), 'sent')
    const paths = exchanger.heard.map(({ message }) => {
      const text = message.replaceAll('=\r\n', '')
      return { click: /\/t\/c\/[\w-]+/.exec(text)![0], open: /\/t\/o\/[\w-]+\.gif/.exec(text)![0] }
    })
    const agent = { 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0' }
    assert.equal((await postrider.raw(paths[0]!.open, { headers: agent })).status, 200)
    postrider.clock.leap(HOUR)
    for (const path of [paths[0]!.open, paths[0]!.open, paths[1]!.open, paths[1]!.click])
      await postrider.raw(path, { headers: agent })
    await postrider.raw(paths[2]!.click, { method: 'HEAD', headers: agent })
    assert.partialDeepStrictEqual(await kit.stats(campaign), {
      opens: 3,
      unique_opens: 2,
      machine_opens: 1,
      clicks: 1,
      unique_clicks: 1,
      machine_clicks: 1,
    })
    const untracked = await campaignTo(people(1), { track_opens: false, track_clicks: false })
    await kit.send(untracked.campaign)
    assert.partialDeepStrictEqual(await kit.stats(untracked.campaign), { opens: null, clicks: null })
  })

  test('sends webhooks for its emails if an endpoint exists', async () => {
    const other = await postrider.activeDomain('hooked.test')
    const hook = await makeHook(postrider, receiver, other, ['email.sent', 'email.delivered', 'campaign.sent'])
    const { campaign } = await campaignTo(people(5), {}, other)
    assert.equal(await kit.send(campaign), 'sent')
    const types = (await hook.arrived(11)).map(({ body }) => String(JSON.parse(body).type))
    assert.deepEqual(
      ['email.sent', 'email.delivered', 'campaign.sent'].map((type) => types.filter((each) => each === type).length),
      [5, 5, 1],
    )
    assert.partialDeepStrictEqual(await kit.stats(campaign), { recipients: 5, deliveries: 5 })
  })
})

test('a result for an email in another state follows the state table, and each email counts once', async () => {
  const { campaign } = await campaignTo([])
  const { clock, config } = postrider.appliance.deps
  const now = clock.now()
  const of = store().one(
    raw<{ key: number; user_key: number; domain_key: number }>(
      'select key, user_key, domain_key from campaigns where id = ?',
      [campaign],
    ),
  )
  const counted = (): number =>
    store().one(
      raw<{ n: number }>('select coalesce(sum(deliveries), 0) as n from tallies where domain_key = ?', [of.domain_key]),
    ).n
  const before = counted()
  const about = { user_key: of.user_key, domain_key: of.domain_key, campaign_key: of.key }
  const { emails, page } = await store().write((tx) => {
    const mails = people(3, 'nowhere.test').map((address) => ({ contact_key: null, address, domain: 'nowhere.test' }))
    enqueueBulk(tx, { ...about, opens_tracked: 0, clicks_tracked: 0, expires_at: now + HOUR }, mails, now)
    tx.run(
      raw(
        `update deliveries set status = 'active' where email_key in (select key from outbound_emails where campaign_key = ?)`,
        [of.key],
      ),
    )
    const claimed = tx.all(db.selectFrom('outbound_emails').selectAll().where('campaign_key', '=', of.key))
    tx.run(db.updateTable('outbound_emails').set({ status: 'failed' }).where('key', '=', claimed[1]!.key))
    return {
      emails: claimed,
      page: claimed.map((email) => ({
        email,
        delivery: tx.one(db.selectFrom('deliveries').selectAll().where('email_key', '=', email.key)),
        verdict: verdictOf(
          { code: 250, enhanced: null, text: 'ok', lines: ['ok'] },
          { stage: 'final dot', handed: true },
        ),
        now,
        config,
      })),
    }
  })
  const results = new Gathered<Settling>(store(), 5, settlePage)
  await Promise.all(page.map((settling) => results.add(settling)))
  const states = store().all(
    raw<{ status: string }>('select status from outbound_emails where campaign_key = ? order by key', [of.key]),
  )
  assert.deepEqual(
    states.map(({ status }) => status),
    ['delivered', 'failed', 'delivered'],
  )
  assert.deepEqual(fates(campaign), { delivered: 3 })
  assert.equal(counted() - before, emails.length)
})
