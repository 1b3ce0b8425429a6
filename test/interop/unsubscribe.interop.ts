// The unsubscribe page in a real browser: headless Chromium, driven by chromedriver over WebDriver (W3C), reads it,
// reaches its button by keyboard, clicks it and comes back. With POSTRIDER_SHOTS set to a folder it leaves pictures of
// every page in light, dark and on a phone.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe-token.ts'
import { raw } from '../../src/store/query.ts'
import type { Domain } from '../../src/domains/find.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
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
  async function link(email: string, name: string): Promise<string> {
    await kit.fill(await kit.audience(domain, name), [email])
    const { http, deps } = postrider.appliance
    const leaving = { delivery: 0, domain: domain.key, audience: 0, email }
    const audience = deps.store.first<{ key: number }>(raw('select max(key) as key from audiences'))!
    return unsubscribeUrl(deps.keyring, `http://${http.host}:${http.port}`, { ...leaving, audience: audience.key })
  }
  const left = async (email: string): Promise<boolean> =>
    (await postrider.api('GET', `/suppressions?filter[email]=${email}`)).body.data.length > 0

  test('the button unsubscribes, and the one after it takes it back', async () => {
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

  test('one press of Tab reaches the button, Enter presses it', async () => {
    await browser.open(await link('keys@there.test', 'Readers'))
    await browser.press('\uE004')
    assert.equal(await browser.run('return document.activeElement.textContent.trim()'), 'Unsubscribe')
    assert.notEqual(await browser.run('return getComputedStyle(document.activeElement).outlineStyle'), 'none')
    await browser.press('\uE007')
    await browser.headed('You are unsubscribed')
    assert.equal(await left('keys@there.test'), true)
  })

  test('a hostile name is text; nothing else is asked for', async () => {
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

  test('readable in light and dark, on a desk and on a phone', async () => {
    for (const [scheme, width] of LOOKS) {
      const long = `somebody.with.a.long.address+newsletters.${scheme}${width}@a-rather-long-domain-name.there.test`
      await browser.open(
        await link(long, 'The Weekly Letter of the Society for the Preservation of Old Trees and Hedgerows'),
      )
      await browser.look(scheme, width, `asked-${scheme}-${width}`)
      for (const part of ['h1', 'p', 'strong', 'button'])
        assert.ok((await browser.contrast(part)) >= 4.5, `${part} in ${scheme}: ${await browser.contrast(part)}`)
      await browser.click('button')
      await browser.headed('You are unsubscribed')
      await browser.look(scheme, width, `left-${scheme}-${width}`)
      for (const part of ['h1', 'p', '.soft', 'button.plain'])
        assert.ok((await browser.contrast(part)) >= 4.5, `${part} in ${scheme}: ${await browser.contrast(part)}`)
    }
    const { host, port } = postrider.appliance.http
    await browser.open(`http://${host}:${port}/u/none`)
    await browser.shoot('unknown')
  })
})
