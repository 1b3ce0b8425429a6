// The Images page in a real browser: files are selected or dropped, uploaded one by one, and shown. An image is deleted
// after a confirmation. Another site can embed an image, and its URL serves only the image.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { newPicture } from '../images/pictures.ts'
import { until } from '../kit/until.ts'
import { startBrowser, type Browser } from './rig/browser.ts'
import { missing, startBuiltConsole, type BuiltConsole } from './rig/console.ts'
import { withPrograms } from './rig/need.ts'

withPrograms('images in Chromium', missing, () => {
  let server: BuiltConsole
  let browser: Browser

  before(async () => {
    server = await startBuiltConsole()
    browser = await startBrowser()
    await browser.open(server.console)
    await browser.open(`${server.url}/pictures`)
  })
  after(async () => {
    await browser.stop()
    await server?.stop()
  })

  /** Files as a browser has them, with what is done with them: `transfer` holds them. */
  const give = (files: readonly (readonly [name: string, bytes: Buffer])[], deed: string): Promise<unknown> =>
    browser.run(
      `const transfer = new DataTransfer()
       for (const [name, text] of arguments[0])
         transfer.items.add(new File([Uint8Array.from(atob(text), (each) => each.charCodeAt(0))], name))
       const box = document.querySelector('[data-upload]')
       const input = box.querySelector('input[type=file]')
       ${deed}`,
      files.map(([name, bytes]) => [name, bytes.toString('base64')]),
    )
  const said = (): Promise<string> =>
    browser.run('return document.querySelector("[data-upload] [role=status]").innerText')
  const says = (what: RegExp): Promise<unknown> => until(async () => what.test(await said()), String(what))
  /** The names of the pictures that are shown, of those whose file was loaded. */
  const loaded = (): Promise<string[]> =>
    browser.run(
      `return [...document.querySelectorAll('#gallery li')]
         .filter((each) => each.querySelector('img').naturalWidth > 0)
         .map((each) => each.querySelector('.name').textContent)`,
    )

  test('selected files are uploaded at once and shown', async () => {
    const choose = 'input.files = transfer.files; input.dispatchEvent(new Event("change", { bubbles: true }))'
    await give([['one.png', newPicture(40, 20)]], choose)
    await says(/^Uploaded “one\.png”\.$/)
    await until(async () => (await loaded()).join() === 'one.png', 'the picture')
  })

  test('dropped files are uploaded one by one, and a rejected file is named next to the others', async () => {
    const over = 'box.dispatchEvent(new DragEvent("dragover", { dataTransfer: transfer, cancelable: true }))'
    assert.equal(await give([], `${over}; return box.classList.contains('over')`), true)
    await give(
      [
        ['two.png', newPicture(40, 21)],
        ['three.svg', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"><script>window.hacked = 1</script></svg>')],
        ['<img src=x onerror="window.hacked = 1">.png', newPicture(40, 22)],
      ],
      'box.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, cancelable: true }))',
    )
    await says(/^Uploaded 2 images\.\s+“three\.svg”: The image is SVG/)
    await until(async () => (await loaded()).length === 3, 'the pictures')
    assert.equal(await browser.run('return window.hacked ?? 0'), 0)
    assert.equal(await browser.run('return document.querySelector("[data-upload]").classList.contains("over")'), false)
  })

  test('another site can embed an image, and its URL serves only the image', async () => {
    const address: string = await browser.run('return document.querySelector("#gallery .hidden").textContent')
    assert.match(address, /^http:\/\/localhost:\d+\/images\/[\w-]+\.png$/)
    // Another name of this machine is another site.
    await browser.open(`${address.replace('localhost', '127.0.0.1').replace(/\/images\/.*/, '')}/sign-in`)
    const width = await browser.later(
      `const image = new Image()
       image.onload = () => arguments[1](image.naturalWidth)
       image.onerror = () => arguments[1](0)
       image.src = arguments[0].replace('localhost', '127.0.0.1')`,
      address,
    )
    assert.equal(width, 40)
    await browser.open(address)
    assert.equal(await browser.run('return document.contentType'), 'image/png')
    await browser.open(`${server.url}/pictures`)
  })

  test('an image is deleted after a confirmation whose default is Cancel', async () => {
    const button = '#gallery li:first-child form button'
    await browser.click(button)
    const question: string = await browser.run('return document.querySelector("dialog[open] p").textContent')
    assert.match(question, /permanently\. No campaign uses it\./)
    assert.equal(await browser.run('return document.activeElement.textContent'), 'Cancel')
    await browser.click('dialog[open] .sure')
    await until(async () => (await loaded()).length === 2, 'one less')
    assert.match(await browser.run('return document.querySelector(".toast").textContent'), /^Deleted “.*”\.$/s)
  })
})
