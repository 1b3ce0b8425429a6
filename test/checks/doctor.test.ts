// `postrider doctor` on a healthy server, and on a server with every problem that it can report.
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, renameSync, truncateSync, writeFileSync } from 'node:fs'
import { createSocket, type Socket } from 'node:dgram'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { makeCertificate } from '../../src/base/certificate.ts'
import { DAY } from '../../src/base/clock.ts'
import { KEY_FILE } from '../../src/base/keyring.ts'
import { logFinding, setUpFindings } from '../../src/checks/machine.ts'
import type { Reader } from '../../src/store/database.ts'
import { openInstance } from '../../src/store/instance.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { Commands } from '../commands/command.ts'

const HOST = 'mx.well.org'
const LISTS = ['zen.spamhaus.org', 'bl.spamcop.net', 'b.barracudacentral.org', 'psbl.surriel.com']
const folder = temporaryDirectory('doctor')
let postrider: TestAppliance
let exchanger: TestExchanger
let dns: TestDns
let time: Socket
/** How far the time server is ahead of this machine, in ms. */
let ahead = 0
const commands = new Commands(folder, ['--config', join(folder, 'here.toml')])

before(async () => {
  ;[postrider, exchanger, dns] = await Promise.all([startTestAppliance(), startTestExchanger(), startTestDns()])
  dns.set('probe.test', 'MX', ['10 mx.probe.test'])
  dns.set('mx.probe.test', 'A', ['127.0.0.1'])
  for (const list of LISTS) dns.set(`2.0.0.127.${list}`, 'A', ['127.0.0.2'])
  time = createSocket('udp4').bind(0, '127.0.0.1')
  await once(time, 'listening')
  time.on('message', (question, { address, port }) => {
    const answer = Buffer.alloc(48)
    answer[0] = (question[0]! & 0x38) | 4
    answer[1] = 2
    // A response from another address.
    time.send(Buffer.from(answer), port, address)
    question.copy(answer, 24, 40)
    const now = Date.now() + ahead
    for (const place of [32, 40]) {
      answer.writeUInt32BE(Math.floor(now / 1000) + 2_208_988_800, place)
      answer.writeUInt32BE(Math.floor(((now % 1000) / 1000) * 2 ** 32), place + 4)
    }
    time.send(answer, port, address)
  })
})
after(async () => {
  await commands.close()
  time.close()
  await dns.close()
  await exchanger.close()
  await postrider.stop()
})

type Findings = Record<string, { status: string; detail: string; fix: string | null }>

async function examine(toml: string, probe = 'probe.test'): Promise<{ code: number; found: Findings; text: string }> {
  // The test must not use an installation of this machine.
  const dataDir = toml.includes('data_dir') ? '' : `data_dir = ${JSON.stringify(join(folder, 'none'))}\n`
  // Port 1 is closed, and the test must not use port 25 of this machine.
  const way = toml.includes('delivery.port') ? '' : 'delivery.port = 1\n'
  const listening = /^\[smtp\]|smtp\.listen/m.test(toml) ? '' : 'smtp.listen = ["127.0.0.1:1"]\n'
  writeFileSync(
    join(folder, 'here.toml'),
    `dns.servers = ["127.0.0.1:${dns.port}"]\n${dataDir}${way}${listening}${toml}`,
  )
  const options = ['--probe', probe, '--time-server', `127.0.0.1:${time.address().port}`]
  const { code, stderr, stdout } = await commands.run(['--json', 'doctor', ...options])
  assert.equal(stderr, '')
  const { stdout: text } = await commands.run(['doctor', ...options])
  const list = JSON.parse(stdout) as ({ check: string } & Findings[string])[]
  return { code: code as number, text, found: Object.fromEntries(list.map(({ check, ...rest }) => [check, rest])) }
}

const certificate = (host: string, at: number): string => {
  const { cert, key } = makeCertificate(host, at)
  writeFileSync(join(folder, `${host}.crt`), cert)
  writeFileSync(join(folder, `${host}.key`), key)
  return `tls_cert = ${JSON.stringify(join(folder, `${host}.crt`))}\ntls_key = ${JSON.stringify(join(folder, `${host}.key`))}`
}

test('doctor reports ok for every check of a healthy server', async () => {
  dns.set(HOST, 'A', ['127.0.0.1'])
  dns.set(HOST, 'TXT', ['other', 'v=spf1 a -all'])
  dns.set('1.0.0.127.in-addr.arpa', 'PTR', [HOST])
  chmodSync(postrider.dataDir, 0o700)
  const { port } = postrider.appliance.smtp[0]!
  const { code, found, text } = await examine(`hostname = "${HOST}"
data_dir = ${JSON.stringify(postrider.dataDir)}
http.public_url = "https://${HOST}"
delivery.port = ${exchanger.port}
backup.to = [${JSON.stringify(folder)}]
[smtp]
listen = ["127.0.0.1:${port}"]
${certificate(HOST, Date.now())}`)
  // Whether something answers at the public port 25 is the test machine's own affair, and its disk as well.
  // The resolver of the test does not validate.
  const { 'port 25 in': wayIn, disk, DANE: dane, ...rest } = found
  // The check is ok, so there is no fix.
  assert.deepEqual([dane?.status, dane?.fix], ['ok', null])
  assert.match(dane!.detail, /^not validating: 127\.0\.0\.1:\d+\. To verify receiving servers with DANE, run a/)
  assert.deepEqual(
    Object.entries(rest).filter(([, { fix, status }]) => status !== 'ok' || fix !== null),
    [],
  )
  assert.equal(Object.keys(rest).length, 14)
  assert.match(wayIn!.detail, new RegExp(`127\\.0\\.0\\.1:${port}`))
  assert.match(disk!.detail, /free at/)
  assert.equal(code, disk!.status === 'fail' ? 1 : 0)
  assert.match(text, /^ok {4}port \d+ out +mx\.probe\.test \(127\.0\.0\.1\) accepts connections$/m)
  assert.match(text, /\d+ ok, \d+ warnings?, \d+ failures?\n$/)
})

test('doctor checks each host of a route with its TLS settings and credentials', async () => {
  await using other = await startTestExchanger()
  const route = (name: string, ...lines: string[]) => ['[[delivery.routes]]', `name = "${name}"`, ...lines].join('\n')
  const [up, clear] = [exchanger, other].map(({ port }) => `127.0.0.1:${port}`)
  const { found } = await examine(
    [
      route('all', `hosts = ["${up}", "${clear}"]`),
      route('some', `hosts = ["${up}", "127.0.0.1:1"]`),
      route('none', `hosts = ["${up}", "${clear}"]`, 'tls = "required"'),
      route('single', 'host = "127.0.0.1"', `port = ${other.port}`),
      route('unknown', 'host = "mx:nowhere.test"'),
    ].join('\n'),
  )
  const shown = (name: string) => [found[`relay ${name}`]?.status, found[`relay ${name}`]?.detail]
  assert.deepEqual(shown('all'), ['ok', 'all 2 hosts accept email'])
  assert.equal(shown('some')[0], 'warn')
  assert.match(shown('some')[1]!, /^1 of 2 hosts cannot be used: 127\.0\.0\.1:1: .*cannot be reached on port 1/)
  assert.equal(shown('none')[0], 'fail')
  assert.match(shown('none')[1]!, /^2 of 2 hosts .*does not offer TLS/)
  assert.deepEqual(shown('single'), ['ok', '127.0.0.1 accepts email'])
  assert.equal(shown('unknown')[0], 'fail')
  assert.match(shown('unknown')[1]!, /nowhere\.test does not exist/)
})

test('doctor and notices run without the installation key, and doctor names the fix', async () => {
  const key = join(postrider.dataDir, KEY_FILE)
  const toml = `hostname = "${HOST}"\ndata_dir = ${JSON.stringify(postrider.dataDir)}`
  await postrider.activeDomain('sealed.test')
  renameSync(key, `${key}.away`)
  try {
    const { found } = await examine(toml)
    assert.equal(found['installation key']?.status, 'fail')
    assert.match(found['installation key']?.detail ?? '', /instance\.key is missing: .* backups fail$/)
    assert.match(found['installation key']?.fix ?? '', /^Restore instance\.key from a backup/)
    assert.deepEqual(await commands.json('notices'), [])
    assert.match(await commands.fails('user', 'list'), /instance\.key is missing/)
    writeFileSync(key, Buffer.alloc(32, 7).toString('base64'))
    const { detail } = (await examine(toml)).found['installation key']!
    assert.match(detail, /instance\.key does not belong to the database next to it$/)
  } finally {
    renameSync(`${key}.away`, key)
  }
})

test('doctor reports a write-ahead log above 256 MB with its fix, and how long a reader has held it if known (D118)', () => {
  const dir = mkdtempSync(join(folder, 'log-'))
  writeFileSync(join(dir, 'postrider.db-wal'), '')
  truncateSync(join(dir, 'postrider.db-wal'), 300 * 1024 * 1024)
  const config = { ...postrider.appliance.deps.config, data_dir: dir }
  const found = logFinding(config, 90_000)
  assert.deepEqual([found.severity, found.summary], ['warn', '315 MB, the oldest reader is open for 90 s'])
  assert.match(found.fix ?? '', /another process/)
  truncateSync(join(dir, 'postrider.db-wal'), 1024)
  assert.equal(logFinding(config).severity, 'ok')
})

test('doctor reports every problem with its fix', async () => {
  ahead = 600_000
  dns.set('mx.ill.org', 'A', ['127.0.0.9', '1.2.3.4'])
  dns.set('mx.ill.org', 'TXT', ['v=spf1 ip4:192.0.2.1 -all'])
  dns.set('9.0.0.127.in-addr.arpa', 'PTR', ['vps-9.cloud.example'])
  dns.set('4.3.2.1.zen.spamhaus.org', 'A', ['127.0.0.2'])
  dns.set('4.3.2.1.bl.spamcop.net', 'A', ['127.255.255.254'])
  const { code, found, text } = await examine(
    `hostname = "mx.ill.org"
data_dir = ${JSON.stringify(join(folder, 'not', 'yet'))}
http.public_url = "http://mx.ill.org"
[smtp]
listen = ["127.0.0.1:1"]
${certificate('old.ill.org', Date.now() - 4000 * DAY)}`,
    'nowhere.test',
  )
  ahead = 0
  assert.equal(code, 1)
  for (const [check, status, detail, fix] of [
    ['configuration', 'warn', /public_url is http:/, /https/],
    ['data directory', 'warn', /does not exist/, /init/],
    ['backups', 'warn', /"backup.to" is empty/, /Add a backup destination .*"backup\.to"/],
    ['certificate', 'fail', /expired/, /Renew/],
    // On a busy machine, the time between query and response changes the offset in either direction.
    ['clock', 'fail', /^(?:5[4-9]|6[0-5])\d\.\d\d s behind/, /NTP/],
    ['port 1 out', 'fail', /nowhere\.test does not exist/, /DNS/],
    ['port 25 in', 'warn', /no response from 127\.0\.0\.1:1/, /serve/],
    ['reverse DNS', 'fail', /The PTR record of 127\.0\.0\.9 is vps-9\.cloud\.example/, /PTR.*mx\.ill\.org/],
    ['SPF of HELO', 'fail', /fail for 127\.0\.0\.9/, /v=spf1 a -all/],
    ['blocklists', 'fail', /^1\.2\.3\.4 is on Spamhaus ZEN/, /removal/],
  ] as const) {
    assert.equal(found[check]!.status, status, check)
    assert.match(found[check]!.detail, detail, check)
    assert.match(found[check]!.fix!, fix, check)
    assert.ok(text.includes(`-> ${found[check]!.fix}`), check)
  }
  assert.doesNotMatch(found['blocklists']!.detail, /spamcop/, 'a list that does not answer us is not an entry')
})

test('doctor explains how to set up a server without a user or a fully qualified hostname, even in a container', async () => {
  const dataDir = join(folder, 'empty')
  const { store } = openInstance(dataDir)
  const { found } = await examine(`hostname = "vm"\ndata_dir = ${JSON.stringify(dataDir)}`)
  assert.match(found['set-up']!.detail, /no user and no domain/)
  assert.match(found['set-up']!.fix!, /^Run "postrider init"/)
  const image = (reader: Reader, hostname: string) => setUpFindings(reader, { hostname }, true).map(({ fix }) => fix!)
  assert.match(image(store, 'mx.well.org')[0]!, /POSTRIDER_HOSTNAME, POSTRIDER_INIT_DOMAIN and POSTRIDER_INIT_EMAIL/)
  assert.match(image(postrider.appliance.deps.store, 'vm')[0]!, /^Start the container with POSTRIDER_HOSTNAME/)
  assert.deepEqual(image(postrider.appliance.deps.store, 'mx.well.org'), [])
  store.close()
})

test('doctor checks each sending IP address: PTR record, name, SPF of the name, blocklists', async () => {
  const toml = `hostname = "mx.two.org"
data_dir = ${JSON.stringify(postrider.dataDir)}
[[delivery.sources]]
address = "1.2.3.20"
[[delivery.sources]]
address = "1.2.3.21"
hostname = "out.two.org"
[smtp]
listen = ["127.0.0.1:1"]
`
  dns.set('mx.two.org', 'A', ['1.2.3.20'])
  dns.set('mx.two.org', 'TXT', ['v=spf1 a -all'])
  dns.set('20.3.2.1.in-addr.arpa', 'PTR', ['mx.two.org'])
  dns.set('21.3.2.1.in-addr.arpa', 'PTR', ['mx.two.org'])
  dns.set('21.3.2.1.zen.spamhaus.org', 'A', ['127.0.0.2'])
  const { found: ill } = await examine(toml)
  assert.deepEqual([ill['reverse DNS']!.status, ill['blocklists']!.status], ['fail', 'fail'])
  assert.match(ill['reverse DNS']!.detail, /1\.2\.3\.21/)
  assert.doesNotMatch(ill['reverse DNS']!.detail, /1\.2\.3\.20/)
  assert.match(ill['blocklists']!.detail, /^1\.2\.3\.21 is on Spamhaus ZEN/)
  assert.deepEqual([ill['SPF of HELO']!.status, ill['SPF of HELO']!.detail], ['warn', 'out.two.org has no SPF record'])
  // A record without the address of this name does not help.
  dns.set('out.two.org', 'TXT', ['v=spf1 ip4:1.2.3.20 -all'])
  const { found: wrong } = await examine(toml)
  assert.deepEqual([wrong['SPF of HELO']!.status, wrong['SPF of HELO']!.detail], ['fail', 'fail for 1.2.3.21'])
  dns.set('out.two.org', 'A', ['1.2.3.21'])
  dns.set('out.two.org', 'TXT', ['v=spf1 a -all'])
  dns.set('21.3.2.1.in-addr.arpa', 'PTR', ['out.two.org'])
  dns.set('21.3.2.1.zen.spamhaus.org', 'A', undefined)
  const { found: well } = await examine(toml)
  assert.deepEqual([well['reverse DNS']!.status, well['SPF of HELO']!.status], ['ok', 'ok'])
  assert.match(well['reverse DNS']!.detail, /1\.2\.3\.20, 1\.2\.3\.21|1\.2\.3\.21, 1\.2\.3\.20/)
})

test('doctor reports WARN, not ok, when a check cannot be completed', async () => {
  dns.set('mx.bare.org', 'A', ['1.2.3.8'])
  dns.set('8.3.2.1.zen.spamhaus.org', 'A', ['127.255.255.254'])
  const { found } = await examine(`hostname = "mx.bare.org"
data_dir = ${JSON.stringify(folder)}
http.public_url = "https://mx.bare.org"
smtp.listen = ["127.0.0.1:1"]`)
  assert.equal(found['blocklists']!.status, 'warn')
  assert.match(found['SPF of HELO']!.detail, /no SPF record/)
  assert.match(found['reverse DNS']!.detail, /no PTR record/)
  assert.match(found['certificate']!.detail, /^self-signed/)
  const other = await examine(
    `hostname = "mx.bare.org"\n[smtp]\nlisten = ["127.0.0.1:1"]\n${certificate('other.org', Date.now())}`,
  )
  assert.match(other.found['certificate']!.detail, /not for mx\.bare\.org/)
  assert.match(other.found['certificate']!.fix!, /mx\.bare\.org/)
})

/** The results of a blocklist for the address of a host and for its test entries. */
async function listed(zone: string, said: Record<string, readonly string[] | undefined>): Promise<Findings[string]> {
  dns.set('mx.listed.org', 'A', ['1.2.3.7'])
  for (const [address, answer] of Object.entries(said))
    dns.set(`${address.split('.').toReversed().join('.')}.${zone}`, 'A', answer && [...answer])
  const { found } = await examine(`hostname = "mx.listed.org"\nsmtp.listen = ["127.0.0.1:1"]`)
  for (const address of Object.keys(said))
    dns.set(
      `${address.split('.').toReversed().join('.')}.${zone}`,
      'A',
      address === '127.0.0.2' ? ['127.0.0.2'] : undefined,
    )
  return found['blocklists']!
}

for (const [name, zone, said, status, detail] of [
  ['no list has the address', LISTS[0]!, {}, 'ok', /^1\.2\.3\.7 not listed by zen/],
  [
    'a policy listing of ZEN is reported',
    LISTS[0]!,
    { '1.2.3.7': ['127.0.0.11'] },
    'fail',
    /^1\.2\.3\.7 is on Spamhaus ZEN \(zen\.spamhaus\.org\)\. PBL: /,
  ],
  [
    'a code that ZEN does not document is not a listing',
    LISTS[0]!,
    { '1.2.3.7': ['127.0.0.200'] },
    'warn',
    /zen\.spamhaus\.org returned 127\.0\.0\.200, which is not a known code/,
  ],
  [
    'a code of another list is not a listing',
    LISTS[1]!,
    { '1.2.3.7': ['127.0.0.10'] },
    'warn',
    /bl\.spamcop\.net returned 127\.0\.0\.10/,
  ],
  [
    'ZEN refuses queries without a key',
    LISTS[0]!,
    { '127.0.0.2': ['127.255.255.254'], '127.0.0.1': ['127.255.255.254'], '1.2.3.7': ['127.255.255.254'] },
    'warn',
    /^zen\.spamhaus\.org rejects the query \(127\.255\.255\.254\): .*a large public resolver$/,
  ],
  [
    'ZEN received a query for a wrong name',
    LISTS[0]!,
    { '1.2.3.7': ['127.255.255.252'] },
    'warn',
    /rejects the query \(127\.255\.255\.252\)/,
  ],
  [
    'a list that lists every address is ignored',
    LISTS[3]!,
    { '127.0.0.1': ['127.0.0.2'], '1.2.3.7': ['127.0.0.2'] },
    'warn',
    /^psbl\.surriel\.com lists 127\.0\.0\.1, which must never be listed/,
  ],
  [
    'a list without its test entry is ignored',
    LISTS[2]!,
    { '127.0.0.2': undefined },
    'warn',
    /^b\.barracudacentral\.org does not list its test entry 127\.0\.0\.2, so its answers are ignored/,
  ],
  [
    'the page of a provider in place of "no such name" is not a listing',
    LISTS[1]!,
    { '127.0.0.1': ['203.0.113.9'], '1.2.3.7': ['203.0.113.9'] },
    'warn',
    /bl\.spamcop\.net returned 203\.0\.113\.9/,
  ],
] as const)
  test(`blocklists: ${name} (RFC 5782 §5)`, async () => {
    const found = await listed(zone, said)
    assert.equal(found.status, status, found.detail)
    assert.match(found.detail, detail)
  })

test('doctor does not query blocklists for private addresses', async () => {
  const own = ['127.0.0.7', '10.1.2.3', '192.168.1.1', '169.254.1.1', '100.64.0.1']
  dns.set('mx.near.org', 'A', own)
  const asked = own.slice(0, 4).map((address) => `${address.split('.').toReversed().join('.')}.zen.spamhaus.org`)
  for (const name of asked) dns.set(name, 'A', ['127.0.0.2'])
  dns.asked.length = 0
  const { found } = await examine(`hostname = "mx.near.org"\nsmtp.listen = ["127.0.0.1:1"]`)
  assert.deepEqual([found['blocklists']!.status, found['blocklists']!.fix], ['ok', null])
  assert.match(found['blocklists']!.detail, /127\.0\.0\.7.*blocklists are not checked/)
  assert.deepEqual(
    dns.asked.filter((question) => /spamhaus|spamcop|barracuda|surriel/.test(question)),
    [],
  )
})

test('doctor reports no missing record if DNS does not answer', async () => {
  dns.set('mx.mute.org', 'A', ['1.2.3.9'])
  dns.fail(true)
  const { found, text } = await examine(`hostname = "mx.mute.org"\ndata_dir = ${JSON.stringify(postrider.dataDir)}
smtp.listen = ["127.0.0.1:1"]`)
  dns.fail(false)
  for (const check of ['reverse DNS', 'blocklists'])
    assert.deepEqual(
      [found[check]!.status, found[check]!.detail],
      ['warn', 'DNS did not answer for mx.mute.org'],
      check,
    )
  assert.match(found['SPF of HELO']!.detail, /DNS did not answer/)
  assert.match(found['date']!.detail, /^(?:plausible \(last run of the server: |.* the last run of the server$)/)
  const advice = text.split('\n').filter((line) => line.trimStart().startsWith('-> '))
  assert.ok(advice.some((line) => line.includes('Check that DNS works')))
  assert.deepEqual(advice, [...new Set(advice)], 'the same advice is said once')
})

test('doctor rejects an invalid option in a sentence', async () => {
  assert.match(await commands.fails('doctor', '--time-server', 'nonsense'), /host:port/)
  await commands.misused('doctor', 'more')
})
