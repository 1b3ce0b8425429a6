// Confirmation links: the page, both buttons, scanners, expired links, and what happens to contact and consent.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { DAY, HOUR, MINUTE } from '../../src/base/clock.ts'
import { confirmUrl, readConfirmToken } from '../../src/forms/tokens.ts'
import { refuse, stateOfLink } from '../../src/forms/confirm.ts'
import { signupDeps } from '../../src/forms/signup.ts'
import { forgetConsents, recordConsent } from '../../src/campaigns/consents.ts'
import { settleComplaint } from '../../src/delivery/results/returned.ts'
import { OPEN_GATE } from '../../src/parts/gate.ts'
import { raw } from '../../src/store/query.ts'
import type { RowOf } from '../../src/store/schema/tables.ts'
import { CATALOGUE } from '../../src/webhooks/catalogue.ts'
import { dataOf } from '../../src/webhooks/payload.ts'
import { suppress } from '../../src/suppressions/suppressions.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'
import { SITE, signupKit } from '../kit/signups.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger({
  answer: (command) => (/^RCPT TO:<bounce/i.test(command) ? '550 5.1.1 No such user' : undefined),
})
const postrider = ofFile(() =>
  startTestAppliance({
    exchanger,
    routes: ['there.test'],
    config: { signup: { per_client: 10_000, per_client_day: 10_000, per_address: 20 } },
  }),
)
const domain = ofFile(() => postrider.activeDomain('here.test'))
const forms = formKit(() => postrider)
const campaigns = campaignKit(() => postrider)
const visitor = signupKit(() => postrider)
const NAME = { key: 'name', label: null, required: false }
const CITY = { key: 'city', label: 'City', required: false }

async function makeForm(attributes: Record<string, unknown> = {}) {
  const audience = await campaigns.audience(domain)
  const form = await forms.open({ audience }, { origins: [SITE], ...attributes })
  return { audience, ...form }
}

let made = 0
/** A sign-up at a form of its own, and its link. */
async function signedUp(attributes: Record<string, unknown> = {}, fields: Record<string, string> = {}) {
  const form = await makeForm(attributes)
  const email = `visitor${++made}@there.test`
  await visitor.signUp(form.slug, email, fields)
  return { ...form, email, link: visitor.link(email) }
}
const store = () => postrider.appliance.deps.store
const all = <T>(sql: string, parameters: unknown[] = []) => store().all(raw<T>(sql, parameters))
const pageOf = async (path: string): Promise<string> => (await postrider.page(path)).text()
const consentOf = (audience: string) =>
  all<{ state: string; key: number; ended_at: number | null; contact_key: number | null; recipient_hash: string }>(
    `select c.* from consents c join audiences a on a.key = c.audience_key where a.id = ? order by c.key desc limit 1`,
    [audience],
  )[0]!
const statusOf = async (audience: string, email: string) => (await visitor.contact(audience, email))?.status
const unsubscribeFrom = async (audience: string, email: string): Promise<void> => {
  const { id } = await visitor.contact(audience, email)
  const change = { status: 'unsubscribed', unsubscribed_from: 'audience' }
  assert.equal((await postrider.api('PATCH', `/contacts/${id}`, document('contacts', change, { id }))).status, 200)
}
const entry = (address: string, reason: 'manual' | 'unsubscribe' | 'complaint' | 'hard_bounce') =>
  store().write((tx) =>
    suppress(
      tx,
      {
        user_key: domain.user_key,
        domain_key: domain.key,
        address,
        source: 'manual',
        reason,
        scope: reason === 'unsubscribe' ? 'marketing' : 'all',
      },
      postrider.clock.now(),
    ),
  )

test('the page of a link shows what is confirmed, and changes nothing however often it is requested (AU23)', async () => {
  const { audience, email, id, link } = await signedUp({ fields: [NAME, CITY] }, { name: 'Eve', 'field.city': 'Ghent' })
  const before = [await forms.show(id), await visitor.contact(audience, email), consentOf(audience)]
  for (const method of ['GET', 'HEAD', 'GET']) {
    const answer = await postrider.page(link, { method })
    assert.equal(answer.status, 200)
    assert.equal(answer.headers.get('referrer-policy'), 'same-origin')
    assert.equal(answer.headers.get('cache-control'), 'no-store')
    assert.equal(answer.headers.get('set-cookie'), null)
  }
  const page = await pageOf(link)
  for (const text of ['Old Trees News', 'Old Trees Ltd, Ghent', 'once a month', email, 'value="Eve"', 'value="Ghent"'])
    assert.ok(page.includes(text), text)
  assert.doesNotMatch(page, /<script/)
  assert.match(page, /name="action" value="confirm"/)
  assert.match(page, /name="action" value="refuse"/)
  assert.deepEqual([await forms.show(id), await visitor.contact(audience, email), consentOf(audience)], before)
})

test('a confirmation subscribes with the values of the page, and sends the event (AU24, AU15)', async () => {
  const { audience, email, id, link } = await signedUp({ fields: [NAME, CITY] }, { name: 'Eve', 'field.city': 'Ghent' })
  const answer = await visitor.press(link, 'confirm', { name: 'Eva', 'field.city': 'Bruges', 'field.unknown': 'x' })
  assert.equal(answer.status, 200)
  assert.match(await answer.text(), /You are subscribed[\s\S]*href="[^"]*\/u\/[\w-]+"/)
  const contact = await visitor.contact(audience, email)
  assert.deepEqual([contact?.status, contact?.name], ['subscribed', 'Eva'])
  assert.deepEqual(contact?.custom_fields, { city: 'Bruges' })
  assert.equal(contact?.language, 'en')
  assert.equal(consentOf(audience).state, 'confirmed')
  assert.equal((await forms.show(id))['counts'].confirmed, 1)
  const [event] = all<{ data: string }>(
    `select data from events where type = 'contact.confirmed' order by key desc limit 1`,
  )
  const [row] = all<RowOf<'events'>>(`select * from events where type = 'contact.confirmed' order by key desc limit 1`)
  const sent = dataOf(store(), row!)
  assert.deepEqual(CATALOGUE['contact.confirmed'].data.parse(sent), sent)
  assert.deepEqual(JSON.parse(event!.data), { contact_id: contact.id, audience_id: audience, form_id: id, email })
  assert.equal(all('select key from signups where email = ?', [email]).length, 0)
})

test('the page has one language, and the declaration the one in which it was shown (AU57)', async () => {
  const { link } = await signedUp({ fields: [{ ...NAME, required: true }] }, { name: 'Eva' })
  const page = await pageOf(`${link}?lang=de`)
  assert.match(page, /<html lang="de">/)
  assert.match(page, /lang="en" dir="auto">I would like to receive/)
  assert.match(page, /\(Pflichtfeld\)/)
  assert.doesNotMatch(page, /\(required\)/)
})

test('a contact that its owner deletes gets no confirmation email, and its link subscribes nobody (AU33)', async () => {
  const { audience, email, id, link, slug } = await signedUp()
  const { id: contact } = await visitor.contact(audience, email)
  assert.equal((await postrider.api('DELETE', `/contacts/${contact}`)).status, 204)
  assert.equal(all('select key from signups where email = ?', [email]).length, 0)
  assert.deepEqual([consentOf(audience).state, consentOf(audience).contact_key], ['expired', null])
  await visitor.press(link, 'confirm')
  assert.equal(await visitor.contact(audience, email), undefined)

  // One that waits for a paused form.
  await postrider.api('PATCH', `/forms/${id}`, document('forms', { status: 'paused' }, { id }))
  const waiting = 'deleted-while-waiting@there.test'
  await visitor.signUp(slug, waiting)
  const row = await visitor.contact(audience, waiting)
  assert.equal((await postrider.api('DELETE', `/contacts/${row.id}`)).status, 204)
  assert.equal(all('select key from signups where email = ?', [waiting]).length, 0)
})

test('repeated presses and the back button show "confirmed" again and change nothing (AU25)', async () => {
  const { audience, email, id, link } = await signedUp({ fields: [NAME] })
  await visitor.press(link, 'confirm', { name: 'Eva' })
  const before = [await visitor.contact(audience, email), (await forms.show(id))['counts']]
  for (const name of ['Mallory', ''])
    assert.match(await (await visitor.press(link, 'confirm', { name })).text(), /You are subscribed/)
  assert.match(await pageOf(link), /You are subscribed/)
  assert.deepEqual([await visitor.contact(audience, email), (await forms.show(id))['counts']], before)
})

test('a token that is cut, changed or foreign leads to a neutral page (AU22, AU25)', async () => {
  const { link } = await signedUp()
  const { keyring } = postrider.appliance.deps
  const token = link.slice('/c/'.length)
  assert.doesNotMatch(Buffer.from(token, 'base64url').toString('latin1'), /visitor|there\.test/)
  const other = token.at(-5) === 'A' ? 'B' : 'A'
  for (const bad of [
    token.slice(0, -4),
    `${token.slice(0, -5)}${other}${token.slice(-4)}`,
    `${token}=`,
    'x',
    'A'.repeat(2000),
  ]) {
    assert.equal((await postrider.page(`/c/${bad}`)).status, 404)
    assert.equal((await visitor.press(`/c/${bad}`, 'confirm')).status, 404)
    assert.equal(readConfirmToken(keyring, bad), undefined)
  }
  const lengths = ['a@b.test', 'somebody@example.test'].map(
    (email) => confirmUrl(keyring, '', { consent: 1, form: 1, email, until: 1 }).length,
  )
  assert.equal(new Set(lengths).size, 1)
})

test('"this was not me" removes the address, and the account asks it no more for 90 days (AU43)', async () => {
  const { audience, email, id, link, slug } = await signedUp()
  assert.match(await (await visitor.press(link, 'refuse')).text(), /You are not subscribed/)
  assert.equal(await visitor.contact(audience, email), undefined)
  assert.equal(consentOf(audience).state, 'refused')
  assert.equal((await forms.show(id))['counts'].refused, 1)
  assert.equal(all('select key from suppressions where email = ?', [email]).length, 0)
  const { config, deps } = { config: postrider.config, ...postrider.appliance }
  postrider.clock.leap(89 * DAY)
  await forgetConsents(deps.store, config.signup, postrider.clock.now())
  await visitor.signUp(slug, email)
  assert.equal((await visitor.emails(email)).length, 1)
  postrider.clock.leap(2 * DAY)
  await visitor.signUp(slug, email)
  assert.equal((await visitor.emails(email)).length, 2)
})

test('one click on "unsubscribe" in a mail program refuses (AU21)', async () => {
  const { audience, email, link } = await signedUp()
  const body = new URLSearchParams({ 'List-Unsubscribe': 'One-Click' })
  assert.equal((await postrider.page(link, { method: 'POST', body })).status, 200)
  assert.equal(await visitor.contact(audience, email), undefined)
  assert.equal(consentOf(audience).state, 'refused')
})

for (const [first, second] of [
  ['confirm', 'refuse'],
  ['refuse', 'confirm'],
] as const)
  test(`a scanner that presses ${first} and ${second} within 10 minutes has refused, and a later confirmation counts (AU25)`, async () => {
    const { audience, email, link } = await signedUp()
    await visitor.press(link, first)
    postrider.clock.leap(9 * MINUTE)
    await visitor.press(link, second)
    assert.equal(await visitor.contact(audience, email), undefined)
    assert.equal(consentOf(audience).state, 'refused')
    postrider.clock.leap(10 * MINUTE)
    assert.match(await pageOf(link), /value="confirm"/)
    assert.match(await (await visitor.press(link, 'confirm')).text(), /You are subscribed/)
    assert.equal(await statusOf(audience, email), 'subscribed')
    assert.equal(consentOf(audience).state, 'confirmed')
  })

test('a refusal long after the confirmation unsubscribes from the audience', async () => {
  const { audience, email, link } = await signedUp()
  await visitor.press(link, 'confirm')
  postrider.clock.leap(HOUR)
  await visitor.press(link, 'refuse')
  const contact = await visitor.contact(audience, email)
  assert.deepEqual([contact?.status, contact?.unsubscribed_from], ['unsubscribed', 'audience'])
  const { ended_at, state } = consentOf(audience)
  assert.deepEqual([state, ended_at !== null], ['confirmed', true])
})

for (const [what, change] of Object.entries({
  unsubscribes: (id: string) =>
    postrider.api('PATCH', `/contacts/${id}`, document('contacts', { status: 'unsubscribed' }, { id })),
  deletes: (id: string) => postrider.api('DELETE', `/contacts/${id}`),
}))
  test(`after the owner ${what} a confirmed contact, its link says that it receives no more, and offers a new one`, async () => {
    const { audience, email, link } = await signedUp()
    await visitor.press(link, 'confirm')
    const { status } = await change((await visitor.contact(audience, email)).id)
    assert.ok(status < 300, String(status))
    const page = await pageOf(link)
    assert.match(page, /You are not subscribed[^]*You no longer receive Old Trees News\./)
    assert.doesNotMatch(page, /expired|worked until/)
    assert.match(await (await visitor.press(link, 'resend')).text(), /Check your inbox/)
  })

test('an expired link offers a new one, and only the hash of the address is kept until then (AU25, AU33)', async () => {
  const { audience, email, id, link } = await signedUp()
  postrider.clock.leap(7 * DAY + MINUTE)
  await until(() => consentOf(audience).state === 'expired', 'the end of the sign-up')
  assert.equal(await visitor.contact(audience, email), undefined)
  assert.equal((await forms.show(id))['counts'].expired, 1)
  assert.match(consentOf(audience).recipient_hash, /^[0-9a-f]{64}$/)
  const page = await pageOf(link)
  assert.match(page, /This link has expired/)
  assert.doesNotMatch(page, new RegExp(email))
  assert.match(await (await visitor.press(link, 'confirm')).text(), /This link has expired/)
  assert.match(await (await visitor.press(link, 'resend')).text(), /Check your inbox/)
  const [, again] = await visitor.emails(email)
  assert.equal(again?.tag, 'confirmation')
  assert.match(await (await visitor.press(visitor.link(email), 'confirm')).text(), /You are subscribed/)
  assert.equal(await statusOf(audience, email), 'subscribed')
})

test('the newest link works like the older ones, and each shows the result (AU14, AU25)', async () => {
  const { audience, email, link, slug } = await signedUp({ fields: [NAME] })
  postrider.clock.leap(HOUR)
  await visitor.signUp(slug, email)
  const second = visitor.link(email)
  assert.notEqual(second, link)
  for (const each of [link, second]) assert.match(await pageOf(each), /Subscribe to Old Trees News\?/)
  await visitor.press(link, 'confirm')
  for (const each of [link, second]) assert.match(await pageOf(each), /You are subscribed/)
  assert.equal(await statusOf(audience, email), 'subscribed')
  assert.equal(all('select key from signups where email = ?', [email]).length, 0)
})

test('a confirmation brings back an address that unsubscribed, to this audience alone (AU24)', async () => {
  const [one, two] = [await makeForm(), await makeForm()]
  const email = 'back@there.test'
  await campaigns.fill(one.audience, [email])
  await campaigns.fill(two.audience, [email])
  await entry(email, 'unsubscribe')
  assert.equal(await statusOf(one.audience, email), 'unsubscribed')
  await visitor.signUp(one.slug, email)
  await visitor.press(visitor.link(email), 'confirm')
  assert.equal(await statusOf(one.audience, email), 'subscribed')
  const other = await visitor.contact(two.audience, email)
  assert.deepEqual([other?.status, other?.unsubscribed_from], ['unsubscribed', 'audience'])
})

test('a refusal of an address that had unsubscribed says what is true: its contact stays', async () => {
  const { audience, slug } = await makeForm()
  const email = 'stays@there.test'
  await campaigns.fill(audience, [email])
  await entry(email, 'unsubscribe')
  await visitor.signUp(slug, email)
  const said = await (await visitor.press(visitor.link(email), 'refuse')).text()
  assert.match(said, /This sign-up has been deleted\./)
  assert.doesNotMatch(said, /address has been removed/)
  assert.equal(await statusOf(audience, email), 'unsubscribed')
})

test('a scanner that presses both buttons restores the unsubscription from the domain (AU24, AU25)', async () => {
  const { audience, slug } = await makeForm()
  const email = 'scanned@there.test'
  await campaigns.fill(audience, [email])
  await entry(email, 'unsubscribe')
  await visitor.signUp(slug, email)
  const link = visitor.link(email)
  await visitor.press(link, 'confirm')
  assert.equal(await statusOf(audience, email), 'subscribed')
  await visitor.press(link, 'refuse')
  const contact = await visitor.contact(audience, email)
  assert.deepEqual([contact?.status, contact?.unsubscribed_from], ['unsubscribed', 'domain'])
  assert.equal(all(`select key from suppressions where email = ? and reason = 'unsubscribe'`, [email]).length, 1)
})

test('a refusal within 10 minutes restores an unsubscription from the domain and the audience (AU25)', async () => {
  const { audience, slug } = await makeForm()
  const email = 'left-twice@there.test'
  await campaigns.fill(audience, [email])
  await unsubscribeFrom(audience, email)
  await entry(email, 'unsubscribe')
  await visitor.signUp(slug, email)
  const link = visitor.link(email)
  await visitor.press(link, 'confirm')
  assert.equal(await statusOf(audience, email), 'subscribed')
  await visitor.press(link, 'refuse')
  const contact = await visitor.contact(audience, email)
  assert.deepEqual([contact?.status, contact?.unsubscribed_from], ['unsubscribed', 'audience'])
})

/** Imports addresses in both ways of the API, and returns the reasons for which each skipped some. */
async function imported(audience: string, emails: readonly string[]): Promise<string[][]> {
  const given = document('contacts', { contacts: emails.map((email) => ({ email })) })
  const reasons: string[][] = []
  for (const path of ['contacts/import', 'list-imports']) {
    const { body, status } = await postrider.api('POST', `/audiences/${audience}/${path}`, given)
    assert.equal(status, 200)
    reasons.push(body.data.attributes.errors.map(({ detail }: { detail: string }) => detail))
  }
  return reasons
}

test('an import does not subscribe an address that refused this audience, until 90 days later (AU43)', async () => {
  const { audience, email, link } = await signedUp()
  await visitor.press(link, 'refuse')
  const other = await campaigns.audience(domain)
  const reason = ['refused a sign-up for this audience in the last 90 days']
  assert.deepEqual(await imported(audience, [email, `new-${email}`]), [reason, reason])
  assert.equal(await visitor.contact(audience, email), undefined)
  assert.equal(await statusOf(audience, `new-${email}`), 'subscribed')
  assert.deepEqual(await imported(other, [email]), [[], []])
  assert.equal(await statusOf(other, email), 'subscribed')
  postrider.clock.leap(91 * DAY)
  await imported(audience, [email])
  assert.equal(await statusOf(audience, email), 'subscribed')
})

test('the owner can add an address that refused, with proof of its consent (AU32)', async () => {
  const { audience, email, link } = await signedUp()
  await visitor.press(link, 'refuse')
  const given = document('contacts', { email, consent_evidence: 'Signed at our stand' })
  assert.equal((await postrider.api('POST', `/audiences/${audience}/contacts`, given)).status, 201)
  assert.deepEqual(await imported(audience, [email]), [[], []])
  assert.equal(await statusOf(audience, email), 'subscribed')
})

test('a contact that unsubscribed stays after a refusal and an expired sign-up, and an import keeps it unsubscribed', async () => {
  const { audience, email, link, slug } = await signedUp()
  await visitor.press(link, 'confirm')
  await unsubscribeFrom(audience, email)
  await visitor.press(link, 'refuse')
  assert.equal(consentOf(audience).state, 'refused')
  await imported(audience, [email])
  assert.equal(await statusOf(audience, email), 'unsubscribed')
  postrider.clock.leap(91 * DAY)
  await visitor.signUp(slug, email)
  postrider.clock.leap(8 * DAY)
  await until(() => consentOf(audience).state === 'expired', 'the end of the sign-up')
  await imported(audience, [email])
  const contact = await visitor.contact(audience, email)
  assert.deepEqual([contact?.status, contact?.unsubscribed_from], ['unsubscribed', 'audience'])
})

test('an address that is suppressed for another reason cannot be confirmed, and the page says so (AU24)', async () => {
  const { audience, email, link } = await signedUp()
  await entry(email, 'manual')
  const said = await (await visitor.press(link, 'confirm')).text()
  assert.match(said, /We cannot write to this address[\s\S]*are blocked, for example because/)
  assert.equal(await statusOf(audience, email), 'pending')
})

test('a wrong value on the page is an error at its field, and nothing is confirmed (AU12, AU23)', async () => {
  const { audience, email, link } = await signedUp({ fields: [{ ...NAME, required: true }] }, { name: 'Eve' })
  const answer = await visitor.press(link, 'confirm', { name: '' })
  assert.equal(answer.status, 422)
  assert.match(await answer.text(), /Fill in this field: Name\.[\s\S]*aria-invalid/)
  assert.equal(await statusOf(audience, email), 'pending')
})

test('after an erasure, links lead to the neutral page, and a sign-up gets no email (AU22, AU35)', async () => {
  const { audience, email, link, slug } = await signedUp()
  const erased = await postrider.api('DELETE', `/recipients/${email}/forget`)
  assert.equal(erased.status, 202)
  await until(() => consentOf(audience).state === 'erased', 'the erasure')
  assert.equal(all('select key from signups where email = ?', [email]).length, 0)
  assert.equal((await postrider.page(link)).status, 404)
  for (const action of ['confirm', 'refuse', 'resend']) assert.equal((await visitor.press(link, action)).status, 404)
  assert.equal(await visitor.contact(audience, email), undefined)
  await visitor.signUp(slug, email)
  assert.equal(await visitor.contact(audience, email), undefined)
})

test('after a form is closed, links that were sent work, and expired ones get no new email', async () => {
  const { audience, email, id, link } = await signedUp()
  const late = await signedUp()
  await forms.patch(id, { status: 'closed' })
  assert.match(await (await visitor.press(link, 'confirm')).text(), /You are subscribed/)
  assert.equal(await statusOf(audience, email), 'subscribed')
  await forms.patch(late.id, { status: 'closed' })
  postrider.clock.leap(8 * DAY)
  await until(() => consentOf(late.audience).state === 'expired', 'the end of the sign-up')
  assert.equal((await visitor.press(late.link, 'resend')).status, 410)
  assert.equal((await visitor.emails(late.email)).length, 1)
})

for (const what of ['audience', 'form'] as const)
  test(`after the ${what} is deleted, its sign-ups end, and their links lead to a page that says so (AU33)`, async () => {
    const { audience, email, id, link } = await signedUp()
    const path = what === 'audience' ? `/audiences/${audience}` : `/forms/${id}`
    assert.equal((await postrider.api('DELETE', path)).status, 204)
    await until(() => all('select key from signups where email = ?', [email]).length === 0, 'the end of the sign-up')
    const { ended_at, state } = consentOf(audience)
    assert.deepEqual([state, ended_at !== null], ['expired', true])
    for (const answer of [
      await postrider.page(link),
      await visitor.press(link, 'confirm'),
      await visitor.press(link, 'resend'),
    ]) {
      assert.equal(answer.status, 410)
      assert.match(await answer.text(), /This form is closed/)
    }
    assert.equal((await visitor.emails(email)).length, 1)
    assert.equal(all('select key from contacts where email = ?', [email]).length, 0)
  })

test('"this was not me" is recorded after the audience was deleted, as long as the sign-up exists (AU43)', async () => {
  const { audience, email, link } = await signedUp()
  const { clock, keyring } = postrider.appliance.deps
  const found = readConfirmToken(keyring, link.slice('/c/'.length))
  assert.ok(found)
  const state = await store().write((tx) => {
    tx.run(raw('update audiences set deleted_at = ? where id = ?', [clock.now(), audience]))
    assert.equal(stateOfLink(tx, found, clock.now()).kind, 'closed')
    return refuse(tx, signupDeps(postrider.appliance.deps), found, clock.now())
  })
  assert.equal(state.kind, 'refused')
  assert.equal(consentOf(audience).state, 'refused')
  const other = await makeForm()
  await visitor.signUp(other.slug, email)
  assert.equal((await visitor.emails(email)).length, 1)
})

test('after confirming, the page is that of the owner (AU11, AU27)', async () => {
  const { link } = await signedUp({ confirmed_url: `${SITE}/welcome` })
  assert.match(
    (await postrider.page(link)).headers.get('content-security-policy')!,
    /form-action 'self' https:\/\/www\.here\.test;/,
  )
  const answer = await visitor.press(link, 'confirm')
  assert.deepEqual([answer.status, answer.headers.get('location')], [303, `${SITE}/welcome`])
})

test('the welcome email is sent once for a confirmation, with merge tags and unsubscribe headers (AU27)', async () => {
  const welcome = { welcome_subject: 'Welcome, {{name}}', welcome_html: '<p>Hello {{name}} from {{city|nowhere}}.</p>' }
  const { audience, email, link, slug } = await signedUp({ fields: [NAME, CITY], ...welcome })
  await visitor.press(link, 'confirm', { name: 'Eve & <Co>', 'field.city': 'Ghent' })
  await visitor.press(link, 'confirm', { name: 'Other' })
  const welcomes = async () => (await visitor.emails(email)).filter(({ tag }) => tag === 'welcome')
  const [sent, ...more] = await welcomes()
  assert.equal(more.length, 0)
  assert.equal(sent?.subject, 'Welcome, Eve & <Co>')
  assert.match(sent!.html, /Hello Eve &amp; &lt;Co&gt; from Ghent\./)
  assert.match(sent!.html, /\/u\/[\w-]+/)
  const message = await until(
    () => exchanger.heard.find(({ message, to }) => to.includes(email) && /^Subject: Welcome/m.test(message))?.message,
    'the welcome email',
  )
  assert.match(message, /^List-Unsubscribe:\s+<http[^>]+\/u\//m)
  assert.match(message, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click/m)
  const { id } = (await visitor.contact(audience, email))!
  await postrider.api('DELETE', `/contacts/${id}`)
  postrider.clock.leap(2 * DAY)
  await visitor.signUp(slug, email)
  await visitor.press(visitor.link(email), 'confirm')
  assert.equal(await statusOf(audience, email), 'subscribed')
  assert.equal((await welcomes()).length, 1)
})

test('a confirmation email that bounces removes the address and suppresses it', async () => {
  const { audience, id, slug } = await makeForm()
  await visitor.signUp(slug, 'bounce1@there.test')
  await until(() => consentOf(audience).state === 'bounced', 'the bounce of the confirmation email')
  assert.equal(await visitor.contact(audience, 'bounce1@there.test'), undefined)
  assert.equal(
    all(`select key from suppressions where email = 'bounce1@there.test' and reason = 'hard_bounce'`).length,
    1,
  )
  assert.equal((await forms.show(id))['counts'].expired, 0)
})

test('a complaint about the confirmation email refuses (AU43)', async () => {
  const { audience, email } = await signedUp()
  await until(() => exchanger.heard.some(({ to }) => to.includes(email)), 'the confirmation email')
  const [delivery] = all<{ key: number }>('select key from deliveries where address = ?', [email])
  const returning = { gate: OPEN_GATE, now: postrider.clock.now() }
  await store().write((tx) => settleComplaint(tx, delivery!.key, email, 'abuse', returning))
  await until(() => consentOf(audience).state === 'refused', 'the refusal')
  assert.equal(await visitor.contact(audience, email), undefined)
})

test('the export of an address has its sign-ups, and the count before it has the consents', async () => {
  const { email, link } = await signedUp({ fields: [NAME] }, { name: 'Exported' })
  const { recordsAbout } = await import('../../src/privacy/bundle.ts')
  const records = recordsAbout(postrider.appliance.deps, postrider.user.key, email)
  assert.equal(records['signups']?.length, 1)
  assert.deepEqual(records['signups']?.[0]?.['typed'], { name: 'Exported', fields: {} })
  const counts = async () => {
    const { body, status } = await postrider.api('GET', `/recipients/${email}`)
    const { consents, contacts } = body.data?.attributes ?? {}
    return [status, contacts, consents]
  }
  assert.deepEqual(await counts(), [200, 1, 1])
  // A refusal leaves a hash, and the email. Without the email, the hash is still data about the person.
  await visitor.press(link, 'refuse')
  assert.deepEqual(await counts(), [200, 0, 1])
  const { deps } = postrider.appliance
  const refused = 'only-refused@there.test'
  const [audience] = all<{ key: number }>('select key from audiences limit 1')
  await store().write((tx) => {
    const of = { user_key: postrider.user.key, audience_key: audience!.key, key: null, email: refused }
    return recordConsent(tx, deps.keyring, of, { state: 'refused', source: 'form', ended_at: 1 }, 1)
  })
  const asked = async (path = '', method = 'GET') =>
    (await postrider.api(method, `/recipients/${refused}${path}`)).status
  assert.deepEqual([await asked(), await asked('/data'), await asked('/forget', 'DELETE')], [200, 202, 202])
  await until(async () => (await asked()) === 404, 'the erasure')
})

test('a contact of another account is not found, nor are its forms (AU110)', async () => {
  const { audience, email, id } = await signedUp()
  const contact = await visitor.contact(audience, email)
  const post = (path: string, body?: unknown) => postrider.asOther('POST', path, body)
  assert.equal((await post(`/forms/${id}/signups`, document('signups', { email: 'x@there.test' }))).status, 404)
  assert.equal((await post(`/contacts/${contact.id}/confirmation`)).status, 404)
})
