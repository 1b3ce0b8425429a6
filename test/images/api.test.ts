// Tests images over the API and at their public URL (D141): stored completely or not at all, once per account, within
// its quota, not deleted without force while a campaign uses them, and deleted with the account.
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { faultsOf } from '../../src/archive/integrity.ts'
import { removeUser } from '../../src/users/operators.ts'
import { addUser } from '../../src/users/users.ts'
import { SCOPES } from '../../src/jsonapi/scopes.ts'
import { openInstance } from '../../src/store/instance.ts'
import { raw } from '../../src/store/query.ts'
import { Spool } from '../../src/store/spool.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { emptyDatabase } from '../kit/database.ts'
import { temporaryDirectory } from '../kit/directory.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { newPicture, PICTURES } from './pictures.ts'

const MB = 1024 * 1024
const exchanger = testExchanger()
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    routes: ['there.test'],
    config: { images: { max_bytes: '1MB', account_bytes: '8MB' } },
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)

const upload = (content: Buffer | string, name = 'logo.png', bearer = postrider.token): Promise<Answer> =>
  postrider.raw('/api/v1/images', {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/vnd.api+json' },
    body: JSON.stringify(
      document('images', { name, content: typeof content === 'string' ? content : content.toString('base64') }),
    ),
  })
/** An image that no other test of this file uploads. */
let made = 0
const another = (more = 0): Buffer => newPicture(20, ++made, more)
const stored = async (content = another(), name?: string): Promise<{ id: string; url: string; path: string }> => {
  const { body, status } = await upload(content, name)
  assert.equal(status, 201, JSON.stringify(body))
  const { url } = body.data.attributes
  return { id: body.data.id, url, path: new URL(url).pathname }
}
const faults = ({ body, status }: Answer): [number, string[]] => [
  status,
  body.errors.map(
    ({ code, source }: { code: string; source?: { pointer?: string } }) => `${code} ${source?.pointer ?? ''}`,
  ),
]
const spooled = (): string[] =>
  readdirSync(join(postrider.dataDir, 'spool'), { withFileTypes: true }).flatMap((each) =>
    each.isFile() ? [each.name] : [],
  )
const load = (path: string, init?: RequestInit): Promise<Response> => postrider.page(path, init)

test('stores, returns, lists and serves an image with its media type', async () => {
  const { body, headers, status } = await upload(PICTURES.jpegPhoto, 'Photo von Ännchen.jpeg')
  assert.equal(status, 201)
  const { id, attributes } = body.data
  const { created_at, updated_at, url, ...rest } = attributes
  assert.equal(url, `${postrider.config.http.public_url}/images/${id}.jpg`)
  assert.deepEqual(rest, {
    name: 'Photo von Ännchen.jpeg',
    content_type: 'image/jpeg',
    width: 8,
    height: 12,
    size: 686,
    campaigns_count: 0,
    campaigns: [],
    logo: false,
  })
  assert.equal(created_at, updated_at)
  assert.match(headers.get('location') ?? '', new RegExp(`/api/v1/images/${id}$`))
  assert.deepEqual((await postrider.api('GET', `/images/${id}`)).body.data.attributes, attributes)
  const list = await postrider.api('GET', '/images?filter[search]=%C3%84nnchen&filter[used]=false&sort=-size')
  assert.deepEqual(
    list.body.data.map((each: { id: string }) => each.id),
    [id],
  )

  const answer = await load(`/images/${id}.jpg`)
  assert.equal(answer.status, 200)
  const bytes = Buffer.from(await answer.arrayBuffer())
  assert.equal(bytes.length, 686)
  assert.doesNotMatch(bytes.toString('latin1'), /Ann|Camera/)
  assert.deepEqual(
    [
      'content-type',
      'content-length',
      'content-disposition',
      'cache-control',
      'x-content-type-options',
      'content-security-policy',
      'cross-origin-resource-policy',
    ].map((name) => answer.headers.get(name)),
    [
      'image/jpeg',
      '686',
      'inline; filename="Photo von Annchen.jpg"',
      'public, max-age=31536000, immutable',
      'nosniff',
      "default-src 'none'; sandbox",
      'cross-origin',
    ],
  )
  const tag = answer.headers.get('etag')!
  const again = await load(`/images/${id}.jpg`, { headers: { 'if-none-match': `"x", W/${tag}` } })
  assert.deepEqual([again.status, await again.text(), again.headers.get('etag')], [304, '', tag])
  const head = await load(`/images/${id}.jpg`, { method: 'HEAD' })
  assert.deepEqual([head.status, await head.text(), head.headers.get('content-length')], [200, '', '686'])
})

test('answers only the complete URL of an image', async () => {
  const { id, path } = await stored()
  for (const wrong of [
    '/images',
    '/images/',
    `/images/${id}`,
    `/images/${id}.jpg`,
    `/images/${id}.png.html`,
    `/images/${id.toUpperCase()}.png`,
    `/images/${id.slice(0, -1)}${id.endsWith('0') ? '1' : '0'}.png`,
    '/images/..%2f..%2fpostrider.db',
    `/images/%2e%2e/${id}.png`,
    `/images/${'a'.repeat(5000)}.png`,
    `/images/${id}.png%00`,
  ])
    assert.equal((await load(wrong)).status, 404, wrong)
  assert.equal((await load(path, { method: 'POST' })).status, 404)
  assert.equal((await load(path)).status, 200)
})

test('a rejected image leaves no files and the error has a fix', async () => {
  const before = spooled()
  const cases: [Buffer | string, string, RegExp][] = [
    ['', 'invalid /data/attributes/content', /is empty/],
    ['PHN2Zz4', 'invalid /data/attributes/content', /base64/],
    ['<svg>', 'invalid /data/attributes/content', /base64/],
    [Buffer.from('<svg xmlns="http://www.w3.org/2000/svg"/>'), 'invalid /data/attributes/content', /SVG.*as PNG/],
    [Buffer.from('<html>'), 'invalid /data/attributes/content', /not PNG, JPEG, GIF or WebP/],
    [PICTURES.png.subarray(0, 100), 'invalid /data/attributes/content', /is a PNG that is truncated/],
    [PICTURES.jpeg.subarray(0, -1), 'invalid /data/attributes/content', /is a JPEG that is truncated/],
    [newPicture(8001, 1), 'invalid /data/attributes/content', /8001 by 1 pixels/],
    [another(MB), 'too_long /data/attributes/content', /is 1(?:\.0)? MB; the limit is 1 MB/],
  ]
  for (const [content, fault, words] of cases) {
    const answer = await upload(content)
    assert.deepEqual(faults(answer), [422, [fault]])
    assert.match(answer.body.errors[0].detail, words)
  }
  for (const [name, fault] of [
    ['', 'invalid /data/attributes/name'],
    ['x'.repeat(400), 'too_long /data/attributes/name'],
    ['a\nb', 'invalid /data/attributes/name'],
  ] as const)
    assert.deepEqual(faults(await upload(another(), name)), [422, [fault]])
  assert.equal((await upload('A'.repeat(10 * MB))).status, 413)
  assert.deepEqual(spooled(), before)
})

test('a name is never part of a path, and only its letters are in a header', async () => {
  for (const [name, saved] of [
    ['../../etc/passwd', 'etcpasswd.png'],
    ['"; filename="evil.html', 'filenameevil.png'],
    ['<script>alert(1)</script>.svg', 'scriptalert1script.png'],
    ['日本.png', 'picture.png'],
  ] as const) {
    const { path } = await stored(another(), name)
    assert.equal((await load(path)).headers.get('content-disposition'), `inline; filename="${saved}"`, name)
  }
  assert.equal((await upload(another(), 'fdp.\u202egnp.exe')).status, 422)
  assert.ok(spooled().every((name) => /^[\w-]{36}~\d+-[\w-]{43}$/.test(name)))
})

test('stores the same image once per account, even for concurrent uploads', async () => {
  const content = another()
  const before = spooled().length
  const answers = await Promise.all(Array.from({ length: 5 }, () => upload(content)))
  assert.deepEqual(new Set(answers.map(({ status }) => status)), new Set([201]))
  assert.equal(new Set(answers.map(({ body }) => body.data.id)).size, 1)
  // Bytes after the end of a file do not make it a different image.
  const tail = await upload(Buffer.concat([content, Buffer.from('<script>')]), 'other.png')
  assert.equal(tail.body.data.id, answers[0]!.body.data.id)
  assert.equal(spooled().length, before + 1)
  const theirs = await upload(content, 'mine', postrider.otherToken)
  assert.notEqual(theirs.body.data.id, answers[0]!.body.data.id)
})

test('enforces the quota of an account, even for concurrent uploads', async () => {
  const user = await addUser(postrider.appliance.deps, { email: 'full@owner.test' })
  const bearer = await postrider.tokenFor(user, SCOPES)
  const answers = await Promise.all(Array.from({ length: 12 }, () => upload(another(900 * 1024), 'large', bearer)))
  const statuses = answers.map(({ status }) => status)
  assert.deepEqual(
    [statuses.filter((each) => each === 201).length, statuses.filter((each) => each === 422).length],
    [9, 3],
  )
  const refused = answers.find(({ status }) => status === 422)!
  assert.deepEqual(faults(refused), [422, ['quota_exceeded ']])
  assert.match(refused.body.errors[0].detail, /use 7\.9 MB of 8 MB\. Delete images/)
  const { store } = postrider.appliance.deps
  const named = store.all(raw<{ spool: string }>('select spool from images')).map(({ spool }) => spool)
  assert.deepEqual(new Set(spooled()), new Set(named))

  // The images are deleted with the account, and their files within the hour.
  const address = new URL(answers.find(({ status }) => status === 201)!.body.data.attributes.url).pathname
  assert.equal((await load(address)).status, 200)
  await removeUser(postrider.appliance.deps, user.email)
  assert.equal((await load(address)).status, 404)
  postrider.clock.advance(60 * 60 * 1000)
  await until(() => spooled().length === named.length - 9, 'the files to be gone')
})

test('deletes an image in use only with force, and its URL is 404 from then on', async () => {
  const { id, path, url } = await stored()
  const beside = await stored()
  const foreign = (await upload(another(), 'theirs', postrider.otherToken)).body.data
  const audience = await kit.audience(domain)
  await kit.fill(audience, ['reader@there.test'])
  const html = `<p><img src="${url}" alt="Logo"><img src="${foreign.attributes.url}" alt="Theirs"></p>`
  const draft = await kit.draft(audience, { name: 'Draft', body_html: html })
  const of = async (image: string) => (await postrider.api('GET', `/images/${image}`)).body.data.attributes
  assert.deepEqual((await of(id)).campaigns, [{ id: draft, name: 'Draft', status: 'draft', removed: false }])

  const refused = await postrider.api('DELETE', `/images/${id}`)
  assert.deepEqual(faults(refused), [422, ['in_use ']])
  assert.match(refused.body.errors[0].detail, /^“Draft” uses this image\..*"\?force=true"\.$/)
  // A changed or removed draft no longer uses the image.
  assert.equal((await kit.patch(draft, { body_html: `<img src="${beside.url}" alt="">` })).status, 200)
  assert.deepEqual([(await of(id)).campaigns_count, (await of(beside.id)).campaigns_count], [0, 1])
  assert.equal((await kit.patch(draft, { name: 'Renamed' })).status, 200)
  assert.equal((await of(beside.id)).campaigns_count, 1)
  assert.equal((await postrider.api('DELETE', `/campaigns/${draft}`)).status, 204)
  assert.equal((await of(beside.id)).campaigns_count, 0)
  assert.equal((await postrider.api('DELETE', `/images/${beside.id}`)).status, 204)
  assert.equal((await load(beside.path)).status, 404)

  // One that was sent does, also after it was removed: its mail is out there.
  const sent = await kit.draft(audience, { name: 'Sent', body_html: html })
  assert.equal(await kit.send(sent), 'sent')
  assert.equal((await postrider.api('DELETE', `/campaigns/${sent}`)).status, 204)
  assert.deepEqual((await of(id)).campaigns, [{ id: sent, name: 'Sent', status: 'sent', removed: true }])
  assert.deepEqual(faults(await postrider.api('DELETE', `/images/${id}`)), [422, ['in_use ']])
  const used = await postrider.api('GET', '/images?filter[used]=true')
  assert.deepEqual(
    used.body.data.map((each: { id: string }) => each.id),
    [id],
  )
  // A URL of another account in the HTML does not count as a use.
  const theirs = await postrider.raw(`/api/v1/images/${foreign.id}`, {
    headers: { authorization: `Bearer ${postrider.otherToken}` },
  })
  assert.equal(theirs.body.data.attributes.campaigns_count, 0)

  const before = spooled().length
  assert.equal((await postrider.api('DELETE', `/images/${id}?force=true`)).status, 204)
  assert.equal((await load(path)).status, 404)
  assert.equal((await postrider.api('GET', `/images/${id}`)).status, 404)
  assert.equal(spooled().length, before - 1)
})

test('the data check finds a corrupt file, which is not served', async () => {
  const { path } = await stored()
  const { deps } = postrider.appliance
  assert.deepEqual(await faultsOf(deps), [])
  const file = join(
    postrider.dataDir,
    'spool',
    spooled().find((name) => name.startsWith(path.slice(8, 44)))!,
  )
  const whole = readFileSync(file)
  writeFileSync(file, whole.subarray(1))
  const answer = await load(path)
  assert.ok(answer.status >= 500, String(answer.status))
  assert.doesNotMatch(await answer.text(), /spool|\/tmp/)
  assert.match((await faultsOf(deps)).join(), /The spool file .* has \d+ bytes instead of \d+/)
  writeFileSync(file, whole)
  assert.equal((await load(path)).status, 200)
})

test('closes the file if the client disconnects or sends HEAD', async (t) => {
  if (!existsSync('/proc/self/fd')) return t.skip('no /proc on this system')
  await using large = await startTestAppliance({ config: { images: { max_bytes: '7MB' } } })
  const content = newPicture(20, 20, 6.9 * MB)
  const { body } = await large.api(
    'POST',
    '/images',
    document('images', { name: 'large', content: content.toString('base64') }),
  )
  const { pathname } = new URL(body.data.attributes.url)
  const open = (): number =>
    readdirSync('/proc/self/fd').filter((name) => {
      try {
        return readlinkSync(`/proc/self/fd/${name}`).includes(body.data.id)
      } catch {
        return false
      }
    }).length
  const { host, port } = large.appliance.http
  // The client does not read: the server fills the socket buffers and waits.
  const slow = Array.from({ length: 20 }, () => connect({ host, port }).pause())
  for (const socket of slow) socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await until(() => open() === 20, 'every reader')
  for (const socket of slow) socket.destroy()
  await until(() => open() === 0, 'no file open')
  const url = `http://${host}:${port}${pathname}`
  const head = await fetch(url, { method: 'HEAD' })
  assert.deepEqual([head.status, head.headers.get('content-length')], [200, String(content.length)])
  // A response that the client does not read.
  assert.equal((await large.page(pathname)).status, 200)
  const whole = await fetch(url, { headers: { connection: 'close' } })
  assert.deepEqual(Buffer.from(await whole.arrayBuffer()), content)
  await until(() => open() === 0, 'no file open')
})

test('a start deletes the file of an image whose deletion was cut short by a kill', async () => {
  const dataDir = temporaryDirectory('images-gone')
  emptyDatabase(dataDir)
  const { store } = openInstance(dataDir)
  const name = await new Spool(dataDir).put('01a22656-ba13-7ff9-b62a-f889688d0605', another())
  await store.write((tx) => tx.run(raw('insert into images_gone values (?)', [name])))
  store.close()
  assert.equal(readdirSync(join(dataDir, 'spool')).includes(name), true)
  await using restarted = await startTestAppliance({ dataDir })
  assert.equal(readdirSync(join(dataDir, 'spool')).includes(name), false)
  assert.deepEqual(restarted.appliance.deps.store.all(raw('select spool from images_gone')), [])
})
