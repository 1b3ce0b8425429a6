// POST /outbound-emails: accepted requests, the error of each rejected one, and that an email arrives as accepted with
// 201. Specification "Outbound emails", decisions D3, D6, D7, D22, D27, D30.
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { raw } from '../../src/store/query.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { registerDomain } from '../../src/domains/lifecycle.ts'
import { BODY_ABOVE, SPOOL_ABOVE } from '../../src/store/spool.ts'
import { startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { mail, mailsOf } from './mails.ts'

const MEGABYTE = 1024 * 1024

const { become, post, tryPost } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    domains: ['here.test', 'mail.firm.co.uk', 'xn--bcher-kva.test'],
    otherDomains: ['other.test'],
    routes: ['there.test'],
  }),
)

const emails = (): number =>
  postrider.appliance.deps.store.first(raw<{ n: number }>('select count(*) as n from outbound_emails'))!.n
const spooled = (): string[] => {
  try {
    return readdirSync(join(postrider.dataDir, 'spool'))
  } catch {
    return []
  }
}

/** The request was rejected with exactly these errors, and no row was stored. */
async function refused(
  attributes: Record<string, unknown>,
  status: number,
  ...errors: { code: string; pointer: string }[]
): Promise<Answer> {
  const before = emails()
  const answer = await tryPost(attributes)
  const told = JSON.stringify(answer.body).slice(0, 2000)
  assert.equal(answer.status, status, told)
  type Problem = { status: string; code: string; source?: { pointer: string } }
  assert.deepEqual(
    (answer.body.errors as Problem[]).map(({ code, source }) => ({ code, pointer: source?.pointer })),
    errors,
    told,
  )
  for (const error of answer.body.errors as Problem[]) assert.equal(error.status, String(status))
  assert.equal(emails(), before)
  return answer
}
const at = (code: string, name = ''): { code: string; pointer: string } => ({
  code,
  pointer: name === '' ? '/data/attributes' : `/data/attributes/${name}`,
})

test('returns the same 404 for an unknown sending domain and for that of another user (rule 1)', async () => {
  const unknown = await refused({ from: 'ann@nowhere.test' }, 404, at('not_found', 'from'))
  const foreign = await refused({ from: 'ann@other.test' }, 404, at('not_found', 'from'))
  const same = ({ body }: Answer): string =>
    JSON.stringify({ ...body.errors[0], id: '' }).replace(/(nowhere|other)\.test/g, 'x')
  assert.equal(same(foreign), same(unknown))
  // A subdomain is a separate domain.
  await refused({ from: 'ann@sub.here.test' }, 404, at('not_found', 'from'))
})

test('a domain that is not active: 422 domain_not_active (rule 2)', async () => {
  const domain = await registerDomain({ ...postrider.appliance.deps, ring: () => {} }, postrider.user.key, {
    name: 'young.test',
    purpose: 'both',
  })
  assert.equal(domainByKey(postrider.appliance.deps.store, domain.key)?.status, 'pending')
  await refused({ from: 'ann@young.test' }, 422, at('domain_not_active', 'from'))
})

test('no active subscription: 403, for past_due and revoked alike (rule 4)', async () => {
  const { store } = postrider.appliance.deps
  const set = (state: string) =>
    store.write((tx) =>
      tx.run(raw('update users set subscription_state = ? where key = ?', [state, postrider.other.key])),
    )
  const send = () => postrider.asOther('POST', '/outbound-emails', mail({ from: 'bob@other.test' }))
  for (const state of ['past_due', 'revoked']) {
    await set(state)
    const { status, body } = await send()
    assert.equal(status, 403, state)
    assert.equal(body.errors[0].code, 'subscription_inactive')
  }
  await set('active')
  assert.equal((await send()).status, 201)
})

test('reports missing, invalid and unknown attributes at once, each with its pointer', async () => {
  const { status, body } = await postrider.api('POST', '/outbound-emails', {
    data: { type: 'outbound-emails', attributes: { from: 'ann@here.test', to: 'nobody', html: 7, colour: 'red' } },
  })
  assert.equal(status, 422, JSON.stringify(body))
  const pointers = body.errors.map(({ source }: { source: { pointer: string } }) => source.pointer).toSorted()
  assert.deepEqual(pointers, [
    '/data/attributes',
    '/data/attributes/colour',
    '/data/attributes/html',
    '/data/attributes/to',
  ])
})

test('reply_to accepts only the domain family, and reports each other address with its pointer (D22)', async () => {
  for (const good of [
    'ann@here.test',
    'Ann <ann@sub.here.test>',
    ['ann@here.test', '"Bob" <bob@a.b.here.test>'],
    [],
    null,
  ])
    await post({ reply_to: good })
  await post({ from: 'ann@mail.firm.co.uk', reply_to: ['ann@firm.co.uk', 'ann@x.mail.firm.co.uk'] })
  await post({ from: 'ann@bücher.test', reply_to: ['ann@xn--bcher-kva.test', 'ann@www.BÜCHER.test'] })
  const outside = (name: string) => at('address_outside_domain', name)
  await refused({ reply_to: ['ann@there.test'] }, 422, outside('reply_to/0'))
  await refused(
    {
      reply_to: [
        'ann@here.test',
        'eve@evil.test',
        'ann@sub.here.test',
        'eve@xhere.test',
        'eve@test'.concat('ing.test'),
      ],
    },
    422,
    outside('reply_to/1'),
    outside('reply_to/3'),
    outside('reply_to/4'),
  )
  await refused({ from: 'ann@mail.firm.co.uk', reply_to: ['ann@co.uk'] }, 422, outside('reply_to/0'))
  await refused({ from: 'ann@mail.firm.co.uk', reply_to: ['ann@www.firm.co.uk'] }, 422, outside('reply_to/0'))
  await refused({ reply_to: ['ann@here.test', 'not an address'] }, 422, at('invalid', 'reply_to/1'))
})

test('reply_to: a repeated address does not shift the pointer of the next', async () => {
  const reply_to = ['ann@here.test', 'Ann <ANN@here.test>', 'eve@evil.test']
  await refused({ reply_to }, 422, at('address_outside_domain', 'reply_to/2'))
})

test('reply_to: the error of a single address points to the attribute', async () => {
  await refused({ reply_to: 'eve@evil.test' }, 422, at('address_outside_domain', 'reply_to'))
})

test('reply_to accepts ten addresses and rejects eleven', async () => {
  const list = (count: number) => Array.from({ length: count }, (_, n) => `r${n}@here.test`)
  const id = await post({ reply_to: list(10) })
  const shown = await become(id, 'delivered')
  assert.deepEqual(shown['reply_to'], list(10))
  const heard = exchanger.heard.find(({ message }) => message.includes(shown['message_id']!))!
  const parsed = await simpleParser(heard.message)
  assert.deepEqual(
    parsed.replyTo?.value.map(({ address }) => address),
    list(10),
  )
  await refused({ reply_to: list(11) }, 422, at('too_long', 'reply_to'))
})

test('limits: subject 998 bytes, html and text 5 MB, each on both sides (D27)', async () => {
  await post({ subject: 's'.repeat(998) })
  await post({ subject: 'ü'.repeat(499) })
  await post({ subject: `${'word '.repeat(199)}end` })
  await refused({ subject: 's'.repeat(999) }, 422, at('too_long', 'subject'))
  await refused({ subject: `${'ü'.repeat(499)}x` }, 422, at('too_long', 'subject'))
  await post({ html: 'h'.repeat(5 * MEGABYTE) })
  await post({ text: 't'.repeat(5 * MEGABYTE) })
  await refused({ html: 'h'.repeat(5 * MEGABYTE + 1) }, 422, at('too_long', 'html'))
  await refused({ text: `${'t'.repeat(5 * MEGABYTE - 1)}ü` }, 422, at('too_long', 'text'))
  await refused(
    { html: 'h'.repeat(5 * MEGABYTE + 1), subject: 's'.repeat(999) },
    422,
    at('too_long', 'subject'),
    at('too_long', 'html'),
  )
})

test('rejects characters that would end a header field, in every attribute', async () => {
  for (const evil of ['\r', '\n', '\r\n', '\0', '\u000b', '\u0085', '\u2028', '\u2029', '\r\nBcc: eve@evil.test']) {
    await refused({ subject: `a${evil}b` }, 422, at('invalid', 'subject'))
    await refused({ to: `"A${evil}" <bob@there.test>` }, 422, at('invalid', 'to'))
    await refused({ from: `"A${evil}" <ann@here.test>` }, 422, at('invalid', 'from'))
    await refused({ reply_to: [`"A${evil}" <ann@here.test>`] }, 422, at('invalid', 'reply_to/0'))
  }
  // Half a character is not text.
  const body = JSON.stringify(mail({ subject: 'x' })).replace('"x"', '"\\ud800"')
  const { status } = await postrider.api('POST', '/outbound-emails', body)
  assert.equal(status, 422)
})

test('accepts addresses in every supported form, and normalises them in the envelope', async () => {
  for (const [to, envelope] of [
    ['bob@there.test', 'bob@there.test'],
    ['<bob@there.test>', 'bob@there.test'],
    ['Bob <bob@THERE.test>', 'bob@there.test'],
    ['"Bob, \\"the\\" Other" <Bob+Tag@there.test>', 'Bob+Tag@there.test'],
    ['Bøb 😀 <bob@there.test>', 'bob@there.test'],
    ['"b b"@there.test', '"b b"@there.test'],
  ] as const) {
    const id = await post({ to })
    const shown = await become(id, 'delivered')
    assert.equal(shown['to'], to)
    const heard = exchanger.heard.find(({ message }) => message.includes(shown['message_id']!))!
    assert.deepEqual(heard.to, [envelope])
  }
  for (const to of [
    'bob',
    'bob@there',
    'bob@there.test.',
    'bob@there.test, eve@there.test',
    'bob@[127.0.0.1]',
    'Friends: bob@there.test;',
    'bob@there.test (Bob)',
    '',
    ' ',
  ])
    await refused({ to }, 422, at('invalid', 'to'))
  for (const to of [null, 7, ['bob@there.test'], { address: 'bob@there.test' }])
    assert.equal((await tryPost({ to })).status, 422, JSON.stringify(to))
})

test('a sender with a non-ASCII domain selects the domain by its A-label', async () => {
  const id = await post({ from: 'Jürgen <jurgen@BÜCHER.test>' })
  const shown = await become(id, 'delivered')
  assert.match(shown['message_id']!, /^<[^@<>]+@xn--bcher-kva\.test>$/)
  const heard = exchanger.heard.find(({ message }) => message.includes(shown['message_id']!))!
  const parsed = await simpleParser(heard.message)
  assert.equal(parsed.from?.value[0]?.name, 'Jürgen')
  assert.match(heard.message, /^From: [^\r\n]*<jurgen@xn--bcher-kva\.test>\r$/m)
  assert.match(heard.message.replace(/\r\n[ \t]+/g, ' '), /DKIM-Signature:[^\r]* d=xn--bcher-kva\.test;/)
})

test('subject, html, text, addresses and message id arrive as posted', async () => {
  const html = '<p>Ünïcödé \u00a0 &amp; “quotes”</p>\n.\nFrom here\n'
  const text = 'Ünïcödé\n.\n..\nFrom here\n\ttab'
  const id = await post({
    from: '"Ann, A." <ann@here.test>',
    to: '名前 <bob@there.test>',
    subject: 'Grüße: “all”',
    html,
    text,
  })
  const shown = await become(id, 'delivered')
  const heard = exchanger.heard.find(({ message }) => message.includes(shown['message_id']!))!
  const parsed = await simpleParser(heard.message, { skipHtmlToText: true, skipTextToHtml: true })
  assert.equal(parsed.subject, 'Grüße: “all”')
  assert.equal(String(parsed.html).trimEnd(), html.trimEnd())
  assert.equal(parsed.text?.trimEnd(), text)
  assert.equal(parsed.messageId, shown['message_id'])
  assert.deepEqual(parsed.from?.value, [{ address: 'ann@here.test', name: 'Ann, A.' }])
  assert.deepEqual([parsed.to!].flat()[0]?.value, [{ address: 'bob@there.test', name: '名前' }])
  assert.equal(shown['html'], html)
  assert.equal(shown['text'], text)
})

test('idempotency: the same payload returns the same email, another returns 409, and keys are per user (D30)', async () => {
  const attributes = { idempotency_key: 'order 1', reply_to: ['ann@here.test'], text: null }
  const first = await tryPost(attributes)
  assert.equal(first.status, 201)
  assert.equal(first.headers.get('idempotent-replayed'), null)
  const before = emails()
  // The order of members does not count, nor whether null is written out.
  for (const again of [attributes, { reply_to: ['ann@here.test'], idempotency_key: 'order 1' }]) {
    const second = await tryPost(again)
    assert.equal(second.status, 201)
    assert.equal(second.headers.get('idempotent-replayed'), 'true')
    assert.equal(second.body.data.id, first.body.data.id)
    assert.equal(second.headers.get('location'), first.headers.get('location'))
  }
  for (const change of [
    { subject: 'Another' },
    { html: '<p>Another</p>' },
    { text: 'Another' },
    { to: 'eve@there.test' },
    { from: 'eve@here.test' },
    { reply_to: [] },
  ])
    await refused({ ...attributes, ...change }, 409, at('idempotency_conflict', 'idempotency_key'))
  assert.equal(emails(), before)
  const other = await postrider.asOther(
    'POST',
    '/outbound-emails',
    mail({ from: 'bob@other.test', idempotency_key: 'order 1' }),
  )
  assert.equal(other.status, 201)
  assert.notEqual(other.body.data.id, first.body.data.id)
  // After delivery it is the same email still.
  await become(first.body.data.id, 'delivered')
  const late = await tryPost(attributes)
  assert.equal(late.status, 201)
  assert.equal(late.body.data.attributes.status, 'delivered')
  // Once the record is gone the key is free.
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${first.body.data.id}`)).status, 204)
  const second = await tryPost(attributes)
  assert.equal(second.status, 201)
  assert.notEqual(second.body.data.id, first.body.data.id)
})

test('idempotency keys: 1 to 256 characters', async () => {
  await post({ idempotency_key: 'k' })
  await post({ idempotency_key: 'k'.repeat(256) })
  await post({ idempotency_key: null })
  await refused({ idempotency_key: '' }, 422, at('invalid', 'idempotency_key'))
  await refused({ idempotency_key: 'k'.repeat(257) }, 422, at('too_long', 'idempotency_key'))
})

test('an idempotency key of 256 characters can have any letters', async () => {
  await post({ idempotency_key: 'ü'.repeat(256) })
  await refused({ idempotency_key: 'ü'.repeat(257) }, 422, at('too_long', 'idempotency_key'))
})

test('ten large parallel requests with one key leave one file in the spool', async () => {
  const before = spooled().length
  const attributes = { idempotency_key: 'large at once', html: `<p>${'large '.repeat(60_000)}</p>` }
  const answers = await Promise.all(Array.from({ length: 10 }, () => tryPost(attributes)))
  assert.equal(new Set(answers.map(({ body }) => body.data.id)).size, 1)
  await become(answers[0]!.body.data.id, 'delivered')
  assert.equal(spooled().length, before + 1)
})

test('a large body is stored in the spool, arrives complete, and is deleted with its email', async () => {
  const html = `<p>${'größer als 256 KB, '.repeat(20_000)}</p>`
  assert.ok(Buffer.byteLength(html) > 256 * 1024)
  const before = spooled()
  const id = await post({ html })
  assert.deepEqual(spooled().filter((name) => !before.includes(name)).length, 1)
  const shown = await become(id, 'delivered')
  assert.equal(shown['html'], html)
  const heard = exchanger.heard.find(({ message }) => message.includes(shown['message_id']!))!
  const parsed = await simpleParser(heard.message, { skipHtmlToText: true })
  assert.equal(String(parsed.html).trimEnd(), html)
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${id}`)).status, 204)
  assert.deepEqual(spooled(), before)
  assert.equal((await postrider.api('GET', `/outbound-emails/${id}`)).status, 404)
})

test('the 201 returns the same as GET without reading the body again', async () => {
  const file = { filename: 'a.txt', content: Buffer.from('text').toString('base64') }
  for (const attributes of [
    { html: '<p>small</p>', text: 'größer and \u2028', headers: { 'X-Two': '2', 'X-One': '1' } },
    { html: 'x'.repeat(100_000), text: null },
    { html: '', text: 'y'.repeat(300_000), attachments: [file, { ...file, content_id: 'shown' }] },
  ]) {
    const asked: string[] = []
    postrider.appliance.deps.store.watch((sql) => asked.push(sql))
    const { body, status } = await tryPost(attributes)
    postrider.appliance.deps.store.watch(() => {})
    assert.equal(status, 201)
    assert.deepEqual(
      asked.filter((sql) => /select "content", "spool"/.test(sql)),
      [],
    )
    const shown = (await postrider.api('GET', `/outbound-emails/${body.data.id}`)).body.data
    const lasting = ({ attributes: { html, text, headers, attachments } }: typeof shown) =>
      JSON.stringify({ html, text, headers, attachments })
    assert.equal(lasting(body.data), lasting(shown))
  }
})

test('bodies around the spool threshold arrive complete', async () => {
  for (const length of [BODY_ABOVE - 50, BODY_ABOVE - 20, BODY_ABOVE, BODY_ABOVE + 1, SPOOL_ABOVE + 1]) {
    const html = 'x'.repeat(length)
    const id = await post({ html })
    assert.equal((await become(id, 'delivered'))['html'], html)
    const { message } = exchanger.heard.find((heard) => heard.message.includes(id))!
    const parsed = await simpleParser(message, { skipHtmlToText: true })
    assert.equal(String(parsed.html).trimEnd(), html)
  }
})
