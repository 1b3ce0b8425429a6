// Search with many matches: pages have every email once, newest first, and no email of other accounts.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance, type TestAppliance } from '../kit/appliance.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

/** More than the search looks up by their keys. */
const MANY = 2300

const postrider = ofFile(() => startTestAppliance())

setUp(async () => {
  const { key: domain } = await postrider.activeDomain('here.test')
  const { key: user } = postrider.user
  await postrider.appliance.deps.store.write((tx) => {
    tx.run(
      raw(
        `with recursive n(i) as (select 0 union all select i + 1 from n where i < ?)
         insert into outbound_emails (id, user_key, domain_key, "from", "to", subject, message_id, opens_tracked, clicks_tracked, status, queued_at, created_at, updated_at)
         select 'mail-' || i, ?, ?, 'hello@here.test', 'Ann <r' || i || '@' || iif(i % 100 = 7, 'rare', 'there') || '.test>', iif(i % 10 = 0, 'A zeppelin', 'Your order ' || i), '<' || i || '@here.test>', 0, 0, 'delivered', i, i, i from n`,
        [MANY - 1, user, domain],
      ),
    )
    tx.run(
      raw(
        `insert into deliveries (email_key, domain_key, role, address, lane, status, attempts, expires_at, updated_at)
         select key, domain_key, 'to', 'r' || created_at || '@there.test', 'there.test', 'delivered', 1, 0, 0 from outbound_emails`,
      ),
    )
  })
})

/** The creation times of all emails that fit, page by page. */
async function found(search: string, as: 'api' | 'asOther' = 'api'): Promise<number[]> {
  const times: number[] = []
  for (
    let path: string | null = `/outbound-emails?filter[search]=${encodeURIComponent(search)}&page[size]=100`;
    path;
  ) {
    const { body }: Awaited<ReturnType<TestAppliance['api']>> = await postrider[as]('GET', path)
    for (const { attributes } of body.data) times.push(Date.parse(attributes.created_at))
    path = body.links.next && `/outbound-emails${new URL(body.links.next).search}`
  }
  return times
}

const newestFirst = (fits: (i: number) => boolean): number[] =>
  Array.from({ length: MANY }, (_, i) => MANY - 1 - i).filter(fits)

test('finds a rare word', async () =>
  assert.deepEqual(
    await found('ZEPPELIN'),
    newestFirst((i) => i % 10 === 0),
  ))

test('finds parts of an address and of a subject that many emails have', async () => {
  assert.deepEqual(
    await found('subject:order status:delivered'),
    newestFirst((i) => i % 10 !== 0),
  )
  assert.deepEqual(
    await found('r'),
    newestFirst(() => true),
  )
})

test('finds several words, and words with other terms', async () => {
  assert.deepEqual(
    await found('your order 123'),
    newestFirst((i) => String(i).includes('123') && i % 10 !== 0),
  )
  assert.deepEqual(
    await found('zeppelin before:1970-01-01T00:00:01Z'),
    newestFirst((i) => i % 10 === 0 && i < 1000),
  )
  assert.deepEqual(await found('zeppelin status:failed'), [])
})

test('finds an address, its prefix and its domain', async () => {
  assert.deepEqual(await found('R77@there.test'), [77])
  assert.deepEqual(await found('to:r229'), [2299, 2298, 2297, 2296, 2295, 2294, 2293, 2292, 2291, 2290, 229])
  assert.deepEqual(
    await found('to:@rare.test'),
    newestFirst((i) => i % 100 === 7),
  )
  assert.deepEqual(await found('to:@are.test'), [])
})

test('another account finds no emails', async () => assert.deepEqual(await found('zeppelin', 'asOther'), []))

test('searches words only in the subject index', async () => {
  const { store } = postrider.appliance.deps
  for (const search of ['zeppelin', 'subject:zeppelin', 'your order 123', 'r']) {
    const passes: string[] = []
    store.watch((sql) => void (/^select key, .* from outbound_emails\b.* order by key /.test(sql) && passes.push(sql)))
    await found(search)
    store.watch(() => {})
    assert.ok(passes.length > 0)
    for (const sql of passes) {
      const marks = sql.split('?').length - 1
      const steps = store.all(raw<{ detail: string }>(`explain query plan ${sql}`, Array<null>(marks).fill(null)))
      assert.match(steps[0]!.detail, /USING COVERING INDEX outbound_emails_words/)
    }
  }
})

test('finds by recipient domain, and with or without a campaign', async () => {
  assert.deepEqual(
    await found('receiver:rare.test'),
    newestFirst((i) => i % 100 === 7),
  )
  assert.deepEqual(await found('receiver:@RARE.test'), await found('receiver:rare.test'))
  assert.deepEqual(await found('campaign:yes'), [])
  assert.equal((await found('campaign:no')).length, MANY)
})

test('names an unknown search term, and finds it as quoted text', async () => {
  const { body, status } = await postrider.api('GET', '/outbound-emails?filter[search]=foo:bar')
  assert.equal(status, 400)
  assert.match(
    body.errors[0].detail,
    /^"foo:" is not a search term\. Use to:, from:, subject:, status:, domain:, receiver:, [^.]*before:\. To search for the text, put it in quotes: "foo:bar"\.$/,
  )
  assert.deepEqual(body.errors[0].source, { parameter: 'filter[search]' })
  assert.deepEqual(await found('"foo:bar"'), [])
})

test('counts emails by status up to the limit', async () => {
  const counts = async (search: string) => {
    const { body } = await postrider.api(
      'GET',
      `/statistics/outbound-emails?filter[search]=${encodeURIComponent(search)}`,
    )
    const { more, statuses, total } = body.data.attributes
    const delivered = statuses.find(({ status }: { status: string }) => status === 'delivered')
    assert.equal(statuses.length, 10)
    return [total, more, delivered.count, delivered.more]
  }
  const whole = [MANY, false, MANY, false]
  for (const search of ['', 'before:2026-01-01', 'domain:here.test', 'campaign:no', 'r'])
    assert.deepEqual(await counts(search), whole, search)
  assert.deepEqual(await counts('zeppelin'), [MANY / 10, false, MANY / 10, false])
  assert.deepEqual(await counts('status:bounced'), [0, false, 0, false])
  const other = await postrider.asOther('GET', '/statistics/outbound-emails')
  assert.equal(other.body.data.attributes.total, 0)
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(
      raw(
        `with recursive n(i) as (select 0 union all select i + 1 from n where i < 8000)
         insert into outbound_emails (id, user_key, domain_key, "from", "to", subject, message_id, opens_tracked, clicks_tracked, status, queued_at, created_at, updated_at)
         select 'more-' || i, user_key, domain_key, "from", 'x@more.test', 'More', '<more>', 0, 0, iif(i = 7, 'bounced', 'delivered'), 0, 0, 0 from n, (select * from outbound_emails limit 1)`,
        [],
      ),
    ),
  )
  assert.deepEqual(await counts(''), [10_001, true, 10_000, true], 'each status by itself')
  assert.deepEqual(await counts('status:bounced'), [1, false, 0, false])
})
