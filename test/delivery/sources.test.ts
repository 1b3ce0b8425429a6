// Sources: all local addresses are used, each by its role and name. An email keeps its address over attempts and
// restarts. A problem of one address delays no email of another.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { ConfigInput } from '../../src/base/config.ts'
import { parseConfig } from '../../src/base/config.ts'
import { checkFamilies, sourcesOf } from '../../src/base/sources.ts'
import { must } from '../../src/base/errors.ts'
import { addNotice } from '../../src/users/notices.ts'
import { domainByKey } from '../../src/domains/find.ts'
import { Ways } from '../../src/delivery/queue/ways.ts'
import { bulkLane, domainOf } from '../../src/message/lane-names.ts'
import { raw } from '../../src/store/query.ts'
import { Commands } from '../commands/command.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, testExchanger, type Script } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { mailsOf, MINUTE } from '../mail/mails.ts'

const [ONE, TWO, NEWS] = ['127.0.0.11', '127.0.0.12', '127.0.0.13'] as const
const waysOf = (delivery: ConfigInput['delivery']): Ways =>
  new Ways(parseConfig({ hostname: 'mx.here.test', delivery }))
const addressesOf = (ways: Ways, lane: string): string[] => ways.of(lane).map(({ address }) => address)
/** A recipient domain whose first choice is an address. */
function domainOfSource(ways: Ways, address: string, label: string): string {
  for (let n = 0; ; n++) {
    const domain = `${label}${n}.test`
    if (addressesOf(ways, ways.choices(domain)[0]!).includes(address)) return domain
  }
}

describe('the configuration', () => {
  const refusal = (delivery: ConfigInput['delivery']): string => {
    try {
      parseConfig({ delivery })
    } catch (thrown) {
      return (thrown as Error).message
    }
    throw new Error('taken')
  }

  test('a duplicate IP address stops the start with an error, in any spelling', () => {
    for (const delivery of [
      { source: ['192.0.2.1', '192.0.2.1'] },
      { source: ['192.0.2.1'], sources: [{ address: '192.0.2.1' }] },
      { sources: [{ address: '2001:db8::1' }, { address: '2001:DB8:0:0::1' }] },
    ])
      assert.match(refusal(delivery), /sending IP address .* is listed twice; remove one\.$/)
    assert.match(refusal({ sources: [{ address: 'mx.here.test' }] }), /must be an IP address/)
    assert.match(refusal({ sources: [{ address: '192.0.2.1', role: 'news' as 'any' }] }), /role/)
  })

  test('an address family that the machine lacks stops the start with an error', () => {
    const sources = sourcesOf(parseConfig({ delivery: { source: ['192.0.2.1', '2001:db8::1'] } }))
    const four = (() => ({ lo: [{ family: 'IPv4' }] })) as unknown as Parameters<typeof checkFamilies>[1]
    assert.throws(() => checkFamilies(sources, four), /2001:db8::1 .* this machine has no IPv6/)
    checkFamilies(sources.slice(0, 1), four)
    // systemd lets the service open no netlink socket.
    const refused = (): never => {
      throw new Error('uv_interface_addresses returned Unknown system error 97')
    }
    checkFamilies(sources, refused)
  })

  test('both lists define sending IP addresses, and EHLO uses the hostname of the server by default', () => {
    const found = sourcesOf(
      parseConfig({
        hostname: 'mx.here.test',
        delivery: {
          source: [ONE],
          sources: [{ address: NEWS, role: 'bulk', hostname: 'News.here.test', warmup: false }],
        },
      }),
    )
    assert.deepEqual(found, [
      { address: ONE, family: 4, role: 'any', hostname: 'mx.here.test', warmup: true, machine: '' },
      { address: NEWS, family: 4, role: 'bulk', hostname: 'news.here.test', warmup: false, machine: '' },
    ])
  })
})

describe('the choice', () => {
  test('does not store a binding if there is only one IP address of each family', () => {
    const ways = waysOf({ source: [ONE, '2001:db8::1'] })
    assert.deepEqual(ways.choices('there.test'), ['there.test'])
    assert.deepEqual(addressesOf(ways, 'there.test'), [ONE, '2001:db8::1'])
  })

  test('chooses by role, and uses the other roles if a role has no IP address', () => {
    const ways = waysOf({
      sources: [
        { address: ONE, role: 'transactional' },
        { address: NEWS, role: 'bulk' },
      ],
    })
    const firstOf = (lane: string): string[] => addressesOf(ways, ways.choices(lane)[0]!)
    assert.deepEqual(firstOf('there.test'), [ONE])
    assert.deepEqual(firstOf(bulkLane('there.test')), [NEWS])
    const single = waysOf({ sources: [ONE, TWO].map((address) => ({ address, role: 'bulk' as const })) })
    assert.equal(single.choices('there.test').length, 2)
  })

  test('uses a fixed order per domain, and spreads domains over all IP addresses', () => {
    const ways = waysOf({ source: [ONE, TWO, NEWS] })
    const firsts = new Map<string, number>()
    for (let n = 0; n < 300; n++) {
      const [first] = ways.choices(`d${n}.test`)
      assert.equal(domainOf(first!), `d${n}.test`)
      assert.deepEqual(waysOf({ source: [ONE, TWO, NEWS] }).choices(`d${n}.test`)[0], first)
      const [address] = addressesOf(ways, first!)
      firsts.set(address!, (firsts.get(address!) ?? 0) + 1)
    }
    for (const address of [ONE, TWO, NEWS]) assert.ok(firsts.get(address)! > 60, `${address}: ${firsts.get(address)}`)
  })

  test('binds an email to one IP address of each family', () => {
    const ways = waysOf({ source: [ONE, TWO, '2001:db8::1', '2001:db8::2'] })
    for (const lane of ways.choices('there.test'))
      assert.deepEqual(
        ways.of(lane).map(({ family }) => family),
        [4, 6],
      )
  })

  test('replaces an IP address that was removed from the configuration, and keeps the other family', () => {
    const before = waysOf({ source: [ONE, TWO, '2001:db8::1'] })
    const lane = before.choices('there.test').find((name) => addressesOf(before, name).includes(ONE))!
    const after = waysOf({ source: [TWO, NEWS, '2001:db8::1'] })
    const kept = addressesOf(after, after.kept(lane, { oldest: [] }))
    assert.equal(kept.length, 2)
    assert.ok(kept.includes('2001:db8::1') && !kept.includes(ONE))
    assert.equal(before.kept(lane, { oldest: [] }), lane)
    assert.equal(waysOf({ source: [TWO] }).kept(lane, { oldest: [] }), 'there.test')
  })
})

const exchanger = testExchanger()
const config: ConfigInput = {
  delivery: {
    sources: [
      { address: ONE, role: 'transactional', hostname: 'one.here.test' },
      { address: TWO, role: 'transactional', hostname: 'two.here.test' },
      { address: NEWS, role: 'bulk', hostname: 'news.here.test' },
    ],
  },
}
const postrider = ofFile(() => startTestAppliance({ exchanger, config, domains: ['here.test'] }))
const { attempted, become, post, receiver, turnToNext } = mailsOf(() => postrider)
const ways = waysOf(config.delivery)

/** The addresses from which mail to a domain came, in order. */
const from = new Map<string, string[]>()
const answers = new Map<string, (source: string) => string | undefined>()
const script: Script = {
  answer(command, connection) {
    const [, domain] = /^RCPT TO:<[^@]*@(.*)>/.exec(command) ?? []
    if (domain === undefined) return undefined
    const source = exchanger.peers[connection - 1]!
    from.set(domain, [...(from.get(domain) ?? []), source])
    return answers.get(domain)?.(source)
  },
}
exchanger.script = script

test('sends to each domain from one IP address with its own EHLO name; attempts name it', async () => {
  const [first, second] = [domainOfSource(ways, ONE, 'first'), domainOfSource(ways, TWO, 'second')]
  for (const domain of [first, second]) receiver(domain)
  const before = exchanger.commands.length
  for (let n = 0; n < 3; n++)
    for (const domain of [first, second]) await become(await post({ to: `a${n}@${domain}` }), 'delivered')
  assert.deepEqual([...new Set(from.get(first))], [ONE])
  assert.deepEqual([...new Set(from.get(second))], [TWO])
  const said = exchanger.commands.slice(before).filter((line) => line.startsWith('EHLO'))
  assert.deepEqual([...new Set(said)].sort(), ['EHLO one.here.test', 'EHLO two.here.test'])
  const id = await post({ to: `named@${first}` })
  await become(id, 'delivered')
  const { body } = await postrider.api('GET', `/outbound-emails/${id}/attempts`)
  assert.equal(body.data[0].attributes.source, ONE)
  const { stdout } = await postrider.commands.run(['queue', 'show', id])
  assert.match(stdout, new RegExp(`from ${ONE}`))
})

test('a deferred email keeps its IP address over a restart and a reordered configuration', async () => {
  const folder = temporaryDirectory('sources')
  const exchanger = await startTestExchanger()
  const peers: string[] = []
  let refuses = true
  exchanger.script.answer = (command, connection) => {
    if (!command.startsWith('RCPT')) return undefined
    peers.push(exchanger.peers[connection - 1]!)
    return refuses ? '450 4.2.0 Greylisted' : undefined
  }
  const run = async (source: string[], clock?: TestAppliance['clock']): Promise<TestAppliance> => {
    const started = await startTestAppliance({
      dataDir: folder,
      config: { delivery: { source, port: exchanger.port } },
      ...(clock ? { clock } : { domains: ['here.test'] }),
    })
    if (!clock) return started
    // The DNS of the test is a new one, too.
    started.route('grey.test')
    started.publish(must(domainByKey(started.appliance.deps.store, 1), 'The domain'))
    return started
  }
  let postrider = await run([ONE])
  const mails = mailsOf(() => postrider)
  mails.receiver('grey.test')
  // Without a choice no source is stored. When there is one, attempted mail stays with its previous address.
  const id = await mails.post({ to: 'a@grey.test' })
  await mails.attempted(id, 1)
  const lanes = () =>
    postrider.appliance.deps.store.all(raw<{ lane: string }>('select lane from deliveries')).map(({ lane }) => lane)
  assert.deepEqual(lanes(), ['grey.test'])
  for (const [attempt, sources] of [
    [2, [TWO, ONE]],
    [3, [NEWS, TWO, ONE]],
  ] as const) {
    const { clock } = postrider
    await postrider.stop()
    postrider = await run([...sources], clock)
    assert.deepEqual(lanes(), [`grey.test|${ONE}`])
    await until(
      () => {
        clock.leap(MINUTE)
        postrider.appliance.deps.bells.domains()
        return peers.length === attempt
      },
      `attempt ${attempt}`,
      () => postrider.appliance.deps.store.all(raw('select * from deliveries')),
    )
    await until(
      () =>
        postrider.appliance.deps.store.one(raw<{ status: string }>('select status from deliveries')).status ===
        'queued',
      'the end of the attempt',
    )
  }
  assert.deepEqual(peers, [ONE, ONE, ONE])
  // Its address has left.
  const { clock } = postrider
  await postrider.stop()
  postrider = await run([TWO], clock)
  refuses = false
  await until(() => {
    clock.leap(MINUTE)
    postrider.appliance.deps.bells.domains()
    return exchanger.heard.length === 1
  }, 'the mail')
  assert.equal(peers.at(-1), TWO)
  await postrider.stop()
  await exchanger.close()
})

test('421 to one IP address does not pause another, but an unreachable server pauses both', async () => {
  const [first, second] = [domainOfSource(ways, ONE, 'left'), domainOfSource(ways, TWO, 'right')]
  // Both domains have the same receiving server.
  for (const domain of [first, second]) postrider.dns.set(domain, 'MX', ['10 mx.both.test'])
  postrider.dns.set('mx.both.test', 'A', ['127.0.0.1'])
  let blocked: string | undefined = ONE
  exchanger.script = {
    ...script,
    greeting: () =>
      exchanger.peers.at(-1) === blocked || blocked === 'all'
        ? '421 4.7.0 Your address is not wanted'
        : '220 mx.test ESMTP',
  }
  const one = await post({ to: `a@${first}` })
  await attempted(one, 1)
  await become(await post({ to: `a@${second}` }), 'delivered')
  blocked = undefined
  await turnToNext(one)
  await become(one, 'delivered')
  exchanger.script = script
  // The server does not listen, which is not a problem of the source.
  postrider.dns.set('mx.both.test', 'A', ['127.0.0.200'])
  const away = await post({ to: `b@${first}` })
  await attempted(away, 1)
  const waiting = await post({ to: `b@${second}` })
  await until(
    async () => (await postrider.api('GET', `/lanes?filter[domain]=${second}`)).body.data[0]?.attributes.queued === 1,
    'the mail waits',
  )
  postrider.dns.set('mx.both.test', 'A', ['127.0.0.1'])
  postrider.clock.leap(10 * MINUTE)
  await become(away, 'delivered')
  await become(waiting, 'delivered')
})

test('an IP address that cannot be bound delays only the email bound to it as a local problem', async () => {
  const gone = '192.0.2.77'
  await using exchanger = await startTestExchanger()
  const source = [ONE, gone]
  await using postrider = await startTestAppliance({
    config: { delivery: { source, port: exchanger.port } },
    domains: ['here.test'],
  })
  const { attempted, become, post, receiver } = mailsOf(() => postrider)
  const ways = waysOf({ source })
  const domain = domainOfSource(ways, gone, 'lost')
  const other = domainOfSource(ways, ONE, 'well')
  for (const name of [domain, other]) receiver(name)
  // Email that was attempted from that address before it was removed.
  const bound = await post({ to: `bound@${domain}` })
  const { clock } = postrider
  const { store, troubles } = postrider.appliance.deps
  await until(() => troubles.list().length > 0, 'the trouble')
  await become(await post({ to: `a@${other}` }), 'delivered')
  // It had no attempt by it, so it is free to leave by the other.
  clock.advance(11_000)
  await become(bound, 'delivered')
  assert.deepEqual([...new Set(exchanger.peers)], [ONE])
  await become(await post({ to: `b@${domain}` }), 'delivered')
  // Mail that did have an attempt by it waits for it, without an attempt.
  exchanger.script.answer = (command) => (command.startsWith('RCPT') ? '450 4.2.0 Later' : undefined)
  const grey = await post({ to: `c@${domain}` })
  await attempted(grey, 1)
  delete exchanger.script.answer
  await store.write((tx) =>
    tx.run(raw(`update deliveries set lane = ? where status = 'queued'`, [`${domain}|${gone}`])),
  )
  postrider.appliance.deps.bells.queue()
  clock.leap(6 * MINUTE)
  const now = () =>
    store.one(
      raw<{ attempts: number; lane: string; since: number | null }>(
        `select attempts, lane, trouble_since as since from deliveries where address = ?`,
        [`c@${domain}`],
      ),
    )
  await until(() => now().since !== null, 'it waits')
  const { attempts, lane } = now()
  assert.deepEqual({ attempts, lane }, { attempts: 1, lane: `${domain}|${gone}` })
  await become(await post({ to: `d@${other}` }), 'delivered')
})

test('GET /sources and "source list" list them, only for operators', async () => {
  const { body, status } = await postrider.asOther('GET', '/sources')
  assert.equal(status, 404, JSON.stringify(body))
  const shown = (await postrider.api('GET', '/sources')).body.data as { id: string; attributes: { hostname: string } }[]
  assert.deepEqual(
    shown.map(({ attributes, id }) => [id, attributes.hostname]),
    [
      [ONE, 'one.here.test'],
      [TWO, 'two.here.test'],
      [NEWS, 'news.here.test'],
    ],
  )
  const tables = [ONE, TWO, NEWS].map(
    (address, index) =>
      `[[delivery.sources]]\naddress = "${address}"\nrole = "${index < 2 ? 'transactional' : 'bulk'}"\n`,
  )
  await using commands = Commands.beside(postrider, tables.join(''))
  const listed = await commands.json<{ address: string; role: string; usable: boolean }[]>('source', 'list')
  assert.deepEqual(
    listed.map(({ address, role, usable }) => ({ address, role, usable })),
    [
      { address: ONE, role: 'transactional', usable: true },
      { address: TWO, role: 'transactional', usable: true },
      { address: NEWS, role: 'bulk', usable: true },
    ],
  )
})

test('shows the PTR record, whether it is forward-confirmed, and blocklist entries', async () => {
  const { store } = postrider.appliance.deps
  const at = postrider.clock.now()
  const watch = (kind: string, subject: string, list: string, status: string, answer: string) =>
    store.write((tx) =>
      tx.run(
        raw(
          `insert into watches (id, kind, subject, list, hostname, status, answer, since, checked_at, created_at)
           values (?, ?, ?, ?, '', ?, ?, ?, ?, ?)`,
          [`${kind} ${subject} ${list}`, kind, subject, list, status, answer, at, at, at],
        ),
      ),
    )
  await watch('reverse', ONE, '', 'clear', 'one.here.test')
  await watch('forward', ONE, '', 'wrong', 'one.here.test')
  await watch('blocklist', ONE, 'zen.spamhaus.org', 'listed', '127.0.0.2')
  await watch('blocklist', ONE, 'bl.spamcop.net', 'clear', '')
  await watch('blocklist', TWO, 'zen.spamhaus.org', 'clear', '')
  await watch('blocklist', NEWS, 'zen.spamhaus.org', 'unknown', 'no answer')
  const seen = (shown: {
    reverse_dns: string | null
    forward_confirmed: boolean | null
    listed_on: string[] | null
  }) => [shown.reverse_dns, shown.forward_confirmed, shown.listed_on]
  const expected = [
    ['one.here.test', false, ['zen.spamhaus.org']],
    [null, null, []],
    // An answer that cannot be believed is never "clear".
    [null, null, null],
  ]
  const { body } = await postrider.api('GET', '/sources')
  assert.deepEqual(
    body.data.map(({ attributes }: { attributes: Parameters<typeof seen>[0] }) => seen(attributes)),
    expected,
  )
  const tables = [ONE, TWO, NEWS].map((address) => `[[delivery.sources]]\naddress = "${address}"\n`)
  await using commands = Commands.beside(postrider, tables.join(''))
  assert.deepEqual((await commands.json<Parameters<typeof seen>[0][]>('source', 'list')).map(seen), expected)
  assert.match((await commands.run(['source', 'list'])).stdout, /one\.here\.test +no +zen\.spamhaus\.org/)
})

test('holds, retries and drops email to a domain regardless of its sending IP address', async () => {
  const domain = domainOfSource(ways, ONE, 'held')
  receiver(domain)
  answers.set(domain, () => '450 4.2.0 Later, please')
  const id = await post({ to: `a@${domain}` })
  await attempted(id, 1)
  const lane = async () => (await postrider.api('GET', `/lanes?filter[domain]=${domain}`)).body.data[0].attributes
  const { queued, response } = await lane()
  assert.deepEqual({ queued, response }, { queued: 1, response: 'Later, please' })
  answers.delete(domain)
  assert.equal((await postrider.api('POST', `/lanes/${domain}/retry`)).status, 202)
  await become(id, 'delivered')
  answers.set(domain, () => '450 4.2.0 Later, please')
  const dropped = await post({ to: `b@${domain}` })
  await attempted(dropped, 1)
  assert.equal((await postrider.api('POST', `/lanes/${domain}/drop`)).status, 202)
  await become(dropped, 'failed')
})

test('sends campaigns from the IP address for bulk, other email from the others', async () => {
  receiver('news.test')
  const kit = campaignKit(() => postrider)
  const audience = await kit.audience(postrider.appliance.deps.store.one(raw<{ id: string }>('select id from domains')))
  await kit.fill(audience, ['r1@news.test', 'r2@news.test'])
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  assert.deepEqual([...new Set(from.get('news.test'))], [NEWS])
  await become(await post({ to: 'a@news.test' }), 'delivered')
  assert.ok([ONE, TWO].includes(from.get('news.test')!.at(-1) as typeof ONE))
  const rows = postrider.appliance.deps.store.all(
    raw<{ source: string }>(`select source from deliveries where lane like '~news.test|%'`),
  )
  assert.deepEqual([...new Set(rows.map(({ source }) => source))], [NEWS])
})

test('sends alerts from an IP address for transactional email', async () => {
  receiver('owner.test')
  const { bells, store } = postrider.appliance.deps
  for (const n of [1, 2])
    await store.write((tx) =>
      addNotice(
        tx,
        { user_key: postrider.user.key, domain_key: null, subject: `Notice ${n}`, text: 'Something.' },
        postrider.clock.now(),
      ),
    )
  bells.notices()
  await until(() => from.get('owner.test')?.length === 2, 'the notices')
  const [first] = ways.choices('owner.test')
  assert.deepEqual([...new Set(from.get('owner.test'))], addressesOf(ways, first!))
  assert.ok(!from.get('owner.test')!.includes(NEWS))
})

test('a relay added by a reload takes email above the warm-up limit', () => {
  const config = parseConfig({ hostname: 'mx.here.test' })
  const ways = new Ways(config)
  assert.equal(ways.relayLane('there.test'), undefined)
  const delivery = { routes: [{ name: 'spare', host: 'relay.test' }] }
  Object.assign(config, parseConfig({ hostname: 'mx.here.test', delivery, warmup: { route: 'spare' } }))
  ways.check()
  const lane = ways.relayLane('there.test')
  assert.equal(ways.relayOf(lane ?? '')?.host, 'relay.test')
})
