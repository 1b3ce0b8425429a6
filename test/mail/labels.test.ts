// Tags and metadata of emails: checked, shown, found, and in webhooks. test/privacy/everywhere.test.ts erases an
// address in them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { payloadOf } from '../../src/webhooks/payload.ts'
import { raw } from '../../src/store/query.ts'
import type { RowOf } from '../../src/store/schema/tables.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { mailsOf } from './mails.ts'

const postrider = ofFile(() =>
  startTestAppliance({ domains: ['here.test'], routes: ['there.test'], exchanger: testExchanger() }),
)
const { become, post, show, tryPost } = mailsOf(() => postrider)
const found = async (tag: string): Promise<string[]> =>
  (await postrider.api('GET', `/outbound-emails?filter[tag]=${encodeURIComponent(tag)}`)).body.data.map(
    ({ id }: { id: string }) => id,
  )

test('tags and metadata are shown, tags are found, and a webhook has both', async () => {
  const labels = { tags: ['welcome', 'site 2', 'welcome'], metadata: { order: '1017' } }
  const id = await post(labels)
  const shown = (await show(id)) as unknown as { tags: string[]; metadata: unknown }
  assert.deepEqual([shown.tags, shown.metadata], [['welcome', 'site 2'], { order: '1017' }])
  const plain = await post()
  const without = (await show(plain)) as unknown as { tags: unknown; metadata: unknown }
  assert.deepEqual([without.tags, without.metadata], [null, null])
  assert.deepEqual([await found('site 2'), await found('welcome'), await found('site')], [[id], [id], []])
  assert.deepEqual(new Set(await found('site 2,welcome')), new Set([id]))
  await become(id, 'delivered')
  await become(plain, 'delivered')
  const { store } = postrider.appliance.deps
  const data = store
    .all(raw<RowOf<'events'>>(`select * from events where type = 'email.delivered' order by key`))
    .map((event) => JSON.parse(payloadOf(store, event)!).data)
  assert.deepEqual(
    data.map((each) => [each.tags, each.metadata]),
    [
      [['welcome', 'site 2'], { order: '1017' }],
      [[], {}],
    ],
  )
})

test('metadata can have any name, even "__proto__"', async () => {
  const metadata = JSON.parse('{"__proto__":"x","constructor":"y"}') as Record<string, string>
  const id = await post({ metadata })
  const shown = (await show(id)) as unknown as { metadata: object }
  assert.equal(JSON.stringify(shown.metadata), JSON.stringify(metadata))
  const faulty = await tryPost({ metadata: JSON.parse('{"__proto__":5}') })
  assert.equal(faulty.status, 422)
  assert.equal(faulty.body.errors[0].source.pointer, '/data/attributes/metadata/__proto__')
})

test('a repeat with other tags or metadata is another email', async () => {
  const attributes = { idempotency_key: 'labels', tags: ['a'], metadata: { a: '1', b: '2' } }
  const id = await post(attributes)
  assert.equal((await tryPost({ ...attributes, metadata: { b: '2', a: '1' } })).body.data.id, id)
  assert.equal((await tryPost({ ...attributes, tags: ['b'] })).status, 409)
  assert.equal((await tryPost({ ...attributes, metadata: { a: '1' } })).status, 409)
})

for (const [name, attributes, code, pointer] of [
  ['11 tags', { tags: Array.from({ length: 11 }, (_, n) => `t${n}`) }, 'too_long', 'tags'],
  ['an empty tag', { tags: [''] }, 'invalid', 'tags/0'],
  ['a tag of 129 characters', { tags: ['x'.repeat(129)] }, 'invalid', 'tags/0'],
  ['a line break in a tag', { tags: ['a\nb'] }, 'invalid', 'tags/0'],
  ['a number as a tag', { tags: [5] }, 'invalid', 'tags/0'],
  ['text as tags', { tags: 'welcome' }, 'invalid', 'tags'],
  ['a list as metadata', { metadata: ['a'] }, 'invalid', 'metadata'],
  ['an empty name in metadata', { metadata: { '': 'a' } }, 'invalid', 'metadata/'],
  ['a number in metadata', { metadata: { a: 5 } }, 'invalid', 'metadata/a'],
  [
    '51 members',
    { metadata: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`k${n}`, ''])) },
    'invalid',
    'metadata',
  ],
  ['5 KB of metadata', { metadata: { a: 'x'.repeat(2500), b: 'x'.repeat(2500) } }, 'too_long', 'metadata'],
] as const)
  test(`${name} is refused with its position`, async () => {
    const { body, status } = await tryPost(attributes)
    assert.equal(status, 422)
    assert.deepEqual([body.errors[0].code, body.errors[0].source.pointer], [code, `/data/attributes/${pointer}`])
  })
