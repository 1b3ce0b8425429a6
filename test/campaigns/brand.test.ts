// The brand of an account: its look and its default sender in new campaigns, and the names and colours that recipients
// see.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inkOn, readableOn } from '../../src/views/html/colours.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'
import type { Guest, Shown } from '../kit/guest.ts'
import { PARTS } from '../../src/server/parts.ts'
import { PICTURES } from '../images/pictures.ts'

const kit = campaignKit(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const other = ofFile(() => postrider.activeDomain('elsewhere.test'))

const brand = async () => (await postrider.api('GET', '/brand')).body.data
const change = (attributes: Record<string, unknown>) =>
  postrider.api('PATCH', '/brand', document('brands', attributes, { id: postrider.user.id }))
const NONE = { sender_name: null, from_address: null, logo: null, colour: null, postal_address: null }
const ACME = {
  sender_name: 'Acme',
  from_address: 'news@here.test',
  logo: 'https://cdn.example/logo.png',
  colour: '#ffee00',
  postal_address: '1 High Street\nLondon',
}

test('an account has one empty brand with its own id, and changes it alone', async () => {
  const { attributes, id, links, type } = await brand()
  assert.deepEqual({ type, id, attributes }, { type: 'brands', id: postrider.user.id, attributes: NONE })
  assert.match(links.self, /\/brand$/)
  assert.ok(domain.key > 0)
  const changed = await change({ ...ACME, colour: '#FFEE00' })
  assert.equal(changed.status, 200, JSON.stringify(changed.body))
  assert.deepEqual((await brand()).attributes, ACME)
  // The other attributes stay.
  assert.equal((await change({ sender_name: 'Acme Ltd' })).status, 200)
  assert.deepEqual((await brand()).attributes, { ...ACME, sender_name: 'Acme Ltd' })
  const theirs = await postrider.asOther('GET', '/brand')
  assert.deepEqual(theirs.body.data.attributes, NONE)
  await change(NONE)
})

test('a change with the ETag of an earlier version is rejected', async () => {
  const { headers } = await postrider.api('GET', '/brand')
  const tag = headers.get('etag')!
  const send = (colour: string, match: string) =>
    postrider.raw('/api/v1/brand', {
      method: 'PATCH',
      headers: {
        authorization: `Bearer ${postrider.token}`,
        'content-type': 'application/vnd.api+json',
        'if-match': match,
      },
      body: JSON.stringify(document('brands', { colour }, { id: postrider.user.id })),
    })
  assert.equal((await send('#112233', tag)).status, 200)
  assert.equal((await send('#445566', tag)).status, 412)
  assert.equal((await brand()).attributes.colour, '#112233')
  await change(NONE)
})

for (const [attribute, value, code] of [
  ['colour', 'red', 'invalid'],
  ['colour', '#12345', 'invalid'],
  ['colour', '#112233;}body{display:none', 'invalid'],
  ['sender_name', 'x'.repeat(101), 'too_long'],
  ['sender_name', ' ', 'invalid'],
  ['sender_name', 'Ann\r\nBcc: x@y.test', 'invalid'],
  ['logo', 'javascript:alert(1)', 'invalid'],
  ['logo', `https://x.test/${'x'.repeat(2000)}`, 'too_long'],
  ['postal_address', 'x'.repeat(501), 'too_long'],
  ['from_address', 'no address', 'invalid'],
  ['from_address', 'Ann <ann@here.test>', 'invalid'],
  ['from_address', 'ann@nowhere.test', 'address_outside_domain'],
] as const)
  test(`rejects the ${attribute} ${value.slice(0, 30).trim()} of ${value.length} characters`, async () => {
    assert.ok(domain.key > 0)
    const { body, status } = await change({ [attribute]: value })
    assert.equal(status, 422)
    assert.deepEqual(
      body.errors.map((each: { code: string; source: { pointer: string } }) => [each.code, each.source.pointer]),
      [[code, `/data/attributes/${attribute}`]],
    )
  })

test('rejects a From address on a domain that is not verified, and names the fix', async () => {
  const added = await postrider.api('POST', '/domains', document('domains', { name: 'new.test', purpose: 'both' }))
  assert.equal(added.status, 201)
  const { body, status } = await change({ from_address: 'news@new.test' })
  assert.equal(status, 422)
  assert.equal(body.errors[0].code, 'domain_not_active')
  assert.match(body.errors[0].detail, /new\.test is not verified\. Publish its DNS records first/)
})

test('a new campaign without a From has the default sender, on another domain only its name', async () => {
  await change({ sender_name: 'Acme, "Ltd"', from_address: 'news@here.test' })
  const [here, there] = [await kit.audience(domain), await kit.audience(other)]
  const from = async (audience: string, attributes = {}) =>
    (await kit.show(await kit.draft(audience, attributes)))['from_address']
  assert.equal(await from(here), '"Acme, \\"Ltd\\"" <news@here.test>')
  assert.equal(await from(there), '"Acme, \\"Ltd\\"" <noreply@elsewhere.test>')
  assert.equal(await from(here, { from_address: null }), null)
  assert.equal(await from(here, { from_address: 'ann@here.test' }), 'ann@here.test')
  await change({ sender_name: null })
  assert.equal(await from(here), 'news@here.test')
  assert.equal(await from(there), null)
  await change(NONE)
  assert.equal(await from(here), null)
})

test('a test email has the default sender and the look of the brand', async () => {
  await change(ACME)
  const guest = await signedIn(postrider)
  const audience = await kit.audience(domain)
  const begun = await guest.open(`/campaigns/new?audience=${audience}`)
  const typed = { name: 'May', subject: 'May', audience, design: 'newsletter' }
  const edited = await guest.send(begun, 'save', typed)
  for (const value of ['Acme', ACME.logo, ACME.colour, ACME.postal_address])
    assert.ok(edited.text.includes(`${value}</textarea>`) || edited.text.includes(`value="${value}"`), value)
  const [, id] = /^\/campaigns\/([^/]+)\/edit/.exec(edited.path)!
  const sent = await postrider.api(
    'POST',
    `/campaigns/${id}/test`,
    document('campaign-tests', { email: 'probe@there.test' }),
  )
  assert.equal(sent.status, 201, JSON.stringify(sent.body))
  const probe = () => exchanger.heard.find(({ to }) => to[0] === 'probe@there.test')
  const { message } = await until(probe, 'the test email')
  assert.match(message, /^From: "?Acme"? <news@here\.test>/m)
  assert.match(message, /cdn\.example\/logo\.png/)
  assert.match(message, /#ffee00/)
  await change(NONE)
})

/** Sends a campaign to a new audience with this internal name. Returns the message and its unsubscribe page. */
async function sentTo(
  address: string,
  title: string | null,
): Promise<{ message: string; page: string; policy: string }> {
  const audience = await kit.audience(domain, 'Non-paying, Berlin')
  const named = document('audiences', { title }, { id: audience })
  assert.equal((await postrider.api('PATCH', `/audiences/${audience}`, named)).status, 200)
  await kit.fill(audience, [address])
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  const { message } = exchanger.heard.findLast(({ to }) => to[0] === address)!
  const [, field] = /^List-Unsubscribe:(.*(?:\r\n[ \t].*)*)/m.exec(message)!
  const [, path] = /<https?:\/\/[^/]+(\/u\/[\w-]+)>/.exec(field!.replaceAll(/\s/g, ''))!
  const { body, headers } = await postrider.raw(path!)
  return { message, page: body, policy: headers.get('content-security-policy')! }
}

let readers = 0

test('subscribers see the title of an audience or the sender, and never its internal name', async () => {
  for (const [title, sender_name, says, list] of [
    [null, null, 'receives newsletters from here.test.', 'List-Id: <'],
    [null, 'Acme', 'receives newsletters from Acme.', 'List-Id: "Acme" <'],
    ['Acme News', 'Acme', 'receives Acme News from Acme.', 'List-Id: "Acme News" <'],
    ['Acme News', null, 'receives Acme News from here.test.', 'List-Id: "Acme News" <'],
  ] as const) {
    await change({ sender_name })
    const { message, page } = await sentTo(`reader${++readers}@there.test`, title)
    assert.ok(page.includes(says), page)
    assert.ok(message.includes(list), message)
    assert.doesNotMatch(page + message, /Non-paying/)
  }
  await change(NONE)
})

test('the unsubscribe page has the colour and only a logo of this server, under a CSP without inline styles', async () => {
  const content = PICTURES.png.toString('base64')
  const image = await postrider.api('POST', '/images', document('images', { name: 'logo.png', content }))
  const { url } = image.body.data.attributes
  await change({ ...ACME, logo: url })
  const own = await sentTo('own@there.test', null)
  assert.ok(own.page.includes(`<img src="${new URL(url).pathname}" alt="Acme" />`), own.page)
  assert.ok(
    own.page.includes(`--fill: #ffee00; --on-fill: ${inkOn('#ffee00')}; --accent: ${readableOn('#ffffff', '#ffee00')}`),
  )
  assert.match(own.policy, /default-src 'none'; style-src 'sha256-[\w+/=]+'; img-src 'self'; /)
  assert.doesNotMatch(own.page, / style=/)
  const { id } = image.body.data
  const removed = await postrider.api('DELETE', `/images/${id}`)
  assert.equal(removed.body?.errors[0].code, 'in_use')
  const unused = (await postrider.api('GET', '/images?filter[used]=false')).body.data
  assert.ok(!unused.some((each: { id: string }) => each.id === id))
  await change(ACME)
  assert.equal((await postrider.api('GET', `/images/${id}`)).body.data.attributes.logo, false)
  assert.equal((await postrider.api('DELETE', `/images/${id}`)).status, 204)
  const foreign = await sentTo('foreign@there.test', null)
  assert.doesNotMatch(foreign.page, /cdn\.example|<img/)
  assert.match(foreign.page, /<p class="sender">Acme<\/p>/)
  assert.doesNotMatch(foreign.policy, /img-src|unsafe-inline/)
  await change(NONE)
})

/** The contrast of two colours (WCAG 2.2). */
function contrast(one: string, two: string): number {
  const light = (colour: string): number => {
    const [red, green, blue] = [1, 3, 5].map((at) => {
      const share = Number.parseInt(colour.slice(at, at + 2), 16) / 255
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4
    })
    return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!
  }
  const [more, less] = [light(one), light(two)].toSorted((a, b) => b - a)
  return (more! + 0.05) / (less! + 0.05)
}

test('text in a brand colour is readable on light and dark paper, and text on it, too (WCAG 2.2 §1.4.3)', () => {
  for (const colour of ['#ffffff', '#ffee00', '#c0ffee', '#888888', '#1d5bd8', '#330000', '#000000']) {
    for (const paper of ['#ffffff', '#1d1f24']) assert.ok(contrast(readableOn(paper, colour), paper) >= 4.5, colour)
    assert.ok(contrast(inkOn(colour), colour) >= 4.5, colour)
  }
  assert.equal(readableOn('#ffffff', '#1d5bd8'), '#1d5bd8')
})

/** Sends the form of the brand page as a browser does. */
async function saveBrand(
  guest: Guest,
  fields: Record<string, string>,
  file?: readonly [string, Uint8Array],
): Promise<Shown> {
  const shown = await guest.open('/brand')
  const { hidden } = parse(shown.text).find((form) => form.hidden['action'] === 'save')!
  const body = new FormData()
  for (const [name, value] of Object.entries({ ...hidden, ...fields })) body.set(name, value)
  if (file) body.set('content', new File([new Uint8Array(file[1])], file[0]))
  const whole = new Response(body)
  const type = whole.headers.get('content-type')!
  return guest.open('/brand', { method: 'POST', body: await whole.arrayBuffer(), headers: { 'content-type': type } })
}
const FIELDS = {
  sender_name: 'Acme',
  from_address: 'news@here.test',
  logo: '',
  colour: '#00aa00',
  postal_address: 'London',
}

test('the page Brand saves the brand with an uploaded logo, and shows the errors of the API at their fields', async () => {
  const guest = await signedIn(postrider)
  assert.ok(domain.key > 0)
  const saved = await saveBrand(guest, FIELDS, ['our <logo>.png', PICTURES.png])
  assert.match(saved.text, /Saved\. New campaigns use this brand\./)
  const { logo, ...rest } = (await brand()).attributes
  const { logo: _, ...typed } = FIELDS
  assert.deepEqual(rest, typed)
  assert.match(saved.text, new RegExp(`<img src="${new URL(logo).pathname}"`))
  const refused = await saveBrand(guest, { ...FIELDS, from_address: 'x@nowhere.test' })
  assert.equal(refused.status, 422)
  assert.match(refused.text, /nowhere\.test is not a sending domain of this account/)
  assert.match(refused.text, /value="x@nowhere\.test"/)
  const broken = await saveBrand(guest, FIELDS, ['logo.png', Buffer.from('no image')])
  assert.equal(broken.status, 422)
  assert.match(broken.text, /id="content-error"/)
  await change(NONE)
})

test('the page Brand has no upload field without the part "images"', async () => {
  const names = await Promise.all(PARTS.map(async ({ load }) => (await load()).name))
  await using without = await startTestAppliance({ parts: PARTS.filter((_, at) => names[at] !== 'images') })
  const guest = await signedIn(without)
  const { status, text } = await guest.open('/brand')
  assert.equal(status, 200)
  assert.doesNotMatch(text, /type="file"/)
  assert.match((await (await signedIn(postrider)).open('/brand')).text, /type="file"/)
})
