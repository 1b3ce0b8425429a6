// The rounds of the watch on a running server: queries, when a change counts, notifications, and stored data.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR, iso, MINUTE, SECOND } from '../../src/base/clock.ts'
import { listNotices } from '../../src/users/notices.ts'
import { raw } from '../../src/store/query.ts'
import { watchNow } from '../../src/watch/round.ts'
import { listedOn, listWatches, reverseOf, type WatchRow } from '../../src/watch/watches.ts'
import { document, startTestAppliance, type TestAppliance, type TestOptions } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'

const HOST = 'mx.owner.org'
const ADDRESS = '1.2.3.4'
const LISTS = ['zen.spamhaus.org', 'bl.spamcop.net']
const DBL = 'dbl.spamhaus.org'
const ENTRY = `4.3.2.1.${LISTS[0]}`

const dataDir = temporaryDirectory('watch')
const clock = new ManualClock()

/** DNS in which all is well. */
function zone({ dns }: Pick<TestAppliance, 'dns'>): void {
  dns.set(HOST, 'A', [ADDRESS])
  dns.set('4.3.2.1.in-addr.arpa', 'PTR', [HOST])
  for (const list of LISTS) dns.set(`2.0.0.127.${list}`, 'A', ['127.0.0.2'])
  dns.set(`test.${DBL}`, 'A', ['127.0.1.2'])
}

const started = async (options: TestOptions = {}): Promise<TestAppliance> => {
  const { watch, ...config } = options.config ?? {}
  const postrider = await startTestAppliance({
    ...options,
    config: { hostname: HOST, watch: { interval: '6h', lists: LISTS, domain_lists: [DBL], ...watch }, ...config },
  })
  zone(postrider)
  return postrider
}

const rows = ({ appliance }: TestAppliance): WatchRow[] => listWatches(appliance.deps.store)
const of = (postrider: TestAppliance, list: string): WatchRow | undefined =>
  rows(postrider).find((row) => row.list === list && row.subject === ADDRESS)
const told = ({ appliance }: TestAppliance): { subject: string; text: string }[] =>
  listNotices(appliance.deps.store).toReversed()

const EVERY = 6 * HOUR

/** Advances the clock, and waits until the due round has started and no check is due. */
async function pass(postrider: TestAppliance, span: number): Promise<void> {
  postrider.clock.leap(span)
  const now = postrider.clock.now()
  await until(() => {
    const all = rows(postrider)
    const begun = Math.max(...all.map(({ round_at }) => round_at ?? 0))
    return now < begun + EVERY && all.every(({ due_at }) => due_at === null || due_at > now)
  }, 'the answers of the round')
}

/** A whole round: the due checks, spread over ten minutes, and the second answers. */
async function round(postrider: TestAppliance): Promise<void> {
  await pass(postrider, EVERY)
  for (let step = 0; step < 3; step++) await pass(postrider, 10 * MINUTE)
}

/** `watch now`, with the clock turned until it has its answers. */
async function atOnce(postrider: TestAppliance, noticed = (): unknown => undefined): Promise<WatchRow[]> {
  let done = false
  const from = postrider.clock.now()
  const found = watchNow({ ...postrider.appliance.deps, noticed }).finally(() => (done = true))
  await until(() => {
    postrider.clock.advance(100)
    return done
  }, 'the answers of "watch now"')
  assert.ok(postrider.clock.now() - from >= 2 * SECOND)
  return found
}

/** A first round with both of its answers. */
async function known(postrider: TestAppliance): Promise<void> {
  for (let step = 0; step < 4; step++) await pass(postrider, 10 * MINUTE)
  assert.deepEqual([...new Set(rows(postrider).map(({ status }) => status))], ['clear'])
}

test('checks each sending IP address on each blocklist with its reverse DNS, and sending domains with their link hosts, every six hours', async () => {
  await using postrider = await started({ clock: new ManualClock(), domains: ['here.test'] })
  const { dns } = postrider
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(raw(`update domains set tracking_redirect_mode = 'branded'`, [])),
  )
  dns.asked.length = 0
  await known(postrider)
  const asked = new Set(dns.asked)
  for (const question of [
    ...LISTS.map((list) => `A 4.3.2.1.${list}`),
    'PTR 4.3.2.1.in-addr.arpa',
    `A ${HOST}`,
    `A here.test.${DBL}`,
    `A links.here.test.${DBL}`,
  ])
    assert.ok(asked.has(question), question)
  const clear = await postrider.api('GET', '/watches')
  assert.deepEqual(
    clear.body.data.map(({ attributes }: { attributes: Record<string, unknown> }) => [
      attributes['kind'],
      attributes['subject'],
      attributes['list'],
      attributes['answer'],
    ]),
    [
      ['blocklist', ADDRESS, LISTS[1], ''],
      ['blocklist', ADDRESS, LISTS[0], ''],
      ['domain_list', 'here.test', DBL, ''],
      ['domain_list', 'links.here.test', DBL, ''],
      ['forward', ADDRESS, null, HOST],
      ['reverse', ADDRESS, null, HOST],
    ],
  )
  assert.deepEqual(told(postrider), [], 'what was never known to be wrong is told to nobody')
  // The next round starts all checks, and none start before.
  const first = rows(postrider)[0]!.round_at!
  dns.asked.length = 0
  postrider.clock.leap(first + EVERY - SECOND - postrider.clock.now())
  await until(() => postrider.clock.nextAlarm === first + EVERY, 'the next alarm')
  assert.equal(dns.asked.length, 0)
  await pass(postrider, SECOND)
  await pass(postrider, 10 * MINUTE)
  assert.ok(rows(postrider).every(({ round_at }) => round_at === first + EVERY))
  assert.ok(dns.asked.includes(`A ${ENTRY}`))
})

test('never checks with interval "0", skips an address that is not public, and uses the configured sending IP address', async () => {
  await using postrider = await started({
    clock: new ManualClock(),
    config: { watch: { interval: '0' }, delivery: { source: ['127.0.0.1', '2A01:4F8:0::1'] } },
  })
  postrider.clock.leap(DAY)
  assert.equal(rows(postrider).length, 0)
  const subjects = (await atOnce(postrider)).map(({ subject }) => subject)
  assert.deepEqual([...new Set(subjects)].toSorted(), ['1.2.3.4', '2a01:4f8::1'])
})

test('changes the state after two equal answers ten minutes apart, and notifies the operator once at the start and end', async () => {
  await using postrider = await started({ clock: new ManualClock() })
  await known(postrider)
  const { dns } = postrider
  const [zen] = LISTS
  // An answer that is not repeated has no effect.
  dns.set(ENTRY, 'A', ['127.0.0.10'])
  await pass(postrider, 6 * HOUR)
  await until(() => of(postrider, zen!)?.seen === 'listed', 'the first answer')
  dns.set(ENTRY, 'A', undefined)
  await pass(postrider, 10 * MINUTE)
  assert.deepEqual([of(postrider, zen!)!.status, of(postrider, zen!)!.seen], ['clear', null])
  assert.equal(told(postrider).length, 0)
  // One that is repeated is.
  dns.set(ENTRY, 'A', ['127.0.0.10'])
  await pass(postrider, 6 * HOUR)
  await until(() => of(postrider, zen!)?.seen === 'listed', 'the first answer')
  const since = of(postrider, zen!)!.seen_at!
  await pass(postrider, since + 10 * MINUTE - SECOND - postrider.clock.now())
  assert.equal(of(postrider, zen!)!.status, 'clear', 'less than ten minutes')
  await pass(postrider, SECOND)
  await until(() => of(postrider, zen!)!.status === 'listed', 'the second answer')
  assert.equal(of(postrider, zen!)!.since, since)
  assert.deepEqual(listedOn(postrider.appliance.deps.store, ADDRESS), [zen])
  const [begin] = told(postrider)
  assert.equal(begin?.subject, '1.2.3.4 is listed by zen.spamhaus.org')
  for (const words of [
    iso(since),
    'PBL: No spam was reported',
    'Request an exception',
    'https://check.spamhaus.org/results/?query=1.2.3.4',
  ])
    assert.ok(begin.text.includes(words), words)
  // The notice is sent once, even if the list did not answer in between.
  dns.fail(/zen\.spamhaus\.org$/)
  await round(postrider)
  await until(() => of(postrider, zen!)!.status === 'unknown', 'no answer')
  dns.fail(false)
  await round(postrider)
  await until(() => of(postrider, zen!)!.status === 'listed', 'listed again')
  assert.equal(told(postrider).length, 1)
  dns.set(ENTRY, 'A', undefined)
  await round(postrider)
  await until(() => of(postrider, zen!)!.status === 'clear', 'the end')
  assert.deepEqual(
    told(postrider).map(({ subject }) => subject),
    ['1.2.3.4 is listed by zen.spamhaus.org', '1.2.3.4 is no longer listed by zen.spamhaus.org'],
  )
})

test('keeps the first answer over a restart and counts the second one after it', async () => {
  const [zen] = LISTS
  const before = await started({ dataDir, clock })
  await known(before)
  before.dns.set(ENTRY, 'A', ['127.0.0.2'])
  await pass(before, 6 * HOUR)
  await until(() => of(before, zen!)?.seen === 'listed', 'the first answer')
  const since = of(before, zen!)!.seen_at!
  await before.stop()
  await using later = await started({ dataDir, clock })
  later.dns.set(ENTRY, 'A', ['127.0.0.2'])
  await pass(later, 10 * MINUTE)
  await until(() => of(later, zen!)?.status === 'listed', 'the second answer')
  assert.equal(of(later, zen!)!.since, since)
  assert.deepEqual(
    told(later).map(({ subject }) => subject),
    ['1.2.3.4 is listed by zen.spamhaus.org'],
  )
  // An address that was removed is no longer checked.
  later.dns.set(HOST, 'A', ['1.2.3.9'])
  await round(later)
  assert.equal(of(later, zen!), undefined)
  assert.deepEqual(listedOn(later.appliance.deps.store, ADDRESS), [])
})

test('notifies the operator once of wrong reverse DNS, with the records that were found', async () => {
  await using postrider = await started({ clock: new ManualClock() })
  await known(postrider)
  const { store } = postrider.appliance.deps
  assert.deepEqual(reverseOf(store, ADDRESS), { reverse_dns: HOST, forward_confirmed: true })
  postrider.dns.set('4.3.2.1.in-addr.arpa', 'PTR', ['vps-4.cloud.org'])
  await round(postrider)
  await until(() => rows(postrider).filter(({ status }) => status === 'wrong').length === 2, 'both are wrong')
  assert.deepEqual(reverseOf(store, ADDRESS), { reverse_dns: 'vps-4.cloud.org', forward_confirmed: false })
  assert.deepEqual(
    told(postrider).map(({ subject }) => subject),
    ['Reverse DNS of 1.2.3.4 is wrong'],
  )
  assert.match(told(postrider)[0]!.text, /is vps-4\.cloud\.org\. It must be mx\.owner\.org/)
  const wrong = await postrider.api('GET', '/watches?filter[state]=wrong,listed&filter[kind]=reverse')
  assert.equal(wrong.body.data.length, 1)
  assert.match(wrong.body.data[0].attributes.fix, /PTR record/)
})

test('keeps all addresses if the lookup of the hostname fails', async () => {
  await using postrider = await started({ clock: new ManualClock() })
  await known(postrider)
  postrider.dns.fail(true)
  await round(postrider)
  assert.deepEqual(
    [...new Set(rows(postrider).map(({ status, subject }) => `${subject} ${status}`))],
    ['1.2.3.4 unknown'],
  )
})

test('sends at most 200 queries in a round, spread over ten minutes, and continues where the last round stopped', async () => {
  await using postrider = await started({ clock: new ManualClock(), domains: ['here.test'] })
  const { store } = postrider.appliance.deps
  await store.write((tx) => {
    for (let at = 0; at < 400; at++)
      tx.run(
        raw(
          `insert into domains (id, user_key, name, purpose, region, mail_from_prefix, tls_policy, open_tracking_enabled,
             click_tracking_enabled, tracking_redirect_mode, status, status_at, poll_from, sts_mode, dmarc_policy, created_at, updated_at)
           select ?, user_key, ?, purpose, region, mail_from_prefix, tls_policy, 0, 0, 'shared', 'active', status_at, poll_from,
             'none', 'none', created_at, updated_at from domains where name = 'here.test'`,
          [`id-${at}`, `d${at}.test`],
        ),
      )
  })
  postrider.dns.asked.length = 0
  postrider.clock.leap(10 * MINUTE)
  await until(() => rows(postrider).some(({ round_at }) => round_at !== null), 'the round')
  const perMinute: number[] = []
  for (let minute = 0; minute < 10; minute++) {
    const before = postrider.dns.asked.length
    postrider.clock.leap(MINUTE - SECOND)
    await until(() => rows(postrider).every(({ due_at }) => due_at === null || due_at > postrider.clock.now()), 'due')
    perMinute.push(postrider.dns.asked.length - before)
    postrider.clock.leap(SECOND)
  }
  const questions = postrider.dns.asked.filter((question) => !question.includes('here.test')).length
  assert.ok(questions <= 200, `${questions} questions`)
  assert.ok(questions > 150, `${questions} questions`)
  assert.ok(Math.max(...perMinute) <= 40, `questions by minute: ${perMinute.join(' ')}`)
  const begun = rows(postrider).filter(({ round_at }) => round_at !== null).length
  assert.ok(begun < rows(postrider).length)
  await round(postrider)
  assert.ok(rows(postrider).filter(({ round_at }) => round_at !== null).length > begun)
})

test('sends as before from a listed IP address, and only operators see the checks', async () => {
  const exchanger = testExchanger()
  await using postrider = await started({
    clock: new ManualClock(),
    exchanger,
    domains: ['here.test'],
    routes: ['there.test'],
    config: { delivery: {} },
  })
  await known(postrider)
  postrider.dns.set(ENTRY, 'A', ['127.0.0.2'])
  await round(postrider)
  await until(() => of(postrider, LISTS[0]!)!.status === 'listed', 'listed')
  const mail = { from: 'ann@here.test', to: 'to@there.test', subject: 'Hello', html: '<p>Hello</p>' }
  const sent = await postrider.api('POST', '/outbound-emails', document('outbound-emails', mail))
  const { id } = sent.body.data
  await until(
    async () => (await postrider.api('GET', `/outbound-emails/${id}`)).body.data.attributes.status === 'delivered',
    'delivered',
  )
  const { body, status } = await postrider.asOther('GET', '/watches')
  assert.deepEqual([status, body.errors[0].code], [404, 'not_found'])
  assert.doesNotMatch(JSON.stringify((await postrider.api('GET', '/watches')).body), /ann@|bob@/)
  const wrong = await postrider.api('GET', '/watches?filter[state]=bad')
  assert.deepEqual([wrong.status, wrong.body.errors[0].source], [400, { parameter: 'filter[state]' }])
  // The findings of the server itself.
  const { findings } = await postrider.appliance.deps.operations.state()
  const finding = findings.find(({ check }) => check === 'blocklists')!
  assert.equal(finding.status, 'fail')
  assert.match(finding.detail, /^1\.2\.3\.4 is on Spamhaus ZEN \(zen\.spamhaus\.org\)\. SBL: /)
  assert.match(finding.fix!, /request removal/)
  assert.deepEqual(
    findings.filter(({ check }) => ['reverse DNS', 'lists of domains'].includes(check)).map(({ status }) => status),
    ['ok', 'ok'],
  )
})

test('"watch now" checks twice, two seconds apart, and returns the results', async () => {
  await using postrider = await started({ clock: new ManualClock(), config: { watch: { interval: '0' } } })
  let noticed = 0
  const now = () => atOnce(postrider, () => noticed++)
  assert.deepEqual([...new Set((await now()).map(({ status }) => status))], ['clear'])
  postrider.dns.set(ENTRY, 'A', ['127.0.0.4'])
  const listed = (await now()).filter(({ status }) => status === 'listed')
  assert.deepEqual(
    listed.map(({ answer, list }) => [list, answer]),
    [[LISTS[0], '127.0.0.4']],
  )
  assert.equal(noticed, 1)
  // At once, one after the other: no third answer is waited for.
  assert.deepEqual((await now()).filter(({ status }) => status === 'listed').length, 1)
  assert.equal(told(postrider).length, 1)
})
