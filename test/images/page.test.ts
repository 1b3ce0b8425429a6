// The page Pictures: uploaded by a form and by a script, seen, used, removed (D141).
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { endSessions } from '../../src/identity/sessions.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'
import { givePassword } from '../kit/person.ts'
import { newPicture, PICTURES } from './pictures.ts'

const PASSWORD = 'a long enough password'
const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)

async function signedIn(): Promise<Guest> {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  const guest = new Guest(postrider)
  await guest.signIn(postrider.user.email, PASSWORD)
  return guest
}
const proofOf = ({ text }: Shown): string =>
  parse(text).find(({ hidden }) => hidden['action'] === 'upload')!.hidden['proof']!
const JSON_WANTED = { accept: 'application/json' }
/** Sends files as a browser does. */
async function upload(
  guest: Guest,
  files: readonly (readonly [name: string, bytes: Uint8Array])[],
  headers: Record<string, string> = {},
  proof?: string,
): Promise<Shown> {
  const body = new FormData()
  body.set('proof', proof ?? proofOf(await guest.open('/pictures')))
  body.set('action', 'upload')
  for (const [name, bytes] of files) body.append('file', new File([new Uint8Array(bytes)], name))
  const whole = new Response(body)
  const type = whole.headers.get('content-type')!
  return guest.open('/pictures', {
    method: 'POST',
    body: await whole.arrayBuffer(),
    headers: { ...headers, 'content-type': type },
  })
}
const spooled = (): number =>
  readdirSync(join(postrider.dataDir, 'spool'), { withFileTypes: true }).filter((each) => each.isFile()).length
const rows = (): number => postrider.appliance.deps.store.one(raw<{ n: number }>('select count(*) as n from images')).n
let made = 0
const another = (): Buffer => newPicture(30, ++made)

test('a form uploads pictures, which the page then shows with their size, use and address', async () => {
  const guest = await signedIn()
  const empty = await guest.open('/pictures')
  assert.match(empty.text, /No picture yet\. Upload one above/)
  assert.match(empty.text, /type="file"[^>]*accept="image\/png,image\/jpeg,image\/gif,image\/webp"[^>]*multiple/)
  const one = await upload(guest, [['<b>logo.png', PICTURES.png]])
  assert.equal(one.path.split('?')[0], '/pictures')
  assert.match(one.text, /“&lt;b&gt;logo\.png” is stored\./)
  const two = await upload(guest, [
    ['C:\\pictures\\photo.jpg', PICTURES.jpegPhoto],
    ['moving.gif', PICTURES.gifMoving],
  ])
  assert.match(two.text, /2 pictures are stored\./)
  assert.match(two.text, /<p class="name" title="photo\.jpg">photo\.jpg<\/p>/)
  assert.match(two.text, /12 × 8 · 173 bytes · PNG/)
  assert.match(two.text, /8 × 12 · 686 bytes · JPEG/)
  assert.match(two.text, /<img src="\/images\/[\w-]+\.gif" alt="" width="12" height="8" loading="lazy"/)
  assert.match(two.text, new RegExp(`>${postrider.config.http.public_url}/images/[\\w-]+\\.png</span`))
  assert.doesNotMatch(two.text, /<b>logo/)
  const found = await guest.open('/pictures?q=photo')
  assert.match(found.text, /photo\.jpg/)
  assert.doesNotMatch(found.text, /moving\.gif/)
})

test('what is refused is said with the name of its file; what else was sent is stored', async () => {
  const guest = await signedIn()
  const before = rows()
  const shown = await upload(guest, [
    ['one.png', another()],
    ['two.svg', Buffer.from('<svg onload="alert(1)">')],
    ['three.png', new Uint8Array()],
    [`${'x'.repeat(400)}.png`, another()],
  ])
  assert.equal(shown.status, 422)
  assert.match(shown.text, /“two\.svg”: The picture is SVG, which can hold scripts/)
  assert.match(shown.text, /“three\.png”: The picture is empty/)
  assert.match(shown.text, />x{255}</)
  assert.equal(rows(), before + 2)
  const none = await upload(guest, [])
  assert.deepEqual([none.status, /Choose a file first\./.test(none.text)], [422, true])
})

test('a script uploads and lists by the same address, as JSON', async () => {
  const guest = await signedIn()
  const content = another()
  const sent = await upload(guest, [['script.png', content]], JSON_WANTED)
  assert.equal(sent.status, 201)
  const told = JSON.parse(sent.text) as Record<string, unknown>
  const { id } = told
  assert.deepEqual(told, {
    id,
    url: `${postrider.config.http.public_url}/images/${String(id)}.png`,
    path: `/images/${String(id)}.png`,
    name: 'script.png',
    type: 'image/png',
    width: 30,
    height: made,
    bytes: content.length,
  })
  const again = await upload(guest, [['again.png', content]], JSON_WANTED)
  assert.deepEqual(JSON.parse(again.text), told)
  const list = await guest.open('/pictures?q=script', { headers: JSON_WANTED })
  assert.deepEqual(JSON.parse(list.text), { pictures: [told], next: null })
  const refused = await upload(guest, [['a.html', Buffer.from('<html>')]], JSON_WANTED)
  assert.equal(refused.status, 422)
  assert.deepEqual(JSON.parse(refused.text), {
    errors: ['“a.html”: The picture is not PNG, JPEG, GIF or WebP: save it as one of these.'],
  })
  assert.equal((await upload(guest, [['b.png', another()]], JSON_WANTED, 'x')).status, 403)
  assert.equal((await upload(guest, [['c.png', new Uint8Array(9 * 1024 * 1024)]], JSON_WANTED)).status, 413)
})

test('a session that ends while a picture is on its way stores nothing', async () => {
  const guest = await signedIn()
  const proof = proofOf(await guest.open('/pictures'))
  const [filesBefore, rowsBefore] = [spooled(), rows()]
  const form = new FormData()
  for (const [name, value] of Object.entries({ proof, action: 'upload' })) form.set(name, value)
  form.set('file', new File([new Uint8Array(another())], 'late.png'))
  const whole = new Response(form)
  const octets = new Uint8Array(await whole.arrayBuffer())
  const { deps } = postrider.appliance
  let sent = 0
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (sent > 0) {
        await deps.store.write((tx) => endSessions(tx, postrider.user.key))
        controller.enqueue(octets.subarray(50))
        return controller.close()
      }
      sent = 50
      controller.enqueue(octets.subarray(0, 50))
    },
  })
  const late = await guest.open('/pictures', {
    method: 'POST',
    body,
    duplex: 'half',
    headers: { ...JSON_WANTED, 'content-type': whole.headers.get('content-type')! },
  } as RequestInit)
  assert.equal(late.status, 401)
  assert.match(late.text, /Your session has ended/)
  // A session that had ended before is told so too, however large the picture is.
  const large = await upload(guest, [['large.png', newPicture(30, 30, 100_000)]], JSON_WANTED, proof)
  assert.equal(large.status, 401)
  assert.deepEqual([spooled(), rows()], [filesBefore, rowsBefore])
})

test('a picture is removed after a question that names the campaigns that use it', async () => {
  const guest = await signedIn()
  const { id, path, url } = JSON.parse((await upload(guest, [['used.png', another()]], JSON_WANTED)).text) as {
    id: string
    path: string
    url: string
  }
  const audience = await kit.audience(domain)
  await kit.draft(audience, { name: 'Spring <b>', body_html: `<p><img src="${url}" alt="x"></p>` })
  const used = await guest.open('/pictures')
  assert.match(used.text, /In\s+<a href="\/campaigns\/[\w-]+">Spring &lt;b&gt;<\/a>/)
  assert.doesNotMatch((await guest.open('/pictures?used=no')).text, /used\.png/)
  const form = parse(used.text).find(({ hidden }) => hidden['id'] === id)!
  assert.match(form.hidden['question']!, /^“Spring <b>” uses “used\.png”\. Mail .* shows a gap in its place\.$/)
  const send = (fields: Record<string, string>): Promise<Shown> =>
    guest.open('/pictures', { method: 'POST', body: new URLSearchParams({ ...form.hidden, ...fields }) })
  // Without a script the question is a page.
  assert.match((await send({})).text, /Are you sure\?/)
  assert.equal((await postrider.page(path)).status, 200)
  // A form that was shown before the campaign used it is refused.
  const stale = await send({ sure: 'yes', used: '' })
  assert.match(stale.text, /“Spring &lt;b&gt;” uses this picture/)
  assert.match((await send({ sure: 'yes' })).text, /“used\.png” is removed\./)
  assert.equal((await postrider.page(path)).status, 404)
})

test('the preview of a campaign and the editor show pictures from here, without fetching them', async () => {
  const guest = await signedIn()
  const { path, url } = JSON.parse((await upload(guest, [['shown.png', another()]], JSON_WANTED)).text) as {
    path: string
    url: string
  }
  const draft = await kit.draft(await kit.audience(domain), {
    body_html: `<p><img src="${url}" alt="here"><img src="${url}/../../sign-out" alt="odd"></p>`,
  })
  const preview = await guest.open(`/campaigns/${draft}/preview`)
  assert.match(preview.text, new RegExp(`<img src="${path}" alt="here"`))
  assert.doesNotMatch(preview.text, /src="\/sign-out|src="\/images\/[^"]*\/\.\.\//)
  const led = await postrider.page(`/picture/of?${new URLSearchParams({ u: url }).toString()}`, {
    headers: { cookie: [...guest.cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
  })
  assert.deepEqual([led.status, led.headers.get('location')], [302, path])
})

test('who may only read sees the pictures, and nothing to change them', async () => {
  const guest = await signedIn()
  await upload(guest, [['seen.png', another()]])
  const { store } = postrider.appliance.deps
  await givePassword(postrider, postrider.other.email, PASSWORD)
  await store.write((tx) =>
    tx.run(raw('update users set reads_for = ? where key = ?', [postrider.user.key, postrider.other.key])),
  )
  const reader = new Guest(postrider)
  await reader.signIn(postrider.other.email, PASSWORD)
  const shown = await reader.open('/pictures')
  assert.match(shown.text, /seen\.png/)
  assert.doesNotMatch(shown.text, /type="file"|>Delete</)
  const before = rows()
  const proof = parse((await reader.open('/pictures')).text)[0]!.hidden['proof']!
  assert.equal((await upload(reader, [['new.png', another()]], JSON_WANTED, proof)).status, 422)
  assert.equal(rows(), before)
})
