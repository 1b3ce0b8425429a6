// Every cause with evidence from the email itself or its sender (server-causes.test.ts has the others). A real server
// produces each of them: from a reply, or from statistics of many emails.
import assert from 'node:assert/strict'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { domainByKey } from '../../src/domains/find.ts'
import { MINUTE } from '../../src/base/clock.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { addUser } from '../../src/users/users.ts'
import { pauseAgent } from '../../src/reputation/pauses.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import type { Confidence } from '../../src/why/evidence.ts'
import { MAIL_CAUSES } from '../../src/why/causes-mail.ts'
import { SENDER_CAUSES } from '../../src/why/causes-sender.ts'
import { document } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR } from '../mail/mails.ts'
import { sceneOfFile } from './scene.ts'

const { domain, explained, mails, postrider, receiving, replies, write } = sceneOfFile()
const { attempted, become, post, show, turnToNext } = mails
const kit = campaignKit(() => postrider)
const GREYLISTED = '451 4.7.1 Greylisted, come back later'

async function said(reply: string, attributes: Record<string, unknown> = {}): Promise<string> {
  const to = `bob@${receiving()}`
  replies.set(to, reply)
  const id = await post({ to, ...attributes })
  await (reply.startsWith('5')
    ? become(id, 'bounced')
    : until(async () => (await show(id)).recipients[0]?.smtp_code ?? undefined, 'a reply'))
  return id
}

let receivers = 0
/** A receiver of which the account has these figures today. */
async function figured(delivered: number, deferred: number, refused: number): Promise<string> {
  const name = `figures${++receivers}.test`
  await write(
    'insert into receiver_tallies (user_key, receiver, hour, delivered, deferred, refused, within_5s, within_1m, within_10m, within_1h) values (?, ?, ?, ?, ?, ?, ?, 0, 0, 0)',
    postrider.user.key,
    name,
    Math.floor(postrider.clock.now() / HOUR),
    delivered,
    deferred,
    refused,
    delivered,
  )
  return name
}

/** Figures of a sending domain today. */
const tallied = (key: number, deliveries: number, complaints: number): Promise<unknown> =>
  write(
    `insert into tallies (user_key, domain_key, agent_id, hour, deliveries, bounces, complaints) values (?, ?, 'x', ?, ?, 0, ?)`,
    postrider.user.key,
    key,
    Math.floor(postrider.clock.now() / HOUR),
    deliveries,
    complaints,
  )

/** A campaign to one contact whose email was deferred, so that it is in progress. */
async function sending(): Promise<string> {
  const to = `reader@${receiving()}`
  replies.set(to, GREYLISTED)
  const audience = await kit.audience(domain, `Readers of ${to}`)
  await kit.fill(audience, [to])
  const campaign = await kit.draft(audience)
  await kit.patch(campaign, { status: 'scheduled' })
  await until(async () => {
    const { body } = await postrider.api('GET', `/outbound-emails?filter[campaign]=${campaign}`)
    return body.data[0]?.attributes.recipients[0]?.attempts === 1
  }, 'an attempt of the campaign')
  return campaign
}

interface Brought {
  confidence: Confidence
  /** Brings it about, and names the subject. */
  by: () => Promise<string>
  /** Restores the changed state. */
  after?: () => Promise<unknown> | void
}

const reply = (words: string): Brought => ({ confidence: 'confirmed', by: () => said(words) })
const spool = (): [string, string] => [join(postrider.dataDir, 'spool'), join(postrider.dataDir, 'spool.away')]

const BROUGHT: Record<string, Brought> = {
  block: reply('554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'),
  rate: reply('451 4.7.1 Too many messages, slow down'),
  reputation: reply("554 Your access to this mail system has been rejected due to the sending MTA's poor reputation."),
  authentication: reply('550 5.7.1 Your message was rejected due to here.test DMARC policy.'),
  reverse: reply('450 4.7.25 Client host rejected: cannot find your reverse hostname'),
  policy: reply('550 5.7.1 [CS01] Message rejected due to local policy.'),
  tls: reply('530 5.7.0 Must issue a STARTTLS command first'),
  content: reply('554 5.6.0 Message contained unsafe content'),
  user: reply('550 5.1.1 The email account that you tried to reach does not exist'),
  full: reply('552 5.2.2 The mailbox is over quota'),
  greylist: reply(GREYLISTED),
  receiver_trouble: reply('451 4.3.0 Temporary system problem, try again later'),
  unknown_reply: reply('554 5.9.9 Zork'),
  no_tls: {
    confidence: 'confirmed',
    async by() {
      const strict = await postrider.activeDomain('strict.test')
      await write(`update domains set tls_policy = 'Require' where key = ?`, strict.key)
      const id = await post({ from: 'ann@strict.test', to: `bob@${receiving()}` })
      await attempted(id, 1)
      return id
    },
  },
  dane: {
    confidence: 'confirmed',
    async by() {
      const strict = await postrider.activeDomain('proven.test')
      await write(`update domains set tls_policy = 'Require' where key = ?`, strict.key)
      const id = await post({ from: 'ann@proven.test', to: `bob@${receiving()}` })
      await attempted(id, 1)
      // As connect.ts writes it if TLSA lookups fail, which test/delivery/dane-mail.test.ts covers.
      await write(
        `update attempts set enhanced_code = '4.7.5', security = '- dane none secure secure failed'
         where delivery_key = (select v.key from deliveries v join outbound_emails e on e.key = v.email_key where e.id = ?)`,
        id,
      )
      return id
    },
  },
  no_way: {
    confidence: 'confirmed',
    async by() {
      const id = await post({ to: 'bob@nowhere.invalid' })
      await become(id, 'failed')
      return id
    },
  },
  rejected: {
    confidence: 'confirmed',
    async by() {
      const removed = await postrider.activeDomain('removed.test')
      const id = await said(GREYLISTED, { from: 'ann@removed.test' })
      assert.equal((await postrider.api('DELETE', `/domains/${removed.id}`)).status, 204)
      await turnToNext(id)
      await become(id, 'rejected')
      return id
    },
  },
  suppressed: {
    confidence: 'confirmed',
    async by() {
      const id = await said(GREYLISTED)
      const { appliance, clock, user } = postrider
      const address = (await show(id))['to'] ?? ''
      const entry = { user_key: user.key, domain_key: domain.key, address } as const
      await appliance.deps.store.write((tx) =>
        suppress(tx, { ...entry, reason: 'complaint', source: 'arf', scope: 'all' }, clock.now()),
      )
      await turnToNext(id)
      await become(id, 'suppressed')
      return id
    },
  },
  complaint: {
    confidence: 'confirmed',
    async by() {
      const id = await post({ to: `bob@${receiving()}` })
      await become(id, 'delivered')
      await write(
        `update deliveries set status = 'complained' where email_key = (select key from outbound_emails where id = ?)`,
        id,
      )
      return id
    },
  },
  local_trouble: {
    confidence: 'confirmed',
    async by() {
      const id = await said(GREYLISTED, { html: `<p>${'x'.repeat(300_000)}</p>` })
      renameSync(...spool())
      await turnToNext(id)
      await until(async () => (await show(id)).recipients[0]?.response?.includes('problem on this server'))
      return id
    },
    after() {
      renameSync(...(spool().toReversed() as [string, string]))
      const { troubles } = postrider.appliance.deps
      for (const { name } of troubles.list()) troubles.clear(name)
    },
  },
  missing_key_record: {
    confidence: 'confirmed',
    async by() {
      const gone = await postrider.activeDomain('gone.test')
      postrider.publish(gone, ({ record_type }) => record_type !== 'DKIM')
      const { store } = postrider.appliance.deps
      await postrider.api('POST', `/domains/${gone.id}/check`)
      await until(() => domainByKey(store, gone.key)?.missing_since ?? undefined, 'a missing record')
      // Email is held if the record is still missing at the second check (D217).
      postrider.clock.advance(MINUTE)
      await postrider.api('POST', `/domains/${gone.id}/check`)
      const id = await post({ from: 'ann@gone.test', to: `bob@${receiving()}` })
      await until(async () => (await show(id)).recipients[0]?.response?.includes('DKIM'), 'a wait for the record')
      return id
    },
  },
  hold: {
    confidence: 'confirmed',
    async by() {
      const id = await said(GREYLISTED)
      const [, lane = ''] = ((await show(id))['to'] ?? '').split('@')
      await write('insert into lane_holds values (?, ?)', lane, postrider.clock.now())
      return id
    },
  },
  paused_campaign: {
    confidence: 'confirmed',
    async by() {
      const campaign = await sending()
      assert.equal((await kit.patch(campaign, { status: 'paused' })).status, 200)
      return campaign
    },
  },
  held: {
    confidence: 'confirmed',
    async by() {
      const id = await said(GREYLISTED)
      await write(
        `update deliveries set status = 'held' where email_key = (select key from outbound_emails where id = ?)`,
        id,
      )
      return id
    },
  },
  ended_campaign: {
    confidence: 'confirmed',
    async by() {
      const campaign = await sending()
      for (const status of ['paused', 'cancelled']) assert.equal((await kit.patch(campaign, { status })).status, 200)
      return campaign
    },
  },
  paused_agent: {
    confidence: 'confirmed',
    async by() {
      const id = await said(GREYLISTED, { agent_id: 'shop' })
      await postrider.appliance.deps.store.write((tx) =>
        pauseAgent(tx, postrider.user.key, 'shop', true, postrider.clock.now()),
      )
      return id
    },
  },
  slow_agent: {
    confidence: 'likely',
    async by() {
      // The second mail of an agent on probation has its turn half a second after the first.
      await said(GREYLISTED, { agent_id: 'news' })
      return post({ to: `bob@${receiving()}`, agent_id: 'news' })
    },
  },
  limit_of_receiver: {
    confidence: 'likely',
    async by() {
      const id = await said(GREYLISTED)
      const [, lane = ''] = ((await show(id))['to'] ?? '').split('@')
      await write(
        'insert or replace into learned_lanes (lane, connections, per_second, paused_until, learned_at) values (?, 1, 0.4, null, ?)',
        lane,
        postrider.clock.now(),
      )
      return id
    },
  },
  pause_of_receiver: {
    confidence: 'likely',
    async by() {
      const id = await said(GREYLISTED)
      const [, lane = ''] = ((await show(id))['to'] ?? '').split('@')
      const now = postrider.clock.now()
      await write(
        'insert or replace into learned_lanes (lane, connections, per_second, paused_until, learned_at) values (?, null, null, ?, ?)',
        lane,
        now + HOUR,
        now,
      )
      return id
    },
  },
  domain_state: {
    confidence: 'confirmed',
    async by() {
      const made = await postrider.activeDomain('suspended.test')
      await write(`update domains set status = 'suspended' where key = ?`, made.key)
      return 'suspended.test'
    },
  },
  bad_list: {
    confidence: 'likely',
    async by() {
      const name = receiving()
      const readers = Array.from({ length: 8 }, (_, at) => `reader${at}@${name}`)
      for (const reader of readers.slice(0, 6)) replies.set(reader, '550 5.1.1 No such user')
      const audience = await kit.audience(domain, `Old ${name}`)
      await kit.fill(audience, readers)
      const campaign = await kit.draft(audience)
      await kit.send(campaign)
      return campaign
    },
  },
  missing_records: {
    confidence: 'confirmed',
    async by() {
      const made = await postrider.activeDomain('differs.test')
      postrider.publish(made, ({ record_type }) => record_type !== 'SPF')
      await postrider.api('POST', `/domains/${made.id}/check`)
      await until(async () => {
        const { body } = await postrider.api('GET', `/domains/${made.id}/records`)
        return body.data.some(
          ({ attributes }: { attributes: Record<string, unknown> }) =>
            attributes['required'] && !attributes['verified'],
        )
      }, 'a missing record')
      return 'differs.test'
    },
  },
  receives_nothing: {
    confidence: 'confirmed',
    async by() {
      const { deps } = postrider.appliance
      const name = 'unverified.test'
      await registerDomain({ ...deps, ring: () => {} }, postrider.user.key, { name, purpose: 'both' })
      await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: `box@${name}` }))
      return name
    },
  },
  many_complaints: {
    confidence: 'likely',
    async by() {
      await tallied((await postrider.activeDomain('loud.test')).key, 1000, 5)
      return 'loud.test'
    },
  },
  reputation_warning: {
    confidence: 'likely',
    async by() {
      const { key } = await postrider.activeDomain('warned.test')
      await write('insert into domain_reputations values (?, ?)', key, postrider.clock.now())
      return 'warned.test'
    },
  },
  server_trouble: {
    confidence: 'possible',
    by() {
      postrider.appliance.deps.troubles.report('storage', 'The disk is full.')
      return said(GREYLISTED)
    },
    after: () => postrider.appliance.deps.troubles.clear('storage'),
  },
}

describe('each cause', () => {
  for (const [cause, { after, by, confidence }] of Object.entries(BROUGHT))
    test(`${cause}`, async () => {
      const subject = await by()
      try {
        const { causes, summary } = await explained(subject)
        const named = causes.find((each) => each.cause === cause)
        assert.ok(named, JSON.stringify(causes, null, 1))
        assert.equal(named.confidence, confidence)
        assert.ok(named.message !== '' && named.fix !== '' && named.evidence.length > 0)
        assert.ok(summary.includes(causes[0]?.message ?? '-'))
        // In order, each with a row.
        for (const [at, each] of causes.entries()) {
          assert.equal(each.rank, at + 1)
          assert.ok(each.evidence.length >= 1 && each.evidence.length <= 5, each.cause)
          const times = each.evidence.map((row) => row.at)
          assert.deepEqual(times, times.toSorted().toReversed(), each.cause)
        }
      } finally {
        await after?.()
      }
    })

  test('the tests cover every cause of the tables', () => {
    assert.deepEqual(
      Object.keys(BROUGHT).toSorted(),
      [...new Set([...MAIL_CAUSES, ...SENDER_CAUSES].map(({ cause }) => cause))].toSorted(),
    )
  })
})

test('names the recipient domain whose MTA-STS policy required the certificate', async () => {
  const strict = await postrider.activeDomain('sts.test')
  await write(`update domains set tls_policy = 'Require' where key = ?`, strict.key)
  const to = receiving()
  const id = await post({ from: 'ann@sts.test', to: `bob@${to}` })
  await attempted(id, 1)
  // As connect.ts writes it for a policy with the mode "enforce".
  await write(
    `update attempts set enhanced_code = '4.7.5', security = '- sts none not_queried not_queried not_queried'
     where delivery_key = (select v.key from deliveries v join outbound_emails e on e.key = v.email_key where e.id = ?)`,
    id,
  )
  const cause = (await explained(id)).causes.find((each) => each.cause === 'no_tls')
  assert.match(cause?.message ?? '', new RegExp(`\\(required by the MTA-STS policy of ${to}\\)`))
})

test('a frequent reply of the provider is likely, and ranks below the reply to this email', async () => {
  const to = receiving()
  replies.set(`ann@${to}`, '550 5.7.1 Message rejected due to local policy')
  await become(await post({ to: `ann@${to}` }), 'bounced')
  replies.set(`bob@${to}`, '552 5.2.2 The mailbox is over quota')
  const id = await post({ to: `bob@${to}` })
  await become(id, 'bounced')
  const { causes } = await explained(id)
  assert.deepEqual(
    causes.slice(0, 2).map(({ cause, confidence }) => [cause, confidence]),
    [
      ['full', 'confirmed'],
      ['policy', 'likely'],
    ],
  )
  // The explanation of the receiver hides the recipient.
  const of = await explained(to)
  assert.equal(of.kind, 'receiver')
  assert.doesNotMatch(JSON.stringify(of), /ann@|bob@/)
  assert.match(causes[1]?.message ?? '', /Recently seen once\./)
})

test('names no cause without evidence', async () => {
  const few = await figured(20, 0, 0)
  const { sources, causes, unknowns } = await explained(few)
  assert.deepEqual(causes, [])
  assert.match(unknowns[0]?.reason ?? '', /no sign of one since /)
  assert.ok(sources.every(({ state }) => ['read', 'empty', 'unavailable'].includes(state)))
})

test('lists at most ten causes with five rows each, the heaviest first', async () => {
  const name = await figured(50, 20, 40)
  const day = Math.floor(postrider.clock.now() / DAY)
  for (const { meant, words } of [
    { meant: 'block', words: '554 5.7.1 blocked using zen.spamhaus.org' },
    { meant: 'rate', words: '451 4.7.1 Too many messages, slow down' },
    { meant: 'reputation', words: '554 poor reputation' },
    { meant: 'authentication', words: '550 5.7.1 DMARC policy' },
    { meant: 'reverse', words: '450 4.7.25 no reverse hostname' },
    { meant: 'policy', words: '550 5.7.1 rejected due to local policy' },
    { meant: 'tls', words: '530 5.7.0 Must issue a STARTTLS command first' },
    { meant: 'content', words: '554 5.6.0 Message contained unsafe content' },
    { meant: 'user', words: '550 5.1.1 No such user' },
    { meant: 'full', words: '552 5.2.2 over quota' },
    { meant: 'greylist', words: '451 4.7.1 Greylisted' },
  ])
    for (let back = 0; back < 7; back++)
      await write(
        'insert into refusals values (?, ?, ?, ?, 1)',
        postrider.user.key,
        name,
        day - back,
        `${words} ${meant}`,
      )
  const { sources, causes } = await explained(name)
  assert.equal(causes.length, 10)
  assert.ok(causes.every(({ evidence }) => evidence.length <= 5))
  assert.equal(causes[0]?.evidence.length, 5)
  // Six that are about this server are likely, the others only possible.
  assert.deepEqual(
    causes.map(({ confidence }) => confidence),
    [...Array<string>(6).fill('likely'), ...Array<string>(4).fill('possible')],
  )
  assert.equal(sources.find(({ source }) => source === 'replies')?.rows, 77)
})

test('uses old evidence only on request', async () => {
  const other = await addUser(postrider.appliance.deps, { email: 'old@owner.test' })
  const id = await said('552 5.2.2 The mailbox is over quota')
  assert.notEqual(other.key, postrider.user.key)
  const later = new Date(postrider.clock.now() + DAY).toISOString()
  const { body } = await postrider.api('GET', `/explanations?filter[subject]=${id}&filter[since]=${later}`)
  assert.deepEqual(body.data.attributes.causes, [])
  assert.equal(body.data.attributes.sources[0].since, later)
})
