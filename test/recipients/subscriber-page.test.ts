// The page behind unsubscribe links (D45, RFC 8058): a GET only shows the page, a POST acts at once, a forged link has
// no effect, and the reader of a forwarded email sees nothing that the page does not need.
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { test } from 'node:test'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import type { RowOf } from '../../src/store/schema/tables.ts'
import { dataOf } from '../../src/webhooks/payload.ts'
import { LANGUAGES, textsIn } from '../../src/recipients/languages.ts'
import { raw } from '../../src/store/query.ts'
import { removeSuppressions, suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const kit = campaignKit(() => postrider)

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))

/** Sends a campaign to one address. Returns the path of the unsubscribe link, and the created resources. */
async function linked(address: string, title?: string): Promise<{ path: string; audience: string; campaign: string }> {
  const audience = await kit.audience(domain)
  const named = document('audiences', { title: title ?? null }, { id: audience })
  assert.equal((await postrider.api('PATCH', `/audiences/${audience}`, named)).status, 200)
  await kit.fill(audience, [address])
  const campaign = await kit.draft(audience)
  assert.equal(await kit.send(campaign), 'sent')
  const mail = exchanger.heard.findLast(({ to }) => to[0]?.toLowerCase() === address.toLowerCase())!
  const [, field] = /^List-Unsubscribe:(.*(?:\r\n[ \t].*)*)/m.exec(mail.message)!
  const [, path] = /<https?:\/\/[^/]+(\/u\/[\w-]+)>/.exec(field!.replaceAll(/\s/g, ''))!
  return { path: path!, audience, campaign }
}

const entries = async (email: string) =>
  (await postrider.api('GET', `/suppressions?filter[email]=${encodeURIComponent(email)}`)).body.data
const happened = (campaign: string): number =>
  postrider.appliance.deps.store.first<{ count: number }>(
    raw(
      `select count(*) as count from events where type = 'email.unsubscribed'
         and campaign_key = (select key from campaigns where id = ?)`,
      [campaign],
    ),
  )!.count
const form = (body: string, type = 'application/x-www-form-urlencoded') => ({
  method: 'POST',
  headers: { 'content-type': type },
  body,
})

const SUBSCRIBED = /name="action" value="unsubscribe"/
const UNSUBSCRIBED = /You no longer receive newsletters from here\.test\./
const ONE_CLICK = 'List-Unsubscribe=One-Click'
const multipart = (name: string, value: string) =>
  form(
    `--cut\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n--cut--\r\n`,
    'multipart/form-data; boundary=cut',
  )

test('a GET never changes the subscription (AU48)', async () => {
  const { audience, campaign, path } = await linked('look@there.test')
  for (let n = 0; n < 20; n++)
    for (const method of ['GET', 'HEAD']) {
      const answer = await postrider.raw(path, { method })
      assert.equal(answer.status, 200)
      assert.equal(answer.body === undefined, method === 'HEAD')
    }
  for (const query of ['?action=unsubscribe', '?List-Unsubscribe=One-Click', '?_method=POST'])
    assert.match((await postrider.raw(path + query)).body, SUBSCRIBED)
  for (const method of ['OPTIONS', 'PUT', 'DELETE', 'PATCH'])
    assert.ok([404, 405].includes((await postrider.raw(path, { method })).status), method)
  assert.deepEqual(await entries('look@there.test'), [])
  assert.equal(happened(campaign), 0)
  const [contact] = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  assert.equal(contact.attributes.status, 'subscribed')
})

test('one-click and the button of the page unsubscribe at once without a redirect (AU49, AU52)', async () => {
  const bodies: [string, RequestInit][] = [
    ['urlencoded', form(ONE_CLICK)],
    ['beside other fields', form(`a=b&${ONE_CLICK}&c=d`)],
    ['multipart', multipart('List-Unsubscribe', 'One-Click')],
    ['button', form('action=unsubscribe')],
  ]
  for (const [name, init] of bodies) {
    const address = `${name.replaceAll(' ', '-')}@there.test`
    const { campaign, path } = await linked(address)
    const { body, headers, status } = await postrider.raw(path, init)
    assert.deepEqual([status, headers.get('location')], [200, null], name)
    assert.match(body, UNSUBSCRIBED, name)
    const [entry, ...more] = await entries(address)
    assert.deepEqual(more, [])
    const { expires_at, reason, scope, source } = entry.attributes
    assert.deepEqual([reason, scope, source, expires_at], ['unsubscribe', 'marketing', 'unsubscribe_link', null])
    await Promise.all([postrider.raw(path, init), postrider.raw(path, init)])
    assert.equal(happened(campaign), 1, name)
    assert.equal((await kit.stats(campaign))['unsubscribes'], 1)
    assert.equal((await entries(address)).length, 1)
  }
})

test('any other POST only shows the page (D60)', async () => {
  const bodies: [string, RequestInit][] = [
    ['empty', { method: 'POST' }],
    ['empty form', form('')],
    ['another value', form('List-Unsubscribe=Yes')],
    ['another field', form('a=List-Unsubscribe=One-Click')],
    ['another action', form('action=leave')],
    ['another multipart', multipart('List-Unsubscribe', 'No')],
    ['junk', form('%%%\0&&==[]', 'application/x-www-form-urlencoded')],
    ['junk multipart', form('--cut\r\nnothing', 'multipart/form-data; boundary=cut')],
    ['no boundary', form(ONE_CLICK, 'multipart/form-data')],
    ['json', form('{"List-Unsubscribe":"One-Click"}', 'application/json')],
    ['odd type', form(ONE_CLICK, 'x/y; z')],
    ['plain text', form(ONE_CLICK, 'text/plain')],
    ['large', form(`${ONE_CLICK}&x=${'x'.repeat(1024 * 1024)}`)],
  ]
  const { campaign, path } = await linked('other@there.test')
  for (const [name, init] of bodies) {
    const { body, headers, status } = await postrider.raw(path, init)
    assert.deepEqual([status, headers.get('location')], [200, null], name)
    assert.match(body, SUBSCRIBED, name)
    assert.deepEqual(await entries('other@there.test'), [], name)
  }
  assert.equal(happened(campaign), 0)
  await postrider.raw(path, form(ONE_CLICK))
  for (const [name, init] of bodies) assert.match((await postrider.raw(path, init)).body, UNSUBSCRIBED, name)
  assert.equal((await entries('other@there.test')).length, 1)
})

test('responds to a body of 1 MB instead of closing the connection', async () => {
  const { path } = await linked('socket@there.test')
  const { host, port } = postrider.appliance.http
  const body = `${ONE_CLICK}&x=${'x'.repeat(1024 * 1024)}`
  const headers = { 'content-type': 'application/x-www-form-urlencoded', 'content-length': body.length }
  const status = await new Promise((resolve, reject) => {
    const asked = request({ host, port, path, method: 'POST', headers }, (response) => {
      response.resume().on('end', () => resolve(response.statusCode))
    })
    asked.on('error', reject).end(body)
  })
  assert.equal(status, 200)
  assert.deepEqual(await entries('socket@there.test'), [])
})

test('works after contact, campaign and audience were deleted (AU54)', async () => {
  const { audience, campaign, path } = await linked('gone@there.test')
  const [contact] = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  for (const gone of [`/contacts/${contact.id}`, `/campaigns/${campaign}`, `/audiences/${audience}`])
    assert.equal((await postrider.api('DELETE', gone)).status, 204)
  assert.match((await postrider.raw(path)).body, SUBSCRIBED)
  assert.match((await postrider.raw(path, form(ONE_CLICK))).body, UNSUBSCRIBED)
  assert.equal((await entries('gone@there.test'))[0].attributes.scope, 'marketing')
  assert.equal(happened(campaign), 1)
  const mails = (await postrider.api('GET', '/outbound-emails?filter[to]=gone@there.test')).body.data
  assert.equal((await postrider.api('DELETE', `/outbound-emails/${mails[0].id}`)).status, 204)
  assert.match((await postrider.raw(path)).body, UNSUBSCRIBED)
})

test('the page resubscribes via its own form', async () => {
  const { audience, path } = await linked('back@there.test')
  const left = await postrider.raw(path, form(ONE_CLICK))
  const [, value] = /name="action" value="(\w+)"/.exec(left.body)!
  for (const init of [form(`action=${value}`), multipart('action', value!)]) {
    await postrider.raw(path, form(ONE_CLICK))
    assert.match((await postrider.raw(path, init)).body, SUBSCRIBED)
    assert.deepEqual(await entries('back@there.test'), [])
    const [contact] = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
    assert.equal(contact.attributes.status, 'subscribed')
  }
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  assert.equal(exchanger.heard.filter(({ to }) => to[0] === 'back@there.test').length, 2)
})

test('a forged, truncated or oversized token shows an error page and has no effect', async () => {
  const { path } = await linked('forged@there.test')
  const token = path.slice('/u/'.length)
  const forged = new Set<string>()
  for (let at = 0; at < token.length; at++) {
    forged.add(token.slice(0, at))
    for (let bit = 0; bit < 8; bit++)
      forged.add(token.slice(0, at) + String.fromCharCode(token.charCodeAt(at) ^ (1 << bit)) + token.slice(at + 1))
  }
  for (const more of ['A', '=', '.', '!', '%00', token]) forged.add(token + more)
  for (const odd of ['x', '%', '%ff', '😀', 'A'.repeat(16), 'A'.repeat(100_000)]) forged.add(odd)
  forged.delete(token)
  for (const text of forged)
    for (const method of ['GET', 'POST']) {
      const at = text.startsWith('%') || text.includes('%00') ? text : encodeURIComponent(text)
      const answer = await postrider.raw(`/u/${at}`, { method })
      assert.equal(answer.status, 404, `${method} ${text.slice(0, 200)}`)
      if (text !== '') assert.match(answer.body, /This link does not work|[Nn]ot found\./)
    }
  assert.deepEqual(await entries('forged@there.test'), [])
})

test('a token reveals neither recipient, list and domain nor their lengths', async () => {
  const { keyring } = postrider.appliance.deps
  const token = (email: string): Buffer =>
    Buffer.from(
      unsubscribeUrl(keyring, '', { delivery: 1, domain: domain.key, audience: 3, email }).slice('/u/'.length),
      'base64url',
    )
  const { path } = await linked('secret.name@there.test')
  for (const text of [Buffer.from(path.slice('/u/'.length), 'base64url'), token('secret.name@there.test')].map(
    (bytes) => bytes.toString('latin1'),
  ))
    assert.doesNotMatch(text, /secret|name|there|test/i)
  assert.equal(token('a@b.test').length, token('somebody@there.test').length)
  assert.notDeepEqual(token('a@b.test'), token('a@b.test'))
})

test('a link in the first format, readable and signed, still works', async () => {
  const { path } = await linked('first@there.test')
  const { keyring } = postrider.appliance.deps
  const body = Buffer.from(JSON.stringify([0, domain.key, 0, 'first@there.test']))
  const old = `/u/${Buffer.concat([keyring.mac('unsubscribe', body, 12), body]).toString('base64url')}`
  assert.notEqual(old, path)
  assert.match((await postrider.raw(old)).body, /first@there\.test receives/)
  assert.match((await postrider.raw(old, form(ONE_CLICK))).body, UNSUBSCRIBED)
  assert.match((await postrider.raw(path)).body, UNSUBSCRIBED)
})

test('headers forbid caching, framing, foreign referrers and loading resources (AU58, AU59)', async () => {
  const { path } = await linked('headers@there.test')
  for (const [at, init] of [
    [path, {}],
    [path, form(ONE_CLICK)],
    ['/u/none', {}],
  ] as const) {
    const { body, headers } = await postrider.raw(at, init)
    assert.equal(headers.get('cache-control'), 'no-store')
    assert.equal(headers.get('referrer-policy'), 'same-origin')
    assert.equal(headers.get('x-content-type-options'), 'nosniff')
    assert.equal(headers.get('x-frame-options'), 'DENY')
    assert.match(headers.get('x-robots-tag')!, /noindex/)
    assert.equal(headers.get('set-cookie'), null)
    assert.match(headers.get('content-type')!, /^text\/html; charset=utf-8$/i)
    const policy = headers.get('content-security-policy')!
    for (const part of ["default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"])
      assert.ok(policy.includes(part), part)
    assert.doesNotMatch(policy, /script-src|https?:/)
    assert.doesNotMatch(body, /<script|<img|<link|@import|url\(|\son\w+=|https?:\/\//i)
    assert.match(body, /^<!doctype html>\s*<html lang="en">/)
    assert.equal(body.match(/<h1\b/g)?.length, 1)
    assert.equal(body.match(/<main\b/g)?.length, 1)
    assert.match(body, /<title>[^<]+<\/title>/)
    assert.match(body, /name="viewport"/)
    for (const [field] of body.matchAll(/<input\b[^>]*>/g)) assert.match(field, /type="hidden"/)
    for (const [, label] of body.matchAll(/<button\b[^>]*>([^<]*)<\/button>/g)) assert.match(label!, /\w/)
    assert.doesNotMatch(body, /tabindex|disabled|autofocus/)
  }
})

test('escapes hostile names and addresses', async () => {
  const title = `</strong></main><script>alert(1)</script>"'><img src=x onerror=a>&amp;`
  await kit.fill(await kit.audience(domain), [`a&b'c@there.test`])
  const { path } = await linked(`a&b'c@there.test`, title)
  const { body } = await postrider.raw(path)
  assert.ok(body.includes('a&amp;b&#39;c@there.test'), body)
  assert.ok(body.includes('&lt;/strong&gt;&lt;/main&gt;&lt;script&gt;alert(1)&lt;/script&gt;'))
  assert.ok(body.includes('&amp;amp;'))
  assert.doesNotMatch(body, /<script|<img/)
  assert.doesNotMatch((await postrider.raw(path, form(ONE_CLICK))).body, /b'c@/)
  const { keyring } = postrider.appliance.deps
  const crafted = unsubscribeUrl(keyring, '', {
    delivery: 0,
    domain: domain.key,
    audience: 0,
    email: '<b>x</b>@y.test',
  })
  assert.ok((await postrider.raw(crafted)).body.includes('&lt;b&gt;x&lt;/b&gt;@y.test'))
})

test('unsubscribing applies to one domain until the contact’s status is set', async () => {
  const { audience, path } = await linked('hand@there.test')
  await postrider.raw(path, form(ONE_CLICK))
  const [contact] = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  assert.equal(contact.attributes.status, 'unsubscribed')
  const change = document('contacts', { status: 'subscribed' }, { id: contact.id })
  assert.equal((await postrider.api('PATCH', `/contacts/${contact.id}`, change)).status, 200)
  assert.match((await postrider.raw(path)).body, SUBSCRIBED)
})

const contactOf = async (audience: string) =>
  (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data[0].attributes
const buttonsOf = (body: string): string[] =>
  [...body.matchAll(/<button\b[^>]*>([^<]*)<\/button>/g)].map(([, label]) => label!.trim())

test('with one audience there is one button to unsubscribe, with several also one for the audience (AU48)', async () => {
  const one = await linked('one@there.test', 'Weekly')
  assert.deepEqual(buttonsOf((await postrider.raw(one.path)).body), [
    'Unsubscribe from everything from here.test',
    'Save',
    'Send me the link',
  ])
  await kit.fill(await kit.audience(domain, 'Second'), ['one@there.test'])
  assert.deepEqual(buttonsOf((await postrider.raw(one.path)).body).slice(0, 2), [
    'Unsubscribe from Weekly',
    'Unsubscribe from everything from here.test',
  ])
})

test('the scope "audience" unsubscribes from the audience alone, without a suppression, and its undo returns (AU50)', async () => {
  const { audience, path } = await linked('part@there.test', 'Weekly')
  const other = await kit.audience(domain, 'Second')
  await kit.fill(other, ['part@there.test'])
  const left = await postrider.raw(path, form('action=unsubscribe&scope=audience'))
  assert.match(left.body, /<p role="status">You no longer receive Weekly\.<\/p>/)
  assert.deepEqual([left.status, await entries('part@there.test')], [200, []])
  assert.partialDeepStrictEqual(await contactOf(audience), { status: 'unsubscribed', unsubscribed_from: 'audience' })
  assert.equal((await contactOf(other)).status, 'subscribed')
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  assert.equal(exchanger.heard.filter(({ to }) => to[0] === 'part@there.test').length, 1)
  const back = await postrider.raw(path, form('action=subscribe&scope=audience'))
  assert.match(back.body, /<p role="status">You are subscribed again\.<\/p>/)
  assert.partialDeepStrictEqual(await contactOf(audience), { status: 'subscribed', unsubscribed_from: null })
})

test('who unsubscribes from an audience and then from everything can undo each', async () => {
  const { audience, path } = await linked('both@there.test', 'Weekly')
  const other = await kit.audience(domain, 'Second')
  await kit.fill(other, ['both@there.test'])
  await postrider.raw(path, form('action=unsubscribe&scope=audience'))
  await postrider.raw(path, form('action=unsubscribe'))
  assert.equal((await contactOf(other)).status, 'unsubscribed')
  const all = await postrider.raw(path, form('action=subscribe'))
  assert.equal((await contactOf(other)).status, 'subscribed')
  assert.partialDeepStrictEqual(await contactOf(audience), { status: 'unsubscribed', unsubscribed_from: 'audience' })
  assert.match(all.body, /name="scope" value="audience"/)
  await postrider.raw(path, form('action=subscribe&scope=audience'))
  assert.equal((await contactOf(audience)).status, 'subscribed')
})

test('the undo of an audience does not undo unsubscribing from the domain', async () => {
  const { audience, path } = await linked('still@there.test', 'Weekly')
  await postrider.raw(path, form('action=unsubscribe&scope=audience'))
  await postrider.raw(path, form('action=unsubscribe'))
  await postrider.raw(path, form('action=subscribe&scope=audience'))
  assert.partialDeepStrictEqual(await contactOf(audience), { status: 'unsubscribed', unsubscribed_from: 'domain' })
  assert.equal((await entries('still@there.test')).length, 1)
})

test('one-click with the scope of an audience still means everything from the domain (AU49)', async () => {
  const { path } = await linked('click@there.test')
  await postrider.raw(path, form(`${ONE_CLICK}&scope=audience`))
  assert.equal((await entries('click@there.test')).length, 1)
})

test('a bounced contact stays bounced when it unsubscribes from an audience and undoes it', async () => {
  const { audience, path } = await linked('bounced@there.test')
  const entry = { user_key: domain.user_key, domain_key: domain.key, address: 'bounced@there.test' }
  const { store } = postrider.appliance.deps
  const bounce = { ...entry, source: 'smtp', reason: 'hard_bounce', scope: 'all' } as const
  await store.write((tx) => suppress(tx, bounce, postrider.clock.now()))
  await postrider.raw(path, form('action=unsubscribe&scope=audience'))
  await postrider.raw(path, form('action=subscribe&scope=audience'))
  assert.equal((await contactOf(audience)).status, 'bounced')
})

/** The text of the page and its sentence about the last action. */
const said = (body: string): string => /<p role="status">([^<]*)<\/p>/.exec(body)?.[1] ?? ''
const RECEIVES = /@there\.test receives/

test('the page says that an address receives email only if it does', async () => {
  const { audience, path } = await linked('truth@there.test', 'Weekly')
  const page = async () => (await postrider.raw(path)).body
  assert.match(await page(), /truth@there\.test receives Weekly from/)
  const { deps } = postrider.appliance
  const entry = { user_key: domain.user_key, domain_key: domain.key, address: 'truth@there.test' }
  const manual = { ...entry, source: 'manual', reason: 'manual', scope: 'all' } as const
  await deps.store.write((tx) => suppress(tx, manual, postrider.clock.now()))
  assert.doesNotMatch(await page(), RECEIVES)
  await removeSuppressions(deps, domain.key, 'truth@there.test')
  // In another audience, the address still receives newsletters, but not those of the link.
  await kit.fill(await kit.audience(domain, 'Second'), ['truth@there.test'])
  const [contact] = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  await postrider.api('DELETE', `/contacts/${contact.id}`)
  assert.match(await page(), /truth@there\.test receives newsletters from/)
  await postrider.raw(path, form('action=unsubscribe'))
  assert.doesNotMatch(await page(), RECEIVES)
  const gone = await linked('list.gone@there.test', 'Weekly')
  await postrider.api('DELETE', `/audiences/${gone.audience}`)
  assert.doesNotMatch((await postrider.raw(gone.path)).body, RECEIVES)
})

test('an undo says that the address is subscribed again only if it is', async () => {
  const { audience, path } = await linked('undo@there.test', 'Weekly')
  const undo = async (fields = '') => said((await postrider.raw(path, form(`action=subscribe${fields}`))).body)
  await postrider.raw(path, form('action=unsubscribe&scope=audience'))
  await postrider.raw(path, form('action=unsubscribe'))
  assert.equal(await undo('&scope=audience'), 'Saved.')
  assert.equal(await undo(), 'You are subscribed again.')
  const entry = { user_key: domain.user_key, domain_key: domain.key, address: 'undo@there.test' }
  const complaint = { ...entry, source: 'arf', reason: 'complaint', scope: 'all' } as const
  await postrider.appliance.deps.store.write((tx) => suppress(tx, complaint, postrider.clock.now()))
  assert.match(await undo(), /^No email can be sent to undo@there\.test: the address is blocked/)
  const [contact] = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  await postrider.api('DELETE', `/contacts/${contact.id}`)
  await removeSuppressions(postrider.appliance.deps, domain.key, 'undo@there.test')
  await postrider.raw(path, form('action=unsubscribe'))
  assert.equal(await undo(), 'Saved.')
})

for (const lang of LANGUAGES)
  test(`after an erasure, the page in ${lang} says that no link can be sent`, async () => {
    const address = `erased.${lang}@there.test`
    const { path } = await linked(address)
    assert.equal((await postrider.api('DELETE', `/recipients/${address}/forget`)).status, 202)
    await until(
      () =>
        postrider.appliance.deps.store.first(raw("select 1 from privacy_requests where status = 'pending'")) ===
          undefined || undefined,
      'the erasure',
    )
    const { t } = textsIn(lang)
    const answer = said((await postrider.raw(`${path}?lang=${lang}`, form('action=link'))).body)
    assert.equal(answer, t('address_blocked', { address, sender: 'here.test' }))
  })

test('a link of a domain that cannot send says that no link can be sent', async () => {
  const other = await postrider.activeDomain('paused.test')
  const { keyring, store } = postrider.appliance.deps
  const leaving = { delivery: 0, domain: other.key, audience: 0, email: 'any@there.test' }
  await store.write((tx) => tx.run(raw("update domains set status = 'pending' where key = ?", [other.key])))
  const { body } = await postrider.raw(unsubscribeUrl(keyring, '', leaving), form('action=link'))
  assert.equal(said(body), 'No link can be sent at the moment.')
})

test('a language that the subscriber chooses is stored, and used at once', async () => {
  const { audience, path } = await linked('lang@there.test')
  const chosen = await postrider.raw(`${path}?lang=fr`, form('action=language&language=de'))
  assert.match(chosen.body, /<html lang="de">/)
  assert.match(chosen.body, /<p role="status">Gespeichert\.<\/p>/)
  assert.equal((await contactOf(audience)).language, 'de')
  assert.match((await postrider.raw(path)).body, /<html lang="de">/)
  assert.match((await postrider.raw(`${path}?lang=fr`)).body, /<html lang="fr">/)
  for (const value of ['xx', '', '<b>', 'x'.repeat(3000)])
    assert.doesNotMatch((await postrider.raw(path, form(`action=language&language=${value}`))).body, /role="status"/)
  assert.equal((await contactOf(audience)).language, 'de')
})

for (const lang of LANGUAGES)
  test(`the page in ${lang} is in one language, with links to all languages (AU57)`, async () => {
    const { path } = await linked(`${lang}.page@there.test`)
    const { t } = textsIn(lang)
    const { body } = await postrider.raw(path, { headers: { 'accept-language': `${lang}-XX,xx;q=0.1` } })
    assert.match(body, new RegExp(`<html lang="${lang}">`))
    for (const text of [t('page_title'), t('unsubscribe_all', { domain: 'here.test' }), t('data_button')])
      assert.ok(body.includes(text), text)
    const links = [...body.matchAll(/href="\?lang=(\w+)"\s+lang="(\w+)"\s+hreflang="(\w+)"/g)]
    assert.deepEqual(
      links.map(([, ...each]) => each),
      LANGUAGES.map((each) => [each, each, each]),
    )
    assert.equal((await postrider.raw(`/u/none?lang=${lang}`)).body.includes(t('not_found_title')), true)
  })

test('the page shows the reader of a forwarded email no name, field, consent or number (AU53)', async () => {
  const audience = await kit.audience(domain)
  const secret = { name: 'Mia Secret', custom_fields: { city: 'Hidden Town' }, preferences: { pet: 'Hidden Cat' } }
  const given = { email: 'seen@there.test', ...secret, consent_evidence: 'Signed at the fair' }
  const added = await postrider.api('POST', `/audiences/${audience}/contacts`, document('contacts', given))
  assert.equal(added.status, 201)
  const campaign = await kit.draft(audience)
  await kit.send(campaign)
  const { keyring, store } = postrider.appliance.deps
  const { key } = store.one(raw<{ key: number }>('select key from audiences where id = ?', [audience]))
  const leaving = { delivery: 0, domain: domain.key, audience: key, email: 'seen@there.test' }
  const path = unsubscribeUrl(keyring, '', leaving)
  for (const init of [{}, form('action=link'), form('action=unsubscribe'), form('action=export')]) {
    const { body } = await postrider.raw(path, init)
    assert.match(body, /seen@there\.test/)
    assert.doesNotMatch(body, /Secret|Hidden|Signed at|Opened|\/me\//)
  }
  assert.deepEqual((await postrider.api('GET', '/recipient-requests')).body.data, [])
})

test('a contact that unsubscribes from one audience causes one contact.unsubscribed', async () => {
  const { audience, path } = await linked('event@there.test')
  for (const _ of [1, 2]) await postrider.raw(path, form('action=unsubscribe&scope=audience'))
  const { store } = postrider.appliance.deps
  const [contact] = (await postrider.api('GET', `/audiences/${audience}/contacts`)).body.data
  const found = store
    .all(raw<RowOf<'events'>>(`select * from events where type = 'contact.unsubscribed' order by key`))
    .map((event) => dataOf(store, event))
    .filter((data) => data?.['email'] === 'event@there.test')
  const { id: domain_id, name } = domain
  const of = { domain_id, name, status: 'active', previous_status: null }
  assert.deepEqual(found, [
    { ...of, contact_id: contact.id, audience_id: audience, form_id: null, email: 'event@there.test' },
  ])
})
