// The unsubscribe page in a real browser: headless Chromium, driven by chromedriver over WebDriver (W3C), reads it, reaches its button by
// keyboard, clicks it and comes back. With POSTRIDER_SHOTS set to a folder it leaves pictures of every page in light, dark and on a phone.
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe-token.ts'
import { raw } from '../../src/store/query.ts'
import type { Domain } from '../../src/domains/register.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { until } from '../kit/until.ts'
import { withPrograms } from './rig/need.ts'

const SHOTS = process.env['POSTRIDER_SHOTS']
const NAME = 'element-6066-11e4-a52e-4f735466cecf'
const absent = ['chromium', 'chromedriver'].filter((name) => !existsSync(`/usr/bin/${name}`))

withPrograms('the unsubscribe page in Chromium', absent, () => {
  const profile = mkdtempSync(join(tmpdir(), 'postrider-chromium-'))
  let postrider: TestAppliance
  let domain: Domain
  let driver: ChildProcess
  let base = ''
  let session = ''
  const kit = campaignKit(() => postrider)

  // oxlint-disable-next-line typescript/no-explicit-any
  async function ask(method: string, path: string, body?: unknown): Promise<any> {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
    const { value } = (await (await fetch(`${base}${path}`, init)).json()) as { value: { error?: string } | null }
    assert.equal(value?.error, undefined, JSON.stringify(value))
    return value
  }
  const run = (script: string, ...args: unknown[]) => ask('POST', `${session}/execute/sync`, { script, args })
  const cdp = (cmd: string, params: unknown) => ask('POST', `${session}/goog/cdp/execute`, { cmd, params })
  const find = async (value: string): Promise<string> =>
    (await ask('POST', `${session}/element`, { using: 'css selector', value }))[NAME]
  /** Waits for a page's heading: a click does not wait for the page it leads to. */
  const headed = (text: string) =>
    until(async () => (await run('return document.querySelector("h1")?.textContent')) === text, text)
  const open = (url: string) => ask('POST', `${session}/url`, { url })

  before(async () => {
    postrider = await startTestAppliance()
    domain = await postrider.activeDomain('here.test')
    driver = spawn('/usr/bin/chromedriver', ['--port=0'], { stdio: ['ignore', 'pipe', 'ignore'] })
    base = await new Promise<string>((resolve, reject) => {
      let said = ''
      driver.on('exit', () => reject(new Error(`chromedriver ended: ${said}`)))
      driver.stdout!.on('data', (chunk: Buffer) => {
        said += chunk.toString()
        const [, port] = /started successfully on port (\d+)/.exec(said) ?? []
        if (port) resolve(`http://127.0.0.1:${port}`)
      })
    })
    const args = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking']
    const options = { binary: '/usr/bin/chromium', args: [...args, `--user-data-dir=${profile}`] }
    const capabilities = { alwaysMatch: { browserName: 'chrome', 'goog:chromeOptions': options } }
    session = `/session/${(await ask('POST', '/session', { capabilities })).sessionId}`
  })
  after(async () => {
    if (session) await ask('DELETE', session)
    driver.kill()
    await postrider.stop()
    rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
  })

  /** The link of a contact of a new audience. */
  async function link(email: string, name: string): Promise<string> {
    await kit.fill(await kit.audience(domain, name), [email])
    const { http, desk } = postrider.appliance
    const leaving = { delivery: 0, domain: domain.key, audience: 0, email }
    const audience = desk.store.first<{ key: number }>(raw('select max(key) as key from audiences'))!
    return unsubscribeUrl(desk.keyring, `http://${http.host}:${http.port}`, { ...leaving, audience: audience.key })
  }
  const left = async (email: string): Promise<boolean> =>
    (await postrider.api('GET', `/suppressions?filter[email]=${email}`)).body.data.length > 0

  async function look(scheme: string, width: number, name: string): Promise<void> {
    await cdp('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] })
    await cdp('Emulation.setDeviceMetricsOverride', { width, height: 720, deviceScaleFactor: 2, mobile: width < 500 })
    assert.ok(await run('return document.documentElement.scrollWidth <= innerWidth'), `${name} scrolls sideways`)
    const { height, width: wide } = await run(
      'return document.querySelector("button").getBoundingClientRect().toJSON()',
    )
    assert.ok(height >= 44 && wide >= 44, `a button of ${wide} x ${height} is small for a finger`)
    if (SHOTS)
      writeFileSync(join(SHOTS, `${name}.png`), Buffer.from(await ask('GET', `${session}/screenshot`), 'base64'))
  }

  /** Contrast of an element's text with what is behind it (WCAG 2.2 §1.4.3). */
  const contrast = (selector: string): Promise<number> =>
    run(
      `const parts = (text) => text.match(/[\\d.]+/g).map(Number)
       const light = (rgb) => rgb.slice(0, 3).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
         .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0)
       const element = document.querySelector(arguments[0])
       let behind = element
       while (parts(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement
       const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map((c) => light(parts(c)))
       return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)`,
      selector,
    )

  test('the button unsubscribes, and the one after it takes it back', async () => {
    await open(await link('ann@there.test', 'Readers'))
    await headed('Unsubscribe?')
    assert.equal(await left('ann@there.test'), false)
    await ask('POST', `${session}/element/${await find('button')}/click`, {})
    await headed('You are unsubscribed')
    assert.equal(await left('ann@there.test'), true)
    await ask('POST', `${session}/element/${await find('button')}/click`, {})
    await headed('Unsubscribe?')
    assert.equal(await left('ann@there.test'), false)
  })

  test('one press of Tab reaches the button, Enter presses it', async () => {
    await open(await link('keys@there.test', 'Readers'))
    const press = (value: string) => ({ type: 'keyDown', value })
    const type = (value: string) => [press(value), { type: 'keyUp', value }]
    await ask('POST', `${session}/actions`, { actions: [{ type: 'key', id: 'keys', actions: type('\uE004') }] })
    assert.equal(await run('return document.activeElement.textContent.trim()'), 'Unsubscribe')
    assert.notEqual(await run('return getComputedStyle(document.activeElement).outlineStyle'), 'none')
    await ask('POST', `${session}/actions`, { actions: [{ type: 'key', id: 'keys', actions: type('\uE007') }] })
    await headed('You are unsubscribed')
    assert.equal(await left('keys@there.test'), true)
  })

  test('a hostile name is text; nothing else is asked for', async () => {
    const name = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    await open(await link('hostile@there.test', name))
    assert.ok((await run('return document.querySelector("main").innerText')).includes(name))
    assert.equal(await run('return document.title'), 'Unsubscribe?')
    assert.equal(await run('return document.querySelectorAll("img, script, link, iframe").length'), 0)
    assert.equal(
      await run(
        'return performance.getEntriesByType("resource").filter((e) => !e.name.endsWith("/favicon.ico")).length',
      ),
      0,
    )
  })

  test('readable in light and dark, on a desk and on a phone', async () => {
    for (const [scheme, width] of [
      ['light', 1200],
      ['dark', 1200],
      ['light', 390],
      ['dark', 390],
    ] as const) {
      const long = `somebody.with.a.long.address+newsletters.${scheme}${width}@a-rather-long-domain-name.there.test`
      await open(await link(long, 'The Weekly Letter of the Society for the Preservation of Old Trees and Hedgerows'))
      await look(scheme, width, `asked-${scheme}-${width}`)
      for (const part of ['h1', 'p', 'strong', 'button'])
        assert.ok((await contrast(part)) >= 4.5, `${part} in ${scheme}: ${await contrast(part)}`)
      await ask('POST', `${session}/element/${await find('button')}/click`, {})
      await headed('You are unsubscribed')
      await look(scheme, width, `left-${scheme}-${width}`)
      for (const part of ['h1', 'p', '.soft', 'button.plain'])
        assert.ok((await contrast(part)) >= 4.5, `${part} in ${scheme}: ${await contrast(part)}`)
    }
    if (!SHOTS) return
    const { host, port } = postrider.appliance.http
    await open(`http://${host}:${port}/u/none`)
    writeFileSync(join(SHOTS, 'unknown.png'), Buffer.from(await ask('GET', `${session}/screenshot`), 'base64'))
  })
})
