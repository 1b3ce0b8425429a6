// The pages of mail in a real browser: previews fit what they show and run nothing, filters are sent when something is
// chosen, menus of rows open beside their button, and the focus goes where it should.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

const ATTACK =
  '<script>top.hacked = 1</script><img src="data:,x" onerror="top.hacked = 1"><a href="javascript:top.hacked = 1">x</a><svg onload="top.hacked = 1"></svg>'
const LONG = `${'l'.repeat(64)}@${'d'.repeat(61)}.${'d'.repeat(61)}.${'d'.repeat(57)}.example`

/** Where an element is in the window. */
type Box = Record<'top' | 'right' | 'bottom' | 'left', number>

withPrograms('the pages of mail in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser

  const post = async (to: string, subject: string, html: string): Promise<string> => {
    const attributes = { from: 'hello@sandbox.example', to, subject, html }
    return (await server.api('POST', '/outbound-emails', 'outbound-emails', attributes)).id
  }
  const open = (path: string): Promise<unknown> => browser.open(server.url + path)
  /** The height of the preview, and of what it shows, once it was measured. */
  const preview = (): Promise<{ frame: number; content: number; hacked: string }> =>
    until(
      () =>
        browser.run(
          `const frame = document.querySelector('iframe.fit')
           if (!frame?.style.height) return
           return { frame: frame.clientHeight, content: frame.contentDocument.documentElement.scrollHeight,
             hacked: typeof window.hacked }`,
        ),
      'the preview',
    )

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    await browser.open(server.console)
    await browser.headed('Overview')
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  test('the overview takes no focus; a refused form gives it to the field with the error', async () => {
    assert.equal(await browser.run('return document.activeElement.tagName'), 'BODY')
    await open('/domains/new')
    await browser.type('#name', 'not a domain\uE007')
    await until(() => browser.run(`return document.querySelector('[aria-invalid="true"]') !== null`), 'the refusal')
    assert.equal(await browser.run('return document.activeElement.id'), 'name')
  })

  test('a preview is as tall as its mail, on a desk and on a phone, and runs nothing of it', async () => {
    const short = await post('ada@example.net', 'Short', `<p>Hello</p>${ATTACK}`)
    const long = await post('ada@example.net', 'Long', '<p>A line of a long mail.</p>'.repeat(100))
    for (const width of [1200, 390]) {
      await browser.emulate('light', width)
      await open(`/mail/${short}`)
      const first = await preview()
      assert.ok(first.frame < 160, `${first.frame} for a short mail`)
      assert.equal(first.hacked, 'undefined')
      await open(`/mail/${long}`)
      const { content, frame } = await preview()
      assert.ok(frame > 3000 && content <= frame, `${content} in ${frame}`)
    }
    await browser.emulate('light', 1200)
  })

  test('a mail to an address of 254 characters is not wider than a phone', async () => {
    assert.equal(LONG.length, 254)
    const id = await post(LONG, 'S'.repeat(300), '<p>Hello</p>')
    await browser.emulate('light', 390)
    for (const path of [`/mail/${id}`, `/mail/${id}?show=headers`, `/mail/${id}?show=source`, '/mail']) {
      await open(path)
      assert.ok(await browser.run('return document.documentElement.scrollWidth <= innerWidth'), path)
    }
    await browser.emulate('light', 1200)
  })

  test('the one search box jumps to the only hit; a filter is sent when it is chosen, and stands in the box', async () => {
    await post('refuse@corp.example', 'Refused', '<p>Hello</p>')
    await open('/mail')
    await browser.type('#find', 'to:refuse@corp.example\uE007')
    await browser.headed('Refused')
    await open('/mail')
    await browser.run(
      `const select = document.querySelector('.filters select[name=campaign]')
       select.value = 'no'
       select.dispatchEvent(new Event('change', { bubbles: true }))`,
    )
    await until(() => browser.run(`return document.getElementById('find').value === 'campaign:no'`), 'the word')
    assert.match(await browser.run('return document.querySelector(".pager").innerText'), /^1–\d of \d/)
  })

  test('the menu of a row opens beside its button, inside the window', async () => {
    await post('defer@slow.example', 'Waits', '<p>Hello</p>')
    await open('/queue')
    await until(() => browser.run(`return document.querySelector('button.more') !== null`), 'the lane')
    await browser.click('button.more')
    const [menu, button, wide] = (await browser.run(
      `return [document.querySelector('.menu-of:popover-open').getBoundingClientRect().toJSON(),
        document.querySelector('button.more').getBoundingClientRect().toJSON(), innerWidth]`,
    )) as [Box, Box, number]
    assert.ok(menu.bottom - menu.top > 90, 'an action is a line')
    assert.ok(Math.abs(menu.top - button.bottom) < 12 && menu.right <= wide, JSON.stringify([menu, button]))
    await browser.run(
      `[...document.querySelectorAll('.menu-of:popover-open button')].find((each) => each.textContent === 'Hold').click()`,
    )
    await until(
      async () => /Held: mail for \S+ waits/.test(await browser.run('return document.body.innerText')),
      'the sentence',
    )
  })
})
