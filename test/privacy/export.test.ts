// Data exports: the bundle, the email with its link, the expiry and the permissions of the link, and the commands.
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, test } from 'node:test'
import { simpleParser } from 'mailparser'
import yauzl from 'yauzl'
import { DAY } from '../../src/base/clock.ts'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import { EXPORTS } from '../../src/privacy/requests.ts'
import { db } from '../../src/store/query.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { receive } from '../kit/sender.ts'
import { until } from '../kit/until.ts'

const ADDRESS = 'ann@there.test'
let folder: string
let exchanger: TestExchanger
let postrider: TestAppliance
let domain: Awaited<ReturnType<TestAppliance['activeDomain']>>
const kit = campaignKit(() => postrider)

beforeEach(async () => {
  folder = temporaryDirectory('export')
  exchanger = await startTestExchanger()
  postrider = await startTestAppliance({
    dataDir: join(folder, 'data'),
    config: { delivery: { port: exchanger.port } },
  })
  for (const name of ['there.test', 'owner.test']) postrider.dns.set(name, 'MX', ['10 mx.there.test'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
  domain = await postrider.activeDomain('here.test')
  await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Me', address: 'me@here.test' }))
})
afterEach(async () => {
  await postrider.stop()
  await exchanger.close()
})

async function send(attributes: Record<string, unknown>, user: 'api' | 'asOther' = 'api'): Promise<void> {
  const mail = { from: 'me@here.test', subject: 'Hello', html: '<p>Hello</p>', ...attributes }
  const { body, status } = await postrider[user]('POST', '/outbound-emails', document('outbound-emails', mail))
  assert.equal(status, 201, JSON.stringify(body))
}

/** Requests an export and waits for the email with the link. Returns the request's id and the link's path. */
async function ask(address = ADDRESS): Promise<{ id: string; hash: string; path: string }> {
  const asked = await postrider.api('GET', `/recipients/${address}/data`)
  assert.equal(asked.status, 202, JSON.stringify(asked.body))
  const { attributes, id, type } = asked.body.data
  assert.equal(type, 'recipient-exports')
  const told = await until(
    () => exchanger.heard.find(({ message, to }) => to.includes('ann@owner.test') && message.includes(id.slice(0, 13))),
    'the mail to the owner',
  )
  assert.deepEqual(told.to, ['ann@owner.test'])
  const { text } = await simpleParser(told.message)
  assert.doesNotMatch(told.message, /ann@there/)
  const [path] = /\/exports\/[\w/-]+/.exec(text!)!
  return { id, hash: attributes.recipient_hash, path }
}

const fetched = (path: string): Promise<Response> =>
  fetch(`http://${postrider.appliance.http.host}:${postrider.appliance.http.port}${path}`)

/** The status of a response after it was read to its end. */
async function statusOf(path: string): Promise<number> {
  const answer = await fetched(path)
  await answer.arrayBuffer()
  return answer.status
}

/** The files of a zip by their names. */
function unzip(bytes: Buffer): Promise<Map<string, string>> {
  return new Promise((done, fail) =>
    yauzl.fromBuffer(bytes, { lazyEntries: true }, (error, archive) => {
      if (error) return fail(error)
      const files = new Map<string, string>()
      archive.on('error', fail).on('end', () => done(files))
      archive.on('entry', (entry: yauzl.Entry) =>
        archive.openReadStream(entry, (failure, stream) => {
          if (failure) return fail(failure)
          const chunks: Buffer[] = []
          stream.on('data', (chunk: Buffer) => chunks.push(chunk))
          stream.on('end', () => {
            files.set(entry.fileName, Buffer.concat(chunks).toString())
            archive.readEntry()
          })
        }),
      )
      archive.readEntry()
    }),
  )
}

test('the bundle contains all data about the address and no data about other recipients', async () => {
  await send({ to: ADDRESS, subject: 'First', html: '<p>first body</p>' })
  const email = { from: 'me@here.test', subject: 'For {{name}}', html: '<p>shared body for {{name}}</p>' }
  const recipients = [
    { to: ADDRESS, variables: { name: 'Ann' } },
    { to: 'bob@there.test', variables: { name: 'Bob' } },
  ]
  const batch = document('outbound-email-batches', { email, recipients })
  assert.equal((await postrider.api('POST', '/outbound-email-batches', batch)).status, 201)
  const link = unsubscribeUrl(postrider.appliance.deps.keyring, postrider.url, {
    delivery: 0,
    domain: 1,
    audience: 1,
    email: ADDRESS,
  })
  await send({ to: ADDRESS, subject: 'Large', html: `<p>large body</p>${'x'.repeat(400_000)}`, text: link })
  exchanger.script = { answer: (line) => (/^RCPT TO:<(?:hidden|gone)@/.test(line) ? '550 5.1.1 unknown' : undefined) }
  await send({ to: 'bob@there.test', cc: [ADDRESS], bcc: ['hidden@there.test'], subject: 'Copied' })
  await send({ to: 'joann@there.test', subject: 'Not hers', html: '<p>secret of joann</p>' })
  await postrider.activeDomain('theirs.test', postrider.other)
  await send({ from: 'me@theirs.test', to: ADDRESS, subject: 'Of another account' }, 'asOther')
  const message = `From: Ann <${ADDRESS}>\nTo: me@here.test\nSubject: A question\n\nRaw words.\n`
  await receive(postrider, { from: ADDRESS, to: 'me@here.test', message })
  await receive(postrider, { from: 'joann@there.test', to: 'me@here.test' })
  const audience = await kit.audience(domain)
  await postrider.api('PATCH', `/audiences/${audience}`, document('audiences', { title: 'News' }, { id: audience }))
  await kit.fill(audience, [{ email: ADDRESS, name: 'Ann', custom_fields: { town: 'Bath' } }, 'carl@there.test'])
  for (const user of ['api', 'asOther'] as const)
    await until(
      async () => (await postrider[user]('GET', '/outbound-emails?filter[status]=queued')).body.data.length === 0,
      'the mails',
    )
  const { hash, path } = await ask()
  assert.match(hash, /^[0-9a-f]{64}$/)
  const answer = await fetched(path)
  assert.equal(answer.status, 200)
  assert.equal(answer.headers.get('content-type'), 'application/zip')
  const files = await unzip(Buffer.from(await answer.arrayBuffer()))
  const names = [...files.keys()]
  // The large body that lay in the spool comes as a file of its own.
  assert.equal(names.length, 3, names.join())
  assert.match(names[2]!, /^sent\/[0-9a-f-]{36}\/body\.json$/)
  assert.equal(names[0], 'records.json')
  const raw = files.get(names[1]!)!
  assert.match(names[1]!, /^received\/[0-9a-f-]{36}\.eml$/)
  assert.ok(raw.startsWith('Received: ') && raw.endsWith(message.replaceAll('\n', '\r\n')), raw)

  const records = JSON.parse(files.get('records.json')!)
  assert.equal(records.recipient, ADDRESS)
  assert.deepEqual(
    records.contacts.map((each: Record<string, unknown>) => [each['name'], each['custom_fields'], each['audience']]),
    [['Ann', { town: 'Bath' }, 'News']],
  )
  const mails = records.outbound_emails as { subject: string; body?: { html: string } }[]
  assert.deepEqual(mails.map(({ subject }) => subject).toSorted(), ['Copied', 'First', 'For Ann', 'Large'])
  assert.deepEqual(
    mails.flatMap(({ body }) => body?.html ?? []).filter((html) => html.includes('shared')),
    ['<p>shared body for Ann</p>'],
  )
  const large = JSON.parse(files.get(names[2]!)!)
  assert.match(large.html, /^<p>large body/)
  assert.match(large.text, /\/u\/known-to-the-recipient$/)
  assert.equal(records.deliveries.length, 4)
  assert.ok(records.events.length >= 3)
  assert.ok(!records.events.some(({ type }: { type: string }) => type === 'email.bounced'), 'of the blind copy')
  assert.equal(records.inbound_emails.length, 1)
  const told = files.get('records.json')!
  for (const foreign of [
    'joann',
    'hidden@',
    'carl@',
    'another account',
    'theirs.test',
    'user_key',
    'sealed',
    'bob@other',
  ]) {
    const at = told.indexOf(foreign)
    assert.equal(at < 0 ? '' : told.slice(Math.max(0, at - 300), at + 60), '')
  }
})

test(
  'HEAD on the link leaves no file open',
  { skip: !existsSync('/proc/self/fd') && 'there is no /proc' },
  async () => {
    // More than one read of the file.
    await send({ to: ADDRESS, html: randomBytes(500_000).toString('hex') })
    await until(() => exchanger.heard.length >= 1, 'the mail')
    const { path } = await ask()
    for (let times = 0; times < 5; times++) assert.equal((await postrider.raw(path, { method: 'HEAD' })).status, 200)
    const open = (): string[] =>
      readdirSync('/proc/self/fd').flatMap((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`)
        } catch {
          return []
        }
      })
    await until(() => !open().some((file) => file.startsWith(join(postrider.dataDir, EXPORTS))) || undefined)
  },
)

test('the link expires after 24 hours, and a modified link is rejected', async () => {
  await send({ to: ADDRESS })
  await send({ to: 'bob@there.test' })
  await until(() => exchanger.heard.length >= 2, 'the mails')
  const { id, path } = await ask()
  const [, , , until24, mac] = path.split('/')
  const other = await ask('bob@there.test')
  const wrong = [
    `/exports/${id}/${Number(until24) + 1}/${mac}`,
    `/exports/${id}/${until24}/${mac!.startsWith('A') ? 'B' : 'A'}${mac!.slice(1)}`,
    `/exports/${id}/${until24}/${mac!.slice(0, -2)}`,
    `/exports/${other.id}/${until24}/${mac}`,
    `/exports/${id}/x/${mac}`,
    `/exports/..%2Fpostrider.db/${until24}/${mac}`,
  ]
  for (const each of wrong) assert.equal(await statusOf(each), 404, each)
  postrider.clock.leap(Number(until24) - postrider.clock.now() - 1)
  assert.equal(await statusOf(path), 200)
  postrider.clock.leap(1)
  assert.equal(await statusOf(path), 404)
  assert.ok(Number(until24) - DAY <= postrider.clock.now())
})

test('an erasure deletes the bundles of the recipient', async () => {
  await send({ to: ADDRESS })
  await until(() => exchanger.heard.length > 0, 'the mail')
  const { path } = await ask()
  assert.equal(await statusOf(path), 200)
  assert.equal((await postrider.api('DELETE', `/recipients/${ADDRESS}/forget`)).status, 202)
  await until(async () => (await statusOf(path)) === 404, 'the end of the link')
})

test('export list and export fetch return the bundles', async () => {
  const commands = Commands.beside(postrider)
  try {
    await send({ to: ADDRESS })
    await until(() => exchanger.heard.length > 0, 'the mail')
    assert.deepEqual(await commands.json('export', 'list'), [])
    const { hash, id } = await ask()
    await until(async () => (await commands.json('export', 'list'))[0].status === 'done', 'the export')
    const [row] = await commands.json('export', 'list')
    assert.deepEqual(
      [row.id, row.user, row.kind, row.recipient_hash, row.ready],
      [id, 'ann@owner.test', 'export', hash, true],
    )
    const out = join(folder, 'ann.zip')
    assert.deepEqual(await commands.json('export', 'fetch', id, '--out', out), { id, file: out })
    const files = await unzip(readFileSync(out))
    assert.equal(JSON.parse(files.get('records.json')!).recipient, ADDRESS)
    assert.match(await commands.fails('export', 'fetch', id, '--out', out), /exists/)
    assert.match(await commands.fails('export', 'fetch', 'nothing'), /There is no export nothing/)
    postrider.clock.leap(8 * DAY)
    await until(async () => !(await commands.json('export', 'list'))[0].ready, 'the end of the bundle')
    assert.match(
      await commands.fails('export', 'fetch', id, '--out', join(folder, 'b.zip')),
      /The export has expired; request a new one/,
    )
  } finally {
    await commands.close()
  }
})

test('never emails an export link to an address that this server receives mail for', async () => {
  const { deps } = postrider.appliance
  await deps.store.write((tx) =>
    tx.run(db.updateTable('users').set({ email: 'me@here.test' }).where('key', '=', postrider.user.key)),
  )
  await send({ to: ADDRESS })
  const asked = await postrider.api('GET', `/recipients/${ADDRESS}/data`)
  assert.equal(asked.status, 202, JSON.stringify(asked.body))
  const told = await until(
    () => deps.store.first(db.selectFrom('notices').select('text').where('subject', 'like', '%export%')),
    'the notice',
  )
  assert.doesNotMatch(told.text, /\/exports\//)
  assert.match(told.text, new RegExp(`postrider export fetch ${asked.body.data.id}`))
})
