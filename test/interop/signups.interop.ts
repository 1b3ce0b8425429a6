// A sign-up in a real browser, from the hosted form to the confirmation: the browser sends the origin of our pages, its
// policy lets the forms through, and axe-core finds no problem on any page, in eight languages.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LANGUAGES } from '../../src/recipients/languages.ts'
import { linkTo } from '../kit/signups.ts'
import { until } from '../kit/until.ts'
import { LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

const FORM = {
  name: 'Newsletter',
  title: 'Old Trees News',
  consent_text: 'I would like to receive Old Trees News once a month.',
  controller: 'Old Trees Ltd, Ghent',
  privacy_url: 'https://sandbox.example/privacy',
  fields: [{ key: 'name', label: null, required: true }],
}

withPrograms('sign-ups in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  let slug = ''

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    const [audience] = await server.api('GET', '/audiences')
    const relationships = { audience: { data: { type: 'audiences', id: audience.id } } }
    const form = await server.api('POST', '/forms', 'forms', FORM, { relationships })
    await server.api('PATCH', `/forms/${form.id}`, 'forms', { status: 'open' }, { id: form.id })
    slug = form.attributes.slug
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  const heading = (): Promise<string> => browser.run(`return document.querySelector('h1').innerText`)
  const press = (selector: string) => browser.run(`document.querySelector(${JSON.stringify(selector)}).click()`)
  const shown = (title: RegExp) =>
    until(async () => title.test(await heading().catch(() => '')), `a page with the heading ${String(title)}`)

  /** Fills in the hosted form and sends it. A browser that is faster than people gets the check page first. */
  async function signUp(email: string): Promise<void> {
    await browser.open(`${server.url}/f/${slug}`)
    await browser.run(
      `document.querySelector('[name=email]').value = ${JSON.stringify(email)};
       document.querySelector('[name=name]').value = 'Eve';
       document.querySelector('form [type=submit]').click()`,
    )
    await shown(/One more step|Check your inbox/)
    if (/One more step/.test(await heading())) await press('form [type=submit]')
    await shown(/Check your inbox/)
  }

  test('a visitor signs up, corrects the name and confirms with the pages alone (AU13, AU23)', async () => {
    await signUp('eve@friend.example')
    await browser.open(server.url + linkTo(server.data, 'eve@friend.example'))
    await shown(/^Subscribe to .+\?$/)
    await browser.run(`document.querySelector('[name=name]').value = 'Eva'`)
    await press('[value=confirm]')
    await shown(/You are subscribed/)
    const [audience] = await server.api('GET', '/audiences')
    const [contact] = await server.api('GET', `/audiences/${audience.id}/contacts?filter[email]=eve@friend.example`)
    assert.deepEqual([contact.attributes.status, contact.attributes.name], ['subscribed', 'Eva'])
  })

  for (const [scheme, width] of LOOKS)
    test(`axe-core finds no problem on the pages of a link in any language, ${scheme}, ${width} wide`, async () => {
      await browser.emulate(scheme, width)
      const email = `look-${scheme}-${width}@friend.example`
      await signUp(email)
      const link = server.url + linkTo(server.data, email)
      const faults: string[] = []
      const look = async (name: string): Promise<void> => {
        await browser.judge(name).catch((thrown: unknown) => faults.push(String(thrown)))
        await browser.shoot(`${name}-${scheme}-${width}`)
      }
      for (const lang of LANGUAGES) {
        await browser.open(`${link}?lang=${lang}`)
        await look(`confirm-${lang}`)
      }
      await browser.open(link)
      await browser.run(`document.querySelector('[name=name]').required = false;
        document.querySelector('[name=name]').value = '';
        document.querySelector('[value=confirm]').click()`)
      await until(async () => (await browser.run(`return !!document.querySelector('.errors')`)) === true, 'the errors')
      await look('confirm-errors')
      await press('[value=refuse]')
      await shown(/You are not subscribed/)
      await look('refused')
      assert.deepEqual(faults, [])
    })
})
