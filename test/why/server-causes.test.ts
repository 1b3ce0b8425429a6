// Every cause with evidence from warm-up, blocklists, reverse DNS and external reports: the users who see it, and its
// rows.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SERVER_CAUSES } from '../../src/why/causes-server.ts'
import type { Confidence } from '../../src/why/evidence.ts'
import type { ExplainedCause, Explanation } from '../../src/why/explain.ts'
import { HELD } from '../../src/store/serving.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR } from '../mail/mails.ts'
import { sceneOfFile } from './scene.ts'

const BLOCKED = '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'
const UNPROVEN = '550 5.7.1 Your message was rejected due to here.test DMARC policy.'
const ADDRESS = '192.0.2.1'

const { domain, explained, mails, postrider, receiving, replies, write } = sceneOfFile({
  config: {
    warmup: { private: true, transactional_overflow: 'wait' },
    watch: { interval: '0' },
    delivery: { sources: [{ address: '127.0.0.1' }] },
  },
  otherDomains: ['other.test'],
})
const { become, post, show } = mails

const today = (): number => Math.floor(postrider.clock.now() / DAY)

async function refused(reply: string, at = receiving()): Promise<string> {
  replies.set(`bob@${at}`, reply)
  const id = await post({ to: `bob@${at}` })
  await become(id, 'bounced')
  return id
}

/** An email that is queued because an operator limits its receiver to one recipient a day. */
async function waiting(): Promise<[id: string, receiver: string]> {
  const receiver = receiving()
  await become(await post({ to: `first@${receiver}` }), 'delivered')
  const { body } = await postrider.api('GET', `/warmups?filter[receiver]=${receiver}`)
  const { id } = body.data[0]
  const attributes = { daily_limit: 1 }
  const set = await postrider.api('PATCH', `/warmups/${id}`, { data: { type: 'warmups', id, attributes } })
  assert.equal(set.status, 200, JSON.stringify(set.body))
  const mail = await post({ to: `second@${receiver}` })
  await until(async () => (await show(mail)).recipients[0]?.response?.startsWith('warm-up:'), 'a wait')
  return [mail, receiver]
}

let watches = 0
/** Inserts a check with a state. */
async function watched(kind: string, subject: string, status: string): Promise<void> {
  const at = postrider.clock.now() - HOUR
  const list = kind === 'blocklist' ? 'zen.spamhaus.org' : kind === 'domain_list' ? 'dbl.spamhaus.org' : ''
  await write(`delete from watches where kind = ? and subject = ?`, kind, subject)
  await write(
    `insert into watches (id, kind, subject, list, hostname, status, answer, since, checked_at, created_at)
     values (?, ?, ?, ?, 'mx.postrider.test', ?, ?, ?, ?, ?)`,
    `w${++watches}`,
    kind,
    subject,
    list,
    status,
    list === '' ? 'vps.cloud.test' : '127.0.0.2',
    at,
    at,
    at,
  )
}

const unwatched = (): Promise<unknown> => write('delete from watches')

async function alarm(receiver: string): Promise<string> {
  const now = postrider.clock.now()
  await write(
    `insert into receiver_alarms (id, user_key, receiver, kind, status, created_at, measured, usual, threshold, volume, words, updated_at)
     values (?, ?, ?, 'refused', 'open', ?, 0.3, 0.01, 0.1, 500, '550 5.7.1 not here', ?)`,
    `alarm-${receiver}`,
    postrider.user.key,
    receiver,
    now,
    now,
  )
  return receiver
}

/** An authenticated report about an address. */
const reported = (address: string, of: Partial<{ dkim: number; messages: number; reporters: string }> = {}) =>
  write(
    `insert or replace into dmarc_figures (user_key, domain_key, day, address, addresses, dkim_pass, pass, messages, none,
       spf_pass, quarantine, reject, passed, evidence, evidence_pass, evidence_proven, forwarded, both,
       reporters, dkim_domains, spf_domains)
     select ?, ?, ?, ?, 1, dkim * messages, dkim * messages, messages, messages, 0, 0, 0, 0, 0, 0, 0, 0, 0, reporters, '', ''
     from (select ? as dkim, ? as messages, ? as reporters)`,
    postrider.user.key,
    domain.key,
    today() - 1,
    address,
    of.dkim ?? 0,
    of.messages ?? 40,
    of.reporters ?? ' google.com  yahoo.com ',
  )

interface BroughtHere {
  confidence: Confidence
  by: () => Promise<string>
  after?: () => Promise<unknown>
  /** The text of its rows. */
  shows: RegExp
  /** Whether the owner, who is not an operator, sees it too. */
  owner: boolean
}

const BROUGHT: Record<string, BroughtHere> = {
  warm_up: {
    confidence: 'confirmed',
    by: async () => (await waiting())[0],
    shows: /second@there\d+\.test queued until .*: warm-up: the limit for there\d+\.test is reached for today/,
    owner: true,
  },
  warm_up_setback: {
    confidence: 'likely',
    async by() {
      const [id, receiver] = await waiting()
      await write(
        `update warmups set status = 'reduced', step = 0, fixed = null, reason = 'The provider blocks this IP address: “blocked using a list”.' where receiver = ?`,
        receiver,
      )
      return id
    },
    shows: /127\.0\.0\.1 to there\d+\.test: reduced.*The provider blocks/,
    owner: false,
  },
  queue_held: {
    confidence: 'confirmed',
    async by() {
      const to = `bob@${receiving()}`
      replies.set(to, '451 4.3.0 Later')
      const id = await post({ to })
      await until(async () => (await show(id)).recipients[0]?.smtp_code ?? undefined)
      postrider.appliance.deps.troubles.report('machine', HELD)
      return id
    },
    after: async () => postrider.appliance.deps.troubles.clear('machine'),
    shows: /The queue is held/,
    owner: true,
  },
  relay: {
    confidence: 'likely',
    async by() {
      const to = `bob@${receiving()}`
      replies.set(to, '451 4.3.0 Later')
      const id = await post({ to })
      await until(async () => (await show(id)).recipients[0]?.smtp_code ?? undefined)
      await write(
        `update deliveries set lane = 'x.test|>standby' where email_key = (select key from outbound_emails where id = ?)`,
        id,
      )
      return id
    },
    shows: /sent through the relay standby, because the warm-up limit was reached/,
    owner: true,
  },
  receiver_alarm: {
    confidence: 'likely',
    async by() {
      const receiver = receiving()
      await refused(BLOCKED, receiver)
      return alarm(receiver)
    },
    shows: /rejected 30% of recipients .* Reply: 550 5\.7\.1 not here/,
    owner: true,
  },
  listed: {
    confidence: 'likely',
    async by() {
      await watched('blocklist', ADDRESS, 'listed')
      return refused(BLOCKED)
    },
    after: unwatched,
    shows: /192\.0\.2\.1 is on Spamhaus ZEN/,
    owner: false,
  },
  listed_domain: {
    confidence: 'confirmed',
    async by() {
      await watched('domain_list', 'here.test', 'listed')
      return 'here.test'
    },
    after: unwatched,
    shows: /here\.test is on Spamhaus DBL/,
    owner: false,
  },
  wrong_reverse: {
    confidence: 'likely',
    async by() {
      await watched('reverse', ADDRESS, 'wrong')
      return refused(BLOCKED)
    },
    after: unwatched,
    shows: /The PTR record of 192\.0\.2\.1 is vps\.cloud\.test/,
    owner: false,
  },
  failing_dmarc: {
    confidence: 'likely',
    async by() {
      await reported('127.0.0.1')
      return refused(UNPROVEN)
    },
    shows: /127\.0\.0\.1 \(this server\): 40 of 40 messages in 14 days fail DMARC$/,
    owner: true,
  },
}

/** Runs `work` as the owner without operator rights. */
async function asOwner<T>(work: () => Promise<T>): Promise<T> {
  const { key } = postrider.user
  await write('update users set operator = 0 where key = ?', key)
  try {
    return await work()
  } finally {
    await write('update users set operator = 1 where key = ?', key)
  }
}

const causeIn = ({ causes }: Explanation, cause: string): ExplainedCause | undefined =>
  causes.find((each) => each.cause === cause)

describe('server causes', () => {
  for (const [cause, { after, by, owner, shows, confidence }] of Object.entries(BROUGHT))
    test(`${cause}`, async () => {
      const subject = await by()
      try {
        const named = causeIn(await explained(subject), cause)
        assert.ok(named, JSON.stringify((await explained(subject)).causes, null, 1))
        assert.equal(named.confidence, confidence)
        assert.ok(named.message !== '' && named.fix !== '')
        assert.ok(
          named.evidence.some(({ text }) => shows.test(text)),
          JSON.stringify(named.evidence, null, 1),
        )
        const own = await asOwner(() => explained(subject))
        assert.equal(causeIn(own, cause) !== undefined, owner)
        assert.doesNotMatch(JSON.stringify(own), /\/server\//)
      } finally {
        await after?.()
      }
    })

  test('the tests cover every cause of the table', () => {
    assert.deepEqual(Object.keys(BROUGHT).toSorted(), SERVER_CAUSES.map(({ cause }) => cause).toSorted())
  })
})

test('only operators see the sources of the whole server in "sources"', async () => {
  const [id] = await waiting()
  const names = ({ sources }: Explanation): string[] => sources.map(({ source }) => source)
  const all = names(await explained(id))
  for (const source of ['warm-up', 'way', 'watch', 'alarms', 'DMARC reports']) assert.ok(all.includes(source), source)
  const own = names(await asOwner(() => explained(id)))
  assert.deepEqual(
    all.filter((source) => !own.includes(source)),
    ['watch'],
  )
})

test('a provider and a campaign show email that waits for warm-up to the account that sends it', async () => {
  const [id, receiver] = await waiting()
  const { causes, kind } = await explained(receiver)
  assert.equal(kind, 'receiver')
  assert.equal(causes[0]?.cause, 'warm_up')
  assert.match(JSON.stringify(causes[0]?.evidence), /1 recipient at there\d+\.test queued by the warm-up limit/)
  const own = await asOwner(() => explained(receiver))
  assert.match(JSON.stringify(own), /1 recipient at there\d+\.test queued by the warm-up limit until \d{4}/)
  assert.equal(own.causes[0]?.cause, 'warm_up')
  assert.doesNotMatch(JSON.stringify(own), /127\.0\.0\.1 to/)
  assert.equal((await postrider.asOther('GET', `/explanations?filter[subject]=${receiver}`)).status, 404)
  // The email has the time, and its first cause is the one that stopped it.
  const { summary } = await explained(id)
  assert.match(summary, /^The email is queued\. Next attempt .* The daily warm-up limit for the provider is reached/)
})

test('neither an alarm nor a blocklist entry explains an accepted email', async () => {
  await watched('blocklist', ADDRESS, 'listed')
  const receiver = receiving()
  const id = await post({ to: `bob@${receiver}` })
  await become(id, 'delivered')
  await alarm(receiver)
  assert.deepEqual((await explained(id)).causes, [])
  await unwatched()
})

test('shows a wrong PTR record once if its name does not resolve to the IP address either', async () => {
  await watched('reverse', ADDRESS, 'wrong')
  await watched('forward', ADDRESS, 'wrong')
  const named = causeIn(await explained(await refused(BLOCKED)), 'wrong_reverse')
  assert.deepEqual(
    named?.evidence.map(({ text }) => text.startsWith('The PTR record of 192.0.2.1')),
    [true],
  )
  await unwatched()
})

test('an operator finds a provider whose queued email is bound to a sending IP address', async () => {
  const receiver = receiving()
  replies.set(`bob@${receiver}`, '451 4.7.1 Greylisted, come back later')
  const id = await post({ to: `bob@${receiver}` })
  await until(async () => (await show(id)).recipients[0]?.smtp_code ?? undefined)
  for (const lane of [`${receiver}|127.0.0.1`, `~${receiver}|127.0.0.1`]) {
    await write(
      `update deliveries set lane = ? where email_key = (select key from outbound_emails where id = ?)`,
      lane,
      id,
    )
    await write('delete from receiver_tallies where receiver = ?', receiver)
    assert.equal((await explained(receiver)).kind, 'receiver', lane)
  }
})
