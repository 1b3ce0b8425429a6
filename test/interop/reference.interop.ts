// The API reference in a real browser: axe-core finds no problem on any page, light and dark, wide and narrow, a
// language is chosen once, and all content is visible without a script.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { until } from '../kit/until.ts'
import { absent, LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { withPrograms } from './rig/need.ts'

withPrograms('the API reference in Chromium', absent, () => {
  let postrider: TestAppliance
  let browser: Browser
  const open = (path: string): Promise<unknown> => browser.open(postrider.url + path)

  before(async () => {
    postrider = await startTestAppliance({ open: true })
    browser = await startBrowser()
  })
  after(async () => {
    await browser.stop()
    await postrider.stop()
  })

  test('axe-core finds no problem, no page scrolls sideways, and all resources come from this server', async () => {
    await open('/docs')
    const paths: string[] = await browser.run(
      'return [...document.querySelectorAll(".menu a")].map((each) => each.pathname)',
    )
    const places = [...new Set(paths), '/docs?q=hold', '/docs?q=nonsense']
    assert.ok(places.length > 30)
    for (const [at, [scheme, width]] of LOOKS.entries()) {
      await browser.emulate(scheme, width)
      // The first and the last look have each scheme and each width; every piece is on the first pages.
      for (const path of at === 0 || at === LOOKS.length - 1 ? places : places.slice(0, 4)) {
        await open(path)
        // Every program and every list is unfolded.
        await browser.run('for (const each of document.querySelectorAll("main details")) each.open = true')
        await browser.judge(`reference ${path}, ${scheme}, ${width}`)
        const asked: string[] = await browser.run(
          'return performance.getEntriesByType("resource").map(({ name }) => name)',
        )
        for (const url of asked) assert.ok(url.startsWith(`${postrider.url}/`), url)
      }
    }
  })

  /** The languages of the programs that are in sight. */
  const inSight = (): Promise<string[]> =>
    browser.run(
      `return [...document.querySelectorAll('.program')].filter((each) => each.checkVisibility())
         .map((each) => each.dataset.language)`,
    )

  test('a chosen language applies to all examples and pages, and the choice stays in place', async () => {
    await browser.emulate('light', 1200)
    await open('/docs/inboxes')
    assert.deepEqual([...new Set(await inSight())], ['curl'])
    const top = 'return document.getElementById("deleteInbox-Go").nextElementSibling.getBoundingClientRect().top'
    await browser.run('document.getElementById("deleteInbox").scrollIntoView()')
    const before: number = await browser.run(top)
    await browser.run('document.getElementById("deleteInbox-Go").nextElementSibling.click()')
    assert.ok(Math.abs((await browser.run(top)) - before) < 2)
    assert.deepEqual([...new Set(await inSight())], ['Go'])
    await open('/docs/domains')
    assert.deepEqual([...new Set(await inSight())], ['Go'])
  })

  test('copies an example', async () => {
    const origin = postrider.url
    await browser.cdp('Browser.grantPermissions', { origin, permissions: ['clipboardReadWrite'] })
    await open('/docs/inboxes')
    await browser.run('document.querySelector("[data-copy=createInbox-Go-code]").click()')
    const copied = await until(async () => {
      const text: string = await browser.later(
        'const done = arguments[0]; navigator.clipboard.readText().then(done, () => done(""))',
      )
      return text.startsWith('package main') ? text : undefined
    }, 'the copy')
    assert.match(copied, /strings\.NewReader\(`\{\n {2}"data": \{/)
  })

  test('typing filters the list of pages', async () => {
    await open('/docs')
    const names = (): Promise<string[]> =>
      browser.run(
        'return [...document.querySelectorAll(".menu li:not([hidden])")].map((each) => each.textContent.trim())',
      )
    const all = await names()
    await browser.type('#find', 'privacy req')
    assert.deepEqual(
      await names(),
      all.filter((name) => /privacy/i.test(name) && /req/i.test(name)),
    )
    assert.ok((await names()).includes('Privacy requests'))
  })

  test('shows everything without a script', async () => {
    await browser.cdp('Emulation.setScriptExecutionDisabled', { value: true })
    try {
      await open('/docs/inboxes')
      await browser.click('#createInbox-Python + label')
      const shown = await browser.run(
        `return document.getElementById('createInbox-Python-code').checkVisibility() &&
           !document.getElementById('createInbox-curl-code').checkVisibility()`,
      )
      assert.ok(shown)
    } finally {
      await browser.cdp('Emulation.setScriptExecutionDisabled', { value: false })
    }
  })
})
