// Campaigns over the API (specification "Campaign", "Campaigns"; D3, D12, D13, D37, D43, D50): create, edit as a draft,
// change the status as the table allows, count, send webhooks, delete.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { CAMPAIGN_STATUSES, type CampaignStatus } from '../../src/store/states/campaign.ts'
import { raw } from '../../src/store/query.ts'
import { findMails } from '../../src/delivery/queue/operator.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { testReceiver } from '../kit/receiver.ts'
import { until } from '../kit/until.ts'
import { makeHook, type Hook } from '../webhooks/hooks.ts'

let audience: string
let hook: Hook
const kit = campaignKit(() => postrider)
const patch: typeof kit.patch = (...given) => kit.patch(...given)
const show = (id: string) => kit.show(id)
/** Waits for a campaign with this status. */
const shownAs = (id: string, status: CampaignStatus) =>
  until(async () => {
    const campaign = await show(id)
    return campaign['status'] === status ? campaign : undefined
  }, status)
const sorted = (words: string[]): string[] => words.toSorted((a, b) => (a < b ? -1 : 1))

const exchanger = testExchanger()
const receiver = testReceiver()
const postrider = ofFile(() => startTestAppliance({ exchanger, receiver, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('news.here.test'))

setUp(async () => {
  audience = await kit.audience(domain)
  hook = await makeHook(postrider, receiver, domain, [
    'campaign.sending',
    'campaign.sent',
    'campaign.paused',
    'campaign.failed',
  ])
})

const DAY = 86_400_000
const iso = (at: number): string => new Date(at).toISOString()
const to = (id: string) => ({ relationships: { audience: { data: { type: 'audiences', id } } } })
const WHOLE = { name: 'Spring', subject: 'Hello', body_html: '<p>Hello</p>' }
const make = (attributes: Record<string, unknown>, more: Record<string, unknown> = to(audience)) =>
  postrider.api('POST', '/campaigns', document('campaigns', attributes, more))
const faults = (body: { errors: { code: string; source?: { pointer?: string } }[] }): string[] =>
  body.errors.map(({ code, source }) => `${code} ${source?.pointer}`)
/** Sets the status of a campaign with SQL. */
const put = (id: string, status: CampaignStatus) =>
  postrider.appliance.deps.store.write((tx) => {
    // Far in the future, so that it does not start during the test.
    const at = postrider.clock.now() + 300 * DAY
    tx.run(raw('update campaigns set status = ?, scheduled_at = ? where id = ?', [status, at, id]))
  })
const domainFlags = (attributes: Record<string, boolean>) =>
  postrider.api('PATCH', `/domains/${domain.id}`, document('domains', attributes, { id: domain.id }))

test('creates a draft with the required and with all attributes', async () => {
  const { body, headers, status } = await make(WHOLE)
  assert.equal(status, 201)
  assert.equal(headers.get('location'), body.data.links.self)
  const now = iso(postrider.clock.now())
  assert.deepEqual(body.data.attributes, {
    ...WHOLE,
    body_text: null,
    from_address: null,
    reply_to: null,
    test_mode: false,
    require_unsubscribe_link: false,
    test_recipient_email: null,
    scheduled_at: null,
    status: 'draft',
    track_opens: null,
    track_clicks: null,
    recipients: null,
    concluded: 0,
    failure: null,
    started_at: null,
    finished_at: null,
    created_at: now,
    updated_at: now,
  })
  assert.deepEqual(body.data.relationships.audience.data, { type: 'audiences', id: audience })
  const given = {
    ...WHOLE,
    body_text: 'Hello\n{{name}}',
    from_address: '"News" <news@here.test>',
    reply_to: ['a@news.here.test', 'b@here.test', 'c@deep.news.here.test'],
    test_mode: true,
    require_unsubscribe_link: true,
    test_recipient_email: 'me@there.test',
    track_opens: false,
    track_clicks: false,
  }
  const full = (await make(given)).body.data.attributes
  for (const [name, value] of Object.entries(given)) assert.deepEqual(full[name], value, name)
  const single = (await make({ ...WHOLE, reply_to: 'a@here.test' })).body.data.attributes
  assert.deepEqual(single.reply_to, ['a@here.test'])
})

test('rejects invalid attributes of a campaign', async () => {
  const eleven = Array.from({ length: 11 }, (_, n) => `a${n}@here.test`)
  const cases: [Record<string, unknown>, string[]][] = [
    [{ name: undefined, subject: undefined, body_html: undefined }, Array(3).fill('required /data/attributes')],
    [{ name: '' }, ['invalid /data/attributes/name']],
    [{ subject: 'a\rb' }, ['invalid /data/attributes/subject']],
    [{ subject: 'a\nb' }, ['invalid /data/attributes/subject']],
    [{ subject: 'a\r\nBcc: x@y.test' }, ['invalid /data/attributes/subject']],
    [{ subject: null }, ['invalid /data/attributes/subject']],
    [{ subject: 'x'.repeat(999) }, ['too_long /data/attributes/subject']],
    [{ body_html: null }, ['invalid /data/attributes/body_html']],
    [{ body_text: 7 }, ['invalid /data/attributes/body_text']],
    [{ from_address: 'a@other.test' }, ['address_outside_domain /data/attributes/from_address']],
    [{ from_address: 'a@xnews.here.test' }, ['address_outside_domain /data/attributes/from_address']],
    [{ from_address: 'a@sister.here.test' }, ['address_outside_domain /data/attributes/from_address']],
    [{ from_address: 'none' }, ['invalid /data/attributes/from_address']],
    [{ from_address: 'a@here.test\r\n' }, ['invalid /data/attributes/from_address']],
    [{ reply_to: 'a@other.test' }, ['address_outside_domain /data/attributes/reply_to']],
    [{ reply_to: ['a@here.test', 'b@other.test'] }, ['address_outside_domain /data/attributes/reply_to/1']],
    [{ reply_to: ['a@here.test', 'none'] }, ['invalid /data/attributes/reply_to/1']],
    [{ reply_to: eleven }, ['too_long /data/attributes/reply_to']],
    [{ test_mode: null }, ['invalid /data/attributes/test_mode']],
    [{ test_mode: 'true' }, ['invalid /data/attributes/test_mode']],
    [{ test_recipient_email: 'none' }, ['invalid /data/attributes/test_recipient_email']],
    [{ track_opens: true }, ['tracking_disabled /data/attributes/track_opens']],
    [
      { track_opens: true, track_clicks: true, from_address: 'a@other.test' },
      [
        'address_outside_domain /data/attributes/from_address',
        'tracking_disabled /data/attributes/track_opens',
        'tracking_disabled /data/attributes/track_clicks',
      ],
    ],
    [{ track_clicks: 'no' }, ['invalid /data/attributes/track_clicks']],
    [{ scheduled_at: null }, ['immutable /data/attributes/scheduled_at']],
    [{ status: 'draft' }, ['immutable /data/attributes/status']],
    [{ recipients: 7 }, ['immutable /data/attributes/recipients']],
    [{ nmae: 'x' }, ['invalid /data/attributes/nmae']],
  ]
  for (const [attributes, expected] of cases) {
    const answer = await make({ ...WHOLE, ...attributes })
    const shown = JSON.stringify(attributes).slice(0, 200)
    assert.equal(answer.status, 422, shown)
    assert.deepEqual(faults(answer.body), expected, shown)
  }
  // A request that carries no mail is read to a megabyte (D74).
  assert.equal((await make({ ...WHOLE, body_html: 'x'.repeat(1024 * 1024) })).status, 413)
  const missing = await make(WHOLE, {})
  assert.deepEqual([missing.status, faults(missing.body)], [422, ['required /data']])
  const theirs = await postrider.asOther('POST', '/campaigns', document('campaigns', WHOLE, to(audience)))
  const unknown = await make(WHOLE, to('none'))
  for (const answer of [theirs, unknown, await make({}, to('none'))])
    assert.deepEqual([answer.status, faults(answer.body)], [404, ['not_found /data/relationships/audience']])
  assert.equal((await make(WHOLE, { ...to(audience), id: 'mine' })).status, 403)
  const wrong = { relationships: { audience: { data: { type: 'domains', id: domain.id } } } }
  assert.equal((await make(WHOLE, wrong)).status, 409)
})

test('tracking: true requires the domain setting at the time of the request', async () => {
  const id = await kit.draft(audience)
  assert.deepEqual(faults((await patch(id, { track_clicks: true })).body), [
    'tracking_disabled /data/attributes/track_clicks',
  ])
  await domainFlags({ click_tracking_enabled: true })
  assert.equal((await patch(id, { track_clicks: true })).body.data.attributes.track_clicks, true)
  assert.equal((await patch(id, { track_clicks: null })).body.data.attributes.track_clicks, null)
  assert.deepEqual(faults((await patch(id, { track_opens: true })).body), [
    'tracking_disabled /data/attributes/track_opens',
  ])
  await domainFlags({ click_tracking_enabled: false })
})

test('PATCH keeps attributes that it does not name, and an invalid one has no effect', async () => {
  const id = await kit.draft(audience, { body_text: 'Text', reply_to: ['a@here.test'] })
  const changed = (await patch(id, { subject: 'New', from_address: 'x@here.test' })).body.data.attributes
  assert.deepEqual([changed.subject, changed.body_text, changed.reply_to], ['New', 'Text', ['a@here.test']])
  for (const attributes of [
    { subject: 'Newer', from_address: 'x@other.test' },
    { subject: 'Newer', status: 'sent' },
    { subject: 'Newer', status: 'draft' },
    { subject: 'Newer', scheduled_at: 'tomorrow' },
  ])
    assert.equal((await patch(id, attributes)).status, 422)
  assert.equal((await show(id))['subject'], 'New')
  assert.deepEqual((await patch(id, { reply_to: [], from_address: null })).body.data.attributes.reply_to, null)
  assert.equal((await patch(id, {})).status, 200)
  assert.equal((await postrider.api('PATCH', `/campaigns/${id}`, document('campaigns', {}, { id: 'x' }))).status, 409)
  assert.equal((await postrider.api('PATCH', `/campaigns/${id}`, document('contacts', {}, { id }))).status, 409)
  const moved = await postrider.api('PATCH', `/campaigns/${id}`, document('campaigns', {}, { id, ...to(domain.id) }))
  assert.equal(moved.status, 403)
})

test('scheduled_at accepts a timestamp with any offset, however far ahead', async () => {
  const id = await kit.draft(audience)
  const take = async (scheduled_at: unknown) => {
    const { body, status } = await patch(id, { scheduled_at })
    return status === 200 ? body.data.attributes.scheduled_at : `${status} ${faults(body).join(' ')}`
  }
  const now = postrider.clock.now()
  assert.equal(await take('2026-02-01T09:00:00Z'), '2026-02-01T09:00:00.000Z')
  assert.equal(await take('2026-02-01T09:00:00.5+02:00'), '2026-02-01T07:00:00.500Z')
  assert.equal(await take('2026-02-01T00:30:00-11:30'), '2026-02-01T12:00:00.000Z')
  assert.equal(await take('2020-02-29T00:00:00Z'), '2020-02-29T00:00:00.000Z')
  assert.equal(await take(iso(now + 3650 * DAY)), iso(now + 3650 * DAY))
  assert.equal(await take('9999-12-31T23:59:59Z'), '9999-12-31T23:59:59.000Z')
  assert.equal(await take(null), null)
  for (const garbage of [
    'tomorrow',
    '',
    '2026-02-30T00:00:00Z',
    '2026-02-01T25:00:00Z',
    '2026-02-01T00:00:00',
    '2026-02-01',
    '2026-02-01T00:00:00+25:00',
    1_770_000_000,
    true,
    {},
  ])
    assert.equal(await take(garbage), '422 invalid /data/attributes/scheduled_at', JSON.stringify(garbage))
})

test('starts at once if scheduled_at is null or past, otherwise when it is due', async () => {
  const now = postrider.clock.now()
  for (const [scheduled_at, at] of [
    [null, now],
    [iso(now - DAY), now],
    [iso(now + 1000), now + 1000],
  ] as const) {
    const list = await kit.audience(domain, 'Empty')
    const id = await kit.draft(list)
    const { body } = await patch(id, { status: 'scheduled', scheduled_at })
    assert.deepEqual([body.data.attributes.status, body.data.attributes.scheduled_at], ['scheduled', iso(at)])
    if (at > now) {
      assert.equal((await show(id))['status'], 'scheduled')
      postrider.clock.advance(1000)
    }
    const sent = await shownAs(id, 'sent')
    assert.equal(sent['recipients'], 0)
    assert.equal(sent['started_at'], iso(at))
    assert.equal(sent['finished_at'], iso(at))
  }
})

test('rejects changes of every attribute in every status except draft', async () => {
  const edits = {
    name: 'x',
    subject: 'x',
    body_html: 'x',
    body_text: 'x',
    from_address: 'x@here.test',
    reply_to: ['x@here.test'],
    test_mode: true,
    test_recipient_email: 'x@there.test',
    scheduled_at: null,
    track_opens: null,
    track_clicks: false,
  }
  for (const status of CAMPAIGN_STATUSES) {
    const id = await kit.draft(await kit.audience(domain))
    await put(id, status)
    const before = await show(id)
    for (const [name, value] of Object.entries(edits)) {
      const answer = await patch(id, { [name]: value })
      if (status === 'draft') assert.equal(answer.status, 200, name)
      else {
        assert.equal(answer.status, 422, `${status} ${name}`)
        assert.deepEqual(faults(answer.body), [`not_editable /data/attributes/${name}`], status)
      }
    }
    if (status !== 'draft') {
      const all = await patch(id, edits)
      assert.deepEqual(
        faults(all.body),
        Object.keys(edits).map((name) => `not_editable /data/attributes/${name}`),
      )
      assert.deepEqual(await show(id), before)
    }
  }
})

// Specification "Campaign", the rows that PATCH status moves.
const TABLE: Record<string, readonly string[]> = {
  draft: ['scheduled', 'cancelled'],
  scheduled: ['cancelled'],
  sending: ['paused'],
  paused: ['sending', 'cancelled'],
}

test('PATCH allows exactly the status changes of the specification', async () => {
  for (const from of CAMPAIGN_STATUSES)
    for (const wanted of CAMPAIGN_STATUSES) {
      const list = await kit.audience(domain)
      const id = await kit.draft(list)
      if (from === 'draft' && wanted === 'scheduled')
        await patch(id, { scheduled_at: iso(postrider.clock.now() + DAY) })
      await put(id, from)
      const { body, status } = await patch(id, { status: wanted })
      const pair = `${from} -> ${wanted}`
      if (TABLE[from]?.includes(wanted)) {
        assert.equal(status, 200, pair)
        assert.equal(body.data.attributes.status, wanted, pair)
        assert.equal(body.data.attributes.finished_at !== null, wanted === 'cancelled', pair)
      } else {
        assert.deepEqual([status, faults(body)], [422, ['transition_not_allowed /data/attributes/status']], pair)
        // Only the runner ends a sending campaign.
        if (from !== 'sending') assert.equal((await show(id))['status'], from, pair)
      }
    }
  const id = await kit.draft(audience)
  for (const status of ['Scheduled', 'deleted', '', null, 7, ['scheduled']])
    assert.deepEqual(faults((await patch(id, { status })).body), ['invalid /data/attributes/status'])
})

test('a campaign that requires its own unsubscribe link does not start without one (D61)', async () => {
  const list = await kit.audience(domain)
  const id = await kit.draft(list, {
    require_unsubscribe_link: true,
    body_html: '<!-- {{unsubscribe_url}} --><p>Hi</p>',
  })
  const refused = await patch(id, { status: 'scheduled' })
  assert.deepEqual([refused.status, faults(refused.body)], [422, ['required /data/attributes/status']])
  assert.match(refused.body.errors[0].detail, /\{\{unsubscribe_url\}\}.*body_html/)
  assert.equal((await kit.show(id))['status'], 'draft')
  assert.equal((await patch(id, { body_html: '<a href="{{unsubscribe_url}}">Leave</a>' })).status, 200)
  assert.equal(await kit.send(id), 'sent')
  const free = await kit.draft(list, { require_unsubscribe_link: true })
  const both = await patch(free, { require_unsubscribe_link: false, status: 'scheduled' })
  assert.equal(both.status, 200)
})

test('a test is sent only to its recipient, and requires one', async () => {
  const list = await kit.audience(domain)
  await kit.fill(list, ['real@there.test'])
  const id = await kit.draft(list, {
    test_mode: true,
    subject: 'Hello {{name}}',
    body_html: '<p>{{email}} [{{unsubscribe_url}}] [{{unsubscribe_mailto}}]</p>',
  })
  const refused = await patch(id, { status: 'scheduled' })
  assert.deepEqual([refused.status, faults(refused.body)], [422, ['required /data/attributes/status']])
  assert.equal((await patch(id, { test_recipient_email: '"Me" <Me@There.test>' })).status, 200)
  assert.equal(await kit.send(id), 'sent')
  const heard = exchanger.heard.filter(({ message }) => /@there\.test/i.test(message))
  assert.deepEqual(
    heard.map((mail) => mail.to.join().toLowerCase()),
    ['me@there.test'],
  )
  assert.match(heard[0]!.message, /^Subject: Hello ?\r$/m)
  assert.match((await simpleParser(heard[0]!.message)).html as string, /\[\] \[\]/)
  assert.doesNotMatch(heard[0]!.message, /^List-/im)
  assert.match(heard[0]!.message, /^From: (?:.* <)?noreply@news\.here\.test>?\r$/m)
  // The operator's commands show the same sender, subject and Message-ID as the wire and the API.
  const [found] = findMails(postrider.appliance.deps.store, { address: 'me@there.test' })
  const [listed] = (await postrider.api('GET', '/outbound-emails?filter[to]=Me@there.test')).body.data
  const { from, message_id, subject } = found!
  assert.deepEqual(
    { from, message_id, subject },
    {
      from: listed.attributes.from,
      message_id: listed.attributes.message_id,
      subject: listed.attributes.subject,
    },
  )
  assert.deepEqual([from, subject], ['noreply@news.here.test', 'Hello '])
  assert.ok(heard[0]!.message.includes(`Message-ID: ${message_id}`))
  assert.partialDeepStrictEqual(await kit.stats(id), { recipients: 1, deliveries: 1 })
  const scheduledByCreation = await kit.draft(list, { test_mode: true })
  const together = await patch(scheduledByCreation, { status: 'scheduled', test_recipient_email: 'me@there.test' })
  assert.equal(together.status, 200)
})

test('an email without an unsubscribe link gets a footer with one, except a test', async () => {
  const list = await kit.audience(domain)
  await kit.fill(list, ['footer@there.test'])
  const page = {
    body_html: '<html lang="de"><body><p>Hallo</p></body></html>',
    body_text: 'Hallo',
    track_clicks: false,
  }
  const sent = async (attributes: Record<string, unknown>, to: string) => {
    assert.equal(await kit.send(await kit.draft(list, { ...page, ...attributes })), 'sent')
    return simpleParser(exchanger.heard.findLast((mail) => mail.to[0] === to)!.message)
  }
  const mail = await sent({}, 'footer@there.test')
  const [, url] = /<a href="([^"]+)"[^>]*>Abmelden<\/a><\/p><\/body>/.exec(mail.html as string) ?? []
  assert.ok(url, mail.html as string)
  assert.match(mail.text!, /^Hallo\n\n.*Abmelden: \S+\n$/)
  assert.ok(mail.text!.includes(url))
  assert.match((await postrider.raw(new URL(url).pathname)).body, /footer@there\.test receives/)
  const tested = await sent({ test_mode: true, test_recipient_email: 'tester@there.test' }, 'tester@there.test')
  assert.match(tested.html as string, /Abmelden/)
  for (const part of [tested.html as string, tested.text!]) assert.doesNotMatch(part, /\/u\/|href/)
})

test('sends webhooks for sending, paused, sent and failed with their data', async () => {
  const list = await kit.audience(domain)
  await kit.fill(list, ['slow@there.test', 'gone@there.test'])
  exchanger.script.answer = (command) => (/^RCPT.*(slow|gone)@/i.test(command) ? '451 4.2.0 Later' : undefined)
  const id = await kit.draft(list, { name: 'Told' })
  // oxlint-disable-next-line typescript/no-explicit-any
  const told = (campaign: string): any[] =>
    hook
      .requests()
      .map(({ body }) => JSON.parse(body))
      .filter(({ data }) => data.campaign_id === campaign)
  await patch(id, { status: 'scheduled' })
  await until(async () => (await show(id))['recipients'] === 2)
  await until(
    async () =>
      (await postrider.api('GET', `/outbound-emails?filter[campaign]=${id}`)).body.data.filter(
        (mail: { attributes: { recipients: { smtp_code: number | null }[] } }) =>
          mail.attributes.recipients[0]!.smtp_code === 451,
      ).length === 2,
    'the end of both first attempts',
  )
  assert.equal((await patch(id, { status: 'paused' })).status, 200)
  assert.equal((await patch(id, { status: 'sending' })).status, 200)
  delete exchanger.script.answer
  postrider.clock.leap(10 * 60_000)
  await until(async () => (await show(id))['status'] === 'sent', 'the end')
  await until(() => told(id).length === 4, 'four events')
  const events = told(id)
  assert.deepEqual(sorted(events.map(({ type }) => type)), [
    'campaign.paused',
    'campaign.sending',
    'campaign.sending',
    'campaign.sent',
  ])
  const sent = events.find(({ type }) => type === 'campaign.sent')
  assert.deepEqual(sent.data, {
    campaign_id: id,
    name: 'Told',
    audience_id: list,
    domain_id: domain.id,
    recipients: 2,
    status: 'sent',
    previous_status: 'sending',
  })
  assert.match(sent.timestamp, /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/)
  assert.deepEqual(
    sorted(events.filter(({ type }) => type === 'campaign.sending').map(({ data }) => data.previous_status)),
    ['paused', 'scheduled'],
  )

  const lost = await kit.audience(domain, 'Lost')
  await kit.fill(lost, ['ann@there.test'])
  for (const test_mode of [false, true]) {
    const failing = await kit.draft(test_mode ? await kit.audience(domain, 'Lost too') : lost, {
      test_mode,
      test_recipient_email: 'me@there.test',
    })
    await patch(failing, { status: 'scheduled', scheduled_at: iso(postrider.clock.now() + 60_000) })
    const { id: from } = (await postrider.api('GET', `/campaigns/${failing}?include=audience`)).body.included[0]
    assert.equal((await postrider.api('DELETE', `/audiences/${from}`)).status, 204)
    assert.equal((await show(failing))['status'], 'scheduled')
    const before = exchanger.heard.length
    postrider.clock.leap(60_000)
    const failed = await shownAs(failing, 'failed')
    assert.match(failed['failure'], /audience/)
    assert.notEqual(failed['finished_at'], null)
    assert.equal(exchanger.heard.length, before)
    const event = await until(() => told(failing).find(({ type }) => type === 'campaign.failed'), 'campaign.failed')
    assert.deepEqual(
      [event.data.status, event.data.previous_status, event.data.failure],
      ['failed', 'sending', failed['failure']],
    )
  }
})

test('a campaign fails if its domain is not active when it is due', async () => {
  const other = await postrider.activeDomain('late.test')
  const list = await kit.audience(other)
  await kit.fill(list, ['late@there.test'])
  const [first, second] = [await kit.draft(list), await kit.draft(list)]
  for (const id of [first, second])
    await patch(id, { status: 'scheduled', scheduled_at: iso(postrider.clock.now() + (id === first ? 1000 : 2000)) })
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw(`update domains set status = 'suspended' where key = ?`, [other.key])))
  postrider.clock.advance(1000)
  assert.match((await shownAs(first, 'failed'))['failure'], /late\.test/)
  await store.write((tx) => tx.run(raw(`update domains set status = 'active' where key = ?`, [other.key])))
  assert.equal((await postrider.api('DELETE', `/domains/${other.id}`)).status, 204)
  postrider.clock.advance(1000)
  await shownAs(second, 'failed')
  assert.equal(exchanger.heard.filter((mail) => mail.to.includes('late@there.test')).length, 0)
})

test('statistics have exactly these attributes, null without tracking, and survive the campaign', async () => {
  const list = await kit.audience(domain)
  await kit.fill(list, ['fig1@there.test', 'fig2@there.test'])
  exchanger.script.answer = (command) => (/^RCPT.*fig2@/i.test(command) ? '550 5.1.1 Nobody' : undefined)
  const names =
    `recipients deliveries opens clicks bounces complaints unsubscribes unique_opens unique_clicks machine_opens
    machine_clicks`.split(/\s+/)
  const untracked = {
    opens: null,
    clicks: null,
    unique_opens: null,
    unique_clicks: null,
    machine_opens: null,
    machine_clicks: null,
  }
  const id = await kit.draft(list)
  assert.deepEqual(Object.keys(await kit.stats(id)).toSorted(), names.toSorted())
  const early = await postrider.api('GET', `/campaigns/${id}/stats`)
  assert.equal(early.body.data.type, 'campaign-stats')
  for (const name of ['deliveries', 'bounces', 'complaints', 'unsubscribes'])
    assert.equal(early.body.data.attributes[name], 0)
  await domainFlags({ open_tracking_enabled: true })
  assert.equal(await kit.send(id), 'sent')
  const counted = { recipients: 2, deliveries: 1, bounces: 1, complaints: 0, unsubscribes: 0 }
  assert.deepEqual(await kit.stats(id), { ...untracked, ...counted, opens: 0, unique_opens: 0, machine_opens: 0 })
  await domainFlags({ open_tracking_enabled: false })
  assert.equal((await kit.stats(id))['opens'], 0)
  delete exchanger.script.answer
  assert.equal((await postrider.api('GET', `/campaigns/${id}/stats?include=audience`)).status, 400)
  assert.equal((await postrider.asOther('GET', `/campaigns/${id}/stats`)).status, 404)

  const mails = async (query: string) => (await postrider.api('GET', `/outbound-emails?${query}`)).body
  const sent = await mails(`filter[campaign]=${id}&include=campaign,contact&sort=status`)
  assert.equal(sent.data.length, 2)
  assert.deepEqual(sent.included.map(({ type }: { type: string }) => type).toSorted(), [
    'campaigns',
    'contacts',
    'contacts',
  ])
  assert.deepEqual(sent.data[0].relationships.campaign.data, { type: 'campaigns', id })
  const [mail] = sent.data
  const contact = mail.relationships.contact.data.id
  assert.equal((await postrider.api('DELETE', `/contacts/${contact}`)).status, 204)
  const without = await postrider.api('GET', `/outbound-emails/${mail.id}?include=campaign,contact`)
  assert.equal(without.status, 200, JSON.stringify(without.body))
  assert.deepEqual(
    without.body.included.map(({ type }: { type: string }) => type),
    ['campaigns'],
  )

  assert.equal((await postrider.api('DELETE', `/campaigns/${id}`)).status, 204)
  for (const path of [`/campaigns/${id}`, `/campaigns/${id}/stats`])
    assert.equal((await postrider.api('GET', path)).status, 404)
  assert.equal((await patch(id, { name: 'x' })).status, 404)
  assert.equal((await postrider.api('DELETE', `/campaigns/${id}`)).status, 404)
  const both = (await mails(`filter[campaign]=${id}`)).data.map((each: { id: string }) => each.id)
  assert.equal(both.length, 2)
  // The emails of a large campaign are found with another query.
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(raw('update campaigns set recipients = 10000 where id = ?', [id])),
  )
  for (const query of ['', '&filter[status]=delivered,bounced,failed'])
    assert.deepEqual(
      (await mails(`filter[campaign]=${id}${query}`)).data.map((each: { id: string }) => each.id),
      both,
    )
  assert.deepEqual((await mails(`filter[campaign]=${id}&filter[status]=complained`)).data, [])
  const stats = (await postrider.api('GET', `/outbound-emails/${mail.id}/stats`)).body.data.attributes
  assert.deepEqual([stats.deliveries + stats.bounces, stats.clicks], [1, null])
})

test('lists: filters, sorts, includes, pages, scopes', async () => {
  const list = await kit.audience(domain, 'Listed')
  const ids: string[] = []
  for (const [name, subject] of [
    ['b', 'x'],
    ['a', 'z'],
    ['c', 'y'],
  ] as const) {
    ids.push(await kit.draft(list, { name, subject }))
    postrider.clock.advance(10)
  }
  await patch(ids[0]!, { status: 'cancelled' })
  const get = async (query: string) => (await postrider.api('GET', `/campaigns?filter[audience]=${list}&${query}`)).body
  // oxlint-disable-next-line typescript/no-explicit-any
  const names = ({ data }: any): string => data.map((one: any) => one.attributes.name).join('')
  assert.equal(names(await get('')), 'cab')
  assert.equal(names(await get('filter[status]=draft')), 'ca')
  assert.equal(names(await get('filter[status]=cancelled,draft')), 'cab')
  for (const [sort, expected] of [
    ['name', 'abc'],
    ['-name', 'cba'],
    ['subject', 'bca'],
    ['status,name', 'bac'],
    ['created_at', 'bac'],
    ['-updated_at', 'bca'],
  ] as const)
    assert.equal(names(await get(`sort=${sort}`)), expected, sort)
  const first = await get('sort=name&page[size]=2')
  assert.equal(first.data[0].attributes.body_html, undefined)
  assert.equal(names(await get(`sort=name&page[size]=2&page[cursor]=${first.meta.next_cursor}`)), 'c')
  const deep = await get('include=audience.domain')
  assert.deepEqual(deep.included.map((one: { type: string; id: string }) => `${one.type} ${one.id}`).toSorted(), [
    `audiences ${list}`,
    `domains ${domain.id}`,
  ])
  assert.deepEqual(Object.keys((await get('fields[campaigns]=name,status')).data[0].attributes).toSorted(), [
    'name',
    'status',
  ])
  assert.deepEqual((await postrider.asOther('GET', `/campaigns?filter[audience]=${list}`)).body.data, [])
  for (const query of [
    'filter[name]=a',
    'sort=scheduled_at',
    'include=contacts',
    'include=audience.domain.user',
    'page[number]=1',
    'fields[campaigns]=nothing',
    'x=1',
  ])
    assert.equal((await postrider.api('GET', `/campaigns?${query}`)).status, 400, query)
  for (const path of [`/campaigns/${ids[0]}`, `/campaigns/${ids[0]}/stats`])
    assert.equal((await postrider.asOther('GET', path)).status, 404)
  assert.equal((await postrider.asOther('DELETE', `/campaigns/${ids[0]}`)).status, 404)
  const reader = await postrider.tokenFor(postrider.user, ['campaigns:read', 'contacts:write'])
  const headers = { authorization: `Bearer ${reader}` }
  assert.equal((await postrider.api('GET', `/campaigns/${ids[0]}/stats`, undefined, headers)).status, 200)
  assert.equal((await postrider.api('DELETE', `/campaigns/${ids[0]}`, undefined, headers)).status, 403)
  assert.equal((await postrider.api('POST', '/campaigns', document('campaigns', WHOLE, to(list)), headers)).status, 403)
  const change = document('campaigns', { name: 'x' }, { id: ids[1] })
  assert.equal((await postrider.api('PATCH', `/campaigns/${ids[1]}`, change, headers)).status, 403)
})
