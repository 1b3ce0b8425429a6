// The compatibility API for Resend, with its SDK as the client, and with requests that the SDK does not send.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Resend } from 'resend'
import { createToken } from '../../src/users/tokens.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { DAY, HOUR, mailsOf, MINUTE } from '../mail/mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,

    otherDomains: ['other.test'],
    routes: ['there.test'],
    open: true,
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))
const { become, show } = mailsOf(() => postrider)
const clientOf = (key: string, slash = ''): Resend => new Resend(key, { baseUrl: `${postrider.url}/resend${slash}` })
const client = (): Resend => clientOf(postrider.token)

const EMAIL = { from: 'Ann <ann@here.test>', to: 'bob@there.test', subject: 'Hello', html: '<p>Hi</p>' }

const ask = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> =>
  postrider.raw(`/resend${path}`, {
    method,
    headers: { Authorization: `Bearer ${postrider.token}`, ...headers },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
const errorOf = ({ body, status }: Answer) => {
  assert.equal(body.statusCode, status)
  return [status, body.name]
}
const refused = async (email: object, headers?: Record<string, string>) => {
  const answer = await ask('POST', '/emails', { ...EMAIL, ...email }, headers)
  return [...errorOf(answer), answer.body.message]
}

describe('the SDK of Resend', () => {
  test('sends an email with every field, and shows it', async () => {
    const { data, error } = await client().emails.send({
      ...EMAIL,
      to: ['bob@there.test'],
      cc: ['Carl <carl@there.test>'],
      replyTo: 'visitor@elsewhere.test',
      text: 'Hi',
      headers: { 'X-Order': '1017', 'Message-ID': '<order-1017@here.test>' },
      tags: [{ name: 'category', value: 'order' }],
      attachments: [
        { filename: 'a.txt', content: Buffer.from('one file') },
        { filename: 'b.txt', content: Buffer.from('zwei').toString('base64'), contentId: 'b' },
      ],
    })
    assert.equal(error, null)
    await become(data!.id, 'delivered')
    const [sent] = exchanger.heard
      .map(({ message }) => message.toString())
      .filter((text) => /^X-Order: 1017\r$/m.test(text))
    assert.match(sent ?? '', /^Reply-To: visitor@elsewhere\.test\r$/m)
    const { data: shown } = await client().emails.get(data!.id)
    assert.deepEqual(
      { ...shown, created_at: '' },
      {
        object: 'email',
        id: data!.id,
        to: ['bob@there.test'],
        from: 'Ann <ann@here.test>',
        created_at: '',
        subject: 'Hello',
        html: '<p>Hi</p>',
        text: 'Hi',
        cc: ['Carl <carl@there.test>'],
        bcc: [],
        reply_to: ['visitor@elsewhere.test'],
        last_event: 'delivered',
        scheduled_at: null,
        message_id: '<order-1017@here.test>',
        tags: [{ name: 'category', value: 'order' }],
      },
    )
    const { attachments } = await show(data!.id)
    assert.deepEqual(
      (attachments as unknown as { filename: string; size: number; disposition: string }[]).map((file) => [
        file.filename,
        file.size,
        file.disposition,
      ]),
      [
        ['a.txt', 8, 'attachment'],
        ['b.txt', 4, 'inline'],
      ],
    )
  })

  test('schedules, changes and cancels an email', async () => {
    const { emails } = client()
    const { data } = await emails.send({ ...EMAIL, scheduledAt: 'in 2 hours' })
    const due = postrider.clock.now() + 2 * HOUR
    const { data: shown } = await emails.get(data!.id)
    assert.deepEqual([shown!.last_event, Date.parse(shown!.scheduled_at!)], ['scheduled', due])
    const later = new Date(due + DAY).toISOString()
    assert.deepEqual((await emails.update({ id: data!.id, scheduledAt: later })).data, {
      object: 'email',
      id: data!.id,
    })
    assert.equal((await emails.get(data!.id)).data!.scheduled_at, later)
    assert.deepEqual((await emails.cancel(data!.id)).data, { object: 'email', id: data!.id })
    assert.equal((await emails.get(data!.id)).data!.last_event, 'canceled')
    const again = await emails.cancel(data!.id)
    assert.deepEqual([again.error?.statusCode, again.error?.name], [422, 'validation_error'])
  })

  test('repeats an email with the same idempotency key, and learns of a conflict', async () => {
    const { emails } = client()
    const options = { idempotencyKey: 'order/1017' }
    const first = await emails.send(EMAIL, options)
    const second = await emails.send(EMAIL, options)
    assert.equal(first.data!.id, second.data!.id)
    assert.equal(second.headers!['idempotent-replayed'], 'true')
    const other = await emails.send({ ...EMAIL, subject: 'Other' }, options)
    assert.deepEqual([other.error?.statusCode, other.error?.name], [409, 'invalid_idempotent_request'])
  })

  test('lists and shows domains with their records', async () => {
    const { data } = await client().domains.list()
    assert.deepEqual(
      [data!.has_more, data!.data.map(({ name, status }) => [name, status])],
      [false, [['here.test', 'verified']]],
    )
    const { data: one } = await client().domains.get(data!.data[0]!.id)
    const records = one!.records as unknown as { record: string; type: string; status: string; priority?: number }[]
    for (const { record, status, type } of records)
      assert.ok(record && type && ['verified', 'pending'].includes(status))
    assert.equal(records.find(({ record, type }) => record === 'SPF' && type === 'MX')?.priority, 10)
  })

  test('gets an error for what is not offered', async () => {
    const { error } = await client().contacts.list()
    assert.deepEqual([error?.statusCode, error?.name], [404, 'not_found'])
    assert.match(error!.message, /does not offer this endpoint\. Use the API under \/api\/v1: /)
  })

  test('works with a slash at the end of the base URL', async () => {
    assert.equal((await clientOf(postrider.token, '/').emails.send(EMAIL)).error, null)
  })
})

test('a key that is missing, wrong or without the scope has the error of Resend', async () => {
  const keyed = async (headers: Record<string, string>) => {
    const answer = await postrider.raw('/resend/emails', { method: 'POST', headers, body: JSON.stringify(EMAIL) })
    return errorOf(answer)
  }
  assert.deepEqual(await keyed({}), [401, 'missing_api_key'])
  assert.deepEqual(await keyed({ Authorization: 'Bearer pr_wrong' }), [403, 'invalid_api_key'])
  const reader = await postrider.tokenFor(postrider.user, ['emails:read'])
  assert.deepEqual(await keyed({ Authorization: `Bearer ${reader}` }), [401, 'restricted_api_key'])
})

test('wrong keys of one client address are limited, and 403 counts as well', async () => {
  const wrong = () =>
    ask('POST', '/emails', EMAIL, { Authorization: 'Bearer pr_wrong', 'X-Forwarded-For': '192.0.2.99' })
  const answers = []
  for (let n = 0; n < 25; n++) answers.push(await wrong())
  assert.deepEqual(errorOf(answers[0]!), [403, 'invalid_api_key'])
  const last = answers.at(-1)!
  assert.deepEqual([last.status, last.body.name], [429, 'rate_limit_exceeded'])
  assert.ok(Number(last.headers.get('retry-after')) > 0)
  // A valid key still works.
  assert.equal((await ask('POST', '/emails', EMAIL)).status, 200)
})

test('names what is wrong in the words of Resend', async () => {
  for (const [email, expected, text] of [
    [{ from: undefined }, [422, 'missing_required_field'], /"from" is required/],
    [{ from: 'nobody' }, [422, 'invalid_from_address'], /must be one email address/],
    [{ from: 'ann@nowhere.test' }, [403, 'validation_error'], /no sending domain nowhere\.test/],
    [{ from: 'ann@other.test' }, [403, 'validation_error'], /no sending domain other\.test/],
    [{ to: ['bob@there.test', 'carl@there.test'] }, [422, 'validation_error'], /one address here.*\/emails\/batch/],
    [{ to: [] }, [422, 'missing_required_field'], /"to"/],
    [{ html: undefined }, [422, 'missing_required_field'], /neither "html" nor "text"/],
    [{ attachments: [{ filename: 'a.exe', content: 'YQ==' }] }, [422, 'invalid_attachment'], /a\.exe|\.exe/],
    [{ attachments: [{ content: { type: 'Buffer', data: [1, 256] } }] }, [422, 'invalid_attachment'], /Buffer/],
    [{ attachments: ['file'] }, [400, 'validation_error'], /must be a JSON object/],
    [{ scheduled_at: 'tomorrow at 10am' }, [422, 'validation_error'], /"in 5 min"/],
    [{ tags: [{ name: 'a b', value: '1' }] }, [422, 'validation_error'], /ASCII letters/],
    [
      {
        tags: [
          { name: 'a', value: '1' },
          { name: 'a', value: '2' },
        ],
      },
      [422, 'validation_error'],
      /twice/,
    ],
    [{ headers: { 'List-Unsubscribe': 'none' } }, [422, 'validation_error'], /angle brackets/],
    [{ headers: { 'DKIM-Signature': 'x' } }, [422, 'validation_error'], /reserved/],
    [{ template: { id: 'welcome' } }, [422, 'validation_error'], /no templates/],
    [{ topic_id: 'news' }, [422, 'validation_error'], /no topics/],
  ] as const) {
    const [status, name, message] = await refused(email)
    assert.deepEqual([status, name], expected, JSON.stringify([email, message]))
    assert.match(message, text, JSON.stringify(email))
  }
  assert.deepEqual((await refused({}, { 'Idempotency-Key': 'x'.repeat(257) })).slice(0, 2), [
    400,
    'invalid_idempotency_key',
  ])
  assert.deepEqual(errorOf(await ask('POST', '/emails', '{')), [400, 'validation_error'])
  assert.deepEqual(errorOf(await ask('POST', '/emails', '[]')), [400, 'validation_error'])
})

test('accepts what the original accepts: null fields, any media type, lists of numbers as files, base64 in lines', async () => {
  const sent = await ask(
    'POST',
    '/emails',
    {
      ...EMAIL,
      html: null,
      text: 'Text alone',
      template: null,
      attachments: [{ content: { type: 'Buffer', data: [104, 105] } }, { content: 'aGk\n', filename: 'b' }],
    },
    { 'Content-Type': 'text/plain' },
  )
  assert.equal(sent.status, 200, JSON.stringify(sent.body))
  const { attachments } = await show(sent.body.id)
  assert.deepEqual(
    (attachments as unknown as { filename: string; size: number }[]).map(({ filename, size }) => [filename, size]),
    [
      ['attachment-1', 2],
      ['b', 2],
    ],
  )
  // More numbers than values that a request may have.
  const data = Array.from({ length: 300_000 }, (_, n) => n % 256)
  const large = await ask('POST', '/emails', {
    ...EMAIL,
    attachments: [{ filename: 'c', content: { type: 'Buffer', data } }],
  })
  assert.equal(large.status, 200, JSON.stringify(large.body))
})

test('names ignored fields in a header', async () => {
  const { headers, status } = await ask('POST', '/emails', { ...EMAIL, colour: 'red', 'b\r\nX: y': 1 })
  assert.deepEqual([status, headers.get('postrider-ignored')], [200, 'colour, b__X:_y'])
})

test('records a suppressed recipient, as Resend does', async () => {
  const { clock, store } = postrider.appliance.deps
  const of = {
    user_key: postrider.user.key,
    domain_key: domain.key,
    address: 'gone@there.test',
    reason: 'manual',
    scope: 'all',
    source: 'manual',
  } as const
  await store.write((tx) => suppress(tx, of, clock.now()))
  const { body, status } = await ask('POST', '/emails', { ...EMAIL, to: 'gone@there.test' })
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal((await ask('GET', `/emails/${body.id}`)).body.last_event, 'suppressed')
})

test('answers 405 with Allow, 404 for others, and 403 to a browser', async () => {
  const wrong = await ask('DELETE', '/emails')
  assert.deepEqual([...errorOf(wrong), wrong.headers.get('allow')], [405, 'method_not_allowed', 'POST'])
  assert.deepEqual(errorOf(await ask('GET', '/nothing')), [404, 'not_found'])
  const { id } = (await ask('POST', '/emails', EMAIL)).body
  const unknown = await ask('GET', '/emails/019bc186-de00-738a-a9ec-e0b19577265d')
  const foreign = await ask('GET', `/emails/${id}`, undefined, { Authorization: `Bearer ${postrider.otherToken}` })
  assert.deepEqual([foreign.status, foreign.body], [unknown.status, unknown.body])
  assert.equal((await ask('POST', '/emails', EMAIL, { Origin: 'https://shop.example' })).status, 403)
})

test('a request takes one token of the rate limit that the API and SMTP share', async () => {
  await using limited = await startTestAppliance({
    config: { api: { rate_limit: 1, rate_burst: 2 } },
  })
  const post = () =>
    limited.raw('/resend/emails', {
      method: 'POST',
      headers: { Authorization: `Bearer ${limited.token}` },
      body: JSON.stringify(EMAIL),
    })
  assert.equal((await post()).headers.get('ratelimit-remaining'), '1')
  assert.equal((await limited.api('GET', '/domains')).headers.get('ratelimit-remaining'), '0')
  const answer = await post()
  assert.deepEqual(errorOf(answer), [429, 'rate_limit_exceeded'])
  assert.equal(answer.headers.get('retry-after'), '1')
})

test('an endpoint that is turned off does not exist', async () => {
  postrider.config.compatibility.resend = false
  try {
    const answer = await ask('POST', '/emails', EMAIL)
    assert.deepEqual([answer.status, (await ask('GET', '/nothing')).status], [404, 404])
  } finally {
    postrider.config.compatibility.resend = true
  }
})

test('pages domains in both directions', async () => {
  for (const name of ['a.test', 'b.test', 'c.test']) {
    postrider.clock.advance(MINUTE)
    await postrider.activeDomain(name)
  }
  const page = async (query: string) => {
    const { body, status } = await ask('GET', `/domains?${query}`)
    assert.equal(status, 200, JSON.stringify(body))
    return [body.data.map(({ name }: { name: string }) => name), body.has_more]
  }
  const { data } = (await ask('GET', '/domains')).body
  assert.deepEqual(await page('limit=2'), [['c.test', 'b.test'], true])
  assert.deepEqual(await page(`limit=2&after=${data[1].id}`), [['a.test', 'here.test'], false])
  assert.deepEqual(await page(`limit=2&before=${data[3].id}`), [['b.test', 'a.test'], true])
  for (const query of ['limit=0', 'limit=101', 'limit=x', 'after=x', `after=${data[0].id}&before=${data[1].id}`])
    assert.deepEqual(errorOf(await ask('GET', `/domains?${query}`)), [422, 'validation_error'], query)
})

test('a used-up daily limit has a Retry-After until the next day, and its count is explained', async () => {
  const { deps } = postrider.appliance
  const { plaintext } = await createToken(deps, postrider.user.key, {
    name: 'capped',
    scopes: ['emails:send'],
    duration: '12_months',
    operator: true,
    daily: 2,
  })
  const post = (path: string, body: object) =>
    postrider.raw(path, {
      method: 'POST',
      headers: { Authorization: `Bearer ${plaintext}` },
      body: JSON.stringify(body),
    })
  const emails = (count: number) => Array.from({ length: count }, () => EMAIL)
  const now = postrider.clock.now()
  const untilTomorrow = String(Math.ceil((Math.ceil(now / DAY) * DAY - now) / 1000))
  const strict = await post('/resend/emails/batch', emails(3))
  assert.deepEqual([strict.status, strict.body.name], [429, 'monthly_quota_exceeded'])
  assert.equal(strict.headers.get('retry-after'), untilTomorrow)
  assert.match(strict.body.message, /2 are used, .* This counts the earlier emails of this batch/)
  assert.equal((await post('/resend/emails/batch', emails(2))).status, 200)
  const single = await post('/resend/emails', EMAIL)
  assert.deepEqual([single.status, single.headers.get('retry-after')], [429, untilTomorrow])
  assert.match(single.body.message, /2 are used/)
  assert.doesNotMatch(single.body.message, /earlier emails/)
  const { headers, status } = await postrider.raw('/v3/here.test/messages', {
    method: 'POST',
    headers: { Authorization: `Basic ${Buffer.from(`api:${plaintext}`).toString('base64')}` },
    body: new URLSearchParams({ from: EMAIL.from, to: EMAIL.to, subject: 'x', text: 'x' }),
  })
  assert.deepEqual([status, headers.get('retry-after')], [403, untilTomorrow])
})
