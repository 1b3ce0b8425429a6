// A newsletter from its first word to its report in a real browser: how many clicks it takes, and that no browser
// dialog opens (D144).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { mouseOf } from './rig/clicks.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

/** The most clicks that the newsletter may take. */
const CLICKS = 10

withPrograms('a newsletter in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  let mouse: ReturnType<typeof mouseOf>

  /** Counts the dialogs of the browser itself: prompt(), confirm() and alert(). */
  const watch = (): Promise<unknown> =>
    browser.run(
      `for (const name of ['prompt', 'confirm', 'alert'])
         window[name] = () => { sessionStorage.dialogs = Number(sessionStorage.dialogs ?? 0) + 1; return null }`,
    )

  before(async () => {
    server = await startBuiltConsole()
    await server.withoutAudience()
    browser = await startBrowser()
    mouse = mouseOf(browser)
    const [domain] = await server.api('GET', '/domains')
    const relationships = { domain: { data: { type: 'domains', id: domain.id } } }
    const { id } = await server.api('POST', '/audiences', 'audiences', { name: 'Readers' }, { relationships })
    const contacts = Array.from({ length: 300 }, (_, at) => ({
      email: at % 100 === 7 ? `refuse@friend${at}.example` : `reader${at}@friend${at % 5}.example`,
      name: `Reader ${at}`,
    }))
    await server.api('POST', `/audiences/${id}/contacts/import`, 'contacts', { contacts })
    const suppressions = [1, 2, 3].map((at) => ({ email: `reader${at}@friend${at}.example`, reason: 'manual' }))
    await server.api('POST', '/suppression-imports', 'suppression-imports', { suppressions }, { relationships })
    await browser.open(server.console)
    await browser.emulate('light', 1280)
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  test(`a user writes, reviews, tests and sends a newsletter in at most ${CLICKS} clicks, without browser dialogs`, async () => {
    await mouse.click('Campaigns')
    await browser.headed('Campaigns')
    await mouse.click('New campaign')
    await browser.headed('New campaign')
    await watch()
    await mouse.fill('#name', 'December newsletter')
    await mouse.fill('#subject', 'News for {{name}}')
    await mouse.click('Create draft')
    await browser.headed('December newsletter')
    await watch()
    await until(() => browser.run('return document.querySelector(".ProseMirror") !== null'), 'the editor')
    await mouse.fill('.ProseMirror', 'The farm shop opens on Friday. ')
    await mouse.click('Review and send')
    await browser.headed('Review and send')
    await watch()
    await mouse.says(/Recipients\s*297[^]*Excluded\s*3\s*3 suppressed/)
    await mouse.click('Send test')
    await mouse.says(/Test email queued for/)
    await watch()
    await mouse.click('Send now')
    await until(() => browser.run('return document.querySelector("dialog[open] .sure") !== null'), 'the question')
    assert.match(
      await browser.run('return document.querySelector("dialog[open]").innerText'),
      /will be sent to “Readers”\. 297 recipients, 3 excluded \(3 suppressed\)\./,
    )
    mouse.clicks++
    await browser.click('dialog[open] .sure')
    await mouse.says(/Started: 297 recipients\./)
    assert.ok(mouse.clicks <= CLICKS, `${mouse.clicks} clicks`)
    assert.equal(await browser.run('return sessionStorage.dialogs ?? null'), null, 'dialogs of the browser')
    await until(
      async () => (await browser.run('return document.querySelector("#live .badge")?.textContent.trim()')) === 'sent',
      'the end',
    )
    // What can be done follows the state without a reload.
    assert.equal(await browser.run('return document.querySelector("#do").innerText.trim()'), 'Why?\nCopy to draft')
    await mouse.says(/Delivered\s*294\s*99\.0%/)
  })

  test('a user exports the bounced recipients in at most four clicks', async () => {
    mouse.clicks = 0
    await mouse.click('Campaigns')
    await mouse.click('December newsletter')
    await browser.headed('December newsletter')
    mouse.clicks++
    await browser.click('a.tile[href$="status=bounced"]')
    await mouse.says(/Export bounced/)
    mouse.clicks++
    const href: string = await browser.run(
      'return [...document.querySelectorAll("main a")].find((each) => each.textContent.trim() === "Export bounced").href',
    )
    const [name, text]: [string, string] = await browser.later(
      `const done = arguments[1]
       fetch(arguments[0]).then(async (answer) => done([answer.headers.get('content-disposition'), await answer.text()]))`,
      href,
    )
    assert.match(name, /filename="december-newsletter-bounced\.csv"/)
    assert.equal(text.trim().split('\r\n').length, 4)
    assert.match(text, /,550,5\.1\.1,This mailbox rejects on purpose/)
    assert.ok(mouse.clicks <= 4, `${mouse.clicks} clicks`)
  })
})
