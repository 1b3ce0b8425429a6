// `postrider health`: its result for each response, and how it finds the server.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import {
  chownSync,
  existsSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { createServer as createConnectionServer, type Server } from 'node:net'
import { join, resolve } from 'node:path'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { portOf } from '../../src/base/network.ts'
import { keepServed, servedAt } from '../../src/base/served.ts'
import { askHealth, healthUrl } from '../../src/cli/ask-health.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { chain, issue } from '../kit/authority.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

const PROGRAM = fileURLToPath(new URL('../../bin/postrider.ts', import.meta.url))

const compiled = process.env['NODE_COMPILE_CACHE']
const CACHE = compiled ? { NODE_COMPILE_CACHE: resolve(compiled) } : {}

let folder: string
setUp(() => void (folder = temporaryDirectory('health')))

/** The program in a process of its own, as a health check starts it. */
async function run(
  argv: readonly string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [PROGRAM, ...argv], {
    cwd: folder,
    env: { ...CACHE, PATH: process.env['PATH']!, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (said.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (said.err += text))
  const code = await new Promise<number | null>((resolve) => child.once('close', resolve))
  return { code, ...said }
}

describe('the result of health', () => {
  let answer: RequestListener
  const server = createServer((request, response) => answer(request, response))
  setUp(() => new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve)))
  after(() => server.close())
  const url = (): string => `http://127.0.0.1:${portOf(server)}`
  const answers = (status: number, body: unknown): void => {
    answer = ({ url: path }, response) => {
      assert.equal(path, '/health')
      response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(body))
    }
  }

  test('health exits with 0 for ok, and with 1 and the reasons for degraded and down', async () => {
    answers(200, { status: 'ok' })
    assert.deepEqual(await run(['health', '--url', url()]), { code: 0, out: 'ok\n', err: '' })
    answers(200, { status: 'ok', restart_needed: ['smtp.listen'] })
    assert.equal((await run(['health', '--url', url()])).out, 'ok (restart needed for smtp.listen)\n')
    answers(200, { status: 'degraded', reasons: ['The disk is full.', 'The \u001b[31mclock is wrong.'] })
    assert.deepEqual(await run(['health', '--url', url()]), {
      code: 1,
      out: '',
      err: 'postrider: degraded: The disk is full. The \ufffd[31mclock is wrong.\n',
    })
    answers(503, { status: 'down', reasons: ['Nothing can be promised.'] })
    const { reasons, status } = await askHealth(new URL('/health', url()))
    assert.deepEqual([status, reasons[0]], ['down', 'Nothing can be promised.'])
    assert.match(reasons[1]!, /^http.*\/health returned HTTP 503/)
  })

  test('health --json prints one document', async () => {
    answers(200, { status: 'degraded', reasons: ['x'] })
    const { code, out } = await run(['health', '--url', url(), '--json'])
    assert.deepEqual([code, JSON.parse(out)], [1, { status: 'degraded', reasons: ['x'], url: `${url()}/health` }])
  })

  test('health reports down for the response of another program: unknown statuses, other bodies, endless ones', async () => {
    for (const [status, body] of [
      [404, 'nothing'],
      [200, 'hello'],
      [200, { status: 'ok?' }],
      [200, ['ok']],
      [302, { status: 'ok' }],
    ] as const) {
      answers(status, body)
      const { reasons, status: said } = await askHealth(new URL('/health', url()))
      assert.equal(said, 'down')
      assert.match(reasons[0]!, new RegExp(`returned HTTP ${status} instead of a health report`))
    }
    // It never ends, and is not waited for.
    answer = (_, response) => void response.write('x'.repeat(70_000))
    assert.match((await askHealth(new URL('/health', url()))).reasons[0]!, /returned HTTP 200 instead/)
  })

  test('health names the reason if a port has no TLS, no HTTP or an untrusted certificate', async () => {
    const asked = async (server: Server, scheme: string): Promise<string> => {
      await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
      try {
        return (await askHealth(new URL('/health', `${scheme}://127.0.0.1:${portOf(server)}`))).reasons.join()
      } finally {
        server.close()
      }
    }
    const plain = createServer((_, response) => response.end())
    assert.match(
      await asked(plain, 'https'),
      /^the TLS handshake with https:.* failed .*"http:\/\/" for a port without TLS\.$/,
    )
    const mail = createConnectionServer((socket) => socket.on('error', () => {}).end('220 mx.here.test ESMTP\r\n'))
    assert.match(await asked(mail, 'http'), /^http:.* did not return HTTP \(HPE_/)
    const sealed = createSecureServer(chain(issue({ subject: 'mx.here.test' })), (_, response) => response.end())
    assert.match(await asked(sealed, 'https'), /^the certificate of https:.* is not trusted/)
  })

  test('health reports a closed port and a URL of another scheme', async () => {
    const refused = await run(['health', '--url', 'http://127.0.0.1:1'])
    assert.deepEqual([refused.code, refused.out], [1, ''])
    assert.match(refused.err, /^postrider: down: no response from http:\/\/127\.0\.0\.1:1\/health \(ECONNREFUSED\)/)
    for (const none of ['x', 'ftp://127.0.0.1', '127.0.0.1:1'])
      assert.equal(healthUrl(none, { configFile: undefined, environment: {} }), undefined, none)
    assert.match((await run(['health', '--url', 'x'])).err, /"x" is not a URL; use one such as/)
  })
})

describe('the address of the server for health', () => {
  const found = (environment: Record<string, string>, configFile?: string): string =>
    healthUrl(undefined, { configFile, environment })!.href

  test('health prefers serve.json in the data directory to the configuration', () => {
    const data = mkdtempSync(join(folder, 'data-'))
    const file = join(data, 'postrider.toml')
    writeFileSync(file, `data_dir = ${JSON.stringify(data)}\n[http]\nlisten = "127.0.0.1:2"\n`)
    assert.equal(found({}, file), 'http://127.0.0.1:2/health')
    assert.equal(found({ POSTRIDER_CONFIG: file }), 'http://127.0.0.1:2/health')
    const remove = keepServed(data, { host: '127.0.0.1', port: 3 })
    for (const environment of [
      { POSTRIDER_CONFIG: file },
      { POSTRIDER_CONFIG: file, POSTRIDER_HTTP_LISTEN: '[::1]:4' },
    ])
      assert.equal(found(environment), 'http://127.0.0.1:3/health')
    remove()
    assert.equal(found({ POSTRIDER_HTTP_LISTEN: '[::1]:4' }, file), 'http://[::1]:4/health')
    keepServed(data, { host: '::', port: 5 })
    assert.equal(found({ POSTRIDER_DATA_DIR: data, POSTRIDER_CONFIG: join(data, 'none') }), 'http://[::1]:5/health')
    keepServed(data, { host: '0.0.0.0', port: 6 })
    assert.equal(found({}, file), 'http://127.0.0.1:6/health')
  })

  test('health uses the default address if the configuration is missing or corrupt', () => {
    const file = join(folder, 'damaged.toml')
    writeFileSync(file, 'damaged = ')
    const environment = { POSTRIDER_DATA_DIR: join(folder, 'none') }
    for (const each of [file, join(folder, 'missing.toml')])
      assert.equal(found(environment, each), 'http://127.0.0.1:8025/health')
    assert.equal(found({ ...environment, POSTRIDER_HTTP_LISTEN: 'nonsense' }, file), 'http://127.0.0.1:8025/health')
  })

  test('health ignores a serve.json that is a link or has other content', () => {
    const data = mkdtempSync(join(folder, 'data-'))
    const file = join(data, 'serve.json')
    for (const text of ['', 'x', '[]', '{"http":5}', '{"http":"evil.example:80"}', '{"http":"127.0.0.1:99999"}']) {
      writeFileSync(file, text)
      assert.equal(servedAt(data), undefined, text)
    }
    writeFileSync(join(data, 'other'), '{"http":"127.0.0.1:7"}')
    rmSync(file)
    symlinkSync(join(data, 'other'), file)
    assert.equal(servedAt(data), undefined)
  })
})

describe('health and a running server', () => {
  const postrider = ofFile(() => startTestAppliance())

  test('the server writes serve.json for its own user only and removes it at the stop, and health reports ok and degraded', async () => {
    const file = join(postrider.dataDir, 'serve.json')
    assert.equal(statSync(file).mode & 0o777, 0o600)
    assert.deepEqual(await run(['health'], { POSTRIDER_DATA_DIR: postrider.dataDir }), {
      code: 0,
      out: 'ok\n',
      err: '',
    })
    assert.deepEqual((await postrider.commands.json('health')).status, 'ok')
    postrider.appliance.deps.troubles.report('disk', 'The disk is full.')
    const { code, stderr } = await postrider.commands.run(['health'])
    assert.deepEqual([code, stderr], [1, 'postrider: degraded: The disk is full.\n'])
    await postrider.stop()
    assert.ok(!existsSync(file))
  })
})

test('health ignores a serve.json of another user, a large one and a link', async (t) => {
  const { readSign, SIGN_FILE, writeSign } = await import('../../src/base/doubt.ts')
  const { serverNames } = await import('../../src/views/command/server-names.ts')
  const dir = mkdtempSync(join(folder, 'believed-'))
  keepServed(dir, { host: '127.0.0.1', port: 8025 })
  writeSign(dir, { seen: 1, doubted: null })
  writeFileSync(join(dir, 'server-names.json'), '{"hostname":"mx.here.test"}')
  const believed = (): unknown[] => [servedAt(dir)?.port, readSign(dir)?.seen, serverNames(dir).hostname]
  assert.deepEqual(believed(), [8025, 1, 'mx.here.test'])
  const names = ['serve.json', SIGN_FILE, 'server-names.json']
  const texts = names.map((name) => readFileSync(join(dir, name), 'utf8'))
  const put = (text: (content: string) => string): void =>
    names.forEach((name, at) => writeFileSync(join(dir, name), text(texts[at] ?? '')))
  put((content) => `${content}${' '.repeat(70_000)}`)
  assert.deepEqual(believed(), [undefined, undefined, undefined])
  put((content) => content)
  assert.deepEqual(believed(), [8025, 1, 'mx.here.test'])
  for (const name of names) {
    renameSync(join(dir, name), join(dir, `${name}.real`))
    symlinkSync(join(dir, `${name}.real`), join(dir, name))
  }
  assert.deepEqual(believed(), [undefined, undefined, undefined])
  if (process.getuid?.() !== 0) return t.skip('only root makes a file of another user')
  for (const name of names) {
    rmSync(join(dir, name))
    renameSync(join(dir, `${name}.real`), join(dir, name))
    chownSync(join(dir, name), 12_345, 12_345)
  }
  assert.deepEqual(believed(), [undefined, undefined, undefined])
  chownSync(dir, 12_345, 12_345)
  assert.deepEqual(believed(), [8025, 1, 'mx.here.test'])
})
