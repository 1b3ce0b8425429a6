// The HTML of a form on a page of another website, in a real browser: a visitor subscribes with and without scripts,
// and with the keyboard only, confirms by the link of the received email, and receives the welcome email (AU8 to AU10).
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { ENTER, keysOf } from './rig/keys.ts'
import { withPrograms } from './rig/need.ts'

const FORM = {
  name: 'Website',
  title: 'Old Trees News',
  consent_text: 'I would like to receive Old Trees News once a month.',
  controller: 'Old Trees Ltd, Ghent',
  privacy_url: 'https://sandbox.example/privacy',
  fields: [{ key: 'name', label: null, required: false }],
  welcome_subject: 'Welcome to Old Trees News',
  welcome_html: '<p>Good to have you here, {{name}}.</p>',
}
/** The script of the website, without which the form works too. */
const SCRIPT = `document.forms[0].addEventListener('submit', async (event) => {
  event.preventDefault()
  const { target } = event
  const body = new URLSearchParams(new FormData(target))
  const answer = await fetch(target.action, { method: 'POST', headers: { accept: 'application/json' }, body })
  document.querySelector('[role=status]').textContent = answer.status + ' ' + JSON.stringify(await answer.json())
})`

withPrograms('an embedded form in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  let audience = ''
  let embedded = ''
  const site = createServer((_, answer) =>
    answer
      .writeHead(200, { 'content-type': 'text/html; charset=utf-8' })
      .end(
        `<!doctype html><html lang="en"><title>Old Trees</title><main><h1>Old Trees</h1>${embedded}<p role="status"></p></main><script>${SCRIPT}</script></html>`,
      ),
  )
  // The server is at "localhost", so this is another host and another port.
  const siteUrl = (): string => `http://127.0.0.1:${(site.address() as AddressInfo).port}`

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    await once(site.listen(0, '127.0.0.1'), 'listening')
    ;[{ id: audience }] = await server.api('GET', '/audiences')
    const relationships = { audience: { data: { type: 'audiences', id: audience } } }
    const origins = { origins: [siteUrl()] }
    const { id } = await server.api('POST', '/forms', 'forms', { ...FORM, ...origins }, { relationships })
    const opened = await server.api('PATCH', `/forms/${id}`, 'forms', { status: 'open' }, { id })
    embedded = (await server.api('GET', `/forms/${opened.id}`)).attributes.embed_html
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
    site.close()
  })

  const headed = (title: RegExp): Promise<unknown> =>
    until(
      async () => title.test((await browser.run('return document.querySelector("h1")?.innerText')) ?? ''),
      String(title),
      () => browser.run('return document.body.innerText'),
    )
  /** An address whose email this server receives. */
  async function reader(name: string): Promise<string> {
    const address = `${name}@sandbox.example`
    await server.api('POST', '/inboxes', 'inboxes', { name, address })
    return address
  }
  /** Opens the link of the received confirmation email. */
  async function openLink(email: string): Promise<void> {
    const [link] = /http:\S+\/c\/\S+/.exec(await server.received(email, /^Please confirm/)) ?? []
    assert.ok(link)
    assert.equal(new URL(link).origin, server.url)
    await browser.open(link)
    await headed(/^Subscribe to .+\?$/)
  }
  async function isWelcome(email: string, name: string): Promise<void> {
    const [contact] = await server.api('GET', `/audiences/${audience}/contacts?filter[email]=${email}`)
    assert.deepEqual([contact.attributes.status, contact.attributes.name], ['subscribed', name])
    assert.match(await server.received(email, /^Welcome/), new RegExp(`Good to have you here, ${name}\\.`))
  }

  test('a visitor subscribes by the script of the website, which stays open (AU10)', async () => {
    const email = await reader('script')
    await browser.open(siteUrl())
    await browser.type('[name=email]', email)
    await browser.type('[name=name]', 'Sofia')
    await browser.click('form [type=submit]')
    const said = await until(
      () => browser.run('return document.querySelector("[role=status]").textContent'),
      'the answer',
    )
    assert.equal(said, '202 {"status":"requested"}')
    assert.equal(new URL(await browser.at()).origin, siteUrl())
    await openLink(email)
    await browser.click('[value=confirm]')
    await headed(/You are subscribed/)
    await isWelcome(email, 'Sofia')
    assert.deepEqual(await browser.complaints(), [])
  })

  test('a visitor without scripts subscribes, and sees the page of the answer (AU8)', async () => {
    const email = await reader('plain')
    await browser.cdp('Emulation.setScriptExecutionDisabled', { value: true })
    try {
      await browser.open(siteUrl())
      await browser.type('[name=email]', email)
      await browser.type('[name=name]', 'Paul')
      await browser.click('form [type=submit]')
      await headed(/Check your inbox/)
      assert.equal(new URL(await browser.at()).origin, server.url)
      await openLink(email)
      await browser.click('[value=confirm]')
      await headed(/You are subscribed/)
    } finally {
      await browser.cdp('Emulation.setScriptExecutionDisabled', { value: false })
    }
    await isWelcome(email, 'Paul')
  })

  test('a visitor with the keyboard only subscribes, and a screen reader has a name for each control (AU58)', async () => {
    const { keys, tabTo } = keysOf(browser)
    const read = async (): Promise<string[]> =>
      (await browser.controls())
        .filter(({ role }) => role !== 'link')
        .map(({ name, role }) => `${role} ${name}`)
        .toSorted()
    const email = await reader('keys')
    await browser.open(siteUrl())
    assert.deepEqual(await read(), ['button Subscribe', 'textbox Email address (required)', 'textbox Name'])
    await tabTo(/^Email address/)
    await keys(email)
    await tabTo(/^Name/)
    await keys('Kay')
    await tabTo(/^Subscribe$/)
    await keys(ENTER)
    await until(() => browser.run('return document.querySelector("[role=status]").textContent'), 'the answer')
    await openLink(email)
    assert.deepEqual(await read(), ['button This was not me', 'button Yes, subscribe', 'textbox Name'])
    await tabTo(/^Yes, subscribe$/)
    await keys(ENTER)
    await headed(/You are subscribed/)
    await isWelcome(email, 'Kay')
  })
})
