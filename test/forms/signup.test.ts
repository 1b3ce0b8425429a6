// Sign-ups: what a visitor sends, the one answer, and what happens to the address.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR, MINUTE, SECOND } from '../../src/base/clock.ts'
import { signupAddress } from '../../src/forms/signup-input.ts'
import { raw } from '../../src/store/query.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'
import { SITE, signupKit } from '../kit/signups.ts'
import { until } from '../kit/until.ts'

const postrider = ofFile(() =>
  startTestAppliance({
    routes: ['there.test', 'xn--bcher-kva.test'],
    config: { signup: { per_client: 10_000, per_client_day: 10_000 } },
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))
const forms = formKit(() => postrider)
const campaigns = campaignKit(() => postrider)
const visitor = signupKit(() => postrider)
const NAME = { key: 'name', label: null, required: false }
const CITY = { key: 'city', label: 'City', required: false }

async function makeForm(attributes: Record<string, unknown> = {}, name?: string) {
  const audience = await campaigns.audience(domain, name)
  const form = await forms.open({ audience }, { origins: [SITE], ...attributes })
  return { audience, ...form }
}
const form = ofFile(() => makeForm({ fields: [NAME, CITY] }))
const rows = (sql: string) => postrider.appliance.deps.store.all(raw<Record<string, unknown>>(sql))
const suppressed = (address: string, reason: 'manual' | 'unsubscribe' | 'complaint', scope: 'all' | 'marketing') =>
  postrider.appliance.deps.store.write((tx) =>
    suppress(
      tx,
      { user_key: domain.user_key, domain_key: domain.key, address, source: 'manual', reason, scope },
      postrider.clock.now(),
    ),
  )

test('a sign-up makes a pending contact without the typed values, and sends a confirmation email (AU14, AU15)', async () => {
  const { audience, slug } = form
  await visitor.signUp(slug, ' New@THERE.test ', { name: 'Eve', 'field.city': 'Ghent' })
  const contact = await visitor.contact(audience, 'new@there.test')
  assert.deepEqual([contact?.status, contact?.name, contact?.custom_fields], ['pending', null, null])
  assert.equal(contact?.subscribed_at, null)
  assert.deepEqual(await visitor.tags('new@there.test'), ['confirmation'])
  const shown = await forms.show(form.id)
  assert.equal(shown['counts'].requested >= 1, true)
})

test('the confirmation email contains nothing that the visitor typed, and one click on unsubscribe refuses (AU18 to AU21)', async () => {
  const { slug } = await makeForm({ fields: [NAME, CITY], confirm_note: 'We write once a month.' })
  await visitor.signUp(slug, 'mail@there.test', { name: 'https://evil.test win', 'field.city': 'Evilville' })
  const [email] = await visitor.emails('mail@there.test')
  assert.ok(email)
  const whole = JSON.stringify(email)
  assert.doesNotMatch(whole, /evil/i)
  assert.match(email.html, /<html lang="en">/)
  assert.match(email.text, /We write once a month\./)
  assert.match(email.text, /Old Trees Ltd, Ghent/)
  assert.match(email.text, /The link works until January 22, 2026/)
  const links = new Set([...email.text.matchAll(/https?:\/\/\S+/g)].map(([link]) => link.replace(/\/c\/.*/, '/c/')))
  assert.deepEqual([...links], [`${postrider.config.http.public_url}/c/`, 'https://www.here.test/privacy'])
  assert.ok(email.html.length + email.text.length < 20_000)
  const [stored] = rows(`select content from outbound_bodies b join outbound_emails e on e.key = b.email_key
    where e."to" = 'mail@there.test'`)
  const body = JSON.parse(stored!['content'] as string)
  assert.deepEqual(body.headers, [['Auto-Submitted', 'auto-generated']])
  assert.match(body.unsubscribe.uris[0], /\/c\/[\w-]+$/)
  assert.equal(body.unsubscribe.one_click, true)
})

test('status, headers and body are the same for every kind of address (AU14, AU42)', async () => {
  const { audience, slug } = await makeForm({ fields: [NAME] })
  const made = await postrider.api(
    'POST',
    `/audiences/${audience}/contacts`,
    document('contacts', { email: 'in@there.test' }),
  )
  assert.equal(made.status, 201)
  await campaigns.fill(audience, ['gone@there.test'])
  const { id } = (await visitor.contact(audience, 'gone@there.test'))!
  await postrider.api('PATCH', `/contacts/${id}`, document('contacts', { status: 'unsubscribed' }, { id }))
  await suppressed('stop@there.test', 'manual', 'all')
  await suppressed('angry@there.test', 'complaint', 'marketing')
  await campaigns.fill(audience, ['erased@there.test'])
  await erase('erased@there.test')
  await visitor.signUp(slug, 'pend@there.test')
  await visitor.signUp(slug, 'much@there.test')
  const answers: string[] = []
  const kinds = ['fresh', 'pend', 'in', 'gone', 'stop', 'angry', 'erased', 'much', 'robot']
  for (const kind of kinds) {
    const email = `${kind}@there.test`
    const answer = await visitor.send(slug, { email, ...(kind === 'robot' ? await honeypotOf(slug) : {}) })
    const body = (await answer.text()).replaceAll(email, 'ADDRESS')
    answers.push(JSON.stringify([answer.status, [...answer.headers], body]))
  }
  assert.equal(new Set(answers).size, 1, answers.join('\n'))
  const tags = Object.fromEntries(
    await Promise.all(kinds.map(async (kind) => [kind, await visitor.tags(`${kind}@there.test`)] as const)),
  )
  assert.deepEqual(tags, {
    fresh: ['confirmation'],
    pend: ['confirmation'],
    in: ['already_subscribed'],
    gone: ['confirmation'],
    stop: [],
    angry: [],
    erased: [],
    much: ['confirmation'],
    robot: [],
  })
  assert.equal(await visitor.contact(audience, 'robot@there.test'), undefined)
  assert.equal((await visitor.contact(audience, 'in@there.test'))!.status, 'subscribed')
  assert.equal((await visitor.contact(audience, 'gone@there.test'))!.status, 'unsubscribed')
})

/** Erases an address from the account, and waits until it is done. */
async function erase(address: string): Promise<void> {
  assert.equal((await postrider.api('DELETE', `/recipients/${address}/forget`)).status, 202)
  const contacts = raw<{ key: number }>('select key from contacts where email = ?', [address])
  await until(() => postrider.appliance.deps.store.first(contacts) === undefined, `the erasure of ${address}`)
}

/** The field that people do not see, filled in. */
async function honeypotOf(slug: string): Promise<Record<string, string>> {
  const page = await (await postrider.page(`/f/${slug}`)).text()
  const [, name] = /class="unseen"[\s\S]*?name="([^"]+)"/.exec(page)!
  return { [name!]: 'x' }
}

test('wrong input shows the form again with what was typed and messages at the fields (AU12, AU16)', async () => {
  const { slug } = await makeForm({ fields: [{ ...NAME, required: true }, CITY], consent_checkbox: true })
  const answer = await visitor.send(slug, { email: 'a@there.test, b@there.test', 'field.city': 'x'.repeat(201) })
  assert.equal(answer.status, 422)
  const page = await answer.text()
  assert.match(page, /autofocus/)
  assert.match(page, /Enter an email address such as/)
  assert.match(page, /Fill in this field: Name\./)
  assert.match(page, /At most 200 characters/)
  assert.match(page, /Tick the box if you agree/)
  assert.match(page, /value="a@there\.test, b@there\.test"/)
  assert.match(page, /aria-invalid="true" aria-describedby="f-email-error"/)
})

test('an address is normalised like that of a contact, and anything else is refused (AU16)', () => {
  const good = {
    ' Ann@There.Test ': 'ann@there.test',
    'a@bücher.test': 'a@xn--bcher-kva.test',
    'a+b@x.test': 'a+b@x.test',
  }
  for (const [given, kept] of Object.entries(good)) assert.equal(signupAddress(given), kept)
  const bad = [
    '',
    'a',
    'a@x',
    'a@x.test, b@x.test',
    'Ann <a@x.test>',
    'a@x.test\r\nBcc: b@x.test',
    'ä@x.test',
    'a@[192.0.2.1]',
    'a@192.0.2.1',
    `${'a'.repeat(64)}@${'b.'.repeat(100)}test`,
    'a b@x.test',
    '"a b"@x.test',
    '"a@b"@x.test',
  ]
  for (const each of bad) assert.equal(signupAddress(each), undefined, each)
})

test('a domain that does not exist or has a null MX is an error, and DNS that fails is not (AU12)', async () => {
  postrider.dns.set('null.test', 'MX', ['0 .'])
  const missing = await visitor.send(form.slug, { email: 'a@missing-domain.test' })
  assert.equal(missing.status, 422)
  assert.match(await missing.text(), /No email can be sent to missing-domain\.test/)
  assert.equal((await visitor.send(form.slug, { email: 'a@null.test' })).status, 422)
})

test('a domain beyond ASCII is shown as it was typed (AU16)', async () => {
  const { slug } = await makeForm()
  const email = 'info@bücher.test'
  assert.match(await (await visitor.send(slug, { email })).text(), /If info@bücher\.test can be subscribed/)
  const page = await (await postrider.page(visitor.link('info@xn--bcher-kva.test'))).text()
  assert.match(page, /will then write to info@bücher\.test/)
})

test('line breaks and markup in a name stay text (AU4, AU19)', async () => {
  const { audience, slug } = await makeForm({ fields: [NAME] })
  await visitor.signUp(slug, 'inject@there.test', { name: 'Eve\r\nBcc: victim@there.test\u0000<script>' })
  const path = visitor.link('inject@there.test')
  const page = await (await postrider.page(path)).text()
  assert.match(page, /value="Eve Bcc: victim@there\.test &lt;script&gt;"/)
  const name = 'Eve\nX: y'
  assert.equal((await visitor.press(path, 'confirm', { name })).status, 200)
  assert.equal((await visitor.contact(audience, 'inject@there.test'))!.name, 'Eve X: y')
})

test('bodies of other types, of more than 16 KB and with many fields are refused (AU46)', async () => {
  const path = `/f/${form.slug}`
  const post = (body: string, type: string) =>
    postrider.page(path, { method: 'POST', body, headers: { 'content-type': type, origin: SITE } })
  const urlencoded = 'application/x-www-form-urlencoded'
  const json = await post('{}', 'application/json')
  assert.equal(json.status, 415)
  assert.match(await json.text(), /in a format that is not supported/)
  assert.equal((await post('email=a@there.test', 'text/plain')).status, 415)
  assert.equal((await post(`email=${'a'.repeat(16 * 1024)}`, urlencoded)).status, 413)
  assert.equal((await post('a=b&'.repeat(100), urlencoded)).status, 413)
  assert.equal((await post(`email=${'a'.repeat(300)}@there.test&version=1`, urlencoded)).status, 422)
  const multipart = new FormData()
  for (const [name, value] of Object.entries({ email: 'parts@there.test', version: '1' })) multipart.set(name, value)
  assert.equal((await postrider.page(path, { method: 'POST', body: multipart, headers: { origin: SITE } })).status, 200)
  assert.deepEqual(await visitor.tags('parts@there.test'), ['confirmation'])
  assert.equal((await post('broken', 'multipart/form-data; boundary=x')).status, 422)
})

test('other methods get 405 with those that the pages support', async () => {
  for (const method of ['PUT', 'PATCH', 'DELETE'])
    for (const path of [`/f/${form.slug}`, '/c/token']) {
      const answer = await postrider.page(path, { method })
      assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'GET, HEAD, POST'], `${method} ${path}`)
    }
})

test('a loopback origin with the port of the request is that of the server (AU9)', async () => {
  const send = (origin: string, host: string) =>
    visitor.send(form.slug, { email: 'local@there.test' }, { origin, host })
  for (const host of ['localhost:8080', '127.0.0.1:8080', '[::1]:8080'])
    assert.equal((await send(`http://${host}`, host)).status, 200, host)
  for (const [origin, host] of [
    ['http://localhost:9090', 'localhost:8080'],
    ['http://evil.test:8080', 'evil.test:8080'],
    ['http://localhost.evil.test', 'localhost.evil.test'],
  ] as const)
    assert.equal((await send(origin, host)).status, 403, origin)
})

test('a body that does not arrive within 5 seconds is refused (AU46)', async () => {
  const slow = new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from('email=a')) })
  const headers = { 'content-type': 'application/x-www-form-urlencoded', origin: SITE }
  const request = { method: 'POST', body: slow, headers, duplex: 'half' } as RequestInit
  const answer = postrider.page(`/f/${form.slug}`, request)
  let status: number | undefined
  void answer.then((each) => (status = each.status))
  await until(() => {
    postrider.clock.advance(SECOND)
    return status
  }, 'an answer to a body that does not arrive')
  assert.equal(status, 408)
})

test('a form from a website that is not listed is refused, and nothing is stored (AU9)', async () => {
  for (const origin of [
    'https://evil.test',
    'http://www.here.test',
    `${SITE}.evil.test`,
    'https://www.here.test:8443',
  ]) {
    const answer = await visitor.send(form.slug, { email: 'foreign@there.test' }, { origin })
    assert.equal(answer.status, 403, origin)
    assert.match(await answer.text(), new RegExp(`href="[^"]*/f/${form.slug}"`))
  }
  assert.deepEqual(await visitor.tags('foreign@there.test'), [])
  assert.equal(await visitor.contact(form.audience, 'foreign@there.test'), undefined)
})

test('the script of a listed website gets JSON, and others cannot read it (AU10)', async () => {
  const accept = 'application/json'
  const answer = await visitor.send(form.slug, { email: 'script@there.test' }, { accept })
  assert.equal(answer.status, 202)
  assert.deepEqual(await answer.json(), { status: 'requested' })
  assert.equal(answer.headers.get('access-control-allow-origin'), SITE)
  assert.equal(answer.headers.get('access-control-allow-credentials'), null)
  const wrong = await visitor.send(form.slug, { email: 'nobody' }, { accept })
  assert.equal(wrong.status, 422)
  assert.deepEqual(await wrong.json(), {
    errors: [{ field: 'email', detail: 'Enter an email address such as ann@example.org.' }],
  })
  const foreign = await visitor.send(
    form.slug,
    { email: 'script2@there.test' },
    { accept, origin: 'https://evil.test' },
  )
  assert.equal(foreign.status, 403)
  assert.equal(foreign.headers.get('access-control-allow-origin'), null)
  const preflight = async (origin: string) =>
    (await postrider.page(`/f/${form.slug}`, { method: 'OPTIONS', headers: { origin } })).headers
  assert.equal((await preflight(SITE)).get('access-control-allow-methods'), 'POST')
  assert.equal((await preflight('https://evil.test')).get('access-control-allow-origin'), null)
})

test('the page after a sign-up is that of the owner, whose origin the form names in its policy (AU11)', async () => {
  const { slug } = await makeForm({ requested_url: `${SITE}/thanks?a=1` })
  const answer = await visitor.send(slug, { email: 'thanks@there.test' })
  assert.equal(answer.status, 303)
  assert.equal(answer.headers.get('location'), `${SITE}/thanks?a=1`)
  const wrong = await visitor.send(slug, { email: '' })
  assert.match(wrong.headers.get('content-security-policy')!, /form-action 'self' https:\/\/www\.here\.test;/)
  const check = await visitor.send(slug, { email: 'thanks2@there.test' }, { origin: 'null' })
  assert.match(check.headers.get('content-security-policy')!, /form-action 'self' https:\/\/www\.here\.test;/)
})

test('a check page asks once more if the origin, the version or the token of our page is missing (AU13)', async () => {
  const { slug } = await makeForm({ fields: [NAME] })
  const own = new URL(postrider.config.http.public_url).origin
  const shown = (parse(await (await postrider.page(`/f/${slug}`)).text())[0]?.hidden ?? {}) as Record<string, string>
  const email = 'check@there.test'
  const isCheck = async (answer: Response): Promise<boolean> => /One more step/.test(await answer.text())
  assert.ok(await isCheck(await visitor.send(slug, { email }, { origin: 'null' })), 'Origin: null')
  assert.ok(await isCheck(await visitor.send(slug, { email, version: '' })), 'no version')
  assert.ok(await isCheck(await visitor.send(slug, { email, version: '99' })), 'an unknown version')
  assert.ok(await isCheck(await visitor.send(slug, { email }, { origin: own })), 'no token')
  assert.ok(await isCheck(await visitor.send(slug, { ...shown, email }, { origin: own })), 'too fast')
  assert.deepEqual(await visitor.tags(email), [])
  postrider.clock.advance(3 * SECOND)
  assert.ok(!(await isCheck(await visitor.send(slug, { ...shown, email }, { origin: own }))), 'a usual visit')
  assert.deepEqual(await visitor.tags(email), ['confirmation'])
  postrider.clock.leap(DAY + HOUR)
  assert.ok(await isCheck(await visitor.send(slug, { ...shown, email }, { origin: own })), 'a token of yesterday')
})

test('the button of the check page goes on, and changed values are checked again (AU13)', async () => {
  const { slug } = await makeForm({ fields: [NAME] })
  const answer = await visitor.send(slug, { email: 'second@there.test', name: 'Eve' }, { origin: 'null' })
  assert.equal(answer.status, 200)
  const page = await answer.text()
  assert.match(page, /We will send an email to second@there\.test/)
  const { hidden } = parse(page)[0]!
  const changed = await visitor.send(slug, { ...hidden, email: 'victim@there.test' }, { origin: 'null' })
  assert.match(await changed.text(), /One more step/)
  const forged = await visitor.send(slug, { ...hidden, check: `${hidden['check']}x` }, { origin: 'null' })
  assert.match(await forged.text(), /One more step/)
  assert.deepEqual(await visitor.tags('second@there.test'), [])
  const own = new URL(postrider.config.http.public_url).origin
  const done = await visitor.send(slug, hidden, { origin: own })
  assert.match(await done.text(), /Check your inbox/)
  assert.deepEqual(await visitor.tags('second@there.test'), ['confirmation'])
  assert.deepEqual(await visitor.tags('victim@there.test'), [])
})

test('a form that is a draft, closed or unknown takes no sign-up', async () => {
  const { id, slug } = await makeForm()
  await forms.patch(id, { status: 'closed' })
  assert.equal((await visitor.send(slug, { email: 'late@there.test' })).status, 410)
  assert.equal((await visitor.send('no-such-form', { email: 'late@there.test' })).status, 404)
  assert.deepEqual(await visitor.tags('late@there.test'), [])
})

test('a form without confirmation subscribes a new address at once, and asks one that unsubscribed (AU26)', async () => {
  const { audience, slug } = await makeForm({
    opt_in: 'single',
    single_reason: 'Our customers sign up in the shop.',
    fields: [NAME, CITY],
  })
  await visitor.signUp(slug, 'single@there.test', { name: 'Eve', 'field.city': 'Ghent' })
  const contact = await visitor.contact(audience, 'single@there.test')
  assert.deepEqual([contact?.status, contact?.name, contact?.custom_fields], ['subscribed', 'Eve', { city: 'Ghent' }])
  assert.deepEqual(await visitor.tags('single@there.test'), ['subscribed'])
  await suppressed('left@there.test', 'unsubscribe', 'marketing')
  await visitor.signUp(slug, 'left@there.test')
  assert.deepEqual(await visitor.tags('left@there.test'), ['confirmation'])
  assert.equal((await visitor.contact(audience, 'left@there.test'))!.status, 'pending')
  const path = visitor.link('single@there.test')
  const page = await visitor.press(path, 'refuse')
  assert.match(await page.text(), /You are not subscribed/)
  assert.equal(await visitor.contact(audience, 'single@there.test'), undefined)
  postrider.clock.leap(HOUR)
  await visitor.signUp(slug, 'single@there.test')
  assert.deepEqual(await visitor.tags('single@there.test'), ['subscribed'])
})

test('an address gets one confirmation email in 5 minutes and three in 24 hours, over all forms (AU37)', async () => {
  const email = 'often@there.test'
  const [first, second] = [await makeForm(), await makeForm()]
  await visitor.signUp(first.slug, email)
  await visitor.signUp(first.slug, email)
  assert.equal((await visitor.tags(email)).length, 1)
  await visitor.signUp(second.slug, email)
  assert.equal((await visitor.tags(email)).length, 2)
  postrider.clock.leap(6 * MINUTE)
  await visitor.signUp(first.slug, email)
  assert.equal((await visitor.tags(email)).length, 3)
  postrider.clock.leap(HOUR)
  await visitor.signUp((await makeForm()).slug, email)
  assert.equal((await visitor.tags(email)).length, 3)
})

test('only the hash of the client is stored, and the page without its query (AU30)', async () => {
  const { slug } = await makeForm()
  await visitor.send(slug, { email: 'hash@there.test' }, { referer: `${SITE}/news?visitor=eve` })
  const [consent] = rows('select page, origin, request_client from consents order by key desc limit 1')
  assert.deepEqual(consent, { page: `${SITE}/news`, origin: SITE, request_client: null })
})
