// Clients that were written for Mailgun and Resend send through the built executable. Every email is checked as the
// receiving server got it. For Ghost itself see ghost.interop.ts.
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { simpleParser, type ParsedMail } from 'mailparser'
import Mailgun from 'mailgun.js'
import { createTransport } from 'nodemailer'
import { Resend } from 'resend'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { program } from './rig/machine.ts'
import { withPrograms } from './rig/need.ts'
import { startPostrider, type RunningPostrider } from './rig/postrider.ts'
import { until } from './rig/sandbox.ts'

const DOMAIN = 'shop.example'
const FROM = `Shop <hello@${DOMAIN}>`
const BATCH = 1000
const LIMIT = 60_000
/** Where setup.sh puts the packages of test/interop/clients. */
const TOOLS = process.env['POSTRIDER_CLIENTS'] ?? '/var/tmp/postrider-clients'
const missing = (name: string): string[] =>
  existsSync(join(TOOLS, 'node_modules', name)) ? [] : [`${name} of test/interop/clients in ${TOOLS}`]
const load = createRequire(join(TOOLS, 'package.json'))

let dns: TestDns
let exchanger: TestExchanger
let postrider: RunningPostrider

before(async () => {
  dns = await startTestDns()
  exchanger = await startTestExchanger({
    answer: (command) => (/^RCPT TO:<gone/i.test(command) ? '550 5.1.1 No such user here' : undefined),
  })
  dns.set('there.example', 'MX', ['10 mx.there.example'])
  dns.set('mx.there.example', 'A', ['127.0.0.1'])
  postrider = await startPostrider({
    dns,
    hostname: 'mx.postrider.example',
    deliveryPort: exchanger.port,
    more: '[compatibility]\nmailgun = true\nresend = true',
    program: program(),
  })
  await postrider.sendingDomain(DOMAIN)
})
after(async () => {
  await postrider?.stop()
  await exchanger?.close()
  await dns?.close()
})

/** The emails with this text, as they arrived. Waits until there are `count` of them. */
async function arrived(text: string, count = 1): Promise<{ to: string[]; mail: ParsedMail }[]> {
  const found = () => exchanger.heard.filter(({ message }) => message.includes(text))
  await until(
    () => found().length >= count,
    LIMIT,
    () => `${found().length} of ${count} emails with "${text}" arrived: ${postrider.log().slice(-3000)}`,
  )
  assert.equal(found().length, count, text)
  return Promise.all(
    found().map(async ({ message, to }) => ({ to, mail: await simpleParser(message, { skipHtmlToText: true }) })),
  )
}

interface Bounced {
  address: string
}
type MailgunClient = ReturnType<Mailgun['client']>

/** The tests of one version of mailgun.js. `name` keeps its emails apart. */
function mailgunTests(name: string, client: () => MailgunClient): void {
  test('sends an email with a file, a header and options', async () => {
    const answer = await client().messages.create(DOMAIN, {
      from: FROM,
      to: ['Bob <bob@there.example>'],
      cc: ['carl@there.example'],
      subject: `Order of ${name}`,
      text: 'Grüße',
      html: '<p>Grüße</p>',
      'h:Reply-To': 'visitor@elsewhere.example',
      'h:X-Order': '1017',
      'o:tag': ['order'],
      'v:order': '1017',
      attachment: { filename: 'größe.txt', data: Buffer.from('a file') },
    })
    const [{ mail, to } = assert.fail('no email')] = await arrived(`Order of ${name}`)
    assert.deepEqual(to.toSorted(), ['bob@there.example', 'carl@there.example'])
    assert.deepEqual(
      [mail.messageId, mail.replyTo?.text, mail.headers.get('x-order'), mail.text?.trim(), mail.html],
      [answer.id, 'visitor@elsewhere.example', '1017', 'Grüße', '<p>Grüße</p>'],
    )
    assert.deepEqual(
      mail.attachments.map(({ content, filename }) => [filename, String(content)]),
      [['größe.txt', 'a file']],
    )
    assert.ok(mail.headers.has('dkim-signature'))
  })

  test(`sends a batch of ${BATCH} with recipient variables, and pages through its events`, async () => {
    const gone = 7
    const to = Array.from({ length: BATCH }, (_, n) => `${n < gone ? 'gone' : 'm'}${name}${n}@there.example`)
    const values = to.map((address, n) => [
      address,
      { name: `Member ${n}`, list_unsubscribe: `https://blog.example/u/${n}` },
    ])
    const subject = `Issue of ${name}`
    await client().messages.create(DOMAIN, {
      from: FROM,
      to,
      subject,
      html: '<p>Hello %recipient.name%</p>',
      text: 'Hello %recipient.name%',
      'recipient-variables': JSON.stringify(Object.fromEntries(values)),
      'h:Reply-To': FROM,
      'h:Sender': FROM,
      'h:Auto-Submitted': 'auto-generated',
      'h:List-Unsubscribe': '<%recipient.list_unsubscribe%>, <%tag_unsubscribe_email%>',
      'h:List-Unsubscribe-Post': 'List-Unsubscribe=One-Click',
      'v:email-id': `id-${name}`,
      'o:tag': ['bulk-email', name],
    })
    for (const { mail, to: envelope } of await arrived(subject, BATCH - gone)) {
      const n = Number(/(\d+)@/.exec(envelope[0] ?? '')?.[1])
      assert.deepEqual(envelope, [to[n]])
      assert.deepEqual([mail.html, mail.text?.trim()], [`<p>Hello Member ${n}</p>`, `Hello Member ${n}`])
      assert.match(
        mail.headerLines.find(({ key }) => key === 'list-unsubscribe')!.line,
        new RegExp(`/u/${n}>,\\s*<mailto:`),
      )
    }
    const query = {
      event: 'delivered OR failed',
      tags: `bulk-email AND ${name}`,
      limit: 300,
      ascending: 'yes',
    } as const
    const events = new Map<string, string>()
    const fetchAll = async (): Promise<void> => {
      events.clear()
      let seen = 0
      let page = await client().events.get(DOMAIN, query)
      while (page.items.length > 0) {
        for (const { event, id, recipient, 'user-variables': own } of page.items) {
          assert.equal((own as unknown as Record<string, string>)['email-id'], `id-${name}`)
          events.set(recipient, `${event}`)
          assert.ok(id)
          seen++
        }
        // As Ghost does: the first request's parameters come along.
        page = await client().events.get(DOMAIN, { ...query, page: page.pages.next?.page })
      }
      assert.equal(seen, events.size, 'an event came twice')
    }
    await until(
      async () => {
        await fetchAll()
        return events.size === BATCH
      },
      LIMIT,
      () => `${events.size} events`,
    )
    assert.deepEqual(
      to.map((address) => events.get(address)),
      to.map((_, n) => (n < gone ? 'failed' : 'delivered')),
    )
    const { address } = (await client().suppressions.get(DOMAIN, 'bounces', to[0]!)) as unknown as Bounced
    assert.equal(address, to[0])
    await assert.rejects(client().suppressions.destroy(DOMAIN, 'bounces', to[0]!), { status: 400 })
    const seen = new Set<string>()
    let list = await client().suppressions.list(DOMAIN, 'bounces', { limit: 5 })
    while (list.items.length > 0) {
      for (const item of list.items as unknown as Bounced[]) seen.add(item.address)
      list = await client().suppressions.list(DOMAIN, 'bounces', { limit: 5, page: list.pages.next?.page })
    }
    assert.ok(to.slice(0, gone).every((address) => seen.has(address)))
  })

  test('sends a MIME message', async () => {
    const message = [
      `From: ${FROM}`,
      'To: bob@there.example',
      `Subject: MIME of ${name}`,
      'X-Mailgun-Tag: mime',
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: 8bit',
      '',
      'Grüße',
      '',
    ].join('\r\n')
    await client().messages.create(DOMAIN, { to: 'bob@there.example', message: Buffer.from(message) })
    const [{ mail } = assert.fail('no email')] = await arrived(`MIME of ${name}`)
    assert.deepEqual([mail.text?.trim(), mail.headers.has('x-mailgun-tag')], ['Grüße', false])
  })
}

describe('mailgun.js', () => {
  mailgunTests('current', () =>
    new Mailgun(FormData).client({ username: 'api', key: postrider.token, url: postrider.origin }),
  )
})

withPrograms('mailgun.js in the version of Ghost', missing('ghost-mailgun.js'), () => {
  mailgunTests('ghosts', () => {
    const { default: Own } = load('ghost-mailgun.js') as { default: typeof Mailgun }
    const form = load('form-data') as typeof FormData
    return new Own(form).client({ username: 'api', key: postrider.token, url: postrider.origin, timeout: LIMIT })
  })
})

withPrograms('nodemailer-mailgun-transport', missing('nodemailer-mailgun-transport'), () => {
  test('sends an email with a file', async () => {
    const transport = load('nodemailer-mailgun-transport') as (options: object) => Parameters<typeof createTransport>[0]
    const { hostname, port, protocol } = new URL(postrider.origin)
    const auth = { api_key: postrider.token, domain: DOMAIN }
    const mailer = createTransport(transport({ auth, host: hostname, protocol, port: Number(port) }))
    const { messageId } = (await mailer.sendMail({
      from: { name: 'Shop', address: `hello@${DOMAIN}` },
      to: 'bob@there.example',
      subject: 'From nodemailer',
      html: '<p>Hi</p>',
      text: 'Hi',
      attachments: [{ filename: 'a.txt', content: 'a file' }],
    })) as unknown as { messageId: string }
    const [{ mail } = assert.fail('no email')] = await arrived('From nodemailer')
    assert.deepEqual(
      [mail.messageId, mail.from?.text, mail.html, mail.attachments.map(({ content }) => String(content))],
      [messageId, `"Shop" <hello@${DOMAIN}>`, '<p>Hi</p>', ['a file']],
    )
  })
})

describe('the SDK of Resend', () => {
  const client = (): Resend => new Resend(postrider.token, { baseUrl: `${postrider.origin}/resend` })

  test('sends an email, and gets it with its result', async () => {
    const { emails } = client()
    const { data, error } = await emails.send({
      from: FROM,
      to: 'bob@there.example',
      replyTo: 'visitor@elsewhere.example',
      subject: 'From Resend',
      html: '<p>Hi</p>',
      tags: [{ name: 'category', value: 'order' }],
      attachments: [{ filename: 'a.txt', content: Buffer.from('a file') }],
    })
    assert.equal(error, null)
    const [{ mail } = assert.fail('no email')] = await arrived('From Resend')
    assert.deepEqual(
      [mail.replyTo?.text, mail.html, mail.attachments.map(({ content }) => String(content))],
      ['visitor@elsewhere.example', '<p>Hi</p>', ['a file']],
    )
    await until(
      async () => (await emails.get(data!.id)).data?.last_event === 'delivered',
      LIMIT,
      () => 'the email is not delivered',
    )
    assert.deepEqual((await emails.get(data!.id)).data?.tags, [{ name: 'category', value: 'order' }])
  })

  test('sends a batch of 100 once, although it is repeated', async () => {
    const { batch } = client()
    const all = Array.from({ length: 100 }, (_, n) => ({
      from: FROM,
      to: `r${n}@there.example`,
      subject: 'Batch of Resend',
      html: `<p>Number ${n}</p>`,
    }))
    const first = await batch.send(all, { idempotencyKey: 'batch/1' })
    const again = await batch.send(all, { idempotencyKey: 'batch/1' })
    assert.deepEqual([first.error, again.data], [null, first.data])
    for (const { mail, to } of await arrived('Batch of Resend', 100))
      assert.equal(mail.html, `<p>Number ${/\d+/.exec(to[0]!)?.[0]}</p>`)
  })

  test('schedules an email, changes its time and cancels it', async () => {
    const { emails } = client()
    const { data } = await emails.send({
      from: FROM,
      to: 'bob@there.example',
      subject: 'Cancelled',
      text: 'Never sent',
      scheduledAt: 'in 2 hours',
    })
    const later = new Date(Date.now() + 86_400_000).toISOString()
    assert.equal((await emails.update({ id: data!.id, scheduledAt: later })).error, null)
    assert.equal((await emails.get(data!.id)).data?.scheduled_at, later)
    assert.equal((await emails.cancel(data!.id)).error, null)
    assert.equal((await emails.get(data!.id)).data?.last_event, 'canceled')
    const soon = await emails.send({
      from: FROM,
      to: 'bob@there.example',
      subject: 'Brought forward',
      text: 'Sent',
      scheduledAt: 'in 3 days',
    })
    const now = new Date(Date.now() + 1000).toISOString()
    assert.equal((await emails.update({ id: soon.data!.id, scheduledAt: now })).error, null)
    await arrived('Brought forward')
    assert.ok(!exchanger.heard.some(({ message }) => message.includes('Never sent')))
  })
})
