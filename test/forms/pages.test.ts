// The console pages of forms: the list, a new form, one form with its preview and its HTML, and its versions.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { formByKey, moveForm } from '../../src/forms/forms.ts'
import { raw } from '../../src/store/query.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { FORM, formKit } from '../kit/forms.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { fieldsOf, plain } from '../kit/page.ts'
import { signedIn } from '../kit/signed-in.ts'

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = formKit(() => postrider)
const audience = ofFile(async () => ({ audience: await campaignKit(() => postrider).audience(domain) }))
const inbox = ofFile(async () => {
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Desk', address: 'desk@here.test' }))
  return { inbox: made.body.data.id as string }
})
let ann: Guest

setUp(async () => {
  ann = await signedIn(postrider)
})
const CITY = { key: 'city', label: 'City', required: true }
const DE = { title: 'Alte Bäume', intro: null, consent_text: 'Ja gern.', button: 'Los', labels: { city: 'Ort' } }

test('a form is created for an audience, edited and opened', async () => {
  const blank = await ann.open('/forms/new')
  const page = await ann.send(blank, 'add', { name: 'Footer', audience: audience.audience, inbox: '', title: 'News' })
  assert.equal(page.status, 200)
  assert.match(page.text, /Created as a draft/)
  const id = /\/forms\/([\w-]+)/.exec(page.path)![1]!
  // What is missing is shown at its field.
  const refused = await ann.send(page, 'open')
  assert.equal(refused.status, 422)
  assert.match(refused.text, /&quot;consent_text&quot; is missing|"consent_text" is missing/)
  const { consent_text, controller, privacy_url } = FORM
  const saved = await ann.send(page, 'save', {
    ...fieldsOf(page.text, 'save'),
    consent_text,
    controller,
    privacy_url,
    'asks-name': 'yes',
    'label-0': 'City',
    'key-0': 'city',
    'need-0': 'yes',
    origins: 'https://a.test\r\n\r\nhttps://b.test\r\n',
    'translation-0-tag': 'de',
    'translation-0-title': DE.title,
    'translation-0-consent_text': DE.consent_text,
  })
  assert.match(saved.text, /Saved\./)
  const form = await kit.show(id)
  assert.deepEqual(form['fields'], [{ key: 'name', label: null, required: true }, CITY])
  assert.deepEqual(form['origins'], ['https://a.test', 'https://b.test'])
  assert.deepEqual(form['translations'], { de: { ...DE, button: null, labels: {} } })
  const open = await ann.send(saved, 'open')
  assert.match(open.text, /The form is open\./)
  assert.equal((await kit.show(id))['status'], 'open')
})

test('saving a form without a change keeps all of it', async () => {
  const given = {
    language: 'en',
    intro: 'Two\nlines',
    fields: [{ key: 'name', label: null, required: false }, CITY],
    translations: { de: DE, sv: { ...DE, title: 'Träd', labels: {} } },
    origins: ['https://a.test'],
    requested_url: 'https://a.test/thanks',
    consent_checkbox: true,
    welcome_subject: 'Welcome',
    welcome_html: '<p>a &amp; b</p>',
    from_address: 'Old Trees <news@here.test>',
  }
  for (const [target, attributes] of [
    [audience, given],
    [inbox, { fields: given.fields, consent_text: null }],
  ] as const) {
    const id = await kit.draft(target, attributes)
    const before = await kit.show(id)
    const page = await ann.open(`/forms/${id}`)
    const saved = await ann.send(page, 'save', fieldsOf(page.text, 'save'))
    assert.match(saved.text, /Saved\./)
    assert.deepEqual({ ...(await kit.show(id)), updated_at: '' }, { ...before, updated_at: '' })
  }
})

test('a translation is removed with its title, and a wrong one is reported with what was typed', async () => {
  const id = await kit.draft(audience, { language: 'en', translations: { de: DE }, fields: [CITY] })
  const page = await ann.open(`/forms/${id}`)
  const fields = fieldsOf(page.text, 'save')
  const refused = await ann.send(page, 'save', { ...fields, 'translation-0-title': 'See www.bad.test' })
  assert.equal(refused.status, 422)
  assert.match(refused.text, /must not contain a web or email address/)
  assert.match(refused.text, /value="See www\.bad\.test"/)
  await ann.send(page, 'save', { ...fields, 'translation-0-title': '' })
  assert.deepEqual((await kit.show(id))['translations'], {})
})

test('the page of a form has its preview in each language, and its HTML to copy', async () => {
  const { id } = await kit.open(audience, { language: 'en', fields: [CITY], translations: { de: DE } })
  const english = (await ann.open(`/forms/${id}`)).text
  assert.match(english, /class="form-preview" lang="en" inert/)
  assert.ok(english.includes(FORM.title))
  assert.match(english, /<a href="\/audiences\/[^"]+">Readers<\/a>/)
  const german = (await ann.open(`/forms/${id}?lang=de`)).text
  assert.match(german, /class="form-preview" lang="de" inert/)
  const preview = /<div class="form-preview"[^]*?<\/button>/.exec(german)![0]
  for (const text of [DE.title, DE.button, 'E-Mail-Adresse', 'Ort']) assert.ok(preview.includes(text), text)
  const code = /<pre tabindex="0" id="embed">([^]*?)<\/pre>/.exec(english)![1]!
  assert.equal(plain(code), (await kit.show(id))['embed_html'])
})

test('a form with an inbox is created, shown with its inbox and message, and opened without what only sign-ups have', async () => {
  const blank = await ann.open('/forms/new')
  const made = await ann.send(blank, 'add', { name: 'Help', audience: '', inbox: inbox.inbox, title: 'Write to us' })
  assert.match(made.text, /Created as a draft/)
  const id = /\/forms\/([\w-]+)/.exec(made.path)![1]!
  const fields = { ...fieldsOf(made.text, 'save') }
  for (const absent of ['consent_text', 'consent_checkbox', 'opt_in', 'welcome_html'])
    assert.equal(absent in fields, false, absent)
  const { controller, privacy_url } = FORM
  await ann.send(made, 'save', {
    ...fields,
    controller,
    privacy_url,
    'translation-0-tag': 'de',
    'translation-0-title': 'Hilfe',
  })
  const open = await ann.send(await ann.open(`/forms/${id}`), 'open')
  assert.match(open.text, /The form is open\./)
  assert.match(open.text, /<a href="\/inboxes\/[^"]+">Desk<\/a>/)
  assert.match(open.text, /Messages/)
  assert.doesNotMatch(open.text, /Refused|Expired/)
  const preview = /<div class="form-preview"[^]*?<\/button>/.exec(open.text)![0]
  assert.match(preview, /<textarea[^>]*name="message"[^]*Send\s*<\/button>/)
  assert.doesNotMatch(preview, /consent/)
  assert.match((await ann.open(`/forms/${id}/versions`)).text, /<h3>de<\/h3>[^]*Hilfe[^]*name="message"/)
})

test('a form without a confirmation is shown with a warning on every page that names it', async () => {
  const single = { opt_in: 'single', single_reason: 'Customers sign in before.', name: 'Unconfirmed' }
  const id = await kit.draft(audience, single)
  for (const path of [`/forms/${id}`, `/forms/${id}/versions`]) {
    const { text } = await ann.open(path)
    assert.match(text, /subscribes people without a confirmation/, path)
    assert.match(text, /Customers sign in before\./, path)
  }
  assert.match((await ann.open('/forms')).text, /Unconfirmed\s*<span class="badge[^>]*>no confirmation/)
})

test('the list has the counts of each form, and its status', async () => {
  const { id } = await kit.open(audience, { name: 'Counted' })
  const { store } = postrider.appliance.deps
  await store.write((tx) =>
    tx.run(
      raw('update forms set requested_count = 4711, confirmed_count = 1234, stopped_count = 77 where id = ?', [id]),
    ),
  )
  const { text } = await ann.open('/forms?status=open')
  for (const shown of ['Counted', '4,711', '1,234', '77']) assert.ok(text.includes(shown), shown)
  assert.match((await ann.open(`/forms/${id}`)).text, /1,234[^]*26\.2%/)
})

test('the reason of an automatic pause is on the page', async () => {
  const { id } = await kit.open(audience)
  const { store } = postrider.appliance.deps
  const { key } = store.one(raw<{ key: number }>('select key from forms where id = ?', [id]))
  const reason = '201 sign-ups within an hour'
  await store.write((tx) => moveForm(tx, formByKey(tx, key)!, 'limit', postrider.clock.now(), reason))
  const page = await ann.open(`/forms/${id}`)
  assert.ok(page.text.includes(reason))
  const event = store.first(raw<{ data: string }>(`select data from events where type = 'form.paused'`))!
  assert.deepEqual(JSON.parse(event.data), { form_id: id, form_name: FORM.name, reason })
  await ann.send(page, 'open')
  assert.equal((await kit.show(id))['paused_reason'], null)
})

test('the versions of a form show what people agreed to', async () => {
  const { id } = await kit.open(audience, { title: 'Before' })
  await kit.patch(id, { title: 'After' })
  const newest = (await ann.open(`/forms/${id}/versions`)).text
  assert.match(newest, /<h2>Version 2<\/h2>[^]*After/)
  assert.match((await ann.open(`/forms/${id}/versions?show=1`)).text, /<h2>Version 1<\/h2>[^]*Before/)
})
