import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { z } from 'zod'
import { placeOfServer } from '../../src/base/config-file.ts'
import { demandKnownVariables, loadConfig, parseConfig, schema } from '../../src/base/config.ts'
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

/** A type without its default, its bounds and its transformations. */
function bare(type: z.ZodType): z.ZodType {
  if (type instanceof z.ZodDefault || type instanceof z.ZodPrefault || type instanceof z.ZodNullable)
    return bare(type.unwrap() as z.ZodType)
  return type instanceof z.ZodPipe ? bare(type.in as z.ZodType) : type
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

  for (const [name, advice] of [
    ['POSTRIDER_QQQQQQQQQQQQQQQQQQQQQQQQ', 'remove it, or name a key of config/postrider.toml'],
    ['POSTRIDER_BLAH', 'remove it, or name a key of config/postrider.toml'],
    ['POSTRIDER_', 'remove it, or name a key of config/postrider.toml'],
    [
      'POSTRIDER_LISTEN',
      'correct it to POSTRIDER_HTTP_LISTEN, POSTRIDER_HTTP_TLS_LISTEN or POSTRIDER_SMTP_LISTEN, or remove it',
    ],
    ['POSTRIDER_DOMAIN_FILE', 'correct it to POSTRIDER_INIT_DOMAIN_FILE, or remove it'],
    // Nobody would read these files.
    ['POSTRIDER_CONFIG_FILE', 'correct it to POSTRIDER_CONFIG, or remove it'],
    ['POSTRIDER_TOKEN_FILE', 'correct it to POSTRIDER_METRICS_TOKEN_FILE or POSTRIDER_TOKEN, or remove it'],
    [
      'POSTRIDER_BACKUP_KEEP',
      'each key of [backup.keep] has a variable of its own, POSTRIDER_BACKUP_KEEP_DAILY, POSTRIDER_BACKUP_KEEP_WEEKLY or POSTRIDER_BACKUP_KEEP_MONTHLY',
    ],
    [
      'POSTRIDER_DELIVERY_ROUTES_X',
      'POSTRIDER_DELIVERY_ROUTES takes all tables [[delivery.routes]] with their keys, in TOML as the file has them',
    ],
    [
      'POSTRIDER_PLANS_GROWTH_INCLUDED_VOLUME',
      '[plans.NAME] is written in the configuration file alone, for its names are yours: remove the variable',
    ],
  ] as const)
    test(`${name} is refused with what is true of it`, () => {
      assert.equal(
        refusal(() => demandKnownVariables({ [name]: 'x' })),
        `The variable ${name} is not a setting; ${advice}.`,
      )
    })

  test('whatever stands in the configuration is set by a variable, or answered with how it is written', () => {
    const kinds = { variable: 0, section: 0, tables: 0, file: 0 }
    const variableOf = (path: readonly string[]): string => `POSTRIDER_${path.join('_').toUpperCase()}`
    const look = (type: z.ZodType, path: readonly string[]): void => {
      const name = variableOf(path)
      const inner = bare(type)
      if (inner instanceof z.ZodRecord) {
        kinds.file++
        for (const each of [name, `${name}_NAME`, `${name}_NAME_KEY`, `${name}_FILE`])
          assert.match(
            refusal(() => demandKnownVariables({ [each]: '' })),
            /is written in the configuration file alone/,
          )
      } else if (inner instanceof z.ZodObject) {
        kinds.section++
        const said = path.length === 0 ? '' : refusal(() => demandKnownVariables({ [name]: '' }))
        if (said) assert.ok(said.includes(`each key of [${path.join('.')}] has a variable of its own`), said)
        for (const known of said.match(/(?<=(?:,|such as|or) )POSTRIDER_\w+/g) ?? [])
          demandKnownVariables({ [known]: '' })
        for (const [key, value] of Object.entries(inner.shape)) look(value as z.ZodType, [...path, key])
      } else if (inner instanceof z.ZodArray && bare(inner.element as z.ZodType) instanceof z.ZodObject) {
        kinds.tables++
        demandKnownVariables({ [name]: '', [`${name}_FILE`]: '' })
        for (const key of Object.keys((bare(inner.element as z.ZodType) as z.ZodObject).shape))
          assert.match(
            refusal(() => demandKnownVariables({ [variableOf([...path, key])]: '' })),
            new RegExp(`; ${name} takes all tables \\[\\[${path.join('.')}\\]\\]`),
          )
      } else {
        kinds.variable++
        demandKnownVariables({ [name]: '' })
        demandKnownVariables({ [`${name}_FILE`]: '' })
      }
    }
    look(schema, [])
    assert.ok(
      kinds.variable > 90 && kinds.section > 25 && kinds.tables === 2 && kinds.file === 1,
      JSON.stringify(kinds),
    )
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
  test('what asks a server for its state finds it by a value in a file too', () => {
    const environment = { POSTRIDER_CONFIG: join(folder, 'none'), POSTRIDER_HTTP_LISTEN_FILE: secret('127.0.0.1:9\n') }
    assert.deepEqual(placeOfServer({ configFile: undefined, environment }), { listen: '127.0.0.1:9' })
    const missing = { ...environment, POSTRIDER_HTTP_LISTEN_FILE: join(folder, 'none') }
    assert.deepEqual(placeOfServer({ configFile: undefined, environment: missing }), {})
  })

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
      /it is not a regular file/,
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
