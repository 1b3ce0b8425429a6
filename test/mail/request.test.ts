// POST /outbound-emails, attribute by attribute, each at its limits: further recipients, disclosure, agents, custom
// headers, names, international addresses, idempotency over all of it. Specification "Outbound email", D24, D27, D29,
// D30.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { fieldsOf, heardAs, judgeAll } from '../delivery/captured.ts'
import { mailsOf } from './mails.ts'

const { become, events, post, receiver, show, tryPost } = mailsOf(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger }))

setUp(async () => {
  for (const name of ['there.test', 'else.test', 'xn--bcher-kva.test']) receiver(name)
  await postrider.activeDomain('here.test')
})

interface Problem {
  status: string
  code: string
  detail: string
  source: { pointer: string }
}
/** The request is refused with exactly these "code pointer" pairs, in any order. Returns the errors. */
async function refused(attributes: Record<string, unknown>, ...expected: string[]): Promise<Problem[]> {
  const { status, body } = await tryPost(attributes)
  const at = JSON.stringify(body).slice(0, 1500)
  assert.equal(status, 422, `${JSON.stringify(attributes).slice(0, 300)}: ${at}`)
  const errors = body.errors as Problem[]
  assert.deepEqual(
    errors.map(({ code, source }) => `${code} ${source?.pointer.replace('/data/attributes/', '')}`).toSorted(),
    expected.toSorted(),
    at,
  )
  return errors
}
const people = (count: number, name = 'r') => Array.from({ length: count }, (_, n) => `${name}${n}@there.test`)
/** Sends an email and returns it as shown after delivery, with the captured message. */
async function deliver(attributes: Record<string, unknown>) {
  const shown = await become(await post(attributes), 'delivered')
  // Recipients of one domain share a transaction. Of several, the primary one's is used here.
  const mails = exchanger.heard.filter(({ message }) => message.includes(`Message-ID: ${shown['message_id']}\r\n`))
  return { shown, heard: mails[0]!, mails, fields: fieldsOf(mails[0]!.message) }
}
const field = (fields: [string, string][], name: string): string[] =>
  fields.filter(([each]) => each.toLowerCase() === name.toLowerCase()).map(([, value]) => value)

// ---- cc and bcc

test('cc and bcc accept a string or a list, and repeated addresses are dropped from the envelope', async () => {
  for (const [given, cc, bcc] of [
    [{ cc: 'carl@there.test' }, ['carl'], []],
    [{ bcc: 'dora@there.test' }, [], ['dora']],
    [{ cc: ['"Carl, C." <carl@there.test>', 'Eve <eve@there.test>'] }, ['carl', 'eve'], []],
    [{ cc: [], bcc: [] }, [], []],
    [{ cc: null, bcc: null }, [], []],
    // Within the list, or repeating to.
    [{ cc: ['carl@there.test', 'Carl <carl@THERE.test>', 'bob@there.test', 'eve@there.test'] }, ['carl', 'eve'], []],
    [{ cc: 'Bob <bob@there.test>' }, [], []],
    // Within the list, or repeating to or cc.
    [
      { cc: ['carl@there.test'], bcc: ['dora@there.test', 'dora@there.test', 'bob@there.test', 'C <carl@there.test>'] },
      ['carl'],
      ['dora'],
    ],
    [{ bcc: 'bob@there.test' }, [], []],
    [{ cc: people(10), bcc: people(10, 's') }, people(10), people(10, 's')],
    // Twenty names with ten repeats count as twenty, because the limit applies to the request.
    [{ cc: people(10), bcc: people(10) }, people(10), []],
  ] as [Record<string, unknown>, string[], string[]][]) {
    const whole = (name: string): string => (name.includes('@') ? name : `${name}@there.test`)
    const { shown, heard, fields, mails } = await deliver(given)
    const wanted = [
      'to bob@there.test',
      ...cc.map((name) => `cc ${whole(name)}`),
      ...bcc.map((name) => `bcc ${whole(name)}`),
    ]
    const recipients = shown.recipients as unknown as { role: string; address: string; status: string }[]
    assert.deepEqual(
      recipients.map(({ role, address }) => `${role} ${address}`),
      wanted,
      JSON.stringify(given),
    )
    assert.equal(mails.length, 1, 'one transaction for one domain')
    assert.deepEqual(heard.to.toSorted(), wanted.map((each) => each.split(' ')[1]!).toSorted())
    // Every recipient sees cc. No recipient sees bcc, in any field.
    const parsed = await simpleParser(heard.message)
    assert.deepEqual(
      [parsed.cc ?? []].flat().flatMap(({ value }) => value.map(({ address }) => address)),
      cc.map(whole),
    )
    assert.deepEqual(field(fields, 'bcc'), [])
    for (const name of bcc) assert.ok(!heard.message.includes(whole(name)), `${name} stands nowhere in the mail`)
    // Its owner may read it (D24), but not as a header of the stored mail.
    const { headers, ...rest } = shown as unknown as Record<string, unknown>
    assert.ok(!Object.keys((headers ?? {}) as object).some((name) => name.toLowerCase() === 'bcc'))
    assert.equal(JSON.stringify(rest['bcc'] ?? []).includes('@'), bcc.length > 0)
  }
})

test('cc and bcc reject an eleventh address and invalid ones, each with its pointer', async () => {
  for (const name of ['cc', 'bcc']) {
    await refused({ [name]: people(11) }, `too_long ${name}`)
    await refused({ [name]: 'nobody' }, `invalid ${name}`)
    await refused({ [name]: '' }, `invalid ${name}`)
    await refused({ [name]: 'a@there.test, b@there.test' }, `invalid ${name}`)
    await refused({ [name]: [...people(3), 'nobody', 'd@there.test', ''] }, `invalid ${name}/3`, `invalid ${name}/5`)
    await refused({ [name]: ['a@there.test', 7, null] }, `invalid ${name}/1`, `invalid ${name}/2`)
    await refused({ [name]: 7 }, `invalid ${name}`)
    await refused({ [name]: { address: 'a@there.test' } }, `invalid ${name}`)
    for (const evil of ['\r', '\n', '\0', '\r\nBcc: eve@evil.test'])
      await refused({ [name]: ['a@there.test', `"A${evil}" <b@there.test>`] }, `invalid ${name}/1`)
  }
  await refused({ cc: ['x'], bcc: 'y', to: 'z' }, 'invalid to', 'invalid cc/0', 'invalid bcc')
})

test('recipients of several domains get the same message in one transaction per domain, without bcc', async () => {
  const { shown, mails } = await deliver({
    cc: ['carl@else.test', 'c2@there.test'],
    bcc: ['dora@else.test', 'd2@there.test'],
  })
  await until(() => exchanger.heard.filter(({ message }) => message.includes(shown['message_id']!)).length === 2)
  const all = exchanger.heard.filter(({ message }) => message.includes(shown['message_id']!))
  assert.deepEqual(all.map(({ to }) => to.toSorted().join(' ')).toSorted(), [
    'bob@there.test c2@there.test d2@there.test',
    'carl@else.test dora@else.test',
  ])
  assert.ok(mails.length > 0)
  for (const { message } of all) assert.doesNotMatch(message, /dora@|d2@/)
})

// ---- ai_disclosure, agent_id

test('ai_disclosure adds its header only if it is true', async () => {
  for (const [given, wanted] of [
    [{ ai_disclosure: true }, ['mode=ai-generated']],
    [{ ai_disclosure: false }, []],
    [{ ai_disclosure: null }, []],
    [{}, []],
  ] as const) {
    const { shown, fields } = await deliver(given)
    assert.deepEqual(field(fields, 'AI-Disclosure'), wanted)
    assert.equal(shown['ai_disclosure'], 'ai_disclosure' in given ? given.ai_disclosure : null)
  }
  for (const bad of ['true', 1, 0, []]) await refused({ ai_disclosure: bad }, 'invalid ai_disclosure')
})

test('agent_id has 1 to 128 characters, is returned and can be filtered', async () => {
  const id = await post({ agent_id: 'a'.repeat(128) })
  assert.equal((await show(id))['agent_id'], 'a'.repeat(128))
  assert.equal((await show(await post({ agent_id: null })))['agent_id'], null)
  await refused({ agent_id: 'a'.repeat(129) }, 'too_long agent_id')
  await refused({ agent_id: '' }, 'invalid agent_id')
  await refused({ agent_id: 7 }, 'invalid agent_id')
  await refused({ agent_id: 'a\nb' }, 'invalid agent_id')
  const { body } = await postrider.api('GET', `/outbound-emails?filter[agent_id]=${'a'.repeat(128)}`)
  assert.deepEqual(
    body.data.map((each: { id: string }) => each.id),
    [id],
  )
})

test('tracking options accept only true, false and null', async () => {
  for (const name of ['track_opens', 'track_clicks']) {
    for (const good of [false, null]) assert.equal((await show(await post({ [name]: good })))[name], good)
    for (const bad of ['true', 1, {}]) await refused({ [name]: bad }, `invalid ${name}`)
  }
  await refused(
    { track_opens: true, track_clicks: true },
    'tracking_disabled track_opens',
    'tracking_disabled track_clicks',
  )
})

// ---- Custom headers

test('custom headers arrive unchanged, signed or not, in any form', async () => {
  const id = '<0190a5c0-0000-7000-8000-000000000001@here.test>'
  const headers = {
    'X-Plain': 'a value',
    'In-Reply-To': id,
    References: Array.from({ length: 18 }, () => id).join(' '),
    'Auto-Submitted': 'auto-generated',
    'List-Id': 'a list <list.here.test>',
    'x/y~z!#$%&': 'odd but legal',
    'X-Look-Alike': '=?utf-8?Q?not_encoded_by_us?= ; "x" (y) <z>, \\',
    'X-Words': 'word '.repeat(190).trim(),
    '.Dot': '.',
    X: 'v'.repeat(995),
  }
  const { shown, heard, fields } = await deliver({ headers })
  for (const [name, value] of Object.entries(headers)) assert.deepEqual(field(fields, name), [value], name)
  assert.deepEqual(shown['headers'] as unknown, headers)
  // The transfer doubles the dot that begins a line (RFC 5321 §4.5.2), and the receiver takes it away again.
  assert.match(heard.message, /\r\n\.Dot: \.\r\n/)
})

test('custom headers with runs of white space stay well-formed', async () => {
  const value = `a${' '.repeat(400)}b${' '.repeat(200)}c`
  const { heard, fields } = await deliver({ headers: { 'X-Spaces': value } })
  assert.deepEqual(
    field(fields, 'X-Spaces').map((each) => each.replace(/ +/g, ' ')),
    ['a b c'],
  )
  // A line with only white space is obsolete syntax (RFC 5322 §3.2.2). Some readers treat it as the end of the header.
  for (const line of heard.message.slice(0, heard.message.indexOf('\r\n\r\n')).split('\r\n'))
    assert.match(line, /[^ \t]/)
})

test('custom headers: accepts 10, a name of 126, a value of 995 and 996 characters together, and rejects one more', async () => {
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, n) => [`X-${n}`, 'v']))
  const name = (length: number): string => 'N'.repeat(length)
  for (const good of [many(10), many(0), { [name(126)]: 'v'.repeat(870) }, { X: 'v'.repeat(995) }, { X: ' !~' }]) {
    const { fields } = await deliver({ headers: good })
    for (const [each, value] of Object.entries(good))
      assert.deepEqual(
        field(fields, each).map((v) => v.trim()),
        [value.trim()],
      )
  }
  await refused({ headers: many(11) }, 'invalid headers')
  await refused({ headers: { [name(127)]: 'v' } }, `too_long headers/${name(127)}`)
  await refused({ headers: { [name(126)]: 'v'.repeat(871) } }, `too_long headers/${name(126)}`)
  await refused({ headers: { XX: 'v'.repeat(995) } }, 'too_long headers/XX')
  await refused({ headers: { X: 'v'.repeat(996) } }, 'too_long headers/X')
  // Rule 7: refused, never trimmed.
  await post({ headers: { References: 'v'.repeat(986) } })
  await refused({ headers: { References: 'v'.repeat(987) } }, 'too_long headers/References')
  await post({ headers: { 'In-Reply-To': 'v'.repeat(985) } })
  await refused({ headers: { 'In-Reply-To': 'v'.repeat(986) } }, 'too_long headers/In-Reply-To')
})

test('custom headers accept only printable ASCII, and the error has an escaped pointer', async () => {
  for (const name of ['X Y', 'X:Y', 'X\tY', 'Xü', ' X', 'X ', '', 'X\r\nY', 'X\0', 'X\u007f'])
    await refused({ headers: { [name]: 'v' } }, `invalid headers/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`)
  for (const value of ['a\rb', 'a\nb', 'a\r\nBcc: eve@evil.test', 'a\r\n b', 'a\0b', 'ü', 'a\tb', '\u007f', '\u2028'])
    await refused({ headers: { 'X/Y~Z': value } }, 'invalid headers/X~1Y~0Z')
  for (const value of [7, null, ['v'], { v: 'v' }, true])
    await refused({ headers: { 'X-A': value } }, 'invalid headers/X-A')
  for (const value of ['X: y', ['X: y'], 7]) await refused({ headers: value }, 'invalid headers')
  const twice = JSON.stringify({
    data: {
      type: 'outbound-emails',
      attributes: {
        from: 'ann@here.test',
        to: 'bob@there.test',
        subject: 's',
        html: 'h',
        headers: { 'X-One': '1', 'x-ONE': '2', 'X-Two': '3' },
      },
    },
  })
  const { status, body } = await postrider.api('POST', '/outbound-emails', twice)
  assert.equal(status, 422)
  assert.deepEqual(
    body.errors.map(({ source }: Problem) => source.pointer),
    ['/data/attributes/headers/x-ONE'],
  )
})

test('rejects reserved headers by name in any case instead of dropping them (rule 5, D29)', async () => {
  const reserved = [
    'To',
    'From',
    'Subject',
    'Cc',
    'Bcc',
    'Reply-To',
    'Date',
    'Message-ID',
    'MIME-Version',
    'Content-Type',
    'Content-Disposition',
    'Return-Path',
    'Feedback-To',
    'X-Complaint-To',
    'List-Unsubscribe',
    'List-Unsubscribe-Post',
    'AI-Disclosure',
    'Sender',
    'Received',
    'DKIM-Signature',
    'ARC-Seal',
    'ARC-Message-Signature',
    'ARC-Authentication-Results',
    'Authentication-Results',
    'Resent-From',
    'Resent-To',
    'Resent-Message-ID',
    'Content-Transfer-Encoding',
    'Delivered-To',
    'X-Postrider-Anything',
    'X-Postrider-',
    // Ours, and once only (D31).
    'Feedback-ID',
    'CFBL-Address',
  ]
  for (const name of reserved)
    for (const written of [name, name.toLowerCase(), name.toUpperCase()]) {
      const [error] = await refused(
        { headers: { 'X-Fine': 'v', [written]: 'v' } },
        `reserved_header headers/${written}`,
      )
      assert.ok(error!.detail.includes(written), `${error!.detail} names ${written}`)
    }
  await refused(
    { headers: { To: 'v', 'X-A': 'ü', cc: 'v' } },
    'reserved_header headers/To',
    'invalid headers/X-A',
    'reserved_header headers/cc',
  )
  // By exact name: these only look like it.
  const near = ['X-To', 'To-', 'Subjects', 'X-Postrider', 'Resent', 'ARC', 'Feedback', 'Auto-Submitted']
  const { fields } = await deliver({ headers: Object.fromEntries(near.map((name) => [name, 'v'])) })
  for (const name of near) assert.deepEqual(field(fields, name), ['v'])
})

test('a reply has In-Reply-To and References like one from an email client', async () => {
  const first = await deliver({ subject: 'Root' })
  const root = first.shown['message_id']!
  const reply = await deliver({ headers: { 'In-Reply-To': root, References: root } })
  const parent = reply.shown['message_id']!
  const second = await deliver({ headers: { 'In-Reply-To': parent, References: `${root} ${parent}` } })
  const parsed = await simpleParser(second.heard.message)
  assert.equal(parsed.inReplyTo, parent)
  assert.deepEqual(parsed.references, [root, parent])
})

// ---- Names and international addresses

test('display names in every address field survive unchanged (D27)', async () => {
  const names = [
    'Plain',
    'Dr. Ann O’Neill',
    '"Comma, Quote"',
    'Ünï Cödé',
    '名前',
    '"a@b.test"',
    '"=?utf-8?q?x?="',
    '"back\\\\slash \\"q\\""',
  ]
  const plain = [
    'Plain',
    'Dr. Ann O’Neill',
    'Comma, Quote',
    'Ünï Cödé',
    '名前',
    'a@b.test',
    '=?utf-8?q?x?=',
    'back\\slash "q"',
  ]
  const as = (who: string, domain: string) => names.map((name, n) => `${name} <${who}${n}@${domain}>`)
  const { heard } = await deliver({ cc: as('c', 'there.test'), reply_to: as('r', 'here.test') })
  const parsed = await simpleParser(heard.message)
  const read = (list: typeof parsed.cc) => [list ?? []].flat().flatMap(({ value }) => value.map(({ name }) => name))
  assert.deepEqual(read(parsed.cc), plain)
  assert.deepEqual(read(parsed.replyTo), plain)
})

test('international domains are A-labels on the wire and one mailbox in any spelling', async () => {
  const { shown, heard } = await deliver({
    to: 'bob@bücher.test',
    cc: ['BOB <bob@BÜCHER.test>', 'carl@xn--bcher-kva.test', 'carl@bücher.test'],
  })
  assert.deepEqual(heard.to, ['bob@xn--bcher-kva.test', 'carl@xn--bcher-kva.test'])
  assert.equal(shown.recipients.length, 2)
  assert.equal(Buffer.byteLength(heard.message), heard.message.length, '7-bit')
})

test('delivers to a non-ASCII local part with SMTPUTF8, and fails permanently with 5.6.7 without it', async () => {
  // Domains without an open connection, whose extensions are known from the first line on.
  for (const name of ['offers.test', 'offers-not.test']) receiver(name)
  exchanger.script.keywords = ['PIPELINING', '8BITMIME', 'SMTPUTF8']
  const { shown } = await deliver({ to: 'Jürgen <jürgen@offers.test>', subject: 'taken' })
  assert.equal(shown.recipients[0]!.status, 'delivered')
  assert.ok(exchanger.commands.some((line) => /^MAIL FROM:.* SMTPUTF8/.test(line)))
  // Email that does not need the extension does not use it.
  const before = exchanger.commands.length
  await deliver({ to: 'bob@offers.test', subject: 'Ünïcödé' })
  assert.ok(exchanger.commands.slice(before).some((line) => line.startsWith('MAIL FROM:') && !/SMTPUTF8/.test(line)))

  exchanger.script.keywords = ['PIPELINING', '8BITMIME']
  const heard = exchanger.heard.length
  const id = await post({ to: 'jürgen@offers-not.test' })
  const failed = await until(async () => {
    const now = await show(id)
    return now.status === 'queued' ? undefined : now
  })
  assert.ok(['bounced', 'failed'].includes(failed.status), failed.status)
  assert.equal(failed.recipients[0]!.enhanced_code, '5.6.7')
  assert.match(failed.recipients[0]!.response!, /SMTPUTF8/)
  assert.equal(failed.recipients[0]!.next_attempt_at, null)
  assert.equal(exchanger.heard.length, heard)
  assert.ok(events(id).some(({ type }) => type === 'email.bounced'))
  // The reply is not about the mailbox.
  const { body } = await postrider.api('GET', '/suppressions')
  assert.deepEqual(body.data, [])
})

// ---- Idempotency over all attributes

const WHOLE = {
  idempotency_key: 'whole',
  cc: ['carl@there.test'],
  bcc: ['dora@there.test'],
  reply_to: ['ann@here.test'],
  subject: 'idempotent whole',
  text: 'text',
  agent_id: 'agent',
  track_opens: false,
  track_clicks: false,
  ai_disclosure: true,
  headers: { 'X-A': '1', 'X-B': '2' },
  attachments: [
    { filename: 'a.txt', content: 'aGVsbG8=', content_type: 'text/plain', content_id: 'a', disposition: 'attachment' },
  ],
}

test('ten parallel requests with one idempotency key create one email, delivered once, and any change returns 409', async () => {
  const answers = await Promise.all(Array.from({ length: 10 }, () => tryPost(WHOLE)))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]))
  assert.equal(new Set(answers.map(({ body }) => body.data.id)).size, 1)
  assert.equal(answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true').length, 9)
  const id = answers[0]!.body.data.id as string
  const shown = await become(id, 'delivered')
  assert.equal(heardAs(exchanger, shown['message_id']!).to.length, 3)
  assert.equal(exchanger.heard.filter(({ message }) => message.includes('Subject: idempotent whole')).length, 1)
  // The order of an object's members does not count.
  const turned = await tryPost({ ...WHOLE, headers: { 'X-B': '2', 'X-A': '1' } })
  assert.equal(turned.status, 201)
  assert.equal(turned.body.data.id, id)
  const file = WHOLE.attachments[0]!
  for (const change of [
    { cc: ['eve@there.test'] },
    { cc: null },
    { bcc: [] },
    { agent_id: 'another' },
    { agent_id: null },
    { track_opens: null },
    { track_clicks: null },
    { ai_disclosure: false },
    { headers: { 'X-A': '1', 'X-B': '3' } },
    { headers: { 'X-A': '1' } },
    { attachments: [] },
    { attachments: [{ ...file, content: 'aGVsbG9v' }] },
    { attachments: [{ ...file, filename: 'b.txt' }] },
    { attachments: [{ ...file, content_id: 'b' }] },
    { attachments: [{ ...file, disposition: 'inline' }] },
    { attachments: [{ ...file, content_type: 'text/csv' }] },
    { attachments: [file, file] },
  ]) {
    const { status, body } = await tryPost({ ...WHOLE, ...change })
    assert.equal(status, 409, JSON.stringify(change))
    assert.equal(body.errors[0].code, 'idempotency_conflict')
    assert.equal(body.errors[0].source.pointer, '/data/attributes/idempotency_key')
  }
  const { n } = postrider.appliance.deps.store.first(
    raw<{ n: number }>(`select count(*) as n from outbound_emails where subject = 'idempotent whole'`),
  )!
  assert.equal(n, 1)
})

// ---- Lists

test('lists: filters and sorts of D13, include of D12', async () => {
  const subjects = ['sort b', 'sort a', 'sort c']
  for (const subject of subjects) await become(await post({ subject, to: 'sorted@there.test' }), 'delivered')
  const list = async (query: string) => {
    const { status, body } = await postrider.api('GET', `/outbound-emails?${query}`)
    assert.equal(status, 200, JSON.stringify(body))
    return body
  }
  const found = async (query: string) =>
    (await list(query)).data.map(({ attributes }: { attributes: { subject: string } }) => attributes.subject)
  assert.deepEqual(await found('filter[to]=sorted@there.test'), subjects.toReversed())
  assert.deepEqual(await found('filter[to]=sorted@there.test&sort=subject'), subjects.toSorted())
  assert.deepEqual(await found('filter[to]=sorted@there.test&sort=-subject'), subjects.toSorted().toReversed())
  assert.deepEqual(await found('filter[to]=sorted@there.test&sort=status,created_at'), subjects)
  assert.deepEqual(
    await found('filter[to]=sorted@there.test&filter[status]=delivered,failed&sort=updated_at'),
    subjects,
  )
  assert.deepEqual(await found('filter[to]=sorted@there.test&filter[status]=bounced'), [])
  const body = await list('filter[to]=sorted@there.test&include=domain')
  assert.deepEqual(
    body.included.map(({ attributes }: { attributes: { name: string } }) => attributes.name),
    ['here.test'],
  )
  const domain = body.included[0].id as string
  assert.deepEqual(
    await found(`filter[domain]=${domain}&filter[to]=sorted@there.test&sort=subject`),
    subjects.toSorted(),
  )
  for (const bad of ['filter[subject]=x', 'filter[bcc]=x', 'sort=html', 'include=recipients']) {
    const { status } = await postrider.api('GET', `/outbound-emails?${bad}`)
    assert.equal(status, 400, bad)
  }
})

test('every email of this file has each field once, is signed, and is valid for every parser', async () => {
  await become(await post(), 'delivered')
  await judgeAll(postrider, exchanger.heard)
})
