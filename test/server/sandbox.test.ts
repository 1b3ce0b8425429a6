// The ports of the sandbox: default ports that are in use are replaced, and each port is bound once.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import { createLog, silentLog } from '../../src/base/log.ts'
import { portOf } from '../../src/base/network.ts'
import { openEach } from '../../src/server/ipv4-ipv6.ts'
import { startSandbox, type Sandbox } from '../../src/server/sandbox/start.ts'
import { raw } from '../../src/store/query.ts'
import { parse } from '../kit/page.ts'
import { until } from '../kit/until.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { Person } from '../kit/person.ts'

const folder = temporaryDirectory('sandboxes')

test('two sandboxes that start at the same moment next to a used port both run, each on free ports', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  await once(taken, 'listening')
  const from = { host: '127.0.0.1', port: portOf(taken), next: true }
  const started = await Promise.allSettled(
    ['one', 'two'].map((name) =>
      startSandbox({
        http: from,
        smtp: from,
        submission: from,
        submissions: from,
        dataDir: join(folder, name),
        clock: systemClock,
        log: silentLog,
      }),
    ),
  )
  const sandboxes = started.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
  try {
    assert.deepEqual(
      started.map((each) => (each.status === 'rejected' ? String(each.reason) : '')),
      ['', ''],
    )
    const ports = sandboxes.flatMap(({ appliance, smtpPort, submissionPort, submissionsPort }: Sandbox) => [
      appliance.http.port,
      smtpPort,
      submissionPort,
      submissionsPort,
    ])
    assert.equal(new Set(ports).size, 8, `${ports.join()}`)
    for (const port of ports) assert.ok(port > from.port && port <= from.port + 100, `${from.port}: ${port}`)
    for (const { url, token } of sandboxes) {
      const answer = await fetch(`${url}/api/v1/domains`, { headers: { authorization: `Bearer ${token}` } })
      assert.equal(answer.status, 200)
    }
    for (const { form } of sandboxes) {
      const page = await fetch(form!)
      assert.equal(page.status, 200)
      assert.match(await page.text(), /<h1>Sandbox News<\/h1>/)
    }
  } finally {
    for (const sandbox of sandboxes) await sandbox.stop()
    taken.close()
  }
})

test('confirm@ presses the button of its confirmation email, and another address does not (AU113)', async () => {
  const any = { host: '127.0.0.1', port: 0 }
  const clock = systemClock
  const sandbox = await startSandbox({ http: any, smtp: any, dataDir: join(folder, 'confirm'), clock, log: silentLog })
  try {
    const post = (fields: Record<string, string>) =>
      fetch(sandbox.form!, { method: 'POST', body: new URLSearchParams(fields) })
    for (const email of ['other@friend.example', 'confirm+1@friend.example']) {
      const [check] = parse(await (await post({ email })).text())
      assert.match(await (await post(check!.hidden)).text(), /Check your inbox/)
    }
    const { store } = sandbox.appliance.deps
    const status = (email: string) =>
      store.first(raw<{ status: string }>('select status from contacts where email = ?', [email]))?.status
    await until(() => status('confirm+1@friend.example') === 'subscribed', 'the confirmation')
    assert.equal(status('other@friend.example'), 'pending')
  } finally {
    await sandbox.stop()
  }
})

test('the sandbox logs a new sign-in link when a user requests one on the sign-in page', async () => {
  const lines: string[] = []
  const any = { host: '127.0.0.1', port: 0 }
  const log = createLog({ clock: systemClock, level: 'info', form: 'json', write: (line) => lines.push(line) })
  const sandbox = await startSandbox({ http: any, smtp: any, dataDir: join(folder, 'link'), clock: systemClock, log })
  try {
    const ann = new Person(sandbox.url)
    const page = await ann.press(await ann.open('/sign-in'), 'link', { email: sandbox.user })
    assert.match(page.text, /the sandbox logged a new sign-in link/)
    const line = lines.find((each) => each.includes('"sandbox_sign_in_link"'))
    const { url } = JSON.parse(line!) as { url: string }
    const entered = await ann.press(await ann.open(url), 'use-link')
    assert.equal(entered.headers.get('location'), '/')
    assert.match((await ann.open('/account')).text, /you@sandbox\.example/)
  } finally {
    await sandbox.stop()
  }
})

test('tries the next port only without the option, and only while ports are in use', async () => {
  const inUse = Object.assign(new Error('taken'), { code: 'EADDRINUSE' })
  const opened = async (next: boolean, free: number, fault = inUse): Promise<number[]> => {
    const opening = { log: silentLog, sandbox: { smtp: { option: '--smtp', next } } }
    return openEach([{ host: '127.0.0.1', port: 65_530 }], 'smtp', opening, async ({ port }) => {
      if (port < free) throw fault
      return port
    })
  }
  assert.deepEqual(await opened(true, 65_533), [65_533])
  await assert.rejects(opened(false, 65_533), /taken/)
  await assert.rejects(opened(true, 65_536), /taken/, 'there is no higher port')
  await assert.rejects(opened(true, 65_533, Object.assign(new Error('no right'), { code: 'EACCES' })), /no right/)
})
