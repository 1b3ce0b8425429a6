// Users in a real browser: an operator invites a user in the console. The user opens the received email and signs in
// with the keyboard only, another one with a passkey. axe-core checks every page. POSTRIDER_SHOTS is the directory for
// screenshots.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { systemClock } from '../../src/base/clock.ts'
import { silentLog } from '../../src/base/log.ts'
import { makeLink } from '../../src/users/sign-in-links.ts'
import { requireUser } from '../../src/users/users.ts'
import { startSandbox, type Sandbox } from '../../src/server/sandbox/start.ts'
import { until } from '../kit/until.ts'
import { absent, LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { withPrograms } from './rig/need.ts'

const [TAB, ENTER] = ['\uE004', '\uE007']

withPrograms('users in Chromium', absent, () => {
  const dataDir = mkdtempSync(join(tmpdir(), 'postrider-people-'))
  const received: { to: string; text: string }[] = []
  let sandbox: Sandbox
  let browser: Browser

  const words = (): Promise<string> => browser.run('return document.querySelector("main")?.innerText ?? ""')
  const says = (what: RegExp): Promise<unknown> => until(async () => what.test(await words()), String(what))
  const open = (path: string): Promise<unknown> => browser.open(sandbox.url + path)
  const click = (label: string): Promise<unknown> =>
    until(async () => {
      const found = await browser.run(
        `const one = [...document.querySelectorAll('a, button')].find((each) => each.textContent.trim() === arguments[0])
         one?.click()
         return one !== undefined`,
        label,
      )
      return found as boolean
    }, label)
  const asked = (): Promise<string> => browser.run('return document.querySelector("dialog[open]")?.innerText ?? ""')
  const sure = async (): Promise<string> => {
    const question = await until(async () => (await asked()) || undefined, 'the question')
    await browser.click('dialog[open] .sure')
    return question
  }
  /** The link in the mail that the sandbox received for an address. */
  const linkTo = (address: string): Promise<string> =>
    until(() => {
      const mail = received.findLast(({ to }) => to === address)
      return mail && /http:\S+\/join\?link=[\w.-]+/.exec(mail.text)?.[0]
    }, `the mail to ${address}`)
  const signInAsOperator = async (): Promise<void> => {
    const { clock, store } = sandbox.appliance.deps
    const user = requireUser(store, sandbox.user)
    await browser.run('document.querySelector(`form[action="/sign-out"] button`)?.click()')
    await open(`/sign-in?link=${await store.write((tx) => makeLink(tx, user, clock.now()))}`)
    await click('Sign in')
    await browser.headed('Overview')
  }
  const invite = async (email: string): Promise<void> => {
    await open('/people/new')
    await browser.type('#email', email)
    await click('Send invitation')
    await says(/Pending invitation/)
  }

  before(async () => {
    const here = { host: '127.0.0.1', port: 0 }
    sandbox = await startSandbox({
      http: here,
      smtp: here,
      dataDir,
      clock: systemClock,
      log: silentLog,
      received({ message, to }) {
        // Long lines are cut by quoted-printable (RFC 2045 §6.7).
        const text = message.toString('latin1').replaceAll(/=\r\n/g, '').replaceAll('=3D', '=')
        for (const each of to) received.push({ to: each, text })
      },
    })
    browser = await startBrowser()
    await browser.emulate('light', 1280)
  })
  after(async () => {
    await browser?.stop()
    await sandbox?.stop()
    rmSync(dataDir, { recursive: true, force: true })
  })

  test('an invited user accepts the invitation from the email with the keyboard only', async () => {
    assert.match(sandbox.consoleLink, /^http:\/\/localhost:/, 'a name, so that passkeys work')
    await browser.open(sandbox.consoleLink)
    await browser.headed('Overview')
    await click('Users')
    await click('Invite user')
    await browser.headed('Invite a user')
    await browser.type('#email', `maria@shop.example${TAB}Maria${ENTER}`)
    await browser.headed('Maria')
    await says(/maria@shop\.example was invited/)
    const link = await linkTo('maria@shop.example')
    await open('/people')
    await says(/Pending invitations[^]*maria@shop\.example/)
    assert.equal(await browser.run('return document.querySelector("[id^=link-]").textContent'), link)

    await browser.run('document.querySelector(`form[action="/sign-out"] button`).click()')
    await browser.headed('Sign in to Postrider')
    await browser.open(link)
    await browser.headed('Welcome to Postrider')
    const focused = (): Promise<string> => browser.run('return document.activeElement?.id ?? ""')
    for (let keys = 0; (await focused()) !== 'password'; keys++) {
      assert.ok(keys < 5, 'the field is near')
      await browser.press(TAB)
    }
    for (const key of `keyboard only${ENTER}`) await browser.press(key)
    await browser.headed('Overview')
    await open('/account')
    await says(/maria@shop\.example[^]*Reader of you@sandbox\.example[^]*Chrome on Linux/)
    await browser.open(link)
    await browser.headed('This invitation was already used')
  })

  test('an invited user signs in with a passkey', async () => {
    await signInAsOperator()
    await invite('pat@shop.example')
    const link = await linkTo('pat@shop.example')
    await browser.open(link)
    await browser.headed('You are signed in as another user')
    await click('Sign out and accept the invitation')
    await browser.headed('Welcome to Postrider')
    await browser.cdp('WebAuthn.enable', {})
    const options = { protocol: 'ctap2', transport: 'internal', hasResidentKey: true, hasUserVerification: true }
    await browser.cdp('WebAuthn.addVirtualAuthenticator', {
      options: { ...options, isUserVerified: true, automaticPresenceSimulation: true },
    })
    await until(() => browser.run('return document.querySelector("[data-passkey][data-ready]") !== null'), 'the script')
    await click('Use a passkey instead')
    await browser.headed('Overview')
    await browser.run('document.querySelector(`form[action="/sign-out"] button`).click()')
    await browser.headed('Sign in to Postrider')
    await until(() => browser.run('return document.querySelector("[data-passkey][data-ready]") !== null'), 'the script')
    await click('Sign in with a passkey')
    await browser.headed('Overview')
    await open('/account')
    await says(/pat@shop\.example/)
    await browser.open(`${sandbox.url.replace('localhost', '127.0.0.1')}/sign-in`)
    await until(() => browser.run('return document.querySelector("[data-passkey][data-ready]") !== null'), 'the script')
    await click('Sign in with a passkey')
    await says(/Passkeys work at localhost only\. This page is at 127\.0\.0\.1/)
    await open('/')
  })

  test('an operator changes a role, resends and withdraws an invitation, and removes a user after a confirmation', async () => {
    await signInAsOperator()
    await invite('lee@shop.example')
    const first = await linkTo('lee@shop.example')
    await click('Resend')
    await says(/lee@shop\.example has a new link/)
    await until(async () => (await linkTo('lee@shop.example')) !== first, 'the second mail')
    await click('Withdraw')
    assert.match(await sure(), /Withdraw\?[^]*stops working/)
    await says(/The invitation of lee@shop\.example was withdrawn/)

    await click('maria@shop.example')
    await browser.headed('Maria')
    await click('Make operator')
    await sure()
    await says(/New role of maria@shop\.example: Operator/)
    await click('Remove operator rights')
    await sure()
    await says(/New role of maria@shop\.example: Reader of you@sandbox\.example/)
    await click('Remove user')
    assert.match(await sure(), /signed out at once[^]*0 tokens/)
    await says(/maria@shop\.example was removed/)
  })

  test('axe-core finds no problem on the user pages, and they do not scroll sideways', async () => {
    await signInAsOperator()
    await invite(`${'a.very.long.name.of.somebody.'.repeat(2)}x@${'long-'.repeat(11)}domain.example`)
    const invited = new URL(await browser.at()).pathname
    await invite('you+colleague@sandbox.example')
    await says(/is delivered to this server, where other users may be able to read it/)
    const link = new URL(await browser.run('return document.querySelector("#invitation").textContent'))
    const judge = async (places: readonly string[]): Promise<void> => {
      for (const [scheme, width] of LOOKS) {
        await browser.emulate(scheme, width)
        for (const path of places) {
          await open(path)
          await browser.judge(`people ${path.replace(/=.*/, '')}, ${scheme}, ${width}`)
        }
      }
    }
    const pat = requireUser(sandbox.appliance.deps.store, 'pat@shop.example')
    const join = link.pathname + link.search
    await judge(['/people', invited, `/people/${pat.id}`, join])
    await browser.run('document.querySelector(`form[action="/sign-out"] button`)?.click()')
    await judge([join, '/join', '/sign-in'])
  })
})
