// Every cause that warm-up, the watch and the reports of others speak for: who hears of it, and with which rows.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { SERVER_CAUSES } from '../../src/why/causes-server.ts'
import type { Strength } from '../../src/why/evidence.ts'
import type { ExplainedCause, Explanation } from '../../src/why/explain.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR } from '../mail/mails.ts'
import { sceneOfFile } from './scene.ts'

const BLOCKED = '554 5.7.1 Service unavailable; Client host [192.0.2.1] blocked using zen.spamhaus.org'
const UNPROVEN = '550 5.7.1 Your message was rejected due to here.test DMARC policy.'
const ADDRESS = '192.0.2.1'

const { domain, explained, mails, postrider, receiving, replies, write } = sceneOfFile({
  config: {
    warmup: { private: true, transactional_over: 'wait' },
    watch: { every: '0' },
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

/** A mail that waits, because an operator lets one recipient a day go to its receiver. */
async function waiting(): Promise<[id: string, receiver: string]> {
  const receiver = receiving()
  await become(await post({ to: `first@${receiver}` }), 'delivered')
  const { body } = await postrider.api('GET', `/warmups?filter[receiver]=${receiver}`)
  const { id } = body.data[0]
  const attributes = { allowance: 1 }
  const set = await postrider.api('PATCH', `/warmups/${id}`, { data: { type: 'warmups', id, attributes } })
  assert.equal(set.status, 200, JSON.stringify(set.body))
  const mail = await post({ to: `second@${receiver}` })
  await until(async () => (await show(mail)).recipients[0]?.response?.startsWith('warm-up:'), 'a wait')
  return [mail, receiver]
}

let watches = 0
/** A watch in a state, with a change from another one. */
async function watched(kind: string, subject: string, status: string, before = 'unknown'): Promise<void> {
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
  await write(
    `insert into watch_changes (watch_key, state, previous_state, answer, at)
     select key, status, ?, answer, since from watches where id = ?`,
    before,
    `w${watches}`,
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

/** What an authenticated report says of an address. */
const reported = (address: string, of: Partial<{ dkim: number; messages: number; reporters: string }> = {}) =>
  write(
    `insert or replace into dmarc_figures (user_key, domain_key, day, address, header_from, dkim, spf, disposition, forwarded, messages,
       reporters, dkim_domains, spf_domains) values (?, ?, ?, ?, 'here.test', ?, 0, 'none', 0, ?, ?, '', '')`,
    postrider.user.key,
    domain.key,
    today() - 1,
    address,
    of.dkim ?? 0,
    of.messages ?? 40,
    of.reporters ?? ' google.com  yahoo.com ',
  )

interface BroughtHere {
  strength: Strength
  by: () => Promise<string>
  after?: () => Promise<unknown>
  /** What its rows show. */
  shows: RegExp
  /** The owner hears of it too, who is not an operator. */
  owner: boolean
}

const BROUGHT: Record<string, BroughtHere> = {
  warm_up: {
    strength: 'shown',
    by: async () => (await waiting())[0],
    shows: /second@there\d+\.test waits until .*: warm-up: there\d+\.test gets no more of this mail today/,
    owner: true,
  },
  warm_up_setback: {
    strength: 'likely',
    async by() {
      const [id, receiver] = await waiting()
      await write(
        `update warmups set status = 'back', step = 0, fixed = null, reason = 'The receiver blocks: “blocked using a list”.' where receiver = ?`,
        receiver,
      )
      return id
    },
    shows: /127\.0\.0\.1 to there\d+\.test: back.*The receiver blocks/,
    owner: false,
  },
  relay: {
    strength: 'likely',
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
    shows: /goes by the relay standby, because warm-up had no room/,
    owner: true,
  },
  receiver_alarm: {
    strength: 'likely',
    async by() {
      const receiver = receiving()
      await refused(BLOCKED, receiver)
      return alarm(receiver)
    },
    shows: /refused 30% of its recipients .* It says: 550 5\.7\.1 not here/,
    owner: true,
  },
  listed: {
    strength: 'likely',
    async by() {
      await watched('blocklist', ADDRESS, 'listed')
      return refused(BLOCKED)
    },
    after: unwatched,
    shows: /192\.0\.2\.1 is on Spamhaus ZEN/,
    owner: false,
  },
  listed_domain: {
    strength: 'shown',
    async by() {
      await watched('domain_list', 'here.test', 'listed')
      return 'here.test'
    },
    after: unwatched,
    shows: /here\.test is on Spamhaus DBL/,
    owner: false,
  },
  wrong_reverse: {
    strength: 'likely',
    async by() {
      await watched('reverse', ADDRESS, 'wrong')
      return refused(BLOCKED)
    },
    after: unwatched,
    shows: /192\.0\.2\.1 leads to vps\.cloud\.test/,
    owner: false,
  },
  bad_at_microsoft: {
    strength: 'likely',
    async by() {
      await write(
        `insert into snds_rows values (?, ?, 400, 'red', 0.004, 2, ?)`,
        ADDRESS,
        today() - 1,
        postrider.clock.now(),
      )
      return refused(BLOCKED, receiving('hotmail-com.olc.protection.outlook.com'))
    },
    shows: /192\.0\.2\.1 red, 400 recipients, complaints 0\.4%, 2 to traps/,
    owner: false,
  },
  bad_at_google: {
    strength: 'likely',
    async by() {
      await write(
        `insert into gmail_rows (domain_key, day, spam_rate, reputation, imported_at) values (?, ?, 0.004, 'LOW', ?)`,
        domain.key,
        today() - 1,
        postrider.clock.now(),
      )
      return 'here.test'
    },
    shows: /here\.test called spam 0\.4%, reputation LOW/,
    owner: true,
  },
  failing_dmarc: {
    strength: 'likely',
    async by() {
      await reported('127.0.0.1')
      return refused(UNPROVEN)
    },
    shows: /127\.0\.0\.1 \(this server\): 40 of 40 mails of 14 days fail DMARC$/,
    owner: true,
  },
  foreign_senders: {
    strength: 'possible',
    async by() {
      await reported('198.51.100.9', { reporters: ' mail.example ' })
      return 'here.test'
    },
    shows: /198\.51\.100\.9 \(unknown\): 40 of 40 mails of 14 days fail DMARC, as mail\.example alone says/,
    owner: true,
  },
  tls_to_domain: {
    strength: 'shown',
    async by() {
      await write(
        `insert into tls_figures values (?, ?, ?, 'google.com', 'sts', 'here.test', 200, 40, '{"certificate-expired":40}')`,
        postrider.user.key,
        domain.key,
        today() - 1,
      )
      return 'here.test'
    },
    shows: /40 of 240 connections failed \(certificate-expired × 40\)/,
    owner: true,
  },
}

/** The same, asked by the owner when that is not an operator. */
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

describe('each cause', () => {
  for (const [cause, { after, by, owner, shows, strength }] of Object.entries(BROUGHT))
    test(`${cause} (DV82, DV84, DV95)`, async () => {
      const subject = await by()
      try {
        const named = causeIn(await explained(subject), cause)
        assert.ok(named, JSON.stringify((await explained(subject)).causes, null, 1))
        assert.equal(named.strength, strength)
        assert.ok(named.says !== '' && named.mend !== '')
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

  test('every cause of the table is among them (DV83)', () => {
    assert.deepEqual(Object.keys(BROUGHT).toSorted(), SERVER_CAUSES.map(({ cause }) => cause).toSorted())
  })
})

test('"asked" names the sources of the whole server for operators alone (DV84, DV95)', async () => {
  const [id] = await waiting()
  const names = ({ asked }: Explanation): string[] => asked.map(({ source }) => source)
  const all = names(await explained(id))
  for (const source of ['warm-up', 'way', 'watch', 'alarms', 'SNDS', 'Postmaster Tools', 'DMARC reports'])
    assert.ok(all.includes(source), source)
  const own = names(await asOwner(() => explained(id)))
  assert.deepEqual(
    all.filter((source) => !own.includes(source)),
    ['watch', 'SNDS'],
  )
})

test('a receiver and a campaign say that mail waits for warm-up, to the account whose mail it is (DV84, DV98)', async () => {
  const [id, receiver] = await waiting()
  const { causes, kind } = await explained(receiver)
  assert.equal(kind, 'receiver')
  assert.equal(causes[0]?.cause, 'warm_up')
  assert.match(JSON.stringify(causes[0]?.evidence), /1 recipient waits for warm-up at there\d+\.test/)
  const own = await asOwner(() => explained(receiver))
  assert.match(JSON.stringify(own), /1 recipient waits for warm-up at there\d+\.test until \d{4}/)
  assert.equal(own.causes[0]?.cause, 'warm_up')
  assert.doesNotMatch(JSON.stringify(own), /127\.0\.0\.1 to/)
  assert.equal((await postrider.asOther('GET', `/explanations?filter[subject]=${receiver}`)).status, 404)
  // The mail says when, and its first cause is the one that stopped it.
  const { summary } = await explained(id)
  assert.match(summary, /^The mail waits\. Next try .* It waits for warm-up/)
})

test('a mail that was taken is not explained by an alarm, nor by the watch (DV83)', async () => {
  await watched('blocklist', ADDRESS, 'listed')
  const receiver = receiving()
  const id = await post({ to: `bob@${receiver}` })
  await become(id, 'delivered')
  await alarm(receiver)
  assert.deepEqual((await explained(id)).causes, [])
  await unwatched()
})

test('a list that had the address when the mail was refused is named, also when it has it no more (DV84)', async () => {
  await watched('blocklist', ADDRESS, 'clear', 'listed')
  const named = causeIn(await explained(await refused(BLOCKED)), 'listed')
  assert.match(named?.evidence[0]?.text ?? '', /192\.0\.2\.1 was on Spamhaus ZEN .* until/)
  assert.match(named?.says ?? '', /of late/)
  await unwatched()
})

test('an operator finds a receiver whose waiting mail is bound to a source (DV87)', async () => {
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
