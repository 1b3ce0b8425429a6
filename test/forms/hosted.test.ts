// The form as people see it: the hosted page in each state and language, and the HTML for other websites.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Hono } from 'hono'
import { DAY } from '../../src/base/clock.ts'
import { formBySlug } from '../../src/forms/forms.ts'
import { formLanguage, formPage, type FormError } from '../../src/forms/hosted.ts'
import { readFormToken, sealFormToken } from '../../src/forms/tokens.ts'
import { currentTexts } from '../../src/forms/versions.ts'
import { LANGUAGES, textsIn } from '../../src/recipients/languages.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { FORM, formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'
import { parse } from '../kit/page.ts'

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = formKit(() => postrider)
const audience = ofFile(async () => ({ audience: await campaignKit(() => postrider).audience(domain) }))
const inbox = ofFile(async () => {
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Desk', address: 'desk@here.test' }))
  return { inbox: made.body.data.id as string }
})
const NAME = { key: 'name', label: null, required: true }
const CITY = { key: 'city', label: 'Your "city" <b>', required: false }
const DE = {
  title: 'Alte Bäume',
  intro: 'Einmal im Monat.',
  consent_text: 'Ich möchte die Neuigkeiten erhalten.',
  button: 'Los',
  labels: { city: 'Ort' },
}

const get = (path: string, language = '') => postrider.page(path, { headers: { 'accept-language': language } })
/** The line breaks within tags depend on the formatter. */
const inLine = (page: string): string => page.replaceAll(/\s+/g, ' ').replaceAll(/ (?=\/?>)/g, '')
const bodyOf = async (path: string, language?: string): Promise<string> =>
  inLine(await (await get(path, language)).text())

test('the hosted form needs no script, loads nothing, cannot be framed and sets no cookie', async () => {
  const { slug } = await kit.open(audience, { fields: [NAME, CITY], intro: 'Once a month.\nNo more.' })
  const answer = await get(`/f/${slug}`)
  assert.equal(answer.status, 200)
  const { headers } = answer
  assert.equal(headers.get('set-cookie'), null)
  assert.equal(headers.get('cache-control'), 'no-store')
  assert.equal(headers.get('x-robots-tag'), 'noindex')
  assert.match(
    headers.get('content-security-policy')!,
    /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'; frame-ancestors 'none'/,
  )
  const page = inLine(await answer.text())
  assert.doesNotMatch(page, /<script|<iframe|<link|<img|\sstyle=|\son\w+=/)
  assert.match(page, /<html lang="en">/)
  assert.equal(page.match(/<h1/g)!.length, 1)
  assert.match(page, /<input type="email" id="f-email" name="email" autocomplete="email" required/)
  assert.match(page, /<label for="f-name"[^>]*>\s*<span>Name<\/span> <span class="soft">\(required\)/)
  assert.match(page, /id="f-name" name="name" autocomplete="name" required/)
  assert.match(page, /<span>Your &quot;city&quot; &lt;b&gt;<\/span><\/label/)
  assert.match(page, /id="f-field\.city" name="field\.city" autocomplete="off" maxlength/)
  const below = page.slice(page.indexOf('</button>'))
  for (const text of [FORM.controller, FORM.consent_text, 'You can unsubscribe at any time'])
    assert.ok(below.includes(text), text)
  assert.match(below, /<a href="https:\/\/www\.here\.test\/privacy">Privacy notice<\/a>/)
  assert.doesNotMatch(page, /<nav/, 'the form has one language')
})

test('a request for the hosted form changes nothing', async () => {
  const { id, slug } = await kit.open(audience)
  const before = await kit.show(id)
  for (const method of ['GET', 'HEAD']) assert.equal((await postrider.page(`/f/${slug}`, { method })).status, 200)
  assert.deepEqual(await kit.show(id), before)
})

test('robots find a field that people do not see, named differently in each form', async () => {
  const { id, slug } = await kit.open(audience)
  const { embed_html, honeypot } = await kit.show(id)
  for (const text of [await bodyOf(`/f/${slug}`), embed_html as string]) {
    const [field] = new RegExp(`<div [^>]*aria-hidden="true">[^]*?name="${honeypot}"[^]*?</div>`).exec(text)!
    assert.match(field, /<input type="text"[^>]*tabindex="-1"[^>]*autocomplete="off"/)
  }
})

test('consent is given by the button, or with a checkbox that is not ticked beforehand', async () => {
  const { id, slug } = await kit.open(audience)
  assert.doesNotMatch(await bodyOf(`/f/${slug}`), /checkbox/)
  await kit.patch(id, { consent_checkbox: true })
  const page = await bodyOf(`/f/${slug}`)
  const [, box] = /(<input\s+type="checkbox"[^>]*>)/.exec(page)!
  assert.match(box!, /name="consent"\s+value="yes"\s+required\s+aria-describedby="consent-text"/)
  assert.doesNotMatch(box!, /checked/)
  assert.ok(page.indexOf('id="consent-text"') < page.indexOf('type="checkbox"'))
  assert.ok(page.indexOf('type="checkbox"') < page.indexOf('<button'))
})

const CASES: [query: string, accepted: string, language: string][] = [
  ['', '', 'en'],
  ['', 'de-AT,en;q=0.5', 'de'],
  ['', 'en;q=0.4,de;q=0.6', 'de'],
  ['', 'fr', 'en'],
  ['?lang=de', 'en', 'de'],
  ['?lang=fr', 'de', 'de'],
  ['?lang=sv', '', 'sv'],
]
test('the page has the language of the URL or of the browser, if the form has it', async () => {
  const sv = { ...DE, title: 'Gamla träd', intro: null, button: null, labels: {} }
  const { slug } = await kit.open(audience, { language: 'en', fields: [CITY], translations: { de: DE, sv } })
  const titles: Record<string, string> = { en: FORM.title, de: DE.title, sv: sv.title }
  for (const [query, accepted, language] of CASES) {
    const page = await bodyOf(`/f/${slug}${query}`, accepted)
    const why = `${query} ${accepted}`
    assert.ok(page.includes(titles[language]!), why)
    assert.equal(parse(page)[0]!.hidden['lang'], language, why)
  }
  const german = await bodyOf(`/f/${slug}?lang=de`)
  assert.match(german, /<html lang="de">/)
  for (const text of ['E-Mail-Adresse', 'Ort', 'Los', DE.consent_text]) assert.ok(german.includes(text), text)
  for (const [tag, name] of [
    ['en', 'English'],
    ['de', 'Deutsch'],
    ['sv', 'svenska'],
  ])
    assert.match(german, new RegExp(`<a href="\\?lang=${tag}" lang="${tag}" hreflang="${tag}"[^>]*>${name}</a`))
  // The server has no Swedish texts: its words are English, and the owner's are marked.
  const swedish = await bodyOf(`/f/${slug}?lang=sv`)
  assert.match(swedish, /<html lang="en">/)
  assert.match(swedish, /<h1><span lang="sv" dir="auto">Gamla träd<\/span><\/h1>/)
  // A text of the owner may be written from right to left.
  assert.match(swedish, /class="text soft" lang="sv" dir="auto"/)
  const untranslated = await kit.open(audience, {
    language: 'en',
    fields: [CITY],
    translations: { de: { ...DE, labels: {} } },
  })
  assert.match(await bodyOf(`/f/${untranslated.slug}?lang=de`), /<span lang="en" dir="auto">Your &quot;city&quot;/)
})

for (const lang of LANGUAGES)
  test(`a form in ${lang} has the texts of the server in this language`, async () => {
    const { slug } = await kit.open(audience, { language: lang, fields: [NAME] })
    const page = await bodyOf(`/f/${slug}`)
    const { t } = textsIn(lang)
    for (const key of ['email_label', 'name_label', 'required', 'subscribe_button', 'privacy_notice'])
      assert.ok(page.includes(t(key)), t(key))
    assert.match(page, new RegExp(`<html lang="${lang}">`))
  })

test('an unknown form is 404, a draft and a closed form are 410, and a paused form looks like an open one', async () => {
  assert.equal((await get('/f/no-such-form')).status, 404)
  const draft = await kit.show(await kit.draft(audience))
  assert.equal((await get(`/f/${draft['slug']}`)).status, 410)
  const { id, slug } = await kit.open(audience, { language: 'de' })
  const open = await bodyOf(`/f/${slug}`)
  const same = (page: string): string => page.replace(/name="t" value="[^"]*"/, '')
  await kit.patch(id, { status: 'paused' })
  assert.equal(same(await bodyOf(`/f/${slug}`)), same(open))
  await kit.patch(id, { status: 'closed' })
  const closed = await get(`/f/${slug}`)
  assert.equal(closed.status, 410)
  assert.ok((await closed.text()).includes(textsIn('de').t('closed_text')))
  await postrider.api('DELETE', `/forms/${id}`)
  assert.equal((await get(`/f/${slug}`)).status, 404)
})

for (const deleted of ['audience', 'inbox', 'domain'] as const)
  test(`the forms of a deleted ${deleted} are closed everywhere, and say why they cannot be opened`, async () => {
    const name = `${deleted}.test`
    const gone = await postrider.activeDomain(name)
    const box = document('inboxes', { name: 'Desk', address: `desk@${name}` })
    const made = await postrider.api('POST', '/inboxes', box)
    const targets = {
      audience: await campaignKit(() => postrider).audience(gone, 'Gone'),
      inbox: made.body.data.id as string,
    }
    const opened = await Promise.all([
      kit.open({ audience: targets.audience }),
      kit.open({ inbox: targets.inbox }, { consent_text: null }),
    ])
    const paths = {
      audience: `/audiences/${targets.audience}`,
      inbox: `/inboxes/${targets.inbox}`,
      domain: `/domains/${gone.id}`,
    }
    assert.equal((await postrider.api('DELETE', paths[deleted])).status, 204)
    for (const [at, of] of (['audience', 'inbox'] as const).entries()) {
      const { id, slug } = opened[at]!
      const isClosed = deleted === 'domain' || deleted === of
      assert.equal((await get(`/f/${slug}`)).status, isClosed ? 410 : 200)
      assert.equal((await kit.show(id))['status'], isClosed ? 'closed' : 'open')
      if (!isClosed) continue
      const target = { audience: 'audience Gone', inbox: `inbox desk@${name}`, domain: `domain ${name}` }[deleted]
      const { detail } = (await kit.patch(id, { status: 'open' })).body.errors[0]
      assert.equal(detail, `The ${target} of the form was deleted. Create another form.`)
      if (of === 'inbox') continue
      const signup = document('signups', { email: 'ann@there.test' })
      const refused = await postrider.api('POST', `/forms/${id}/signups`, signup)
      assert.deepEqual([refused.status, refused.body.errors[0].detail], [409, detail])
    }
    const findings = (await postrider.api('GET', '/findings')).body.data
    const links = findings.map(({ attributes }: { attributes: { href: string } }) => attributes.href)
    assert.ok(opened.every(({ id }) => !links.includes(`/forms/${id}`)))
  })

test('the page of a form that ends on another website allows this redirect', async () => {
  const { slug } = await kit.open(audience, {
    origins: ['https://www.here.test'],
    requested_url: 'https://www.here.test/thanks',
  })
  const policy = (await get(`/f/${slug}`)).headers.get('content-security-policy')!
  assert.match(policy, /form-action 'self' https:\/\/www\.here\.test;/)
})

test('the token of a page proves when this form and version were shown', async () => {
  const { id, slug } = await kit.open(audience)
  const { keyring, store } = postrider.appliance.deps
  const token = parse(await bodyOf(`/f/${slug}`))[0]!.hidden['t']!
  const form = formBySlug(store, slug)!
  const at = postrider.clock.now()
  postrider.clock.leap(DAY)
  assert.equal(readFormToken(keyring, form, token), at)
  assert.equal(readFormToken(keyring, form, token), at, 'it can be used again')
  for (const bad of ['', 'x', `${token}A`, token.slice(1), `${token} `, 'A'.repeat(300)])
    assert.equal(readFormToken(keyring, form, bad), undefined, bad)
  const other = sealFormToken(keyring, { id: 'another', version: form.version }, at)
  assert.equal(readFormToken(keyring, form, other), undefined)
  await kit.patch(id, { title: 'Another title' })
  assert.equal(readFormToken(keyring, formBySlug(store, slug)!, token), undefined)
})

test('after an error the form has what was typed, a summary that takes the focus, and each error at its field', async () => {
  const { slug } = await kit.open(audience, { fields: [NAME, CITY], consent_checkbox: true })
  const { deps } = postrider.appliance
  const form = formBySlug(deps.store, slug)!
  const texts = currentTexts(deps.store, form)
  const errors: FormError[] = [
    { field: 'email', detail: 'Enter your email address.' },
    { field: 'field.city', detail: 'Too long: <city>.' },
    { field: 'consent', detail: 'Tick the box if you agree.' },
  ]
  const values = { email: 'ann@', name: '"Ann" <i>', 'field.city': 'Ghent' }
  const app = new Hono().post('/', (context) => {
    const language = formLanguage(context, texts, 'en')
    return formPage(context, deps, form, { texts, language, token: 'x', status: 422, errors, values })
  })
  const answer = await app.request('/', { method: 'POST' })
  assert.equal(answer.status, 422)
  const page = inLine(await answer.text())
  assert.match(page, /<div class="errors" role="alert" tabindex="-1" autofocus>/)
  for (const { field } of errors) {
    assert.ok(page.includes(`<a href="#f-${field}">`), field)
    assert.ok(page.includes(`<p id="f-${field}-error" class="error bad">`), field)
    const [control] = new RegExp(`<input[^>]*id="f-${field.replace('.', '\\.')}"[^>]*>`).exec(page)!
    assert.match(control, /aria-invalid="true"/)
    assert.match(control, new RegExp(`aria-describedby="[^"]*f-${field.replace('.', '\\.')}-error"`))
  }
  assert.match(page, /Too long: &lt;city&gt;\./)
  for (const value of ['ann@', '&quot;Ann&quot; &lt;i&gt;', 'Ghent'])
    assert.ok(page.includes(`value="${value}"`), value)
  assert.doesNotMatch(/<input[^>]*id="f-name"[^>]*>/.exec(page)![0], /aria-invalid/)
})

test('the HTML for other websites is a whole form without scripts, under 4 KB, that posts to the hosted form', async () => {
  const { id } = await kit.open(audience, { fields: [NAME, CITY], intro: 'Once a month.\nNo more.' })
  const { embed_html, public_url } = await kit.show(id)
  const html = embed_html as string
  assert.ok(Buffer.byteLength(html) < 3000, `${Buffer.byteLength(html)} bytes`)
  assert.ok(html.startsWith(`<form method="post" action="${public_url}" `) && html.endsWith('</form>'))
  assert.doesNotMatch(html, /<script|<iframe|<link|<img|\son\w+=|name="t"/)
  assert.equal(html.match(/\sstyle=/g)!.length, 1)
  const [form] = parse(html)
  assert.deepEqual(form!.hidden, { version: '1', lang: 'en' })
  for (const text of [FORM.title, FORM.controller, FORM.consent_text, 'Once a month.<br>No more.', 'Privacy notice'])
    assert.ok(html.includes(text), text)
  assert.match(html, /<label>Email address \(required\)<br><input name="email" type="email" autocomplete="email"/)
  assert.match(html, /<label>Your &quot;city&quot; &lt;b&gt;<br><input name="field\.city"/)
})

test('a contact form has a message, and no consent', async () => {
  const { id, slug } = await kit.open(inbox, { fields: [NAME], consent_text: null, title: 'Write to us' })
  const page = await bodyOf(`/f/${slug}`)
  assert.match(page, /<form method="post" action="\/f\/[^"]+" enctype="multipart\/form-data">/)
  assert.match(page, /<textarea id="f-message" name="message"[^>]*rows="6" maxlength="4000"> <\/textarea>/)
  assert.match(page, /<button type="submit"[^>]*>\s*Send\s*<\/button>/)
  assert.doesNotMatch(page, /unsubscribe/i)
  const { embed_html } = await kit.show(id)
  assert.match(embed_html, /enctype="multipart\/form-data"/)
  assert.match(embed_html, /<textarea name="message"/)
  await kit.patch(id, { status: 'closed' })
  assert.ok((await bodyOf(`/f/${slug}`)).includes('not possible to send a message here'))
})
