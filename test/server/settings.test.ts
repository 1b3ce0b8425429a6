// `serve --check` rejects the same settings as a start, and a reload names those that need a restart.
import assert from 'node:assert/strict'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { makeCertificate } from '../../src/base/certificate.ts'
import { parseConfig, type Config, type ConfigInput } from '../../src/base/config.ts'
import { messageOf } from '../../src/base/errors.ts'
import { isObject } from '../../src/base/json.ts'
import { silentLog } from '../../src/base/log.ts'
import { restartNeeded } from '../../src/base/served.ts'
import { restartFindings } from '../../src/checks/machine.ts'
import { startAppliance } from '../../src/server/appliance.ts'
import { demandAddresses, demandSettings, takeOver } from '../../src/server/settings.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const folder = temporaryDirectory('settings')

type Tree = Record<string, unknown>

/** A configuration that starts anywhere. */
const base = (): Tree => ({
  hostname: 'mx.here.test',
  data_dir: mkdtempSync(join(folder, 'data-')),
  http: { listen: '127.0.0.1:0' },
  smtp: { listen: ['127.0.0.1:0'] },
  acme: { listen: ['127.0.0.1:0'] },
  watch: { interval: '0' },
})

function withSetting(path: readonly string[], value: unknown): Tree {
  const tree = base()
  let at = tree
  for (const name of path.slice(0, -1)) at = (at[name] ??= {}) as Tree
  at[path.at(-1)!] = value
  return tree
}

/** Why these settings are rejected, or '' if they are valid. */
async function checked(config: Config): Promise<string> {
  try {
    demandSettings(config)
    await demandAddresses(config)
    return ''
  } catch (thrown) {
    return messageOf(thrown)
  }
}

async function started(config: Config): Promise<string> {
  try {
    const appliance = await startAppliance({ config, clock: new ManualClock(), log: silentLog })
    await appliance.stop()
    return ''
  } catch (thrown) {
    return messageOf(thrown)
  }
}

const parsed = (input: unknown): Config | undefined => {
  try {
    return parseConfig(input)
  } catch {
    return undefined
  }
}

/** Each setting, nested ones too, by its path. */
const leaves = (tree: Tree, path: string[] = []): { path: string[]; value: unknown }[] =>
  Object.entries(tree).flatMap(([name, value]) =>
    isObject(value) && !('port' in value) ? leaves(value, [...path, name]) : [{ path: [...path, name], value }],
  )

/** No machine has this address (RFC 5737). */
const FOREIGN = '203.0.113.9:0'
/** Values that may be refused at the start, by the kind of a setting. */
function doubtful(value: unknown): unknown[] {
  if (typeof value === 'boolean') return [!value]
  if (typeof value === 'string') return ['/nowhere/at-all.pem']
  if (Array.isArray(value)) return [[FOREIGN], ['/nowhere/at-all'], ['2001:db8::1']]
  return isObject(value) ? [FOREIGN] : []
}

describe('serve --check', () => {
  test('rejects each setting that serve rejects, and no other', async () => {
    let refused = 0
    for (const { path, value } of leaves(parseConfig({}) as unknown as Tree))
      for (const wrong of path[0] === 'data_dir' ? [] : doubtful(value)) {
        const [first, second] = [parsed(withSetting(path, wrong)), parsed(withSetting(path, wrong))]
        if (!first || !second) continue
        const said = await checked(first)
        assert.equal(said, await started(second), `${path.join('.')} = ${JSON.stringify(wrong)}`)
        if (said !== '') refused++
      }
    assert.ok(refused >= 10, `${refused} were refused`)
  })

  const made = makeCertificate('mx.here.test', Date.now())
  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return join(folder, name)
  }
  for (const [what, input, sentence] of [
    ['an unknown route of warm-up', { warmup: { route: 'nope' } }, /"warmup\.route" is "nope"/],
    ['a key without a certificate', { tls: { key: file('a.key', made.key) } }, /"tls\.cert" is empty/],
    [
      'a certificate file without a certificate',
      { tls: { cert: file('none.crt', 'nothing'), key: file('b.key', made.key) } },
      /"tls\.cert" .* cannot be used/,
    ],
    ['a CA file without a certificate', { tls: { ca_file: file('none.pem', 'nothing') } }, /^"tls\.ca_file": /],
    ['terms that are not accepted', { acme: { enabled: true } }, /"acme\.accept_terms" is false/],
    ['half an account', { acme: { enabled: true, accept_terms: true, eab_kid: 'x' } }, /set both "acme\.eab_kid"/],
    [
      'two listeners on a port',
      { smtp: { listen: ['0.0.0.0:8025'] } },
      /"smtp\.listen" and "http\.listen" both listen on/,
    ],
    ['another address', { smtp: { listen: [FOREIGN] } }, /is not an address of this machine; correct "smtp\.listen"/],
  ] as [string, ConfigInput, RegExp][])
    test(`rejects ${what}`, async () => {
      const config = parseConfig({ hostname: 'mx.here.test', data_dir: join(folder, 'never'), ...input })
      assert.match(await checked(config), sentence)
    })

  test('warns of a certificate and a password that are unreadable at present, with which serve starts', async () => {
    const tls = { cert: '/nowhere/a.crt', key: '/nowhere/a.key' }
    const hosts = ['one.relay.test', 'two.relay.test']
    const shared = { domains: ['x.test'], password_file: '/nowhere/password' }
    const delivery = {
      routes: [
        { ...shared, host: 'relay.test' },
        { ...shared, hosts },
      ],
    }
    const input = { ...base(), tls, delivery }
    const [certificate, password, shown] = demandSettings(parseConfig(input))
    assert.match(shown!, /of the relay one\.relay\.test, two\.relay\.test cannot be read/)
    assert.match(certificate!, /^"tls\.cert" \(\/nowhere\/a\.crt\) cannot be read/)
    assert.match(password!, /^The password file \/nowhere\/password of the relay relay\.test cannot be read \(ENOENT\)/)
    assert.equal(await started(parseConfig(input)), '')
  })

  test('accepts "[::]" and "0.0.0.0" of one listener on the same port', () => {
    assert.deepEqual(demandSettings(parseConfig({ smtp: { listen: ['[::]:2600', '0.0.0.0:2600'] } })), [])
  })
})

describe('a reload', () => {
  test('applies live settings, keeps the others until a restart, and names them in health and for doctor', async () => {
    await using postrider = await startTestAppliance({})
    const { appliance } = postrider
    const { config } = appliance.deps
    const health = async (): Promise<unknown> => (await postrider.raw('/health')).body as unknown
    assert.deepEqual(await health(), { status: 'ok' })
    const fresh: Config = {
      ...config,
      api: { ...config.api, rate_limit: config.api.rate_limit + 1 },
      retention: { ...config.retention, events: 5 },
      smtp: { ...config.smtp, max_connections: 7 },
    }
    const before = { rate: config.api.rate_limit, most: config.smtp.max_connections }
    const names = ['smtp.max_connections', 'api.rate_limit']
    assert.deepEqual(await appliance.reload(fresh), names)
    assert.deepEqual(
      [config.retention.events, config.api.rate_limit, config.smtp.max_connections],
      [5, before.rate, before.most],
    )
    assert.deepEqual(await health(), { status: 'ok', restart_needed: names })
    assert.deepEqual(restartNeeded(config.data_dir), names)
    assert.match(restartFindings(names)[0]!.summary, /previous values of smtp\.max_connections, api\.rate_limit/)
    const { findings } = await appliance.deps.operations.state()
    assert.ok(findings.some(({ check }) => check === 'restart'))
    // After the old value is restored, no setting needs a restart.
    assert.deepEqual(await appliance.reload({ ...config }), [])
    assert.deepEqual([await health(), restartNeeded(config.data_dir)], [{ status: 'ok' }, []])
  })

  test('keeps the old settings if a setting is rejected or a certificate is unreadable', async () => {
    await using postrider = await startTestAppliance({})
    const { appliance } = postrider
    const { config } = appliance.deps
    const { events } = config.retention
    const fresh = { ...config, retention: { ...config.retention, events: 5 } }
    const tls = { ...config.tls, cert: '/nowhere/a.crt', key: '/nowhere/a.key' }
    await assert.rejects(appliance.reload({ ...fresh, warmup: { ...config.warmup, route: 'nope' } }), /warmup\.route/)
    await assert.rejects(appliance.reload({ ...fresh, tls }), /tls\.cert/)
    assert.deepEqual([config.retention.events, config.warmup.route, config.tls.cert], [events, '', ''])
  })

  test('keeps the public URL of a listener that stays', () => {
    const [former, fresh] = ['127.0.0.1:3000', '127.0.0.1:3001'].map((listen) => parseConfig({ http: { listen } }))
    const { config, waiting } = takeOver(former!, fresh!)
    assert.deepEqual(waiting, ['http.listen', 'http.public_url'])
    assert.equal(config.http.public_url, 'http://127.0.0.1:3000')
  })
})
