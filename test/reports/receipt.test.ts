// Reports received by SMTP: their author, their figures, and their retention.
import assert from 'node:assert/strict'
import { gzipSync } from 'node:zlib'
import { describe, test } from 'node:test'
import { MOST } from '../../src/reports/receipt.ts'
import { fixOf } from '../../src/reports/tls-figures.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { deliver, receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import {
  DAY,
  DMARC_TO,
  dmarcReport,
  mailWith,
  read,
  reporterOf,
  reportServer,
  reportsOf,
  rowsOf,
  TLS_TO,
  YESTERDAY,
} from './reporter.ts'

const start = async (config = {}) => {
  const postrider = await startTestAppliance({ config, domains: ['here.test'], otherDomains: ['other.test'] })
  const idOf = async (name: string): Promise<string> =>
    (await postrider.api('GET', `/domains?filter[name]=${name}`)).body.data[0].id
  return Object.assign(postrider, { id: await idOf('here.test'), idOf })
}
const postrider = reportServer(start)

const stored = ({ appliance }: Awaited<ReturnType<typeof start>>, table: string): number =>
  appliance.deps.store.one(raw<{ n: number }>(`select count(*) as n from ${table}`)).n

describe('a DMARC report', () => {
  test('with a DMARC pass is listed and counted, and its message is kept outside of inboxes', async () => {
    const google = await reporterOf(postrider, 'google.test')
    const records = [
      { address: '192.0.2.1', count: 7 },
      { address: '192.0.2.1', count: 2 },
      { address: '2001:DB8::1', count: 3, dkim: 'fail', spf: 'fail', disposition: 'quarantine', signed: [] },
    ] as const
    await google.dmarc({ id: 'one', org: 'Somebody Else', records })
    const [report, ...more] = await reportsOf(postrider, postrider.id)
    assert.deepEqual(more, [])
    assert.partialDeepStrictEqual(report, {
      kind: 'dmarc',
      reporter: 'google.test',
      org_name: 'Somebody Else',
      report_id: 'one',
      authenticated: true,
      outcome: 'read',
      reason: null,
      format: 'rfc7489',
      records: 3,
      messages: 12,
      pass: 9,
      fail: 3,
      successful_sessions: null,
    })
    const sources = await rowsOf(postrider, postrider.id, 'dmarc-sources')
    assert.partialDeepStrictEqual(sources, [
      {
        address: '192.0.2.1',
        messages: 9,
        pass: 9,
        dkim_domains: ['here.test'],
        reporters: ['google.test'],
        dispositions: { none: 9, quarantine: 0, reject: 0, pass: 0 },
        first_seen: '2026-01-14',
      },
      { address: '2001:db8::1', known: 'unknown', messages: 3, fail: 3, dkim_domains: [] },
    ])
    const [{ id }] = (await postrider.api('GET', `/domains/${postrider.id}/aggregate-reports`)).body.data
    const headers = { authorization: `Bearer ${postrider.token}` }
    const message = await postrider.page(`/api/v1/aggregate-reports/${id}/raw`, { headers })
    assert.match(await message.text(), /^Return-Path: <noreply@google\.test>[^]*^Subject: Report Domain: here\.test/m)
    assert.equal(stored(postrider, 'inbound_messages'), 1)
    assert.equal(stored(postrider, 'inbound_emails'), 0)
    // Only the message is stored, and not as an email of an inbox.
    assert.equal(stored(postrider, 'inbound_bodies'), 0)
  })

  test('with a forged author is listed but not counted', async () => {
    const stranger = await reporterOf(postrider, 'stranger.test')
    const forged = mailWith(gzipSync(dmarcReport()), { from: 'noreply@google.test', to: DMARC_TO })
    postrider.dns.set('_dmarc.google.test', 'TXT', ['v=DMARC1; p=none'])
    await stranger.send(forged, DMARC_TO)
    await stranger.dmarc({}, DMARC_TO, { signedBy: null })
    const all = await reportsOf(postrider, postrider.id)
    assert.deepEqual(
      all.map(({ authenticated, outcome, reporter }) => [reporter, authenticated, outcome]),
      [
        ['stranger.test', false, 'read'],
        ['google.test', false, 'read'],
      ],
    )
    assert.deepEqual(await rowsOf(postrider, postrider.id, 'dmarc-sources'), [])
    const [evidence] = await rowsOf(postrider, postrider.id, 'dmarc-evidence')
    assert.partialDeepStrictEqual(evidence, { messages: 0, reporters: 0, days: 0 })
    assert.equal((await reportsOf(postrider, postrider.id, '&filter[authenticated]=true')).length, 0)
  })

  test('belongs to the account whose records are in DNS, not to a former one of the domain', async () => {
    await using postrider = await start()
    const { id } = await postrider.activeDomain('here.test', postrider.other)
    const google = await reporterOf(postrider, 'google.test')
    await postrider.appliance.deps.store.write((tx) =>
      tx.run(raw(`update domains set status = 'verifying' where id = ?`, [postrider.id])),
    )
    await google.dmarc({ id: 'one' })
    assert.equal((await reportsOf(postrider, postrider.id)).length, 0)
    const { body } = await postrider.asOther('GET', `/domains/${id}/aggregate-reports`)
    assert.deepEqual(
      (body.data as { attributes: { report_id: string } }[]).map(({ attributes }) => attributes.report_id),
      ['one'],
    )
  })

  test('about a related domain of another account is foreign', async () => {
    const { key } = await postrider.activeDomain('shop.here.test', postrider.other)
    const google = await reporterOf(postrider, 'google.test')
    await google.dmarc({ domain: 'shop.here.test' })
    // Another account that only has the name in its list removes no figures.
    await postrider.appliance.deps.store.write((tx) =>
      tx.run(raw(`update domains set status = 'pending' where key = ?`, [key])),
    )
    await google.dmarc({ domain: 'shop.here.test' })
    assert.deepEqual(
      (await reportsOf(postrider, postrider.id)).map(({ reason }) => reason),
      [null, 'foreign'],
    )
  })

  test('without authentication is discarded if so configured', async () => {
    await using postrider = await start({ reports: { unauthenticated: 'drop' } })
    const google = await reporterOf(postrider, 'google.test')
    await google.dmarc({}, DMARC_TO, { signedBy: null })
    assert.deepEqual(await reportsOf(postrider, postrider.id), [])
    assert.equal(stored(postrider, 'inbound_messages'), 0)
    await google.dmarc()
    assert.equal((await reportsOf(postrider, postrider.id)).length, 1)
  })

  test('counts for related domains of the same account, is foreign for others, and counts once if sent twice', async () => {
    await postrider.activeDomain('news.here.test')
    const google = await reporterOf(postrider, 'google.test')
    const news = await postrider.idOf('news.here.test')
    await google.dmarc({ domain: 'news.here.test' })
    await google.dmarc({ domain: 'shop.here.test' })
    await google.dmarc({ domain: 'other.test' })
    await google.dmarc({ domain: 'here.test', id: 'same' })
    await google.dmarc({ domain: 'here.test', id: 'same' })
    const yahoo = await reporterOf(postrider, 'yahoo.test')
    await yahoo.dmarc({ domain: 'here.test', id: 'same' })
    const shown = (await reportsOf(postrider, postrider.id)).map(({ messages, reason }) => [reason, messages])
    assert.deepEqual(shown.toReversed(), [
      [null, 1],
      ['foreign', null],
      [null, 1],
      ['duplicate', null],
      [null, 1],
    ])
    assert.equal((await reportsOf(postrider, news)).length, 1)
    assert.partialDeepStrictEqual(await rowsOf(postrider, postrider.id, 'dmarc-sources'), [{ messages: 3 }])
    // The other account's domain has no such report, and does not see ours.
    const other = (await postrider.asOther('GET', '/domains')).body.data[0].id
    const { body } = await postrider.asOther('GET', `/domains/${other}/aggregate-reports`)
    assert.deepEqual(body.data, [])
    for (const path of ['aggregate-reports', 'dmarc-sources', 'dmarc-evidence', 'tls-statistics', 'known-sources'])
      assert.equal((await postrider.asOther('GET', `/domains/${postrider.id}/${path}`)).status, 404, path)
    const [{ id }] = (await postrider.api('GET', `/domains/${postrider.id}/aggregate-reports`)).body.data
    assert.equal((await postrider.api('GET', `/aggregate-reports/${id}`)).status, 200)
    assert.equal((await postrider.asOther('GET', `/aggregate-reports/${id}`)).status, 404)
  })

  test('that is forged does not make an authenticated one a duplicate', async () => {
    const google = await reporterOf(postrider, 'google.test')
    await google.dmarc({ id: 'same' }, DMARC_TO, { signedBy: null })
    await google.dmarc({ id: 'same' })
    const all = await reportsOf(postrider, postrider.id)
    assert.deepEqual(
      all.map(({ authenticated, outcome }) => [authenticated, outcome]),
      [
        [true, 'read'],
        [false, 'read'],
      ],
    )
  })

  test('that cannot be read is rejected and kept, like any other message to the address', async () => {
    const google = await reporterOf(postrider, 'google.test')
    await google.send(`From: noreply@google.test\nTo: ${DMARC_TO}\nSubject: Hello\n\nHello.\n`, DMARC_TO)
    await google.dmarc({ begin: YESTERDAY + 30 * DAY })
    await google.dmarc({ begin: YESTERDAY - 500 * DAY })
    const all = await reportsOf(postrider, postrider.id)
    assert.deepEqual(
      all.map(({ outcome, reason }) => [outcome, reason]),
      [
        ['refused', 'too_old'],
        ['refused', 'date_range'],
        ['refused', 'no_report'],
      ],
    )
    assert.equal(stored(postrider, 'inbound_messages'), 3)
  })

  test(`beyond ${MOST.ofReporter} from a reporter per day is rejected, with one row and one notice`, async () => {
    await using postrider = await start()
    const google = await reporterOf(postrider, 'google.test')
    const yahoo = await reporterOf(postrider, 'yahoo.test')
    for (let at = 0; at < MOST.ofReporter + 3; at++) await google.dmarc()
    await yahoo.dmarc()
    const all = await reportsOf(postrider, postrider.id)
    assert.equal(all.length, MOST.ofReporter + 2)
    assert.deepEqual(
      all.filter(({ outcome }) => outcome === 'refused').map(({ reporter, reason }) => [reporter, reason]),
      [['google.test', 'too_many']],
    )
    const notices = postrider.appliance.deps.store.all(
      raw<{ subject: string; text: string }>('select subject, text from notices'),
    )
    assert.deepEqual(
      notices.map(({ subject }) => subject),
      ['Too many reports about here.test'],
    )
    assert.match(notices[0]?.text ?? '', /More arrived, for example from google\.test\./)
    assert.partialDeepStrictEqual(await rowsOf(postrider, postrider.id, 'dmarc-sources'), [
      { messages: MOST.ofReporter + 1 },
    ])
    // The next day they count again.
    postrider.clock.leap(86_400_000)
    await google.dmarc()
    assert.equal((await reportsOf(postrider, postrider.id))[0]?.outcome, 'read')
  })
})

describe('a TLS report', () => {
  test('counts with a signature of its author’s domain over the whole message, by a key for the service', async () => {
    const plain = await reporterOf(postrider, 'plain.test')
    const own = await reporterOf(postrider, 'own.test', ' s=tlsrpt;')
    const star = await reporterOf(postrider, 'star.test', ' s=*;')
    const mail = await reporterOf(postrider, 'mail.test', ' s=email;')
    for (const each of [plain, own, star, mail]) await each.tls()
    await plain.tls({}, TLS_TO, { signedBy: null })
    await plain.tls({}, TLS_TO, { bodyLength: 10 })
    const all = (await reportsOf(postrider, postrider.id)).toReversed()
    assert.deepEqual(
      all.map(({ authenticated, reporter, successful_sessions, reason }) => [
        reporter,
        authenticated,
        reason,
        successful_sessions,
      ]),
      [
        ['plain.test', true, null, 1],
        ['own.test', true, null, 1],
        ['star.test', true, null, 1],
        ['mail.test', false, 'unauthenticated', null],
        ['plain.test', false, 'unauthenticated', null],
        ['plain.test', false, 'unauthenticated', null],
      ],
    )
  })

  test('adds figures by day, reporter and policy, and a notice if connections fail', async () => {
    const google = await reporterOf(postrider, 'google.test')
    const notices = () =>
      postrider.appliance.deps.store.all(raw<{ subject: string; text: string }>('select subject, text from notices'))
    await google.tls({ policies: [{ success: 98, failure: 1 }] })
    assert.deepEqual(notices(), [], 'too few sessions')
    await google.tls({ policies: [{ success: 95, failure: 6, result: 'starttls-not-supported' }] })
    const [notice, ...more] = notices()
    assert.equal(more.length, 0)
    assert.equal(notice?.subject, 'TLS connections for here.test fail')
    assert.match(notice.text, /2026-01-14, 7 of 200 TLS connections/)
    assert.match(notice.text, /starttls-not-supported: 6 sessions\. The server did not offer TLS\./)
    await google.tls({ policies: [{ success: 0, failure: 50 }] })
    assert.equal(notices().length, 1, 'once a day')
    const [figures, ...others] = await rowsOf(postrider, postrider.id, 'tls-statistics')
    assert.deepEqual(others, [])
    assert.deepEqual(figures, {
      day: '2026-01-14',
      reporter: 'google.test',
      policy_type: 'no-policy-found',
      policy_domain: 'here.test',
      successful_sessions: 193,
      failed_sessions: 57,
      results: { 'certificate-expired': 51, 'starttls-not-supported': 6 },
    })
    const events = postrider.appliance.deps.store.all(
      raw<{ data: string }>(`select data from events where type = 'domain.tls_failures'`),
    )
    assert.deepEqual(
      events.map(({ data }) => JSON.parse(data)),
      [
        {
          day: '2026-01-14',
          sessions: 200,
          failures: 7,
          results: { 'certificate-expired': 1, 'starttls-not-supported': 6 },
        },
      ],
    )
  })

  test('adds a notice and an event without untrusted text', async () => {
    const stranger = await reporterOf(postrider, 'stranger.test')
    const results = [
      'certificate-expired',
      'constructor',
      '__proto__',
      'Sign in at https://evil.test/ to keep your mail',
    ]
    await stranger.tls({ policies: results.map((result) => ({ failure: 50, result, success: 0 })) })
    const { store } = postrider.appliance.deps
    const { text } = store.one(raw<{ text: string }>('select text from notices'))
    assert.match(text, /certificate-expired: 50 sessions\. The certificate has expired\./)
    assert.match(text, /^other: 150 sessions\. This result is not defined in RFC 8460/m)
    assert.doesNotMatch(text, /evil|constructor|native|object|proto/i)
    const { data } = store.one(raw<{ data: string }>(`select data from events where type = 'domain.tls_failures'`))
    assert.deepEqual((JSON.parse(data) as { results: object }).results, { 'certificate-expired': 50, other: 150 })
    assert.equal(fixOf('constructor'), fixOf('a result of tomorrow'))
  })

  test('adds a notice for a single failure under an enforced policy, even of the TLSA host', async () => {
    for (const policy of [
      { type: 'sts', failure: 1, success: 5 },
      { type: 'tlsa', domain: 'mx.postrider.test', failure: 1, success: 5 },
    ]) {
      await using postrider = await start()
      const google = await reporterOf(postrider, 'google.test')
      const notices = (): number => stored(postrider, 'notices')
      if (policy.type === 'sts') {
        await google.tls({ policies: [policy] })
        assert.equal(notices(), 0, 'nothing is enforced')
        await postrider.commands.run(['domain', 'sts', 'here.test', '--mode', 'enforce', '--force'])
      }
      await google.tls({ policies: [policy] })
      assert.equal(notices(), 1, policy.type)
    }
  })

  test('about other domains only is foreign', async () => {
    const google = await reporterOf(postrider, 'google.test')
    await google.tls({ policies: [{ domain: 'other.test' }, { type: 'tlsa', domain: 'mx.elsewhere.test' }] })
    assert.deepEqual(
      (await reportsOf(postrider, postrider.id)).map(({ reason }) => reason),
      ['foreign'],
    )
  })
})

test('deletes messages of reports after their retention period, even if inboxes keep theirs, and rows and figures later', async () => {
  await using postrider = await start()
  const google = await reporterOf(postrider, 'google.test')
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Desk', address: 'desk@here.test' }))
  assert.equal(made.status, 201)
  await google.dmarc()
  await google.tls()
  const message = mailWith(gzipSync(dmarcReport()), { from: 'noreply@google.test', to: DMARC_TO })
  await deliver(postrider.appliance.smtp[0]!, { to: [DMARC_TO, 'desk@here.test'], message })
  await read(postrider)
  assert.equal(stored(postrider, 'inbound_messages'), 3)
  // The message of a report stays although its reader removes it from the inbox.
  const removed = mailWith(gzipSync(dmarcReport()), { from: 'noreply@google.test', to: DMARC_TO })
  const inbox = await receive(postrider, { to: [DMARC_TO, 'desk@here.test'], message: removed })
  assert.equal((await postrider.api('DELETE', `/inbox-messages/${inbox.id}`)).status, 204)
  assert.equal(stored(postrider, 'inbound_messages'), 4)
  const tidied = async (days: number, left: number): Promise<void> => {
    postrider.clock.leap(days * DAY * 1000)
    postrider.clock.leap(3_600_000)
    await until(() => stored(postrider, 'inbound_messages') === left || undefined, `${left} messages`)
  }
  await tidied(31, 1)
  assert.equal(stored(postrider, 'aggregate_reports'), 4)
  assert.equal(stored(postrider, 'dmarc_figures'), 1)
  await tidied(400, 1)
  await until(() => stored(postrider, 'aggregate_reports') === 0, 'no reports')
  await until(() => stored(postrider, 'dmarc_figures') + stored(postrider, 'tls_figures') === 0, 'no figures')
})

test('erases an address in the messages of reports', async () => {
  await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Desk', address: 'desk@here.test' }))
  const [ann, google] = [await reporterOf(postrider, 'there.test'), await reporterOf(postrider, 'google.test')]
  await ann.send(mailWith(gzipSync(dmarcReport()), { from: 'ann@there.test', to: DMARC_TO }), DMARC_TO)
  await google.dmarc()
  await receive(postrider, { from: 'ann@there.test', to: 'desk@here.test' })
  assert.equal((await postrider.api('DELETE', '/recipients/ann@there.test/forget')).status, 202)
  await until(
    () =>
      postrider.appliance.deps.store.first(raw("select 1 from privacy_requests where status = 'done'")) !== undefined,
    'the erasure',
  )
  const left = postrider.appliance.deps.store.all(
    raw<{ content: string }>('select cast(content as text) as content from inbound_messages order by key'),
  )
  assert.deepEqual(
    left.map(({ content }) => content.length > 0),
    [false, true, false],
  )
  // The figures from them still count.
  assert.partialDeepStrictEqual(await rowsOf(postrider, postrider.id, 'dmarc-sources'), [{ messages: 2 }])
})

test(`accepts ${MOST.ofDomain} reports per domain and day, where unauthenticated ones do not displace others`, async () => {
  const { store } = postrider.appliance.deps
  const now = postrider.clock.now()
  await store.write((tx) =>
    tx.run(
      raw(
        `insert into aggregate_reports (id, user_key, domain_key, kind, reporter, authenticated, outcome, why, records,
           skipped_records, passed, failed, faults, created_at)
         with recursive n (at) as (select 1 union all select at + 1 from n where at < ?)
         select 'forged' || at, user_key, key, 'dmarc', 'r' || at || '.test', 0, 'read', null, 1, 0, 1, 0, '', ?
         from n, domains where name = 'here.test'`,
        [MOST.ofDomain, now - 1000],
      ),
    ),
  )
  const google = await reporterOf(postrider, 'google.test')
  const yahoo = await reporterOf(postrider, 'yahoo.test')
  const count = (): number => stored(postrider, 'aggregate_reports')
  await google.dmarc()
  assert.equal(count(), MOST.ofDomain + 1)
  assert.equal((await reportsOf(postrider, postrider.id))[0]?.outcome, 'read')
  await google.dmarc({}, DMARC_TO, { signedBy: null })
  assert.equal((await reportsOf(postrider, postrider.id))[0]?.reason, 'too_many')
  assert.equal(count(), MOST.ofDomain + 2)
  // One row represents all of them. Their messages are not kept.
  await yahoo.dmarc({}, DMARC_TO, { signedBy: null })
  assert.equal(count(), MOST.ofDomain + 2)
  assert.equal(stored(postrider, 'inbound_messages'), 1)
  assert.equal(stored(postrider, 'notices'), 1)
})

test('rejects a report beyond a limit with one log line without its contents, and reads the next one', async () => {
  const lines: string[] = []
  await using postrider = await startTestAppliance({ domains: ['here.test'], logged: { level: 'info', lines } })
  const google = await reporterOf(postrider, 'google.test')
  const [{ id }] = (await postrider.api('GET', '/domains')).body.data
  await google.dmarc({ id: 'early' })
  lines.length = 0
  const bomb = gzipSync(Buffer.concat([Buffer.from('<feedback>LEAK'), Buffer.alloc(64 * 1024 * 1024, 'a')]))
  await google.send(mailWith(bomb, { from: 'noreply@google.test', to: DMARC_TO }), DMARC_TO)
  const said = lines.filter((line) => line.includes('report') || line.includes('message'))
  assert.equal(said.length, 1, said.join('\n'))
  assert.partialDeepStrictEqual(JSON.parse(said[0] ?? ''), { event: 'aggregate_report_received', result: 'too_large' })
  assert.ok(lines.every((line) => !line.includes('LEAK')))
  await google.dmarc({ id: 'late' })
  assert.deepEqual(
    (await reportsOf(postrider, id)).map(({ messages, reason }) => [reason, messages]),
    [
      [null, 1],
      ['too_large', null],
      [null, 1],
    ],
  )
  assert.partialDeepStrictEqual(await rowsOf(postrider, id, 'dmarc-sources'), [{ messages: 2 }])
})
