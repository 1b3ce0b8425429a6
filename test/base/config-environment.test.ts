import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { demandKnownVariables, loadConfig, parseConfig } from '../../src/base/config.ts'
import { OperatorError } from '../../src/base/errors.ts'

const folder = mkdtempSync(join(tmpdir(), 'postrider-variables-'))
after(() => rmSync(folder, { recursive: true }))

/** A file with this text; its path. */
function secret(text: string | Buffer): string {
  const path = join(folder, 'secret')
  writeFileSync(path, text)
  return path
}

/** The sentence of a refusal. */
function refusal(work: () => unknown): string {
  try {
    work()
  } catch (thrown) {
    assert.ok(thrown instanceof OperatorError, String(thrown))
    assert.match(thrown.message, /^[^\n]+\.$/)
    return thrown.message
  }
  throw new Error('it was taken for good')
}

describe('variables that have no meaning end the start (C1)', () => {
  for (const [name, nearest] of [
    ['POSTRIDER_HOST_NAME', 'POSTRIDER_HOSTNAME'],
    ['POSTRIDER_SMTP_LISTENS', 'POSTRIDER_SMTP_LISTEN'],
    ['POSTRIDER_DELIVERY_ROUTE', 'POSTRIDER_DELIVERY_ROUTES'],
    ['POSTRIDER_METRIC_TOKEN_FILE', 'POSTRIDER_METRICS_TOKEN_FILE'],
    ['POSTRIDER_INIT_MAIL', 'POSTRIDER_INIT_EMAIL'],
  ] as const)
    test(`${name} is refused, and ${nearest} named`, () => {
      const said = refusal(() => demandKnownVariables({ PATH: '/bin', [name]: 'x' }))
      assert.equal(said, `The variable ${name} is not a setting; correct it to ${nearest}, or remove it.`)
    })

  test('one that is near to none is refused alone', () => {
    const said = refusal(() => demandKnownVariables({ POSTRIDER_QQQQQQQQQQQQQQQQQQQQQQQQ: '' }))
    assert.match(said, /QQQQ is not a setting; remove it\.$/)
  })

  test('every setting, its file, and other variables that have a meaning are let through', () => {
    demandKnownVariables({
      POSTRIDER_HTTP_LISTEN: '127.0.0.1:0',
      POSTRIDER_METRICS_TOKEN_FILE: '/run/secrets/token',
      POSTRIDER_TLS_CA_FILE: '/etc/ca.pem',
      POSTRIDER_DELIVERY_ROUTES_FILE: '/run/secrets/routes',
      POSTRIDER_CONFIG: '/etc/postrider.toml',
      POSTRIDER_INIT_DOMAIN: 'example.org',
    })
  })

  test('what Kubernetes says of a service named postrider is left alone', () => {
    const service = {
      POSTRIDER_SERVICE_HOST: '10.0.0.7',
      POSTRIDER_SERVICE_PORT: '25',
      POSTRIDER_SERVICE_PORT_SMTP: '25',
      POSTRIDER_PORT: 'tcp://10.0.0.7:25',
      POSTRIDER_PORT_25_TCP: 'tcp://10.0.0.7:25',
      POSTRIDER_PORT_25_TCP_ADDR: '10.0.0.7',
      POSTRIDER_WEB_SERVICE_HOST: '10.0.0.8',
      POSTRIDER_WEB_PORT_80_TCP_PROTO: 'tcp',
    }
    demandKnownVariables(service)
    const { POSTRIDER_SERVICE_HOST: _, ...without } = service
    refusal(() => demandKnownVariables(without))
  })
})

describe('values in files (C2)', () => {
  test('the file that a variable with _FILE names holds the value, without the end of its line', () => {
    const at = secret('0123456789abcdef\n')
    const link = join(folder, 'link')
    symlinkSync(at, link)
    for (const path of [at, link])
      assert.equal(loadConfig(undefined, { POSTRIDER_METRICS_TOKEN_FILE: path }).metrics.token, '0123456789abcdef')
  })

  test('a key that ends with _file is one, and its file has another _FILE', () => {
    const { acme, tls } = loadConfig(undefined, {
      POSTRIDER_ACME_EAB_KEY_FILE: '/etc/eab',
      POSTRIDER_TLS_CA_FILE_FILE: secret('/etc/ca.pem'),
    })
    assert.deepEqual([acme.eab_key_file, tls.ca_file], ['/etc/eab', '/etc/ca.pem'])
  })

  test('both at once are refused, and so is a file that cannot be read, or holds too much', () => {
    const both = { POSTRIDER_HOSTNAME: 'mx.a.test', POSTRIDER_HOSTNAME_FILE: secret('mx.b.test') }
    assert.match(
      refusal(() => loadConfig(undefined, both)),
      /^POSTRIDER_HOSTNAME and POSTRIDER_HOSTNAME_FILE are both/,
    )
    const missing = join(folder, 'missing')
    const said = refusal(() => loadConfig(undefined, { POSTRIDER_HOSTNAME_FILE: missing }))
    assert.ok(said.startsWith(`POSTRIDER_HOSTNAME_FILE: ${missing} cannot be read (ENOENT)`), said)
    assert.match(
      refusal(() => loadConfig(undefined, { POSTRIDER_HOSTNAME_FILE: folder })),
      /EFTYPE/,
    )
    const long = secret(Buffer.alloc(70_000, 'a'))
    assert.match(
      refusal(() => loadConfig(undefined, { POSTRIDER_HOSTNAME_FILE: long })),
      /more than 64 KB/,
    )
  })

  test('a wrong value is put to the variable that named the file', () => {
    const said = refusal(() => loadConfig(undefined, { POSTRIDER_DELIVERY_PORT_FILE: secret('smtp\n') }))
    assert.ok(said.startsWith('POSTRIDER_DELIVERY_PORT_FILE: "delivery.port" '), said)
  })
})

describe('routes in a variable (C2)', () => {
  const ROUTES = '[[delivery.routes]]\ndomains = ["*"]\nhost = "relay.example"\nport = 587\n'

  test('POSTRIDER_DELIVERY_ROUTES takes the tables as the file has them, and so does its file', () => {
    const wanted = parseConfig({ delivery: { routes: [{ domains: ['*'], host: 'relay.example', port: 587 }] } })
    const { routes } = wanted.delivery
    assert.deepEqual(loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES: ROUTES }).delivery.routes, routes)
    assert.deepEqual(loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES_FILE: secret(ROUTES) }).delivery.routes, routes)
    assert.deepEqual(loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES: '' }).delivery.routes, [])
  })

  test('so does POSTRIDER_DELIVERY_SOURCES', () => {
    const { sources } = loadConfig(undefined, {
      POSTRIDER_DELIVERY_SOURCES: '[[delivery.sources]]\naddress = "192.0.2.1"\nrole = "bulk"\n',
    }).delivery
    assert.deepEqual([sources[0]!.address, sources[0]!.role], ['192.0.2.1', 'bulk'])
  })

  for (const [what, text, words] of [
    ['no TOML', '[[delivery.routes]]\nhost = relay', /^POSTRIDER_DELIVERY_ROUTES:2: this is not TOML/],
    ['another key', `${ROUTES}[log]\nlevel = "debug"`, /^POSTRIDER_DELIVERY_ROUTES must be the tables/],
    ['another key of its section', `delivery.port = 2525\n`, /^POSTRIDER_DELIVERY_ROUTES must be the tables/],
    ['a wrong value', `${ROUTES}tls = "maybe"`, /^POSTRIDER_DELIVERY_ROUTES: "delivery.routes.0.tls"/],
  ] as const)
    test(`with ${what} it is refused`, () =>
      assert.match(
        refusal(() => loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES: text })),
        words,
      ))
})
