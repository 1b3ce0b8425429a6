// The page of a subscriber and that of the stored data in a real browser: headless Chromium, driven by chromedriver
// over WebDriver (W3C), reads them, reaches the button by keyboard, clicks it and comes back. axe-core checks them in
// every language. If POSTRIDER_SHOTS is set to a directory, it saves screenshots of every page.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import { dataUrl } from '../../src/recipients/data-link.ts'
import { LANGUAGES, textsIn } from '../../src/recipients/languages.ts'
import { raw } from '../../src/store/query.ts'
import type { Domain } from '../../src/domains/find.ts'
import { newPicture } from '../images/pictures.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { until } from '../kit/until.ts'
import { absent, LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { withPrograms } from './rig/need.ts'

withPrograms('the page of a subscriber in Chromium', absent, () => {
  let postrider: TestAppliance
  let domain: Domain
  let browser: Browser
  const kit = campaignKit(() => postrider)

  before(async () => {
    postrider = await startTestAppliance()
    domain = await postrider.activeDomain('here.test')
    browser = await startBrowser()
  })
  after(async () => {
    await browser.stop()
    await postrider.stop()
  })

  /** The link of a contact of a new audience. */
  async function link(email: string, title: string): Promise<string> {
    const id = await kit.audience(domain)
    await postrider.api('PATCH', `/audiences/${id}`, document('audiences', { title: title.slice(0, 100) }, { id }))
    await kit.fill(id, [email])
    const { http, deps } = postrider.appliance
    const leaving = { delivery: 0, domain: domain.key, audience: 0, email }
    const audience = deps.store.first<{ key: number }>(raw('select max(key) as key from audiences'))!
    return unsubscribeUrl(deps.keyring, `http://${http.host}:${http.port}`, { ...leaving, audience: audience.key })
  }
  const left = async (email: string): Promise<boolean> =>
    (await postrider.api('GET', `/suppressions?filter[email]=${email}`)).body.data.length > 0
  /** Waits for what the page says was done. */
  const said = (text: RegExp): Promise<unknown> =>
    until(
      async () => text.test((await browser.run('return document.querySelector("[role=status]")?.textContent')) ?? ''),
      String(text),
    )
  const LEFT = /You no longer receive newsletters from here\.test/

  test('the button unsubscribes, and the next one resubscribes', async () => {
    await browser.open(await link('ann@there.test', 'Readers'))
    await browser.headed('Your subscription')
    assert.equal(await left('ann@there.test'), false)
    await browser.click('button')
    await said(LEFT)
    assert.equal(await left('ann@there.test'), true)
    await browser.click('button')
    await said(/You are subscribed again/)
    assert.equal(await left('ann@there.test'), false)
  })

  test('one press of Tab reaches the button, and Enter presses it', async () => {
    await browser.open(await link('keys@there.test', 'Readers'))
    await browser.press('\uE004')
    assert.equal(
      await browser.run('return document.activeElement.textContent.trim()'),
      'Unsubscribe from everything from here.test',
    )
    assert.notEqual(await browser.run('return getComputedStyle(document.activeElement).outlineStyle'), 'none')
    await browser.press('\uE007')
    await said(LEFT)
    assert.equal(await left('keys@there.test'), true)
  })

  test('shows a hostile name as text, and makes no other request', async () => {
    const name = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    await link('hostile@there.test', 'Other')
    await browser.open(await link('hostile@there.test', name))
    assert.ok((await browser.run('return document.querySelector("main").innerText')).includes(name))
    assert.equal(await browser.run('return document.title'), 'Your subscription')
    assert.equal(await browser.run('return document.querySelectorAll("img, script, link, iframe").length'), 0)
    assert.equal(
      await browser.run(
        'return performance.getEntriesByType("resource").filter((e) => !e.name.endsWith("/favicon.ico")).length',
      ),
      0,
    )
  })

  /** Stores a logo and gives the account a brand with this colour. */
  async function brand(colour: string): Promise<void> {
    const content = newPicture(240, 80).toString('base64')
    const image = await postrider.api('POST', '/images', document('images', { name: 'logo', content }))
    const { url } = image.body.data.attributes
    const { id } = postrider.user
    const given = { sender_name: 'Old Trees', logo: url, colour }
    assert.equal((await postrider.api('PATCH', '/brand', document('brands', given, { id }))).status, 200)
  }

  for (const colour of [undefined, '#ffee00', '#12123a'])
    test(`is readable in light and dark, on a desktop and on a phone, with the colour ${colour ?? 'of no brand'}`, async () => {
      if (colour) await brand(colour)
      for (const [scheme, width] of LOOKS) {
        const local = `somebody.with.a.long.address+newsletters.${scheme}${width}${colour?.slice(1) ?? ''}`
        await browser.open(
          await link(
            `${local}@a-rather-long-domain-name.there.test`,
            'The Weekly Letter of the Society for the Preservation of Old Trees and Hedgerows',
          ),
        )
        await browser.look(scheme, width, `asked-${scheme}-${width}${colour?.slice(1) ?? ''}`)
        for (const part of ['h1', 'h2', 'p', 'button', 'select', 'nav a', 'nav a[aria-current]'])
          assert.ok((await browser.contrast(part)) >= 4.5, `${part} in ${scheme}: ${await browser.contrast(part)}`)
        if (colour) assert.ok(await browser.run('return document.querySelector(".sender img").naturalWidth === 240'))
        const warnings = (await browser.complaints()).filter((line) => !line.includes('/favicon.ico'))
        assert.deepEqual(warnings, [])
        await browser.click('button')
        await said(LEFT)
        await browser.look(scheme, width, `left-${scheme}-${width}${colour?.slice(1) ?? ''}`)
        for (const part of ['h1', 'h2', 'p:not(.sender)', 'button.plain'])
          assert.ok((await browser.contrast(part)) >= 4.5, `${part} in ${scheme}: ${await browser.contrast(part)}`)
      }
    })

  for (const lang of LANGUAGES)
    test(`axe-core finds no problem with the pages in ${lang} (AU58)`, async () => {
      const email = `axe.${lang}@there.test`
      await link(email, 'The Weekly Letter')
      const subscriber = await link(email, 'The Society for the Preservation of Old Trees and Hedgerows')
      const { http, deps } = postrider.appliance
      const data = dataUrl(deps.keyring, `http://${http.host}:${http.port}`, { domain, email }, postrider.clock.now())
      for (const scheme of ['light', 'dark'])
        for (const width of [390, 1280]) {
          await browser.emulate(scheme, width)
          for (const [name, url, title] of [
            ['subscriber', subscriber, 'page_title'],
            ['data', data, 'data_page_title'],
          ] as const) {
            await browser.open(`${url}?lang=${lang}`)
            await browser.headed(textsIn(lang).t(title))
            await browser.judge(`${name} ${lang} ${scheme} ${width}`)
            assert.deepEqual(await browser.nameless(), [])
          }
        }
      await browser.emulate('light', 320)
      await browser.open(`${subscriber}?lang=${lang}`)
      await browser.judge(`subscriber ${lang} 320`)
      await browser.click('button')
      await until(() => browser.run('return document.querySelector("[role=status]") !== null'), 'the status')
      await browser.judge(`subscriber ${lang} after unsubscribing`)
    })

  test('an unknown link shows an error page', async () => {
    const { host, port } = postrider.appliance.http
    await browser.open(`http://${host}:${port}/u/none`)
    await browser.headed('This link does not work')
    await browser.shoot('unknown')
  })
})
