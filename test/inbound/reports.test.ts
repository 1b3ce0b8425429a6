import assert from 'node:assert/strict'
import { after, beforeEach, describe, test } from 'node:test'
import { silentLog, type Log } from '../../src/base/log.ts'
import { unsubscribeLocalPart } from '../../src/message/return-path.ts'
import { payloadOf } from '../../src/webhooks/payload.ts'
import { raw } from '../../src/store/query.ts'
import type { RowOf } from '../../src/store/schema/tables.ts'
import { Commands } from '../commands/command.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { deliver } from '../kit/sender.ts'
import { until } from '../kit/until.ts'
import { DAY, HOUR } from '../mail/mails.ts'
import { block, feedback, homeOf, letter, report, type Gone } from './home.ts'

const faults: unknown[] = []
const log: Log = {
  ...silentLog,
  fault: (label, thrown) => (faults.push([label, thrown]), silentLog.fault(label, thrown)),
}

const home = homeOf(
  () => postrider,
  () => exchanger,
)

const { comeHome, eventTypes, events, handOver, notices, received, send, show, suppressions, stats, tryPost } = home

const exchanger = testExchanger({ tls: true })
const postrider = ofFile(() =>
  startTestAppliance({ exchanger, log, domains: ['here.test'], routes: ['there.test', 'elsewhere.test'] }),
)

setUp(async () => {
  postrider.dns.set('there.test', 'TXT', ['v=spf1 ip4:127.0.0.1 -all'])
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Desk', address: 'desk@here.test' }))
  assert.equal(made.status, 201, JSON.stringify(made.body))
})
beforeEach(() => void (exchanger.script = { tls: true }))
after(async () => {
  assert.deepEqual(faults, [])
})

let count = 0
/** An address that no other test writes to. */
const someone = (domain = 'there.test'): string => `someone${++count}@${domain}`

const last = <T>(list: readonly T[]): T => list.at(-1)!

/** The delivery behind an email's only, or named, recipient. */
const deliveryOf = (id: string, address?: string): number =>
  postrider.appliance.deps.store
    .all(
      raw<{ key: number; address: string }>(
        'select key, address from deliveries where email_key = (select key from outbound_emails where id = ?) order by key',
        [id],
      ),
    )
    .find((row) => address === undefined || row.address === address)!.key

/** The email and the address are unchanged: it is delivered. */
async function unchanged({ id }: Gone, ...addresses: string[]): Promise<void> {
  const shown = await show(id)
  assert.equal(shown.status, 'delivered')
  assert.deepEqual([...new Set(shown.recipients.map(({ status }) => status))], ['delivered'])
  assert.ok(!eventTypes(id).some((type) => /bounced|complained|unsubscribed/.test(type)), String(eventTypes(id)))
  for (const address of addresses) assert.deepEqual(await suppressions(address), [])
}

describe('a delivery report', () => {
  test('a failure report sets a delivered email to bounced, with event and suppression', async () => {
    const to = someone()
    const figures = () =>
      postrider.appliance.deps.store.first<{ n: number | null; b: number | null }>(
        raw('select sum(deliveries) as n, sum(bounces) as b from tallies'),
      )
    const counted = figures()!
    const gone = await send({ to })
    postrider.clock.leap(60_000)
    const said = '550 5.1.1 <bob>: Recipient address rejected: User unknown in virtual mailbox table'
    const [verdict] = await comeHome({
      from: '',
      to: gone.returnPath,
      message: report(gone.returnPath, [block({ recipient: to, said })]),
    })
    assert.equal(verdict!.code, 250)
    const shown = await show(gone.id)
    assert.equal(shown.status, 'bounced')
    assert.equal(shown['bounced_at'], new Date(postrider.clock.now()).toISOString())
    assert.ok(shown['delivered_at']! < shown['bounced_at']!)
    assert.partialDeepStrictEqual(shown.recipients, [
      { status: 'bounced', smtp_code: 550, enhanced_code: '5.1.1', response: said, next_attempt_at: null },
    ])
    assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered', 'email.bounced'])
    const { body } = await postrider.api('GET', `/outbound-emails/${gone.id}/attempts`)
    const way = body.data.map(({ attributes }: { attributes: Record<string, unknown> }) => attributes)
    assert.partialDeepStrictEqual(way, [
      { number: 1, at: shown['delivered_at'], outcome: 'delivered', smtp_code: 250, reported: false },
      { number: 1, at: shown['bounced_at'], outcome: 'bounced', smtp_code: 550, response: said, reported: true },
    ])
    assert.match(way[0].dialogue, /RCPT TO:/)
    assert.deepEqual([way[1].remote_mta, way[1].tls, way[1].dialogue], [null, null, null])
    const event = last(
      postrider.appliance.deps.store.all(
        raw<RowOf<'events'>>(
          `select * from events where type = 'email.bounced' and email_key = (select key from outbound_emails where id = ?)`,
          [gone.id],
        ),
      ),
    )
    const payload = JSON.parse(payloadOf(postrider.appliance.deps.store, event)!) as { data: Record<string, unknown> }
    assert.partialDeepStrictEqual(payload.data, {
      email_id: gone.id,
      recipient: to,
      recipient_role: 'to',
      bounce: {
        kind: 'bounced',
        class: 'hard',
        smtp_code: 550,
        enhanced_code: '5.1.1',
        response: said,
        remote_mta: 'store.there.test',
      },
    })
    assert.deepEqual(await suppressions(to), [
      { email: to, reason: 'hard_bounce', scope: 'all', source: 'dsn', expires_at: null },
    ])
    assert.partialDeepStrictEqual(await stats(gone.id), { deliveries: 1, bounces: 1, complaints: 0 })
    // For the reputation it is one email, and it bounced.
    assert.deepEqual({ ...figures() }, { n: counted.n ?? 0, b: (counted.b ?? 0) + 1 })
    const refused = await tryPost({ to })
    assert.equal(refused.status, 422)
    assert.equal(refused.body.errors[0].code, 'recipient_suppressed')
  })

  test('a repeated report, or a later one of another kind, has no effect', async () => {
    const to = someone()
    const gone = await send({ to })
    const first = report(gone.returnPath, [block({ recipient: to })])
    await comeHome({ from: '', to: gone.returnPath, message: first })
    const before = await show(gone.id)
    postrider.clock.advance(1000)
    await comeHome({ from: '', to: gone.returnPath, message: first })
    const other = block({ recipient: to, status: '5.2.2', said: '552 5.2.2 Mailbox full' })
    await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, [other, other]) })
    await comeHome({ to: gone.returnPath, message: feedback(gone.returnPath, 'abuse', to, gone.heard.message) })
    assert.deepEqual(await show(gone.id), before)
    assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered', 'email.bounced'])
    assert.equal((await suppressions(to)).length, 1)
    assert.equal((await stats(gone.id))['bounces'], 1)
  })

  test('the third soft bounce report within 72 hours suppresses the address for a week', async () => {
    const to = someone()
    const said = { status: '4.2.1', said: '450 4.2.1 The mailbox is busy' }
    for (const [index, wait] of [0, 73 * HOUR, HOUR, HOUR].entries()) {
      postrider.clock.leap(wait)
      const { id, returnPath } = await send({ to })
      await comeHome({ from: '', to: returnPath, message: report(returnPath, [block({ recipient: to, ...said })]) })
      assert.equal((await show(id)).status, 'bounced')
      assert.equal(last(events(id)).data['class'], 'soft')
      if (index < 3) assert.deepEqual(await suppressions(to), [], `after ${index + 1}`)
    }
    const expires_at = new Date(postrider.clock.now() + 7 * DAY).toISOString()
    assert.deepEqual(await suppressions(to), [
      { email: to, reason: 'soft_bounce', scope: 'all', source: 'dsn', expires_at },
    ])
    assert.equal((await tryPost({ to })).status, 422)
    postrider.clock.leap(7 * DAY)
    assert.equal((await tryPost({ to })).status, 201)
  })

  for (const [name, status, said] of [
    ['quota', '5.2.2', '552 5.2.2 The email account that you tried to reach is over quota'],
    ['policy', '5.7.26', '550 5.7.26 This mail has been blocked because the sender is unauthenticated.'],
    ['content', '5.7.0', '552 5.7.0 This message was blocked because its content presents a potential security issue.'],
    ['infrastructure', '5.4.6', '550 5.4.6 Routing loop detected -- (too many Received headers)'],
    ['policy', '5.0.0', ''],
  ] as const)
    test(`class ${name} (${status}) sets the email to bounced without a suppression`, async () => {
      const to = someone()
      for (let round = 0; round < (name === 'quota' ? 2 : 4); round++) {
        const { id, returnPath } = await send({ to })
        await comeHome({
          from: '',
          to: returnPath,
          message: report(returnPath, [block({ recipient: to, status, said })]),
        })
        assert.equal((await show(id)).status, 'bounced')
        assert.partialDeepStrictEqual(last(events(id)), {
          type: 'email.bounced',
          data: { kind: 'bounced', class: name, smtp_code: said === '' ? null : Number(said.slice(0, 3)) },
        })
      }
      assert.deepEqual(await suppressions(to), [])
    })

  for (const action of ['delayed', 'delivered', 'relayed', 'expanded'])
    test(`a report with action ${action} has no effect`, async () => {
      const to = someone()
      const gone = await send({ to })
      const status = action === 'delayed' ? '4.4.1' : '2.0.0'
      const told = block({ recipient: to, action, status, said: action === 'delayed' ? '451 4.4.1 No answer' : '' })
      await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, [told]) })
      await unchanged(gone, to)
    })

  test('a bounce message that is not a DSN counts as well', async () => {
    const to = someone()
    const gone = await send({ to })
    await comeHome({
      from: '',
      to: gone.returnPath,
      message:
        `From: MAILER-DAEMON@there.test\nTo: ${gone.returnPath}\nSubject: failure notice\n\n` +
        `Hi. This is the qmail-send program at there.test.\nI'm afraid I wasn't able to deliver your message to the following addresses.\n` +
        `This is a permanent error; I've given up. Sorry it didn't work out.\n\n<${to}>:\n` +
        `192.0.2.1 does not like recipient.\nRemote host said: 550 5.1.1 User unknown\nGiving up on 192.0.2.1.\n`,
    })
    assert.equal((await show(gone.id)).status, 'bounced')
    assert.partialDeepStrictEqual(await suppressions(to), [{ reason: 'hard_bounce', source: 'dsn' }])
  })

  test('a bounce message of an unknown server counts if it has the null sender', async () => {
    const to = someone()
    const gone = await send({ to })
    const message = `From: Postbote <post@there.test>\nTo: ${gone.returnPath}\nSubject: Undeliverable: Hello\nAuto-Submitted: auto-generated\n\nDelivery has failed to these recipients or groups:\n\n${to}\n#550 5.1.1 RESOLVER.ADR.RecipNotFound; not found ##\n`
    await comeHome({ from: 'post@there.test', to: gone.returnPath, message })
    await unchanged(gone, to)
    await comeHome({ from: '', to: gone.returnPath, message })
    assert.equal((await show(gone.id)).status, 'bounced')
    assert.deepEqual(
      (await suppressions(to)).map(({ reason }) => reason),
      ['hard_bounce'],
    )
  })

  test('an ordinary message with the null sender has no effect', async () => {
    const to = someone()
    const gone = await send({ to })
    const text = `Delivery failed to the following recipient: mailbox unavailable\n\n${to}\n550 5.1.1 User unknown`
    await comeHome({ from: '', to: gone.returnPath, message: letter(gone.returnPath, 'Re: Hello', '', text) })
    await unchanged(gone, to)
  })

  test('a report after a complaint does not change the status', async () => {
    const to = someone()
    const gone = await send({ to })
    await comeHome({ to: gone.returnPath, message: feedback(gone.returnPath, 'abuse', to, gone.heard.message) })
    assert.equal((await show(gone.id)).status, 'complained')
    await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, [block({ recipient: to })]) })
    const shown = await show(gone.id)
    assert.equal(shown.status, 'complained')
    assert.equal(shown['bounced_at'], null)
    assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered', 'email.complained'])
    assert.deepEqual(
      (await suppressions(to)).map(({ reason }) => reason),
      ['complaint'],
    )
  })

  test('accepts a report about a deleted email, without an effect', async () => {
    const to = someone()
    const gone = await send({ to })
    assert.equal((await postrider.api('DELETE', `/outbound-emails/${gone.id}`)).status, 204)
    const [verdict] = await comeHome({
      from: '',
      to: gone.returnPath,
      message: report(gone.returnPath, [block({ recipient: to })]),
    })
    assert.equal(verdict!.code, 250)
    assert.deepEqual(await suppressions(to), [])
  })
})

describe('messages to a return path that are not reports', () => {
  const ANSWERS: Record<string, (to: string) => string> = {
    'a vacation answer': (to) => letter(to, 'Re: Hello', 'Auto-Submitted: auto-replied (vacation)\n', 'I am away.'),
    'a vacation answer without its field': (to) => letter(to, 'Out of office: Hello', '', 'I am away until Monday.'),
    'a vacation answer that tells of another address': (to) =>
      letter(
        to,
        'Automatic reply',
        'X-Autoreply: yes\n',
        'User unknown? No: 550 5.1.1 I have left; write to eve@x.test.',
      ),
    'a challenge': (to) =>
      letter(to, 'Please confirm your message', 'Precedence: bulk\n', 'Click here and your message will be delivered.'),
    'an ordinary mail': (to) => letter(to, 'Delivery failed?', '', 'Your parcel: 550 5.1.1 user unknown, they said.'),
    'a forwarded report': (to) =>
      `From: Bob <bob@there.test>\nTo: ${to}\nSubject: Fwd: look\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="outer"\n\n` +
      `--outer\nContent-Type: text/plain\n\nLook.\n--outer\nContent-Type: message/rfc822\n\n${report(to)}\n--outer--\n`,
    'an empty message': () => '\n',
  }
  for (const [name, write] of Object.entries(ANSWERS))
    test(`${name} has no effect`, async () => {
      const to = someone()
      const gone = await send({ to })
      for (const from of ['', 'bob@there.test'])
        await comeHome({ from, to: gone.returnPath, message: write(gone.returnPath) })
      await unchanged(gone, to)
    })
})

describe('whose report it is', () => {
  test('a token that is not ours is refused, and one of ours at a host that is not', async () => {
    const to = someone()
    const gone = await send({ to })
    const [local, host] = gone.returnPath.split('@') as [string, string]
    const forged = `${local.slice(0, 12)}${local[12] === 'a' ? 'b' : 'a'}${local.slice(13)}`
    const codes = async (address: string): Promise<(number | null)[]> =>
      (
        await deliver(postrider.appliance.smtp[0]!, {
          from: '',
          to: address,
          message: report(address, [block({ recipient: to })]),
        })
      ).map(({ code }) => code)
    assert.deepEqual(await codes(`${forged}@${host}`), [550])
    assert.deepEqual(await codes(`${local.slice(0, -1)}@${host}`), [550])
    assert.deepEqual(await codes(`${local}@foreign.test`), [554])
    assert.deepEqual(await codes(`${local}@bounce.foreign.test`), [554])
    await unchanged(gone, to)
  })

  test('accepts a token in another case', async () => {
    const to = someone()
    const gone = await send({ to })
    await comeHome({
      from: '',
      to: gone.returnPath.toUpperCase(),
      message: report(gone.returnPath, [block({ recipient: to.toUpperCase() })]),
    })
    assert.equal((await show(gone.id)).status, 'bounced')
    assert.equal((await suppressions(to)).length, 1)
  })

  test('the token of one email cannot bounce the recipient of another', async () => {
    const victim = someone()
    const mine = await send({ to: victim })
    const to = someone()
    const other = await send({ to: 'first@there.test', cc: to })
    await comeHome({
      from: '',
      to: other.returnPath,
      message: report(other.returnPath, [block({ recipient: victim })]),
    })
    await unchanged(mine, victim)
    await unchanged(other, to, 'first@there.test')
  })

  test('an unknown address in a report is a forwarding of the only recipient', async () => {
    const to = someone()
    const gone = await send({ to })
    await comeHome({
      from: '',
      to: gone.returnPath,
      message: report(gone.returnPath, [block({ recipient: 'new-home@far.test' })]),
    })
    assert.equal((await show(gone.id)).status, 'bounced')
    assert.partialDeepStrictEqual(await suppressions(to), [{ email: to, reason: 'hard_bounce' }])
    assert.deepEqual(await suppressions('new-home@far.test'), [])
  })

  for (const action of ['expanded', 'relayed', 'delayed'])
    test(`the failure of an unknown address does not bounce a recipient with action ${action} in the same report`, async () => {
      const to = someone()
      const gone = await send({ to })
      const blocks = [
        block({ recipient: 'member@far.test' }),
        block({ recipient: to, action, status: action === 'delayed' ? '4.4.1' : '2.0.0', said: '' }),
      ]
      await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, blocks) })
      await unchanged(gone, to)
    })

  test('matches an internationalised domain in Unicode', async () => {
    home.receiver('xn--bcher-kva.test')
    const [to, cc] = [`one${++count}@bücher.test`, `two${++count}@bücher.test`]
    const gone = await send({ to, cc })
    const told = block().replace('rfc822; bob@there.test', `utf-8; ${cc.replace('ü', '\\x{FC}')}`)
    await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, [told]) })
    assert.deepEqual(
      (await show(gone.id)).recipients.map(({ status }) => status),
      ['delivered', 'bounced'],
    )
  })

  test('finds a recipient of the same email that is bound to another IP address since', async () => {
    const [to, cc] = [someone(), someone()]
    const gone = await send({ to, cc })
    await postrider.appliance.deps.store.write((tx) =>
      tx.run(raw('update deliveries set lane = ? where key = ?', ['there.test|192.0.2.1', deliveryOf(gone.id, to)])),
    )
    await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, [block({ recipient: cc })]) })
    assert.deepEqual(
      (await show(gone.id)).recipients.map(({ status }) => status),
      ['delivered', 'bounced'],
    )
  })

  for (const role of ['cc', 'bcc'])
    test(`a report about a ${role} recipient settles this recipient and does not change the email's status`, async () => {
      const [to, also] = [someone(), someone()]
      const gone = await send({ to, [role]: also })
      assert.deepEqual(gone.heard.to, [to, also])
      const message = report(gone.returnPath, [block({ recipient: also })])
      for (let round = 0; round < 2; round++) await comeHome({ from: '', to: gone.returnPath, message })
      const shown = await show(gone.id)
      assert.equal(shown.status, 'delivered')
      assert.equal(shown['bounced_at'], null)
      assert.deepEqual(
        shown.recipients.map(({ status }) => status),
        ['delivered', 'bounced'],
      )
      const bounced = events(gone.id).filter(({ type }) => type === 'email.bounced')
      assert.equal(bounced.length, 1)
      assert.partialDeepStrictEqual(bounced[0]!.data, { delivery: deliveryOf(gone.id, also), class: 'hard' })
      assert.deepEqual(await suppressions(to), [])
      assert.partialDeepStrictEqual(await suppressions(also), [{ reason: 'hard_bounce', source: 'dsn' }])
    })

  test('a report on several recipients settles each', async () => {
    const [to, cc, bcc] = [someone(), someone(), someone()]
    const gone = await send({ to, cc, bcc })
    const blocks = [
      block({ recipient: cc }),
      block({ recipient: bcc, action: 'delayed', status: '4.4.1', said: '' }),
      block({ recipient: to, status: '5.7.1', said: '550 5.7.1 Message rejected' }),
    ]
    await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, blocks) })
    const shown = await show(gone.id)
    assert.equal(shown.status, 'bounced')
    assert.deepEqual(
      shown.recipients.map(({ status, enhanced_code: code }) => [status, status === 'bounced' ? code : '']),
      [
        ['bounced', '5.7.1'],
        ['bounced', '5.1.1'],
        ['delivered', ''],
      ],
    )
    assert.deepEqual(await suppressions(to), [])
    assert.equal((await suppressions(cc)).length, 1)
  })

  test('the original recipient has priority over the final one, even if both are recipients', async () => {
    const [to, cc] = [someone(), someone()]
    const gone = await send({ to, cc })
    // cc forwards to the primary recipient.
    await comeHome({
      from: '',
      to: gone.returnPath,
      message: report(gone.returnPath, [block({ recipient: to, original: cc })]),
    })
    assert.deepEqual(
      (await show(gone.id)).recipients.map(({ status }) => status),
      ['delivered', 'bounced'],
    )
    assert.deepEqual(await suppressions(to), [])
  })

  test('recipients at another receiving server have their own return path', async () => {
    const [to, cc] = [someone(), someone('elsewhere.test')]
    const gone = await send({ to, cc })
    const theirs = await until(() => exchanger.heard.find((heard) => heard.to.includes(cc)), 'the copy')
    assert.notEqual(theirs.from, gone.returnPath)
    await comeHome({ from: '', to: theirs.from, message: report(theirs.from, [block({ recipient: to })]) })
    assert.deepEqual(await suppressions(to), [])
    assert.equal((await show(gone.id)).status, 'delivered')
  })
})

describe('a report before the end of the attempt', () => {
  test('a bounce report after a connection cut at the final dot ends the email without a retry', async () => {
    const to = someone()
    exchanger.script = { tls: true, final: () => 'close' }
    const gone = await handOver({ to })
    const waiting = await home.attempted(gone.id, 1)
    assert.deepEqual([waiting.status, waiting.recipients[0]!.status], ['sent', 'queued'])
    exchanger.script = { tls: true }
    await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, [block({ recipient: to })]) })
    const shown = await show(gone.id)
    assert.deepEqual([shown.status, shown.recipients[0]!.status], ['bounced', 'bounced'])
    assert.equal(shown.recipients[0]!.next_attempt_at, null)
    const heard = exchanger.heard.length
    postrider.clock.leap(DAY)
    await send({ to: someone() })
    assert.equal(exchanger.heard.length, heard + 1)
  })

  test('a complaint about such an email counts too, and it is not retried', async () => {
    const to = someone()
    exchanger.script = { tls: true, final: () => 'close' }
    const gone = await handOver({ to })
    await home.attempted(gone.id, 1)
    exchanger.script = { tls: true }
    await comeHome({ to: gone.returnPath, message: feedback(gone.returnPath, 'abuse', to, gone.heard.message) })
    const shown = await show(gone.id)
    assert.deepEqual([shown.status, shown.recipients[0]!.status], ['complained', 'complained'])
    assert.equal(shown.recipients[0]!.next_attempt_at, null)
    assert.partialDeepStrictEqual(await suppressions(to), [{ reason: 'complaint', scope: 'all' }])
    const heard = exchanger.heard.length
    postrider.clock.leap(DAY)
    await send({ to: someone() })
    assert.equal(exchanger.heard.length, heard + 1)
  })

  for (const [name, answer] of [
    ['then accepts', '250 2.0.0 Queued'],
    ['then cuts the connection', 'close'],
    ['then defers', '451 4.3.0 Later'],
  ] as const)
    test(`applies a report that arrives before the receiving server's reply, with ${name}`, async () => {
      const to = someone()
      const { promise, resolve } = Promise.withResolvers<string>()
      exchanger.script = { tls: true, final: () => promise }
      const gone = await handOver({ to })
      await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, [block({ recipient: to })]) })
      resolve(answer)
      exchanger.script = { tls: true }
      // The lane's next mail goes after the answer was written down.
      await send({ to: someone() })
      postrider.clock.leap(DAY)
      await send({ to: someone() })
      const shown = await show(gone.id)
      assert.deepEqual([shown.status, shown.recipients[0]!.status], ['bounced', 'bounced'])
      assert.equal(shown.recipients[0]!.smtp_code, 550)
      assert.deepEqual(
        eventTypes(gone.id).filter((type) => type !== 'email.sent'),
        ['email.bounced'],
      )
      assert.equal((await suppressions(to)).length, 1)
      assert.equal(exchanger.heard.filter((heard) => heard.to.includes(to)).length, 1)
    })
})

describe('a complaint', () => {
  for (const [name, where] of [
    ['to the return path', (gone: Gone) => gone.returnPath],
    ['to abuse@ of the domain', () => 'abuse@here.test'],
    ['to an inbox', () => 'desk@here.test'],
  ] as const)
    test(`${name} is a complaint: sets the status, suppresses, sends one event`, async () => {
      const to = someone()
      const gone = await send({ to })
      const address = where(gone)
      const [before, told] = [(await received()).length, notices().length]
      const message = feedback(address, 'abuse', to, gone.heard.message)
      for (let round = 0; round < 2; round++) await comeHome({ from: 'feedback@there.test', to: address, message })
      const shown = await show(gone.id)
      assert.deepEqual([shown.status, shown.recipients[0]!.status], ['complained', 'complained'])
      assert.equal(shown['complained_at'], new Date(postrider.clock.now()).toISOString())
      assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered', 'email.complained'])
      assert.equal(last(events(gone.id)).data['feedback_type'], 'abuse')
      assert.deepEqual(await suppressions(to), [
        { email: to, reason: 'complaint', scope: 'all', source: 'arf', expires_at: null },
      ])
      assert.partialDeepStrictEqual(await stats(gone.id), { complaints: 1, bounces: 0 })
      assert.equal((await received()).length, before + (address === 'desk@here.test' ? 2 : 0))
      assert.equal(notices().length, told)
      assert.equal((await tryPost({ to })).status, 422)
    })

  test('a complaint with a redacted recipient is matched by the token in the copy', async () => {
    const to = someone()
    const gone = await send({ to })
    const copy = gone.heard.message.replaceAll(to, 'redacted')
    await comeHome({ to: 'abuse@here.test', message: feedback('abuse@here.test', 'Abuse', undefined, copy) })
    assert.equal((await show(gone.id)).status, 'complained')
    assert.equal((await suppressions(to)).length, 1)
  })

  test("a complaint of a cc recipient does not change the email's status", async () => {
    const [to, cc] = [someone(), someone()]
    const gone = await send({ to, cc })
    await comeHome({ to: gone.returnPath, message: feedback(gone.returnPath, 'abuse', cc, gone.heard.message) })
    const shown = await show(gone.id)
    assert.equal(shown.status, 'delivered')
    assert.deepEqual(
      shown.recipients.map(({ status }) => status),
      ['delivered', 'complained'],
    )
    assert.equal(last(events(gone.id)).type, 'email.complained')
    assert.deepEqual(await suppressions(to), [])
    assert.partialDeepStrictEqual(await suppressions(cc), [{ reason: 'complaint' }])
  })

  test('ignores a complaint about an email with several recipients without the address', async () => {
    const [to, cc] = [someone(), someone()]
    const gone = await send({ to, cc })
    await comeHome({ to: gone.returnPath, message: feedback(gone.returnPath, 'abuse', undefined, gone.heard.message) })
    await unchanged(gone, to, cc)
  })

  for (const type of ['opt-out', 'opt-out-list'])
    test(`feedback type ${type} unsubscribes without a complaint`, async () => {
      const to = someone()
      const gone = await send({ to })
      for (let round = 0; round < 2; round++)
        await comeHome({ to: gone.returnPath, message: feedback(gone.returnPath, type, to, gone.heard.message) })
      assert.equal((await show(gone.id)).status, 'delivered')
      assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered', 'email.unsubscribed'])
      assert.deepEqual(await suppressions(to), [
        { email: to, reason: 'unsubscribe', scope: 'marketing', source: 'unsubscribe_mail', expires_at: null },
      ])
      assert.equal((await tryPost({ to })).status, 201)
    })

  for (const type of ['not-spam', 'fraud', 'virus', 'other', 'auth-failure', 'dmarc', ''])
    test(`feedback type "${type}" is not a complaint`, async () => {
      const to = someone()
      const gone = await send({ to })
      for (const address of [gone.returnPath, 'desk@here.test'])
        await comeHome({ to: address, message: feedback(address, type, to, gone.heard.message) })
      await unchanged(gone, to)
    })

  test('a complaint without a valid token has no effect', async () => {
    const to = someone()
    const gone = await send({ to })
    const token = gone.returnPath.split('@')[0]!
    for (const local of ['ann', `${token.slice(0, -2)}${token.endsWith('aa') ? 'bb' : 'aa'}`, token.slice(0, 25)])
      for (const address of ['abuse@here.test', 'desk@here.test'])
        await comeHome({
          to: address,
          message: feedback(address, 'abuse', to, gone.heard.message.replaceAll(token, local)),
        })
    await unchanged(gone, to)
  })
})

describe('postmaster and abuse', () => {
  test('messages to postmaster and abuse without an inbox become a notification of the domain owner, not an email', async () => {
    await postrider.activeDomain('bobs.test', postrider.other)
    const heard = exchanger.heard.length
    for (const to of ['postmaster@here.test', 'ABUSE@bobs.test', 'PostMaster@bounce.here.test'])
      await comeHome({ to, message: letter(to, `To ${to}`, '', 'Your server misbehaves.') })
    const [first, second, third] = notices().slice(-3)
    assert.equal(first!.subject, 'Message for postmaster@here.test: To postmaster@here.test')
    assert.match(first!.text, /Your server misbehaves\./)
    assert.match(first!.text, /bob@there\.test/)
    assert.deepEqual(
      [first, second, third].map((notice) => notice!.user_key),
      [postrider.user.key, postrider.other.key, postrider.user.key],
    )
    postrider.clock.leap(HOUR)
    await send({ to: someone() })
    assert.equal(exchanger.heard.length, heard + 1)

    const commands = Commands.beside(postrider)
    try {
      const listed = await commands.json<Record<string, unknown>[]>('notices')
      assert.partialDeepStrictEqual(listed[1], {
        user: 'bob@other.test',
        subject: 'Message for abuse@bobs.test: To ABUSE@bobs.test',
        mailed: false,
      })
    } finally {
      await commands.close()
    }
  })

  test('the notification names the role address, even if the message has other recipients', async () => {
    await comeHome({ to: ['desk@here.test', 'postmaster@here.test'], message: letter('desk@here.test', 'To both') })
    assert.equal(last(notices()).subject, 'Message for postmaster@here.test: To both')
    assert.equal((await received())[0], 'To both')
  })

  test('messages to postmaster and abuse with an inbox are received like other mail', async () => {
    await postrider.activeDomain('kept.test')
    const made = await postrider.api(
      'POST',
      '/inboxes',
      document('inboxes', { name: 'Postmaster', address: 'postmaster@kept.test' }),
    )
    assert.equal(made.status, 201)
    const told = notices().length
    await comeHome({ to: 'PostMaster@KEPT.test', message: letter('postmaster@kept.test', 'For the inbox') })
    assert.equal((await received())[0], 'For the inbox')
    assert.equal(notices().length, told)
  })

  test('accepts postmaster without a domain', async () => {
    const told = notices().length
    const [verdict] = await comeHome({ from: '', to: 'Postmaster', message: letter('postmaster', 'Bare') })
    assert.equal(verdict!.code, 250)
    assert.equal(notices().length, told + 1)
  })
})

describe('several recipients in one transaction', () => {
  const addresses = (gone: Gone): string[] => [
    'desk@here.test',
    gone.returnPath,
    `${unsubscribeLocalPart(postrider.appliance.deps.keyring, deliveryOf(gone.id))}@bounce.here.test`,
  ]

  test('a report to an inbox and a return path is received and bounces the email, without unsubscribing', async () => {
    const to = someone()
    const gone = await send({ to })
    const [before] = [(await received()).length]
    const verdicts = await comeHome({
      from: '',
      to: addresses(gone),
      message: report(gone.returnPath, [block({ recipient: to })]),
    })
    assert.deepEqual(
      verdicts.map(({ code }) => code),
      [250, 250, 250],
    )
    assert.equal((await received()).length, before + 1)
    assert.equal((await show(gone.id)).status, 'bounced')
    assert.deepEqual(
      (await suppressions(to)).map(({ reason }) => reason),
      ['hard_bounce'],
    )
  })

  test('a message to an inbox and an unsubscribe address is received and unsubscribes', async () => {
    const to = someone()
    const gone = await send({ to })
    await comeHome({ from: to, to: addresses(gone), message: letter('desk@here.test', 'All three') })
    assert.equal((await received())[0], 'All three')
    assert.equal((await show(gone.id)).status, 'delivered')
    assert.deepEqual(
      (await suppressions(to)).map(({ reason }) => reason),
      ['unsubscribe'],
    )
  })

  test('a complaint to several addresses is received and counts once, without unsubscribing', async () => {
    const to = someone()
    const gone = await send({ to })
    await comeHome({ to: addresses(gone), message: feedback(gone.returnPath, 'abuse', to, gone.heard.message) })
    assert.equal((await received())[0], 'Abuse report')
    assert.deepEqual(eventTypes(gone.id), ['email.sent', 'email.delivered', 'email.complained'])
    assert.deepEqual(
      (await suppressions(to)).map(({ reason }) => reason),
      ['complaint'],
    )
  })

  test('a report to the return paths of several emails bounces each', async () => {
    const mails = [await send({ to: someone() }), await send({ to: someone() })]
    await comeHome({
      from: '',
      to: mails.map(({ returnPath }) => returnPath),
      message: report('x@here.test', [block({ recipient: 'gone@far.test' })]),
    })
    for (const { id } of mails) assert.equal((await show(id)).status, 'bounced')
  })
})

describe('large reports', () => {
  test('reads a report on 10,000 recipients within limits, and applies ours at its start', async () => {
    const [to, cc] = [someone(), someone()]
    const gone = await send({ to, cc })
    const others = Array.from({ length: 10_000 }, (_, index) => block({ recipient: `stranger${index}@there.test` }))
    await comeHome({
      from: '',
      to: gone.returnPath,
      message: report(gone.returnPath, [block({ recipient: cc }), ...others]),
    })
    assert.deepEqual(
      (await show(gone.id)).recipients.map(({ status }) => status),
      ['delivered', 'bounced'],
    )
    assert.equal(events(gone.id).filter(({ type }) => type === 'email.bounced').length, 1)
  })

  test('a report on 10,000 unknown addresses bounces the only recipient once', async () => {
    const to = someone()
    const gone = await send({ to })
    const others = Array.from({ length: 10_000 }, (_, index) => block({ recipient: `stranger${index}@there.test` }))
    await comeHome({ from: '', to: gone.returnPath, message: report(gone.returnPath, others) })
    assert.equal(events(gone.id).filter(({ type }) => type === 'email.bounced').length, 1)
  })

  test('applies a report of 5 MB, and deletes its file', async () => {
    const to = someone()
    const gone = await send({ to })
    const copy = `Subject: Large\n\n${`${'x'.repeat(76)}\n`.repeat(68_000)}`
    const message = report(gone.returnPath, [block({ recipient: to })], copy)
    assert.ok(message.length > 5_000_000)
    await comeHome({ from: '', to: gone.returnPath, message })
    assert.equal((await show(gone.id)).status, 'bounced')
    assert.equal(
      postrider.appliance.deps.store.first(raw('select 1 from inbound_messages where spool is not null')),
      undefined,
    )
  })
})
