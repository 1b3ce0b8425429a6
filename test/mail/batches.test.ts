// Batches: several emails with one request, or one email for many recipients, each of whom gets an email of their own.
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { ownsFile } from '../../src/mail/body.ts'
import { createToken } from '../../src/users/tokens.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf, HOUR } from './mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'], routes: ['there.test'], exchanger }))
const { become, eventTypes, show } = mailsOf(() => postrider)
const store = () => postrider.appliance.deps.store

const one = (attributes: object = {}) => ({
  from: 'ann@here.test',
  to: 'bob@there.test',
  subject: 'A subject',
  html: '<p>Hello</p>',
  ...attributes,
})
const shared = (attributes: object = {}) => ({
  from: 'ann@here.test',
  subject: 'News for {{name}}',
  html: '<p>Hello {{name}}</p>',
  ...attributes,
})
const post = (attributes: Record<string, unknown>): Promise<Answer> =>
  postrider.api('POST', '/outbound-email-batches', document('outbound-email-batches', attributes))
const used = (): number => store().first(raw<{ used: number }>('select used from usage'))?.used ?? 0
const emails = (): number => store().one(raw<{ times: number }>('select count(*) as times from outbound_emails')).times
const pointers = ({ body }: Answer): string[] =>
  body.errors.map(({ source }: { source: { pointer: string } }) => source.pointer)
const heardBy = (address: string): string =>
  exchanger.heard.find(({ to }) => to.includes(address))?.message.replaceAll(/\r\n[ \t]/g, ' ') ?? ''
const arrived = (address: string): Promise<string> => until(() => heardBy(address), `an email for ${address}`)
const files = (): string[] => {
  const spool = join(postrider.dataDir, 'spool')
  return existsSync(spool) ? readdirSync(spool).filter((name) => name.includes('~')) : []
}

beforeEach(() => {
  exchanger.heard.length = 0
})

setUp(async () => {
  const about = store().one(
    raw<{ user_key: number; domain_key: number }>('select user_key, key as domain_key from domains'),
  )
  const gone = { ...about, address: 'gone@there.test', reason: 'hard_bounce', scope: 'all', source: 'smtp' } as const
  await store().write((tx) => suppress(tx, gone, postrider.clock.now()))
})

describe('a batch of emails', () => {
  test('sends each email, and answers with their results in order', async () => {
    const { body, headers, status } = await post({
      emails: [one({ to: 'a@there.test', subject: 'First' }), one({ to: 'b@there.test', subject: 'Second' })],
    })
    assert.equal(status, 201, JSON.stringify(body))
    const { accepted, refused, results, suppressed } = body.data.attributes
    assert.deepEqual([accepted, suppressed, refused], [2, 0, 0])
    assert.deepEqual(
      results.map(({ index }: { index: number }) => index),
      [0, 1],
    )
    assert.equal(headers.get('location')?.endsWith(`/outbound-email-batches/${body.data.id}`), true)
    for (const { id } of results) await become(id, 'delivered')
    assert.match(heardBy('b@there.test'), /^Subject: Second\r$/m)
    const found = await postrider.api('GET', `/outbound-emails?filter[batch]=${body.data.id}`)
    assert.equal(found.body.data.length, 2)
    const shown = await postrider.api('GET', `/outbound-email-batches/${body.data.id}`)
    assert.deepEqual(shown.body.data.attributes.statuses, { delivered: 2 })
  })

  test('is refused as a whole if it is strict and has a fault, with the position of each fault', async () => {
    const before = [emails(), used()]
    const answer = await post({
      emails: [one(), one({ to: 'nowhere' }), one({ subject: undefined }), one({ to: 'gone@there.test' })],
    })
    assert.equal(answer.status, 422)
    assert.deepEqual(pointers(answer), ['/data/attributes/emails/1/to', '/data/attributes/emails/2'])
    const gone = await post({ emails: [one(), one({ to: 'gone@there.test' }), one({ from: 'ann@elsewhere.test' })] })
    assert.deepEqual(pointers(gone), ['/data/attributes/emails/1/to', '/data/attributes/emails/2/from'])
    assert.deepEqual([emails(), used()], before)
  })

  test('accepts the others if it is permissive', async () => {
    const before = used()
    const { body, status } = await post({
      validation: 'permissive',
      emails: [
        one({ to: 'nowhere' }),
        one({ to: 'c@there.test' }),
        one({ to: 'gone@there.test' }),
        one({ from: 'ann@elsewhere.test' }),
      ],
    })
    assert.equal(status, 201)
    const { accepted, refused, results } = body.data.attributes
    assert.deepEqual([accepted, refused], [1, 3])
    assert.deepEqual(
      results.map(({ errors }: { errors?: { code: string }[] }) => errors?.[0]?.code),
      ['invalid', undefined, 'recipient_suppressed', 'not_found'],
    )
    assert.equal(used(), before + 1)
  })

  test('stores large bodies and attachments of accepted emails only', async () => {
    const before = files()
    const large = { html: `<p>${'large '.repeat(20_000)}</p>` }
    const file = { filename: 'a.txt', content: Buffer.alloc(20_000, 'a').toString('base64') }
    const bad = { filename: 'a.exe', content: 'AAAA' }
    const answer = await post({ emails: [one(large), one({ ...large, attachments: [file, bad] })] })
    assert.deepEqual(pointers(answer), ['/data/attributes/emails/1/attachments/1/filename'])
    assert.deepEqual(files(), before)
    assert.equal((await post({ emails: [one(large), one({ attachments: [file] })] })).status, 201)
    assert.equal(files().length, before.length + 2)
  })

  test('is one batch for one idempotency key', async () => {
    const attributes = { emails: [one({ to: 'd@there.test' })], idempotency_key: 'batch' }
    const first = await post(attributes)
    const again = await post(attributes)
    assert.deepEqual([again.status, again.body.data.id], [201, first.body.data.id])
    assert.equal(again.headers.get('idempotent-replayed'), 'true')
    assert.deepEqual(
      again.body.data.attributes.results.map(({ id }: { id: string }) => id),
      first.body.data.attributes.results.map(({ id }: { id: string }) => id),
    )
    assert.equal((await post({ ...attributes, emails: [one()] })).status, 409)
  })

  test('needs one of its two forms', async () => {
    for (const attributes of [{}, { emails: [one()], email: shared(), recipients: [{ to: 'a@there.test' }] }])
      assert.equal((await post(attributes)).status, 422)
    assert.equal((await post({ email: shared() })).status, 422)
    assert.equal((await post({ emails: [] })).status, 422)
    assert.deepEqual(pointers(await post({ emails: Array.from({ length: 101 }, () => one()) })), [
      '/data/attributes/emails',
    ])
    assert.deepEqual(pointers(await post({ emails: [one({ idempotency_key: 'x' })] })), [
      '/data/attributes/emails/0/idempotency_key',
    ])
  })
})

describe('an email for many recipients', () => {
  test('is an email for each of them, with their values, which are filled in once', async () => {
    const { body, status } = await post({
      email: shared({
        html: '<p>Hello {{name}}, {{missing}}!</p>',
        text: 'Hello {{ name }}',
        headers: { 'X-Plan': '{{plan}}' },
        metadata: { batch: 'june' },
        unsubscribe: { uris: ['https://list.test/leave/{{token}}'], one_click: true },
      }),
      recipients: [
        {
          to: 'Eve <eve@there.test>',
          variables: { name: '<b>\r\n{{plan}}', plan: 'pro\r\nBcc: x@y.test', token: 'e1' },
          metadata: { id: '1' },
        },
        { to: 'fay@there.test', variables: { name: 'Fay', plan: 7, token: 'f1' }, message_id: '<fay@here.test>' },
      ],
    })
    assert.equal(status, 201, JSON.stringify(body))
    const [eve, fay] = body.data.attributes.results
    assert.equal(fay.message_id, '<fay@here.test>')
    const [first, second] = [await arrived('eve@there.test'), await arrived('fay@there.test')]
    assert.match(first, /^Subject: News for <b>\{\{plan\}\}\r$/m)
    assert.match(first, /^X-Plan: proBcc: x@y\.test\r$/m)
    assert.match(first, /^To: Eve <eve@there\.test>\r$/m)
    assert.match(first, /&lt;b&gt;\r\n\{\{plan\}\}, !/)
    assert.match(first, /^List-Unsubscribe: <https:\/\/list\.test\/leave\/e1>\r$/m)
    assert.match(second, /^X-Plan: 7\r$/m)
    assert.doesNotMatch(second, /eve/i)
    const shown = (await show(eve.id)) as unknown as { html: string; metadata: object; headers: object }
    assert.equal(shown.html, '<p>Hello &lt;b&gt;\r\n{{plan}}, !</p>')
    assert.deepEqual(shown.metadata, { batch: 'june', id: '1' })
    assert.deepEqual(shown.headers, { 'X-Plan': 'proBcc: x@y.test' })
    const bodies = store().all(raw('select * from outbound_batches where content is not null or spool is not null'))
    assert.equal(bodies.length, 1)
  })

  test('has values as they are with the syntax "percent", and keeps placeholders without a value', async () => {
    const { body } = await post({
      syntax: 'percent',
      email: shared({ subject: 'For %recipient.name%', html: '<p>%recipient.name% %recipient.none% {{name}}</p>' }),
      recipients: [{ to: 'gil@there.test', variables: { name: '<i>Gil</i>', empty: null } }],
    })
    assert.equal(body.data.attributes.accepted, 1, JSON.stringify(body))
    const message = await arrived('gil@there.test')
    assert.match(message, /^Subject: For <i>Gil<\/i>\r$/m)
    assert.match(message, /<p><i>Gil<\/i> %recipient\.none% \{\{name\}\}<\/p>/)
  })

  test('names a duplicate, in any case of its letters', async () => {
    const before = used()
    const recipients = ['hal@there.test', 'ida@there.test', 'HAL@there.test'].map((to) => ({ to }))
    const { body } = await post({ email: shared(), recipients })
    const { accepted, results } = body.data.attributes
    assert.equal(accepted, 2)
    assert.deepEqual(results[2], { index: 2, duplicate_of: 0 })
    assert.equal(used(), before + 2)
  })

  test('is refused as a whole, or without the faulty recipients', async () => {
    const recipients = [
      { to: 'jon@there.test' },
      { to: 'nowhere' },
      { to: 'kim@there.test', variables: { name: 'x'.repeat(1000) } },
      { to: 'lea@there.test', variables: { name: ['x'] } },
      { to: 'gone@there.test' },
      { to: 'max@there.test', message_id: '<x@elsewhere.test>' },
    ]
    const before = [emails(), used()]
    const strict = await post({ email: shared(), recipients })
    assert.deepEqual(pointers(strict), [
      '/data/attributes/recipients/1/to',
      '/data/attributes/recipients/3/variables/name',
    ])
    const later = await post({ email: shared(), recipients: [recipients[0], recipients[4], recipients[5]] })
    assert.deepEqual(pointers(later), ['/data/attributes/recipients/1/to', '/data/attributes/recipients/2/message_id'])
    assert.deepEqual([emails(), used()], before)
    const { body } = await post({ email: shared(), recipients, validation: 'permissive' })
    const { accepted, refused, results } = body.data.attributes
    assert.deepEqual([accepted, refused], [1, 5])
    assert.deepEqual(
      results.map(({ errors }: { errors?: { code: string }[] }) => errors?.[0]?.code),
      [undefined, 'invalid', 'too_long', 'invalid', 'recipient_suppressed', 'address_outside_domain'],
    )
    assert.equal(results[2].errors[0].pointer, '/data/attributes/recipients/2/variables')
  })

  test('points at a fault of the email itself', async () => {
    const recipients = [{ to: 'ned@there.test' }]
    const cases: [object, string][] = [
      [{ from: 'nowhere' }, 'email/from'],
      [{ to: 'x@there.test' }, 'email/to'],
      [{ reply_to: 'x@elsewhere.test' }, 'email/reply_to'],
      [{ track_opens: true }, 'email/track_opens'],
      [{ scheduled_at: 'P31D' }, 'email/scheduled_at'],
      [{ headers: { Bcc: 'x' } }, 'email/headers/Bcc'],
    ]
    for (const [attributes, pointer] of cases)
      assert.deepEqual(pointers(await post({ email: shared(attributes), recipients })), [`/data/attributes/${pointer}`])
    assert.equal((await post({ email: shared({ from: 'a@elsewhere.test' }), recipients })).status, 404)
  })

  test('records suppressed recipients, which cost no volume', async () => {
    const before = used()
    const { body } = await post({
      on_suppressed: 'record',
      email: shared(),
      recipients: [{ to: 'gone@there.test' }, { to: 'ona@there.test' }],
    })
    const { accepted, results, suppressed } = body.data.attributes
    assert.deepEqual([accepted, suppressed, used()], [1, 1, before + 1])
    assert.equal(results[0].status, 'suppressed')
    assert.deepEqual(eventTypes(results[0].id), ['email.rejected'])
    await become(results[1].id, 'delivered')
  })

  test('is cancelled with its volume while it is scheduled', async () => {
    const before = used()
    const recipients = [{ to: 'pat@there.test' }, { to: 'quin@there.test' }]
    const { body } = await post({ email: shared({ scheduled_at: 'PT1H' }), recipients })
    assert.deepEqual(body.data.attributes.statuses, { scheduled: 2 })
    assert.equal(used(), before + 2)
    const path = `/outbound-email-batches/${body.data.id}/cancel`
    const { body: cancelled, status } = await postrider.api('POST', path)
    assert.equal(status, 202)
    assert.deepEqual(cancelled.data.attributes.statuses, { cancelled: 2 })
    assert.equal(used(), before)
    assert.equal((await postrider.api('POST', path)).status, 422)
  })

  test('is sent when it is due', async () => {
    const { body } = await post({
      email: shared({ scheduled_at: 'PT1H', stream: 'bulk' }),
      recipients: [{ to: 'ray@there.test', variables: { name: 'Ray' } }],
    })
    postrider.clock.advance(HOUR)
    await become(body.data.attributes.results[0].id, 'delivered')
    assert.match(heardBy('ray@there.test'), /Hello Ray/)
    assert.match(heardBy('ray@there.test'), /^Feedback-ID: 0:[^:]+:bulk:/m)
  })

  test('finds a recipient again by the Message-ID, whatever else is in the batch', async () => {
    const known = { to: 'sue@there.test', message_id: '<sue@here.test>' }
    const first = await post({ email: shared(), recipients: [known] })
    const second = await post({ email: shared({ subject: 'Again' }), recipients: [known, { to: 'tom@there.test' }] })
    const { accepted, results } = second.body.data.attributes
    assert.equal(accepted, 2)
    assert.equal(results[0].id, first.body.data.attributes.results[0].id)
    await arrived('sue@there.test')
    await become(results[1].id, 'delivered')
    assert.equal(exchanger.heard.filter(({ to }) => to.includes('sue@there.test')).length, 1)
  })

  test('is one batch for one idempotency key', async () => {
    const attributes = { email: shared(), recipients: [{ to: 'uma@there.test' }], idempotency_key: 'news' }
    const [first, again] = await Promise.all([post(attributes), post(attributes)])
    assert.equal(first.body.data.id, again.body.data.id)
    const other = { ...attributes, recipients: [{ to: 'uma@there.test', variables: { name: 'Uma' } }] }
    assert.equal((await post(other)).status, 409)
  })

  test('refuses values that make an email too large, without filling them in', async () => {
    const recipients = [{ to: 'vic@there.test', variables: { x: 'x'.repeat(60_000) } }]
    const answer = await post({ email: shared({ html: '{{x}}'.repeat(1000) }), recipients })
    assert.deepEqual(pointers(answer), ['/data/attributes/recipients/0/variables'])
    assert.equal(answer.body.errors[0].code, 'message_too_large')
    const line = await post({
      email: shared({ subject: '{{x}}'.repeat(190), headers: { 'X-A': '{{x}}' } }),
      recipients,
    })
    assert.deepEqual(
      line.body.errors.map(({ code }: { code: string }) => code),
      ['too_long', 'too_long'],
    )
  })

  test('keeps a large body once, until its last email is deleted', async () => {
    const before = files()
    const html = `<p>{{name}} ${'large '.repeat(20_000)}</p>`
    const recipients = [
      { to: 'wes@there.test', variables: { name: 'Wes' } },
      { to: 'xan@there.test', variables: { name: 'Xan' } },
    ]
    const { body } = await post({ email: shared({ html }), recipients })
    const [wes, xan] = body.data.attributes.results
    assert.equal(files().length, before.length + 1)
    await become(wes.id, 'delivered')
    await become(xan.id, 'delivered')
    assert.match(heardBy('xan@there.test'), /Xan large/)
    assert.ok(files().every((name) => ownsFile(store(), name)))
    const source = await postrider.page(`/api/v1/outbound-emails/${xan.id}/raw`, {
      headers: { authorization: `Bearer ${postrider.token}` },
    })
    assert.match(await source.text(), /Xan large/)
    await postrider.api('DELETE', `/outbound-emails/${wes.id}`)
    assert.match(String((await show(xan.id))['html']), /Xan large/)
    await postrider.api('DELETE', `/outbound-emails/${xan.id}`)
    assert.deepEqual(files(), before)
  })

  test('is accepted as far as the daily limit of the token allows, if it is permissive', async () => {
    const about = { name: 'capped', scopes: ['emails:send'], duration: '1_month', daily: 5 } as const
    const { plaintext } = await createToken(postrider.appliance.deps, postrider.user.key, about)
    const recipients = Array.from({ length: 7 }, (_, n) => ({ to: `limit${n}@there.test` }))
    const capped = (attributes: Record<string, unknown>) =>
      postrider.api('POST', '/outbound-email-batches', document('outbound-email-batches', attributes), {
        authorization: `Bearer ${plaintext}`,
      })
    const before = used()
    const strict = await capped({ email: shared(), recipients })
    assert.deepEqual([strict.status, strict.body.errors[0].code, used()], [422, 'volume_exceeded', before])
    const { body } = await capped({ email: shared(), recipients, validation: 'permissive' })
    const { accepted, refused, results } = body.data.attributes
    assert.deepEqual([accepted, refused, used()], [5, 2, before + 5])
    assert.deepEqual(
      results.map(({ errors }: { errors?: { code: string }[] }) => errors?.[0]?.code),
      [...Array.from({ length: 5 }, () => undefined), 'volume_exceeded', 'volume_exceeded'],
    )
    const items = recipients.slice(5).map(({ to }) => one({ to }))
    const none = await capped({ emails: items, validation: 'permissive' })
    assert.deepEqual([none.body.data.attributes.refused, used()], [2, before + 5])
  })

  test('has each email at the pace of its agent', async () => {
    const recipients = [{ to: 'pace1@there.test' }, { to: 'pace2@there.test' }]
    const { body } = await post({ email: shared({ agent_id: 'news' }), recipients })
    for (const { id } of body.data.attributes.results) assert.equal((await show(id))['agent_id'], 'news')
    await postrider.api('POST', '/agents/news/pause')
    assert.equal((await post({ email: shared({ agent_id: 'news' }), recipients })).body.errors[0].code, 'agent_paused')
  })

  test('waits until its shared body is repaired', async () => {
    const { body } = await post({
      email: shared({ scheduled_at: 'PT1H' }),
      recipients: [{ to: 'yan@there.test', variables: { name: 'Yan' } }],
    })
    const { id } = body.data.attributes.results[0]
    const { content } = store().one(raw<{ content: string }>('select content from outbound_batches order by key desc'))
    const write = (text: string): Promise<unknown> =>
      store().write((tx) => {
        const { key } = tx.one(raw<{ key: number }>('select max(key) as key from outbound_batches'))
        const { digest } = tx.one(
          raw<{ digest: Buffer }>('select digest from digests where "of" = 25 and row_key = ?', [key]),
        )
        tx.run(raw('update outbound_batches set content = ? where key = ?', [text, key]))
        tx.run(raw('update digests set digest = ? where "of" = 25 and row_key = ?', [digest, key]))
      })
    await write(content.replace('Hello', 'Hallo'))
    postrider.clock.advance(HOUR)
    await until(async () => (await show(id)).recipients[0]!.response?.includes('problem on this server'), 'the damage')
    await write(content)
    postrider.clock.advance(HOUR)
    await become(id, 'delivered')
    assert.match(heardBy('yan@there.test'), /Hello Yan/)
  })
})
