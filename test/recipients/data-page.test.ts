// The page of the data about a recipient: its link is emailed to the address alone and works for an hour, it shows what
// the account stores, and requests a copy or an erasure.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { simpleParser } from 'mailparser'
import { DAY, HOUR, MINUTE } from '../../src/base/clock.ts'
import { unsubscribeUrl } from '../../src/campaigns/unsubscribe.ts'
import { recordConsent } from '../../src/campaigns/consents.ts'
import { dataUrl } from '../../src/recipients/data-link.ts'
import { LANGUAGES, textsIn } from '../../src/recipients/languages.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)

const post = (path: string, body: string, headers: Record<string, string> = {}) =>
  postrider.raw(path, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
    body,
  })

/** The path of the page of an address, by a link that is made now. */
const pathOf = (email: string): string => {
  const { config, keyring } = postrider.appliance.deps
  return new URL(dataUrl(keyring, config.http.public_url, { domain, email }, postrider.clock.now())).pathname
}

/** Adds a contact of a new audience. Returns the path of its unsubscribe link, and the audience. */
async function subscriber(email: string, contact: Record<string, unknown> = {}) {
  const audience = await kit.audience(domain)
  await kit.fill(audience, [{ email, ...contact }])
  const { keyring, store } = postrider.appliance.deps
  const { key } = store.one(raw<{ key: number }>('select key from audiences where id = ?', [audience]))
  const path = unsubscribeUrl(keyring, '', { delivery: 0, domain: domain.key, audience: key, email })
  return { audience, key, path }
}

const emailsTo = async (email: string): Promise<{ id: string; attributes: Record<string, unknown> }[]> =>
  (await postrider.api('GET', `/outbound-emails?filter[search]=to:${email}`)).body.data

test('the link is emailed to the address, in its language, and works for an hour (AU55)', async () => {
  const { path } = await subscriber('mia@there.test')
  await post(path, 'action=language&language=de')
  const { body, status } = await post(path, 'action=link')
  assert.equal(status, 200)
  assert.match(body, /<p role="status">Ein Link ist unterwegs an mia@there\.test\./)
  const message = await until(
    () => exchanger.heard.find(({ to }) => to.includes('mia@there.test'))?.message,
    'the link',
  )
  assert.match(message, /^From: noreply@here\.test\r$/m)
  assert.match(message, /^Auto-Submitted: auto-generated\r$/m)
  const [email] = await emailsTo('mia@there.test')
  const shown = (await postrider.api('GET', `/outbound-emails/${email!.id}`)).body.data.attributes
  assert.deepEqual([shown.subject, shown.tags], ['Ihr Link zu Ihren Daten', ['subscriber_link']])
  const [, link] = /https?:\/\/[^/\s]+(\/me\/[\w-]+)/.exec((await simpleParser(message)).text ?? '')!
  assert.equal((await postrider.raw(link!)).status, 200)
  postrider.clock.leap(HOUR)
  const expired = await postrider.raw(`${link}?lang=en`)
  assert.equal(expired.status, 404)
  assert.match(expired.body, /This link has expired, or it is incomplete\./)
  assert.equal((await post(link!, 'action=erasure')).status, 404)
  assert.deepEqual((await postrider.api('GET', '/recipient-requests')).body.data, [])
})

test('an address gets one link in 5 minutes and three in 24 hours, and the page says so (AU37)', async () => {
  const { path } = await subscriber('often@there.test')
  const ask = async () => (await post(path, 'action=link')).body
  const LIMITED = /No more links can be sent to often@there\.test at the moment/
  assert.match(await ask(), /A link is on its way to often@there\.test/)
  assert.match(await ask(), LIMITED)
  for (const _ of [2, 3]) {
    postrider.clock.leap(5 * MINUTE)
    assert.match(await ask(), /A link is on its way/)
  }
  postrider.clock.leap(5 * MINUTE)
  assert.match(await ask(), LIMITED)
  assert.equal((await emailsTo('often@there.test')).length, 3)
  postrider.clock.leap(DAY)
  assert.match(await ask(), /A link is on its way/)
})

test('shows subscriptions, details, consents and numbers, and only those of the account (AU55, AU110)', async () => {
  const email = 'all@there.test'
  const { audience, key } = await subscriber(email, {
    name: 'Mia <b>Miller</b>',
    custom_fields: { city: 'Graz', tags: ['a', 1] },
    preferences: { pet: 'cat' },
  })
  const titled = document('audiences', { title: 'Weekly' }, { id: audience })
  await postrider.api('PATCH', `/audiences/${audience}`, titled)
  const { keyring, store } = postrider.appliance.deps
  const at = Date.UTC(2026, 0, 9)
  const contact = store.one(
    raw<{ key: number }>('select key from contacts where email = ? and audience_key = ?', [email, key]),
  )
  const consent = { state: 'confirmed', source: 'form', language: 'de', text: 'Ja, ich will <i>alles</i>.' } as const
  const of = { user_key: domain.user_key, audience_key: key, key: contact.key, email }
  await store.write((tx) => recordConsent(tx, keyring, of, { ...consent, confirmed_at: at }, at))
  assert.equal(await kit.send(await kit.draft(audience)), 'sent')
  const others = await postrider.activeDomain('other.test', postrider.other)
  await store.write((tx) =>
    tx.run(
      raw(
        `insert into outbound_emails (id, user_key, domain_key, "from", "to", subject, opens_tracked, clicks_tracked, message_id, status, queued_at, created_at, updated_at)
           values ('x', ?, ?, 'a@other.test', 'all@there.test', 'x', 0, 0, '<x@other.test>', 'sent', 0, 0, 0)`,
        [others.user_key, others.key],
      ),
    ),
  )
  const { body, headers, status } = await postrider.raw(pathOf(email))
  assert.equal(status, 200)
  assert.match(body, /<li>Weekly: subscribed, since \w+ \d+, 20\d\d<\/li>/)
  for (const text of ['Name: Mia &lt;b&gt;Miller&lt;/b&gt;', 'city: Graz', 'tags: [&quot;a&quot;,1]', 'pet: cat'])
    assert.ok(body.includes(`<li>${text}</li>`), text)
  assert.match(body, /Confirmed on January 9, 2026\. The text was:/)
  assert.match(body, /<blockquote lang="de" dir="auto">Ja, ich will &lt;i&gt;alles&lt;\/i&gt;\.<\/blockquote>/)
  assert.match(body, /Recorded by the sender on/)
  assert.match(body, /Emails: 1\. Opened: 0\. Links followed: 0\. Bounced: 0\./)
  assert.equal(headers.get('cache-control'), 'no-store')
  assert.equal(headers.get('referrer-policy'), 'same-origin')
  assert.equal(headers.get('set-cookie'), null)
  assert.doesNotMatch(body, /<script|https?:\/\//)
  const other = dataUrl(keyring, '', { domain: others, email }, postrider.clock.now())
  const elsewhere = (await postrider.raw(other)).body
  assert.doesNotMatch(elsewhere, /Weekly|Miller|Graz|alles/)
})

test('a request for a copy is open, and the page names the sender and the deadline (AU56)', async () => {
  await subscriber('copy@there.test')
  const path = pathOf('copy@there.test')
  for (const method of ['GET', 'HEAD']) await postrider.raw(`${path}?action=export`, { method })
  assert.deepEqual((await postrider.api('GET', '/recipient-requests')).body.data, [])
  const { body } = await post(`${path}?lang=de`, 'action=export')
  const due = textsIn('de').date(postrider.clock.now() + 30 * DAY)
  assert.ok(body.includes(`Ihre Anfrage wurde an here.test gesendet. Sie erhalten spätestens am ${due} eine Antwort.`))
  await post(path, 'action=export')
  const { data } = (await postrider.api('GET', '/recipient-requests')).body
  assert.equal(data.length, 1)
  assert.partialDeepStrictEqual(data[0].attributes, { kind: 'export', state: 'open', email: 'copy@there.test' })
})

test('"unsubscribe" unsubscribes from everything of the domain', async () => {
  await subscriber('stop@there.test')
  const { body } = await post(pathOf('stop@there.test'), 'action=unsubscribe')
  assert.match(body, /<p role="status">You no longer receive newsletters from here\.test\./)
  const found = await postrider.api('GET', '/suppressions?filter[email]=stop@there.test')
  assert.partialDeepStrictEqual(found.body.data[0].attributes, { reason: 'unsubscribe', scope: 'marketing' })
})

test('after an erasure, the link does not work', async () => {
  await subscriber('gone@there.test')
  const path = pathOf('gone@there.test')
  assert.equal((await postrider.api('DELETE', '/recipients/gone@there.test/forget')).status, 202)
  await until(async () => (await postrider.api('GET', '/recipients/gone@there.test')).status === 404, 'the erasure')
  assert.equal((await postrider.raw(path)).status, 404)
})

test('a recipient of whom nothing is stored sees that', async () => {
  assert.match((await postrider.raw(pathOf('none@there.test'))).body, /Nothing is stored\./)
})

test('a forged or truncated link, and the token of an unsubscribe link, show an error page', async () => {
  const path = pathOf('forged@there.test')
  const { path: unsubscribe } = await subscriber('forged@there.test')
  const token = path.slice('/me/'.length)
  const forged = new Set([unsubscribe.slice('/u/'.length), `${token}A`, token.slice(0, -1), 'x', 'A'.repeat(50_000)])
  for (let at = 0; at < token.length; at += 7)
    forged.add(token.slice(0, at) + (token[at] === 'A' ? 'B' : 'A') + token.slice(at + 1))
  for (const each of forged)
    for (const method of ['GET', 'POST'])
      assert.equal((await postrider.raw(`/me/${each}`, { method })).status, 404, each.slice(0, 100))
  assert.equal((await postrider.raw(`/u/${token}`)).status, 404)
})

for (const lang of LANGUAGES)
  test(`the page in ${lang} has its title, its buttons and the statuses in one language (AU57)`, async () => {
    const email = `${lang}.data@there.test`
    await subscriber(email)
    const { t } = textsIn(lang)
    const { body } = await postrider.raw(`${pathOf(email)}?lang=${lang}`)
    assert.match(body, new RegExp(`<html lang="${lang}">`))
    for (const key of ['data_page_title', 'data_lists', 'state_subscribed', 'export_button', 'erase_button'])
      assert.ok(body.includes(t(key).replaceAll('&', '&amp;')), key)
  })
