// The console pages of segments work without a script: rows of conditions, their count, and the choice in a campaign.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { formKit } from '../kit/forms.ts'
import type { Guest } from '../kit/guest.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { signedIn } from '../kit/signed-in.ts'

let ann: Guest
const postrider = ofFile(() => startTestAppliance())
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
setUp(async () => void (ann = await signedIn(postrider)))

/** The fields of rows. */
const rows = (...given: readonly [what: string, op: string, value: string][]): Record<string, string> =>
  Object.fromEntries(
    given.flatMap(([what, op, value], at) => [
      [`what-${at}`, what],
      [`op-${at}`, op],
      [`value-${at}`, value],
      [`campaign-${at}`, ''],
    ]),
  )

async function withContacts(): Promise<string> {
  const audience = await kit.audience(domain)
  await kit.fill(audience, [
    { email: 'ann@there.test', custom_fields: { city: 'Ghent' } },
    { email: 'ben@there.test', custom_fields: { city: 'Lyon' } },
  ])
  return audience
}

test('adds, removes and counts conditions without saving, then creates and changes the segment', async () => {
  const audience = await withContacts()
  const city: [string, string, string] = ['field:city', 'is', 'ghent']
  const path = `/audiences/${audience}/segments/new`
  const send = async (fields: Record<string, string>) => ann.send(await ann.open(path), 'save', fields)
  const added = await send({ name: 'Ghent', step: 'add', ...rows(city) })
  assert.match(added.text, /Condition 2/)
  const removed = await send({ name: 'Ghent', step: 'remove-0', ...rows(city, ['field:name', 'empty', '']) })
  assert.doesNotMatch(removed.text, /Condition 2|value="ghent"/)
  const counted = await send({ name: 'Ghent', step: 'count', ...rows(city) })
  assert.match(counted.text, /1 contact matches, 1 of them would receive a campaign now/)
  assert.deepEqual((await postrider.api('GET', `/audiences/${audience}/segments`)).body.data, [])
  const wrong = await send({ name: 'Ghent', step: 'save', ...rows(city, ['field:city', 'less', 'many']) })
  assert.match(wrong.text, /id="value-1-error">Enter a number\./)
  const saved = await send({ name: 'Ghent', step: 'save', ...rows(city) })
  assert.match(saved.text, /Created “Ghent”/)
  assert.match(saved.text, /ann@there\.test/)
  assert.doesNotMatch(saved.text, /ben@there\.test/)
  const [{ attributes, id }] = (await postrider.api('GET', `/audiences/${audience}/segments`)).body.data
  assert.deepEqual(attributes.rules, [{ field: 'city', op: 'is', value: 'ghent' }])

  const page = await ann.open(`/segments/${id}`)
  const tag = /name="tag" value="([^"]*)"/.exec(page.text)?.[1]?.replaceAll('&quot;', '"') ?? ''
  const changed = await ann.send(page, 'save', {
    name: 'Lyon',
    tag,
    step: 'save',
    ...rows(['field:city', 'in', 'lyon, paris']),
  })
  assert.match(changed.text, /Saved “Lyon”/)
  const late = await ann.send(page, 'save', { name: 'Late', tag, step: 'save', ...rows(city) })
  assert.match(late.text, /Another user changed this segment/)
  // A count in between does not hide the change.
  const counting = await ann.send(page, 'save', { name: 'Late', tag, step: 'count', ...rows(city) })
  assert.ok(counting.text.includes(`name="tag" value="${tag.replaceAll('"', '&quot;')}"`))
  const then = /name="tag" value="([^"]*)"/.exec(late.text)?.[1]?.replaceAll('&quot;', '"') ?? ''
  const replaced = { name: 'Lyon', tag: then, step: 'save', ...rows(['field:city', 'in', 'lyon, paris']) }
  assert.match((await ann.send(late, 'save', replaced)).text, /Saved “Lyon”/)
  const file = (await ann.open(`/audiences/${audience}/export.csv?segment=${id}`)).text
  assert.match(file, /\nben@there\.test,/)
  assert.doesNotMatch(file, /ann@there\.test/)
  for (const order of ['status', '-status', 'created_at'])
    assert.match((await ann.open(`/segments/${id}?sort=${order}`)).text, /ben@there\.test/, order)
  assert.match((await ann.open(`/audiences/${audience}/segments`)).text, /Lyon/)
})

test('names what to correct at the field of a condition, in the words of the page', async () => {
  const audience = await withContacts()
  const page = await ann.open(`/audiences/${audience}/segments/new`)
  const sent = (given: Record<string, string>) => ann.send(page, 'save', { name: 'Some', step: 'count', ...given })
  for (const [row, name, sentence] of [
    [['field:city', 'is', ''], 'value', 'Enter a text of 1 to 500 characters.'],
    [['field:city', 'in', ' , '], 'value', 'Enter 1 to 500 texts of at most 500 characters, separated by commas.'],
    [['field:points', 'less', '5 points'], 'value', 'Enter a number.'],
    [['date:created_at', 'before', '1 May'], 'value', 'Enter a date such as 2026-01-31.'],
    [['date:created_at', 'within_days', '9999'], 'value', 'Enter a number of days from 1 to 3650.'],
    [['event:opened', 'did', 'many'], 'value', 'Enter a number of days from 1 to 3650.'],
    [['date:created_at', 'contains', '2026'], 'op', '“contains” is not possible for “Added”. Choose another operator.'],
    [['event:opened', 'is', ''], 'op', '“is” is not possible for “Opened a campaign”. Choose another operator.'],
  ] as const) {
    const { status, text } = await sent(rows(['field:city', 'not_empty', ''], [...row]))
    assert.equal(status, 422, row.join())
    assert.ok(text.includes(`id="${name}-1-error">${sentence}<`), `${row.join()}: ${sentence}`)
    assert.ok(!text.includes('rules.1'))
  }
  const opened = rows(['event:opened', 'did', '5'])
  assert.match((await sent({ ...opened, 'campaign-0': 'x' })).text, /id="value-0-error">Remove the number of days/)
  const unknown = { ...rows(['event:opened', 'did', '']), 'campaign-0': 'x' }
  assert.match((await sent(unknown)).text, /id="campaign-0-error">This campaign does not exist/)
  assert.match((await sent({})).text, /Add a condition\./)
})

test('offers the fields of the audience’s forms before a contact has a value', async () => {
  const audience = await withContacts()
  const field = { key: 'shoe_size', label: 'Shoe size', required: false }
  await formKit(() => postrider).draft(
    { audience },
    { fields: [field, { key: 'city', label: 'City', required: false }] },
  )
  const { text } = await ann.open(`/audiences/${audience}/segments/new`)
  assert.match(text, /<option value="field:shoe_size"/)
  assert.equal(text.match(/<option value="field:city"/g)?.length, 1)
})

test('chooses the segment of a draft in the editor, and names the scheduled campaigns of a segment', async () => {
  const audience = await withContacts()
  const { body } = await postrider.api('POST', `/audiences/${audience}/segments`, {
    data: { type: 'segments', attributes: { name: 'Few', rules: [{ field: 'city', op: 'is', value: 'Ghent' }] } },
  })
  const id = await kit.draft(audience, { name: 'Winter' })
  const editor = await ann.open(`/campaigns/${id}/edit`)
  assert.match(editor.text, /All contacts/)
  const tag = /name="tag" value="([^"]*)"/.exec(editor.text)?.[1]?.replaceAll('&quot;', '"') ?? ''
  const fields = { name: 'Winter', subject: 'Snow', audience, body_html: '<p>Snow</p>', segment: body.data.id, tag }
  await ann.send(editor, 'save', fields)
  assert.match((await ann.open(`/campaigns/${id}`)).text, /segment <a href="[^"]*">Few/)
  assert.equal((await kit.patch(id, { scheduled_at: '2099-01-01T00:00:00Z', status: 'scheduled' })).status, 200)
  assert.match((await ann.open(`/segments/${body.data.id}`)).text, /also applies to scheduled campaigns: “Winter”/)
  const refused = await ann.send(await ann.open(`/segments/${body.data.id}`), 'remove', { sure: 'yes' })
  assert.match(refused.text, /Choose other recipients there first/)
})
