// The console pages of segments work without a script: rows of conditions, their count, and the choice in a campaign.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
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
  assert.match(wrong.text, /Condition 2: the value must be a number/)
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
  assert.match((await ann.open(`/segments/${id}/export.csv`)).text, /ben@there\.test/)
  assert.match((await ann.open(`/audiences/${audience}/segments`)).text, /Lyon/)
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
