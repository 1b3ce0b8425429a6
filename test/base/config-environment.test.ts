import assert from 'node:assert/strict'
import { symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { z } from 'zod'
import { placeOfServer } from '../../src/base/config-file.ts'
import { demandKnownVariables, loadConfig, parseConfig, schema } from '../../src/base/config.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('variables')

/** Writes a file with this text, and returns its path. */
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

describe('unknown environment variables', () => {
  for (const [name, nearest] of [
    ['POSTRIDER_HOST_NAME', 'POSTRIDER_HOSTNAME'],
    ['POSTRIDER_SMTP_LISTENS', 'POSTRIDER_SMTP_LISTEN'],
    ['POSTRIDER_DELIVERY_ROUTE', 'POSTRIDER_DELIVERY_ROUTES'],
    ['POSTRIDER_METRIC_TOKEN_FILE', 'POSTRIDER_METRICS_TOKEN_FILE'],
    ['POSTRIDER_INIT_MAIL', 'POSTRIDER_INIT_EMAIL'],
  ] as const)
    test(`rejects ${name}, and suggests ${nearest}`, () => {
      const said = refusal(() => demandKnownVariables({ PATH: '/bin', [name]: 'x' }))
      assert.equal(said, `The environment variable ${name} is not a setting; correct it to ${nearest}, or remove it.`)
    })

  for (const [name, advice] of [
    ['POSTRIDER_QQQQQQQQQQQQQQQQQQQQQQQQ', 'remove it, or use one listed in docs/configuration.md'],
    ['POSTRIDER_BLAH', 'remove it, or use one listed in docs/configuration.md'],
    ['POSTRIDER_', 'remove it, or use one listed in docs/configuration.md'],
    [
      'POSTRIDER_LISTEN',
      'correct it to POSTRIDER_HTTP_LISTEN, POSTRIDER_HTTP_TLS_LISTEN or POSTRIDER_SMTP_LISTEN, or remove it',
    ],
    ['POSTRIDER_DOMAIN_FILE', 'correct it to POSTRIDER_INIT_DOMAIN_FILE, or remove it'],
    // These files would not be read.
    ['POSTRIDER_CONFIG_FILE', 'correct it to POSTRIDER_CONFIG, or remove it'],
    ['POSTRIDER_TOKEN_FILE', 'correct it to POSTRIDER_METRICS_TOKEN_FILE or POSTRIDER_TOKEN, or remove it'],
    [
      'POSTRIDER_BACKUP_KEEP',
      'use one variable per key of [backup.keep], such as POSTRIDER_BACKUP_KEEP_HOURLY, POSTRIDER_BACKUP_KEEP_DAILY or POSTRIDER_BACKUP_KEEP_WEEKLY',
    ],
    ['POSTRIDER_DELIVERY_ROUTES_X', 'use POSTRIDER_DELIVERY_ROUTES with all [[delivery.routes]] tables in TOML'],
    ['POSTRIDER_PLANS_GROWTH_INCLUDED_VOLUME', 'set [plans.NAME] in the configuration file and remove the variable'],
  ] as const)
    test(`rejects ${name} with the right advice`, () => {
      assert.equal(
        refusal(() => demandKnownVariables({ [name]: 'x' })),
        `The environment variable ${name} is not a setting; ${advice}.`,
      )
    })

  test('every setting can be set by a variable, or the error shows where to set it', () => {
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
            /in the configuration file and remove the variable/,
          )
      } else if (inner instanceof z.ZodObject) {
        kinds.section++
        const said = path.length === 0 ? '' : refusal(() => demandKnownVariables({ [name]: '' }))
        if (said) assert.ok(said.includes(`use one variable per key of [${path.join('.')}]`), said)
        for (const known of said.match(/(?<=(?:,|such as|or) )POSTRIDER_\w+/g) ?? [])
          demandKnownVariables({ [known]: '' })
        for (const [key, value] of Object.entries(inner.shape)) look(value as z.ZodType, [...path, key])
      } else if (inner instanceof z.ZodArray && bare(inner.element as z.ZodType) instanceof z.ZodObject) {
        kinds.tables++
        demandKnownVariables({ [name]: '', [`${name}_FILE`]: '' })
        for (const key of Object.keys((bare(inner.element as z.ZodType) as z.ZodObject).shape))
          assert.match(
            refusal(() => demandKnownVariables({ [variableOf([...path, key])]: '' })),
            new RegExp(`; use ${name} with all \\[\\[${path.join('.')}\\]\\]`),
          )
      } else {
        kinds.variable++
        demandKnownVariables({ [name]: '' })
        demandKnownVariables({ [`${name}_FILE`]: '' })
      }
    }
    look(schema, [])
    assert.ok(
      kinds.variable > 80 && kinds.section > 25 && kinds.tables === 2 && kinds.file === 1,
      JSON.stringify(kinds),
    )
  })

  test('accepts every setting, its _FILE variable, and other known variables', () => {
    demandKnownVariables({
      POSTRIDER_HTTP_LISTEN: '127.0.0.1:0',
      POSTRIDER_METRICS_TOKEN_FILE: '/run/secrets/token',
      POSTRIDER_TLS_CA_FILE: '/etc/ca.pem',
      POSTRIDER_DELIVERY_ROUTES_FILE: '/run/secrets/routes',
      POSTRIDER_CONFIG: '/etc/postrider.toml',
      POSTRIDER_INIT_DOMAIN: 'example.org',
    })
  })

  test('ignores the variables that Kubernetes sets for a service named postrider', () => {
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

describe('values in files', () => {
  test('finds the address of the server if it is set by a file', () => {
    const environment = { POSTRIDER_CONFIG: join(folder, 'none'), POSTRIDER_HTTP_LISTEN_FILE: secret('127.0.0.1:9\n') }
    assert.deepEqual(placeOfServer({ configFile: undefined, environment }), { listen: '127.0.0.1:9' })
    const missing = { ...environment, POSTRIDER_HTTP_LISTEN_FILE: join(folder, 'none') }
    assert.deepEqual(placeOfServer({ configFile: undefined, environment: missing }), {})
  })

  test('reads a value from the file that a _FILE variable names, without its last line end', () => {
    const at = secret('0123456789abcdef\n')
    const link = join(folder, 'link')
    symlinkSync(at, link)
    for (const path of [at, link])
      assert.equal(loadConfig(undefined, { POSTRIDER_METRICS_TOKEN_FILE: path }).metrics.token, '0123456789abcdef')
  })

  test('keys that end with _file keep their variable, and their _FILE variable has one more suffix', () => {
    const { acme, tls } = loadConfig(undefined, {
      POSTRIDER_ACME_EAB_KEY_FILE: '/etc/eab',
      POSTRIDER_TLS_CA_FILE_FILE: secret('/etc/ca.pem'),
    })
    assert.deepEqual([acme.eab_key_file, tls.ca_file], ['/etc/eab', '/etc/ca.pem'])
  })

  test('rejects a variable together with its _FILE variable, and an unreadable or large file', () => {
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

  test('reports an invalid value with the _FILE variable that named the file', () => {
    const said = refusal(() => loadConfig(undefined, { POSTRIDER_DELIVERY_PORT_FILE: secret('smtp\n') }))
    assert.ok(said.startsWith('POSTRIDER_DELIVERY_PORT_FILE: "delivery.port" '), said)
  })
})

describe('routes in a variable', () => {
  const ROUTES = '[[delivery.routes]]\ndomains = ["*"]\nhost = "relay.example"\nport = 587\n'

  test('POSTRIDER_DELIVERY_ROUTES and its file accept the TOML tables of the configuration file', () => {
    const wanted = parseConfig({ delivery: { routes: [{ domains: ['*'], host: 'relay.example', port: 587 }] } })
    const { routes } = wanted.delivery
    assert.deepEqual(loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES: ROUTES }).delivery.routes, routes)
    assert.deepEqual(loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES_FILE: secret(ROUTES) }).delivery.routes, routes)
    assert.deepEqual(loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES: '' }).delivery.routes, [])
  })

  test('POSTRIDER_DELIVERY_SOURCES accepts the TOML tables of the configuration file', () => {
    const { sources } = loadConfig(undefined, {
      POSTRIDER_DELIVERY_SOURCES: '[[delivery.sources]]\naddress = "192.0.2.1"\nrole = "bulk"\n',
    }).delivery
    assert.deepEqual([sources[0]!.address, sources[0]!.role], ['192.0.2.1', 'bulk'])
  })

  for (const [what, text, words] of [
    ['no TOML', '[[delivery.routes]]\nhost = relay', /^POSTRIDER_DELIVERY_ROUTES:2: invalid TOML/],
    ['another key', `${ROUTES}[log]\nlevel = "debug"`, /^POSTRIDER_DELIVERY_ROUTES must contain only/],
    ['another key of its section', `delivery.port = 2525\n`, /^POSTRIDER_DELIVERY_ROUTES must contain only/],
    ['a wrong value', `${ROUTES}tls = "maybe"`, /^POSTRIDER_DELIVERY_ROUTES: "delivery.routes.0.tls"/],
  ] as const)
    test(`rejects routes with ${what}`, () =>
      assert.match(
        refusal(() => loadConfig(undefined, { POSTRIDER_DELIVERY_ROUTES: text })),
        words,
      ))
})
