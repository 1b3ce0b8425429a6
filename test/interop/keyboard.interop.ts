// The console of the executable with the keyboard only, in a real browser: an email and its SMTP reply are found, the
// bounced recipients of a campaign are exported, and the records of a new domain are shown. Each Tab stop is visible,
// and every control and text has a name in the accessibility tree.
import assert from 'node:assert/strict'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { ENTER, keysOf } from './rig/keys.ts'
import { withPrograms } from './rig/need.ts'

withPrograms('the keyboard in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  const folder = mkdtempSync(join(tmpdir(), 'postrider-keyboard-'))

  const words = (): Promise<string> => browser.run('return document.querySelector("main")?.innerText ?? ""')
  const says = (what: RegExp): Promise<unknown> => until(async () => what.test(await words()), String(what))
  /** Waits for the page with a heading, its styles and its scripts. */
  async function headed(text: string): Promise<void> {
    await browser.headed(text)
    await until(() => browser.run('return document.readyState === "complete"'), `the whole of ${text}`)
  }
  let keys: ReturnType<typeof keysOf>['keys']
  let tabTo: ReturnType<typeof keysOf>['tabTo']
  const everythingHasAName = async (): Promise<void> =>
    assert.deepEqual(await browser.nameless(), [], await browser.at())

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    ;({ keys, tabTo } = keysOf(browser))
    const [domain] = await server.api('GET', '/domains')
    const relationships = { domain: { data: { type: 'domains', id: domain!.id } } }
    for (const to of ['ada@example.net', 'refuse@example.net']) {
      const text = { subject: 'Receipt', html: '<p>Thank you.</p>', from: 'hello@sandbox.example', to }
      await server.api('POST', '/outbound-emails', 'outbound-emails', text)
    }
    const { id } = await server.api('POST', '/audiences', 'audiences', { name: 'Readers' }, { relationships })
    const contacts = Array.from({ length: 20 }, (_, at) => ({
      email: at % 10 === 7 ? `refuse@friend${at}.example` : `reader${at}@friend.example`,
    }))
    await server.api('POST', `/audiences/${id}/contacts/import`, 'contacts', { contacts })
    const newsletter = { name: 'December', subject: 'News', body_html: '<p>Hello</p>' }
    const of = { relationships: { audience: { data: { type: 'audiences', id } } } }
    const campaign = await server.api('POST', '/campaigns', 'campaigns', newsletter, of)
    await server.api('PATCH', `/campaigns/${campaign.id}`, 'campaigns', { status: 'scheduled' }, { id: campaign.id })
    await until(async () => (await server.api('GET', '/campaigns'))[0]!.attributes.status === 'sent', 'sent')
    await browser.cdp('Browser.setDownloadBehavior', { behavior: 'allow', downloadPath: folder })
    await browser.open(server.console)
    await browser.emulate('light', 1280)
    await headed('Overview')
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
    rmSync(folder, { recursive: true })
  })

  test('a user finds an email and the reply of the receiving server', async () => {
    await everythingHasAName()
    await keys('/')
    await until(async () => (await browser.run('return document.activeElement.id')) === 'find', 'the search box')
    await keys(`receipt ada${ENTER}`)
    await headed('Receipt')
    await says(/ada@example\.net[^]*250 /)
    await everythingHasAName()
    await tabTo(/SMTP|dialogue/i)
    await keys(ENTER)
    await says(/RCPT TO:<ada@example\.net>/)
  })

  test('a user exports the bounced recipients', async () => {
    await keys('gc')
    await headed('Campaigns')
    await everythingHasAName()
    await keys('j')
    await keys(ENTER)
    await headed('December')
    await everythingHasAName()
    await tabTo(/^Bounced\b/)
    await keys(ENTER)
    await until(async () => /status=bounced/.test(await browser.at()), 'the recipients')
    await headed('December')
    await says(/Export bounced/)
    await everythingHasAName()
    await tabTo(/^Export bounced$/)
    await keys(ENTER)
    // Chromium makes an empty file of this name before it moves the complete download there.
    const downloaded = (name: string): string => readFileSync(join(folder, name), 'utf8')
    const complete = (name: string): boolean => name.endsWith('.csv') && downloaded(name) !== ''
    const file = await until(() => readdirSync(folder).find(complete), 'the file')
    assert.equal(file, 'december-bounced.csv')
    const lines = downloaded(file).trim().split('\r\n')
    assert.match(lines[0]!, /^email,name,status/)
    const addresses = lines.slice(1).map((line) => line.split(',')[0] ?? '')
    assert.deepEqual(addresses.toSorted(), ['refuse@friend17.example', 'refuse@friend7.example'])
  })

  test('a live update waits while the focus is in the updated part', async () => {
    await keys('gc')
    await headed('Campaigns')
    const kept: boolean = await browser.later(
      `const link = document.querySelector('#live tbody a')
       document.addEventListener('htmx:afterRequest', () =>
         requestAnimationFrame(() => requestAnimationFrame(() => arguments[0](document.activeElement === link))))
       document.body.dispatchEvent(new Event('changed'))
       window.link = link
       link.focus()`,
    )
    assert.equal(kept, true)
    await browser.run('link.blur()')
    await until(() => browser.run('return !link.isConnected'), 'the update')
  })

  test('a user adds a domain and sees its records', async () => {
    await keys('gd')
    await headed('Domains')
    await everythingHasAName()
    await tabTo(/^Add domain$/)
    await keys(ENTER)
    await headed('Add domain')
    await everythingHasAName()
    await tabTo(/^Domain$/)
    await keys(`shop.example${ENTER}`)
    await headed('shop.example')
    await everythingHasAName()
    const inView = (): Promise<string[]> =>
      browser.run(
        `return [...document.querySelectorAll('main code.value')]
           .filter((each) => each.checkVisibility() && each.getBoundingClientRect().bottom < innerHeight)
           .map((each) => each.textContent)`,
      )
    // The sandbox finds the records itself, and what is found is folded.
    const seen = async (): Promise<boolean> =>
      (await inView()).some((value) => /^v=|sandbox/.test(value)) || /3 of 3 found/.test(await words())
    await until(seen, 'a record in view', words)
  })
})
