// Segments: the contacts that their rules select (AU60 to AU64), the recipients of a campaign to one (AU66), and the
// rejected requests (AU68, AU107).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const DAY = 86_400_000
const compareTexts = (one: string, other: string): number => (one < other ? -1 : 1)
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
const store = () => postrider.appliance.deps.store

const attributes = async (path: string) => (await postrider.api('GET', path)).body.data.attributes
const add = (audience: string, rules: unknown, name = 'Some') =>
  postrider.api('POST', `/audiences/${audience}/segments`, { data: { type: 'segments', attributes: { name, rules } } })
const segmentOf = async (audience: string, rules: unknown): Promise<string> => {
  const { body, status } = await add(audience, rules)
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}

/** The local parts of the contacts that match rules, as the list of contacts has them. */
async function matching(audience: string, rules: unknown): Promise<string[]> {
  const id = await segmentOf(audience, rules)
  const { body, status } = await postrider.api('GET', `/audiences/${audience}/contacts?filter[segment]=${id}`)
  assert.equal(status, 200, JSON.stringify(body))
  const names = body.data.map((each: { attributes: { email: string } }) => each.attributes.email.split('@')[0])
  // The count reads the contacts in another way, and must select the same.
  const { matching: count } = await attributes(`/segments/${id}/count`)
  assert.equal(count, names.length)
  return names.toSorted(compareTexts)
}

describe('rules about fields compare texts without case, and other types never match (AU61)', () => {
  const audience = ofFile(async () => {
    const id = await kit.audience(domain)
    await kit.fill(id, [
      { email: 'ann@there.test', name: 'Ann', custom_fields: { city: 'Ghent', points: 42, joined: '2026-01-31' } },
      {
        email: 'ben@there.test',
        name: 'BEN',
        custom_fields: { city: 'GHENT', points: '7.5', joined: '2026-02-01T10:00:00Z' },
      },
      { email: 'eve@other.test', custom_fields: { city: 'Zu\u0308rich', points: 'many', vip: true, joined: 'soon' } },
      { email: 'zoe@other.test', name: '', custom_fields: { city: ['Ghent'], points: null, 'a.b $[0]': 'x%_' } },
      { email: 'kim@sub.other.test' },
    ])
    return { id }
  })
  for (const [rule, names] of [
    [{ field: 'city', op: 'is', value: 'ghent' }, ['ann', 'ben']],
    [{ field: 'city', op: 'is', value: 'Z\u00dcRICH' }, ['eve']],
    [{ field: 'city', op: 'is_not', value: 'Ghent' }, ['eve', 'kim', 'zoe']],
    [{ field: 'city', op: 'contains', value: 'EN' }, ['ann', 'ben']],
    [{ field: 'city', op: 'starts_with', value: 'z\u00fc' }, ['eve']],
    [{ field: 'city', op: 'ends_with', value: 'RICH' }, ['eve']],
    [{ field: 'city', op: 'in', value: ['gHENT', 'z\u00fcrich'] }, ['ann', 'ben', 'eve']],
    [{ field: 'city', op: 'empty' }, ['kim', 'zoe']],
    [{ field: 'name', op: 'not_empty' }, ['ann', 'ben']],
    [{ field: 'name', op: 'is', value: 'ben' }, ['ben']],
    [{ field: 'vip', op: 'is', value: 'TRUE' }, []],
    [{ field: 'vip', op: 'not_empty' }, ['eve']],
    [{ field: 'vip', op: 'greater', value: 0 }, []],
    [{ field: 'points', op: 'is', value: '42' }, []],
    [{ field: 'points', op: 'in', value: ['42', '7.5'] }, ['ben']],
    [{ field: 'points', op: 'starts_with', value: '4' }, []],
    [{ field: 'points', op: 'is_not', value: '42' }, ['ann', 'ben', 'eve', 'kim', 'zoe']],
    [{ field: 'points', op: 'not_empty' }, ['ann', 'ben', 'eve']],
    [{ field: 'points', op: 'greater', value: 7 }, ['ann', 'ben']],
    [{ field: 'points', op: 'less', value: 42 }, ['ben']],
    [{ field: 'joined', op: 'before', value: '2026-02-01' }, ['ann']],
    [{ field: 'joined', op: 'after', value: '2026-01-31' }, ['ben']],
    [{ field: 'email', op: 'starts_with', value: 'ANN@' }, ['ann']],
    [{ field: 'email_domain', op: 'is', value: 'other.test' }, ['eve', 'zoe']],
    [{ field: 'a.b $[0]', op: 'is', value: 'x%_' }, ['zoe']],
    [{ date: 'created_at', op: 'within_days', value: 1 }, ['ann', 'ben', 'eve', 'kim', 'zoe']],
    [{ date: 'created_at', op: 'older_than_days', value: 1 }, []],
    [{ date: 'created_at', op: 'before', value: '2000-01-01' }, []],
    [{ date: 'created_at', op: 'after', value: '2000-01-01' }, ['ann', 'ben', 'eve', 'kim', 'zoe']],
  ] as const)
    test(JSON.stringify(rule), async () => assert.deepEqual(await matching(audience.id, [rule]), names))

  test('all conditions must be met (AU60)', async () => {
    const rules = [
      { field: 'city', op: 'is', value: 'ghent' },
      { field: 'points', op: 'greater', value: 10 },
    ]
    assert.deepEqual(await matching(audience.id, rules), ['ann'])
  })
})

/** The status and the first error of a request. */
// oxlint-disable-next-line typescript/no-explicit-any
const refusal = ({ body, status }: { body: any; status: number }) => [
  status,
  body.errors?.[0]?.code,
  body.errors?.[0]?.source?.pointer,
]

const RULES = '/data/attributes/rules'
const GOOD = { field: 'city', op: 'is', value: 'Ghent' }

describe('rules that are not valid are rejected with a pointer to the mistake (AU60, AU107)', () => {
  const audience = ofFile(async () => ({ id: await kit.audience(domain) }))
  for (const [name, rules, pointer] of [
    ['no list', { match: 'all' }, RULES],
    ['an empty list', [], RULES],
    ['51 conditions', Array.from({ length: 51 }, () => GOOD), RULES],
    [
      'more than 32 KB',
      Array.from({ length: 50 }, () => ({
        ...GOOD,
        op: 'in',
        value: Array.from({ length: 10 }, () => 'x'.repeat(400)),
      })),
      RULES,
    ],
    ['a text', ['city'], `${RULES}/0`],
    ['null', [GOOD, null], `${RULES}/1`],
    ['an object without a subject', [{ op: 'is', value: 'x' }], `${RULES}/0`],
    ['an unknown member', [{ ...GOOD, sql: '1' }], `${RULES}/0/sql`],
    ['a second subject', [{ date: 'created_at', op: 'within_days', value: 1, field: 'city' }], `${RULES}/0/field`],
    ['an unknown operator', [{ ...GOOD, op: 'regexp' }], `${RULES}/0/op`],
    ['a number in place of a text', [{ ...GOOD, value: 1 }], `${RULES}/0/value`],
    ['a text in place of a number', [{ field: 'points', op: 'less', value: '1' }], `${RULES}/0/value`],
    ['no value', [{ field: 'city', op: 'is' }], `${RULES}/0`],
    ['a value for "empty"', [{ field: 'city', op: 'empty', value: '' }], `${RULES}/0/value`],
    ['501 values', [{ field: 'city', op: 'in', value: Array.from({ length: 501 }, () => 'x') }], `${RULES}/0/value`],
    ['a number among values', [{ field: 'city', op: 'in', value: ['x', 1] }], `${RULES}/0/value/1`],
    ['an impossible date', [{ date: 'created_at', op: 'before', value: '2026-02-30' }], `${RULES}/0/value`],
    ['too many days', [{ date: 'created_at', op: 'within_days', value: 3651 }], `${RULES}/0/value`],
    ['half a day', [{ event: 'opened', op: 'did', days: 0.5 }], `${RULES}/0/days`],
    ['days and a campaign', [{ event: 'opened', op: 'did', days: 1, campaign: 'x' }], `${RULES}/0/days`],
    ['an unknown event', [{ event: 'unsubscribed', op: 'did' }], `${RULES}/0/event`],
    ['a quotation mark in a field', [{ field: 'a" or 1', op: 'is', value: 'x' }], `${RULES}/0/field`],
    ['a lone surrogate', [{ ...GOOD, value: '\ud800' }], `${RULES}/0/value`],
    ['a control character', [{ ...GOOD, value: 'a\0b' }], `${RULES}/0/value`],
  ] as const)
    test(name, async () => {
      const [status, , at] = refusal(await add(audience.id, rules))
      assert.deepEqual([status, at], [422, pointer])
      // Rules that are only counted are checked alike.
      const asked = { data: { type: 'segment-counts', attributes: { rules } } }
      assert.equal((await postrider.api('POST', `/audiences/${audience.id}/segment-counts`, asked)).status, 422)
    })
})

test('texts of SQL in names and values are compared as texts (AU64)', async () => {
  const audience = await kit.audience(domain)
  const hostile = "'); drop table contacts; --"
  await kit.fill(audience, [
    { email: 'ann@there.test', custom_fields: { [hostile]: hostile, '$.x': '1', '[0]': '2' } },
    'ben@there.test',
  ])
  for (const rule of [
    { field: hostile, op: 'is', value: hostile },
    { field: hostile, op: 'in', value: [hostile, '?'] },
    { field: '$.x', op: 'is', value: '1' },
    { field: '[0]', op: 'is', value: '2' },
  ])
    assert.deepEqual(await matching(audience, [rule]), ['ann'], JSON.stringify(rule))
  assert.deepEqual(await matching(audience, [{ field: 'email', op: 'is', value: "' or ''='" }]), [])
})

test('rules count without being stored, and unsubscribed and suppressed contacts match but do not count (AU64)', async () => {
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['one@there.test', 'two@there.test', 'out@there.test', 'not@other.test'])
  const [out] = (await postrider.api('GET', `/audiences/${audience}/contacts?filter[email]=out@there.test`)).body.data
  await postrider.api('PATCH', `/contacts/${out.id}`, {
    data: { type: 'contacts', id: out.id, attributes: { status: 'unsubscribed' } },
  })
  const rules = [{ field: 'email_domain', op: 'is', value: 'there.test' }]
  const { body, status } = await postrider.api('POST', `/audiences/${audience}/segment-counts`, {
    data: { type: 'segment-counts', attributes: { rules } },
  })
  assert.equal(status, 200)
  assert.partialDeepStrictEqual(body.data.attributes, { matching: 3, count: 2 })
  assert.deepEqual((await postrider.api('GET', `/audiences/${audience}/segments`)).body.data, [])
})

test('segments of other accounts and other audiences do not exist (AU68, AU110)', async () => {
  const [audience, elsewhere] = [await kit.audience(domain), await kit.audience(domain)]
  const id = await segmentOf(audience, [GOOD])
  const other = (method: string, path: string, body?: object) => postrider.asOther(method, path, body)
  const document = { data: { type: 'segments', id, attributes: { name: 'Mine' } } }
  for (const [method, path, body] of [
    ['GET', `/segments/${id}`],
    ['GET', `/segments/${id}/count`],
    ['PATCH', `/segments/${id}`, document],
    ['DELETE', `/segments/${id}`],
    ['GET', `/audiences/${audience}/segments`],
  ] as const)
    assert.equal((await other(method, path, body)).status, 404, `${method} ${path}`)
  assert.equal((await postrider.api('GET', `/audiences/${elsewhere}/contacts?filter[segment]=${id}`)).status, 404)
  const draft = await kit.draft(elsewhere)
  const wrong = {
    data: { type: 'campaigns', id: draft, relationships: { segment: { data: { type: 'segments', id } } } },
  }
  assert.deepEqual(refusal(await postrider.api('PATCH', `/campaigns/${draft}`, wrong)), [
    404,
    'not_found',
    '/data/relationships/segment',
  ])
  const campaign = await kit.draft(audience)
  const rules = [GOOD, { event: 'opened', op: 'did', campaign }]
  assert.deepEqual(refusal(await add(elsewhere, rules)), [404, 'not_found', `${RULES}/1/campaign`])
})

test('an audience has at most 100 segments', async () => {
  const audience = await kit.audience(domain)
  for (let n = 0; n < 100; n++) await segmentOf(audience, [GOOD])
  assert.deepEqual(refusal(await add(audience, [GOOD])), [422, 'limit_reached', '/data'])
})

/** Sets or removes the segment of a campaign. */
const assign = (campaign: string, segment: string | null) =>
  postrider.api('PATCH', `/campaigns/${campaign}`, {
    data: {
      type: 'campaigns',
      id: campaign,
      relationships: { segment: { data: segment && { type: 'segments', id: segment } } },
    },
  })

describe('a campaign to a segment', () => {
  const sentTo = () => exchanger.heard.map(({ to }) => String(to[0]?.split('@')[0])).toSorted(compareTexts)

  test('goes to those who match when it starts, whatever changes later (AU66)', async () => {
    exchanger.heard.length = 0
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? '450 4.2.0 Later' : undefined) }
    const audience = await kit.audience(domain)
    await kit.fill(audience, [
      { email: 'in@there.test', custom_fields: { city: 'Ghent' } },
      { email: 'gone@there.test', custom_fields: { city: 'Ghent' } },
      { email: 'out@there.test', custom_fields: { city: 'Lyon' } },
    ])
    const segment = await segmentOf(audience, [GOOD])
    const id = await kit.draft(audience)
    assert.equal((await assign(id, segment)).status, 200)
    assert.partialDeepStrictEqual(await attributes(`/campaigns/${id}/reach`), { contacts: 2, recipients: 2 })
    assert.equal((await kit.patch(id, { status: 'scheduled' })).status, 200)
    const deferred = raw<{ count: number }>(
      `select count(*) as count from deliveries where status = 'queued' and attempts = 1`,
    )
    await until(() => store().one(deferred).count === 2, 'the deferrals')
    const all = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
    for (const { attributes: of, id: key } of all)
      await postrider.api('PATCH', `/contacts/${key}`, {
        data: {
          type: 'contacts',
          id: key,
          attributes: of.email.startsWith('gone')
            ? { status: 'unsubscribed' }
            : { custom_fields: { city: of.email.startsWith('in') ? 'Lyon' : 'Ghent' } },
        },
      })
    exchanger.script = {}
    postrider.clock.advance(DAY / 24)
    await until(async () => (await kit.show(id))['status'] === 'sent', 'the end of the campaign')
    assert.deepEqual(sentTo(), ['in'])
  })

  test('is not editable and its segment cannot be deleted before the start (AU66)', async () => {
    const audience = await kit.audience(domain)
    const segment = await segmentOf(audience, [GOOD])
    const id = await kit.draft(audience)
    await assign(id, segment)
    assert.deepEqual(refusal(await postrider.api('DELETE', `/segments/${segment}`)).slice(0, 2), [
      409,
      'segment_in_use',
    ])
    assert.equal((await assign(id, null)).body.data.relationships.segment.data, null)
    assert.equal((await postrider.api('DELETE', `/segments/${segment}`)).status, 204)
    assert.equal((await assign(id, segment)).status, 404)
  })

  test('reaches active readers first, each once, and stores its recipients until it has ended', async () => {
    exchanger.heard.length = 0
    const audience = await kit.audience(domain)
    await kit.fill(
      audience,
      Array.from({ length: 250 }, (_, n) => ({ email: `r${n}@there.test`, custom_fields: { n } })),
    )
    await store().write((tx) =>
      tx.run(
        raw(
          `insert into readers (audience_key, contact_key, seen_at) select audience_key, key, ? from contacts
           where email in ('r200@there.test', 'r5@there.test') and audience_key = (select max(key) from audiences)`,
          [postrider.clock.now()],
        ),
      ),
    )
    const id = await kit.draft(audience)
    await assign(id, await segmentOf(audience, [{ field: 'n', op: 'greater', value: 99 }]))
    assert.equal(await kit.send(id), 'sent')
    assert.deepEqual(sentTo(), Array.from({ length: 150 }, (_, n) => `r${n + 100}`).toSorted(compareTexts))
    const [first] = store().all(
      raw<{ to: string }>(
        'select "to" from outbound_emails where campaign_key = (select max(key) from campaigns) order by key limit 1',
      ),
    )
    assert.equal(first?.to, 'r200@there.test')
    postrider.clock.advance(DAY / 24 + 60_000)
    await until(
      () => store().first(raw('select 1 from segment_matches')) === undefined,
      'the end of the stored recipients',
    )
  })
})

describe('rules about emails (AU62, AU63)', () => {
  const sent = ofFile(async () => {
    exchanger.script = { answer: (line) => (/^RCPT.*<bad/.test(line) ? '550 5.1.1 No such user' : undefined) }
    const audience = await kit.audience(domain)
    await kit.fill(audience, ['open@there.test', 'click@there.test', 'quiet@there.test', 'bad@there.test'])
    const campaign = await kit.draft(audience)
    assert.equal(await kit.send(campaign), 'sent')
    const untracked = await kit.draft(audience)
    assert.equal(await kit.send(untracked), 'sent')
    await kit.fill(audience, ['new@there.test'])
    await store().write((tx) => {
      const now = postrider.clock.now()
      const of = 'campaign_key = (select key from campaigns where id = ?)'
      tx.run(raw(`update campaigns set opens_tracked = 1, clicks_tracked = 1 where id = ?`, [campaign]))
      tx.run(raw(`update outbound_emails set opens_tracked = 1, clicks_tracked = 1 where ${of}`, [campaign]))
      tx.run(
        raw(
          `update outbound_emails set first_opened_at = ? where ${of} and "to" in ('open@there.test', 'click@there.test')`,
          [now, campaign],
        ),
      )
      tx.run(
        raw(`update outbound_emails set first_clicked_at = ? where ${of} and "to" = 'click@there.test'`, [
          now,
          campaign,
        ]),
      )
    })
    return { audience, campaign, untracked }
  })
  const everybody = ['bad', 'click', 'new', 'open', 'quiet']
  for (const [name, rule, names] of [
    ['sent', { event: 'sent', op: 'did' }, ['click', 'open', 'quiet']],
    ['never sent', { event: 'sent', op: 'did_not' }, ['bad', 'new']],
    ['delivered', { event: 'delivered', op: 'did', days: 1 }, ['click', 'open', 'quiet']],
    ['bounced', { event: 'bounced', op: 'did', days: 1 }, ['bad']],
    ['opened', { event: 'opened', op: 'did' }, ['click', 'open']],
    ['clicked', { event: 'clicked', op: 'did', days: 1 }, ['click']],
    ['not opened: only those who could', { event: 'opened', op: 'did_not' }, ['quiet']],
    ['not clicked: only those who could', { event: 'clicked', op: 'did_not', days: 1 }, ['open', 'quiet']],
  ] as const)
    test(name, async () => assert.deepEqual(await matching(sent.audience, [rule]), names))

  test('of one campaign', async () => {
    const { audience, campaign, untracked } = sent
    assert.deepEqual(await matching(audience, [{ event: 'opened', op: 'did', campaign }]), ['click', 'open'])
    assert.deepEqual(await matching(audience, [{ event: 'opened', op: 'did', campaign: untracked }]), [])
    // Nobody can have opened an email that was not tracked, so nobody counts as one who did not.
    assert.deepEqual(await matching(audience, [{ event: 'opened', op: 'did_not', campaign: untracked }]), [])
    assert.deepEqual(await matching(audience, [{ event: 'delivered', op: 'did_not', campaign }]), ['bad', 'new'])
  })

  test('a count reads each contact once, and the emails of a contact by an index (AU65)', async () => {
    const rules = [
      { field: 'email_domain', op: 'is', value: 'there.test' },
      { event: 'opened', op: 'did_not', days: 30 },
      { event: 'delivered', op: 'did', days: 30 },
    ]
    const statements: { sql: string; read: number }[] = []
    store().watch((sql, read) => {
      if (/\bas fits\b/.test(sql)) statements.push({ sql, read })
    })
    const asked = { data: { type: 'segment-counts', attributes: { rules } } }
    const { body, status } = await postrider.api('POST', `/audiences/${sent.audience}/segment-counts`, asked)
    store().watch(() => {})
    assert.equal(status, 200, JSON.stringify(body))
    assert.equal(body.data.attributes.matching, 1)
    assert.ok(statements.length > 0)
    // A slice that ended early returns the contact at which the next one starts.
    const read = statements.reduce((sum, each) => sum + each.read, 0)
    assert.ok(read <= everybody.length, String(read))
    for (const { sql } of statements) {
      const marks = Array<null>(sql.split('?').length - 1).fill(null)
      const plan = store().all(raw<{ detail: string }>(`explain query plan ${sql}`, marks))
      const scans = plan.map(({ detail }) => detail).filter((detail) => /^SCAN (?:e|contacts|s)\b/.test(detail))
      assert.deepEqual(scans, [])
    }
  })

  test('of the last days', async () => {
    postrider.clock.leap(3 * DAY)
    assert.deepEqual(await matching(sent.audience, [{ event: 'opened', op: 'did', days: 2 }]), [])
    assert.deepEqual(await matching(sent.audience, [{ event: 'sent', op: 'did_not', days: 2 }]), everybody)
    assert.deepEqual(await matching(sent.audience, [{ event: 'opened', op: 'did', days: 4 }]), ['click', 'open'])
  })
})
