// The unsubscribe page in a real browser: headless Chromium, driven by chromedriver over WebDriver (W3C), reads it,
// reaches its button by keyboard, clicks it and comes back. If POSTRIDER_SHOTS is set to a directory, it saves
// screenshots of every page in light, dark and on a phone.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import { raw } from '../../src/store/query.ts'
import type { Domain } from '../../src/domains/find.ts'
import { newPicture } from '../images/pictures.ts'
import { document, startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { absent, LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { withPrograms } from './rig/need.ts'

withPrograms('the unsubscribe page in Chromium', absent, () => {
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

  test('the button unsubscribes, and the next one resubscribes', async () => {
    await browser.open(await link('ann@there.test', 'Readers'))
    await browser.headed('Unsubscribe?')
    assert.equal(await left('ann@there.test'), false)
    await browser.click('button')
    await browser.headed('You are unsubscribed')
    assert.equal(await left('ann@there.test'), true)
    await browser.click('button')
    await browser.headed('Unsubscribe?')
    assert.equal(await left('ann@there.test'), false)
  })

  test('one press of Tab reaches the button, and Enter presses it', async () => {
    await browser.open(await link('keys@there.test', 'Readers'))
    await browser.press('\uE004')
    assert.equal(await browser.run('return document.activeElement.textContent.trim()'), 'Unsubscribe')
    assert.notEqual(await browser.run('return getComputedStyle(document.activeElement).outlineStyle'), 'none')
    await browser.press('\uE007')
    await browser.headed('You are unsubscribed')
    assert.equal(await left('keys@there.test'), true)
  })

  test('shows a hostile name as text, and makes no other request', async () => {
    const name = '<img src=x onerror="document.title=1"><script>document.title=2</script>'
    await browser.open(await link('hostile@there.test', name))
    assert.ok((await browser.run('return document.querySelector("main").innerText')).includes(name))
    assert.equal(await browser.run('return document.title'), 'Unsubscribe?')
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
        for (const part of ['h1', 'p', 'strong', 'button'])
          assert.ok((await browser.contrast(part)) >= 4.5, `${part} in ${scheme}: ${await browser.contrast(part)}`)
        if (colour) assert.ok(await browser.run('return document.querySelector(".sender img").naturalWidth === 240'))
        const said = (await browser.complaints()).filter((line) => !line.includes('/favicon.ico'))
        assert.deepEqual(said, [])
        await browser.click('button')
        await browser.headed('You are unsubscribed')
        await browser.look(scheme, width, `left-${scheme}-${width}${colour?.slice(1) ?? ''}`)
        for (const part of ['h1', 'p:not(.sender)', '.soft', 'button.plain'])
          assert.ok((await browser.contrast(part)) >= 4.5, `${part} in ${scheme}: ${await browser.contrast(part)}`)
      }
    })

  test('an unknown link shows an error page', async () => {
    const { host, port } = postrider.appliance.http
    await browser.open(`http://${host}:${port}/u/none`)
    await browser.headed('Invalid link')
    await browser.shoot('unknown')
  })
})
