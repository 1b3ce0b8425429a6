// Certificates from Pebble, the ACME project's test CA: issued automatically, used by every listener, renewed with the
// same key, and failures that do not affect mail.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { DAY, SECOND } from '../../src/base/clock.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { withPrograms } from './rig/need.ts'
import { PEBBLE, startPebble, type Pebble } from './rig/pebble.ts'
import { startPostrider } from './rig/postrider.ts'
import { freePort, until } from './rig/sandbox.ts'

const absent = [PEBBLE, '/usr/bin/curl', '/usr/bin/openssl', '/usr/bin/testssl'].filter((path) => !existsSync(path))
const LIMIT = 60_000
const HOST = 'mx.shop.example'

/** A log that keeps each line: the event, and its fields as JSON. */
function heard() {
  const lines: string[] = []
  const note = (event: string, fields: object = {}): void => void lines.push(`${event} ${JSON.stringify(fields)}`)
  return {
    lines,
    log: { debug() {}, info: note, warn: note, error: note, always: note, fault: (where: string) => where },
  }
}

withPrograms('certificates by ACME', absent, () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-acme-'))
  let dns: TestDns
  let pebble: Pebble
  let rootFile: string

  before(async () => {
    dns = await startTestDns()
    for (const name of [HOST, 'api.shop.example', 'mta-sts.shop.example']) dns.set(name, 'A', ['127.0.0.1'])
    // Half of all good nonces are refused, and no authorization is used twice.
    pebble = await startPebble(dns.port, { PEBBLE_WFE_NONCEREJECT: '50', PEBBLE_AUTHZREUSE: '0' })
    rootFile = join(folder, 'root.pem')
    writeFileSync(rootFile, await pebble.root())
  })
  after(async () => {
    await pebble?.stop()
    await dns?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const run = (program: string, args: string[]): Promise<string> =>
    new Promise((resolve, reject) => {
      const child = execFile(program, args, { timeout: LIMIT, maxBuffer: 1 << 24 }, (error, stdout, stderr) =>
        error ? reject(new Error(`${program} ${args.join(' ')}: ${stdout}${stderr}`)) : resolve(stdout),
      )
      child.stdin!.on('error', () => {}).end('QUIT\r\n')
    })
  const acme = (more = '') => `[acme]
enabled = true
accept_terms = true
directory = "${pebble.directory}"
ca_file = "${pebble.caFile}"
listen = ["127.0.0.1:${pebble.httpPort}"]
${more}`

  test('the built server: curl and openssl trust its certificate on every port, and testssl finds no weakness', async () => {
    const httpsPort = await freePort()
    const postrider = await startPostrider({
      dns,
      hostname: HOST,
      deliveryPort: 1,
      http: `tls_listen = ["127.0.0.1:${httpsPort}"]\npublic_url = "https://api.shop.example:${httpsPort}"`,
      more: `[submission]\nlisten = ["127.0.0.1:0"]\ntls_listen = ["127.0.0.1:0"]\n${acme()}`,
    })
    try {
      await postrider.sendingDomain('shop.example')
      const sts = await postrider.json('domain', 'sts', 'shop.example', '--mode', 'testing')
      assert.equal(sts.mode, 'testing')
      const chain = (name: string): string => join(postrider.dataDir, 'acme', `${name}.crt`)
      await until(
        () => [HOST, 'api.shop.example'].every((name) => existsSync(chain(name))),
        LIMIT,
        () => `no certificates:\n${postrider.log().slice(-4000)}\n${pebble.log().slice(-2000)}`,
      )
      const { submission, submissions } = postrider.ports
      const curl = (host: string, path: string, port = httpsPort, more: string[] = []) =>
        run('/usr/bin/curl', [
          '--silent',
          '--show-error',
          '--include',
          '--cacert',
          rootFile,
          '--resolve',
          `${host}:${port}:127.0.0.1`,
          ...more,
          `https://${host}:${port}${path}`,
        ])
      const health = await curl('api.shop.example', '/health')
      assert.match(health, /^HTTP\/1\.1 200/)
      assert.match(health, /strict-transport-security: max-age=31536000/i)
      assert.match(await curl(HOST, '/api/v1/tokens'), /^HTTP\/1\.1 401/)
      const redirect = await run('/usr/bin/curl', [
        '--silent',
        '--include',
        '--resolve',
        `api.shop.example:${pebble.httpPort}:127.0.0.1`,
        `http://api.shop.example:${pebble.httpPort}/console?x=1`,
      ])
      assert.match(redirect, /^HTTP\/1\.1 301[\s\S]*location: https:\/\/api\.shop\.example[^\s]*\/console\?x=1/i)
      const verified = /Verify return code: 0 \(ok\)/
      for (const args of [
        ['-connect', `127.0.0.1:${postrider.smtpPort}`, '-starttls', 'smtp'],
        ['-connect', `127.0.0.1:${submission[0]}`, '-starttls', 'smtp'],
        ['-connect', `127.0.0.1:${submissions[0]}`],
        ['-connect', `127.0.0.1:${httpsPort}`, '-servername', HOST],
      ])
        assert.match(
          await run('/usr/bin/openssl', ['s_client', ...args, '-CAfile', rootFile, '-verify_hostname', HOST]),
          verified,
          args.join(' '),
        )
      // Suites of the good and sufficient lists alone: testssl's own words for the rest.
      for (const [port, starttls] of [
        [httpsPort, []],
        [submissions[0]!, []],
        [submission[0]!, ['--starttls', 'smtp']],
        [postrider.smtpPort, ['--starttls', 'smtp']],
      ] as const) {
        const file = join(folder, `testssl-${port}.json`)
        await run('/usr/bin/testssl', [
          '--quiet',
          '--color',
          '0',
          '--warnings',
          'off',
          '--protocols',
          '--std',
          '--ip',
          '127.0.0.1',
          '--jsonfile',
          file,
          ...starttls,
          `${HOST}:${port}`,
        ]).catch((thrown: unknown) => {
          // Its exit code counts findings.
          if (!existsSync(file)) throw thrown
        })
        const findings = JSON.parse(readFileSync(file, 'utf8')) as { id: string; severity: string; finding: string }[]
        const weak = findings.filter(({ severity }) => /^(?:LOW|MEDIUM|HIGH|CRITICAL)$/.test(severity))
        assert.deepEqual(weak, [], `port ${port}`)
        assert.ok(
          findings.some(({ finding, id }) => id === 'TLS1_3' && /offered/.test(finding)),
          `port ${port}`,
        )
      }
      // A restart, or the hour, brings the policy host: its record leads here since.
      assert.match(
        await run('/usr/bin/curl', [
          '--silent',
          '--insecure',
          '--include',
          '--resolve',
          `mta-sts.shop.example:${httpsPort}:127.0.0.1`,
          `https://mta-sts.shop.example:${httpsPort}/.well-known/mta-sts.txt`,
        ]),
        /content-type: text\/plain[\s\S]*\r\n\r\nversion: STSv1\r\nmode: testing\r\nmx: mx\.shop\.example\r\nmax_age: 86400\r\n$/i,
      )
      const { records } = await postrider.json('domain', 'records', 'shop.example')
      const kinds = new Set(records.map(({ record_type }: { record_type: string }) => record_type))
      for (const kind of ['FROM_SPF', 'HELO_SPF', 'TLSA', 'MTA_STS', 'TLS_RPT']) assert.ok(kinds.has(kind), kind)
      assert.equal(records.filter(({ record_type }: { record_type: string }) => record_type === 'TLSA').length, 2)
    } finally {
      await postrider.stop()
    }
  })

  test('a certificate is renewed with the same key after two thirds of its lifetime, and all listeners use it without a restart', async () => {
    const clock = new ManualClock(Date.now())
    const httpPort = pebble.httpPort
    const postrider = await startTestAppliance({
      clock,
      config: {
        http: { tls_listen: ['127.0.0.1:0'] },
        acme: {
          enabled: true,
          accept_terms: true,
          directory: pebble.directory,
          ca_file: pebble.caFile,
          listen: [`127.0.0.1:${httpPort}`],
        },
      },
    })
    postrider.dns.set('mx.postrider.test', 'A', ['127.0.0.1'])
    dns.set('mx.postrider.test', 'A', ['127.0.0.1'])
    const file = join(postrider.dataDir, 'acme', 'mx.postrider.test.crt')
    const read = (): X509Certificate | undefined =>
      existsSync(file) ? new X509Certificate(readFileSync(file)) : undefined
    const turned = (wanted: () => boolean, step: number): Promise<void> =>
      until(
        () => {
          if (wanted()) return true
          clock.advance(step)
          return false
        },
        LIMIT,
        () => pebble.log().slice(-3000),
      )
    try {
      await turned(() => read() !== undefined, SECOND)
      const first = read()!
      clock.leap(((first.validToDate.getTime() - first.validFromDate.getTime()) * 2) / 3 + DAY)
      await turned(() => read()!.serialNumber !== first.serialNumber, SECOND)
      const second = read()!
      assert.deepEqual(
        second.publicKey.export({ type: 'spki', format: 'der' }),
        first.publicKey.export({ type: 'spki', format: 'der' }),
      )
      const shown = await run('/usr/bin/openssl', [
        's_client',
        '-connect',
        `127.0.0.1:${postrider.appliance.smtp[0]!.port}`,
        '-starttls',
        'smtp',
        '-showcerts',
      ])
      const [pem] = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/.exec(shown) ?? []
      assert.equal(new X509Certificate(pem!).serialNumber, second.serialNumber)
    } finally {
      await postrider.stop()
    }
  })

  test('TLS-ALPN-01 is used if port 80 is closed or not reachable', async () => {
    for (const listen of [[], ['127.0.0.1:0']]) {
      const { lines, log } = heard()
      const clock = new ManualClock(Date.now())
      const postrider = await startTestAppliance({
        clock,
        log,
        config: {
          http: { tls_listen: [`127.0.0.1:${pebble.tlsPort}`] },
          acme: { enabled: true, accept_terms: true, directory: pebble.directory, ca_file: pebble.caFile, listen },
        },
      })
      try {
        dns.set('mx.postrider.test', 'A', ['127.0.0.1'])
        const file = join(postrider.dataDir, 'acme', 'mx.postrider.test.crt')
        await until(
          () => {
            if (!existsSync(file)) clock.advance(SECOND)
            return existsSync(file)
          },
          LIMIT,
          () => `${lines.join('\n')}\n${pebble.log().slice(-3000)}`,
        )
        assert.ok(new X509Certificate(readFileSync(file)).checkHost('mx.postrider.test'))
        const failed = lines.filter((line) => line.startsWith('certificate_challenge_switched'))
        assert.equal(failed.length, listen.length, 'HTTP-01 first where port 80 is open')
        assert.equal(lines.filter((line) => line.startsWith('certificate_order_failed')).length, 0)
      } finally {
        await postrider.stop()
      }
    }
  })

  test('external account binding: the order fails without it and with a wrong key, and succeeds with the right key', async () => {
    const key = Buffer.alloc(32, 7).toString('base64url')
    const bound = await startPebble(dns.port, {}, { 'kid-1': key })
    const clock = new ManualClock(Date.now())
    const keyFile = join(folder, 'eab.key')
    dns.set('mx.postrider.test', 'A', ['127.0.0.1'])
    const tried = async (eab: { eab_kid?: string; eab_key_file?: string }): Promise<string> => {
      const { lines, log } = heard()
      const acmeOf = { enabled: true, accept_terms: true, directory: bound.directory, ca_file: bound.caFile, ...eab }
      const postrider = await startTestAppliance({
        clock,
        log,
        config: { acme: { ...acmeOf, listen: [`127.0.0.1:${bound.httpPort}`] } },
      })
      const ended = (): string | undefined => lines.find((line) => /^certificate_(?:issued|order_failed)/.test(line))
      try {
        await until(
          () => {
            if (!ended()) clock.advance(SECOND)
            return ended() !== undefined
          },
          LIMIT,
          () => lines.join('\n'),
        )
        return ended()!
      } finally {
        await postrider.stop()
      }
    }
    try {
      assert.match(await tried({}), /^certificate_order_failed .*externalAccountBinding/)
      writeFileSync(keyFile, Buffer.alloc(32, 8).toString('base64url'))
      assert.match(await tried({ eab_kid: 'kid-1', eab_key_file: keyFile }), /^certificate_order_failed/)
      writeFileSync(keyFile, `${key}\n`)
      assert.match(await tried({ eab_kid: 'kid-1', eab_key_file: keyFile }), /^certificate_issued/)
    } finally {
      await bound.stop()
    }
  })

  test('a new account is created and the certificate renewed if the account key is missing or corrupt', async () => {
    const clock = new ManualClock(Date.now())
    const config = {
      acme: {
        enabled: true,
        accept_terms: true,
        directory: pebble.directory,
        ca_file: pebble.caFile,
        listen: [`127.0.0.1:${pebble.httpPort}`],
      },
    }
    dns.set('mx.postrider.test', 'A', ['127.0.0.1'])
    let place = ''
    const read = (): X509Certificate | undefined =>
      existsSync(join(place, 'mx.postrider.test.crt'))
        ? new X509Certificate(readFileSync(join(place, 'mx.postrider.test.crt')))
        : undefined
    /** Runs a server with what `before` left, changed by `harm`, until it has another certificate. */
    const renewed = async (before: string, harm: (account: string) => void): Promise<string> => {
      const dataDir = mkdtempSync(join(folder, 'data-'))
      if (before !== '') cpSync(before, join(dataDir, 'acme'), { recursive: true })
      place = join(dataDir, 'acme')
      harm(join(place, 'account.json'))
      const had = read()
      if (had) {
        const [from, to] = [had.validFromDate.getTime(), had.validToDate.getTime()]
        clock.leap(Math.ceil(Math.max(0, from + ((to - from) * 2) / 3 + DAY - clock.now())))
      }
      const postrider = await startTestAppliance({ clock, config, dataDir })
      try {
        await until(
          () => {
            if (read()?.serialNumber === had?.serialNumber) clock.advance(600 * SECOND)
            return read()?.serialNumber !== had?.serialNumber
          },
          LIMIT,
          () => pebble.log().slice(-3000),
        )
        return place
      } finally {
        await postrider.stop()
      }
    }
    const first = await renewed('', () => {})
    const kept = JSON.parse(readFileSync(join(first, 'account.json'), 'utf8')) as Record<string, string>
    for (const harm of [
      (account: string) => rmSync(account),
      (account: string) => writeFileSync(account, '{"directory"'),
      (account: string) => writeFileSync(account, JSON.stringify({ directory: kept['directory'] })),
      (account: string) => writeFileSync(account, JSON.stringify({ ...kept, key: kept['key']!.slice(0, 60) })),
      (account: string) => writeFileSync(account, JSON.stringify({ ...kept, url: `${kept['url']}0000` })),
    ]) {
      const account = JSON.parse(readFileSync(join(await renewed(first, harm), 'account.json'), 'utf8')) as typeof kept
      assert.notEqual(account['url'], kept['url'])
      assert.match(account['key']!, /END PRIVATE KEY/)
    }
  })

  test('a clock 20 years ahead: one certificate in two days, and an error that names the clock', async () => {
    const clock = new ManualClock(Date.now() + 20 * 365 * DAY)
    const { lines, log } = heard()
    const postrider = await startTestAppliance({
      clock,
      log,
      config: {
        acme: {
          enabled: true,
          accept_terms: true,
          directory: pebble.directory,
          ca_file: pebble.caFile,
          listen: [`127.0.0.1:${pebble.httpPort}`],
        },
      },
    })
    dns.set('mx.postrider.test', 'A', ['127.0.0.1'])
    const had = (): string[] => lines.filter((line) => line.startsWith('certificate_issued'))
    const within = (wanted: () => boolean, step: number): Promise<void> =>
      until(
        () => {
          if (!wanted()) clock.advance(step)
          return wanted()
        },
        LIMIT,
        () => `${lines.join('\n')}\n${pebble.log().slice(-3000)}`,
      )
    try {
      await within(() => had().length > 0, SECOND)
      assert.match(lines.join('\n'), /certificate_clock_mismatch .*timedatectl/)
      const end = clock.now() + 2 * DAY - 3600 * SECOND
      await within(() => clock.now() >= end, 600 * SECOND)
      assert.equal(had().length, 1)
      await within(() => had().length > 1, 600 * SECOND)
    } finally {
      await postrider.stop()
    }
  })

  test('failed challenges and an unreachable CA: mail continues, the error is logged, and orders are not repeated at once', async () => {
    const clock = new ManualClock(Date.now())
    const { lines, log } = heard()
    const start = (directory: string) =>
      startTestAppliance({
        clock,
        log,
        config: {
          acme: { enabled: true, accept_terms: true, directory, ca_file: pebble.caFile, listen: ['127.0.0.1:0'] },
        },
      })
    const failures = (): string[] => lines.filter((line) => line.startsWith('certificate_order_failed'))
    for (const directory of [
      pebble.directory,
      pebble.directory.replace('/dir', '/nothing'),
      'https://127.0.0.1:9/dir',
    ]) {
      lines.length = 0
      const postrider = await start(directory)
      try {
        await until(
          () => {
            if (failures().length === 0) clock.advance(SECOND)
            return failures().length > 0
          },
          LIMIT,
          () => lines.join('\n'),
        )
        const shown = await run('/usr/bin/openssl', [
          's_client',
          '-connect',
          `127.0.0.1:${postrider.appliance.smtp[0]!.port}`,
          '-starttls',
          'smtp',
        ])
        assert.match(shown, /BEGIN CERTIFICATE/, 'a self-signed certificate until the first one is issued')
        const before = failures().length
        clock.advance(9 * 60 * SECOND)
        assert.equal(failures().length, before, 'not again within ten minutes')
      } finally {
        await postrider.stop()
      }
    }
  })
})
