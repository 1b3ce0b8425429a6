// Tests the Images page: upload by form and by script, display, use in campaigns, and deletion (D141).
import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { endSessions } from '../../src/users/sessions.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'
import { givePassword, makeMember } from '../kit/person.ts'
import { PASSWORD, signedIn } from '../kit/signed-in.ts'
import { newPicture, PICTURES } from './pictures.ts'

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)

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

test('uploads images by a form, and shows size, use and URL', async () => {
  const guest = await signedIn(postrider)
  const empty = await guest.open('/pictures')
  assert.match(empty.text, /No images yet\. Upload one above/)
  assert.match(empty.text, /type="file"[^>]*accept="image\/png,image\/jpeg,image\/gif,image\/webp"[^>]*multiple/)
  const one = await upload(guest, [['<b>logo.png', PICTURES.png]])
  assert.equal(one.path.split('?')[0], '/pictures')
  assert.match(one.text, /Uploaded “&lt;b&gt;logo\.png”\./)
  const two = await upload(guest, [
    ['C:\\pictures\\photo.jpg', PICTURES.jpegPhoto],
    ['moving.gif', PICTURES.gifMoving],
  ])
  assert.match(two.text, /Uploaded 2 images\./)
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

test('names rejected files and stores the others', async () => {
  const guest = await signedIn(postrider)
  const before = rows()
  const shown = await upload(guest, [
    ['one.png', another()],
    ['two.svg', Buffer.from('<svg onload="alert(1)">')],
    ['three.png', new Uint8Array()],
    [`${'x'.repeat(400)}.png`, another()],
  ])
  assert.equal(shown.status, 422)
  assert.match(shown.text, /“two\.svg”: The image is SVG, which email clients do not show/)
  assert.match(shown.text, /“three\.png”: The image is empty/)
  assert.match(shown.text, />x{255}</)
  assert.equal(rows(), before + 2)
  const none = await upload(guest, [])
  assert.deepEqual([none.status, /Choose a file first\./.test(none.text)], [422, true])
})

test('a script uploads and lists images as JSON', async () => {
  const guest = await signedIn(postrider)
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
    errors: ['“a.html”: The image is not PNG, JPEG, GIF or WebP; save it in one of these formats.'],
  })
  assert.equal((await upload(guest, [['b.png', another()]], JSON_WANTED, 'x')).status, 403)
  assert.equal((await upload(guest, [['c.png', new Uint8Array(9 * 1024 * 1024)]], JSON_WANTED)).status, 413)
})

test('stores no image if the session expires during the upload', async () => {
  const guest = await signedIn(postrider)
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
  assert.match(late.text, /Your session has expired/)
  // A session that expired before gets the same response, however large the image is.
  const large = await upload(guest, [['large.png', newPicture(30, 30, 100_000)]], JSON_WANTED, proof)
  assert.equal(large.status, 401)
  assert.deepEqual([spooled(), rows()], [filesBefore, rowsBefore])
})

test('the confirmation before a deletion names the campaigns that use the image', async () => {
  const guest = await signedIn(postrider)
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
  assert.match(
    form.hidden['question']!,
    /^“Spring <b>” uses “used\.png”\. If you delete it, the image is missing in emails .*\.$/,
  )
  const send = (fields: Record<string, string>): Promise<Shown> =>
    guest.open('/pictures', { method: 'POST', body: new URLSearchParams({ ...form.hidden, ...fields }) })
  // Without a script the question is a page.
  assert.match((await send({})).text, /Are you sure\?/)
  assert.equal((await postrider.page(path)).status, 200)
  // A form that was shown before the campaign used it is refused.
  const stale = await send({ sure: 'yes', used: '' })
  assert.match(stale.text, /“Spring &lt;b&gt;” uses this image/)
  assert.match((await send({ sure: 'yes' })).text, /Deleted “used\.png”\./)
  assert.equal((await postrider.page(path)).status, 404)
})

test('the preview and the editor show images of this server without fetching them', async () => {
  const guest = await signedIn(postrider)
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

test('a reader sees the images without forms to change them', async () => {
  const guest = await signedIn(postrider)
  await upload(guest, [['seen.png', another()]])
  await givePassword(postrider, postrider.other.email, PASSWORD)
  await makeMember(postrider, { user: postrider.other, account: postrider.user, role: 'reader' })
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
