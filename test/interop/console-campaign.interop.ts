// A newsletter from its first word to its report in a real browser: how many clicks it takes, and that no browser
// dialog opens (D144).
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

/** The most clicks that the newsletter may take. */
const CLICKS = 10

withPrograms('a newsletter in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  let clicks = 0

  const words = (): Promise<string> => browser.run('return document.querySelector("main")?.innerText ?? ""')
  const says = (what: RegExp): Promise<unknown> => until(async () => what.test(await words()), String(what))
  /** Clicks a link, a button or a summary with these words, as it is seen. */
  async function click(label: string): Promise<void> {
    clicks++
    await until(
      () =>
        browser.run(
          `const all = document.querySelectorAll('dialog[open] button, a, button, summary')
           const it = [...all].find((each) => each.textContent.trim() === arguments[0] && each.checkVisibility())
           if (!it) return false
           it.setAttribute('data-clicked', '')
           return true`,
          label,
        ),
      `something to click: ${label}`,
    )
    await browser.click('[data-clicked]')
    await browser.run(
      `for (const each of document.querySelectorAll('[data-clicked]')) each.removeAttribute('data-clicked')`,
    )
  }
  async function fill(selector: string, value: string): Promise<void> {
    clicks++
    await browser.click(selector)
    await browser.type(selector, value)
  }
  /** Counts the dialogs of the browser itself: prompt(), confirm() and alert(). */
  const watch = (): Promise<unknown> =>
    browser.run(
      `for (const name of ['prompt', 'confirm', 'alert'])
         window[name] = () => { sessionStorage.dialogs = Number(sessionStorage.dialogs ?? 0) + 1; return null }`,
    )

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
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
    await click('Campaigns')
    await browser.headed('Campaigns')
    await click('New campaign')
    await browser.headed('New campaign')
    await watch()
    await fill('#name', 'December newsletter')
    await fill('#subject', 'News for {{name}}')
    await click('Create draft')
    await browser.headed('December newsletter')
    await watch()
    await until(() => browser.run('return document.querySelector(".ProseMirror") !== null'), 'the editor')
    await fill('.ProseMirror', 'The farm shop opens on Friday. ')
    await click('Review and send')
    await browser.headed('Review and send')
    await watch()
    await says(/Recipients\s*297[^]*Excluded\s*3\s*3 suppressed/)
    await click('Send test')
    await says(/Test email queued for/)
    await watch()
    await click('Send now')
    await until(() => browser.run('return document.querySelector("dialog[open] .sure") !== null'), 'the question')
    assert.match(
      await browser.run('return document.querySelector("dialog[open]").innerText'),
      /will be sent to “Readers”\. 297 recipients, 3 excluded \(3 suppressed\)\./,
    )
    clicks++
    await browser.click('dialog[open] .sure')
    await says(/Started: 297 recipients\./)
    assert.ok(clicks <= CLICKS, `${clicks} clicks`)
    assert.equal(await browser.run('return sessionStorage.dialogs ?? null'), null, 'dialogs of the browser')
    await until(
      async () => (await browser.run('return document.querySelector("#live .badge")?.textContent.trim()')) === 'sent',
      'the end',
    )
    // What can be done follows the state without a reload.
    assert.equal(await browser.run('return document.querySelector("#do").innerText.trim()'), 'Why?\nCopy to draft')
    await says(/Delivered\s*294\s*99\.0%/)
  })

  test('a user exports the bounced recipients in at most four clicks', async () => {
    clicks = 0
    await click('Campaigns')
    await click('December newsletter')
    await browser.headed('December newsletter')
    clicks++
    await browser.click('a.tile[href$="status=bounced"]')
    await says(/Export bounced/)
    clicks++
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
    assert.ok(clicks <= 4, `${clicks} clicks`)
  })
})
