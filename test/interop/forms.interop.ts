// The hosted form of the executable in a real browser: axe-core finds no problem in any language, in two schemes and
// two widths, people do not see the hidden field, and the keyboard does not reach it.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { LANGUAGES } from '../../src/recipients/languages.ts'
import { LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

const WORDS = { title: 'Old Trees News', consent_text: 'I would like to receive Old Trees News once a month.' }
const FORM = {
  name: 'Website',
  intro: 'What happens in the forest.\nOnce a month.',
  controller: 'Old Trees Ltd, Ghent',
  privacy_url: 'https://sandbox.example/privacy',
  consent_checkbox: true,
  fields: [
    { key: 'name', label: null, required: true },
    { key: 'city', label: 'City', required: false },
  ],
}

withPrograms('hosted forms in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  const open: { slug: string; honeypot: string }[] = []

  async function make(relation: string, type: string, id: string, attributes: object): Promise<void> {
    const relationships = { [relation]: { data: { type, id } } }
    const form = await server.api('POST', '/forms', 'forms', { ...FORM, ...attributes }, { relationships })
    await server.api('PATCH', `/forms/${form.id}`, 'forms', { status: 'open' }, { id: form.id })
    open.push(form.attributes)
  }

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    const [audience] = await server.api('GET', '/audiences')
    const [inbox] = await server.api('GET', '/inboxes')
    const translations = Object.fromEntries(LANGUAGES.slice(1).map((lang) => [lang, WORDS]))
    await make('audience', 'audiences', audience.id, { ...WORDS, language: 'en', translations })
    await make('inbox', 'inboxes', inbox.id, { title: 'Write to us', name: 'Contact', consent_checkbox: false })
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  test('the HTML for other websites is valid in a page of another origin', async () => {
    const all = await server.api('GET', '/forms')
    for (const { id } of all) {
      const { embed_html } = (await server.api('GET', `/forms/${id}`)).attributes
      await browser.open(
        `data:text/html,${encodeURIComponent(`<!doctype html><html lang="en"><title>x</title><main><h1>x</h1>${embed_html}</main>`)}`,
      )
      const controls: string[] = await browser.run(
        `return [...document.forms[0].elements].filter((each) => each.type !== 'hidden' && each.tabIndex >= 0)
          .map((each) => (each.labels?.[0] ?? each).innerText.trim())`,
      )
      assert.ok(controls.length >= 2 && controls.every((each) => each !== ''), controls.join())
    }
  })

  for (const [scheme, width] of LOOKS)
    test(`axe-core finds no problem on a hosted form in any language, ${scheme}, ${width} wide`, async () => {
      await browser.emulate(scheme, width)
      const [signUp, contact] = open
      const paths = [...LANGUAGES.map((lang) => `/f/${signUp!.slug}?lang=${lang}`), `/f/${contact!.slug}`, '/f/none']
      const faults: string[] = []
      for (const path of paths) {
        await browser.open(server.url + path)
        const name = `${path}, ${scheme}, ${width}`
        await browser.judge(name).catch((thrown: unknown) => faults.push(String(thrown)))
        await browser.shoot(name.replaceAll(/\W+/g, '-'))
      }
      assert.deepEqual(faults, [])
    })

  test('people do not see the hidden field, the keyboard does not reach it, and each control is at least 44 pixels high', async () => {
    const [{ honeypot, slug } = { honeypot: '', slug: '' }] = open
    await browser.open(`${server.url}/f/${slug}`)
    const [seen, reached, heights] = await browser.run(
      `const field = document.querySelector('[name="' + arguments[0] + '"]')
       const box = field.getBoundingClientRect()
       const controls = [...document.querySelectorAll('main :is(input, button)')]
         .filter((each) => each.type !== 'hidden' && each !== field)
       return [box.right > 0, field.tabIndex >= 0, controls.map((each) =>
         Math.round((each.closest('label') ?? each).getBoundingClientRect().height))]`,
      honeypot,
    )
    assert.deepEqual([seen, reached], [false, false])
    assert.ok(
      (heights as number[]).every((each) => each >= 44),
      String(heights),
    )
  })
})
