// Fetch, edit, save (D70): a client can send back the whole record. Read-only members are rejected only if they differ.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { document } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { codes, MISSING, pointers, startWire, type Wire } from './wire.ts'

interface Record_ {
  type: string
  id: string
  attributes: Record<string, unknown>
  relationships?: Record<string, { data: { type: string; id: string } | null }>
}

const wire = ofFile(() => startWire())
/** One of each resource that accepts PATCH, by path. */
const made: Record<string, string> = {}
const ask: Wire['ask'] = (...request) => wire.ask(...request)

setUp(async () => {
  const domain = await wire.postrider.activeDomain('here.test')
  const related = (name: string, type: string, id: string) => ({ relationships: { [name]: { data: { type, id } } } })
  const create = async (path: string, attributes: object, more = {}, type = path.slice(1)): Promise<string> => {
    const { body, status } = await ask('POST', path, { body: document(type, attributes as never, more) })
    assert.equal(status, 201, JSON.stringify(body))
    return body.data.id
  }
  made['domains'] = domain.id
  made['inboxes'] = await create('/inboxes', { name: 'Box', address: 'box@here.test' })
  const hook = { name: 'Hook', url: 'https://hooks.test/', events: ['email.sent'] }
  made['webhooks'] = await create('/webhooks', hook, related('domain', 'domains', domain.id))
  made['audiences'] = await create('/audiences', { name: 'All' }, related('domain', 'domains', domain.id))
  const contact = { email: 'bob@nowhere.test', name: 'Bob', custom_fields: { city: 'Ghent' } }
  made['contacts'] = await create(`/audiences/${made['audiences']}/contacts`, contact, {}, 'contacts')
  const content = { name: 'News', subject: 'News', body_html: '<p>News</p>', reply_to: 'ann@here.test' }
  made['campaigns'] = await create('/campaigns', content, related('audience', 'audiences', made['audiences']))
})

const fetched = async (type: string): Promise<Record_> => (await ask('GET', `/${type}/${made[type]}`)).body.data
const save = (record: Record_) => ask('PATCH', `/${record.type}/${record.id}`, { body: { data: record } })
const TYPES = ['domains', 'inboxes', 'webhooks', 'audiences', 'contacts', 'campaigns']

test('PATCH accepts every resource unchanged as it was read', async () => {
  for (const type of TYPES) {
    const record = await fetched(type)
    const saved = await save(record)
    assert.equal(saved.status, 200, `${type}: ${JSON.stringify(saved.body)}`)
    const { updated_at: _, ...attributes } = saved.body.data.attributes
    const { updated_at: __, ...before_ } = record.attributes
    assert.deepEqual(attributes, before_, type)
    assert.deepEqual(saved.body.data.relationships, record.relationships)
  }
})

test('PATCH applies one change in a whole record', async () => {
  for (const [type, name, value] of [
    ['domains', 'tls_policy', 'Require'],
    ['inboxes', 'name', 'Renamed'],
    ['webhooks', 'name', 'Renamed'],
    ['audiences', 'description', 'All of them'],
    ['contacts', 'name', 'Robert'],
    ['campaigns', 'subject', 'Newer'],
  ] as const) {
    const record = await fetched(type)
    const saved = await save({ ...record, attributes: { ...record.attributes, [name]: value } })
    assert.equal(saved.status, 200, `${type}: ${JSON.stringify(saved.body)}`)
    assert.equal(saved.body.data.attributes[name], value)
  }
})

test('PATCH accepts a record with a stale updated_at (D70)', async () => {
  for (const [type, name, first, second] of [
    ['domains', 'tls_policy', 'Optional', 'Require'],
    ['inboxes', 'name', 'One', 'Two'],
    ['webhooks', 'name', 'One', 'Two'],
    ['audiences', 'description', 'One', 'Two'],
    ['contacts', 'name', 'One', 'Two'],
    ['campaigns', 'subject', 'One', 'Two'],
  ] as const) {
    await ask('PATCH', `/${type}/${made[type]}`, { body: document(type, { [name]: second }, { id: made[type] }) })
    const record = await fetched(type)
    const later = (value: string) => save({ ...record, attributes: { ...record.attributes, [name]: value } })
    const { updated_at: was } = record.attributes
    wire.postrider.clock.advance(1000)
    const between = await ask('PATCH', `/${type}/${record.id}`, {
      body: document(type, { [name]: first }, { id: record.id }),
    })
    assert.equal(between.status, 200, type)
    if (was !== undefined) assert.notEqual(between.body.data.attributes.updated_at, was, type)
    const saved = await later(second)
    assert.equal(saved.status, 200, `${type}: ${JSON.stringify(saved.body)}`)
    if (was === undefined) continue
    const ahead = { ...record.attributes, updated_at: '2999-01-01T00:00:00.000Z' }
    assert.equal((await save({ ...record, attributes: ahead })).status, 422, type)
  }
})

test('PATCH rejects read-only attributes only if they differ', async () => {
  for (const type of TYPES) {
    const record = await fetched(type)
    const changed = await save({
      ...record,
      attributes: { ...record.attributes, created_at: '2020-01-01T00:00:00.000Z' },
    })
    assert.deepEqual(
      [changed.status, codes(changed), pointers(changed)],
      [422, ['immutable'], ['/data/attributes/created_at']],
      type,
    )
    const unknown = await save({ ...record, attributes: { ...record.attributes, nonsense: 1 } })
    assert.deepEqual([unknown.status, pointers(unknown)], [422, ['/data/attributes/nonsense']], type)
  }
})

test('accepts an unchanged time in any notation', async () => {
  const record = await fetched('inboxes')
  const created = record.attributes['created_at'] as string
  for (const form of [created.replace('Z', '+00:00'), created.replace(/\.(\d{3})Z/, '.$1000Z')])
    assert.equal((await save({ ...record, attributes: { created_at: form } })).status, 200, form)
})

test('PATCH accepts unchanged relationships and rejects others with 403', async () => {
  const { relationships, ...record } = await fetched('webhooks')
  const bare = { ...record, attributes: {} }
  assert.equal((await save({ ...bare, relationships: relationships! })).status, 200)
  for (const domain of [
    { data: { type: 'domains', id: MISSING } },
    { data: { type: 'inboxes', id: relationships!['domain']!.data!.id } },
    { data: null },
    {},
    null,
  ]) {
    const answer = await save({ ...bare, relationships: { domain } } as Record_)
    assert.deepEqual([answer.status, codes(answer)], [403, ['relationship_update_forbidden']], JSON.stringify(domain))
  }
  const none = { ...bare, id: MISSING, relationships: relationships! }
  assert.equal((await save(none)).status, 403)
  assert.equal((await save({ ...bare, id: MISSING })).status, 404)
})

test('PATCH with a record of another user does not reveal whether it exists', async () => {
  const record = await fetched('webhooks')
  const body = { data: { ...record, relationships: {} } }
  const theirs = await ask('PATCH', `/webhooks/${record.id}`, { token: wire.postrider.otherToken, body })
  assert.deepEqual([theirs.status, codes(theirs)], [404, ['not_found']])
})

test('PATCH accepts a whole running campaign, but its status alone is a request to change it', async () => {
  const id = made['campaigns']!
  const patch = (attributes: Record<string, unknown>) =>
    ask('PATCH', `/campaigns/${id}`, { body: document('campaigns', attributes, { id }) })
  const later = new Date(wire.postrider.clock.now() + 86_400_000).toISOString()
  assert.equal((await patch({ status: 'scheduled', scheduled_at: later })).status, 200)
  const record = await fetched('campaigns')
  assert.equal((await save(record)).status, 200)
  const edited = await save({ ...record, attributes: { ...record.attributes, subject: 'Late' } })
  assert.deepEqual([edited.status, codes(edited)], [422, ['not_editable']])
  const again = await patch({ status: 'scheduled' })
  assert.deepEqual([again.status, codes(again)], [422, ['transition_not_allowed']])
  const cancelled = await save({ ...record, attributes: { ...record.attributes, status: 'cancelled' } })
  assert.equal(cancelled.body.data.attributes.status, 'cancelled')
})
