// An erased address that was in every kind of record: no file of the data directory contains it in any form, while the
// server runs and after it has stopped. Other addresses and the data of other accounts are unchanged.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { addNotice } from '../../src/users/notices.ts'
import { listRequests } from '../../src/privacy/requests.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { startTestReceiver, type TestReceiver } from '../kit/receiver.ts'
import { receive } from '../kit/sender.ts'
import { raw } from '../../src/store/query.ts'
import { until } from '../kit/until.ts'
import { happen, makeHook, rest } from '../webhooks/hooks.ts'

let folder: string
let exchanger: TestExchanger
let receiver: TestReceiver
let postrider: TestAppliance
let domain: Awaited<ReturnType<TestAppliance['activeDomain']>>
const refused = new Set<string>()
const kit = campaignKit(() => postrider)

beforeEach(async () => {
  folder = temporaryDirectory('everywhere')
  refused.clear()
  exchanger = await startTestExchanger({
    answer: (line) => {
      const [, to] = /^RCPT TO:<([^>]*)>/.exec(line) ?? []
      return to !== undefined && refused.has(to) ? `550 5.1.1 <${to}> unknown; see x.test/?who=${to}` : undefined
    },
  })
  receiver = await startTestReceiver()
  receiver.answer = ({ body }, response) => void response.writeHead(200).end(`got ${body.slice(0, 800)}`)
  postrider = await startTestAppliance({
    dataDir: folder,
    config: { delivery: { port: exchanger.port }, webhooks: { ca_file: receiver.caFile } },
  })
  postrider.dns.set('hooks.test', 'A', ['127.0.0.1'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
  for (const name of ['there.test', 'there.test.org']) postrider.dns.set(name, 'MX', ['10 mx.there.test'])
  domain = await postrider.activeDomain('here.test')
  await makeHook(postrider, receiver, domain)
  await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Me', address: 'me@here.test' }))
})
afterEach(async () => {
  await postrider.stop()
  await exchanger.close()
  await receiver.close()
})

/** The forms of an address that no file may contain, each with whether it is case-sensitive. */
function formsOf(address: string): { bytes: Buffer; exact: boolean }[] {
  const cased = [address, address.toUpperCase(), address.charAt(0).toUpperCase() + address.slice(1)]
  const base64 = cased.flatMap((form) =>
    [0, 1, 2].map((shift) => {
      const whole = Buffer.from(' '.repeat(shift) + form)
      return whole
        .subarray(0, whole.length - (whole.length % 3))
        .toString('base64')
        .slice(shift === 0 ? 0 : 4)
    }),
  )
  const plain = [address, address.replace('@', '=40'), address.replace('@', '%40'), encodeURIComponent(address)]
  const wide = Buffer.from(address, 'utf16le')
  return [
    ...plain.map((text) => ({ bytes: Buffer.from(text.toLowerCase()), exact: false })),
    ...base64.map((text) => ({ bytes: Buffer.from(text), exact: true })),
    { bytes: wide, exact: false },
    { bytes: Buffer.from(wide).swap16(), exact: false },
  ]
}

/**
 * The files below the data directory that hold the address in any form: looked for here on its own account, not by src.
 */
function filesHolding(address: string): string[] {
  const forms = formsOf(address)
  return (readdirSync(folder, { recursive: true }) as string[]).filter((name) => {
    const path = join(folder, name)
    if (!statSync(path).isFile()) return false
    const bytes = readFileSync(path)
    const lower = Buffer.from(bytes.toString('latin1').toLowerCase(), 'latin1')
    return forms.some((form) => (form.exact ? bytes : lower).includes(form.bytes))
  })
}

async function send(attributes: Record<string, unknown>, headers?: Record<string, string>) {
  const mail = { from: 'me@here.test', to: 'bob@there.test', subject: 'Hello', html: '<p>Hello</p>', ...attributes }
  return postrider.api('POST', '/outbound-emails', document('outbound-emails', mail), headers)
}

async function sent(attributes: Record<string, unknown>): Promise<string> {
  const { body, status } = await send(attributes)
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}

async function forget(address: string) {
  const asked = await postrider.api('DELETE', `/recipients/${encodeURIComponent(address)}/forget`)
  assert.equal(asked.status, 202, JSON.stringify(asked.body))
  const { store } = postrider.appliance.deps
  await until(() => listRequests(store).find(({ id }) => id === asked.body.data.id)?.status === 'done', 'the erasure')
  return asked.body.data
}

const suppressed = (address: string) =>
  until(
    async () => (await postrider.api('GET', `/suppressions?filter[email]=${address}`)).body.data.length > 0,
    'the suppression',
  )

/** The number of emails with each status. */
async function figures(): Promise<Record<string, number>> {
  const { data } = (await postrider.api('GET', '/outbound-emails?page[size]=100')).body
  const count: Record<string, number> = {}
  for (const { attributes } of data as { attributes: { status: string } }[])
    count[attributes.status] = (count[attributes.status] ?? 0) + 1
  return count
}

const b64 = (text: string): string => Buffer.from(text).toString('base64')

test('erases an address from every kind of record and every file, while the server runs or is stopped', async () => {
  const address = 'ann.somebody@there.test'
  const Upper = 'Ann.SOMEBODY@there.test'
  refused.add('other@there.test')
  const attached = (content: string) => [{ filename: 'a.txt', content: b64(content), content_type: 'text/plain' }]
  for (const mail of [
    { to: address, subject: `For ${address}` },
    { to: address, html: `<p>${address}</p>${'x'.repeat(400_000)}` },
    { cc: [address] },
    { bcc: [address] },
    { reply_to: [`"${address}" <me@here.test>`] },
    { from: `"${address}" <me@here.test>` },
    { agent_id: address },
    { tags: [`for ${address}`] },
    { metadata: { user: address, [`of ${address}`]: 'x' } },
    { idempotency_key: `for ${address}` },
    { headers: { 'X-About': address } },
    { html: `<a href="https://x.test/?who=ann.somebody%40there.test">x</a>` },
    { html: `<p>Ask ${Upper}</p>` },
    { text: `First line\n${address}` },
    ...[0, 1, 2].map((shift) => ({ attachments: attached(`${'-'.repeat(shift)}${address} is here`) })),
    { attachments: attached(Buffer.from(`for ${address}`, 'utf16le').toString('latin1')) },
  ])
    await sent(mail)
  const shared = { from: 'me@here.test', subject: 'Hello', html: '<p>Hello {{name}}</p>' }
  const bob = { to: 'bob@there.test', variables: { name: `for ${address}` } }
  for (const batch of [
    { email: shared, recipients: [bob, { to: address, variables: { name: address } }] },
    { email: { ...shared, html: `<p>${address}</p>` }, recipients: [bob], idempotency_key: address },
    { email: { ...shared, html: `<p>${address}</p>${'x'.repeat(100_000)}` }, recipients: [bob] },
    { email: shared, recipients: [{ to: `${address}, x` }, bob], validation: 'permissive' },
    {
      email: shared,
      recipients: [bob, { to: 'eve@there.test', variables: { [address]: ['x'] } }],
      validation: 'permissive',
    },
    {
      emails: [
        { ...shared, to: address },
        { ...shared, to: 'bob@there.test', html: `<p>${Upper}</p>` },
      ],
    },
  ]) {
    const { body, status } = await postrider.api(
      'POST',
      '/outbound-email-batches',
      document('outbound-email-batches', batch),
    )
    assert.equal(status, 201, JSON.stringify(body))
  }
  const about = (text: string, encoding: string, type = 'text/plain'): string =>
    `From: bob@there.test\nTo: me@here.test\nSubject: x\nContent-Type: ${type}\nContent-Transfer-Encoding: ${encoding}\n\n${text}\n`
  const inbound: [string, string][] = [
    [address, `From: ${address}\nTo: me@here.test\nSubject: x\n\nHello\n`],
    ['bob@there.test', `From: bob@there.test\nTo: me@here.test, ${address}\nSubject: x\n\nHello\n`],
    ['bob@there.test', about(`Hello ann.som=\nebody=40there.test`, 'quoted-printable')],
    ['bob@there.test', about(b64(`To ${Upper}, please`), 'base64', 'application/octet-stream; name=a.bin')],
    ['bob@there.test', about(b64(`x${address}`.slice(1)), 'base64', 'application/octet-stream; name=b.bin')],
  ]
  for (const [from, message] of inbound) await receive(postrider, { from, to: 'me@here.test', message })
  await receive(postrider, {
    to: 'me@here.test',
    from: 'bob@there.test',
    message: about(`${b64(`${address} `.repeat(20_000)).replace(/.{76}/g, '$&\n')}`, 'base64', 'application/pdf'),
  })
  await happen(postrider, domain, 'email.clicked', { url: `https://x.test/?a=ann.somebody%40there.test`, address })
  const { store } = postrider.appliance.deps
  await store.write((tx) =>
    addNotice(
      tx,
      { user_key: postrider.user.key, domain_key: domain.key, subject: `On ${address}`, text: `It is ${Upper}` },
      0,
      2,
    ),
  )
  await until(async () => !(await figures())['queued'] && exchanger.heard.length > 10, 'the mails')
  refused.add(address)
  const audience = await kit.audience(domain, `With ${address}`)
  await kit.fill(audience, [{ email: address, name: Upper, custom_fields: { note: address } }, 'bob@there.test'])
  await kit.draft(audience, { test_mode: true, test_recipient_email: address })
  await kit.send(await kit.draft(audience, { body_html: `<p>{{email}}, not ${address}</p>` }))
  await suppressed(address)
  await rest(postrider)
  assert.ok(filesHolding(address).length > 0)
  const before = await figures()

  const { attributes, id } = await forget(address)
  assert.match(attributes.recipient_hash, /^[0-9a-f]{64}$/)
  assert.deepEqual(filesHolding(address), [])
  assert.deepEqual(await figures(), before)

  const again = await send({ to: address })
  assert.equal(again.status, 422)
  assert.equal(again.body.errors[0].code, 'recipient_suppressed')
  const repeat = await postrider.api('DELETE', `/recipients/${Upper}/forget`)
  assert.equal(repeat.status, 202)
  assert.deepEqual([repeat.body.data.id, repeat.body.data.attributes.recipient_hash], [id, attributes.recipient_hash])
  assert.deepEqual(filesHolding(address), [])

  const heard = exchanger.commands.length
  await kit.fill(audience, [address])
  await kit.send(await kit.draft(audience))
  const to = exchanger.commands.slice(heard).filter((line) => /^RCPT/i.test(line) && line.includes(address))
  assert.deepEqual(to, [])
  await forget(address)
  await postrider.appliance.stop()
  assert.deepEqual(filesHolding(address), [])
})

test('an erasure keeps longer addresses that contain the erased address', async () => {
  const address = 'ann@there.test'
  const others = ['joann@there.test', 'jo.ann@there.test', 'big-ann@there.test', 'ann@there.test.org']
  const ids = new Map<string, string>()
  for (const to of others) ids.set(to, await sent({ to, subject: `For ${to}`, html: `<p>${to}</p>` }))
  await receive(postrider, { from: others[0]!, to: 'me@here.test' })
  const audience = await kit.audience(domain)
  await kit.fill(audience, others)
  // No account has the address so far.
  assert.equal((await postrider.api('DELETE', `/recipients/${address}/forget`)).status, 404)
  assert.equal((await postrider.api('GET', `/recipients/${address}/data`)).status, 404)
  const own = await sent({ to: address, html: `<p>${address}</p>` })
  await until(async () => !(await figures())['queued'], 'the mails')
  await forget(address)
  for (const [to, id] of ids) {
    const { attributes } = (await postrider.api('GET', `/outbound-emails/${id}`)).body.data
    assert.deepEqual([attributes.to, attributes.subject, attributes.html], [to, `For ${to}`, `<p>${to}</p>`])
  }
  const { data: received } = (await postrider.api('GET', '/inbound-emails')).body
  assert.match(received[0].attributes.from, /joann@there\.test/)
  const { data: contacts } = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body
  assert.deepEqual(
    contacts.map((each: { attributes: { email: string } }) => each.attributes.email).toSorted(),
    others.toSorted(),
  )
  const { attributes } = (await postrider.api('GET', `/outbound-emails/${own}`)).body.data
  assert.doesNotMatch(JSON.stringify(attributes), /ann@there/)
})

test('an erasure keeps the address in another account, even in a message that both received', async () => {
  const address = 'ann@there.test'
  const theirs = await postrider.activeDomain('theirs.test', postrider.other)
  const relationships = { domain: { data: { type: 'domains', id: theirs.id } } }
  await postrider.asOther('POST', '/inboxes', document('inboxes', { name: 'They', address: 'they@theirs.test' }))
  const mail = { from: 'they@theirs.test', to: address, subject: `For ${address}`, html: `<p>${address}</p>` }
  const made = await postrider.asOther('POST', '/outbound-emails', document('outbound-emails', mail))
  assert.equal(made.status, 201, JSON.stringify(made.body))
  const audience = await postrider.asOther(
    'POST',
    '/audiences',
    document('audiences', { name: 'Theirs' }, { relationships }),
  )
  const contacts = `/audiences/${audience.body.data.id}/contacts`
  const added = await postrider.asOther('POST', contacts, document('contacts', { email: address, name: 'Ann' }))
  assert.equal(added.status, 201, JSON.stringify(added.body))
  await sent({ to: address })
  await receive(postrider, { from: address, to: ['me@here.test', 'they@theirs.test'] })
  await until(
    async () => (await postrider.asOther('GET', `/outbound-emails/${made.body.data.id}`)).body.data.attributes.sent_at,
    'their mail',
  )
  await until(async () => !(await figures())['queued'], 'our mail')
  await rest(postrider)
  const shown = async (): Promise<unknown> => {
    const { data: inbound } = (await postrider.asOther('GET', '/inbound-emails')).body
    assert.equal(inbound.length, 1)
    return [
      (await postrider.asOther('GET', `/inbound-emails/${inbound[0].id}`)).body,
      (await postrider.asOther('GET', `/outbound-emails/${made.body.data.id}`)).body,
      (await postrider.asOther('GET', contacts)).body.data,
    ]
  }
  const before = await shown()
  await forget(address)
  assert.deepEqual(await shown(), before)
  const ours = (await postrider.api('GET', '/inbound-emails')).body.data
  const mine = (await postrider.api('GET', `/inbound-emails/${ours[0].id}`)).body.data
  assert.doesNotMatch(JSON.stringify([ours, mine]), /ann@there/)
  assert.equal((await postrider.asOther('DELETE', `/recipients/${address}/forget`)).status, 202)
  const { store } = postrider.appliance.deps
  await until(() => listRequests(store).every(({ status }) => status === 'done'), 'the other erasure')
  assert.deepEqual(filesHolding(address), [])
})

test('statistics of receivers, warm-up, alerts, lists and reports never contain a recipient', async () => {
  const address = 'ann.somebody@there.test'
  exchanger.script.answer = (line) =>
    line.startsWith('RCPT')
      ? `550 5.7.1 Blocked: reputation of your server is low, <${address}> takes nothing`
      : undefined
  const id = await sent({ to: address })
  await until(
    async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status === 'bounced',
    'the refusal',
  )
  const { store } = postrider.appliance.deps
  const named = store
    .all(raw<{ name: string }>(`select name from sqlite_schema where type = 'table'`, []))
    .map(({ name }) => name)
    .filter((name) =>
      /^(?:warmup|watch|source_|receiver_|refusals|gmail|aggregate|dmarc|tls|known_|report_)/.test(name),
    )
  assert.ok(named.length >= 12, named.join())
  const rows = named.flatMap((name) =>
    store.all(raw<Record<string, unknown>>(`select * from ${name}`, [])).map((row) => [name, JSON.stringify(row)]),
  )
  // The reply of the receiving server is stored, without the address.
  assert.match(JSON.stringify(rows), /reputation of your server is low/)
  assert.deepEqual(
    rows.filter(([, row]) => row!.includes('ann.somebody')),
    [],
  )
  await forget(address)
  assert.deepEqual(filesHolding(address), [])
})
