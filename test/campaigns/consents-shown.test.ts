// The proof of consent: in the API, on pages for printing, and by the command, even after the contact was deleted.
import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { test } from 'node:test'
import { moveConsent, recordConsent, type NewConsent } from '../../src/campaigns/consents.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { formKit } from '../kit/forms.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'
import { until } from '../kit/until.ts'

const exchanger = testExchanger({ answer: (line) => (/^RCPT.*<bad/.test(line) ? '550 5.1.1 No such user' : undefined) })
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
let ann: Guest

setUp(async () => {
  ann = await signedIn(postrider)
})
const TEXT = 'I would like to receive <b>Old Trees</b>.\nOnce a month.'
const CLIENT = 'ab'.repeat(32)

interface Shown {
  id: string
  attributes: Record<string, unknown>
  relationships: Record<string, { data: { id: string } | null }>
}
const list = async (path: string, as: 'api' | 'asOther' = 'api'): Promise<Shown[]> => {
  const { body, status } = await postrider[as]('GET', path)
  assert.equal(status, 200, JSON.stringify(body))
  return body.data
}

/** A contact, its audience and its consent, as a sign-up makes them. */
async function confirmed(email: string, given: Partial<NewConsent> = {}) {
  const audience = await kit.audience(domain, `List of ${email}`)
  const contact = (await postrider.api('POST', `/audiences/${audience}/contacts`, document('contacts', { email }))).body
    .data.id as string
  const { keyring, store } = postrider.appliance.deps
  const now = postrider.clock.now()
  const row = store.one(
    raw<{ key: number; user_key: number; audience_key: number; email: string }>(
      'select key, user_key, audience_key, email from contacts where id = ?',
      [contact],
    ),
  )
  const consent = await store.write((tx) => {
    tx.run(raw('delete from consents where contact_key = ?', [row.key]))
    return recordConsent(
      tx,
      keyring,
      row,
      {
        state: 'confirmed',
        source: 'form',
        language: 'en',
        text: TEXT,
        page: 'https://www.here.test/news',
        request_client: CLIENT,
        message_id: '<1@here.test>',
        requested_at: now - 1000,
        confirmed_at: now,
        ...given,
      },
      now,
    )
  })
  return { audience, contact, consent }
}

test('a consent has everything that proves it', async () => {
  const form = await formKit(() => postrider).draft({ audience: await kit.audience(domain) }, { name: 'Website' })
  const { store } = postrider.appliance.deps
  const { key } = store.one(raw<{ key: number }>('select key from forms where id = ?', [form]))
  const { audience, consent, contact } = await confirmed('ann@there.test', { form_key: key, form_version: 3 })
  const { body } = await postrider.api('GET', `/consents/${consent.id}`)
  const { attributes, relationships } = body.data as Shown
  const iso = (at: number | null): string | null => (at === null ? null : new Date(at).toISOString())
  assert.deepEqual(attributes, {
    state: 'confirmed',
    source: 'form',
    requested_at: iso(consent.requested_at),
    confirmed_at: iso(consent.confirmed_at),
    ended_at: null,
    restored_at: null,
    form_id: form,
    form_name: 'Website',
    form_opt_in: 'double',
    form_version: 3,
    language: 'en',
    text: TEXT,
    text_sha256: createHash('sha256').update(TEXT).digest('hex'),
    page: 'https://www.here.test/news',
    origin: null,
    request_client: CLIENT,
    confirm_client: null,
    message_id: '<1@here.test>',
    email_id: null,
    email_status: null,
    evidence: null,
    person: null,
    created_at: iso(consent.created_at),
    updated_at: iso(consent.updated_at),
  })
  assert.deepEqual([relationships['audience']!.data!.id, relationships['contact']!.data!.id], [audience, contact])
  for (const path of [`/contacts/${contact}/consents`, `/consents?filter[form]=${form}`])
    assert.deepEqual(
      (await list(path)).map(({ id }) => id),
      [consent.id],
      path,
    )
})

test('a consent that was given and has ended is shown as withdrawn, and can be filtered', async () => {
  const { audience, consent, contact } = await confirmed('left@there.test')
  const ids = async (filter: string) =>
    (await list(`/audiences/${audience}/consents?filter[state]=${filter}`)).map(({ id }) => id)
  assert.deepEqual([await ids('confirmed'), await ids('withdrawn')], [[consent.id], []])
  assert.equal((await postrider.api('DELETE', `/contacts/${contact}`)).status, 204)
  assert.deepEqual([await ids('confirmed'), await ids('withdrawn')], [[], [consent.id]])
  const [shown] = await list(`/audiences/${audience}/consents`)
  assert.equal(shown!.attributes['state'], 'withdrawn')
  assert.equal(shown!.relationships['contact']!.data, null)
  // A request that ended was never given.
  const refused = await confirmed('refused@there.test', { state: 'requested', confirmed_at: null })
  const now = postrider.clock.now()
  await postrider.appliance.deps.store.write((tx) => moveConsent(tx, refused.consent, 'refuse', now, { ended_at: now }))
  assert.equal((await list(`/audiences/${refused.audience}/consents`))[0]!.attributes['state'], 'refused')
  const bySource = await list(`/audiences/${refused.audience}/consents?filter[source]=import`)
  assert.deepEqual(bySource, [])
})

test('consents are found by the address, even of a deleted contact and a deleted audience', async () => {
  const { audience, consent, contact } = await confirmed('gone@there.test')
  await confirmed('other@there.test')
  const found = async (email: string, path = '/consents') =>
    (await list(`${path}?filter[email]=${encodeURIComponent(email)}`)).map(({ id }) => id)
  assert.deepEqual(await found('Gone@THERE.test'), [consent.id])
  // Consents of earlier versions have no hash.
  const { store } = postrider.appliance.deps
  await store.write((tx) => tx.run(raw('update consents set recipient_hash = null where id = ?', [consent.id])))
  assert.deepEqual(await found('gone@there.test'), [consent.id])
  await postrider.api('DELETE', `/contacts/${contact}`)
  assert.deepEqual(await found('gone@there.test', `/audiences/${audience}/consents`), [consent.id])
  await postrider.api('DELETE', `/audiences/${audience}`)
  assert.deepEqual(await found('gone@there.test'), [consent.id])
  assert.deepEqual(await found('nobody@there.test'), [])
})

test('consents of another account do not exist on any path', async () => {
  const { audience, consent, contact } = await confirmed('mine@there.test')
  for (const path of [`/consents/${consent.id}`, `/contacts/${contact}/consents`, `/audiences/${audience}/consents`])
    assert.equal((await postrider.asOther('GET', path)).status, 404, path)
  assert.deepEqual(await list('/consents?filter[email]=mine@there.test', 'asOther'), [])
})

test('nothing changes or deletes a consent', async () => {
  const { consent } = await confirmed('kept@there.test')
  for (const method of ['PATCH', 'DELETE', 'POST'])
    assert.equal((await postrider.api(method, `/consents/${consent.id}`)).status, 405, method)
})

test('the page of a contact lists its consents, and one is a page for printing, with times in UTC', async () => {
  ann.cookies.set('tz', 'America/New_York')
  const { audience, consent, contact } = await confirmed('print@there.test')
  const here = `/audiences/${audience}/contacts/${contact}/consents/${consent.id}`
  const { text } = await ann.open(`/audiences/${audience}/contacts/${contact}`)
  assert.ok(text.includes(`href="${here}"`))
  const proof = await ann.open(here)
  assert.equal(proof.status, 200)
  const at = new Date(consent.confirmed_at!).toISOString().replace('T', ' ').slice(0, 19)
  const hash = createHash('sha256').update(TEXT).digest('hex')
  for (const shown of ['print@there.test', `${at} UTC`, '&lt;1@here.test&gt;', CLIENT, hash, consent.id])
    assert.ok(proof.text.includes(shown), shown)
  assert.match(proof.text, /<blockquote class="lines" lang="en">I would like to receive &lt;b&gt;Old Trees/)
  // Another contact or audience in the path is an error.
  const other = await confirmed('other2@there.test')
  assert.equal((await ann.open(`/audiences/${other.audience}/contacts/${contact}/consents/${consent.id}`)).status, 404)
  assert.equal((await ann.open(`/audiences/${audience}/consents/${consent.id}`)).status, 404)
})

test('a consent shows the delivery of its confirmation email, and links to it (AU31)', async () => {
  for (const [to, status] of [
    ['good@there.test', 'delivered'],
    ['bad@there.test', 'bounced'],
  ] as const) {
    const given = { from: 'me@here.test', to, subject: 'Please confirm', html: '<p>Hi</p>' }
    const sent = (await postrider.api('POST', '/outbound-emails', document('outbound-emails', given))).body.data
    const { audience, consent, contact } = await confirmed(to, { message_id: sent.attributes.message_id })
    const shown = async () => (await postrider.api('GET', `/consents/${consent.id}`)).body.data.attributes
    await until(async () => (await shown()).email_status === status || undefined, status)
    assert.equal((await shown()).email_id, sent.id)
    const { text } = await ann.open(`/audiences/${audience}/contacts/${contact}/consents/${consent.id}`)
    assert.ok(text.includes(`<a href="/mail/${sent.id}">${status}</a>`), text)
    assert.match((await postrider.commands.run(['consent', 'show', to])).stdout, new RegExp(`delivery +${status}`))
    assert.equal((await postrider.api('DELETE', `/outbound-emails/${sent.id}`)).status, 204)
    assert.equal((await shown()).email_id, null)
  }
})

test('the consents of an audience are searched by address, and those of deleted contacts have a page', async () => {
  const { audience, consent, contact } = await confirmed('search@there.test')
  await postrider.api('DELETE', `/contacts/${contact}`)
  const { text } = await ann.open(`/audiences/${audience}/consents?q=search@there.test`)
  const here = `/audiences/${audience}/consents/${consent.id}`
  assert.ok(text.includes(`href="${here}"`))
  assert.ok(!(await ann.open(`/audiences/${audience}/consents?q=else@there.test`)).text.includes(here))
  assert.match((await ann.open(here)).text, /Only a hash of the address is stored/)
})

test('pages that name a form without a confirmation warn of it', async () => {
  const single = { opt_in: 'single', single_reason: 'Customers sign in before.', name: 'Unconfirmed' }
  const form = await formKit(() => postrider).draft({ audience: await kit.audience(domain) }, single)
  const { key } = postrider.appliance.deps.store.one(raw<{ key: number }>('select key from forms where id = ?', [form]))
  const { audience, consent, contact } = await confirmed('single@there.test', { form_key: key, state: 'single' })
  for (const path of ['', `/consents/${consent.id}`].map((end) => `/audiences/${audience}/contacts/${contact}${end}`))
    assert.match((await ann.open(path)).text, /Unconfirmed<\/a>\s*<span class="badge[^>]*>no confirmation/, path)
  assert.match((await ann.open(`/audiences/${audience}/consents`)).text, /no confirmation/)
})
