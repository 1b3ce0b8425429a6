import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { createServer, type AddressInfo } from 'node:net'
import { after, before, describe, test } from 'node:test'
import Database from 'better-sqlite3'
import { HOUR, MINUTE, systemClock } from '../../src/base/clock.ts'
import { loadConfig } from '../../src/base/config.ts'
import { createLog, silentLog } from '../../src/base/log.ts'
import { FirstStartByEnvironment } from '../../src/cli/first-start.ts'
import { standardTerminal } from '../../src/views/command/terminal.ts'
import type { AppDeps } from '../../src/http/app-deps.ts'
import { createResolver } from '../../src/net/resolver.ts'
import type { Appliance } from '../../src/server/appliance.ts'
import { openInstance } from '../../src/store/instance.ts'
import { Commands, sentenceOf, start, type Running } from '../commands/command.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'

const folder = temporaryDirectory('first')

interface Line extends Record<string, unknown> {
  event: string
}
const linesOf = (text: string): Line[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line)

interface Answered {
  status: number | undefined
  cookie: string
  text: string
}
/** A request to a server whose certificate is not proven. */
async function throughTunnel(
  port: number,
  path: string,
  headers: Record<string, string>,
  form?: URLSearchParams,
): Promise<Answered> {
  const asked = request({
    port,
    path,
    host: '127.0.0.1',
    method: form ? 'POST' : 'GET',
    rejectUnauthorized: false,
    headers: { ...headers, ...(form && { 'content-type': 'application/x-www-form-urlencoded' }) },
  }).end(form?.toString())
  const [answer] = (await once(asked, 'response')) as [IncomingMessage]
  const cookie = (answer.headers['set-cookie'] ?? []).map((line) => line.split(';')[0]).join('; ')
  return { status: answer.statusCode, cookie, text: await text(answer) }
}

describe('a first start with POSTRIDER_INIT_*', () => {
  let dns: TestDns
  before(async () => {
    dns = await startTestDns()
    dns.set('mx.first.test', 'A', ['192.0.2.1'])
  })
  after(() => dns.close())
  /** The variables of an installation of its own. */
  const given = (name: string, more: Record<string, string> = {}): Record<string, string> => ({
    POSTRIDER_CONFIG: join(folder, name, 'postrider.toml'),
    POSTRIDER_DATA_DIR: join(folder, name),
    POSTRIDER_HOSTNAME: 'mx.first.test',
    POSTRIDER_HTTP_LISTEN: '127.0.0.1:0',
    POSTRIDER_SMTP_LISTEN: '127.0.0.1:0',
    POSTRIDER_DNS_SERVERS: `127.0.0.1:${dns.port}`,
    POSTRIDER_INIT_DOMAIN: 'first.test',
    POSTRIDER_INIT_EMAIL: 'me@first.test',
    ...more,
  })
  /** Starts a server and stops it when it is ready and has printed its messages. Returns the lines of its log. */
  async function served(
    env: Record<string, string>,
    during: (server: Running) => unknown = () => {},
    tells = true,
  ): Promise<Line[]> {
    const server = start(['serve'], folder, env)
    try {
      await server.said(/"event":"server_ready".*\n/)
      if (tells) await server.said(/Sign in.*\n\n.*join\?link=.*\n[^]*user invite/, 'stderr')
      await during(server)
      server.child.kill('SIGTERM')
      assert.equal(await server.ended, 0)
    } finally {
      server.child.kill('SIGKILL')
    }
    return linesOf(server.stdout())
  }
  const setUpIn = (lines: readonly Line[]): Line[] => lines.filter(({ event }) => event === 'initial_setup_pending')

  test('creates the user, domain and configuration once, and prints the DNS records and a link valid for one hour', async () => {
    const env = given('whole', { POSTRIDER_LOG_LEVEL: 'error' })
    let joined: Response | undefined
    let again: Response | undefined
    let told = ''
    const first = await served(env, async (server) => {
      told = server.stderr()
      const [line, ready] = ['initial_setup_pending', 'server_ready'].map((name) =>
        linesOf(server.stdout()).find(({ event }) => event === name),
      )
      const link = new URL(line!['sign_in'] as string)
      link.host = ready!['http'] as string
      joined = await fetch(link)
      link.searchParams.set('link', `${link.searchParams.get('link')}x`)
      again = await fetch(link)
    })
    assert.deepEqual(
      first.map(({ event }) => event).filter((event) => ['server_ready', 'initial_setup_pending'].includes(event)),
      ['server_ready', 'initial_setup_pending'],
      'told when the start has succeeded',
    )
    const [line] = setUpIn(first)
    assert.deepEqual(
      [line!['domain'], line!['user'], line!['hostname']],
      ['first.test', 'me@first.test', 'mx.first.test'],
    )
    const records = line!['records'] as string[]
    assert.match(records.join('\n'), /_domainkey\.first\.test\. \d+ IN TXT "v=DKIM1/)
    // DNS has the address already.
    assert.doesNotMatch(records.join('\n'), / A /)
    assert.deepEqual(line!['reverse'], ['1.2.0.192.in-addr.arpa. 3600 IN PTR mx.first.test.'])
    const [said, until] = [line!['time'], line!['sign_in_until']].map((time) => Date.parse(time as string))
    assert.ok(until! - said! <= HOUR && until! - said! > HOUR - MINUTE)
    assert.deepEqual([joined?.status, again?.status], [200, 410])
    assert.doesNotMatch(JSON.stringify(first) + told, /pr_[0-9A-Za-z]{32}/, 'a token')
    const file = readFileSync(env['POSTRIDER_CONFIG']!, 'utf8')
    assert.match(file, /^hostname = "mx\.first\.test"$/m)
    assert.ok(file.includes(`data_dir = ${JSON.stringify(env['POSTRIDER_DATA_DIR'])}`), file)
    // For a person: each record on a line of its own, whole.
    assert.match(told, /^ +HOST_ADDRESS +A +mx\.first\.test +192\.0\.2\.1$/m)
    assert.match(told, /^ +DKIM +TXT +\S+\._domainkey\.first\.test +v=DKIM1; k=rsa; p=[\w+/=]{300,}$/m)
    assert.match(told, /PTR record \(reverse DNS\) of 192\.0\.2\.1 must point to mx\.first\.test/)
    assert.ok(told.includes(`\n   ${line!['sign_in'] as string}\n`))

    const commands = new Commands(folder)
    try {
      const { code, stdout } = await commands.run(['domain', 'records', 'first.test'], { env })
      assert.equal(code, 0)
      for (const record of records.slice(1)) assert.ok(stdout.includes(record), record)
      // Until a user has signed in, the next start prints the same link, and other names have no effect.
      const [second, ...more] = setUpIn(await served(env))
      assert.deepEqual(more, [])
      assert.deepEqual({ ...second, time: undefined }, { ...line, time: undefined })
      assert.ok(![...first, ...more].some(({ event }) => event === 'init_variables_ignored'))
      const names = { POSTRIDER_INIT_DOMAIN: 'other.test', POSTRIDER_INIT_EMAIL: 'you@other.test' }
      const other = { ...env, ...names, POSTRIDER_LOG_LEVEL: 'warn' }
      const lines = await served(other, () => {}, false)
      assert.deepEqual(setUpIn(lines), [])
      const different = lines.filter(({ event }) => event === 'init_variables_ignored')
      assert.deepEqual(
        different.map(({ level }) => level),
        ['warn'],
      )
      const token = ['token', 'create', '--user', 'me@first.test', '--name', 'x', '--scopes', 'all']
      await commands.run([...token, '--duration', '12_months'], { env })
    } finally {
      await commands.close()
    }
    assert.deepEqual(setUpIn(await served(env, () => {}, false)), [])
  })

  test('compares the names of the environment in their stored form', async () => {
    const env = given('written', {
      POSTRIDER_HOSTNAME: 'MX.First.test.',
      POSTRIDER_INIT_DOMAIN: 'First.TEST.',
      POSTRIDER_INIT_EMAIL: 'You@First.TEST',
    })
    for (const start of ['first', 'second']) {
      const [line] = setUpIn(await served(env))
      assert.deepEqual(
        [line?.['domain'], line?.['user'], line?.['hostname']],
        ['first.test', 'You@first.test', 'mx.first.test'],
        start,
      )
    }
  })

  test('a start that fails because a port is in use creates no data, and the next start prints the instructions', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await once(taken, 'listening')
    const { port } = taken.address() as AddressInfo
    const env = given('taken', { POSTRIDER_SMTP_LISTEN: `127.0.0.1:${port}` })
    const commands = new Commands(folder)
    try {
      const ran = await commands.run(['--json', 'serve'], { env })
      assert.match(sentenceOf(ran), /is used by another process; find it with "ss -ltnp"/)
      assert.doesNotMatch(ran.stdout, /"initial_setup_pending"/)
      // Neither a database nor a key, a lock or a configuration.
      assert.deepEqual(readdirSync(env['POSTRIDER_DATA_DIR']!), [])
      taken.close()
      assert.equal(setUpIn(await served(env)).length, 1)
    } finally {
      taken.close()
      await commands.close()
    }
  })

  test('of two concurrent first starts, one is rejected and the other prints a valid link', async () => {
    const env = given('twice')
    const servers = [start(['serve'], folder, env), start(['serve'], folder, env)]
    try {
      const loser = await Promise.race(
        servers.map(async (server) => {
          assert.equal(await server.ended, 1)
          return server
        }),
      )
      assert.match(loser.stderr(), /Another Postrider already uses/)
      assert.doesNotMatch(loser.stdout(), /"initial_setup_pending"/)
      const winner = servers.find((server) => server !== loser)!
      await winner.said(/"event":"initial_setup_pending".*\n/)
      const lines = linesOf(winner.stdout())
      const link = new URL(setUpIn(lines)[0]!['sign_in'] as string)
      link.host = lines.find(({ event }) => event === 'server_ready')!['http'] as string
      assert.equal((await fetch(link)).status, 200)
    } finally {
      for (const { child } of servers) child.kill('SIGKILL')
    }
  })

  test('the next start completes a setup that was interrupted before the domain existed', async () => {
    const env = given('cut')
    await served(env)
    const file = join(env['POSTRIDER_DATA_DIR']!, 'postrider.db')
    const db = new Database(file)
    // As a process leaves it that was killed between the two.
    db.pragma('foreign_keys = OFF')
    for (const table of ['records', 'dkim_keys', 'domains']) db.exec(`delete from ${table}`)
    db.close()
    assert.equal(setUpIn(await served(env)).length, 1)
  })

  test('accepting the terms of the CA enables HTTPS and submission in the new configuration file', async () => {
    const env = given('open', { POSTRIDER_ACME_ACCEPT_TERMS: 'true', POSTRIDER_HTTP_TLS_LISTEN: '127.0.0.1:0' })
    for (const name of ['ACME_LISTEN', 'SUBMISSION_LISTEN', 'SUBMISSION_TLS_LISTEN'])
      env[`POSTRIDER_${name}`] = '127.0.0.1:0'
    env['POSTRIDER_ACME_DIRECTORY'] = 'https://127.0.0.1:1/directory'
    const [line] = setUpIn(
      await served(env, async (server) => {
        // Before DNS leads here, and before there is a certificate: as a browser at the near end of the tunnel does.
        const [, port = '', near = ''] =
          /"ssh -L 8443:127\.0\.0\.1:(\d+) SERVER".*\n +https:\/\/(localhost:8443)\/join/.exec(server.stderr()) ?? []
        assert.ok(near, server.stderr())
        const [path = ''] = /(?<=localhost:8443)\/join\?link=\S+/.exec(server.stderr()) ?? []
        const page = await throughTunnel(Number(port), path, { host: near })
        const [, proof = ''] = /name="proof" value="([^"]+)"/.exec(page.text) ?? []
        const headers = { host: near, origin: `https://${near}`, cookie: page.cookie }
        const link = new URLSearchParams(path.slice(path.indexOf('?'))).get('link')!
        const form = new URLSearchParams({ action: 'password', proof, link, password: 'correct horse battery' })
        const joined = await throughTunnel(Number(port), '/join', headers, form)
        assert.deepEqual([page.status, joined.status], [200, 303], joined.text)
      }),
    )
    assert.match(line!['sign_in'] as string, /^https:\/\/mx\.first\.test\/join\?link=/)
    const text = readFileSync(env['POSTRIDER_CONFIG']!, 'utf8')
    assert.match(text, /^accept_terms = true$/m)
    assert.match(text, /^email = "me@first\.test"$/m)
  })

  test('a failed setup leaves the configuration unchanged', async () => {
    const env = given('full')
    const { POSTRIDER_CONFIG: file = '', POSTRIDER_DATA_DIR: dir = '' } = env
    const terminal = standardTerminal(true)
    const invocation = { terminal, environment: env, verbose: false, configFile: undefined }
    const first = new FirstStartByEnvironment(invocation, loadConfig(undefined, env))
    const { keyring, store } = openInstance(dir)
    first.prepare(store)
    // As on a full disk: writes fail.
    store.close()
    const deps = { store, keyring, clock: systemClock, log: silentLog, config: loadConfig(undefined, env), bells: {} }
    await assert.rejects(first.setUp(deps as unknown as AppDeps))
    assert.equal(existsSync(file), false)
  })

  test('a server without a user or a fully qualified host name logs how to set it up', async () => {
    const env = given('nobody', { POSTRIDER_INIT_DOMAIN: '', POSTRIDER_INIT_EMAIL: '' })
    delete env['POSTRIDER_CONFIG']
    const warned = async (more: Record<string, string>): Promise<Line[]> =>
      (await served({ ...env, ...more }, () => {}, false)).filter(({ event }) => event === 'setup_incomplete')
    const commands = new Commands(folder)
    try {
      const [nobody] = await warned({})
      assert.equal(nobody?.['level'], 'warn')
      assert.match(nobody?.['reason'] as string, /no user and no domain/)
      assert.match(nobody?.['fix'] as string, /postrider init/)
      await commands.run(['user', 'add', 'me@first.test'], { env })
      assert.deepEqual(await warned({}), [])
      const [nameless] = await warned({ POSTRIDER_HOSTNAME: 'vm' })
      assert.match(nameless?.['reason'] as string, /"vm"/)
      assert.match(nameless?.['fix'] as string, /POSTRIDER_HOSTNAME/)
    } finally {
      await commands.close()
    }
  })

  test('in the image the event does not repeat the text that follows it (D195)', async () => {
    const env = given('image')
    const said: string[] = []
    const terminal = { ...standardTerminal(false), interactive: false, err: (line: string) => void said.push(line) }
    const config = loadConfig(undefined, env)
    const first = new FirstStartByEnvironment(
      { terminal, environment: env, verbose: false, configFile: undefined },
      config,
      true,
    )
    const { keyring, store } = openInstance(env['POSTRIDER_DATA_DIR']!)
    const log = createLog({ clock: systemClock, level: 'info', form: 'json', write: (line) => void said.push(line) })
    const resolver = createResolver({ servers: config.dns.servers })
    const deps = { store, keyring, clock: systemClock, log, config, resolver, bells: { domains: () => {} } }
    first.prepare(store)
    await first.setUp(deps as unknown as AppDeps)
    const http = { host: '127.0.0.1', port: 8025 }
    await first.tell({ deps: deps as unknown as Appliance['deps'], http, https: [] }, log)
    store.close()
    const [line = '', told = '', ...more] = said
    assert.deepEqual(more, [])
    assert.deepEqual(Object.keys(linesOf(line)[0]!).sort(), [
      'domain',
      'event',
      'hostname',
      'level',
      'message',
      'time',
      'user',
    ])
    assert.match(told, /_domainkey\.first\.test/)
    assert.match(told, /join\?link=/)
  })

  for (const [what, more, words] of [
    ['no email', { POSTRIDER_INIT_EMAIL: '' }, /^POSTRIDER_INIT_EMAIL is missing/],
    ['no domain', { POSTRIDER_INIT_DOMAIN: '' }, /^POSTRIDER_INIT_DOMAIN is missing/],
    ['a domain that is none', { POSTRIDER_INIT_DOMAIN: 'com' }, /^POSTRIDER_INIT_DOMAIN "com" is not a domain name/],
    ['an email that is none', { POSTRIDER_INIT_EMAIL: 'you' }, /^POSTRIDER_INIT_EMAIL "you" is not an email address/],
    [
      'a hostname without a dot',
      { POSTRIDER_HOSTNAME: 'box' },
      /^POSTRIDER_HOSTNAME "box" is not a fully qualified host name/,
    ],
  ] as const)
    test(`rejects ${what} with a sentence before it writes data`, async () => {
      const env = given('refused', more)
      const commands = new Commands(folder)
      try {
        assert.match(sentenceOf(await commands.run(['--json', 'serve'], { env })), words)
        assert.equal(existsSync(env['POSTRIDER_CONFIG']!), false)
        assert.deepEqual(readdirSync(env['POSTRIDER_DATA_DIR']!), [])
      } finally {
        await commands.close()
      }
    })

  test('the link contains the port of the HTTP listener', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await once(holder, 'listening')
    const { port } = holder.address() as AddressInfo
    await new Promise((resolve) => holder.close(resolve))
    let text = ''
    const lines = await served(given('port', { POSTRIDER_HTTP_LISTEN: `127.0.0.1:${port}` }), (server) => {
      text = server.stderr()
    })
    const link = setUpIn(lines)[0]!['sign_in'] as string
    assert.ok(link.startsWith(`http://127.0.0.1:${port}/join?link=`), link)
    assert.ok(text.includes(`ssh -L ${port}:127.0.0.1:${port} SERVER`), text)
  })

  test('a named configuration file can be missing only at the first start, and its directory must exist', async () => {
    const commands = new Commands(folder)
    const refused = async (env: Record<string, string>): Promise<string> =>
      sentenceOf(await commands.run(['--json', 'serve'], { env }))
    try {
      const nowhere = join(folder, 'nowhere', 'postrider.toml')
      const fresh = given('named', { POSTRIDER_CONFIG: nowhere })
      assert.equal(
        await refused(fresh),
        `The configuration file ${nowhere} cannot be created because ${join(folder, 'nowhere')} does not exist; create it or choose another path.`,
      )
      assert.deepEqual(
        [existsSync(join(folder, 'nowhere')), existsSync(join(folder, 'named', 'postrider.db'))],
        [false, false],
      )
      const env = given('named')
      await served(env)
      // After the setup, a missing file is an error.
      rmSync(env['POSTRIDER_CONFIG']!)
      assert.match(await refused(env), /named\/postrider\.toml cannot be read \(ENOENT\)/)
      assert.equal(existsSync(env['POSTRIDER_CONFIG']!), false)
    } finally {
      await commands.close()
    }
  })

  test('a server does not start with an unknown POSTRIDER_* variable', async () => {
    const commands = new Commands(folder)
    try {
      const env = given('typed', { POSTRIDER_HOST_NAME: 'mx.first.test' })
      assert.match(
        sentenceOf(await commands.run(['--json', 'serve'], { env })),
        /POSTRIDER_HOST_NAME.*POSTRIDER_HOSTNAME/,
      )
    } finally {
      await commands.close()
    }
  })
})
