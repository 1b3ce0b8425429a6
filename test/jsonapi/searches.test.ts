// filter[search] of every list: words of at most 100 characters, matched in linear time, in slices of one per turn of
// the event loop (D205).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { resourcesOf } from '../../src/http/server.ts'
import { loadParts } from '../../src/server/parts.ts'
import { sortable, type Resource } from '../../src/jsonapi/resource.ts'
import { raw } from '../../src/store/query.ts'
import { startTestAppliance } from '../kit/appliance.ts'
import { campaignKit } from '../kit/campaign.ts'
import { ofFile, setUp } from '../kit/of-file.ts'

const resources = resourcesOf(await loadParts())

/** Rows of each table, more than one read of a search in an order without an index takes. */
const ROWS = 1300
const LONG = 'a'.repeat(3000)

const postrider = ofFile(() => startTestAppliance({ domains: ['here.test'] }))
let audience = ''
let inbox = ''

const write = (sql: string, ...parameters: (string | number)[]): Promise<unknown> =>
  postrider.appliance.deps.store.write((tx) =>
    tx.run(
      raw(`with recursive n(i) as (select 0 union all select i + 1 from n where i < ${ROWS - 1}) ${sql}`, parameters),
    ),
  )

setUp(async () => {
  const { store } = postrider.appliance.deps
  const kit = campaignKit(() => postrider)
  const { id, key: domain } = store.one(raw<{ id: string; key: number }>('select id, key from domains'))
  audience = await kit.audience({ id } as Parameters<typeof kit.audience>[0])
  const { key: list } = store.one(raw<{ key: number }>('select key from audiences'))
  const user = postrider.user.key
  // Times of creation repeat and do not follow the keys.
  const at = `i * 7 % 1000`
  const word = `iif(i % 3 = 0, 'Zebra ', '') || '${LONG}' || i`
  await write(
    `insert into contacts (id, user_key, audience_key, email, name, status, status_at, created_at, updated_at) select 'contact-' || i, ?, ?, 'r' || i || '@there.test', ${word}, iif(i % 2, 'subscribed', 'unsubscribed'), 0, ${at}, ${at} from n`,
    user,
    list,
  )
  await write(
    `insert into outbound_emails (id, user_key, domain_key, "from", "to", subject, message_id, opens_tracked, clicks_tracked, status, queued_at, created_at, updated_at)
     select 'mail-' || i, ?, ?, 'hello@here.test', 'r' || i || '@there.test', ${word}, '<' || i || '@here.test>', 0, 0, iif(i % 2, 'delivered', 'failed'), 0, ${at}, ${at} from n`,
    user,
    domain,
  )
  await write(
    `insert into suppressions (id, user_key, domain_key, email, reason, source, scope, strikes, created_at, updated_at) select 'stop-' || i, ?, ?, ${word}, 'manual', 'api', 'all', 0, ${at}, ${at} from n`,
    user,
    domain,
  )
  const box = await postrider.api(
    'POST',
    '/inboxes',
    JSON.stringify({ data: { type: 'inboxes', attributes: { name: 'Box', address: 'box@here.test' } } }),
  )
  inbox = box.body.data.id
})

/** The lists with a search that reads a table, and their paths. */
const LISTS: Record<string, () => string> = {
  'audit-entries': () => '/audit-entries',
  campaigns: () => '/campaigns',
  contacts: () => `/audiences/${audience}/contacts`,
  forms: () => '/forms',
  images: () => '/images',
  'inbound-emails': () => '/inbound-emails',
  'inbox-messages': () => `/inboxes/${inbox}/messages`,
  'outbound-emails': () => '/outbound-emails',
  suppressions: () => '/suppressions',
}

const ALL = resources as unknown as readonly Resource<never>[]
const ofType = (name: string): Resource<never> => ALL.find(({ type }) => type === name)!

test('every list with a search is in the table of this test', () => {
  const found = ALL.filter(
    ({ actions, filters }) => filters?.['search']?.sql !== undefined && actions.some(({ kind }) => kind === 'list'),
  )
  assert.deepEqual(found.map(({ type }) => type).toSorted(), Object.keys(LISTS))
})

for (const resource of ALL.filter(
  ({ actions, filters }) => filters && 'search' in filters && actions.some(({ person }) => !person),
))
  test(`${resource.type} rejects a search of 101 characters`, async () => {
    assert.ok(resource.filters?.['search']?.whole, 'its length is limited')
    const path = LISTS[resource.type]?.() ?? resource.actions.find(({ kind }) => kind === 'view')!.path
    const { body, status } = await postrider.api('GET', `${path}?filter[search]=${'a'.repeat(101)}`)
    assert.equal(status, 400, JSON.stringify(body))
    assert.match(body.errors[0].detail, /The limit is 100 characters/)
    assert.equal((await postrider.api('GET', `${path}?filter[search]=${'a'.repeat(100)}`)).status, 200)
  })

/** Runs `work` and returns the statements that it ran which read texts. */
async function searchesOf(work: () => Promise<unknown>): Promise<string[]> {
  const { store } = postrider.appliance.deps
  const found: string[] = []
  store.watch((sql) => void (/instr\(|\blike\b|spent\(/i.test(sql) && !sql.startsWith('explain') && found.push(sql)))
  try {
    await work()
  } finally {
    store.watch(() => {})
  }
  return found
}

for (const [type, path] of Object.entries(LISTS))
  test(`searches ${type} in slices in every order, even with other filters`, async () => {
    const { store } = postrider.appliance.deps
    const several =
      'status' in (ofType(type).filters ?? {}) ? ['', '&filter[status]=delivered,failed,subscribed,draft'] : ['']
    for (const sort of sortable(ofType(type)).flatMap((name) => [name, `-${name}`]))
      for (const more of several) {
        const statements = await searchesOf(() =>
          postrider.api('GET', `${path()}?filter[search]=zebra&sort=${sort}${more}`),
        )
        assert.ok(statements.length > 0)
        for (const sql of statements) {
          assert.match(sql, /spent\(\)/)
          assert.doesNotMatch(sql, /\blike\b/i)
          const steps = store.all(
            raw<{ detail: string }>(`explain query plan ${sql}`, Array<null>(sql.split('?').length - 1).fill(null)),
          )
          assert.doesNotMatch(steps.map(({ detail }) => detail).join('\n'), /USE TEMP B-TREE/, `${sort}${more}: ${sql}`)
        }
      }
  })

/** The ids of all pages, forward and back. */
async function idsOf(path: string): Promise<string[]> {
  const forward: string[][] = []
  const back: string[][] = []
  const ids = (body: { data: { id: string }[] }): string[] => body.data.map(({ id }) => id)
  let { body } = await postrider.api('GET', `${path}&page[size]=100`)
  for (;;) {
    forward.push(ids(body))
    if (body.links.next === null) break
    body = (await postrider.api('GET', path.slice(0, path.indexOf('?')) + new URL(body.links.next).search)).body
  }
  for (;;) {
    back.unshift(ids(body))
    if (body.links.prev === null) break
    body = (await postrider.api('GET', path.slice(0, path.indexOf('?')) + new URL(body.links.prev).search)).body
  }
  assert.deepEqual(back, forward)
  return forward.flat()
}

for (const type of ['contacts', 'outbound-emails', 'suppressions'])
  test(`the pages of a search in ${type} have every row once in each order, in upper and lower case`, async () => {
    const { table } = ofType(type)
    const { store } = postrider.appliance.deps
    for (const sort of sortable(ofType(type)).flatMap((name) => [name, `-${name}`])) {
      const way = sort.startsWith('-') ? 'desc' : 'asc'
      const rows = store.all(
        raw<{ id: string }>(
          `select id from ${table} where user_key = ? and id like '%-%' and cast(substr(id, instr(id, '-') + 1) as integer) % 3 = 0
           and length(id) < 20 order by "${sort.replace('-', '')}" ${way}, key ${way}`,
          [postrider.user.key],
        ),
      )
      assert.equal(rows.length, Math.ceil(ROWS / 3))
      assert.deepEqual(
        await idsOf(`${LISTS[type]!()}?filter[search]=zEBRA&sort=${sort}`),
        rows.map(({ id }) => id),
        sort,
      )
    }
  })

test('matches letters outside ASCII only in the same case', async () => {
  await postrider.appliance.deps.store.write((tx) =>
    tx.run(raw(`update contacts set name = 'Élodie 100%_' where id = 'contact-1'`)),
  )
  const found = async (word: string): Promise<number> =>
    (await postrider.api('GET', `${LISTS['contacts']!()}?filter[search]=${encodeURIComponent(word)}`)).body.data.length
  assert.deepEqual(await Promise.all(['ÉLODIE', 'élodie', '0%_', '1%_'].map(found)), [1, 0, 1, 0])
})

test('thirty parallel searches run one slice per turn of the event loop', async () => {
  const { store } = postrider.appliance.deps
  let turns = 0
  let going = true
  const count = (): void => {
    turns++
    if (going) setImmediate(count)
  }
  const slices: number[] = []
  store.watch((sql) => void (sql.includes('spent()') && !sql.startsWith('explain') && slices.push(turns)))
  count()
  const path = `${LISTS['contacts']!()}?filter[search]=${'a'.repeat(99)}b`
  const answers = await Promise.all(Array.from({ length: 30 }, () => postrider.api('GET', path)))
  going = false
  store.watch(() => {})
  assert.deepEqual([...new Set(answers.map(({ status }) => status))], [200])
  assert.ok(slices.length >= 30)
  assert.equal(new Set(slices).size, slices.length)
})
