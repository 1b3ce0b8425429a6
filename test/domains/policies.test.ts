// The policies of a domain: its MTA-STS policy for mail that it receives (RFC 8461), its DMARC policy, and its advised
// records (D78).
import assert from 'node:assert/strict'
import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { DAY, systemClock } from '../../src/base/clock.ts'
import { parseConfig } from '../../src/base/config.ts'
import { makeCertificate } from '../../src/base/certificate.ts'
import { advisedRecords, publicKeyOf } from '../../src/domains/advised.ts'
import { judgeDmarc, withPolicy, reportsTo, withReportsTo } from '../../src/domains/dmarc.ts'
import { judgeRecipient } from '../../src/inbound/recipients.ts'
import { setStsMode, stsRecord } from '../../src/domains/inbound-sts.ts'
import { CertificateStore } from '../../src/acme/certificate-files.ts'
import { SELF_MADE } from '../../src/acme/certificates.ts'
import { db } from '../../src/store/query.ts'
import { Commands } from '../commands/command.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { ofFile } from '../kit/of-file.ts'
import { makeInstallation } from '../kit/installation.ts'
import { signedIn } from '../kit/signed-in.ts'

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'] }))

const policy = (host: string) => postrider.raw('/.well-known/mta-sts.txt', { headers: { host } })

test('serves an MTA-STS policy once it is set, with an id that changes with it', async () => {
  assert.equal((await policy('mta-sts.here.test')).status, 404)
  const set = await postrider.commands.json('domain', 'sts', 'here.test', '--mode', 'testing')
  assert.equal(set.warnings.length, 1, 'no certificate yet')
  const { body, headers, status } = await policy('mta-sts.here.test')
  assert.equal(status, 200)
  assert.match(headers.get('content-type')!, /^text\/plain/)
  assert.equal(body, 'version: STSv1\r\nmode: testing\r\nmx: mx.postrider.test\r\nmax_age: 86400\r\n')
  for (const host of ['here.test', 'mta-sts.other.test', '']) assert.equal((await policy(host)).status, 404, host)
  const id = (records: { name: string; value: string }[]): string =>
    records.find(({ name }) => name === '_mta-sts.here.test')!.value
  const first = id((await postrider.commands.json('domain', 'records', 'here.test')).records)
  assert.match(first, /^v=STSv1; id=[0-9a-zA-Z]{1,32};$/)
  const { deps } = postrider.appliance
  const { key } = deps.store.first<{ key: number }>({
    compile: () => ({ sql: 'select key from domains', parameters: [] }),
  })!
  postrider.clock.leap(30 * 365 * DAY)
  await setStsMode(deps, key, 'enforce')
  assert.notEqual(id((await postrider.commands.json('domain', 'records', 'here.test')).records), first)
  assert.match((await policy('MTA-STS.here.test:443')).body, /mode: enforce\r\n[^]*max_age: 15552000/)
  await postrider.commands.json('domain', 'sts', 'here.test', '--mode', 'none')
  assert.match((await policy('mta-sts.here.test')).body, /mode: none/)
})

test('domain sts enforces MTA-STS after a week of testing with a certificate, or earlier with --force', async () => {
  const sts = (...more: string[]) => ['domain', 'sts', 'here.test', '--mode', ...more]
  const { store } = postrider.appliance.deps
  const row = () =>
    store.first(db.selectFrom('domains').select(['key', 'sts_mode']).where('name', '=', 'here.test'))! as {
      key: number
      sts_mode: string
    }
  const setSince = (ago: number) =>
    store.write((tx) => tx.run(db.updateTable('domains').set({ sts_changed_at: systemClock.now() - ago })))
  await postrider.commands.json(...sts('none'))
  assert.match(await postrider.commands.fails(...sts('enforce')), /has not been in testing.*--force/)
  await postrider.commands.json(...sts('testing'))
  assert.match(await postrider.commands.fails(...sts('enforce')), /is in testing until/)
  await setSince(8 * DAY)
  await postrider.commands.json(...sts('testing'))
  assert.match(
    await postrider.commands.fails(...sts('enforce')),
    /^[^]*there is no certificate for mta-sts\.here\.test/,
  )
  assert.equal(row().sts_mode, 'testing', 'refused is not set')
  const forced = await postrider.commands.json(...sts('enforce', '--force'))
  assert.equal(forced.warnings.length, 1)
  assert.equal(row().sts_mode, 'enforce')
  await postrider.commands.json(...sts('testing'))
  await setSince(8 * DAY)
  const pair = makeCertificate('mta-sts.here.test', Date.now())
  new CertificateStore(postrider.dataDir).keep('mta-sts.here.test', pair.cert)
  writeFileSync(join(postrider.dataDir, 'acme', 'mta-sts.here.test.key'), pair.key)
  assert.deepEqual((await postrider.commands.json(...sts('enforce'))).warnings, [])
  await setSince(0)
  assert.deepEqual((await postrider.commands.json(...sts('enforce'))).warnings, [], 'it is already')
})

test('the id of an MTA-STS record changes only with its policy', async () => {
  const ids = (['none', 'testing', 'enforce'] as const).flatMap((mode) =>
    ['mx.here.test', 'mx2.here.test'].map((host) => stsRecord(mode, host)),
  )
  assert.equal(new Set(ids).size, ids.length)
  for (const id of ids) assert.match(id, /^v=STSv1; id=[0-9a-zA-Z]{1,32};$/)
  const { dns } = postrider
  const advised = async (hostname: string, sts_changed_at: number) => {
    const records = await advisedRecords(
      { config: parseConfig({ hostname }), resolver: dns.resolver, publicKeys: [], certified: [] },
      { name: 'moved.test', sts_mode: 'testing', sts_changed_at },
      'ann@here.test',
    )
    const { observed, value } = records.find(({ name }) => name === '_mta-sts.moved.test')!
    return { observed, value }
  }
  const before = await advised('mx.here.test', 1)
  assert.equal(before.observed, null)
  dns.set('_mta-sts.moved.test', 'TXT', ['v=spf1 -all', before.value])
  assert.deepEqual(await advised('mx.here.test', 2), { observed: before.value, value: before.value })
  const moved = await advised('mx2.here.test', 2)
  assert.equal(moved.observed, before.value)
  assert.notEqual(moved.value, before.value, 'another mx, another id')
})

test('domain dmarc prints the published and the new record, and warns before a stricter policy', async () => {
  const shown = await postrider.commands.json('domain', 'dmarc', 'here.test')
  assert.deepEqual([shown.record, shown.policy, shown.wanted], ['_dmarc.here.test', 'none', 'none'])
  assert.equal(shown.next, 'quarantine')
  const stricter = await postrider.commands.json('domain', 'dmarc', 'here.test', '--policy', 'quarantine')
  assert.equal(stricter.value, 'v=DMARC1; p=quarantine; rua=mailto:dmarc-reports@bounce.here.test;')
  assert.match(stricter.warning, /move to spam all email from here\.test/)
  const { records } = await postrider.commands.json('domain', 'records', 'here.test')
  const dmarc = records.find(({ record_type }: { record_type: string }) => record_type === 'DMARC')
  assert.equal(dmarc.value, 'v=DMARC1; p=quarantine; rua=mailto:dmarc-reports@bounce.here.test;')
  postrider.dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=quarantine;', 'v=DMARC1; p=none'])
  assert.equal((await postrider.commands.json('domain', 'dmarc', 'here.test')).published, null)
  postrider.dns.set('_dmarc.here.test', 'TXT', ['v=DMARC1; p=quarantine;'])
  const done = await postrider.commands.json('domain', 'dmarc', 'here.test')
  assert.deepEqual([done.policy, done.next, done.warning], ['quarantine', 'reject', null])
})

test('a published DMARC record keeps its other tags in the advice, the records and the zone file', async () => {
  const { dns } = postrider
  await postrider.activeDomain('tags.test')
  const dmarc = (...more: string[]) => postrider.commands.json('domain', 'dmarc', 'tags.test', ...more)
  const published = (p: string) => `v=DMARC1; p=${p}; sp=none; rua=mailto:d@tags.test; adkim=s`
  const advised = (p: string) => published(p).replace('.test;', '.test,mailto:dmarc-reports@bounce.tags.test;')
  dns.set('_dmarc.tags.test', 'TXT', [published('none')])
  const record = async (command: string) => {
    const { records, zone } = await postrider.commands.json('domain', command, 'tags.test')
    const { stdout } = await postrider.commands.run(['domain', command, 'tags.test'])
    const found = records.find(({ record_type }: { record_type: string }) => record_type === 'DMARC')
    return { ...found, zone, state: /^(\S+(?: \S+)?) +DMARC/m.exec(stdout)![1] }
  }
  assert.equal((await dmarc('--policy', 'quarantine')).value, advised('quarantine'))
  for (const command of ['check', 'records']) {
    const { observed, state, value, verified } = await record(command)
    assert.deepEqual(
      { observed, state, value, verified },
      { observed: published('none'), state: 'different', value: advised('quarantine'), verified: false },
      command,
    )
  }
  assert.ok((await record('records')).zone.includes(`"${advised('quarantine')}"`))
  assert.equal((await postrider.commands.json('domain', 'show', 'tags.test')).status, 'active', 'never in the way')
  dns.set('_dmarc.tags.test', 'TXT', [published('quarantine')])
  assert.equal((await record('check')).state, 'ok')
  const reject = await dmarc('--policy', 'reject')
  assert.deepEqual([reject.value, reject.next], [advised('reject'), null], 'published first, and then no step back')
  assert.equal((await record('records')).state, 'different')
  // A stricter published policy is kept.
  await dmarc('--policy', 'none')
  dns.set('_dmarc.tags.test', 'TXT', [published('reject')])
  const stricter = await record('check')
  assert.deepEqual([stricter.state, stricter.value], ['ok', advised('reject')])
  const shown = await dmarc()
  assert.deepEqual([shown.value, shown.next, shown.warning], [advised('reject'), null, null])
  assert.equal((await dmarc('--policy', 'quarantine')).value, advised('quarantine'), 'a step back that was asked for')
})

test('a subdomain uses the DMARC record of the organisation unless it has its own policy', async () => {
  const { dns } = postrider
  await postrider.activeDomain('sub.own.test')
  const organisation = 'v=DMARC1; p=quarantine; sp=none; rua=mailto:d@own.test'
  dns.set('_dmarc.sub.own.test', 'TXT', undefined)
  dns.set('_dmarc.own.test', 'TXT', [organisation])
  const dmarc = (...more: string[]) => postrider.commands.json('domain', 'dmarc', 'sub.own.test', ...more)
  const plain = await dmarc()
  assert.deepEqual([plain.record, plain.value, plain.policy], ['_dmarc.own.test', organisation, 'none'])
  const own = await dmarc('--policy', 'reject')
  assert.deepEqual(
    [own.record, own.value],
    ['_dmarc.sub.own.test', 'v=DMARC1; p=reject; rua=mailto:d@own.test,mailto:dmarc-reports@bounce.sub.own.test'],
    'the organisation’s is not rewritten',
  )
  assert.match(own.warning, /email from sub\.own\.test /)
  const { stdout } = await postrider.commands.run(['domain', 'dmarc', 'sub.own.test'])
  assert.match(stdout, /^Published at _dmarc\.own\.test: v=DMARC1; p=quarantine.*\nIt applies to sub\.own\.test/)
  assert.match(
    stdout,
    /^Publish at _dmarc\.sub\.own\.test: v=DMARC1; p=reject; rua=mailto:d@own\.test,mailto:dmarc-reports@bounce\.sub\.own\.test$/m,
  )
  const record = async () => {
    const { records } = await postrider.commands.json('domain', 'check', 'sub.own.test')
    return records.find(({ record_type }: { record_type: string }) => record_type === 'DMARC')
  }
  const before = await record()
  assert.deepEqual(
    [before.name, before.value, before.verified],
    [
      '_dmarc.sub.own.test',
      'v=DMARC1; p=reject; rua=mailto:d@own.test,mailto:dmarc-reports@bounce.sub.own.test',
      false,
    ],
  )
  dns.set('_dmarc.own.test', 'TXT', ['v=DMARC1; p=reject'])
  assert.equal((await record()).verified, true, 'inherited')
  dns.set('_dmarc.sub.own.test', 'TXT', ['v=DMARC1; p=none'])
  assert.equal((await record()).verified, false, 'one of its own counts alone')
})

test('changes the policy in a DMARC record of any form', () => {
  for (const [record, wanted] of [
    ['v=DMARC1', 'v=DMARC1; p=reject;'],
    ['v=DMARC1; rua=mailto:d@x.test', 'v=DMARC1; p=reject; rua=mailto:d@x.test'],
    ['v = DMARC1;P = None;sp=none;np=none', 'v = DMARC1;P = reject;sp=none;np=none'],
    ['v=DMARC1; sp=reject; p=bogus; pct=50', 'v=DMARC1; sp=reject; p=reject; pct=50'],
    ['v=DMARC1; p=REJECT', 'v=DMARC1; p=REJECT'],
  ] as const)
    assert.equal(withPolicy(record, 'reject'), wanted)
})

test('advises SPF or an addition to it, CAA for the authority, and TLSA for each key', async () => {
  const { dns } = postrider
  const keys = [
    publicKeyOf(makeCertificate('a.test', Date.now()).cert),
    publicKeyOf(makeCertificate('b.test', Date.now()).cert),
  ]
  const advised = (name: string, acme: object = {}) =>
    advisedRecords(
      {
        config: parseConfig({ hostname: 'mx.here.test', acme }),
        resolver: dns.resolver,
        publicKeys: keys,
        certified: ['mx.here.test', 'mta-sts.here.test'],
      },
      { name, sts_mode: 'none', sts_changed_at: null },
      'ann@here.test',
    )
  const spf = async (name: string) =>
    (await advised(name)).filter(({ record_type }) => record_type === 'FROM_SPF').map(({ value }) => value)
  assert.deepEqual(await spf('none.test'), ['v=spf1 a:mx.here.test ~all'])
  dns.set('some.test', 'TXT', ['other', 'v=spf1 include:x.test -all'])
  assert.deepEqual(await spf('some.test'), ['v=spf1 include:x.test a:mx.here.test -all'])
  dns.set('there.test', 'TXT', ['v=spf1 +A:mx.here.test -all'])
  assert.deepEqual(await spf('there.test'), ['v=spf1 +A:mx.here.test -all'], 'as it is')
  const plain = await advised('none.test')
  assert.equal(plain.filter(({ record_type }) => record_type === 'TLSA').length, 2)
  assert.match(plain.find(({ type }) => type === 'TLSA')!.value, /^3 1 1 [0-9a-f]{64}$/)
  assert.equal(
    plain.some(({ type }) => type === 'CAA'),
    false,
  )
  const caa = (await advised('none.test', { enabled: true, accept_terms: true })).filter(({ type }) => type === 'CAA')
  assert.deepEqual(
    caa.map(({ name, value }) => `${name} ${value}`),
    ['mx.here.test 0 issue "letsencrypt.org"', 'mta-sts.here.test 0 issue "letsencrypt.org"'],
  )
})

test('shows whether DNS has an advised record, and the commands print it in full', async () => {
  const { commands, dns } = postrider
  const text = async (): Promise<string> => (await commands.run(['domain', 'records', 'here.test'])).stdout
  const states = async (): Promise<string[][]> =>
    (await text()).split('\n').flatMap((line) => {
      const [, state, record] =
        /^(ok|missing|different|no answer|not checked) +((?:HELO_SPF|TLSA|TLS_RPT)(?: \(.+?\))?) /.exec(line) ?? []
      return state === undefined || record === undefined ? [] : [[state, record]]
    })
  assert.deepEqual(await states(), [
    ['missing', 'HELO_SPF'],
    ['missing', 'TLSA'],
    ['missing', 'TLS_RPT'],
  ])
  const { hostname } = postrider.appliance.deps.config
  dns.set(hostname, 'TXT', ['v=spf1 a -all'])
  assert.deepEqual((await states())[0], ['ok', 'HELO_SPF'])
  const { records } = await commands.json('domain', 'records', 'here.test')
  const helo = (records as { record_type: string; state?: string }[]).find((each) => each.record_type === 'HELO_SPF')
  assert.equal(helo?.state, 'ok')
  const printed = await text()
  for (const { value } of records as { value: string }[]) assert.ok(printed.includes(` ${value}\n`), value)
  assert.doesNotMatch(printed, /…/)

  dns.fail(true)
  const silent = await text()
  dns.fail(false)
  assert.match(silent, /^Not shown, because DNS did not answer .*: FROM_SPF, HELO_SPF, (?:MTA_STS, )?TLS_RPT\.$/m)
  assert.match(silent, /^no answer +HELO_SPF /m)
})

test('identifies each TLSA record on port 25, and shows whether DNS has it', async () => {
  const { dns } = postrider
  const publicKeys = ['a.test', 'b.test'].map((name) => publicKeyOf(makeCertificate(name, Date.now()).cert))
  const tlsa = async (keys = publicKeys) =>
    (
      await advisedRecords(
        { config: parseConfig({ hostname: 'mx.keys.test' }), resolver: dns.resolver, publicKeys: keys, certified: [] },
        { name: 'keys.test', sts_mode: 'none', sts_changed_at: null },
        'ann@here.test',
      )
    ).filter(({ type }) => type === 'TLSA')
  const [present] = await tlsa()
  dns.set('_25._tcp.mx.keys.test', 'TLSA', [present!.value, `3 1 1 ${'0'.repeat(64)}`])
  assert.deepEqual(
    (await tlsa()).map(({ state, which }) => [state, which]),
    [
      ['ok', 'present key'],
      ['missing', 'next key'],
    ],
  )
  assert.deepEqual(
    (await tlsa(publicKeys.slice(0, 1))).map(({ which }) => which),
    [undefined],
  )
})

test('DMARC and TLS reports go to addresses of this server in the same organisation (D19, D78)', async () => {
  const { records } = await postrider.commands.json('domain', 'records', 'here.test')
  const values = (records as { record_type: string; value: string }[]).map(({ value }) => value)
  const named = values.flatMap((value) => [...value.matchAll(/rua=mailto:([^;]+)/g)].map(([, address]) => address!))
  assert.deepEqual(named, ['dmarc-reports@bounce.here.test', 'tls-reports@bounce.here.test'])
  const { keyring, store } = postrider.appliance.deps
  for (const address of named)
    assert.partialDeepStrictEqual(judgeRecipient({ keyring, store }, address), { kind: 'reports' })
  // They accept no tags, no other host names and no unknown domains.
  for (const refused of [
    'dmarc-reports+x@bounce.here.test',
    'dmarc-reports@here.test',
    'tls-reports@other.here.test',
    'dmarc-reports@bounce.unknown.test',
  ])
    assert.ok('code' in judgeRecipient({ keyring, store }, refused), refused)
  const domain = { name: 'here.test', mail_from_prefix: 'bounce' }
  assert.equal(
    judgeDmarc('none', null, [reportsTo('dmarc', domain)]).value,
    'v=DMARC1; p=none; rua=mailto:dmarc-reports@bounce.here.test;',
  )
})

test('offers to add the report address of this server to a published record', async () => {
  const ours = 'dmarc-reports@bounce.here.test'
  for (const [record, wanted] of [
    ['v=DMARC1; p=none', `v=DMARC1; p=none; rua=mailto:${ours};`],
    ['v=DMARC1; p=none;', `v=DMARC1; p=none; rua=mailto:${ours};`],
    ['v=DMARC1; p=none; rua=', `v=DMARC1; p=none; rua=mailto:${ours}`],
    ['v=DMARC1; RUA = mailto:a@b.test!10m ; fo=1', `v=DMARC1; RUA = mailto:a@b.test!10m,mailto:${ours}; fo=1`],
    [`v=DMARC1; rua=mailto:a@b.test, mailto:${ours}!5m`, `v=DMARC1; rua=mailto:a@b.test, mailto:${ours}!5m`],
  ] as const) {
    assert.equal(withReportsTo(record, ours), wanted)
    assert.equal(withReportsTo(wanted, ours), wanted, 'once')
  }
  // The record counts as found as before (D19).
  assert.deepEqual(judgeDmarc('quarantine', 'v=DMARC1; p=reject; rua=mailto:a@b.test', [ours]), {
    value: `v=DMARC1; p=reject; rua=mailto:a@b.test,mailto:${ours}`,
    fits: true,
  })
  postrider.dns.set('_smtp._tls.here.test', 'TXT', ['v=TLSRPTv1; rua=https://reports.test/tls'])
  const { records } = await postrider.commands.json('domain', 'records', 'here.test')
  const shown = (records as { record_type: string; observed: string; value: string }[]).find(
    ({ record_type }) => record_type === 'TLS_RPT',
  )
  assert.equal(shown?.value, 'v=TLSRPTv1; rua=https://reports.test/tls,mailto:tls-reports@bounce.here.test')
  postrider.dns.set('_smtp._tls.here.test', 'TXT', [])
})

test('a DMARC record with only a foreign report address is valid, and this server’s address is offered (D19)', async () => {
  await using own = await startTestAppliance({ domains: ['here.test'] })
  const theirs = 'v=DMARC1; p=reject; rua=mailto:dmarc@else.test; fo=1'
  const beside = 'v=DMARC1; p=reject; rua=mailto:dmarc@else.test,mailto:dmarc-reports@bounce.here.test; fo=1'
  const [{ id }] = (await own.api('GET', '/domains?filter[name]=here.test')).body.data
  const dmarc = async () =>
    (await own.api('GET', `/domains/${id}/records`)).body.data
      .map(({ attributes }: { attributes: Record<string, unknown> }) => attributes)
      .find(({ record_type }: Record<string, unknown>) => record_type === 'DMARC')
  for (const published of [theirs, beside]) {
    own.dns.set('_dmarc.here.test', 'TXT', [published])
    assert.equal((await own.commands.run(['domain', 'check', 'here.test'])).code, 0)
    assert.partialDeepStrictEqual(await dmarc(), { verified: true, observed: published, value: beside })
  }
  own.dns.set('_dmarc.here.test', 'TXT', [theirs])
  await own.commands.run(['domain', 'check', 'here.test'])
  const ann = await signedIn(own)
  const page = await ann.open('/domains/here.test')
  assert.ok(page.text.includes(beside))
  // The command offers the same, and finds no trouble.
  assert.partialDeepStrictEqual(await own.commands.json('domain', 'dmarc', 'here.test'), {
    policy: 'reject',
    published: theirs,
    value: beside,
    trouble: null,
  })
})

test('commands show existing certificates and keys and never create them (D122)', async (t) => {
  const folder = temporaryDirectory('makes-none')
  const [dataDir, file] = [join(folder, 'data'), join(folder, 'here.toml')]
  const commands = new Commands(folder, ['--config', file])
  t.after(async () => {
    await commands.close()
  })
  const configured = (more: string): void =>
    writeFileSync(
      file,
      `hostname = "mx.here.test"\ndata_dir = ${JSON.stringify(dataDir)}\n[dns]\nservers = ["127.0.0.1:1"]\n${more}`,
    )
  const made = (): string[] => readdirSync(dataDir).filter((name) => /\.pem|^acme$/.test(name))
  const tlsa = async (): Promise<number> => {
    const { records } = await commands.json('domain', 'records', 'here.test')
    return records.filter(({ record_type }: { record_type: string }) => record_type === 'TLSA').length
  }
  configured('')
  makeInstallation(dataDir)
  await commands.json('user', 'add', 'ann@owner.test')
  await commands.json('domain', 'add', 'here.test', '--user', 'ann@owner.test')
  for (const more of [
    '',
    '[acme]\nenabled = true\n',
    `[tls]\ncert = ${JSON.stringify(join(folder, 'none.pem'))}\nkey = ${JSON.stringify(join(folder, 'none.key'))}\n`,
  ]) {
    configured(more)
    assert.equal(await tlsa(), 0, more)
    await commands.json('domain', 'show', 'here.test')
    const { warnings } = await commands.json('domain', 'sts', 'here.test', '--mode', 'testing')
    assert.match(warnings[0], /There is no certificate for mta-sts\.here\.test/)
    assert.deepEqual(made(), [], more)
  }
  const { cert, key } = makeCertificate('mx.here.test', Date.now())
  writeFileSync(join(dataDir, SELF_MADE), cert + key)
  configured('[acme]\nenabled = true\n')
  assert.equal(await tlsa(), 1)
  assert.deepEqual(made(), [SELF_MADE])
})
