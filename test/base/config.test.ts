import assert from 'node:assert/strict'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { parse } from 'smol-toml'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { hostsOf, loadConfig, parseConfig, schema } from '../../src/base/config.ts'
import { scalarPaths } from '../../src/base/config-environment.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const SHIPPED = fileURLToPath(new URL('../../config/postrider.toml', import.meta.url))
const BAD = fileURLToPath(new URL('../bad-config/', import.meta.url))

const folder = temporaryDirectory('config')

/** A configuration file of these lines. */
function file(...lines: string[]): string {
  const path = join(folder, 'postrider.toml')
  writeFileSync(path, lines.join('\n'))
  return path
}

/** The error of a start with this configuration, which must fail. */
function refusal(path: string | undefined, environment: Record<string, string> = {}): string {
  try {
    loadConfig(path, environment)
  } catch (thrown) {
    assert.ok(thrown instanceof OperatorError, `not a sentence for the operator: ${String(thrown)}`)
    return thrown.message
  }
  throw new Error(`${path ?? 'the environment'} was taken for good`)
}

/** One line, ended by one full stop, without a second sentence. */
function assertOneSentence(text: string): void {
  assert.match(text, /^[^\n]*[^\n.]\.$/, `not one sentence: ${text}`)
  assert.doesNotMatch(text, /\. [A-Z]/, `more than one sentence: ${text}`)
}

// The interface that users and other programs rely on: every key, as it is written, with its default.
const CONTRACT = `
hostname  = ""
data_dir  = "/var/lib/postrider"
regions   = ["default"]
[http]
listen          = "127.0.0.1:8025"
tls_listen      = []
public_url      = "http://127.0.0.1:8025"
trusted_proxies = []
[smtp]
listen   = ["[::]:25", "0.0.0.0:25"]
tls_cert = ""
tls_key  = ""
[submission]
listen     = []
tls_listen = []
max_connections = 1000
max_recipients  = 100
[tls]
cert = ""
key = ""
ca_file = ""
[acme]
enabled = false
directory = "https://acme-v02.api.letsencrypt.org/directory"
email = ""
accept_terms = false
listen = ["[::]:80", "0.0.0.0:80"]
ca_file = ""
names = []
eab_kid = ""
eab_key_file = ""
[inbound]
max_message_bytes = "40MB"
clamav            = ""
[images]
max_bytes     = "5MB"
account_bytes = "1GB"
[dns]
servers = []
[delivery]
port          = 25
source        = []
retry         = ["5m","15m","30m","1h","2h","4h","6h"]
lifetime      = "5d"
max_connections = 200
[network]
allow_private = []
[webhooks]
retry   = ["5s","5m","30m","2h","5h","10h","14h","20h","24h"]
probe   = ["5s","10s","20s","40s","80s","160s","320s"]
timeout = "15s"
ca_file = ""
[domains]
verification_window = "72h"
[api]
rate_limit = 20
rate_burst = 100
[oauth]
redirect_origins = ["http://127.0.0.1", "http://localhost"]
[plans.growth]
included_volume   = 100000
branded_tracking  = true
[retention]
outbound_bodies = "30d"
events          = "90d"
inbound         = "0"
reports = "400d"
report_messages = "30d"
[reports]
unauthenticated = "keep"
[backup]
schedule = "0 2 * * *"
late_after = "0"
to = []
keep = { hourly = 24, daily = 7, weekly = 4, monthly = 6 }
recipients = []
bandwidth = "0"
s3 = { endpoint = "", region = "us-east-1", style = "path", key_file = "" }
drill = "weekly"
identity_file = ""
[privacy]
ledger_copy = ""
[workers]
count = 0
[storage]
reserve = "500MB"
[metrics]
token = ""

[notices]
from = ""
operator = ""
[watch]
interval = "6h"
lists = ["zen.spamhaus.org", "bl.spamcop.net", "b.barracudacentral.org", "psbl.surriel.com"]
domain_lists = ["dbl.spamhaus.org"]
[log]
level = "info"
deliveries = "all"
`

/** Every leaf of a tree of tables: "http.listen" -> its value. */
function leaves(tree: object, path: string[] = []): [string, unknown][] {
  return Object.entries(tree).flatMap(([key, value]: [string, unknown]) =>
    typeof value === 'object' && value !== null && !Array.isArray(value)
      ? leaves(value, [...path, key])
      : [[[...path, key].join('.'), value] as [string, unknown]],
  )
}
/** A public key of age. */
const RECIPIENT = `age1${'q'.repeat(58)}`

/** Additions to the contract. */
const ADDED = {
  'compatibility.mailgun': true,
  'compatibility.resend': true,
  'signup.confirm_within': '7d',
  'signup.keep_requests': '30d',
  'signup.keep_proof': '1095d',
  'signup.min_time': '2s',
  'signup.per_address': 3,
  'signup.per_client': 10,
  'signup.per_client_day': 100,
  'signup.per_form': 200,
  'signup.check_mx': true,
  'privacy.recipient_requests': 'ask',
  'campaigns.brake_bounces': 0.05,
  'campaigns.brake_complaints': 0.003,
  'smtp.max_connections': 1000,
  'smtp.max_connections_per_address': 50,
  'submission.max_connections_per_address': 50,
  'delivery.dane': true,
  'delivery.shaping': '',
  'dns.trusted': [],
  'warmup.enabled': true,
  'warmup.transactional_overflow': 'send',
  'warmup.transactional_overflow_factor': 5,
  'warmup.bulk_overflow': 'wait',
  'warmup.route': '',
  'warmup.private': false,
}
const contract = new Map([...leaves(parse(CONTRACT)), ...Object.entries(ADDED)])

describe('defaults', () => {
  test('an empty configuration equals the defaults of the contract', () => {
    assert.deepEqual(parseConfig({}), parseConfig(parse(CONTRACT)))
    assert.deepEqual(loadConfig(undefined), parseConfig({}))
    assert.deepEqual(loadConfig(file('')), parseConfig({}))
  })

  test('durations are in milliseconds, sizes in bytes, endpoints have host and port', () => {
    const config = loadConfig(undefined)
    assert.equal(config.hostname, hostname().toLowerCase())
    assert.deepEqual(config.http.listen, { host: '127.0.0.1', port: 8025 })
    assert.deepEqual(config.smtp.listen, [
      { host: '::', port: 25 },
      { host: '0.0.0.0', port: 25 },
    ])
    assert.equal(config.inbound.max_message_bytes, 40 * 1024 * 1024)
    assert.deepEqual(
      config.delivery.retry,
      [5, 15, 30, 60, 120, 240, 360].map((minutes) => minutes * MINUTE),
    )
    assert.equal(config.delivery.lifetime, 5 * DAY)
    assert.deepEqual(
      config.webhooks.probe,
      [5, 10, 20, 40, 80, 160, 320].map((seconds) => seconds * SECOND),
    )
    assert.equal(config.domains.verification_window, 72 * HOUR)
    assert.deepEqual(config.retention, {
      outbound_bodies: 30 * DAY,
      events: 90 * DAY,
      inbound: 0,
      reports: 400 * DAY,
      report_messages: 30 * DAY,
    })
  })

  test('config/postrider.toml contains every key with its default', () => {
    const shipped = new Map(leaves(parse(readFileSync(SHIPPED, 'utf8'))))
    assert.deepEqual([...shipped.keys()].sort(), [...contract.keys()].sort())
    assert.deepEqual(loadConfig(SHIPPED), parseConfig({}))
  })

  test('every setting is in the contract', () => {
    const known = leaves(schema.parse({})).map(([key]) => (key.startsWith('http.listen.') ? 'http.listen' : key))
    assert.deepEqual([...new Set(known)].sort(), [...contract.keys(), 'delivery.routes', 'delivery.sources'].sort())
  })

  test('the example route of config/postrider.toml is valid', () => {
    const text = readFileSync(SHIPPED, 'utf8')
    const lines = text.slice(text.indexOf('# [[delivery.routes]]')).split('\n')
    const shown = lines.slice(
      0,
      lines.findIndex((line) => !line.startsWith('#')),
    )
    assert.equal(shown.length, 10)
    const config = loadConfig(file(...shown.map((line) => line.slice(2))))
    assert.deepEqual(config.delivery.routes, [
      {
        domains: ['*'],
        host: 'smtp.relay.example',
        hosts: [],
        port: 587,
        tls: 'required',
        username: '',
        password_file: '',
        name: '',
        spf: '',
      },
    ])
  })
})

describe('accepted values', () => {
  test('reads durations and sizes in every unit', () => {
    const { delivery, inbound } = loadConfig(
      file('[delivery]', 'retry = ["250ms", "5s", "5m", "2h", "5d", "0"]', '[inbound]', 'max_message_bytes = 1048576'),
    )
    assert.deepEqual(delivery.retry, [250, 5 * SECOND, 5 * MINUTE, 2 * HOUR, 5 * DAY, 0])
    assert.equal(inbound.max_message_bytes, 1024 ** 2)
    for (const [text, bytes] of [
      ['512', 512],
      ['512B', 512],
      ['64KB', 64 * 1024],
      ['1GB', 1024 ** 3],
    ] as const)
      assert.equal(parseConfig({ inbound: { max_message_bytes: text } }).inbound.max_message_bytes, bytes)
  })

  test('reads endpoints in IPv6, networks, and single addresses of both families', () => {
    const config = parseConfig({
      http: { listen: '[::1]:0', trusted_proxies: ['10.0.0.0/8', '192.0.2.1', 'fd00::/8', '::1'] },
    })
    assert.deepEqual(config.http.listen, { host: '::1', port: 0 })
    assert.deepEqual(config.http.trusted_proxies, ['10.0.0.0/8', '192.0.2.1', 'fd00::/8', '::1'])
  })

  test('reads the hosts of a route with and without a port, in IPv6 too', () => {
    const hosts = [
      'MX1.relay.example',
      'mx2.relay.example:2525',
      '192.0.2.1',
      '2001:db8::1',
      '[2001:db8::2]:26',
      '[::1]',
    ]
    const [route] = parseConfig({ delivery: { routes: [{ domains: ['*'], port: 587, hosts }] } }).delivery.routes
    assert.deepEqual(
      hostsOf(route!).map(({ host, port }) => [host, port]),
      [
        ['mx1.relay.example', 587],
        ['mx2.relay.example', 2525],
        ['192.0.2.1', 587],
        ['2001:db8::1', 587],
        ['2001:db8::2', 26],
        ['::1', 587],
      ],
    )
    for (const wrong of ['a b', 'a:b', ':25', 'a:0', '[::1]:0', 'a:70000', 'http://a', ''])
      assert.throws(
        () => parseConfig({ delivery: { routes: [{ domains: ['*'], hosts: ['a.example', wrong] }] } }),
        /"delivery\.routes\.0\.hosts\.1" must be a host with or without a port/,
        wrong,
      )
    const withHosts = (route: object) => parseConfig({ delivery: { routes: [{ domains: ['*'], ...route }] } })
    assert.throws(() => withHosts({ hosts: ['::1', '[0:0:0:0:0:0:0:1]:25'] }), /the host \[::1\]:25 is listed twice/)
    assert.throws(() => withHosts({ hosts: ['a.example', 'b.example'], port: 0 }), /"delivery\.routes\.0\.port"/)
    for (const wrong of ['mx:192.0.2.1', 'mx:', 'mx:a b'])
      assert.throws(() => withHosts({ host: wrong }), /must be a host, or "mx:" and a domain/, wrong)
    assert.equal(withHosts({ host: 'MX:Relay.example' }).delivery.routes[0]?.host, 'mx:Relay.example')
    const many = Array.from({ length: 21 }, (_, n) => `mx${n}.relay.example`)
    assert.throws(() => parseConfig({ delivery: { routes: [{ domains: ['*'], hosts: many }] } }), /at most 20 hosts/)
    assert.equal(
      parseConfig({ delivery: { routes: [{ domains: ['*'], hosts: many.slice(1) }] } }).delivery.routes.length,
      1,
    )
  })

  test('normalises a host name to lower case without final dot, and a public URL to one without final slash', () => {
    const config = parseConfig({ hostname: 'MX.Example.ORG.', http: { public_url: 'https://mail.example.org/' } })
    assert.equal(config.hostname, 'mx.example.org')
    assert.equal(config.http.public_url, 'https://mail.example.org')
  })

  test('without a public URL, uses the address of the HTTP listener', () => {
    const urlOf = (http: Record<string, string>): string => parseConfig({ http }).http.public_url
    for (const [listen, url] of [
      ['127.0.0.1:8045', 'http://127.0.0.1:8045'],
      ['0.0.0.0:8045', 'http://127.0.0.1:8045'],
      ['[::]:8045', 'http://[::1]:8045'],
      ['192.0.2.1:80', 'http://192.0.2.1'],
      // The system chooses one.
      ['127.0.0.1:0', 'http://127.0.0.1:8025'],
    ] as const) {
      assert.equal(urlOf({ listen }), url)
      assert.equal(urlOf({ listen, public_url: '' }), url)
      assert.equal(urlOf({ listen, public_url: 'https://mail.example.org' }), 'https://mail.example.org')
    }
  })

  test('accepts plans with only one of their keys', () => {
    const { plans } = loadConfig(
      file('[plans.scale]', 'included_volume = 5', '[plans.open]', 'branded_tracking = true'),
    )
    assert.deepEqual(plans, {
      scale: { included_volume: 5, branded_tracking: false },
      open: { included_volume: null, branded_tracking: true },
    })
  })
})

describe('environment', () => {
  // A value other than the default for every key that a variable can hold, as a person writes it.
  const SAMPLES: Record<string, [text: string, value: unknown]> = {
    hostname: ['mx.example.org', 'mx.example.org'],
    data_dir: ['/srv/post', '/srv/post'],
    regions: ['eu, us', ['eu', 'us']],
    'http.listen': ['[::1]:0', { host: '::1', port: 0 }],
    'http.public_url': ['https://mail.example.org', 'https://mail.example.org'],
    'http.trusted_proxies': ['10.0.0.0/8,192.0.2.1', ['10.0.0.0/8', '192.0.2.1']],
    'smtp.listen': [
      '127.0.0.1:2525,[::1]:2525',
      [
        { host: '127.0.0.1', port: 2525 },
        { host: '::1', port: 2525 },
      ],
    ],
    'http.tls_listen': ['[::]:443', [{ host: '::', port: 443 }]],
    'submission.listen': ['[::]:587', [{ host: '::', port: 587 }]],
    'submission.tls_listen': ['[::]:465', [{ host: '::', port: 465 }]],
    'submission.max_connections': ['20', 20],
    'submission.max_connections_per_address': ['5', 5],
    'submission.max_recipients': ['50', 50],
    'tls.cert': ['/etc/cert.pem', '/etc/cert.pem'],
    'tls.key': ['/etc/key.pem', '/etc/key.pem'],
    'tls.ca_file': ['/etc/ca.pem', '/etc/ca.pem'],
    'acme.enabled': ['true', true],
    'acme.directory': ['https://ca.example/dir', 'https://ca.example/dir'],
    'acme.email': ['root@example.org', 'root@example.org'],
    'acme.accept_terms': ['true', true],
    'acme.listen': ['127.0.0.1:5002', [{ host: '127.0.0.1', port: 5002 }]],
    'acme.ca_file': ['/etc/ca.pem', '/etc/ca.pem'],
    'acme.names': ['a.example.org,b.example.org', ['a.example.org', 'b.example.org']],
    'acme.eab_kid': ['kid', 'kid'],
    'acme.eab_key_file': ['/etc/eab', '/etc/eab'],
    'smtp.max_connections': ['20', 20],
    'smtp.max_connections_per_address': ['5', 5],
    'smtp.tls_cert': ['/etc/cert.pem', '/etc/cert.pem'],
    'smtp.tls_key': ['/etc/key.pem', '/etc/key.pem'],
    'inbound.max_message_bytes': ['1MB', 1024 ** 2],
    'inbound.clamav': ['127.0.0.1:3310', '127.0.0.1:3310'],
    'images.max_bytes': ['2MB', 2 * 1024 ** 2],
    'images.account_bytes': ['0', 0],
    'dns.servers': ['127.0.0.1:5353', [{ host: '127.0.0.1', port: 5353 }]],
    'delivery.port': ['2525', 2525],
    'delivery.source': ['192.0.2.1,2001:db8::1', ['192.0.2.1', '2001:db8::1']],
    'delivery.retry': ['1m,2m', [MINUTE, 2 * MINUTE]],
    'delivery.lifetime': ['1d', DAY],
    'delivery.max_connections': ['5', 5],
    'delivery.dane': ['false', false],
    'dns.trusted': ['192.0.2.53', ['192.0.2.53']],
    'delivery.shaping': ['/etc/postrider/shaping.toml', '/etc/postrider/shaping.toml'],
    'warmup.enabled': ['false', false],
    'warmup.transactional_overflow': ['wait', 'wait'],
    'warmup.transactional_overflow_factor': ['0', 0],
    'warmup.bulk_overflow': ['relay', 'relay'],
    'warmup.route': ['spare', 'spare'],
    'warmup.private': ['true', true],
    'network.allow_private': ['127.0.0.0/8', ['127.0.0.0/8']],
    'webhooks.retry': ['1s', [SECOND]],
    'webhooks.probe': ['1s', [SECOND]],
    'webhooks.timeout': ['2s', 2 * SECOND],
    'webhooks.ca_file': ['/etc/ca.pem', '/etc/ca.pem'],
    'domains.verification_window': ['1h', HOUR],
    'api.rate_limit': ['0', 0],
    'api.rate_burst': ['7', 7],
    'compatibility.mailgun': ['false', false],
    'compatibility.resend': ['false', false],
    'signup.confirm_within': ['1d', DAY],
    'signup.keep_requests': ['1d', DAY],
    'signup.keep_proof': ['365d', 365 * DAY],
    'signup.min_time': ['0', 0],
    'signup.per_address': ['0', 0],
    'signup.per_client': ['5', 5],
    'signup.per_client_day': ['50', 50],
    'signup.per_form': ['20', 20],
    'signup.check_mx': ['false', false],
    'campaigns.brake_bounces': ['0.1', 0.1],
    'campaigns.brake_complaints': ['0', 0],
    'oauth.redirect_origins': ['https://console.example.org', ['https://console.example.org']],
    'retention.outbound_bodies': ['0', 0],
    'retention.events': ['1d', DAY],
    'retention.inbound': ['365d', 365 * DAY],
    'retention.reports': ['30d', 30 * DAY],
    'retention.report_messages': ['1d', DAY],
    'reports.unauthenticated': ['drop', 'drop'],
    'metrics.token': ['0123456789abcdef', '0123456789abcdef'],
    'watch.interval': ['2h', 2 * HOUR],
    'watch.lists': ['BL.example.org,bl.example.org', ['bl.example.org']],
    'watch.domain_lists': ['dbl.example.org', ['dbl.example.org']],
    'log.level': ['debug', 'debug'],
    'log.deliveries': ['failures', 'failures'],
    'storage.reserve': ['1GB', 1024 ** 3],
    'workers.count': ['4', 4],
    'notices.from': ['robot@example.org', 'robot@example.org'],
    'notices.operator': ['root@example.org', 'root@example.org'],
    'privacy.ledger_copy': ['/mnt/ledger', '/mnt/ledger'],
    'privacy.recipient_requests': ['automatic', 'automatic'],
    'backup.schedule': ['30 1 * * mon', '30 1 * * mon'],
    'backup.to': ['/mnt/one, /mnt/two', ['/mnt/one', '/mnt/two']],
    'backup.late_after': ['15m', 15 * MINUTE],
    'backup.keep.hourly': ['4', 4],
    'backup.keep.daily': ['3', 3],
    'backup.keep.weekly': ['2', 2],
    'backup.keep.monthly': ['1', 1],
    'backup.recipients': [RECIPIENT, [RECIPIENT]],
    'backup.bandwidth': ['10MB', 10 * 1024 ** 2],
    'backup.s3.endpoint': ['https://s3.example.org', 'https://s3.example.org'],
    'backup.s3.region': ['eu-central-1', 'eu-central-1'],
    'backup.s3.style': ['host', 'host'],
    'backup.s3.key_file': ['/etc/s3.key', '/etc/s3.key'],
    'backup.drill': ['monthly', 'monthly'],
    'backup.identity_file': ['/etc/postrider/drill.key', '/etc/postrider/drill.key'],
  }
  const variableOf = (key: string): string => `POSTRIDER_${key.replaceAll('.', '_').toUpperCase()}`
  const valueAt = (tree: unknown, key: string): unknown =>
    key.split('.').reduce((branch, name) => (branch as Record<string, unknown>)[name], tree)

  test('every key of the contract except the plans has a variable', () => {
    const keys = [...contract.keys()].filter((key) => !key.startsWith('plans.')).sort()
    assert.deepEqual(Object.keys(SAMPLES).sort(), keys)
    assert.deepEqual(
      scalarPaths(schema.parse({}))
        .map((path) => path.join('.'))
        .sort(),
      keys,
    )
  })

  for (const [key, [text, value]] of Object.entries(SAMPLES))
    test(`${variableOf(key)} sets only ${key}`, () => {
      const plain = parseConfig({})
      const config = loadConfig(undefined, { [variableOf(key)]: text })
      assert.deepEqual(valueAt(config, key), value)
      assert.notDeepEqual(valueAt(plain, key), value)
      // Without a setting, the public URL follows the listener.
      const own = key === 'http.listen' ? [key, 'http.public_url'] : [key]
      const others = (tree: object) =>
        leaves(tree).filter(([name]) => !own.some((each) => name === each || name.startsWith(`${each}.`)))
      assert.deepEqual(others(config), others(plain))
    })

  test('every default can be set by its variable', () => {
    for (const [key, value] of contract) {
      if (key.startsWith('plans.')) continue
      const text = Array.isArray(value) ? value.join(',') : String(value)
      assert.doesNotThrow(() => loadConfig(undefined, { [variableOf(key)]: text }), `${variableOf(key)}=${text}`)
      assert.deepEqual(
        loadConfig(undefined, { [variableOf(key)]: text }),
        parseConfig({}),
        `${variableOf(key)}=${text}`,
      )
    }
  })

  test('a variable overrides only its own key of the file', () => {
    const path = file('regions = ["eu"]', '[http]', 'listen = "127.0.0.1:1"', 'public_url = "https://a.example"')
    const config = loadConfig(path, { POSTRIDER_HTTP_LISTEN: '127.0.0.1:2' })
    assert.deepEqual(config.http.listen, { host: '127.0.0.1', port: 2 })
    assert.equal(config.http.public_url, 'https://a.example')
    assert.deepEqual(config.regions, ['eu'])
  })

  test('ignores variables that are not settings', () => {
    assert.deepEqual(loadConfig(undefined, { POSTRIDER_CONFIG: '/x', PATH: '/bin', HOSTNAME: 'y' }), parseConfig({}))
  })

  for (const [name, text, wanted] of [
    ['POSTRIDER_HTTP_LISTEN', '8025', '"http.listen" must be host:port'],
    ['POSTRIDER_DELIVERY_PORT', 'smtp', '"delivery.port"'],
    ['POSTRIDER_DELIVERY_RETRY', '5m,soon', '"delivery.retry.1" must be a duration'],
    ['POSTRIDER_HOSTNAME', 'mx_1', '"hostname" must be a host name'],
    ['POSTRIDER_REGIONS', 'eu,Europe West', '"regions.1" must consist of lower-case letters'],
    ['POSTRIDER_DNS_SERVERS', 'dns.example.org:53', '"dns.servers.0"'],
    ['POSTRIDER_LOG_LEVEL', '', '"log.level"'],
  ] as const)
    test(`reports an invalid ${name} by its name`, () => {
      const said = refusal(file('# nothing here'), { [name]: text })
      assert.ok(said.startsWith(`${name}: ${wanted}`), said)
      assertOneSentence(said)
    })

  test('reports an invalid value in the file with the file, even if there are variables', () => {
    const path = file('[http]', 'public_url = "x"')
    assert.ok(refusal(path, { POSTRIDER_HTTP_LISTEN: '127.0.0.1:2' }).startsWith(`${path}:2: "http.public_url" `))
  })

  test('rejects a file with a value in place of a section, even with a variable for that section', () => {
    const said = refusal(file('http = 8025'), { POSTRIDER_HTTP_LISTEN: '127.0.0.1:2' })
    assert.match(said, /"http" /)
    assertOneSentence(said)
  })
})

describe('invalid files', () => {
  // The first line of each file contains the expected error: "# line N: the words after file and line".
  const names = readdirSync(BAD)
  test('the directory of samples is not empty', () => assert.ok(names.length >= 40))

  for (const name of names)
    test(name, () => {
      const path = join(BAD, name)
      const [, line, words] = /^# line (\d+): (.+)\n/.exec(readFileSync(path, 'utf8')) ?? []
      assert.ok(line !== undefined && words !== undefined, 'the first line says what is expected')
      const said = refusal(path)
      assertOneSentence(said)
      assert.ok(said.startsWith(`${path}:${line}: `), `expected line ${line}: ${said}`)
      assert.ok(said.includes(words), said)
    })

  test('reports a missing file', () => {
    const path = join(folder, 'missing.toml')
    const said = refusal(path)
    assert.ok(said.includes(path), said)
    assertOneSentence(said)
  })

  test('reports a directory in place of the file', () => {
    const said = refusal(folder)
    assert.ok(said.includes(folder), said)
    assertOneSentence(said)
  })

  test('reports a binary file', () => {
    const path = join(folder, 'binary.toml')
    writeFileSync(path, Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2, 0xff, 0xfe]))
    const said = refusal(path)
    assert.ok(said.startsWith(`${path}:1: `), said)
    assertOneSentence(said)
  })

  test('checks an object of a test or of the sandbox in the same way', () => {
    assert.throws(() => parseConfig({ htpp: {} }), { message: /^the configuration: "htpp" is not a setting; .*\.$/ })
  })
})
