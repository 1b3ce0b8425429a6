// Segments: what their rules select (AU60 to AU64), who gets a campaign to one (AU66), and what is rejected (AU68, AU107).
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'

const DAY = 86_400_000
const exchanger = testExchanger()
const postrider = ofFile(() => startTestAppliance({ exchanger, routes: ['there.test'] }))
const domain = ofFile(() => postrider.activeDomain('here.test'))
const kit = campaignKit(() => postrider)
const store = () => postrider.appliance.deps.store

const attributes = async (path: string) => (await postrider.api('GET', path)).body.data.attributes
const add = (audience: string, rules: unknown, name = 'Some') =>
  postrider.api('POST', `/audiences/${audience}/segments`, { data: { type: 'segments', attributes: { name, rules } } })
const segmentOf = async (audience: string, rules: unknown): Promise<string> => {
  const { body, status } = await add(audience, rules)
  assert.equal(status, 201, JSON.stringify(body))
  return body.data.id
}

/** The local parts of the contacts that match rules, as the list of contacts has them. */
async function matching(audience: string, rules: unknown): Promise<string[]> {
  const id = await segmentOf(audience, rules)
  const { body, status } = await postrider.api('GET', `/audiences/${audience}/contacts?filter[segment]=${id}`)
  assert.equal(status, 200, JSON.stringify(body))
  const names = body.data.map((each: { attributes: { email: string } }) => each.attributes.email.split('@')[0])
  // The count reads the contacts in another way, and must select the same.
  const { matching: count } = await attributes(`/segments/${id}/count`)
  assert.equal(count, names.length)
  return names.toSorted()
}

describe('rules about fields compare texts without case, and other types never match (AU61)', () => {
  const audience = ofFile(async () => {
    const id = await kit.audience(domain)
    await kit.fill(id, [
      { email: 'ann@there.test', name: 'Ann', custom_fields: { city: 'Ghent', points: 42, joined: '2026-01-31' } },
      {
        email: 'ben@there.test',
        name: 'BEN',
        custom_fields: { city: 'GHENT', points: '7.5', joined: '2026-02-01T10:00:00Z' },
      },
      { email: 'eve@other.test', custom_fields: { city: 'Zu\u0308rich', points: 'many', vip: true, joined: 'soon' } },
      { email: 'zoe@other.test', name: '', custom_fields: { city: ['Ghent'], points: null, 'a.b $[0]': 'x%_' } },
      { email: 'kim@sub.other.test' },
    ])
    return { id }
  })
  for (const [rule, names] of [
    [{ field: 'city', op: 'is', value: 'ghent' }, ['ann', 'ben']],
    [{ field: 'city', op: 'is', value: 'Z\u00dcRICH' }, ['eve']],
    [{ field: 'city', op: 'is_not', value: 'Ghent' }, ['eve', 'kim', 'zoe']],
    [{ field: 'city', op: 'contains', value: 'EN' }, ['ann', 'ben']],
    [{ field: 'city', op: 'starts_with', value: 'z\u00fc' }, ['eve']],
    [{ field: 'city', op: 'ends_with', value: 'RICH' }, ['eve']],
    [{ field: 'city', op: 'in', value: ['gHENT', 'z\u00fcrich'] }, ['ann', 'ben', 'eve']],
    [{ field: 'city', op: 'empty' }, ['kim', 'zoe']],
    [{ field: 'name', op: 'not_empty' }, ['ann', 'ben']],
    [{ field: 'name', op: 'is', value: 'ben' }, ['ben']],
    [{ field: 'vip', op: 'is', value: 'TRUE' }, ['eve']],
    [{ field: 'points', op: 'is', value: '42' }, ['ann']],
    [{ field: 'points', op: 'greater', value: 7 }, ['ann', 'ben']],
    [{ field: 'points', op: 'less', value: 42 }, ['ben']],
    [{ field: 'joined', op: 'before', value: '2026-02-01' }, ['ann']],
    [{ field: 'joined', op: 'after', value: '2026-01-31' }, ['ben']],
    [{ field: 'email', op: 'starts_with', value: 'ANN@' }, ['ann']],
    [{ field: 'email_domain', op: 'is', value: 'other.test' }, ['eve', 'zoe']],
    [{ field: 'a.b $[0]', op: 'is', value: 'x%_' }, ['zoe']],
    [{ date: 'created_at', op: 'within_days', value: 1 }, ['ann', 'ben', 'eve', 'kim', 'zoe']],
    [{ date: 'created_at', op: 'older_than_days', value: 1 }, []],
    [{ date: 'created_at', op: 'before', value: '2000-01-01' }, []],
    [{ date: 'created_at', op: 'after', value: '2000-01-01' }, ['ann', 'ben', 'eve', 'kim', 'zoe']],
  ] as const)
    test(JSON.stringify(rule), async () => assert.deepEqual(await matching(audience.id, [rule]), names))

  test('all conditions must be met (AU60)', async () => {
    const rules = [
      { field: 'city', op: 'is', value: 'ghent' },
      { field: 'points', op: 'greater', value: 10 },
    ]
    assert.deepEqual(await matching(audience.id, rules), ['ann'])
  })
})
