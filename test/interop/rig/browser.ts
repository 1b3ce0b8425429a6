// A real browser: headless Chromium, driven by chromedriver over WebDriver (W3C).
import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from '../../kit/until.ts'

/** The programs that are not installed. */
export const absent = ['chromium', 'chromedriver'].filter((name) => !existsSync(`/usr/bin/${name}`))

/** The directory for screenshots: POSTRIDER_SHOTS. */
const SHOTS = process.env['POSTRIDER_SHOTS']
const AXE = readFileSync(join(import.meta.dirname, '../../../node_modules/axe-core/axe.min.js'), 'utf8')
/** The member that names an element (WebDriver §11). */
const NAME = 'element-6066-11e4-a52e-4f735466cecf'

const EVERY_LOOK = [
  ['light', 1200],
  ['dark', 1200],
  ['light', 390],
  ['dark', 390],
] as const

/** Each colour scheme and each width occur once, because every page takes seconds. All four with POSTRIDER_LOOKS. */
export const LOOKS = EVERY_LOOK.filter(
  (_, at) => SHOTS !== undefined || process.env['POSTRIDER_LOOKS'] !== undefined || at === 0 || at === 3,
)

/** The tables that are wider than their frames. */
const CUT = `return [...document.querySelectorAll('.scroll')]
  .filter((each) => each.scrollWidth > each.clientWidth + 1).map((each) => each.getAttribute('aria-label'))`

/**
 * What is wider than the page, with the records of a domain unfolded. The width of the page is that of the layout: a
 * phone zooms out of a page that is too wide, and `innerWidth` grows with it.
 */
const WIDE = `document.querySelectorAll('.record').forEach((each) => (each.open = true))
  const { clientWidth } = document.documentElement
  return ['html', 'body', 'main'].map((each) => document.querySelector(each))
    .filter((each) => each.scrollWidth > clientWidth).map((each) => each.localName + ' ' + each.scrollWidth)`

/** Buttons with less than 4 pixels between them, but for those of one control. */
const TOUCHING = `const boxes = [...document.querySelectorAll('main :is(button, .button)')]
  .filter((each) => each.checkVisibility() && !each.closest('.segments, .toolbar, .panes, dialog, [popover], .code, .gallery'))
  .map((each) => [each.textContent.trim(), each.getBoundingClientRect()])
  return boxes.flatMap(([a, x], at) => boxes.slice(at + 1).filter(([, y]) =>
    x.left < y.right + 4 && y.left < x.right + 4 && x.top < y.bottom + 4 && y.top < x.bottom + 4)
    .map(([b]) => a + ' | ' + b))`

export type Browser = Awaited<ReturnType<typeof startBrowser>>

/** How often chromedriver is started when its port is taken. */
const STARTS = 5

/**
 * Starts chromedriver. With --port=0 it gets a free port for IPv6 and then binds the same one for IPv4, which another
 * process may have by then; it exits in that case, and is started again.
 */
async function startDriver(starts = STARTS): Promise<{ driver: ChildProcess; base: string }> {
  const driver = spawn('/usr/bin/chromedriver', ['--port=0'], { stdio: ['ignore', 'pipe', 'ignore'] })
  let printed = ''
  const port = await new Promise<string | undefined>((resolve) => {
    driver.once('close', () => resolve(undefined))
    driver.stdout.on('data', (chunk: Buffer) => {
      printed += chunk.toString()
      const [, found] = /started successfully on port (\d+)/.exec(printed) ?? []
      if (found) resolve(found)
    })
  })
  if (port !== undefined) return { driver, base: `http://127.0.0.1:${port}` }
  if (starts > 1 && printed.includes('port not available')) return startDriver(starts - 1)
  throw new Error(`chromedriver exited: ${printed}`)
}

export async function startBrowser() {
  const { base, driver } = await startDriver()
  const profile = mkdtempSync(join(tmpdir(), 'postrider-chromium-'))
  // oxlint-disable-next-line typescript/no-explicit-any
  async function ask(method: string, path: string, body?: unknown): Promise<any> {
    const init = body === undefined ? { method } : { method, body: JSON.stringify(body) }
    const { value } = (await (await fetch(`${base}${path}`, init)).json()) as { value: { error?: string } | null }
    assert.equal(value?.error, undefined, JSON.stringify(value))
    return value
  }
  const args = ['--headless', '--no-sandbox', '--disable-gpu', '--no-first-run', '--disable-background-networking']
  const options = { binary: '/usr/bin/chromium', args: [...args, `--user-data-dir=${profile}`] }
  const logged = { 'goog:loggingPrefs': { browser: 'ALL' } }
  const capabilities = { alwaysMatch: { browserName: 'chrome', 'goog:chromeOptions': options, ...logged } }
  const session = `/session/${(await ask('POST', '/session', { capabilities })).sessionId}`

  const run = (script: string, ...given: unknown[]) => ask('POST', `${session}/execute/sync`, { script, args: given })
  const cdp = (cmd: string, params: unknown) => ask('POST', `${session}/goog/cdp/execute`, { cmd, params })
  // A window in the background fires no focus events.
  await cdp('Emulation.setFocusEmulationEnabled', { enabled: true })
  const find = async (value: string): Promise<string> =>
    (await ask('POST', `${session}/element`, { using: 'css selector', value }))[NAME]
  /** Does something with an element. A live page may bring it later, or replace it: then it is looked for again. */
  const withElement = (selector: string, deed: string, body: unknown): Promise<unknown> =>
    until(async () => {
      try {
        await ask('POST', `${session}/element/${await find(selector)}/${deed}`, body)
        return true
      } catch (thrown) {
        if (/stale element reference|no such element/.test(String(thrown))) return false
        throw thrown
      }
    }, selector)
  /** Saves a picture of the whole page. */
  const shoot = async (name: string): Promise<void> => {
    if (!SHOTS) return
    const { cssContentSize: clip } = await cdp('Page.getLayoutMetrics', {})
    const { data } = await cdp('Page.captureScreenshot', { captureBeyondViewport: true, clip: { ...clip, scale: 1 } })
    writeFileSync(join(SHOTS, `${name}.png`), Buffer.from(data, 'base64'))
  }

  /** Links, buttons, fields and tables in the accessibility tree. */
  async function controls(): Promise<{ nodeId: string; role: string; name: string }[]> {
    const { nodes } = (await cdp('Accessibility.getFullAXTree', {})) as { nodes: AccessibleNode[] }
    return nodes
      .map(({ ignored, name, nodeId, role }) => ({
        nodeId,
        role: ignored ? '' : (role?.value ?? ''),
        name: name?.value?.trim() ?? '',
      }))
      .filter(({ role }) => NAMED.has(role))
  }

  return {
    run,
    shoot,
    open: (url: string) => ask('POST', `${session}/url`, { url }),
    at: (): Promise<string> => ask('GET', `${session}/url`),
    click: (selector: string) => withElement(selector, 'click', {}),
    type: (selector: string, text: string) => withElement(selector, 'value', { text }),
    /** Presses and releases one key. */
    press: (value: string) =>
      ask('POST', `${session}/actions`, {
        actions: [
          {
            type: 'key',
            id: 'keys',
            actions: [
              { type: 'keyDown', value },
              { type: 'keyUp', value },
            ],
          },
        ],
      }),
    /** Waits for a page's heading: a click does not wait for the page it leads to. */
    headed: (text: string) =>
      until(async () => (await run('return document.querySelector("h1")?.textContent')) === text, text),

    /** Runs a script that calls its last argument with the result when it is done. */
    later: (script: string, ...given: unknown[]) => ask('POST', `${session}/execute/async`, { script, args: given }),
    cdp,
    /** The warnings and errors in the browser's console since the last call. */
    async complaints(): Promise<string[]> {
      const said = (await ask('POST', `${session}/se/log`, { type: 'browser' })) as { level: string; message: string }[]
      return said.filter(({ level }) => level === 'SEVERE' || level === 'WARNING').map(({ message }) => message)
    },
    /** A colour scheme and a width. */
    async emulate(scheme: string, width: number): Promise<void> {
      await cdp('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] })
      await cdp('Emulation.setDeviceMetricsOverride', {
        width,
        height: 900,
        deviceScaleFactor: 1,
        mobile: width < 500,
      })
    },

    /**
     * A page in a scheme and width: nothing scrolls sideways, buttons are large enough for a finger; a picture of it.
     */
    async look(scheme: string, width: number, name: string): Promise<void> {
      await cdp('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] })
      await cdp('Emulation.setDeviceMetricsOverride', { width, height: 720, deviceScaleFactor: 2, mobile: width < 500 })
      assert.deepEqual(await run(WIDE), [], `${name} scrolls sideways`)
      const { height, width: wide } = await run(
        'return document.querySelector("button").getBoundingClientRect().toJSON()',
      )
      assert.ok(height >= 44 && wide >= 44, `a button of ${wide} x ${height} is small for a finger`)
      await shoot(name)
    },

    /** Checks the open page: axe-core finds no problem, and it does not scroll sideways. Saves a screenshot. */
    async judge(name: string): Promise<void> {
      await run(AXE)
      assert.deepEqual(await ask('POST', `${session}/execute/async`, { script: FAULTS, args: [] }), [], name)
      assert.deepEqual(await run(WIDE), [], `${name} scrolls sideways`)
      assert.deepEqual(await run(CUT), [], `${name}: tables wider than their frames`)
      assert.deepEqual(await run(TOUCHING), [], `${name}: buttons that touch`)
      await shoot(name.replaceAll(/[^a-z0-9]+/gi, '-').slice(0, 100))
    },

    controls,
    /** Elements without a name in the accessibility tree: links, buttons, fields and tables. */
    nameless: async (): Promise<string[]> =>
      (await controls()).flatMap(({ name, nodeId, role }) => (name === '' ? [`${role} ${nodeId}`] : [])),

    /** Contrast of an element's text with what is behind it (WCAG 2.2 §1.4.3). */
    contrast: (selector: string): Promise<number> => run(CONTRAST, selector),

    async stop(): Promise<void> {
      await ask('DELETE', session)
      driver.kill()
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** A node of the accessibility tree, as the DevTools protocol tells it. */
interface AccessibleNode {
  nodeId: string
  ignored: boolean
  role?: { value: string }
  name?: { value?: string }
}

/** The roles that need a name. */
const NAMED = new Set(
  'button link textbox searchbox combobox ComboBoxSelect listbox checkbox radio spinbutton slider switch table grid'.split(
    ' ',
  ),
)

const FAULTS = `const done = arguments[0]
  // A change of colours is judged at its end; what moves without an end is judged as it is.
  for (const each of document.getAnimations()) try { each.finish() } catch {}
  axe.run(document, { iframes: false, rules: { 'target-size': { enabled: true } } }).then(({ violations }) =>
    done(violations.map(({ id, nodes }) => id + ': ' + nodes.map((node) => node.html.slice(0, 200)).join(' '))))`

const CONTRAST = `const parts = (text) => text.match(/[\\d.]+/g).map(Number)
  const light = (rgb) => rgb.slice(0, 3).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, n) => sum + c * [0.2126, 0.7152, 0.0722][n], 0)
  const element = document.querySelector(arguments[0])
  let behind = element
  while (parts(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement
  const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map((c) => light(parts(c)))
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)`
