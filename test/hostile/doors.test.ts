// Hostile mail by other routes: submitted over SMTP, relayed, and shown in the console. Every message is accepted or
// rejected, its processing ends, and it is shown without active content. No message causes an internal error.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { createTransport } from 'nodemailer'
import { silentLog, type Log } from '../../src/base/log.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { Guest } from '../kit/guest.ts'
import { givePassword } from '../kit/person.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { hostile, MANY } from './mails.ts'

const PASSWORD = 'a long enough password'
const LANES = 4
/** Markup that a shown message must not contain, outside the values of attributes. */
const RUNS = /<(?:script|style|form|input|iframe|object|embed|svg|math|meta|base|link)\b|\son[a-z]+\s*=/i
const withoutValues = (html: string): string => html.replace(/"[^"]*"/g, '""')

const faults: unknown[] = []
const log: Log = { ...silentLog, fault: (thrown: unknown) => (faults.push(thrown), '') }

let exchanger: TestExchanger
let postrider: TestAppliance

before(async () => {
  // It lacks SMTPUTF8 and 8BITMIME: headers and parts have to be encoded again.
  exchanger = await startTestExchanger({ keywords: ['PIPELINING'] })
  postrider = await startTestAppliance({
    log,
    config: { delivery: { port: exchanger.port }, submission: { listen: [], tls_listen: ['127.0.0.1:0'] } },
  })
  await postrider.activeDomain('here.test')
  await givePassword(postrider, postrider.user.email, PASSWORD)
  postrider.dns.set('there.test', 'MX', ['10 mx.there.test'])
  postrider.dns.set('mx.there.test', 'A', ['127.0.0.1'])
})
after(async () => {
  await exchanger.close()
  await postrider.stop()
})

/** Does the work for each hostile mail, some at a time. */
async function each(work: (mail: Buffer, n: number) => Promise<void>): Promise<void> {
  const mails = hostile()[Symbol.iterator]()
  let n = 0
  const lane = async (): Promise<void> => {
    for (let next = mails.next(); !next.done; next = mails.next()) await work(next.value, ++n)
  }
  await Promise.all(Array.from({ length: LANES }, lane))
}

/** The message as its application would send it: from an address of ours. */
function fromHere(mail: Buffer): Buffer {
  const text = mail.toString('latin1')
  const end = Math.max(0, text.indexOf('\r\n\r\n') + 2)
  const fields = text.slice(0, end).split(/(?<=\r\n)(?![ \t])/)
  const kept = fields.filter((field) => !/^(?:from|sender|message-id)[ \t]*:/i.test(field))
  return Buffer.from(`From: shop@here.test\r\n${kept.join('')}${text.slice(end)}`, 'latin1')
}

test(`${MANY} hostile emails submitted: each is accepted or rejected, and finishes`, async () => {
  const transport = createTransport({
    host: '127.0.0.1',
    port: postrider.appliance.submissions[0]!.port,
    secure: true,
    pool: true,
    maxConnections: LANES,
    auth: { user: 'postrider', pass: postrider.token },
    tls: { rejectUnauthorized: false },
  })
  const send = (mail: Buffer): Promise<unknown> =>
    transport.sendMail({ envelope: { from: 'shop@here.test', to: 'ada@there.test' }, raw: mail })
  let taken = 0
  await each(async (mail) => {
    try {
      await send(fromHere(mail))
      taken++
    } catch (thrown) {
      assert.equal(Math.floor((thrown as { responseCode?: number }).responseCode! / 100), 5, String(thrown))
    }
  })
  assert.ok(taken > 0)
  await send(Buffer.from('From: shop@here.test\r\nTo: ada@there.test\r\nSubject: honest\r\n\r\nHello.\r\n'))
  transport.close()
  const { store } = postrider.appliance.deps
  await until(() => {
    postrider.clock.advance(60_000)
    return store.first(raw("select key from deliveries where status in ('queued', 'active')")) === undefined
  }, 'all of them ended')
  const [counted] = store.all(raw<{ count: number }>('select count(*) as count from deliveries'))
  assert.equal(counted!.count, taken + 1)
  const honest = store.first(
    raw<{ status: string }>(
      `select v.status from deliveries v join outbound_emails e on e.key = v.email_key where e.subject = 'honest'`,
    ),
  )
  assert.equal(honest?.status, 'delivered')
  assert.deepEqual(faults, [])
})

test(`${MANY} hostile messages in the console: each is shown, and no script runs`, async () => {
  const made = await postrider.api(
    'POST',
    '/inboxes',
    document('inboxes', { name: 'hostile', address: 'hostile@here.test' }),
  )
  const inbox = made.body.data.id as string
  let taken = 0
  await each(async (message) => {
    const [verdict] = await deliver(postrider.appliance.smtp[0]!, { from: '', to: 'hostile@here.test', message })
    if (verdict!.kind === 'delivered') taken++
  })
  const { store } = postrider.appliance.deps
  await until(() => store.first(raw('select message_key from inbound_waiting')) === undefined, 'all of them read')
  const guest = new Guest(postrider)
  await guest.signIn(postrider.user.email, PASSWORD)
  assert.equal((await guest.open(`/inboxes/${inbox}`)).status, 200)
  const mails = store.all(
    raw<{ id: string; html: number }>(
      `select e.id, b.html is not null as html from inbound_emails e
     left join inbound_bodies b on b.message_key = e.message_key`,
    ),
  )
  assert.equal(mails.length, taken)
  for (const { html, id } of mails) {
    const page = await guest.open(`/inboxes/${inbox}/mail/${id}`)
    assert.equal(page.status, 200, id)
    assert.equal((await guest.open(`/inbound/${id}/raw`)).status, 200, id)
    if (html === 0) continue
    const frame = await guest.open(`/inbound/${id}/html`)
    assert.equal(frame.status, 200, id)
    assert.match(frame.headers.get('content-security-policy') ?? '', /default-src 'none'.*sandbox/)
    assert.doesNotMatch(withoutValues(frame.text.slice(frame.text.indexOf('<body>') + 6)), RUNS, id)
  }
  assert.ok(mails.some(({ html }) => html === 1))
  assert.deepEqual(faults, [])
})
