// The campaign editor in a real browser: autosave, four previews, forms for links, images and merge tags, pasted
// hostile text, and no data loss after a lost connection, an expired session or a second editor. The browser reports no
// errors, and axe-core finds no problem.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newPicture } from '../images/pictures.ts'
import { until } from '../kit/until.ts'
import { LOOKS, startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

withPrograms('the composer in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser
  const ids = { readers: '', shops: '', draft: '' }

  const stored = async (): Promise<{ body_html: string; subject: string }> =>
    (await server.api('GET', `/campaigns/${ids.draft}`)).attributes
  const open = async (): Promise<void> => {
    await browser.open(`${server.url}/campaigns/${ids.draft}/edit`)
    await browser.run(
      `for (const name of ['prompt', 'confirm', 'alert']) window[name] = () => { window.native = name; return null }`,
    )
  }
  const status = (): Promise<string> => browser.run('return document.querySelector("[data-saved]").textContent')
  const says = (what: RegExp): Promise<unknown> =>
    until(async () => what.test(await status()) || undefined, `${String(what)}, not`).catch(async () =>
      assert.match(await status(), what),
    )
  const tool = (name: string): Promise<unknown> => browser.click(`.toolbar [aria-label="${name}"]`)
  /** Fills in the fields of the small form that is open, and sends it. */
  const answer = (...values: string[]): Promise<unknown> =>
    browser.run(
      `const form = document.querySelector('dialog.pop form')
       const fields = [...form.querySelectorAll('.field:not([hidden]) input')]
       fields.forEach((field, at) => {
         if (arguments[at] === undefined) return
         field.value = arguments[at]
         field.dispatchEvent(new Event('input', { bubbles: true }))
       })
       form.querySelector('button:not([type=button])').click()`,
      ...values,
    )
  const isOpen = (): Promise<boolean> => browser.run('return document.querySelector("dialog.pop[open]") !== null')
  const choose = (selector: string, value: string): Promise<unknown> =>
    browser.run(
      `const field = document.querySelector(arguments[0])
       field.value = arguments[1]
       field.dispatchEvent(new Event('change', { bubbles: true }))`,
      selector,
      value,
    )
  const frame = (what: string): Promise<string> =>
    browser.run(`const page = document.querySelector('.seen iframe').contentDocument; return String(${what})`)
  /** The errors in the browser's console. */
  const faults = (): Promise<string[]> => browser.complaints()

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    const [domain] = await server.api('GET', '/domains')
    const relationships = { domain: { data: { type: 'domains', id: domain.id } } }
    const list = async (name: string, contacts: object[]): Promise<string> => {
      const { id } = await server.api('POST', '/audiences', 'audiences', { name }, { relationships })
      await server.api('POST', `/audiences/${id}/contacts/import`, 'contacts', { contacts })
      return id
    }
    ids.readers = await list('Readers', [
      { email: 'ben@there.example', name: 'Ben', custom_fields: { city: 'Bergen' } },
      { email: 'ada@there.example', name: 'Ada' },
    ])
    ids.shops = await list('Shops', [
      { email: 'shop@there.example', name: 'Shop', custom_fields: { certificateStore: '7' } },
    ])
    await browser.open(server.console)
  })
  after(async () => {
    await browser?.stop()
    await server?.stop()
  })

  test('a user starts a campaign from a design, writes it, and sees it saved automatically and previewed', async () => {
    await browser.emulate('light', 1280)
    await browser.open(`${server.url}/campaigns/new`)
    await browser.type('#name', 'December')
    await browser.type('#subject', 'News for {{name}}')
    await choose('#audience', ids.readers)
    await browser.click('input[value="newsletter"]')
    await browser.run('document.querySelector("main form:has(#audience) button").click()')
    await until(async () => (await browser.at()).endsWith('/edit'), 'the page to write on')
    ids.draft = /campaigns\/([^/]+)/.exec(await browser.at())![1]!
    await open()
    await browser.complaints()
    await browser.run('document.querySelector(".ProseMirror").focus()')
    await browser.type('.ProseMirror', 'The cheese is ripe.')
    await says(/^Saved \d/)
    assert.match((await stored()).body_html, /The cheese is ripe\./)
    await until(async () => (await frame('page.body?.innerText')).includes('The cheese is ripe.'), 'the preview')
    await browser.type('#preview_text', 'Ripe, {{name}}')
    await browser.type('#subject', '!')
    await until(async () => /News for Ada!\s+Ripe, Ada/.test(await frame('page.body?.innerText')), 'the head')
    // The person chooses whose mail is shown, and is told of a tag that says nothing to some.
    await browser.type('.ProseMirror', ' From {{city}}.')
    await until(
      () =>
        browser.run(
          'return /1 of 2 contacts has no city. Add/.test(document.querySelector("[data-warnings]").textContent)',
        ),
      'the warning',
    )
    await choose('[data-contact]', 'ben@there.example')
    await until(async () => (await frame('page.body?.innerText')).includes('From Bergen.'), 'Ben’s mail')
    await browser.shoot('composer')
    assert.deepEqual(await faults(), [])
  })

  test('the toolbar inserts links, buttons, images and merge tags, and undoes changes', async () => {
    await open()
    await browser.type('.ProseMirror', ' ')
    await tool('Link')
    await answer('nowhere at all', 'Our shop')
    assert.ok(await isOpen(), 'an address that leads nowhere is said to')
    await answer('sandbox.example/shop', 'Our shop')
    await until(async () => !(await isOpen()))
    await tool('Merge tag')
    await answer('friend')
    await tool('Button')
    await answer('sandbox.example/more', 'More')
    await browser.type('.ProseMirror', 'Behind the button.')
    await tool('Image')
    await answer('https://localhost:1/a.png', '')
    assert.ok(await isOpen(), 'the text is asked for')
    await answer('https://localhost:1/a.png', 'A goat')
    await until(async () => !(await isOpen()))
    await says(/^Saved \d/)
    await until(async () => (await stored()).body_html.includes('A goat'))
    const { body_html } = await stored()
    assert.match(body_html, /<a href="https:\/\/sandbox\.example\/shop">Our shop<\/a>\{\{name\|friend\}\}/)
    assert.match(body_html, /<p data-button=""><a href="https:\/\/sandbox\.example\/more" style="[^"]+">More<\/a><\/p>/)
    assert.match(body_html, /<img src="https:\/\/localhost:1\/a\.png" alt="A goat" style="max-width:100%;height:auto">/)
    assert.doesNotMatch(body_html, /data-css/)
    // A picture that cannot be fetched says why in its place.
    const wide = 'return [...document.querySelectorAll(".ProseMirror img")].map((each) => each.naturalWidth).join()'
    await until(async () => (await browser.run(wide)) === '340', 'a picture of words')
    await tool('Undo')
    await until(async () => !(await stored()).body_html.includes('A goat'), 'undone')
    await tool('Redo')
    await until(async () => (await stored()).body_html.includes('A goat'), 'done again')
    // The place of a picture is taken by one.
    await browser.run('document.querySelector("button.place").click()')
    await answer('https://localhost:1/b.png', 'A barn')
    await until(async () => /issue<\/h1><img [^>]*A barn/.test((await stored()).body_html), 'in its place')
    // A button is changed as a whole, and the keys open the form of a link.
    await browser.run('document.querySelector(".ProseMirror p[data-button]").scrollIntoView({ block: "center" })')
    await browser.click('.ProseMirror p[data-button]')
    await tool('Button')
    await answer('https://sandbox.example/news', 'News')
    await until(async () => />News<\/a>/.test((await stored()).body_html), 'changed')
    await browser.run(
      `document.querySelector('.ProseMirror').dispatchEvent(new KeyboardEvent('keydown', { key: 'k', ctrlKey: true, bubbles: true, cancelable: true }))`,
    )
    assert.ok(await isOpen())
    await browser.run(
      `document.querySelector('dialog.pop').dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }))`,
    )
    assert.equal(await isOpen(), false)
    assert.equal(await browser.run('return window.native ?? ""'), '')
    assert.deepEqual(await faults(), [])
  })

  test('an image with alternative text is uploaded into the email, and SVG is rejected', async () => {
    await open()
    await browser.complaints()
    await tool('Image')
    const give = (name: string, bytes: Buffer, deed: string): Promise<unknown> =>
      browser.run(
        `const transfer = new DataTransfer()
         const [name, text] = arguments
         const type = 'image/' + name.replace(/.*\\./, '').replace('svg', 'svg+xml')
         transfer.items.add(new File([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], name, { type }))
         const box = document.querySelector('dialog.pop .drop')
         const input = box.querySelector('input[type=file]')
         ${deed}`,
        name,
        bytes.toString('base64'),
      )
    const choice = 'input.files = transfer.files; input.dispatchEvent(new Event("change", { bubbles: true }))'
    const drop = 'box.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }))'
    const line = (): Promise<string> =>
      browser.run('return document.querySelector("dialog.pop [role=status]")?.innerText ?? ""')
    const said = (what: RegExp): Promise<unknown> => until(async () => what.test(await line()), String(what), line)
    const svg = Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>window.hacked = 1</script></svg>')
    for (const deed of [choice, drop]) {
      await give('goat.svg', svg, deed)
      await said(/The image is SVG, which email clients do not show/)
      // A refused request is a complaint of the browser, and the only one.
      assert.match(
        (await browser.complaints()).join('\n'),
        /^\S+\/pictures - Failed to load resource: [^\n]* 422 [^\n]*$/,
      )
      await give('none.png', newPicture(40, 20).subarray(0, 60), deed)
      await said(/The image is a PNG that is truncated/)
      await browser.complaints()
    }
    await give('goat.png', newPicture(1200, 300), choice)
    await said(/^Selected: goat\.png$/)
    const add = (words: string): Promise<unknown> =>
      browser.run(
        `const form = document.querySelector('dialog.pop form')
         document.activeElement.value = arguments[0]
         form.querySelector('button:not([type=button])').click()
         return form.innerText`,
        words,
      )
    // The focus is where the words are asked for.
    assert.match(String(await add('')), /Enter alternative text/)
    await add('The goat at the gate')
    await until(async () => !(await isOpen()))
    await until(async () => (await stored()).body_html.includes('The goat at the gate'), 'saved')
    const [, path] = new RegExp(
      `<img src="${server.url}(/images/[\\w-]+\\.png)" alt="The goat at the gate" width="544" height="136"`,
    ).exec((await stored()).body_html) ?? ['', '']
    assert.ok(path, (await stored()).body_html)
    await until(
      async () =>
        (await frame(
          `[...page.querySelectorAll('img')].find((each) => each.alt === 'The goat at the gate')?.naturalWidth`,
        )) === '1200',
      'the preview',
    )
    // It is dropped a second time: the same bytes are the same picture, and it is offered from now on.
    await tool('Image')
    await give('again.png', newPicture(1200, 300), drop)
    await said(/^Selected: goat\.png$/)
    const offered: string[] = await browser.run(
      'return [...document.querySelectorAll("dialog.pop .pictures img")].map((each) => new URL(each.src).pathname)',
    )
    assert.ok(offered.length > 0 && offered.every((each) => each === path), offered.join())
    assert.equal(await browser.run('return typeof window.hacked'), 'undefined')
    assert.deepEqual(await faults(), [])
  })

  test('the preview shows the email on desktop, on a phone, in dark mode and as plain text, at full height', async () => {
    await open()
    for (const [as, width, look] of [
      ['phone', 390, ''],
      ['dark', 720, 'dark'],
      ['plain', 720, ''],
      ['', 720, ''],
    ] as const) {
      await browser.click(`.segments [data-as="${as}"]`)
      await until(async () => (await frame('page.location.search')).includes(`as=${as}&`), as)
      await until(async () => Number(await frame('page.defaultView?.innerWidth')) === width, `${as} ${width}`)
      await until(async () => (await frame('page.documentElement?.className')).includes(look))
      assert.equal((await frame('page.querySelector("pre") !== null')) === 'true', as === 'plain')
      await until(async () => {
        const page = Number(await frame('Math.ceil(page.documentElement?.getBoundingClientRect().height)'))
        return Math.abs(Number(await frame('page.defaultView?.innerHeight')) - Math.max(240, page)) <= 2
      }, `${as}: a frame as high as the mail`)
      assert.ok(Number(await frame('page.documentElement.scrollWidth')) <= width, `${as} scrolls sideways`)
      await browser.shoot(`composer-${as || 'desk'}`)
    }
    await choose('#design', 'notice')
    await until(async () => /padding:\d+px 28px;background-color/.test((await stored()).body_html), 'another design')
    assert.match((await stored()).body_html, /Our shop/)
    assert.deepEqual(await faults(), [])
  })

  test('pasted hostile HTML runs no scripts and loads no resources', async () => {
    await open()
    const paste = (html: string): Promise<unknown> =>
      browser.run(
        `const data = new DataTransfer()
         data.setData('text/html', arguments[0])
         document.querySelector('.ProseMirror').dispatchEvent(new ClipboardEvent('paste', { clipboardData: data, bubbles: true, cancelable: true }))`,
        html,
      )
    await paste(
      '<p style="color:red" onclick="window.hacked = 1">pasted</p><script>window.hacked = 1</script><img src="x" onerror="window.hacked = 1"><iframe srcdoc="<script>top.hacked = 1</script>"></iframe><a href="javascript:window.hacked = 1">trap</a><svg onload="window.hacked = 1"></svg>',
    )
    await says(/^Saved \d/)
    const { body_html } = await stored()
    assert.match(body_html, /pasted/)
    assert.doesNotMatch(body_html, /<script|onclick|onerror|javascript:|iframe|svg/)
    await paste(`${'<div>'.repeat(20_000)}deep`)
    await paste('<b>x</b>'.repeat(300_000))
    assert.match(
      await browser.run('return document.querySelector(".toast").textContent'),
      /larger than 1 MB and was not inserted/,
    )
    assert.equal(await browser.run('return typeof window.hacked'), 'undefined')
    assert.ok((await stored()).body_html.length < 100_000)
    assert.deepEqual(await faults(), [])
  })

  test('the browser keeps the text while the connection is lost or the session has expired', async () => {
    await open()
    await browser.run('window.whole = window.fetch; window.fetch = () => Promise.reject(new TypeError("gone"))')
    await browser.type('.ProseMirror', ' Written in a tunnel.')
    await says(/^No connection\. Your changes are kept in this browser/)
    // The page is closed, and opened again when there is a connection.
    await open()
    await until(async () => (await stored()).body_html.includes('Written in a tunnel.'), 'saved later')
    await browser.cdp('Network.enable', {})
    const { cookies } = (await browser.cdp('Network.getAllCookies', {})) as { cookies: object[] }
    await browser.cdp('Network.clearBrowserCookies', {})
    await browser.type('.ProseMirror', ' Written too late.')
    await says(/^Your session has expired\. Your changes are kept in this browser.*Sign in/)
    await browser.cdp('Network.setCookies', { cookies })
    await until(async () => (await stored()).body_html.includes('Written too late.'), 'saved when signed in again')
    await says(/^Saved \d/)
    assert.equal(
      await browser.run('return Object.keys(localStorage).filter((each) => each.startsWith("draft")).length'),
      0,
    )
    await browser.complaints()
  })

  test('unsaved changes are saved before the review', async () => {
    await open()
    await browser.type('.ProseMirror', ' At last.')
    await browser.run('document.querySelector("a[data-review]").click()')
    await until(async () => (await browser.at()).endsWith(`/campaigns/${ids.draft}/send`), 'the review')
    assert.match((await stored()).body_html, /At last\./)
  })

  test('if two users edit a campaign, the second is notified and sees both versions', async () => {
    await open()
    await server.api('PATCH', `/campaigns/${ids.draft}`, 'campaigns', { subject: 'By a colleague' }, { id: ids.draft })
    await browser.type('.ProseMirror', ' Mine.')
    await says(/^Another version was saved in the meantime\./)
    assert.equal((await stored()).subject, 'By a colleague')
    await browser.run('document.querySelector("[data-saved] button").click()')
    await until(
      async () =>
        /The other version:[^]*By a colleague/.test(
          await browser.run('return document.querySelector("main").innerText'),
        ),
      'both versions',
    )
    assert.match(await browser.run('return document.querySelector(".ProseMirror").innerText'), /Mine\./)
    await browser.run('document.querySelector(".composer form > button, .composer form button:not([type])").click()')
    await until(async () => (await stored()).body_html.includes('Mine.'), 'mine replaces theirs')
    await browser.complaints()
  })

  test('a user can accept the other version, and the discarded changes do not return', async () => {
    await open()
    await server.api('PATCH', `/campaigns/${ids.draft}`, 'campaigns', { subject: 'Taken' }, { id: ids.draft })
    await browser.type('.ProseMirror', ' Given up.')
    await says(/^Another version was saved in the meantime\./)
    const both = async (): Promise<void> => {
      await until(() => browser.run('return document.querySelector("[data-theirs]") !== null'), 'both versions')
      // The script has taken the page over.
      await until(() => browser.run('return document.querySelector(".toolbar") !== null'))
    }
    await browser.run('document.querySelector("[data-saved] button").click()')
    await both()
    // Left in another way, the person is asked, and nothing is saved by itself.
    await open()
    await until(() => browser.run('return /Use my changes/.test(document.querySelector("main").innerText)'), 'asked')
    assert.doesNotMatch(await browser.run('return document.querySelector(".ProseMirror").innerText'), /Given up/)
    await browser.run(
      '[...document.querySelectorAll("button")].find((each) => each.textContent === "Use my changes").click()',
    )
    await until(async () => (await stored()).body_html.includes('Given up.'), 'taken back')
    // Once more, and now theirs is taken.
    await says(/^Saved \d/)
    await server.api('PATCH', `/campaigns/${ids.draft}`, 'campaigns', { subject: 'Again' }, { id: ids.draft })
    await browser.type('.ProseMirror', ' Forgotten.')
    await says(/^Another version was saved in the meantime\./)
    await browser.run('document.querySelector("[data-saved] button").click()')
    await both()
    await browser.run('document.querySelector("[data-theirs]").click()')
    await until(
      () =>
        browser.run('return document.querySelector("[data-theirs]") === null && document.querySelector(".toolbar")'),
      'theirs',
    )
    assert.equal(await browser.run('return document.querySelector("#subject").value'), 'Again')
    // Longer than it takes until a text is saved by itself.
    await new Promise((resolve) => setTimeout(resolve, 2500))
    const now = await stored()
    assert.equal(now.subject, 'Again')
    assert.doesNotMatch(now.body_html, /Forgotten/)
    assert.equal(
      await browser.run('return Object.keys(localStorage).filter((each) => each.startsWith("draft")).length'),
      0,
    )
    await browser.complaints()
  })

  test('the image form opens without scrolling the page, and Cancel and Escape close it', async () => {
    await browser.emulate('light', 1280)
    await open()
    for (const end of ['Cancel', 'Escape']) {
      const before: number = await browser.run('scrollTo(0, 120); return scrollY')
      await browser.run('document.querySelector(`.toolbar [aria-label="Image"]`).click()')
      assert.ok(await isOpen())
      const inside: boolean = await browser.run(
        `const { bottom, left, right, top } = document.querySelector('dialog.pop').getBoundingClientRect()
         return top >= 0 && left >= 0 && right <= innerWidth && bottom <= innerHeight`,
      )
      assert.ok(inside, 'the form is in the window')
      await browser.shoot('composer-picture')
      if (end === 'Cancel')
        await browser.run(
          '[...document.querySelectorAll("dialog.pop button")].find((each) => each.textContent === "Cancel").click()',
        )
      else
        for (const type of ['keyDown', 'keyUp'])
          await browser.cdp('Input.dispatchKeyEvent', {
            type,
            key: 'Escape',
            code: 'Escape',
            windowsVirtualKeyCode: 27,
          })
      await until(async () => !(await isOpen()), end)
      assert.equal(await browser.run('return scrollY'), before, end)
    }
    // The small forms stay where the text is, too.
    const at: number = await browser.run('return scrollY')
    await tool('Link')
    assert.equal(await browser.run('return scrollY'), at)
    assert.deepEqual(await faults(), [])
  })

  test('another audience changes the merge tags, and unsupported HTML is only dropped after a confirmation', async () => {
    await open()
    await choose('#audience', ids.shops)
    await until(
      () =>
        browser.run('return document.querySelector("[data-tag-list]").textContent.includes("{{certificateStore}}")'),
      'the tags of the shops',
    )
    assert.equal(
      await browser.run('return document.querySelector("[data-tag-list]").textContent.includes("{{city}}")'),
      false,
    )
    await tool('HTML source')
    await browser.run(`document.querySelector('#body_html').value += '<table><tr><td>x</td></tr></table>'`)
    await tool('HTML source')
    await until(() =>
      browser.run('return document.querySelector("dialog[open] h2")?.textContent === "Open in the editor?"'),
    )
    await browser.run('document.querySelector("dialog[open] button:not(.sure)").click()')
    assert.equal(await browser.run('return document.querySelector("#body_html").hidden'), false)
    assert.match(await browser.run('return document.querySelector("#body_html").value'), /<table>/)
    assert.deepEqual(await faults(), [])
  })

  test('axe-core finds no problem, light and dark, wide and narrow, and the pages do not scroll sideways', async () => {
    for (const [scheme, width] of LOOKS) {
      await browser.emulate(scheme, width)
      for (const [path, part] of [
        [`/campaigns/${ids.draft}/edit`, 'Preview'],
        [`/campaigns/${ids.draft}/edit`, 'Image'],
      ] as const) {
        await browser.open(server.url + path)
        if (width < 500 && part === 'Preview') await browser.click('.panes button:nth-child(2)')
        if (part === 'Image') await browser.run('document.querySelector(`.toolbar [aria-label="Image"]`).click()')
        await browser.judge(`composer ${path} ${part}, ${scheme}, ${width}`)
      }
    }
  })
})
