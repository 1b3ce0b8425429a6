// The filter of packaging/fail2ban with Debian's fail2ban-regex on the log of a started server: each failure counts
// once, for its source address, and untrusted input in the log never counts for another address.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { connect as secure } from 'node:tls'
import { startTestExchanger, type TestExchanger } from '../kit/exchanger.ts'
import { startTestDns, type TestDns } from '../kit/zone.ts'
import { withPrograms } from './rig/need.ts'
import { startPostrider, type RunningPostrider } from './rig/postrider.ts'
import { until } from './rig/sandbox.ts'

const UNPACKED = process.env['POSTRIDER_FAIL2BAN'] ?? '/var/tmp/postrider-fail2ban'
const PROGRAM = join(UNPACKED, 'usr/bin/fail2ban-regex')
const FILTER = join(import.meta.dirname, '../../packaging/fail2ban/postrider.conf')

/** Nobody at this address is to be banned. */
const VICTIM = '198.51.100.77'
const FORGED = `{"event":"authentication_failed","message":"A password, code or token is wrong","service":"api","address":"${VICTIM}","level":"warn"}`
const HOSTILE = [
  `ann\n${FORGED}`,
  `ann\r\n<4>${FORGED}`,
  FORGED,
  `","address":"${VICTIM}"`,
  `mx postrider[1]: ${FORGED}`,
]

/** Asks over HTTP from an address of loopback; resolves with the status and the text. */
function ask(
  from: string,
  url: string,
  { body, headers = {} }: { body?: string; headers?: Record<string, string> } = {},
): Promise<{ status: number; text: string; cookie: string }> {
  const { promise, reject, resolve } = Promise.withResolvers<{ status: number; text: string; cookie: string }>()
  const method = body === undefined ? 'GET' : 'POST'
  const sent = request(url, { localAddress: from, method, headers }, (answer) => {
    let text = ''
    answer.setEncoding('utf8').on('data', (part: string) => (text += part))
    answer.on('end', () =>
      resolve({
        status: answer.statusCode ?? 0,
        text,
        cookie: (answer.headers['set-cookie'] ?? []).map((each) => each.split(';')[0]).join('; '),
      }),
    )
  })
  sent.on('error', reject).end(body)
  return promise
}

/** A sign-in with a wrong password, as a browser sends it. */
async function signIn(from: string, http: string, email: string): Promise<void> {
  const page = await ask(from, `${http}/sign-in`)
  const [, proof = ''] = /name="proof" value="([^"]+)"/.exec(page.text) ?? []
  const { text } = await ask(from, `${http}/sign-in`, {
    body: new URLSearchParams({ proof, email, password: 'wrong' }).toString(),
    headers: {
      'Content-Type': 'application/x-www-form-urlencoded',
      Cookie: page.cookie,
      Origin: http,
    },
  })
  assert.match(text, /The email address or password is wrong/)
}

/** AUTH PLAIN with a wrong password; the code of the answer. */
async function submit(from: string, port: number, user: string): Promise<string> {
  const plain = connect({ host: '127.0.0.1', port, localAddress: from })
  const socket = secure({ socket: plain, rejectUnauthorized: false })
  const lines = createInterface(socket)[Symbol.asyncIterator]()
  const reply = async (): Promise<string> => {
    for (;;) {
      const { done, value } = await lines.next()
      assert.ok(!done, 'the server hung up')
      if (/^\d{3} /.test(value)) return value
    }
  }
  await reply()
  socket.write(`EHLO [${from}]\r\n`)
  await reply()
  socket.write(`AUTH PLAIN ${Buffer.from(`\0${user}\0wrong`).toString('base64')}\r\n`)
  const code = (await reply()).slice(0, 3)
  socket.destroy()
  return code
}

/** How often each address failed. */
const EXPECTED = {
  '127.0.0.2': 3,
  '127.0.0.3': 2,
  '127.0.0.4': 2,
  '127.0.0.6': HOSTILE.filter((text) => !/[\r\n]/.test(text)).length,
  '127.0.0.7': HOSTILE.length,
  '127.0.0.8': 1,
}

withPrograms('fail2ban', existsSync(PROGRAM) ? [] : ['fail2ban-regex'], () => {
  const folder = mkdtempSync(join(tmpdir(), 'postrider-fail2ban-'))
  let dns: TestDns
  let exchanger: TestExchanger
  let postrider: RunningPostrider
  let lines: string[]

  before(async () => {
    dns = await startTestDns()
    exchanger = await startTestExchanger()
    dns.set('there.example', 'MX', ['10 mx.there.example'])
    dns.set('mx.there.example', 'A', ['127.0.0.1'])
    postrider = await startPostrider({
      dns,
      hostname: 'mx.postrider.example',
      deliveryPort: exchanger.port,
      more: '[submission]\ntls_listen = ["127.0.0.1:0"]',
    })
    const [, http = ''] = /"http":"([^"]+)"/.exec(postrider.log()) ?? []
    const url = `http://${http}`
    const port = postrider.ports.submissions[0]!
    const wrong = { Authorization: `Bearer wrong` }
    for (let count = 0; count < 3; count++) await ask('127.0.0.2', `${url}/api/v1/domains`, { headers: wrong })
    for (let count = 0; count < 2; count++) assert.equal(await submit('127.0.0.3', port, 'ann'), '535')
    for (let count = 0; count < 2; count++) await signIn('127.0.0.4', url, 'ann@owner.example')
    // What strangers write, each from the same address.
    for (const text of HOSTILE) {
      // A name with a line end in it is not a name: nothing was tried.
      assert.equal(await submit('127.0.0.6', port, text), /[\r\n]/.test(text) ? '501' : '535')
      const forged = { 'X-Forwarded-For': VICTIM, Forwarded: `for=${VICTIM}`, 'X-Real-IP': VICTIM }
      await ask('127.0.0.7', `${url}/api/v1/domains?x=${encodeURIComponent(text)}`, {
        headers: {
          ...forged,
          Authorization: `Bearer ${encodeURIComponent(text)}`,
          'User-Agent': text.split(/[\r\n]/)[0]!,
        },
      })
    }
    await signIn('127.0.0.8', url, HOSTILE[0]!)
    // What a foreign server says stands in the log, too.
    exchanger.script = { answer: (line) => (line.startsWith('RCPT') ? `550 5.1.1 ${FORGED}` : undefined) }
    await postrider.sendingDomain('shop.example')
    const to = { from: 'ann@shop.example', to: 'ben@there.example', subject: FORGED, html: '<p>Hello</p>' }
    const { id } = await postrider.post(to)
    await postrider.settled(id, ({ status }) => status === 'bounced')
    const counts = Object.values(EXPECTED).reduce((sum, count) => sum + count, 0)
    await until(
      () =>
        postrider.log().split('{"event":"authentication_failed"').length > counts &&
        postrider.log().includes('"event":"delivery_attempted"'),
      10_000,
      () => postrider.log(),
    )
    lines = postrider.log().trim().split('\n')
  })
  after(async () => {
    await postrider.stop()
    await exchanger.close()
    await dns.close()
    rmSync(folder, { recursive: true, force: true })
  })

  /** How often fail2ban counts each address. */
  function counted(log: readonly string[]): Record<string, number> {
    const file = join(folder, 'log')
    writeFileSync(file, `${log.join('\n')}\n`)
    const said = execFileSync('python3', [PROGRAM, '--out', 'ip', file, FILTER], {
      encoding: 'utf8',
      env: { PATH: process.env['PATH'], PYTHONPATH: join(UNPACKED, 'usr/lib/python3/dist-packages') },
    })
    const addresses = said.split('\n').filter((line) => line !== '')
    return Object.fromEntries([...Map.groupBy(addresses, (one) => one)].map(([one, all]) => [one, all.length]))
  }

  test('counts each failure once, for its source address, in the format of the log', () => {
    assert.ok(lines.some((line) => line.startsWith('{"event":"delivery_attempted"') && line.includes(VICTIM)))
    assert.deepEqual(counted(lines), EXPECTED)
  })

  test('counts the same failures in a syslog file', () => {
    assert.deepEqual(counted(lines.map((line) => `Nov 26 05:00:00 mx postrider[4711]: <4>${line}`)), EXPECTED)
  })
})
