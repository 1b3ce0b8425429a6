// Every cause that the mail itself and its sender speak for (server-causes.test.ts has the others), brought about in a
// real appliance each: by a real reply where a receiver says it, by the figures where many mails say it.
import assert from 'node:assert/strict'
import { renameSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { addUser } from '../../src/identity/users.ts'
import { pauseAgent } from '../../src/reputation/pauses.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { raw } from '../../src/store/query.ts'
import type { Strength } from '../../src/why/evidence.ts'
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

/** A campaign to one reader whose mail was put off, so that it goes on. */
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

/** Delivered mails of two receivers, of which readers opened so many; opens are tracked. */
async function opened(here: number, elsewhere: number): Promise<string> {
  const name = await figured(120, 0, 0)
  for (const [receiver, opens] of [
    [name, here],
    ['others.test', elsewhere],
  ] as const)
    await postrider.appliance.deps.store.write((tx) => {
      for (let at = 0; at < 120; at++) {
        const now = postrider.clock.now()
        const { key } = tx.one(
          raw<{ key: number }>(
            `insert into outbound_emails (id, user_key, domain_key, "from", "to", subject, opens_tracked, clicks_tracked,
               message_id, status, queued_at, delivered_at, first_opened_at, created_at, updated_at)
             values (?, ?, ?, 'ann@here.test', 'x@y.test', 'Hi', 1, 0, ?, 'delivered', ?, ?, ?, ?, ?) returning key`,
            [
              `${receiver}-${at}`,
              postrider.user.key,
              domain.key,
              `<${receiver}-${at}@here.test>`,
              now,
              now,
              at < opens ? now : null,
              now,
              now,
            ],
          ),
        )
        tx.run(
          raw(
            `insert into deliveries (email_key, domain_key, role, address, lane, status, attempts, expires_at, updated_at)
             values (?, ?, 'to', ?, ?, 'delivered', 1, ?, ?)`,
            [key, domain.key, `x${at}@${receiver}`, receiver, now, now],
          ),
        )
      }
    })
  return name
}

interface Brought {
  strength: Strength
  /** Brings it about, and names the subject. */
  by: () => Promise<string>
  /** What is put right afterwards. */
  after?: () => Promise<unknown> | void
}

const reply = (words: string): Brought => ({ strength: 'shown', by: () => said(words) })
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
    strength: 'shown',
    async by() {
      const strict = await postrider.activeDomain('strict.test')
      await write(`update domains set tls_policy = 'Require' where key = ?`, strict.key)
      const id = await post({ from: 'ann@strict.test', to: `bob@${receiving()}` })
      await attempted(id, 1)
      return id
    },
  },
  dane: {
    strength: 'shown',
    async by() {
      const strict = await postrider.activeDomain('proven.test')
      await write(`update domains set tls_policy = 'Require' where key = ?`, strict.key)
      const id = await post({ from: 'ann@proven.test', to: `bob@${receiving()}` })
      await attempted(id, 1)
      // As connect.ts writes it when TLSA records are not answered; test/delivery/dane-mail.test.ts asks for them.
      await write(
        `update attempts set enhanced_code = '4.7.5', security = '- dane none secure secure failed'
         where delivery_key = (select v.key from deliveries v join outbound_emails e on e.key = v.email_key where e.id = ?)`,
        id,
      )
      return id
    },
  },
  no_way: {
    strength: 'shown',
    async by() {
      const id = await post({ to: 'bob@nowhere.invalid' })
      await become(id, 'failed')
      return id
    },
  },
  rejected: {
    strength: 'shown',
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
    strength: 'shown',
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
    strength: 'shown',
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
    strength: 'shown',
    async by() {
      const id = await said(GREYLISTED, { html: `<p>${'x'.repeat(300_000)}</p>` })
      renameSync(...spool())
      await turnToNext(id)
      await until(async () => (await show(id)).recipients[0]?.response?.includes('waits for this server'))
      return id
    },
    after() {
      renameSync(...(spool().toReversed() as [string, string]))
      const { troubles } = postrider.appliance.deps
      for (const { name } of troubles.list()) troubles.clear(name)
    },
  },
  missing_key_record: {
    strength: 'shown',
    async by() {
      const gone = await postrider.activeDomain('gone.test')
      postrider.publish(gone, ({ record_type }) => record_type !== 'DKIM')
      await postrider.api('POST', `/domains/${gone.id}/check`)
      const id = await post({ from: 'ann@gone.test', to: `bob@${receiving()}` })
      await until(async () => (await show(id)).recipients[0]?.response?.includes('DKIM'), 'a wait for the record')
      return id
    },
  },
  hold: {
    strength: 'shown',
    async by() {
      const id = await said(GREYLISTED)
      const [, lane = ''] = ((await show(id))['to'] ?? '').split('@')
      await write('insert into lane_holds values (?, ?)', lane, postrider.clock.now())
      return id
    },
  },
  paused_campaign: {
    strength: 'shown',
    async by() {
      const campaign = await sending()
      assert.equal((await kit.patch(campaign, { status: 'paused' })).status, 200)
      return campaign
    },
  },
  held: {
    strength: 'shown',
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
    strength: 'shown',
    async by() {
      const campaign = await sending()
      for (const status of ['paused', 'cancelled']) assert.equal((await kit.patch(campaign, { status })).status, 200)
      return campaign
    },
  },
  paused_agent: {
    strength: 'shown',
    async by() {
      const id = await said(GREYLISTED, { agent_id: 'shop' })
      await postrider.appliance.deps.store.write((tx) =>
        pauseAgent(tx, postrider.user.key, 'shop', true, postrider.clock.now()),
      )
      return id
    },
  },
  slow_agent: {
    strength: 'likely',
    async by() {
      // The second mail of an agent on probation has its turn half a second after the first.
      await said(GREYLISTED, { agent_id: 'news' })
      return post({ to: `bob@${receiving()}`, agent_id: 'news' })
    },
  },
  pause_of_receiver: {
    strength: 'likely',
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
    strength: 'shown',
    async by() {
      const made = await postrider.activeDomain('suspended.test')
      await write(`update domains set status = 'suspended' where key = ?`, made.key)
      return 'suspended.test'
    },
  },
  receiver_refuses: { strength: 'likely', by: () => figured(50, 0, 50) },
  receiver_defers: { strength: 'likely', by: () => figured(50, 50, 0) },
  bad_list: {
    strength: 'likely',
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
  few_opens: { strength: 'possible', by: () => opened(3, 60) },
  missing_records: {
    strength: 'shown',
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
    strength: 'shown',
    async by() {
      const { deps } = postrider.appliance
      const name = 'unverified.test'
      await registerDomain({ ...deps, ring: () => {} }, postrider.user.key, { name, purpose: 'both' })
      await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Box', address: `box@${name}` }))
      return name
    },
  },
  many_complaints: {
    strength: 'likely',
    async by() {
      await tallied((await postrider.activeDomain('loud.test')).key, 1000, 5)
      return 'loud.test'
    },
  },
  reputation_warning: {
    strength: 'likely',
    async by() {
      const { key } = await postrider.activeDomain('warned.test')
      await write('insert into domain_reputations values (?, ?)', key, postrider.clock.now())
      return 'warned.test'
    },
  },
  jump_of_volume: {
    strength: 'possible',
    async by() {
      await tallied((await postrider.activeDomain('jump.test')).key, 1000, 0)
      return said('451 4.7.1 Too many messages, slow down', { from: 'ann@jump.test' })
    },
  },
  new_sender: { strength: 'possible', by: () => said(GREYLISTED) },
  server_trouble: {
    strength: 'possible',
    by() {
      postrider.appliance.deps.troubles.report('storage', 'The disk is full.')
      return said(GREYLISTED)
    },
    after: () => postrider.appliance.deps.troubles.clear('storage'),
  },
}

describe('each cause', () => {
  for (const [cause, { after, by, strength }] of Object.entries(BROUGHT))
    test(`${cause} (DV83, DV84)`, async () => {
      const subject = await by()
      try {
        const { causes, summary } = await explained(subject)
        const named = causes.find((each) => each.cause === cause)
        assert.ok(named, JSON.stringify(causes, null, 1))
        assert.equal(named.strength, strength)
        assert.ok(named.says !== '' && named.mend !== '' && named.evidence.length > 0)
        assert.ok(summary.includes(causes[0]?.says ?? '-'))
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

  test('every cause of the tables is among them (DV83)', () => {
    assert.deepEqual(
      Object.keys(BROUGHT).toSorted(),
      [...new Set([...MAIL_CAUSES, ...SENDER_CAUSES].map(({ cause }) => cause))].toSorted(),
    )
  })
})

test('what a receiver says to many is likely, and comes after what it said to this mail (DV85)', async () => {
  const to = receiving()
  replies.set(`ann@${to}`, '550 5.7.1 Message rejected due to local policy')
  await become(await post({ to: `ann@${to}` }), 'bounced')
  replies.set(`bob@${to}`, '552 5.2.2 The mailbox is over quota')
  const id = await post({ to: `bob@${to}` })
  await become(id, 'bounced')
  const { causes } = await explained(id)
  assert.deepEqual(
    causes.slice(0, 2).map(({ cause, strength }) => [cause, strength]),
    [
      ['full', 'shown'],
      ['policy', 'likely'],
    ],
  )
  // The receiver itself: who was written to is not shown.
  const of = await explained(to)
  assert.equal(of.kind, 'receiver')
  assert.doesNotMatch(JSON.stringify(of), /ann@|bob@/)
  assert.match(causes[1]?.says ?? '', /It was said once of late\./)
})

test('opens say nothing below 100 on a side, and never more than possible (DV83)', async () => {
  const few = await figured(20, 0, 0)
  const { asked, causes, not_known } = await explained(few)
  assert.deepEqual(causes, [])
  assert.match(not_known[0]?.because ?? '', /Nothing since .* speaks of one/)
  assert.ok(asked.every(({ state }) => ['read', 'empty', 'off'].includes(state)))
})

test('ten causes of five rows at most, those with most weight first (DV82, DV85)', async () => {
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
  const { asked, causes } = await explained(name)
  assert.equal(causes.length, 10)
  assert.ok(causes.every(({ evidence }) => evidence.length <= 5))
  assert.equal(causes[0]?.evidence.length, 5)
  // Six that are about us and the receiver's figures are likely; the others only possible.
  assert.deepEqual(
    causes.map(({ strength }) => strength),
    [...Array<string>(7).fill('likely'), ...Array<string>(3).fill('possible')],
  )
  assert.equal(asked.find(({ source }) => source === 'replies')?.rows, 77)
})

test('old evidence counts only when it is asked for (DV82)', async () => {
  const other = await addUser(postrider.appliance.deps, { email: 'old@owner.test' })
  const id = await said('552 5.2.2 The mailbox is over quota')
  assert.notEqual(other.key, postrider.user.key)
  const later = new Date(postrider.clock.now() + DAY).toISOString()
  const { body } = await postrider.api('GET', `/explanations?filter[subject]=${id}&filter[since]=${later}`)
  assert.deepEqual(body.data.attributes.causes, [])
  assert.equal(body.data.attributes.asked[0].since, later)
})
