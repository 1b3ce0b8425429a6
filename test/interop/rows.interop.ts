// Lists of the console in a real browser: a click on a row opens its page, text can be selected, checkboxes show the
// bar with the number of rows, and on a phone the filters are behind a button and a row has two lines.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

/** The middle of the free area of a cell: its right end. */
const FREE = `const { right, top, height } = document.querySelector(arguments[0]).getBoundingClientRect()
  return [Math.round(right - 6), Math.round(top + height / 2)]`
const HEIGHTS = `return [...document.querySelectorAll('main .scroll')[0].querySelectorAll('tbody tr')]
  .map((row) => Math.round(row.getBoundingClientRect().height))`

withPrograms('lists in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    for (let at = 0; at < 12; at++)
      await server.api('POST', '/outbound-emails', 'outbound-emails', {
        from: 'hello@sandbox.example',
        to: at % 4 === 3 ? `refuse${at}@friend.example` : `reader${at}@friend.example`,
        subject: `Your order ${at} is on its way to you and will arrive in the next days`,
        html: '<p>Thank you.</p>',
      })
    await until(
      async () =>
        (await server.api('GET', '/outbound-emails')).every(
          ({ attributes }: { attributes: { status: string } }) => !['queued', 'sent'].includes(attributes.status),
        ),
      'the end of all deliveries',
    )
    const [domain] = await server.api('GET', '/domains')
    const relationships = { domain: { data: { type: 'domains', id: domain!.id } } }
    const suppressions = ['one', 'two'].map((name) => ({ email: `${name}@friend.example`, reason: 'manual' }))
    await server.api('POST', '/suppression-imports', 'suppression-imports', { suppressions }, { relationships })
    await browser.open(server.console)
    await browser.headed('Overview')
  })
  after(async () => {
    await browser.stop()
    await server.stop()
  })

  async function open(path: string): Promise<void> {
    await browser.open(new URL(path, server.url).href)
    await until(() => browser.run('return document.readyState === "complete"'), path)
  }
  /** Presses, moves and releases the mouse. */
  async function drag(from: number[], to = from): Promise<void> {
    for (const [type, [x, y]] of [
      ['mousePressed', from],
      ['mouseMoved', to],
      ['mouseReleased', to],
    ] as const)
      await browser.cdp('Input.dispatchMouseEvent', { type, x, y, button: 'left', buttons: 1, clickCount: 1 })
  }
  const visible = (selector: string): Promise<boolean> =>
    browser.run('return document.querySelector(arguments[0])?.checkVisibility() === true', selector)

  test('a click on the free area of a row opens it, with a script and without', async () => {
    await browser.emulate('light', 1280)
    for (const value of [false, true]) {
      await open('/mail')
      const to = await browser.run('return document.querySelector("tbody td > a").pathname')
      const at = await browser.run(FREE, 'tbody td.k-time')
      await browser.cdp('Emulation.setScriptExecutionDisabled', { value })
      if (value) await open('/mail')
      await drag(at)
      await until(async () => new URL(await browser.at()).pathname === to, `the page of the row, scripts off: ${value}`)
    }
    await browser.cdp('Emulation.setScriptExecutionDisabled', { value: false })
  })

  test('text of a row can be selected, and buttons and checkboxes of a row do not open it', async () => {
    await open('/mail')
    const [left, top, right] = await browser.run(
      `const { bottom, left, right, top } = document.querySelector('tbody .text').getBoundingClientRect()
       return [left + 2, (top + bottom) / 2, right - 2]`,
    )
    await drag([left, top], [right, top])
    assert.match(await browser.run('return document.getSelection().toString()'), /Your order/)
    await browser.click('tbody input')
    assert.equal(new URL(await browser.at()).pathname, '/mail')
  })

  test('the bar shows the number of selected rows, and an update does not lose them', async () => {
    await open('/mail')
    assert.equal(await visible('.bulk'), false)
    for (const at of [1, 2]) await browser.click(`tbody tr:nth-child(${at}) input`)
    const bar = () => browser.run('return document.querySelector(".bulk").innerText.replaceAll(/\\s+/g, " ").trim()')
    assert.equal(await bar(), 'All on this page Retry 2 Export 2')
    await browser.run('document.activeElement.blur()')
    await browser.run('document.querySelector("tbody tr").id = "before"')
    await browser.run(`new BroadcastChannel('postrider').postMessage('changed')`)
    await browser.later('setTimeout(arguments[0], 600)')
    assert.equal(await browser.run('return document.querySelector("tbody tr").id'), 'before')
    await browser.click('thead input')
    assert.equal(await bar(), 'All on this page Retry 12 Export 12')
    await browser.judge('rows selected')
    await browser.click('.bulk label')
    assert.equal(await visible('.bulk'), false)
  })

  test('the dialog of an action names it and the number of rows', async () => {
    await open('/suppressions')
    await browser.click('tbody input')
    await browser.click('.bulk button[value=reactivate]')
    await until(() => visible('dialog'), 'the dialog')
    assert.equal(await browser.run('return document.querySelector("dialog h2").textContent'), 'Reactivate 1?')
    await browser.click('dialog button.sure')
    await until(() => visible('.toast'), 'the confirmation')
    assert.equal(await browser.run('return document.querySelector(".toast").textContent'), 'Reactivated 1 address.')
  })

  test('on a phone a button unfolds the filters, and a row has 60 px in two lines without the sender', async () => {
    await browser.emulate('light', 390)
    await open('/mail')
    assert.equal(await visible('.filters'), false)
    const heights: number[] = await browser.run(HEIGHTS)
    assert.deepEqual(
      heights.filter((height) => height > 61),
      [],
      heights.join(' '),
    )
    assert.doesNotMatch(await browser.run('return document.querySelector("tbody").innerText'), /hello@sandbox/)
    const top = await browser.run('return document.querySelector("tbody tr").getBoundingClientRect().top')
    assert.ok(top < 340, `the first email is ${top} px below the top`)
    await browser.click('.filter summary')
    assert.equal(await visible('.filters'), true)
    await browser.judge('filters on a phone')
    for (const path of ['/queue', '/suppressions']) {
      await open(path)
      assert.equal(await visible('.search'), false, path)
    }
  })

  test('tabs and segments show a shadow where there is more', async () => {
    await browser.emulate('light', 390)
    for (const [path, selector] of [
      ['/suppressions', '.tabs'],
      ['/mail', '#live .segments'],
      ['/server', '.tabs'],
    ] as const) {
      await open(path)
      const { image, attachment } = await browser.run(
        `const { backgroundImage: image, backgroundAttachment: attachment } = getComputedStyle(document.querySelector(arguments[0]))
         return { image, attachment }`,
        selector,
      )
      assert.equal(attachment, 'local, local, scroll, scroll', path)
      assert.equal(image.split('linear-gradient').length, 5, path)
    }
  })

  test('rows of tokens, receivers and the queue have one line, with the reason below', async () => {
    await browser.emulate('light', 1280)
    for (const [path, most] of [
      ['/tokens', 48],
      ['/receivers', 48],
      ['/queue', 48],
    ] as const) {
      await open(path)
      const heights: number[] = await browser.run(
        `return [...document.querySelectorAll('main tbody tr')].map((row) => row.getBoundingClientRect().height)`,
      )
      assert.deepEqual(
        heights.filter((height) => height > most),
        [],
        path,
      )
    }
  })

  for (const [scheme, width] of LOOKS)
    test(`lists in ${scheme} at ${width} px`, async () => {
      await browser.emulate(scheme, width)
      for (const path of [
        '/mail?sort=status,created_at',
        '/suppressions?sort=email',
        '/queue',
        '/campaigns',
        '/receivers',
        '/tokens',
      ]) {
        await open(path)
        await browser.judge(`${path} ${scheme} ${width}`)
      }
    })
})
