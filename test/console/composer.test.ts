// Tests the campaign editor through its pages: designs, autosave and save, edit conflicts, merge tags and the preview.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { partsOf } from '../../src/campaigns/body-parts.ts'
import { document, startTestAppliance } from '../kit/appliance.ts'
import { Guest, type Shown } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { givePassword } from '../kit/person.ts'

const PASSWORD = 'a long enough password'
const HOSTILE = '"><script>alert(1)</script>{{name}}'

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test', 'other.test'] }))
let ann: Guest
let domains: { id: string; attributes: { name: string } }[]

setUp(async () => {
  await givePassword(postrider, postrider.user.email, PASSWORD)
  ann = new Guest(postrider)
  await ann.signIn(postrider.user.email, PASSWORD)
  domains = (await postrider.api('GET', '/domains')).body.data
})

const audience = async (name: string, contacts: object[] = [], domain = 'here.test'): Promise<string> => {
  const id = domains.find(({ attributes }) => attributes.name === domain)!.id
  const relationships = { domain: { data: { type: 'domains', id } } }
  const made = (await postrider.api('POST', '/audiences', document('audiences', { name }, { relationships }))).body.data
  if (contacts.length > 0)
    await postrider.api('POST', `/audiences/${made.id}/contacts/import`, document('contacts', { contacts }))
  return made.id
}
const LOOK = {
  design: 'newsletter',
  brand: 'Green Farm',
  colour: '#137a3f',
  logo: 'https://farm.test/logo.png',
  postal: 'Mill Lane 3\n5003 Bergen',
}
/** Creates a campaign and returns its id. */
const newCampaign = async (list: string, more: Record<string, string> = {}): Promise<string> => {
  const { brand: sender_name, colour, design, logo, postal: postal_address } = LOOK
  const changed = document('brands', { sender_name, colour, logo, postal_address }, { id: postrider.user.id })
  assert.equal((await postrider.api('PATCH', '/brand', changed)).status, 200)
  const fields = { name: 'News', subject: 'News', audience: list, design, ...more }
  const { path } = await ann.send(await ann.open('/campaigns/new'), 'save', fields)
  const [, id] = /^\/campaigns\/([0-9a-f-]{36})\/edit$/.exec(path) ?? []
  assert.ok(id, path)
  return id
}
const stored = async (id: string) => (await postrider.api('GET', `/campaigns/${id}`)).body.data
/** The request of the script while a user writes. */
const passing = async (page: Shown, list: string, more: Record<string, string>) => {
  const typed = { name: 'News', subject: 'News', audience: list, body_html: '<p>x</p>', body_text: '', ...LOOK }
  const shown = await ann.send(page, 'save', { ...typed, ...more, action: 'autosave' })
  assert.match(shown.headers.get('content-type') ?? '', /^application\/json/)
  return { status: shown.status, ...(JSON.parse(shown.text) as Record<string, unknown>) }
}

describe('a new campaign', () => {
  test('a new campaign starts with a design, in the look of the brand', async () => {
    const { attributes } = await stored(await newCampaign(await audience('Beginners')))
    assert.match(attributes.body_html, /<h1>The headline of this issue<\/h1>/)
    assert.match(attributes.body_html, /href="https:\/\/here\.test\/" style="[^"]*background:#137a3f/)
    const { design, look } = partsOf(attributes.body_html)
    assert.deepEqual({ design, ...look }, LOOK)
    assert.equal(attributes.from_address, '"Green Farm" <noreply@here.test>')
    assert.match((await ann.open('/campaigns/new')).text, /fill="#137a3f"/)
  })

  test('a new campaign asks for the audience once if there are several', async () => {
    await audience('One of them')
    await audience('Another of them')
    for (const path of ['/campaigns/new', '/campaigns/new?audience=gone']) {
      const [, options = ''] =
        /<select[^>]*name="audience"[^>]*>([^]*?)<\/select>/.exec((await ann.open(path)).text) ?? []
      assert.match(options, /^\s*<option value="" ?(?:selected)?\s*>Choose …<\/option>/, path)
      assert.equal(options.match(/Choose …/g)?.length, 1, path)
    }
  })

  test('a rejected campaign shows the error and keeps the input', async () => {
    const list = await audience('Refusing')
    const fields = { name: HOSTILE, subject: 'a'.repeat(2000), audience: list, ...LOOK, brand: HOSTILE }
    const { status, text } = await ann.send(await ann.open('/campaigns/new'), 'save', fields)
    assert.equal(status, 422)
    assert.match(text, /&quot;Subject&quot; must be at most 998/)
    assert.match(text, /value="&quot;&gt;&lt;script&gt;alert/)
    assert.doesNotMatch(text, /<script>alert/)
  })
})

describe('writing', () => {
  test('the editor shows and saves sender, reply-to, subject and preview text', async () => {
    const list = await audience('Fields')
    const id = await newCampaign(list)
    const page = await ann.open(`/campaigns/${id}/edit`)
    const before = page.text.indexOf('<summary>Design')
    for (const name of ['from_address', 'reply_to', 'subject', 'preview_text', 'audience'])
      assert.ok(page.text.indexOf(`name="${name}"`) < before, name)
    assert.match(page.text, /Defaults to noreply@here\.test/)
    const typed = { preview_text: `Cheese ${HOSTILE}`, from_address: 'hi@here.test', reply_to: 'us@here.test' }
    const saved = await ann.send(page, 'save', {
      name: 'N',
      subject: 'S',
      audience: list,
      ...LOOK,
      ...typed,
      body_html: '<p>Hi</p>',
    })
    assert.match(saved.text, /role="status">Saved “N”\./)
    const { attributes } = await stored(id)
    assert.deepEqual([attributes.from_address, attributes.reply_to], ['hi@here.test', ['us@here.test']])
    const parts = partsOf(attributes.body_html)
    assert.equal(parts.preview, `Cheese ${HOSTILE}`)
    assert.equal(parts.text, '<p>Hi</p>')
    assert.doesNotMatch(attributes.body_html, /<script>/)
    const again = (await ann.open(`/campaigns/${id}/edit`)).text
    assert.match(again, /name="preview_text"[^]*?value="Cheese &quot;&gt;&lt;script/)
    assert.match(again, />\n&lt;p&gt;Hi&lt;\/p&gt;<\/textarea>/, 'the text without its design')
  })

  test('autosave returns an ETag for the next save', async () => {
    const list = await audience('Passing')
    const id = await newCampaign(list)
    const page = await ann.open(`/campaigns/${id}/edit`)
    const first = await passing(page, list, { subject: 'One' })
    assert.equal(first.status, 200)
    assert.equal((await stored(id)).attributes.subject, 'One')
    const second = await passing(page, list, { subject: 'Two', tag: String(first['tag' as never]) })
    assert.equal(second.status, 200)
    const refused = await passing(page, list, { from_address: 'x@evil.test', tag: String(second['tag' as never]) })
    assert.equal(refused.status, 422)
    assert.match(JSON.stringify(refused), /"field":"from_address","words":"x@evil\.test does not belong to/)
    assert.equal((await stored(id)).attributes.subject, 'Two')
  })

  test('autosave reports a conflict to the second of two editors, and its save button shows both versions', async () => {
    const list = await audience('Two')
    const id = await newCampaign(list)
    const [one, other] = [await ann.open(`/campaigns/${id}/edit`), await ann.open(`/campaigns/${id}/edit`)]
    assert.equal((await passing(one, list, { subject: 'Mine' })).status, 200)
    const clash = await passing(other, list, { subject: 'Theirs' })
    assert.deepEqual(clash, { status: 409, clash: true })
    assert.equal((await stored(id)).attributes.subject, 'Mine')
    const both = await ann.send(other, 'save', {
      name: 'N',
      subject: 'Theirs',
      audience: list,
      ...LOOK,
      body_html: '<p>t</p>',
    })
    assert.equal(both.status, 409)
    assert.match(both.text, /<strong>Mine<\/strong>[^]*value="Theirs"/)
    // Their version is shown as an email, with its source collapsed. If it is chosen, the script deletes the copy in
    // this browser.
    assert.match(
      both.text,
      new RegExp(`<iframe sandbox src="/campaigns/${id}/preview" title="Other version"[^]*?<details>[^]*?<pre`),
    )
    assert.match(both.text, new RegExp(`href="/campaigns/${id}/edit" data-theirs>use the other version`))
    assert.match(both.text, /data-unsaved\s+data-hold/, 'the script waits for the person')
    await postrider.api('DELETE', `/campaigns/${id}`)
    assert.deepEqual(await passing(one, list, { subject: 'Late' }), {
      status: 404,
      gone: 'This campaign was deleted in the meantime.',
    })
  })

  test('a campaign that is no longer a draft has no editor, and an open editor shows the reason', async () => {
    const list = await audience('Begun')
    const id = await newCampaign(list)
    const open = await ann.open(`/campaigns/${id}/edit`)
    const schedule = { status: 'scheduled', scheduled_at: '2040-01-15T14:00:00.000Z' }
    for (const [attributes, why] of [
      [schedule, 'The campaign is scheduled. Unschedule it to edit it.'],
      [{ status: 'cancelled' }, 'The campaign is cancelled and can no longer be edited.'],
    ] as const) {
      await postrider.api('PATCH', `/campaigns/${id}`, document('campaigns', attributes, { id }))
      const { attributes: before } = await stored(id)
      for (const tag of [{}, { tag: '"old"' }])
        assert.deepEqual(await passing(open, list, { subject: 'Late', ...tag }), { status: 409, gone: why })
      const led = await ann.open(`/campaigns/${id}/edit`)
      assert.match(led.path, new RegExp(`^/campaigns/${id}\\?said=`))
      assert.ok(led.text.includes(`role="status">${why}<`), why)
      // The save button keeps the typed text in a new draft.
      const typed = { name: 'N', subject: 'Late', audience: list, ...LOOK, body_html: '<p>Typed</p>' }
      const shown = await ann.send(open, 'save', typed)
      assert.ok(shown.text.includes(`${why} Your content is below`), why)
      assert.match(shown.text, /action="\/campaigns\/new"[^]*value="Late"/)
      assert.deepEqual((await stored(id)).attributes, before)
    }
  })

  test('rejects a save with an expired session or a form token of another user', async () => {
    const list = await audience('Ended')
    const id = await newCampaign(list)
    const page = await ann.open(`/campaigns/${id}/edit`)
    const refused = await new Guest(postrider).send(page, 'save', { action: 'autosave', subject: 'Evil' })
    assert.equal(refused.status, 401)
    const forged = await ann.send(page, 'save', { action: 'autosave', subject: 'Evil', proof: 'x' })
    assert.equal(forged.status, 403)
    assert.equal((await stored(id)).attributes.subject, 'News')
  })

  test('rejects a save with a malformed ETag', async () => {
    const list = await audience('Tags')
    const page = await ann.open(`/campaigns/${await newCampaign(list)}/edit`)
    for (const tag of ['', '*', 'x', '"x\r\nX-Evil: y"', '"ü"'])
      assert.equal((await passing(page, list, { subject: 'Evil', tag })).status, 409, tag)
  })

  test('stores hostile HTML unchanged, sanitises the preview and rejects 2 MB with a clear error', async () => {
    const list = await audience('Hostile')
    const id = await newCampaign(list)
    const page = await ann.open(`/campaigns/${id}/edit`)
    for (const html of [
      `<script>alert(1)</script><p onclick="alert(2)">${'a'.repeat(900_000)}</p>`,
      '<div>'.repeat(100_000),
    ]) {
      const saved = await passing(await ann.open(`/campaigns/${id}/edit`), list, { body_html: html, design: '' })
      assert.equal(saved.status, 200, JSON.stringify(saved).slice(0, 1000))
      assert.ok((await stored(id)).attributes.body_html === html)
      const shown = await ann.open(`/campaigns/${id}/preview?head=yes`)
      assert.equal(shown.status, 200)
      assert.doesNotMatch(shown.text, /<script|onclick=/)
      assert.match(shown.headers.get('content-security-policy')!, /default-src 'none'.*sandbox/)
      assert.doesNotMatch(shown.headers.get('content-security-policy')!, /allow-scripts/)
    }
    assert.ok(page.text.length < 100_000)
    const whole = await stored(id)
    const large = '<script>alert(1)</script>'.repeat(90_000)
    const refused = await passing(await ann.open(`/campaigns/${id}/edit`), list, { body_html: large })
    assert.equal(refused.status, 422)
    assert.match(
      JSON.stringify(refused),
      /"words":"The request body is too large\. The limit of this endpoint is 1048576 bytes/,
    )
    assert.deepEqual(await stored(id), whole)
  })
})

describe('merge tags', () => {
  const people = ['a', 'b', 'c'].map((name, at) => ({
    email: `${name}@there.test`,
    name: at === 2 ? null : name,
    custom_fields: at === 0 ? { city: 'Bergen', empty: '', '<b>': 'x' } : {},
  }))

  test('lists the merge tags of the audience and counts the contacts without a value', async () => {
    const list = await audience(HOSTILE, people)
    const other = await audience(
      'Shops',
      [{ email: 'shop@there.test', custom_fields: { certificateStore: '7' } }],
      'other.test',
    )
    const id = await newCampaign(list)
    const body_html = '<p>{{name}} {{city}} {{city|there}} {{nothing}} {{email}}</p>'
    const page = await ann.open(`/campaigns/${id}/edit`)
    assert.match(page.text, /<code>\{\{city\}\}<\/code>/)
    assert.match(page.text, /<code>\{\{&lt;b&gt;\}\}<\/code>/)
    assert.doesNotMatch(page.text, /\{\{certificateStore\}\}|\{\{empty\}\}|<b>/)
    assert.match(page.text, /3 subscribed contacts\./)
    const saved = await passing(page, list, { body_html })
    assert.deepEqual(saved['warnings' as never], [
      '1 of 3 contacts has no name. Add a fallback: {{name|friend}}',
      '2 of 3 contacts have no city. Add a fallback: {{city|there}}',
      'No contact has a value for {{nothing}}. Add a fallback: {{nothing|there}}',
    ])
    assert.match((await ann.open(`/campaigns/${id}/edit`)).text, /<li>2 of 3 contacts have no city\. Add/)
    // Another audience brings its own tags, and its sending domain.
    const moved = await passing(await ann.open(`/campaigns/${id}/edit`), other, {
      body_html,
      from_address: 'hi@other.test',
    })
    assert.equal(moved.status, 200)
    assert.deepEqual(moved['tags' as never], ['name', 'email', 'unsubscribe_url', 'certificateStore'])
    assert.deepEqual(moved['people' as never], ['shop@there.test'])
    const { attributes, relationships } = await stored(id)
    assert.equal(relationships.audience.data.id, other)
    assert.equal(attributes.from_address, 'hi@other.test')
    // A sender that does not match the domain of an audience is rejected, and the campaign keeps its audience.
    const refused = await passing(await ann.open(`/campaigns/${id}/edit`), list, { from_address: 'hi@other.test' })
    assert.equal(refused.status, 422)
    assert.equal((await stored(id)).relationships.audience.data.id, other)
  })

  test('the API counts the values of each custom field', async () => {
    const list = await audience('Counted', people)
    const { body } = await postrider.api('GET', `/audiences/${list}/fields`)
    assert.deepEqual(
      body.data.map(({ attributes }: { attributes: object }) => attributes),
      [
        { name: 'name', contacts: 2, sampled: 3 },
        { name: '<b>', contacts: 1, sampled: 3 },
        { name: 'city', contacts: 1, sampled: 3 },
      ],
    )
  })

  test('the API changes the audience of drafts only', async () => {
    const [list, other] = [await audience('From'), await audience('To', [], 'other.test')]
    const id = await newCampaign(list, { from_address: 'hi@here.test' })
    const move = (audience_id: string, more: object = {}) =>
      postrider.api('POST', `/campaigns/${id}/audience`, document('campaign-audiences', { audience_id, ...more }))
    const outside = await move(other)
    assert.deepEqual([outside.status, outside.body.errors[0].code], [422, 'address_outside_domain'])
    assert.equal((await move('01900000-0000-7000-8000-000000000000')).status, 404)
    const moved = await move(other, { from_address: null })
    assert.equal(moved.status, 201)
    assert.equal(moved.body.data.attributes.audience_id, other)
    await postrider.api('PATCH', `/campaigns/${id}`, document('campaigns', { status: 'cancelled' }, { id }))
    const late = await move(list)
    assert.deepEqual([late.status, late.body.errors[0].code], [422, 'not_editable'])
  })
})

describe('the preview', () => {
  test('the preview shows the email of a chosen contact, with headers, in four views', async () => {
    const list = await audience('Seen', [
      { email: 'ben@there.test', name: '<b>Ben</b>' },
      { email: 'ada@there.test', name: 'Ada' },
    ])
    const id = await newCampaign(list)
    const page = await ann.open(`/campaigns/${id}/edit`)
    await passing(page, list, {
      subject: 'For {{name}}',
      preview_text: 'Cheese for {{name}}',
      body_html: '<h1>Dear {{name}}</h1>',
    })
    const seen = (more: string) => ann.open(`/campaigns/${id}/preview?head=yes&${more}`)
    const newest = (await seen('')).text
    assert.match(newest, /<p>For Ada<\/p>[^]*Cheese for Ada[^]*<h1>Dear Ada<\/h1>/)
    assert.match(newest, /noreply@here\.test/)
    assert.match(newest, /class="edge"/)
    assert.match((await seen('contact=BEN@there.test')).text, /For &lt;b&gt;Ben&lt;\/b&gt;[^]*Dear &lt;b&gt;Ben/)
    assert.match((await seen('contact=nobody@there.test')).text, /nobody@there\.test is not a contact of this audience/)
    assert.match((await seen('as=dark')).text, /<html lang="en" class="dark edge">/)
    const plain = (await seen('as=plain')).text
    assert.match(plain, /<pre>[^<]*Dear Ada/)
    assert.doesNotMatch(plain.slice(plain.indexOf('<pre>')), /Cheese/)
    for (const as of ['', 'phone', 'dark', 'plain'])
      assert.match(
        (await ann.open(`/campaigns/${id}/edit?as=${as}`)).text,
        new RegExp(`data-as="${as}" aria-current="true"`),
      )
  })

  test('the preview replaces an image that cannot be fetched with an image of the error', async () => {
    const asked = await ann.open(`/picture/of?u=${encodeURIComponent('https://nowhere.test/<a>.png')}&say=yes`)
    assert.equal(asked.headers.get('content-type'), 'image/svg+xml')
    assert.match(asked.headers.get('content-security-policy')!, /default-src 'none'; sandbox/)
    assert.match(asked.text, /^<svg [^]*>The image [^<]+<\/text>[^]*nowhere\.test\/&lt;a&gt;\.png/)
    assert.match((await ann.open('/picture/of?u=file:///etc/passwd&say=yes')).text, /This image has no web address/)
    assert.equal((await ann.open('/picture/of?u=file:///etc/passwd')).status, 404)
  })
})
