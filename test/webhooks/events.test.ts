// The events of emails over the API: their order, filters, pages and access.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { appendEvent } from '../../src/store/events.ts'
import { startTestAppliance, type Answer } from '../kit/appliance.ts'
import { testExchanger } from '../kit/exchanger.ts'
import { ofFile } from '../kit/of-file.ts'
import { mailsOf } from '../mail/mails.ts'

const postrider = ofFile(() =>
  startTestAppliance({ domains: ['here.test'], routes: ['there.test'], exchanger: testExchanger() }),
)
const { become, post } = mailsOf(() => postrider)
const list = (query = ''): Promise<Answer> => postrider.api('GET', `/email-events${query}`)
interface Event {
  id: string
  attributes: { event: string; created_at: string; data: Record<string, unknown> }
}
const typesOf = ({ body }: Answer): string[] => body.data.map(({ attributes }: Event) => attributes.event)

test('an email has its events in the order of their commits, with the data of webhooks', async () => {
  const id = await post({ tags: ['a'], metadata: { order: '5' } })
  await become(id, 'delivered')
  const answer = await list('?sort=created_at')
  assert.deepEqual(typesOf(answer), ['email.sent', 'email.delivered'])
  const [, { attributes }] = answer.body.data as [Event, Event]
  assert.deepEqual(
    [attributes.data['email_id'], attributes.data['recipient'], attributes.data['tags'], attributes.data['metadata']],
    [id, 'bob@there.test', ['a'], { order: '5' }],
  )
  assert.deepEqual(typesOf(await list()), ['email.delivered', 'email.sent'])
})

test('an event that was committed later is listed later, whatever its time is', async () => {
  const { clock, store } = postrider.appliance.deps
  const { key, user_key, domain_key } = store.one(
    raw<{ key: number; user_key: number; domain_key: number }>('select key, user_key, domain_key from outbound_emails'),
  )
  const about = { user_key, domain_key, email_key: key, data: { machine: true } }
  const end = await list('?sort=created_at&page[size]=2')
  assert.equal(end.body.meta.has_more, false)
  await store.write((tx) => appendEvent(tx, { ...about, type: 'email.opened', at: clock.now() }))
  await store.write((tx) => appendEvent(tx, { ...about, type: 'email.clicked', at: clock.now() - 60_000 }))
  assert.deepEqual(typesOf(await list('?sort=created_at')).slice(2), ['email.opened', 'email.clicked'])
  const first = await list('?sort=created_at&page[size]=2')
  const next = first.body.meta.next_cursor as string
  assert.deepEqual(typesOf(await list(`?sort=created_at&page[size]=2&page[cursor]=${next}`)), [
    'email.opened',
    'email.clicked',
  ])
})

test('filters by event, email, tag, Message-ID, recipient and time', async () => {
  const id = await post({ to: 'Eve@There.test', tags: ['b'] })
  const { message_id } = await become(id, 'delivered')
  const count = async (query: string): Promise<number> => (await list(`?${query}`)).body.data.length
  assert.equal(await count('filter[event]=email.delivered'), 2)
  assert.equal(await count('filter[event]=email.delivered,email.sent'), 4)
  assert.equal(await count(`filter[email]=${id}`), 2)
  assert.equal(await count('filter[tag]=b'), 2)
  assert.equal(await count('filter[tag]=c'), 0)
  assert.equal(await count(`filter[message_id]=${encodeURIComponent(message_id!)}`), 2)
  assert.equal(await count('filter[recipient]=eve@there.test'), 2)
  const now = encodeURIComponent(new Date(postrider.clock.now()).toISOString())
  assert.equal(await count(`filter[since]=${now}&filter[until]=${now}&filter[email]=${id}`), 2)
  assert.equal(await count('filter[since]=2099-01-01T00:00:00Z'), 0)
  const bad = await list('?filter[since]=yesterday')
  assert.deepEqual([bad.status, bad.body.errors[0].source.parameter], [400, 'filter[since]'])
})

test('pages do not repeat or leave out events, forwards and backwards', async () => {
  const all = (await list('?sort=created_at')).body.data.map(({ id }: Event) => id) as string[]
  for (const filter of ['', '&filter[since]=2000-01-01T00:00:00Z']) {
    const found: string[] = []
    let cursor = ''
    for (;;) {
      const { body } = await list(`?sort=created_at&page[size]=3${filter}${cursor}`)
      found.push(...body.data.map(({ id }: Event) => id))
      if (!body.meta.has_more) break
      cursor = `&page[cursor]=${body.meta.next_cursor}`
    }
    assert.deepEqual(found, all)
    const { body } = await list(`?sort=created_at&page[size]=3${filter}${cursor}`)
    const back = await list(`?sort=created_at&page[size]=3${filter}&page[cursor]=${body.meta.prev_cursor}`)
    const last = all.length - body.data.length
    assert.deepEqual(
      back.body.data.map(({ id }: Event) => id),
      all.slice(last - 3, last),
    )
  }
})

test('other users, and tokens without the scope, do not see them', async () => {
  assert.deepEqual((await postrider.asOther('GET', '/email-events')).body.data, [])
  const token = await postrider.tokenFor(postrider.user, ['domains:read'])
  const { status } = await postrider.api('GET', '/email-events', undefined, { authorization: `Bearer ${token}` })
  assert.equal(status, 403)
})

test('a page is read by an index, with and without filters', () => {
  const { store } = postrider.appliance.deps
  const plan = (where: string) =>
    store
      .all(
        raw<{ detail: string }>(
          `explain query plan select * from events where user_key = 1 and email_key is not null ${where} order by key desc limit 26`,
        ),
      )
      .map(({ detail }) => detail)
      .join()
  assert.equal(plan(''), 'SEARCH events USING INDEX events_by_user (user_key=?)')
  assert.equal(plan('and key < 5 and (key < 5)'), 'SEARCH events USING INDEX events_by_user (user_key=? AND rowid<?)')
})
