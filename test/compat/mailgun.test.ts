// The compatibility API for Mailgun, with mailgun.js as the client, and with requests that it does not send.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import Mailgun from 'mailgun.js'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR, mailsOf } from '../mail/mails.ts'

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, otherDomains: ['other.test'], routes: ['there.test'], open: true }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))
const { become, show } = mailsOf(() => postrider)
const client = (key = postrider.token) => new Mailgun(FormData).client({ username: 'api', key, url: postrider.url })

const MESSAGE = { from: 'Ann <ann@here.test>', to: 'bob@there.test', subject: 'Hello', html: '<p>Hi</p>' }

const basic = (key: string): string => `Basic ${Buffer.from(`api:${key}`).toString('base64')}`
const ask = (method: string, path: string, init: RequestInit = {}): Promise<Answer> =>
  postrider.raw(path, {
    method,
    ...init,
    headers: { Authorization: basic(postrider.token), ...(init.headers as Record<string, string>) },
  })
/** Posts a form, with a list for a repeated field. */
function post(fields: Record<string, string | string[] | File>, path = '/v3/here.test/messages'): Promise<Answer> {
  const form = new FormData()
  for (const [name, value] of Object.entries(fields))
    for (const each of [value].flat() as (string | File)[]) form.append(name, each as string)
  return ask('POST', path, { body: form })
}
const sent = async (
  fields: Parameters<typeof post>[0],
  path?: string,
): Promise<{ id: string; headers: Headers; email: string }> => {
  const { body, headers, status } = await post(fields, path)
  assert.equal(status, 200, JSON.stringify(body))
  assert.match(body.message, /^Queued\b/)
  return { id: body.id, headers, email: headers.get('postrider-email') ?? '' }
}
const heard = (text: string): string[] =>
  exchanger.heard.map(({ message }) => message.toString()).filter((message) => message.includes(text))

describe('mailgun.js', () => {
  test('sends a message with files, headers, variables and options', async () => {
    const { id, message } = (await client().messages.create('here.test', {
      ...MESSAGE,
      to: ['bob@there.test'],
      cc: ['carl@there.test'],
      text: 'Hi',
      'h:Reply-To': 'visitor@elsewhere.test',
      'h:X-Order': '1017',
      'v:order': '1017',
      'o:tag': ['order', 'shop'],
      'o:tracking-opens': 'no',
      attachment: { filename: 'a.txt', data: Buffer.from('a file') },
    })) as { id: string; message: string }
    assert.equal(message, 'Queued. Thank you.')
    await until(() => heard('X-Order: 1017').length > 0, 'the email')
    const [text = ''] = heard('X-Order: 1017')
    assert.match(text, /^Reply-To: visitor@elsewhere\.test\r$/m)
    assert.ok(text.includes(`Message-ID: ${id}\r\n`))
    const { body } = await postrider.api('GET', '/outbound-emails?sort=-created_at&page[size]=1')
    const { attributes } = body.data[0]
    assert.deepEqual(
      [attributes.tags, attributes.metadata, attributes.track_opens, attributes.cc],
      [['order', 'shop'], { order: '1017' }, false, ['carl@there.test']],
    )
  })

  test('sends one email to each recipient with their variables', async () => {
    const { id } = await client().messages.create('here.test', {
      ...MESSAGE,
      to: ['Bob <bob@there.test>', 'eve@there.test'],
      subject: 'Batch for %recipient.name%',
      html: '<p>%recipient.name% %recipient_email% %recipient.none%</p>',
      'h:List-Unsubscribe': '<%recipient.link%>, <%tag_unsubscribe_email%>',
      'h:List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      'v:email-id': 'abc',
      'recipient-variables': JSON.stringify({
        'bob@there.test': { name: 'Bob & Co', link: 'https://blog.example/u/1' },
        'EVE@there.test': { name: '%recipient.link%', link: 'https://blog.example/u/2' },
      }),
    })
    await until(() => heard('Batch for').length === 2, 'both emails')
    const [bob = ''] = heard('Batch for Bob & Co')
    assert.match(bob, /^To: "?Bob"? <bob@there\.test>\r$/m)
    assert.ok(bob.includes('<p>Bob & Co bob@there.test %recipient.none%</p>'), bob)
    assert.match(bob, /^List-Unsubscribe: <https:\/\/blog\.example\/u\/1>,\s+<mailto:/m)
    assert.match(bob, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m)
    assert.ok(!bob.includes('eve@there.test'))
    // Events have the id of the batch.
    const events = () =>
      ask('GET', `/v3/here.test/events?${new URLSearchParams({ event: 'delivered', 'message-id': id! }).toString()}`)
    await until(async () => (await events()).body.items.length === 2, 'both events')
    const [first] = (await events()).body.items
    assert.deepEqual([`<${first.message.headers['message-id']}>`, first['user-variables']], [id, { 'email-id': 'abc' }])
    // A value is not filled again.
    assert.equal(heard('Batch for %recipient.link%').length, 1)
  })

  test('lists events with paging, and removes a suppression', async () => {
    const events = () => client().events.get('here.test', { event: 'delivered', ascending: 'yes', limit: 2 })
    await until(async () => (await events()).items.length === 2, 'two events')
    const first = await events()
    const seen = new Set(first.items.map(({ id }) => id))
    let { pages } = first
    for (;;) {
      const next = await client().events.get('here.test', { page: pages.next?.page })
      if (next.items.length === 0) break
      for (const { id } of next.items) {
        assert.ok(!seen.has(id), 'an event came twice')
        seen.add(id)
      }
      pages = next.pages
    }
    const { body } = await postrider.api('GET', '/email-events?filter[event]=email.delivered&page[size]=100')
    assert.equal(seen.size, body.data.length)
  })

  test('lists and shows domains', async () => {
    const [own] = await client().domains.list()
    assert.deepEqual([own!.name, own!.state], ['here.test', 'active'])
    const one = await client().domains.get('here.test')
    assert.ok(one.sending_dns_records!.some(({ record_type, valid }) => record_type === 'TXT' && valid === 'valid'))
  })
})

test('a key that is missing or wrong is 401, and one without the scope 403', async () => {
  const statusOf = async (headers: Record<string, string>) => {
    const { body, status } = await postrider.raw('/v3/here.test/messages', {
      method: 'POST',
      headers,
      body: new URLSearchParams(MESSAGE),
    })
    assert.ok(body.message)
    return status
  }
  assert.equal(await statusOf({}), 401)
  assert.equal(await statusOf({ Authorization: basic('pr_wrong') }), 401)
  assert.equal(await statusOf({ Authorization: basic(await postrider.tokenFor(postrider.user, ['emails:read'])) }), 403)
  const { headers } = await postrider.raw('/v3/here.test/events')
  assert.equal(headers.get('www-authenticate'), 'Basic realm="Postrider"')
})

test('refuses what it cannot do safely, and names the field', async () => {
  for (const [fields, field, text] of [
    [{ from: 'ann@there.test' }, 'from', /does not belong to here\.test/],
    [{ from: 'nobody' }, 'from', /one email address/],
    [{ to: ['bob@there.test', 'eve@there.test'] }, 'to', /recipient-variables/],
    [{ to: '' }, 'to', /required/],
    [{ html: '' }, 'text', /neither/],
    [{ 'o:testmode': 'yes' }, 'o:testmode', /no test mode/],
    [{ template: 'welcome' }, 'template', /no templates/],
    [{ 't:variables': '{}' }, 't:variables', /no templates/],
    [{ 'o:require-tls': 'yes' }, 'o:require-tls', /Require/],
    [{ 'o:tracking-opens': 'maybe' }, 'o:tracking-opens', /"yes" or "no"/],
    [{ 'o:tracking-opens': 'yes' }, 'o:tracking-opens', /cannot be true/],
    [{ 'o:deliverytime': 'tomorrow' }, 'o:deliverytime', /seconds since 1970/],
    [{ 'h:DKIM-Signature': 'x' }, 'h:DKIM-Signature', /reserved|set/],
    [{ 'h:List-Unsubscribe': 'none' }, 'h:List-Unsubscribe', /angle brackets/],
    [{ 'recipient-variables': '[]' }, 'recipient-variables', /JSON object/],
    [{ 'recipient-variables': '{}', cc: 'eve@there.test' }, 'cc', /each copy/],
    [{ 'recipient-variables': '{}', to: ['bob@there.test', 'x'] }, 'to', /"x" \(number 2/],
    [{ 'recipient-variables': '{}', html: '%unsubscribe_url%' }, 'html', /not supported/],
    [
      { 'recipient-variables': '{"bob@there.test":{"a":[]}}' },
      'recipient-variables',
      /^A value in "recipient-variables" must/,
    ],
    [{ attachment: 'text' }, 'attachment', /must be a file/],
    [{ html: new File(['x'], 'x.html') }, 'html', /must be text/],
  ] as const) {
    const { body, status } = await post({ ...MESSAGE, ...(fields as Record<string, string>) })
    assert.equal(status, 400, JSON.stringify([fields, body]))
    assert.equal(body.errors[0].field, field, JSON.stringify(body))
    assert.match(body.message, text, JSON.stringify(fields))
  }
})

test('accepts what the original accepts, and names ignored fields in a header', async () => {
  const { headers } = await sent({
    ...MESSAGE,
    'o:testmode': 'no',
    'o:tracking': 'no',
    'o:skip-verification': 'yes',
    'amp-html': '<html></html>',
    'h:Sender': 'ann@here.test',
    'h:Content-Type': 'text/html',
    colour: 'red',
  })
  assert.equal(headers.get('postrider-ignored'), 'o:skip-verification, amp-html, h:Sender, h:Content-Type, colour')
  // A domain below the sending domain leads to it.
  await sent(MESSAGE, '/v3/mg.here.test/messages')
  const urlencoded = await ask('POST', '/v3/here.test/messages', { body: new URLSearchParams(MESSAGE) })
  assert.equal(urlencoded.status, 200)
})

test('sends a batch without one-click where an unsubscribe link is not https', async () => {
  const list = { 'h:List-Unsubscribe': '<%recipient.link%>', 'h:List-Unsubscribe-Post': 'List-Unsubscribe=One-Click' }
  const linksOf = async (subject: string, links: string[]) => {
    const to = links.map((_, n) => `n${n}@there.test`)
    const values = Object.fromEntries(links.map((link, n) => [to[n], { link }]))
    await sent({ ...MESSAGE, ...list, to, subject, 'recipient-variables': JSON.stringify(values) })
    await until(() => heard(subject).length === links.length, 'the emails')
    return heard(subject).map((text) => /^List-Unsubscribe-Post:/m.test(text))
  }
  const [own, safe] = ['http://blog.example/u', 'HTTPS://blog.example/u']
  assert.deepEqual(await linksOf('Both https', [safe, safe]), [true, true])
  assert.deepEqual(await linksOf('Only one https', [safe, own]), [false, false])
  assert.match(heard('Only one https').join(''), /^List-Unsubscribe: <http:\/\/blog\.example\/u>\r$/m)
})

test('names a problem that many recipients have once', async () => {
  const to = Array.from({ length: 50 }, (_, n) => `n${n}@there.test`)
  const values = JSON.stringify(Object.fromEntries(to.map((address) => [address, { link: 'none' }])))
  const { body, status } = await post({
    ...MESSAGE,
    to,
    'recipient-variables': values,
    'h:List-Unsubscribe': '<%recipient.link%>',
  })
  assert.equal(status, 400, JSON.stringify(body).slice(0, 500))
  assert.equal(body.errors.length, 50)
  assert.ok(body.message.length < 500, body.message.slice(0, 2000))
})

test('schedules a message by a date or by seconds', async () => {
  const due = postrider.clock.now() + 2 * HOUR
  for (const time of [new Date(due).toUTCString(), String(due / 1000)]) {
    const { email } = await sent({ ...MESSAGE, 'o:deliverytime': time })
    const { scheduled_at, status } = await show(email)
    assert.deepEqual([status, Math.floor(Date.parse(scheduled_at!) / 1000)], ['scheduled', Math.floor(due / 1000)])
  }
})

test('sends a MIME message without its options', async () => {
  const raw = [
    'From: ann@here.test',
    'To: bob@there.test',
    'Subject: Whole message',
    'X-Mailgun-Tag: one',
    'X-Mailgun-Tag: two',
    'X-Mailgun-Variables: {"order":',
    ' "7"}',
    'MIME-Version: 1.0',
    'Content-Type: text/plain',
    '',
    'Hello',
    '',
  ].join('\r\n')
  const { email } = await sent(
    { to: 'bob@there.test', message: new File([raw], 'message.eml') },
    '/v3/here.test/messages.mime',
  )
  const { metadata, tags } = await show(email)
  assert.deepEqual([tags, metadata], [['one', 'two'], { order: '7' }])
  await until(() => heard('Whole message').length > 0, 'the message')
  assert.ok(!heard('Whole message')[0]!.includes('X-Mailgun'))
  const drop = await post(
    { to: 'bob@there.test', message: raw.replace('X-Mailgun-Tag: one', 'X-Mailgun-Drop-Message: yes') },
    '/v3/here.test/messages.mime',
  )
  assert.equal(drop.status, 400)
})

test('tells a suppressed recipient by an event with the code of Mailgun, and removes a suppression', async () => {
  const { clock, store } = postrider.appliance.deps
  const add = (address: string, reason: 'hard_bounce' | 'unsubscribe' | 'complaint' | 'soft_bounce') =>
    store.write((tx) =>
      suppress(
        tx,
        {
          user_key: postrider.user.key,
          domain_key: domain.key,
          address,
          reason,
          scope: 'all',
          source: 'smtp',
          ...(reason === 'soft_bounce' && { expires_at: clock.now() + DAY }),
        },
        clock.now(),
      ),
    )
  for (const [reason, code, why] of [
    ['hard_bounce', 605, 'suppress-bounce'],
    ['unsubscribe', 606, 'suppress-unsubscribe'],
    ['complaint', 607, 'suppress-complaint'],
    ['soft_bounce', 554, 'generic'],
  ] as const) {
    const to = `${reason.replace('_', '-')}@there.test`
    await add(to, reason)
    const { id } = await sent({ ...MESSAGE, to, 'o:tag': 'gone' })
    const { body } = await ask('GET', `/v3/here.test/events?recipient=${to}&event=failed`)
    const [event] = body.items
    assert.deepEqual(
      [event.event, event.severity, event.reason, event['delivery-status'].code, event.message.headers['message-id']],
      ['failed', 'permanent', why, code, id.slice(1, -1)],
    )
    assert.notEqual(event['delivery-status'].message, '')
    assert.equal(typeof event.timestamp, 'number')
  }
  const bounces = await ask('GET', '/v3/here.test/bounces')
  assert.deepEqual(bounces.body.items.map(({ address }: { address: string }) => address).toSorted(), [
    'hard-bounce@there.test',
    'soft-bounce@there.test',
  ])
  assert.equal(
    (await ask('GET', '/v3/here.test/unsubscribes/unsubscribe@there.test')).body.address,
    'unsubscribe@there.test',
  )
  assert.equal((await ask('DELETE', '/v3/here.test/unsubscribes/unsubscribe@there.test')).status, 200)
  assert.equal((await ask('DELETE', '/v3/here.test/unsubscribes/unsubscribe@there.test')).status, 404)
  const permanent = await ask('DELETE', '/v3/here.test/bounces/hard-bounce@there.test')
  assert.equal(permanent.status, 400, JSON.stringify(permanent.body))
  const page = (await ask('GET', '/v3/here.test/bounces?limit=1')).body
  const next = (await ask('GET', page.paging.next.slice(postrider.url.length))).body
  assert.deepEqual([page.items.length, next.items.length], [1, 1])
  assert.notEqual(page.items[0].address, next.items[0].address)
  const end = (await ask('GET', next.paging.next.slice(postrider.url.length))).body
  assert.deepEqual(end.items, [])
})

test('filters events by expressions, and rejects a broken one', async () => {
  const both = await sent({ ...MESSAGE, 'o:tag': ['bulk-email', 'site a'] })
  const one = await sent({ ...MESSAGE, 'o:tag': ['bulk-email'] })
  for (const { email } of [both, one]) await become(email, 'delivered')
  const ids = async (query: Record<string, string>) => {
    const { body, status } = await ask('GET', `/v3/here.test/events?${new URLSearchParams(query).toString()}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body.items.map(
      (item: { message: { headers: { 'message-id': string } } }) => item.message.headers['message-id'],
    )
  }
  const [b, o] = [both.id.slice(1, -1), one.id.slice(1, -1)]
  assert.deepEqual((await ids({ tags: 'bulk-email' })).toSorted(), [b, o].toSorted())
  assert.deepEqual(await ids({ tags: 'bulk-email AND "Site A"' }), [b])
  assert.deepEqual(await ids({ event: 'delivered OR opened', 'message-id': `<${b}>` }), [b])
  assert.deepEqual(await ids({ event: 'accepted OR stored', tags: 'bulk-email' }), [])
  assert.deepEqual(await ids({ tags: 'bulk-email', severity: 'permanent' }), [])
  for (const query of [
    'event=delivered+OR',
    'event=NOT+failed',
    'event=(failed)',
    'tags=%22a',
    'event=',
    'limit=0',
    'begin=x',
    'ascending=up',
    'list=x',
  ])
    assert.equal((await ask('GET', `/v3/here.test/events?${query}`)).status, 400, query)
  for (const [query, message] of [
    ['event=delivered+or+opened', /operator or in lower case. Write OR/],
    ['tags=a+And+b', /operator And in lower case. Write AND/],
    ['colour=a', /"colour" is not supported. Use begin, end, .*recipient/],
  ] as const) {
    const { body, status } = await ask('GET', `/v3/here.test/events?${query}`)
    assert.equal(status, 400)
    assert.match(body.message, message)
  }
  assert.deepEqual(await ids({ tags: '"or"', pretty: 'yes' }), [])
})

test('lists events in both directions and between two times', async () => {
  const times = async (query: string): Promise<number[]> => {
    const { body, status } = await ask('GET', `/v3/here.test/events?${query}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body.items.map(({ timestamp }: { timestamp: number }) => timestamp)
  }
  const all = await times('ascending=yes&limit=300')
  assert.ok(all.length > 3)
  assert.deepEqual(await times('limit=300'), all.toReversed())
  postrider.clock.advance(HOUR)
  const begin = postrider.clock.now() / 1000
  const { email } = await sent(MESSAGE)
  await become(email, 'delivered')
  assert.equal((await times(`begin=${begin}&end=${begin + 60}`)).length, 1)
  assert.equal((await times(`begin=${begin + 60}&end=${begin}`)).length, 1)
  assert.equal((await times(`begin=${begin + 60}&ascending=no`)).length, all.length + 1)
  assert.equal((await times(`end=${begin}&ascending=no`)).length, 1)
  assert.equal((await times(`begin=${begin + 60}&end=${begin + 120}`)).length, 0)
})

test('a filter that matches no event reads many at once, and other work has its turn', async () => {
  const { store } = postrider.appliance.deps
  const { email } = await sent(MESSAGE)
  await become(email, 'delivered')
  const columns = 'user_key, domain_key, email_key, type, data, created_at, campaign_key'
  await store.write((tx) => {
    tx.run(
      raw(
        `with recursive numbers(n) as (select 1 union all select n + 1 from numbers where n < 1000)
         insert into events (id, ${columns}) select 'copy ' || n, ${columns}
         from (select * from events where type = 'email.delivered' order by key desc limit 1), numbers`,
      ),
    )
  })
  let [turns, isOver, lists] = [0, false, 0]
  const take = (): void => void (isOver || (turns++, setImmediate(take)))
  store.watch((sql) => void (lists += Number(/from "?events"?.* limit/s.test(sql))))
  setImmediate(take)
  const { body } = await ask('GET', '/v3/here.test/events?limit=1&subject=none')
  isOver = true
  store.watch(() => {})
  assert.deepEqual(body.items, [])
  assert.ok(lists >= 10 && lists < 30, `${lists} lists`)
  assert.ok(turns >= 10, `${turns} turns`)
  await store.write((tx) => tx.run(raw(`delete from events where id like 'copy %'`)))
})

test('a poller that follows "next" gets each event once, and later ones as well', async () => {
  const start = (await ask('GET', `/v3/here.test/events?ascending=yes&begin=${postrider.clock.now() / 1000}`)).body
  let { next } = start.paging
  const poll = async (): Promise<string[]> => {
    const { body, status } = await ask('GET', next.slice(postrider.url.length))
    assert.equal(status, 200, JSON.stringify(body))
    next = body.paging.next
    return body.items.map(({ id }: { id: string }) => id)
  }
  const seen = start.items.map(({ id }: { id: string }) => id)
  for (let round = 0; round < 3; round++) {
    const { email } = await sent(MESSAGE)
    await become(email, 'delivered')
    const found = await poll()
    assert.equal(found.length, 1)
    assert.ok(!seen.includes(found[0]))
    seen.push(found[0]!)
    assert.deepEqual(await poll(), [])
  }
  // A token of another account or domain, or a broken one.
  const path = next.slice(postrider.url.length)
  const foreign = await postrider.raw(path.replace('here.test', 'other.test'), {
    headers: { Authorization: basic(postrider.otherToken) },
  })
  assert.equal(foreign.status, 400)
  assert.equal((await ask('GET', `${path}x`)).status, 400)
})

test('answers 404 for unknown domains and paths, 405 with Allow, and 403 to a browser', async () => {
  const unknown = await ask('GET', '/v3/nowhere.test/events')
  assert.deepEqual([unknown.status, unknown.body.message], [404, 'Domain not found: nowhere.test'])
  const foreign = await ask('GET', '/v3/other.test/events')
  assert.deepEqual([foreign.status, foreign.body.message], [404, 'Domain not found: other.test'])
  const lists = await ask('GET', '/v3/lists')
  assert.deepEqual([lists.status, /\/audiences/.test(lists.body.message)], [404, true])
  const wrong = await ask('DELETE', '/v3/here.test/messages')
  assert.deepEqual([wrong.status, wrong.headers.get('allow')], [405, 'POST'])
  const browser = await ask('POST', '/v3/here.test/messages', {
    headers: { Origin: 'https://shop.example' },
    body: new URLSearchParams(MESSAGE),
  })
  assert.equal(browser.status, 403)
})

test('refuses a form with too many fields before it is parsed', async () => {
  const many = Array.from({ length: 2501 }, (_, n) => `v:${n}=x`).join('&')
  const headers = { 'Content-Type': 'application/x-www-form-urlencoded' }
  assert.equal((await ask('POST', '/v3/here.test/messages', { headers, body: many })).status, 413)
  assert.equal(
    (await ask('POST', '/v3/here.test/messages', { headers: { 'Content-Type': 'application/json' }, body: '{}' }))
      .status,
    400,
  )
})

test('refuses lists, JSON and variables that would grow far beyond their bytes', async () => {
  const large = JSON.stringify({ 'bob@there.test': { a: 'x'.repeat(5000) } })
  for (const fields of [
    { to: ','.repeat(2_000_000) },
    { 'recipient-variables': `{"bob@there.test":${'['.repeat(100_000)}` },
    { 'recipient-variables': `{"bob@there.test":[${'0,'.repeat(200_000)}0]}` },
    { 'v:a': 'x'.repeat(10_000) },
    { 'recipient-variables': large, 'v:a': '%recipient.a%'.repeat(500) },
  ] as Record<string, string>[]) {
    const { body, status } = await post({ ...MESSAGE, ...fields })
    assert.equal(status, 400, JSON.stringify(body).slice(0, 300))
  }
})
