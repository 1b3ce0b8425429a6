// The resource of forms: what it accepts, how a form is opened, paused and closed, and the versions of its texts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ROLES } from '../../src/jsonapi/roles.ts'
import { document, startTestAppliance, type Answer } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { FORM, formKit } from '../kit/forms.ts'
import { ofFile } from '../kit/of-file.ts'

const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = formKit(() => postrider)
const audience = ofFile(async () => ({ audience: await campaignKit(() => postrider).audience(domain) }))
const inbox = ofFile(async () => {
  const made = await postrider.api('POST', '/inboxes', document('inboxes', { name: 'Desk', address: 'desk@here.test' }))
  return { inbox: made.body.data.id as string }
})

interface Problem {
  code: string
  detail: string
  source: { pointer: string }
}

/** The code of each problem, with its attribute. The pointer of an absent attribute is that of its parent. */
const problems = ({ body, status }: Answer): [status: number, ...string[]] => [
  status,
  ...(body.errors as Problem[]).map(({ code, detail, source: { pointer } }) =>
    pointer === '/data/attributes'
      ? `${code} ${/^"(\w+)"/.exec(detail)?.[1]}`
      : `${code} ${pointer.replace('/data/attributes/', '')}`,
  ),
]
const versions = async (id: string): Promise<Record<string, unknown>[]> =>
  (await postrider.api('GET', `/forms/${id}/versions`)).body.data.map(
    (each: { attributes: Record<string, unknown> }) => each.attributes,
  )

test('a form belongs to exactly one of an audience and an inbox, of its own account', async () => {
  assert.deepEqual(problems(await kit.post({})), [422, 'required /data'])
  assert.deepEqual(problems(await kit.post({ ...audience, ...inbox })), [422, 'invalid /data'])
  const signUp = await kit.post(audience)
  assert.equal(signUp.status, 201)
  assert.deepEqual(signUp.body.data.relationships, {
    audience: { data: { type: 'audiences', id: audience.audience } },
    inbox: { data: null },
  })
  const contact = await kit.post(inbox, { consent_text: null })
  assert.equal(contact.body.data.relationships.inbox.data.id, inbox.inbox)
  const theirs = { relationships: { audience: { data: { type: 'audiences', id: audience.audience } } } }
  // 404 comes before 422.
  assert.equal((await postrider.asOther('POST', '/forms', document('forms', {}, theirs))).status, 404)
})

test('a form is invisible to another account on every path and filter', async () => {
  const id = await kit.draft(audience)
  for (const [method, path] of [
    ['GET', `/forms/${id}`],
    ['DELETE', `/forms/${id}`],
    ['GET', `/forms/${id}/versions`],
  ] as const)
    assert.equal((await postrider.asOther(method, path)).status, 404, `${method} ${path}`)
  const change = await postrider.asOther('PATCH', `/forms/${id}`, document('forms', { name: 'Mine' }, { id }))
  assert.equal(change.status, 404)
  for (const query of ['', `?filter[audience]=${audience.audience}`, '?filter[search]=Website'])
    assert.deepEqual((await postrider.asOther('GET', `/forms${query}`)).body.data, [])
})

test('a marketer creates sign-up forms, and sees no inbox for a contact form', async () => {
  const token = await postrider.tokenFor(postrider.user, ROLES.marketer.scopes)
  const post = (name: string, type: string, id: string) =>
    postrider.raw('/api/v1/forms', {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/vnd.api+json' },
      body: JSON.stringify(document('forms', FORM, { relationships: { [name]: { data: { type, id } } } })),
    })
  assert.equal((await post('audience', 'audiences', audience.audience)).status, 201)
  const refused = await post('inbox', 'inboxes', inbox.inbox)
  assert.deepEqual(problems(refused), [404, 'not_found /data/relationships/inbox'])
  assert.deepEqual(problems(await post('inbox', 'inboxes', 'unknown')), problems(refused))
})

test('a paused form is a finding of its account, with how to open it', async () => {
  const { id, slug } = await kit.open(audience, { name: 'Found' })
  const found = async () =>
    (await postrider.api('GET', '/findings')).body.data
      .map(({ attributes }: { attributes: Record<string, string> }) => attributes)
      .filter(({ href }: Record<string, string>) => href === `/forms/${id}`)
  assert.deepEqual(await found(), [])
  await kit.patch(id, { status: 'paused' })
  const [finding] = await found()
  assert.equal(finding.detail, 'The form Found is paused')
  assert.ok(finding.fix.includes(`postrider form open ${slug}`))
  await kit.patch(id, { status: 'open' })
  assert.deepEqual(await found(), [])
})

test('a draft has the language of its audience, a slug of its name, and a hidden field of its own', async () => {
  await postrider.api(
    'PATCH',
    `/audiences/${audience.audience}`,
    document('audiences', { language: 'de-AT' }, { id: audience.audience }),
  )
  const form = await kit.show(await kit.draft(audience, { name: 'Blätter & Bäume' }))
  assert.deepEqual(
    [form['language'], form['slug'], form['status'], form['opt_in'], form['version']],
    ['de-AT', 'blatter-baume', 'draft', 'double', 1],
  )
  assert.equal(form['public_url'], `${postrider.config.http.public_url}/f/blatter-baume`)
  const other = await kit.show(await kit.draft(audience, { name: 'Blätter & Bäume' }))
  assert.match(other['slug'], /^blatter-baume-[0-9a-f]{8}$/)
  assert.notEqual(form['honeypot'], other['honeypot'])
  assert.match((await kit.show(await kit.draft(audience, { name: '日本' })))['slug'], /^form-[0-9a-f]{8}$/)
})

test('a slug is never given to another form, even after its form was deleted', async () => {
  const id = await kit.draft(audience, { slug: 'spring' })
  assert.deepEqual(problems(await kit.post(audience, { slug: 'spring' })), [422, 'already_exists slug'])
  assert.equal((await postrider.api('DELETE', `/forms/${id}`)).status, 204)
  assert.equal((await postrider.api('GET', `/forms/${id}`)).status, 404)
  assert.deepEqual(problems(await kit.post(audience, { slug: 'spring' })), [422, 'already_exists slug'])
  assert.equal((await versions(id)).length, 1, 'its versions stay')
})

test('single opt-in needs a reason of 10 to 500 characters', async () => {
  assert.deepEqual(problems(await kit.post(audience, { opt_in: 'single' })), [422, 'required single_reason'])
  const short = { opt_in: 'single', single_reason: 'because' }
  assert.deepEqual(problems(await kit.post(audience, short)), [422, 'invalid single_reason'])
  assert.deepEqual(problems(await kit.post(audience, { ...short, single_reason: 'x'.repeat(501) })), [
    422,
    'too_long single_reason',
  ])
  const id = await kit.draft(audience, { ...short, single_reason: 'Customers sign in before.' })
  assert.deepEqual(problems(await kit.patch(id, { single_reason: null })), [422, 'required single_reason'])
})

const BAD: [attributes: Record<string, unknown>, problem: string][] = [
  [{ title: 'x'.repeat(101) }, 'too_long title'],
  [{ title: 'Two\nlines' }, 'invalid title'],
  [{ title: 'Win at www.bad.test' }, 'invalid title'],
  [{ confirm_note: 'Questions? ann@here.test' }, 'invalid confirm_note'],
  [{ confirm_note: 'See https://here.test' }, 'invalid confirm_note'],
  [{ consent_text: 'x'.repeat(501) }, 'invalid consent_text'],
  [{ consent_text: 'line\n'.repeat(401) }, 'too_long consent_text'],
  [{ consent_text: ' \n ' }, 'invalid consent_text'],
  [{ intro: 'bell \u0007' }, 'invalid intro'],
  [{ intro: '\ud800' }, 'invalid intro'],
  [{ intro: 'turned \u202e' }, 'invalid intro'],
  [{ button: 7 }, 'invalid button'],
  [{ controller: '' }, 'invalid controller'],
  [{ privacy_url: 'javascript:alert(1)' }, 'invalid privacy_url'],
  [{ language: null }, 'invalid language'],
  [{ language: 'no such language' }, 'invalid language'],
  [{ consent_checkbox: 'yes' }, 'invalid consent_checkbox'],
  [{ fields: [{ key: 'Größe', label: 'x' }] }, 'invalid fields/0/key'],
  [{ fields: [{ key: 'city' }] }, 'required fields/0'],
  [{ fields: [{ key: 'email', label: 'x' }] }, 'invalid fields/0/key'],
  ...['__proto__', 'constructor', 'prototype'].map((key): [Record<string, unknown>, string] => [
    { fields: [{ key, label: 'x' }] },
    'invalid fields/0/key',
  ]),
  [{ fields: [{ key: 'city', label: 'x', hidden: true }] }, 'invalid fields/0/hidden'],
  [{ fields: ['a', 'b', 'c', 'd'].map((key) => ({ key, label: key })) }, 'invalid fields'],
  [{ fields: ['a', 'a'].map((key) => ({ key, label: key })) }, 'invalid fields'],
  [{ translations: [] }, 'invalid translations'],
  [{ translations: { 'no such language': { title: 'x' } } }, 'invalid translations/no such language'],
  [{ translations: { de: { title: 'x', colour: 'red' } } }, 'invalid translations/de/colour'],
  [{ translations: { de: { title: 'www.bad.test' } } }, 'invalid translations/de/title'],
  [{ translations: { de: { title: 'x', labels: { size: 'Größe' } } } }, 'invalid translations/de/labels/size'],
  [{ language: 'de', translations: { de: { title: 'x' } } }, 'invalid translations'],
  [{ origins: ['https://a.test/'] }, 'invalid origins/0'],
  [{ origins: ['http://a.test'] }, 'invalid origins/0'],
  [{ origins: ['https://A.test'] }, 'invalid origins/0'],
  [{ origins: Array.from({ length: 21 }, (_, each) => `https://a${each}.test`) }, 'too_long origins'],
  [{ origins: ['https://a.test'], requested_url: 'https://b.test/thanks' }, 'invalid requested_url'],
  [{ confirmed_url: 'http://a.test/' }, 'invalid confirmed_url'],
  [{ from_address: 'news@elsewhere.test' }, 'address_outside_domain from_address'],
  [{ reply_to: 'not an address' }, 'invalid reply_to'],
  [{ welcome_subject: 'Welcome' }, 'required welcome_html'],
  [{ slug: 'Größe' }, 'invalid slug'],
  [{ honeypot: 'x' }, 'immutable honeypot'],
  [{ nonsense: 1 }, 'invalid nonsense'],
]
for (const [attributes, problem] of BAD)
  test(`refuses a form with ${JSON.stringify(attributes).slice(0, 90)}`, async () => {
    const before = (await postrider.api('GET', '/forms?page[size]=100')).body.data.length
    assert.deepEqual(problems(await kit.post(audience, attributes)), [422, problem])
    assert.equal((await postrider.api('GET', '/forms?page[size]=100')).body.data.length, before, 'nothing is stored')
  })

test('accepts three fields and the name, translations with labels, and pages on the listed origins', async () => {
  const given = {
    fields: [
      { key: 'name', label: null, required: true },
      ...['city', 'size', 'color'].map((key) => ({ key, label: key, required: false })),
    ],
    translations: {
      'pt-BR': { title: 'Notícias', intro: null, consent_text: 'Sim.', button: null, labels: { city: 'Cidade' } },
    },
    origins: ['https://www.here.test', 'http://localhost:8080', 'http://127.0.0.1'],
    requested_url: 'http://localhost:8080/thanks?a=1',
    confirmed_url: 'https://www.here.test/welcome',
    welcome_subject: 'Welcome {{name}}',
    welcome_html: '<p>Hello {{name}}</p>',
    from_address: 'Old Trees <news@here.test>',
  }
  const form = await kit.show(await kit.draft(audience, given))
  for (const [name, value] of Object.entries(given)) assert.deepEqual(form[name], value, name)
})

test('a form is opened when the texts that people must see are there, and its domain is active', async () => {
  const bare = { title: null, consent_text: null, controller: null, privacy_url: null }
  const id = await kit.draft(audience, bare)
  assert.deepEqual(problems(await kit.patch(id, { status: 'open' })), [
    422,
    'required title',
    'required consent_text',
    'required controller',
    'required privacy_url',
  ])
  assert.equal((await kit.show(id))['status'], 'draft')
  const { controller, consent_text, privacy_url, title } = FORM
  const half = { title, consent_text, controller, privacy_url, translations: { de: { title: 'Neues' } } }
  assert.deepEqual(problems(await kit.patch(id, { ...half, status: 'open' })), [422, 'required translations/de'])
  assert.equal((await kit.patch(id, { ...half, translations: {}, status: 'open' })).status, 200)
  // An open form keeps these texts.
  assert.deepEqual(problems(await kit.patch(id, { privacy_url: null })), [422, 'required privacy_url'])
  const pending = await postrider.api(
    'POST',
    '/domains',
    document('domains', { name: 'pending.test', purpose: 'both' }),
  )
  const other = await kit.draft({ audience: await campaignKit(() => postrider).audience(pending.body.data) })
  assert.deepEqual(problems(await kit.patch(other, { status: 'open' })), [422, 'domain_not_active status'])
})

test('a contact form needs no consent text', async () => {
  const id = await kit.draft(inbox, { consent_text: null })
  assert.equal((await kit.patch(id, { status: 'open' })).status, 200)
})

test('a form is paused, opened and closed by its table, and not made a draft again', async () => {
  const { id } = await kit.open(audience)
  const steps: [status: string, result: number][] = [
    ['draft', 422],
    ['paused', 200],
    ['open', 200],
    ['closed', 200],
    ['paused', 422],
    ['open', 200],
  ]
  for (const [status, result] of steps) assert.equal((await kit.patch(id, { status })).status, result, status)
  const refused = await kit.patch(id, { status: 'draft' })
  assert.match(refused.body.errors[0].detail, /status open cannot be set to draft\. Possible: paused, closed\./)
})

test('each change that people see makes a version, and a draft has only one', async () => {
  const id = await kit.draft(audience)
  await kit.patch(id, { title: 'First' })
  assert.deepEqual(
    (await versions(id)).map(({ version }) => version),
    [1],
  )
  await kit.patch(id, { status: 'open' })
  await kit.patch(id, { name: 'Nobody sees this', confirm_note: 'nor this' })
  assert.equal((await kit.show(id))['version'], 1)
  await kit.patch(id, { title: 'Second' })
  await kit.patch(id, { fields: [{ key: 'city', label: 'City', required: true }] })
  await kit.patch(id, { controller: 'Old Trees Inc' })
  assert.equal((await kit.show(id))['version'], 4)
  const shown = await versions(id)
  assert.deepEqual(
    shown.map(({ version }) => version),
    [4, 3, 2, 1],
  )
  const titles = shown.map(({ languages }) => Object.values(languages as Record<string, { title: string }>)[0]!.title)
  assert.deepEqual(titles, ['Second', 'Second', 'Second', 'First'])
  assert.deepEqual([shown[1]!['controller'], shown[0]!['controller']], [FORM.controller, 'Old Trees Inc'])
  assert.deepEqual([shown[2]!['fields'], shown[1]!['fields']], [[], [{ key: 'city', label: 'City', required: true }]])
})

test('a form whose audience was deleted cannot be opened', async () => {
  const gone = await campaignKit(() => postrider).audience(domain, 'Gone')
  const id = await kit.draft({ audience: gone })
  assert.equal((await postrider.api('DELETE', `/audiences/${gone}`)).status, 204)
  assert.deepEqual(problems(await kit.patch(id, { status: 'open' })), [422, 'invalid status'])
})

test('an account has at most 100 forms', async () => {
  const there = (await postrider.api('GET', '/forms?page[size]=100')).body.data.length
  for (let each = there; each < 100; each++) await kit.draft(inbox, { name: `Form ${each}` })
  const refused = await kit.post(inbox)
  assert.deepEqual([refused.status, refused.body.errors[0].code], [422, 'limit_reached'])
})
