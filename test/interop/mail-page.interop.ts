// The email pages in a real browser: previews fit their content and run no scripts, filters apply on selection, row
// menus open next to their button, and the focus is in the right place.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { requireUser } from '../../src/users/users.ts'
import { makeLink } from '../../src/users/sign-in-links.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

const ATTACK =
  '<script>top.hacked = 1</script><img src="data:,x" onerror="top.hacked = 1"><a href="javascript:top.hacked = 1">x</a><svg onload="top.hacked = 1"></svg>'
const LONG = `${'l'.repeat(64)}@${'d'.repeat(61)}.${'d'.repeat(61)}.${'d'.repeat(57)}.example`

/** Where an element is in the window. */
type Box = Record<'top' | 'right' | 'bottom' | 'left', number>

withPrograms('the email pages in Chromium', missing, () => {
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

  test('the overview sets no focus, and a rejected form focuses the field with the error', async () => {
    assert.equal(await browser.run('return document.activeElement.tagName'), 'BODY')
    await open('/domains/new')
    await browser.type('#name', 'not a domain\uE007')
    await until(() => browser.run(`return document.querySelector('[aria-invalid="true"]') !== null`), 'the refusal')
    assert.equal(await browser.run('return document.activeElement.id'), 'name')
  })

  test('a preview is as tall as its email, on desktop and on a phone, and runs no scripts', async () => {
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

  test('both previews on the content tab of a campaign are as tall as its email', async () => {
    const [domain] = await server.api('GET', '/domains')
    const of = (name: string, type: string, id: string) => ({ relationships: { [name]: { data: { type, id } } } })
    const audience = await server.api(
      'POST',
      '/audiences',
      'audiences',
      { name: 'Few' },
      of('domain', 'domains', domain.id),
    )
    const content = { name: 'Short', subject: 'Short', body_html: '<p>Hello</p>' }
    const { id } = await server.api(
      'POST',
      '/campaigns',
      'campaigns',
      content,
      of('audience', 'audiences', audience.id),
    )
    for (const width of [1280, 390]) {
      await browser.emulate('light', width)
      await open(`/campaigns/${id}/content`)
      const heights = await until<number[]>(
        () =>
          browser.run(
            `const frames = [...document.querySelectorAll('.previews iframe')]
             if (frames.every((each) => each.style.height)) return frames.map((each) => each.clientHeight)`,
          ),
        'the previews',
      )
      assert.equal(heights.length, 2)
      assert.ok(
        heights.every((height) => height > 40 && height < 200),
        `${heights.join()}`,
      )
      await browser.judge(`content-${width}`)
    }
    await browser.emulate('light', 1200)
  })

  test('on a phone a first step has its text at full width and its button below, and text fields have the font of the page', async () => {
    // The sandbox has no first steps.
    await using postrider = await startTestAppliance({ open: true })
    const { clock, store } = postrider.appliance.deps
    const user = requireUser(store, postrider.user.email)
    await browser.emulate('light', 390)
    await browser.open(`${postrider.url}/sign-in?link=${await store.write((tx) => makeLink(tx, user, clock.now()))}`)
    await browser.click('main button')
    await browser.headed('Overview')
    const steps = (await browser.run(
      `return [...document.querySelectorAll('.steps li:not(.done-step)')].map((each) => {
         const box = (part) => each.querySelector(part)?.getBoundingClientRect().toJSON()
         return [box('div'), box(':scope > .button, :scope > form'), each.getBoundingClientRect().toJSON()]
       }).filter(([, button]) => button)`,
    )) as [Box, Box, Box][]
    assert.ok(steps.length > 0)
    for (const [words, button, row] of steps) {
      assert.ok(button.top >= words.bottom, 'the button is below')
      assert.ok(words.right - words.left > 0.8 * (row.right - row.left), 'the text has the width')
    }
    await browser.judge('first-steps-390')
    await browser.open(`${postrider.url}/suppressions/new`)
    const font = (selector: string): Promise<string> =>
      browser.run('return getComputedStyle(document.querySelector(arguments[0])).fontFamily', selector)
    assert.equal(await font('textarea'), await font('body'))
    await browser.emulate('light', 1200)
  })

  test('an email to an address of 254 characters fits the width of a phone', async () => {
    assert.equal(LONG.length, 254)
    const id = await post(LONG, 'S'.repeat(300), '<p>Hello</p>')
    await browser.emulate('light', 390)
    for (const path of [`/mail/${id}`, `/mail/${id}?show=headers`, `/mail/${id}?show=source`, '/mail']) {
      await open(path)
      assert.ok(await browser.run('return document.documentElement.scrollWidth <= innerWidth'), path)
    }
    await browser.emulate('light', 1200)
  })

  test('the search box opens a single result, and applies and shows a chosen filter at once', async () => {
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

  test('the menu of a row opens next to its button, inside the window', async () => {
    await browser.emulate('light', 1200)
    await post('defer@slow.example', 'Waits', '<p>Hello</p>')
    await until(
      async () => (await server.api('GET', '/lanes?filter[domain]=slow.example'))[0]?.attributes.response,
      'the deferral',
    )
    await open('/queue')
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
      async () => /Held: email for \S+ stays in the queue/.test(await browser.run('return document.body.innerText')),
      'the sentence',
    )
  })
})
