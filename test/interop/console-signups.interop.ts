// A new user without a shell, in a real browser: from an empty audience to a form, a confirmed subscriber, a segment
// and a campaign that the subscriber receives, in less than five minutes.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { mouseOf } from './rig/clicks.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

const MOST_MINUTES = 5

withPrograms('sign-ups in the console in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  let mouse: ReturnType<typeof mouseOf>

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    mouse = mouseOf(browser)
    await browser.emulate('light', 1280)
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  const menu = async (name: string): Promise<void> => {
    await mouse.click(name)
    await browser.headed(name)
  }

  async function makeForm(): Promise<void> {
    await menu('Audiences')
    await mouse.click('New audience')
    await browser.headed('New audience')
    await mouse.fill('#name', 'Readers')
    await mouse.click('Create audience')
    await browser.headed('Readers')
    await mouse.says(/No contacts yet/)
    await menu('Forms')
    await mouse.click('New form')
    await browser.headed('New form')
    await mouse.fill('#name', 'Homepage')
    await browser.type('#audience', 'Readers')
    await mouse.fill('#title', 'Old Trees News')
    await mouse.click('Create form')
    await browser.headed('Homepage')
    await mouse.fill('#consent_text', 'I would like to receive Old Trees News once a month.')
    await mouse.fill('#controller', 'Old Trees Ltd, Ghent')
    await mouse.fill('#privacy_url', 'https://sandbox.example/privacy')
    await browser.type('#asks-name', 'optional')
    await mouse.click('Save')
    await mouse.says(/Saved\./)
    await mouse.click('Open form')
    await mouse.says(/The form is open\./)
  }

  /** Signs up at the page of the form, and presses the button of the check page, which visitors this fast get. */
  async function signUp(url: string, email: string, name: string): Promise<void> {
    await browser.open(url)
    await browser.headed('Old Trees News')
    await mouse.fill('[name=email]', email)
    await mouse.fill('[name=name]', name)
    await mouse.click('Subscribe')
    const heading = await until(
      () => browser.run('return /One more step|Check your inbox/.exec(document.querySelector("h1")?.innerText)?.[0]'),
      'the answer to the form',
    )
    if (heading === 'One more step') await browser.click('form [type=submit]')
    await browser.headed('Check your inbox')
  }

  /** Opens a message in the inbox of the console, and returns its text. */
  async function readMessage(subject: string): Promise<string> {
    await menu('Inboxes')
    await mouse.click('You')
    await browser.headed('You')
    // The subject is part of a cell with the first words of the message.
    await until(
      () =>
        browser.run(
          `const it = [...document.querySelectorAll('main a')].find((each) => each.innerText.includes(arguments[0]))
           it?.click()
           return it !== undefined`,
          subject,
        ),
      `the message ${subject}`,
    )
    await browser.headed(subject)
    return browser.run('return [...document.querySelectorAll("main pre")].map((each) => each.textContent).join("")')
  }

  async function makeSegment(): Promise<void> {
    await menu('Audiences')
    await mouse.click('Readers')
    await browser.headed('Readers')
    await mouse.says(/Subscribed\s*2/)
    await mouse.click('Segments')
    await browser.headed('Segments')
    await mouse.click('New segment')
    await browser.headed('New segment')
    await mouse.fill('#name', 'Named Ann')
    await browser.type('#what-0', 'Name')
    await mouse.fill('#value-0', 'ann')
    await mouse.click('Count contacts')
    await mouse.says(/1 contact matches, 1 of them would receive a campaign now\./)
    await mouse.click('Save segment')
    await browser.headed('Named Ann')
  }

  async function sendCampaign(): Promise<void> {
    await menu('Campaigns')
    await mouse.click('New campaign')
    await browser.headed('New campaign')
    await mouse.fill('#name', 'December')
    await mouse.fill('#subject', 'News for {{name}}')
    await browser.type('#audience', 'Readers')
    await mouse.click('Create draft')
    await browser.headed('December')
    await browser.type('#segment', 'Named Ann')
    await until(() => browser.run('return document.querySelector(".ProseMirror") !== null'), 'the editor')
    await mouse.fill('.ProseMirror', 'The farm shop opens on Friday. ')
    await mouse.click('Review and send')
    await browser.headed('Review and send')
    await mouse.says(/Recipients\s*1\b/)
    await mouse.click('Send now')
    await until(() => browser.run('return document.querySelector("dialog[open] .sure") !== null'), 'the question')
    await browser.click('dialog[open] .sure')
    await mouse.says(/Started: 1 recipient\./)
  }

  test(`a new user has a form, a confirmed subscriber, a segment and a campaign that arrives in ${MOST_MINUTES} minutes`, async (t) => {
    const start = performance.now()
    await browser.open(server.console)
    await browser.headed('Overview')
    await makeForm()
    const form: string = await browser.run('return document.querySelector("main a[href*=\'/f/\']").href')
    await signUp(form, 'confirm@friend.example', 'Bob')
    await signUp(form, server.user, 'Ann')
    await browser.open(server.url)
    const [link] = /http:\S+\/c\/\S+/.exec(await readMessage('Please confirm: Old Trees News')) ?? []
    assert.ok(link)
    await browser.open(link)
    await browser.headed('Subscribe to Old Trees News?')
    await mouse.click('Yes, subscribe')
    await browser.headed('You are subscribed')
    await browser.open(server.url)
    await makeSegment()
    await sendCampaign()
    assert.match(await readMessage('News for Ann'), /The farm shop opens on Friday\./)
    const seconds = (performance.now() - start) / 1000
    t.diagnostic(`${seconds.toFixed(1)} s, ${mouse.clicks} clicks`)
    assert.ok(seconds < MOST_MINUTES * 60, `${seconds} s`)
    assert.deepEqual((await server.api('GET', '/outbound-emails?filter[to]=confirm@friend.example')).length, 1)
  })
})
