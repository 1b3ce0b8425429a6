import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import {
  closeSync,
  existsSync,
  fstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import { createConnection, createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { temporaryDirectory } from '../kit/directory.ts'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { until } from '../kit/until.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { Commands, start, type Running } from '../commands/command.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))
const folder = temporaryDirectory('serve')

interface Line extends Record<string, unknown> {
  event: string
}
const linesOf = (text: string): Line[] =>
  text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line) as Line)

// In sequence, because the tests share a server and the last one stops it.
describe('serve', () => {
  const config = join(folder, 'serve.toml')
  const commands = new Commands(folder, ['--config', config])
  let dns: TestDns
  let exchanger: TestExchanger
  let server: Running
  let http: string
  let token: { id: string; token: string }

  const configure = (publicUrl: string): void =>
    writeFileSync(
      config,
      `hostname = "mx.here.test"
       data_dir = ${JSON.stringify(join(folder, 'data'))}
       [http]
       listen = "127.0.0.1:0"
       public_url = ${JSON.stringify(publicUrl)}
       [smtp]
       listen = ["127.0.0.1:0"]
       [dns]
       servers = ["127.0.0.1:${dns.port}"]
       [delivery]
       port = ${exchanger.port}
       [network]
       allow_private = ["127.0.0.0/8"]
       [api]
       rate_limit = 0`,
    )
  const get = (path: string): Promise<Response> =>
    fetch(`http://${http}${path}`, { headers: { authorization: `Bearer ${token.token}` } })

  before(async () => {
    dns = await startTestDns()
    dns.set('mx.here.test', 'A', ['127.0.0.1'])
    exchanger = await startTestExchanger({ tls: true })
    for (const name of ['there', 'stuck']) {
      dns.set(`${name}.test`, 'MX', [`10 mx.${name}.test`])
      dns.set(`mx.${name}.test`, 'A', ['127.0.0.1'])
    }
    configure('http://127.0.0.1:8025')
    server = start(['--config', config, 'serve'], folder)
    await server.said(/"event":"server_ready".*\n/)
    // The server marks the configuration after this line if it is set up by then.
    await server.said(/"event":"setup_incomplete".*\n/)
  })
  after(async () => {
    server.child.kill('SIGKILL')
    await commands.close()
    await exchanger.close()
    await dns.close()
  })

  test('reports when it is ready, with its addresses and its process', () => {
    const ready = linesOf(server.stdout()).find(({ event }) => event === 'server_ready')!
    assert.match(ready['http'] as string, /^127\.0\.0\.1:[1-9]\d*$/)
    assert.ok(Array.isArray(ready['smtp']))
    assert.equal(ready['pid'], server.pid)
    http = ready['http'] as string
    assert.equal(server.stderr(), '')
  })

  test('accepts a token that a command creates, and rejects it after its revocation, on the next request', async () => {
    await commands.json('user', 'add', 'ann@owner.test')
    const create = [
      'token',
      'create',
      '--user',
      'ann@owner.test',
      '--name',
      'n',
      '--scopes',
      'all',
      '--duration',
      '1_month',
    ]
    token = await commands.json(...create)
    assert.equal((await get('/api/v1/domains')).status, 200)
    await commands.json('token', 'revoke', token.id)
    assert.equal((await get('/api/v1/domains')).status, 401)
    token = await commands.json(...create)
    assert.equal((await get('/api/v1/domains')).status, 200)
  })

  test('verifies a domain that a command adds', async () => {
    await commands.json('domain', 'add', 'here.test', '--user', 'ann@owner.test')
    const { zone } = await commands.json<{ zone: string }>('domain', 'records', 'here.test')
    for (const [, name, type, data] of zone.matchAll(/^(\S+)\. \d+ IN (\S+) (.+)$/gm))
      dns.set(name!, type!, [type === 'TXT' ? data!.replace(/" "|^"|"$/g, '') : data!.replace(/\.$/, '')])
    // The rotation requests a check, which only the server performs.
    await commands.json('domain', 'rotate-dkim', 'here.test')
    await until(async () => {
      const { data } = (await (await get('/api/v1/domains')).json()) as { data: { attributes: { status: string } }[] }
      return data[0]?.attributes.status === 'active'
    }, 'verification by the server')
  })

  test('delivers email that a command sends', async () => {
    const mail = await commands.json('send', '--from', 'a@here.test', '--to', 'b@there.test', '--subject', 'Beside')
    assert.equal(mail.status, 'delivered')
    assert.match(mail.recipients[0].dialogue, /EHLO mx\.here\.test/)
    assert.match(exchanger.heard.at(-1)!.message, /^Subject: Beside/m)
  })

  test('rejects a second server for its data directory', async () => {
    const said = await commands.fails('serve')
    assert.ok(said.includes(join(folder, 'data')), said)
    assert.equal((await get('/health')).status, 200)
  })

  test('reports a port in use with one sentence, and releases its lock and ports', async () => {
    const env = { POSTRIDER_HTTP_LISTEN: http, POSTRIDER_DATA_DIR: join(folder, 'other-data') }
    for (let round = 0; round < 2; round++) {
      const { code, stdout, stderr } = await commands.run(['serve'], { env })
      assert.equal(code, 1)
      assert.match(stderr, /^postrider: [^\n]*\.\n$/)
      assert.deepEqual(
        linesOf(stdout).map(({ event, level, error }) => ({ event, level, error })),
        [{ event: 'server_stopped', level: 'error', error: stderr.slice('postrider: '.length, -1) }],
      )
      assert.ok(stderr.includes(http) && stderr.includes('http.listen'), stderr)
    }
  })

  test('logs the reason of a failed start as an error in the journal, as an event and as a sentence', async () => {
    const wrong = join(folder, 'wrong.toml')
    writeFileSync(wrong, 'no_such_key = 1\n')
    const junk = join(folder, 'junk.pem')
    writeFileSync(junk, 'no certificate')
    const dataDir = join(folder, 'journal-data')
    const env = { POSTRIDER_HTTP_LISTEN: '127.0.0.1:0', POSTRIDER_DATA_DIR: dataDir }
    for (const [what, file, more, about] of [
      ['a port in use', config, { POSTRIDER_HTTP_LISTEN: http }, /http\.listen/],
      ['a wrong configuration', wrong, {}, /no_such_key/],
      ['a lock that is held', config, { POSTRIDER_DATA_DIR: join(folder, 'data') }, /already uses/],
      [
        'a certificate of no use',
        config,
        { POSTRIDER_SMTP_TLS_CERT: junk, POSTRIDER_SMTP_TLS_KEY: junk },
        /smtp\.tls_cert/,
      ],
    ] as const) {
      const journal = join(folder, 'journal')
      const output = openSync(journal, 'w')
      const { dev, ino } = fstatSync(output)
      const { status } = spawnSync(process.execPath, [PROGRAM, '--config', file, 'serve'], {
        cwd: folder,
        env: { PATH: process.env['PATH'], JOURNAL_STREAM: `${dev}:${ino}`, ...env, ...more },
        stdio: ['ignore', output, output],
      })
      closeSync(output)
      const text = readFileSync(journal, 'utf8')
      assert.equal(status, 1, what)
      const errors = text.split('\n').filter((line) => line.startsWith('<3>'))
      const stopped = errors.filter((line) => line.startsWith('<3>{"event":"server_stopped"'))
      assert.equal(stopped.length, 1, text)
      const { error } = JSON.parse(stopped[0]!.slice(3)) as { error: string }
      assert.match(error, about)
      assert.equal(errors.at(-1), `<3>postrider: ${error}`, what)
      assert.doesNotMatch(text, /^(?!<[3-7]>)./m, what)
    }
  })

  test('exits with 1 and one sentence if a start fails late', async () => {
    const taken = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => taken.once('listening', resolve))
    const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`
    const env = {
      POSTRIDER_HTTP_LISTEN: '127.0.0.1:0',
      POSTRIDER_SMTP_LISTEN: address,
      POSTRIDER_DATA_DIR: join(folder, 'late-data'),
    }
    const late = start(['--config', config, 'serve'], folder, env)
    try {
      assert.equal(await late.ended, 1)
      assert.match(late.stderr(), /^postrider: [^\n]*\.\n$/)
      assert.ok(late.stderr().includes(address), late.stderr())
    } finally {
      late.child.kill('SIGKILL')
      taken.close()
    }
  })

  test('reads the configuration again at SIGHUP, and reports and ignores a wrong one', async () => {
    const self = async (): Promise<string> => {
      const { links } = (await (await get('/api/v1/domains')).json()) as { links: { first: string } }
      return new URL(links.first).origin
    }
    assert.equal(await self(), 'http://127.0.0.1:8025')
    configure('https://mail.example.org')
    server.child.kill('SIGHUP')
    await until(async () => (await self()) === 'https://mail.example.org', 'the new public_url')

    configure('https://mail.example.org')
    writeFileSync(config, readFileSync(config, 'utf8').replace('rate_limit = 0', 'rate_limit = 21'))
    server.child.kill('SIGHUP')
    await server.said(/"event":"configuration_reloaded"[^\n]*"restart_needed":\["api\.rate_limit"\]/)
    assert.match((await commands.run(['health'])).stdout, /^ok \(restart needed for api\.rate_limit\)\n$/)

    writeFileSync(config, '[http]\npublic_url = 5\n')
    const already = server.stdout().length
    server.child.kill('SIGHUP')
    const [line] = await server.said(new RegExp(`(?<=[\\s\\S]{${already}})\\{.*serve\\.toml.*\\n`))
    const told = JSON.parse(line) as Line
    assert.equal(told['level'], 'error')
    assert.ok(String(told['error']).startsWith(`${config}:2: "http.public_url" `), line)
    assert.equal(await self(), 'https://mail.example.org')
    configure('https://mail.example.org')
  })

  test('logs only JSON lines, each with event, level and time', () => {
    for (const line of linesOf(server.stdout())) {
      assert.equal(typeof line.event, 'string')
      assert.match(String(line['level']), /^(debug|info|warn|error)$/)
      assert.match(String(line['time']), /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    }
    assert.ok(!server.stdout().includes(token.token))
  })

  test('exits with 0 within 10 s of SIGTERM and releases email in progress', async () => {
    // An MX host that never replies after the final dot, and a client that keeps its connection open.
    exchanger.script = { tls: true, final: () => '' }
    const idle = createConnection(Number(http.split(':')[1]), '127.0.0.1').on('error', () => {})
    const posted = await fetch(`http://${http}/api/v1/outbound-emails`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token.token}`, 'content-type': 'application/vnd.api+json' },
      body: JSON.stringify({
        data: {
          type: 'outbound-emails',
          attributes: { from: 'a@here.test', to: 'c@stuck.test', subject: 'Stuck', html: '<p>x</p>' },
        },
      }),
    })
    assert.equal(posted.status, 201)
    const { data } = (await posted.json()) as { data: { id: string } }
    await until(() => exchanger.heard.some(({ message }) => /^Subject: Stuck/m.test(message)), 'the final dot')
    // Neither the MX host nor the client sends anything.
    server.child.kill('SIGTERM')
    assert.equal(await server.ended, 0, server.stderr())
    assert.equal(server.stderr(), '')
    idle.destroy()
    const { recipients } = await commands.json('queue', 'show', data.id)
    assert.equal(recipients[0].status, 'queued')
    assert.ok(recipients[0].next_attempt_at)
    assert.deepEqual(
      readdirSync(join(folder, 'data')).filter((name) => /-(wal|journal)$/.test(name)),
      [],
      'the database was not closed',
    )
  })
})

describe('dev', () => {
  const temporary = join(folder, 'tmp')
  let sandbox: Running
  let shown: Record<string, string>

  before(async () => {
    // A directory for temporary files shows leftovers.
    mkdirSync(temporary)
    const ports = ['--http', '0', '--smtp', '127.0.0.1:0', '--submission', '0', '--submissions', '0']
    sandbox = start(['dev', '--json', ...ports], folder, { TMPDIR: temporary })
    shown = JSON.parse((await sandbox.said(/^\{.*\}\n/))[0]) as Record<string, string>
  })
  after(() => void sandbox.child.kill('SIGKILL'))

  test('prints one document with everything for a first email', () => {
    assert.match(shown['url']!, /^http:\/\/localhost:[1-9]\d*$/)
    assert.match(shown['token']!, /^pr_/)
    for (const key of ['user', 'domain', 'api', 'curl']) assert.ok(shown[key], key)
    assert.ok(existsSync(shown['data_dir']!))
  })

  test('the printed curl line sends an email that arrives with a valid signature', async (t) => {
    try {
      const { stdout } = await promisify(execFile)('sh', ['-c', `${shown['curl']!} --noproxy '*'`])
      const { data } = JSON.parse(stdout) as { data: { attributes: { status: string } } }
      assert.equal(data.attributes.status, 'queued')
    } catch (thrown) {
      if ((thrown as { code?: number }).code === 127) return t.skip('curl is not installed')
      throw thrown
    }
    const [line] = await sandbox.said(/\{.*"event":"sandbox_message_received".*\}\n/, 'stderr')
    assert.match(line, /"dkim":"pass"/)
    assert.match(line, /"to":"reply@friend\.example"/)
  })

  test('has real records and resources', async () => {
    const answer = await fetch(`${shown['api']!}/domains`, { headers: { authorization: `Bearer ${shown['token']!}` } })
    const { data } = (await answer.json()) as { data: { attributes: Record<string, unknown> }[] }
    assert.partialDeepStrictEqual(data, [{ attributes: { name: shown['domain'], status: 'active' } }])
  })

  test('fails only if a configured port is in use, and names its option', async () => {
    const commands = new Commands(folder)
    const taken = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => taken.once('listening', resolve))
    const address = `127.0.0.1:${(taken.address() as AddressInfo).port}`
    try {
      const options = ['--http', '--smtp', '--submission', '--submissions']
      for (const option of options) {
        const argv = options.flatMap((each) => [each, each === option ? address : '127.0.0.1:0'])
        const said = await commands.fails('dev', ...argv)
        assert.ok(said.includes(address) && said.endsWith(`or change "${option}" to another address or port.`), said)
      }
    } finally {
      taken.close()
      await commands.close()
    }
  })

  test('exits with 0 at SIGTERM and removes its files', async () => {
    sandbox.child.kill('SIGTERM')
    assert.equal(await sandbox.ended, 0, sandbox.stderr())
    assert.equal(sandbox.stdout().trim().split('\n').length, 1)
    assert.deepEqual(readdirSync(temporary), [])
  })
})
