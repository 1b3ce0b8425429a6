// Query parameters and cursor pagination (specification "Query parameters shared by list endpoints", "Cursor
// pagination", D9, D12, D13).
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addUser } from '../../src/users/users.ts'
import { document } from '../kit/appliance.ts'
import { ManualClock } from '../kit/clock.ts'
import { ofFile, setUp } from '../kit/of-file.ts'
import { until } from '../kit/until.ts'
import { below, codes, mailDocument, MISSING, outcomes, sameOutcomes, startWire, type Wire } from './wire.ts'

const clock = new ManualClock()
const wire = ofFile(() => startWire({ clock }))
let domainId: string
/**
 * The emails of this file, in order of creation. All have the same time except the last, and all have a final status.
 */
let mails: string[]
const ask: Wire['ask'] = (...request) => wire.ask(...request)

interface Row {
  id: string
  type: string
  attributes: Record<string, string>
}
const list = async (path: string, token?: string): Promise<Row[]> => {
  const { status, body } = await ask('GET', path, token === undefined ? {} : { token })
  assert.equal(status, 200, `${path}: ${JSON.stringify(body)}`)
  return body.data
}
const ids = (rows: Row[]): string[] => rows.map(({ id }) => id)

const COUNT = 106
/** All of them except the first. Emails that tests add have other recipients. */
const MINE = '/outbound-emails?filter[to]=bob@nowhere.test'

setUp(async () => {
  domainId = (await wire.postrider.activeDomain('here.test')).id
  for (const [name, purpose] of [
    ['b.test', 'marketing'],
    ['a.test', 'transactional'],
  ])
    assert.equal((await ask('POST', '/domains', { body: document('domains', { name, purpose }) })).status, 201)
  mails = await wire.mails(COUNT - 1, (index) => ({
    subject: `Subject ${index % 10}`,
    to: index === 0 ? 'plus+tag@nowhere.test' : 'bob@nowhere.test',
  }))
  clock.advance(1000)
  mails.push(...(await wire.mails(1, () => ({ subject: 'The last' }))))
  // Their domain does not exist, so all of them fail, and their status does not change again.
  await until(
    async () => (await list(`${MINE},plus%2Btag@nowhere.test&filter[status]=queued,sent`)).length === 0,
    'rest',
  )
})

// ---- Parameters

test('rejects every unknown or malformed parameter with 400 and names it in full (D9)', async () => {
  const everywhere: [string, string][] = [
    ['foo=1', 'foo'],
    ['limit=5', 'limit'],
    ['fooBar=1', 'fooBar'],
    ['Include=domain', 'Include'],
    ['inbox=1', 'inbox'],
    ['=1', ''],
    ['page=2', 'page'],
    ['fields=name', 'fields'],
    ['filter=x', 'filter'],
    ['include[]=domain', 'include[]'],
    ['sort[name]=asc', 'sort[name]'],
    ['fields[a][b]=x', 'fields[a][b]'],
    ['fields[domains=x', 'fields[domains'],
    ['filter[]=1', 'filter[]'],
    ['filter[status][x]=1', 'filter[status][x]'],
    ['page[size]=1&page[size]=2', 'page[size]'],
    ['access_token=x', 'access_token'],
    ['%00=1', '\0'],
    ['__proto__=1', '__proto__'],
    ['f%C3%BC=1', 'fü'],
  ]
  const nothing = { token: wire.postrider.token }
  const requests: [string, string, unknown?][] = [
    ['GET', '/outbound-emails'],
    ['GET', `/domains/${domainId}/records`],
    ['GET', `/domains/${domainId}`],
    ['POST', '/outbound-emails', mailDocument()],
    ['PATCH', `/domains/${domainId}`, document('domains', {}, { id: domainId })],
    ['DELETE', `/domains/${domainId}`],
  ]
  for (const [method, path, body] of requests) {
    const found = await outcomes(
      everywhere,
      ([query]) => query,
      async ([query]) => {
        const answer = await ask(method, `${path}?${query}`, { ...nothing, body })
        return answer.status === 400 ? answer.body.errors[0].source : answer.status
      },
    )
    const expected = everywhere.map(([query, parameter]) => [query, { parameter }])
    sameOutcomes(found, Object.fromEntries(expected), `${method} ${path}`)
  }
})

test('rejects list parameters on single resources, and all of them if the response has no body', async () => {
  for (const [method, path, queries, body] of [
    ['GET', `/domains/${domainId}`, ['sort=name', 'filter[status]=active', 'page[size]=5', 'page[cursor]=x']],
    ['POST', '/outbound-emails', ['sort=subject', 'filter[status]=x', 'page[size]=5'], mailDocument()],
    ['DELETE', `/domains/${domainId}`, ['sort=name', 'include=', 'fields[domains]=name', 'page[size]=5']],
  ] as [string, string, string[], unknown?][])
    for (const query of queries) {
      const answer = await ask(method, `${path}?${query}`, { body })
      assert.equal(answer.status, 400, `${method} ${path}?${query}`)
      assert.equal(answer.body.errors[0].source.parameter, query.split('=')[0])
    }
})

test('each kind of parameter has its error code', async () => {
  const cases: [string, string][] = [
    ['include=nothing', 'unsupported_include'],
    ['include=domain,nothing', 'unsupported_include'],
    ['include=domain,', 'unsupported_include'],
    ['include=domain.domain', 'unsupported_include'],
    ['include=domain.a.b', 'unsupported_include'],
    ['include=.domain', 'unsupported_include'],
    ['include=subject', 'unsupported_include'],
    ['include=__proto__', 'unsupported_include'],
    ['include=constructor', 'unsupported_include'],
    ['include=domain.toString', 'unsupported_include'],
    ['fields[nothing]=name', 'unsupported_fields'],
    ['fields[domains]=name', 'unsupported_fields'],
    ['fields[outbound-emails]=nothing', 'unsupported_fields'],
    ['fields[outbound-emails]=subject,nothing', 'unsupported_fields'],
    ['fields[outbound-emails]=user_key', 'unsupported_fields'],
    ['fields[outbound-emails]=constructor', 'unsupported_fields'],
    ['fields[__proto__]=name', 'unsupported_fields'],
    ['include=domain&fields[domains]=rotate_dkim_key', 'unsupported_fields'],
    ['include=domain&fields[domains]=user_key', 'unsupported_fields'],
    ['filter[nothing]=x', 'unsupported_filter'],
    ['filter[subject]=x', 'unsupported_filter'],
    ['filter[user_key]=1', 'unsupported_filter'],
    ['filter[domain_key]=1', 'unsupported_filter'],
    ['filter[constructor]=1', 'unsupported_filter'],
    ['filter[__proto__]=1', 'unsupported_filter'],
    ['sort=nothing', 'unsupported_sort'],
    ['sort=', 'unsupported_sort'],
    ['sort=,', 'unsupported_sort'],
    ['sort=-', 'unsupported_sort'],
    ['sort=subject,', 'unsupported_sort'],
    ['sort=--subject', 'unsupported_sort'],
    ['sort=+subject', 'unsupported_sort'],
    ['sort=Subject', 'unsupported_sort'],
    ['sort=key', 'unsupported_sort'],
    ['sort=domain.name', 'unsupported_sort'],
    ['sort=constructor', 'unsupported_sort'],
    ['filter[status]=%00', 'invalid_query'],
    ['page[number]=1', 'unknown_page_parameter'],
    ['page[after]=x', 'unknown_page_parameter'],
    ['page[Size]=5', 'unknown_page_parameter'],
    ['page[]=5', 'unknown_page_parameter'],
  ]
  const found = await outcomes(
    cases,
    ([query]) => query,
    async ([query]) => {
      const answer = await ask('GET', `/outbound-emails?${query}`)
      return answer.status === 400 ? codes(answer)[0] : answer.status
    },
  )
  sameOutcomes(found, Object.fromEntries(cases))
})

test('returns included resources even if a sparse fieldset omits their relationship', async () => {
  const { body } = await ask('GET', '/outbound-emails?page[size]=1&include=domain&fields[outbound-emails]=subject')
  assert.deepEqual(Object.keys(body.data[0].attributes), ['subject'])
  assert.equal(body.data[0].relationships, undefined)
  assert.deepEqual(
    body.included.map(({ id, type }: Row) => [type, id]),
    [['domains', domainId]],
  )
})

test('reports at most a hundred errors', async () => {
  const headers = Object.fromEntries(Array.from({ length: 900 }, (_, n) => [`bad name ${n}`, 'x']))
  const answer = await ask('POST', '/outbound-emails', { body: mailDocument({ headers }) })
  assert.equal(answer.status, 422)
  assert.equal(answer.body.errors.length, 100)
})

test('rejects a filter given in two spellings, in either order (D9)', async () => {
  for (const query of [`inbox=${MISSING}&filter[inbox]=x`, `filter[inbox]=x&inbox=${MISSING}`]) {
    const answer = await ask('GET', `/inbound-emails?${query}`)
    assert.equal(answer.status, 400, query)
    assert.deepEqual(codes(answer), ['invalid_query'])
  }
})

test('accepts raw and percent-encoded brackets, and reads a plus as a space', async () => {
  const encoded = await ask('GET', '/outbound-emails?page%5Bsize%5D=3&filter%5Bstatus%5D=failed')
  const plain = await ask('GET', '/outbound-emails?page[size]=3&filter[status]=failed')
  assert.equal(encoded.body.data.length, 3)
  assert.deepEqual(ids(encoded.body.data), ids(plain.body.data))
  assert.deepEqual(ids(await list('/outbound-emails?filter[to]=plus%2Btag@nowhere.test')), [mails[0]])
  assert.deepEqual(await list('/outbound-emails?filter[to]=plus+tag@nowhere.test'), [])
})

test('a filter matches any of its comma-separated values exactly, and several filters must all match (D13)', async () => {
  const names = async (query: string): Promise<string[]> =>
    (await list(`/domains?sort=name&${query}`)).map(({ attributes }) => attributes['name']!)
  assert.deepEqual(await names('filter[purpose]=marketing'), ['b.test'])
  assert.deepEqual(await names('filter[purpose]=marketing,transactional'), ['a.test', 'b.test'])
  assert.deepEqual(await names('filter[status]=active'), ['here.test'])
  assert.deepEqual(await names('filter[purpose]=both&filter[status]=active'), ['here.test'])
  assert.deepEqual(await names('filter[purpose]=marketing&filter[status]=active'), [])
  assert.deepEqual(await names('filter[name]=a.test'), ['a.test'])
  assert.deepEqual(await names('filter[name]=a.tes'), [])
  assert.deepEqual(await names('filter[name]=a%25'), [])
  assert.deepEqual(await names(`filter[name]=a.test'%20or%201=1`), [])

  const all = COUNT > 100 ? 100 : COUNT
  assert.equal((await list(`/outbound-emails?page[size]=100&filter[domain]=${domainId}`)).length, all)
  assert.equal((await list(`/outbound-emails?page[size]=100&filter[domain]=${MISSING},${domainId}`)).length, all)
  assert.deepEqual(await list(`/outbound-emails?filter[domain]=${MISSING}`), [])
  assert.deepEqual(await list('/outbound-emails?filter[domain]=1'), [])

  const records = `/domains/${domainId}/records`
  const kinds = async (query: string): Promise<string[]> =>
    (await list(`${records}?${query}`)).map(({ attributes }) => attributes['record_type']!).toSorted()
  assert.deepEqual(await kinds('filter[record_type]=SPF'), ['SPF'])
  assert.deepEqual(await kinds('filter[record_type]=SPF,MAIL_FROM_MX'), ['MAIL_FROM_MX', 'SPF'])
  assert.deepEqual(await kinds('filter[record_type]=SPF&filter[verified]=true'), ['SPF'])
  assert.deepEqual(await kinds('filter[record_type]=SPF&filter[verified]=false'), [])
  assert.deepEqual(await kinds('filter[record_type]=SPF&filter[verified]=true,false'), ['SPF'])
})

test('sorts by each key in turn, newest first by default (D13)', async () => {
  const names = async (query: string): Promise<string[]> =>
    (await list(`/domains?${query}`)).map(({ attributes }) => attributes['name']!)
  assert.deepEqual(await names('sort=name'), ['a.test', 'b.test', 'here.test'])
  assert.deepEqual(await names('sort=-name'), ['here.test', 'b.test', 'a.test'])
  assert.deepEqual(await names('sort=status,name'), ['here.test', 'a.test', 'b.test'])
  assert.deepEqual(await names('sort=-status,name'), ['a.test', 'b.test', 'here.test'])
  assert.deepEqual(await names('sort=-status,-name'), ['b.test', 'a.test', 'here.test'])
  for (const path of ['/outbound-emails', '/domains', `/domains/${domainId}/records`])
    for (const sort of ['created_at', '-created_at', 'updated_at', '-updated_at']) {
      const times = (await list(`${path}?sort=${sort}`)).map(({ attributes }) => attributes[sort.replace('-', '')]!)
      assert.deepEqual(times, sort.startsWith('-') ? times.toSorted().reverse() : times.toSorted(), `${path} ${sort}`)
    }
  assert.equal((await list(`${MINE}&page[size]=1`))[0]!.id, mails.at(-1))
  assert.equal((await list(`${MINE}&page[size]=1&sort=-subject`))[0]!.attributes['subject'], 'The last')
  const pairs = (await list(`${MINE}&page[size]=100&sort=subject,-created_at`)).map(({ attributes }) =>
    [attributes['subject'], attributes['created_at']].join(' '),
  )
  assert.deepEqual(pairs, pairs.toSorted())
})

// ---- Sparse fieldsets and included resources

test('sparse fieldsets apply to attributes and relationships', async () => {
  const path = `/outbound-emails/${mails[0]}`
  const fields = async (query: string) => {
    const { attributes, relationships } = (await ask('GET', `${path}?${query}`)).body.data
    return [attributes && Object.keys(attributes).toSorted(), relationships && Object.keys(relationships)]
  }
  assert.deepEqual(await fields('fields[outbound-emails]=subject,status'), [['status', 'subject'], undefined])
  assert.deepEqual(await fields('fields[outbound-emails]=domain'), [undefined, ['domain']])
  assert.deepEqual(await fields('fields[outbound-emails]=domain,to'), [['to'], ['domain']])
  assert.deepEqual(await fields('fields[outbound-emails]='), [undefined, undefined])
  const [, related] = await fields('')
  assert.deepEqual(related, ['domain', 'campaign', 'batch', 'contact'])
  for (const row of await list('/outbound-emails?fields[outbound-emails]=subject&page[size]=3'))
    assert.deepEqual(Object.keys(row).toSorted(), ['attributes', 'id', 'links', 'type'])
  const included = await ask('GET', `${path}?include=domain&fields[domains]=name`)
  assert.deepEqual(included.body.included[0].attributes, { name: 'here.test' })
  assert.ok(Object.keys(included.body.data.attributes).length > 5)
  const empty = await ask('GET', `${path}?include=domain&fields[domains]=`)
  assert.deepEqual(Object.keys(empty.body.included[0]).toSorted(), ['id', 'links', 'type'])
})

test('returns each included resource once and linked, and an empty member without any', async () => {
  const one = await ask('GET', '/outbound-emails?include=domain,domain&page[size]=7')
  assert.equal(one.body.data.length, 7)
  assert.deepEqual(ids(one.body.included), [domainId])
  assert.equal(one.body.included[0].attributes.name, 'here.test')
  assert.equal(one.body.included[0].links.self, (await ask('GET', `/domains/${domainId}`)).body.data.links.self)
  for (const { relationships } of one.body.data)
    assert.deepEqual(relationships.domain.data, { type: 'domains', id: domainId })
  const records = await ask('GET', `/domains/${domainId}/records?include=domain`)
  assert.deepEqual(ids(records.body.included), [domainId])
  for (const path of [`/outbound-emails/${mails[0]}`, '/outbound-emails', '/domains', `/domains/${domainId}`]) {
    assert.deepEqual((await ask('GET', `${path}?include=`)).body.included, [], path)
    assert.ok(!('included' in (await ask('GET', path)).body), path)
  }
  assert.deepEqual(
    (await ask('GET', '/outbound-emails?include=domain&filter[to]=nobody@nowhere.test')).body.included,
    [],
  )
})

// ---- Pages

test('a page has 25 rows unless the size is a whole number from 1, and at most 100', async () => {
  const sizes: [string, number][] = [
    ['1', 1],
    ['99', 99],
    ['100', 100],
    ['101', 100],
    ['500', 100],
    ['0', 25],
    ['-5', 25],
    ['1e2', 25],
    ['10.5', 25],
    ['%20', 25],
    ['', 25],
    ['abc', 25],
    ['0x10', 25],
    ['%2B5', 25],
    ['5%205', 25],
    ['%EF%BC%95', 25],
    ['NaN', 25],
    ['Infinity', 25],
    ['9999999999999999999999', 25],
  ]
  const found = await outcomes(
    sizes,
    ([size]) => size,
    async ([size]) => {
      const { body } = await ask('GET', `/outbound-emails?page[size]=${size}`)
      assert.equal(body.data.length, body.meta.per_page)
      return body.meta.per_page
    },
  )
  sameOutcomes(found, Object.fromEntries(sizes))
  const { body } = await ask('GET', '/outbound-emails')
  assert.equal(body.meta.per_page, 25)
  assert.equal(body.data.length, 25)
})

test('returns an empty collection with null links', async () => {
  const newcomer = await addUser(wire.postrider.appliance.deps, { email: 'new@owner.test' })
  const token = await wire.postrider.tokenFor(newcomer, ['emails:read'])
  const { body } = await ask('GET', '/outbound-emails', { token })
  assert.deepEqual(body.data, [])
  assert.deepEqual([body.links.prev, body.links.next], [null, null])
  assert.deepEqual(body.meta, { has_more: false, next_cursor: null, prev_cursor: null, per_page: 25 })
})

/** Follows links.next (or prev) from a path to its end. Returns the pages. */
async function walk(path: string, way: 'next' | 'prev' = 'next', between?: (page: Row[]) => Promise<void>) {
  const pages: Row[][] = []
  let at: string | null = path
  let last = path
  while (at !== null) {
    assert.ok(pages.length < 500, 'the walk ends')
    const { status, body } = await ask('GET', at)
    assert.equal(status, 200)
    pages.push(body.data)
    last = at
    at = body.links[way] === null ? null : below(body.links[way])
    await between?.(body.data)
  }
  return { pages, last }
}

test('paging forward to the end and back visits the same rows in reverse', async () => {
  for (const query of [
    'page[size]=10',
    'page[size]=7&sort=created_at',
    'page[size]=9&sort=subject',
    'page[size]=9&sort=-subject,created_at',
    'page[size]=9&sort=subject,-updated_at,status',
    // All but one have the same time, so the subject decides, against the order of creation.
    'page[size]=9&sort=created_at,subject',
    'page[size]=9&sort=-created_at,-subject',
    'page[size]=53&filter[status]=failed&include=domain&fields[outbound-emails]=domain,subject',
    'page[size]=100',
  ]) {
    const forward = await walk(`/outbound-emails?${query}&filter[to]=bob@nowhere.test`)
    const seen = forward.pages.flatMap(ids)
    assert.equal(new Set(seen).size, seen.length, `${query}: no row twice`)
    assert.equal(seen.length, COUNT - 1, `${query}: no row left out`)
    const back = await walk(forward.last, 'prev')
    assert.deepEqual(back.pages.toReversed().flatMap(ids), seen, query)
    assert.deepEqual(
      back.pages.toReversed().map(({ length }) => length),
      forward.pages.map(({ length }) => length),
      query,
    )
  }
})

test('the cursors in meta equal those in the links, and work in a request that a client builds', async () => {
  const first = (await ask('GET', '/outbound-emails?page[size]=5')).body
  assert.equal(first.meta.prev_cursor, null)
  const second = await ask('GET', `/outbound-emails?page[size]=3&page[cursor]=${first.meta.next_cursor}`)
  assert.equal(second.body.meta.per_page, 3)
  assert.deepEqual(ids(second.body.data), ids(await list('/outbound-emails?page[size]=8')).slice(5))
  const named = await ask(
    'GET',
    `/outbound-emails?page[size]=5&sort=-created_at&page[cursor]=${first.meta.next_cursor}`,
  )
  assert.equal(named.status, 200, 'newest first, said or unsaid, is one sort')
})

test('returns the first page for a truncated, forged, foreign or old cursor (D9)', async () => {
  const path = `${MINE}&page[size]=5`
  const start = await ask('GET', path)
  const cursor: string = start.body.meta.next_cursor
  const firstPage = ids(start.body.data)
  const at = async (text: string, from = path, token?: string): Promise<Row[]> =>
    list(`${from}&page[cursor]=${encodeURIComponent(text)}`, token)
  assert.notDeepEqual(ids(await at(cursor)), firstPage)

  const flipped = Array.from({ length: 24 }, (_, index) => {
    const bytes = Buffer.from(cursor, 'base64url')
    bytes[Math.floor((index * bytes.length) / 24)]! ^= 1 << (index % 8)
    return bytes.toString('base64url')
  })
  const forged = [
    '',
    ' ',
    'x',
    '0',
    '%',
    '\0',
    'ü',
    "' or 1=1 --",
    cursor.slice(0, -1),
    cursor.slice(0, -9),
    cursor.slice(0, 20),
    cursor.slice(0, 8),
    cursor.slice(1),
    `${cursor}AAAA`,
    cursor + cursor,
    cursor.toUpperCase(),
    'A'.repeat(5000),
    Buffer.from('["-created_at","after",[0],0,0]').toString('base64url'),
    ...flipped,
  ]
  for (const text of forged) assert.deepEqual(ids(await at(text)), firstPage, `cursor ${JSON.stringify(text)}`)

  const { postrider } = wire
  const others = await postrider.activeDomain('here.test', postrider.other)
  await wire.mails(3, () => ({}), postrider.otherToken)
  const foreign = await at(cursor, path, postrider.otherToken)
  assert.equal(foreign.length, 3)
  assert.ok(foreign.every(({ id }) => !mails.includes(id)))

  for (const elsewhere of [
    '/outbound-emails?page[size]=5',
    '/outbound-emails?page[size]=5&filter[to]=bob@nowhere.test,plus%2Btag@nowhere.test',
    '/outbound-emails?page[size]=5&filter[status]=failed&filter[to]=bob@nowhere.test',
    `/outbound-emails?page[size]=5&filter[to]=bob@nowhere.test&filter[domain]=${domainId}`,
    '/domains?page[size]=1',
    '/domains?page[size]=1&filter[status]=failed,pending',
    `/domains/${domainId}/records?page[size]=2`,
  ])
    assert.deepEqual(ids(await at(cursor, elsewhere)), ids(await list(elsewhere)), elsewhere)
  const records = `/domains/${domainId}/records?page[size]=2`
  const onRecords: string = (await ask('GET', records)).body.meta.next_cursor
  const bobs = `/domains/${others.id}/records?page[size]=2`
  assert.deepEqual(
    ids(await at(onRecords, bobs, postrider.otherToken)),
    ids(await list(bobs, postrider.otherToken)),
    'records of another domain',
  )
})

test('rejects a cursor with another sort, even the reverse one', async () => {
  const next = async (query: string): Promise<string> =>
    (await ask('GET', `/outbound-emails?page[size]=5${query}`)).body.meta.next_cursor
  for (const [issued, replayed] of [
    ['', '&sort=created_at'],
    ['', '&sort=subject'],
    ['&sort=created_at', ''],
    ['&sort=subject', '&sort=-subject'],
    ['&sort=subject,created_at', '&sort=created_at,subject'],
    ['&sort=subject,created_at', '&sort=subject'],
  ] as const) {
    const answer = await ask('GET', `/outbound-emails?page[size]=5${replayed}&page[cursor]=${await next(issued)}`)
    assert.equal(answer.status, 400, `${issued} under ${replayed}`)
    assert.deepEqual(codes(answer), ['cursor_sort_mismatch'])
    assert.deepEqual(answer.body.errors[0].source, { parameter: 'page[cursor]' })
  }
})

test('paging returns each unchanged row exactly once while others are added and deleted (rule 7)', async () => {
  // A seeded generator, so that a failure can be reproduced.
  let seed = 20260115
  const random = (below_: number): number => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0
    return Math.floor((seed / 2 ** 32) * below_)
  }
  for (const sort of ['-created_at', 'created_at', 'subject', '-subject,created_at', '-created_at,subject']) {
    // Each round has a collection of its own.
    const to = `w${random(1e9)}@nowhere.test`
    const make = (count: number): Promise<string[]> =>
      wire.mails(count, () => ({ to, subject: `Subject ${random(4)}` }))
    const standing = new Set<string>()
    const passing = new Set<string>()
    for (let batch = 0; batch < 3; batch++) {
      for (const id of await make(14)) (random(3) === 0 ? passing : standing).add(id)
      clock.advance(random(2))
    }
    const remove = async (id: string): Promise<void> => {
      passing.delete(id)
      assert.equal((await ask('DELETE', `/outbound-emails/${id}`)).status, 204)
    }
    const disturb = async (page: Row[]): Promise<void> => {
      // The row that the cursor names is deleted first. The next page must still start after its position.
      const edges = [page.at(-1)?.id, page[0]?.id].filter((id) => id !== undefined && passing.has(id))
      for (const id of edges) await remove(id!)
      const [any] = [...passing].slice(random(passing.size))
      if (any !== undefined && random(2) === 0) await remove(any)
      clock.advance(random(2))
      if (passing.size < 30) for (const id of await make(random(3))) passing.add(id)
    }
    const stood = (pages: Row[][]): string[] => pages.flatMap(ids).filter((id) => standing.has(id))
    const path = `/outbound-emails?page[size]=5&sort=${sort}&filter[to]=${to}`
    const forward = await walk(path, 'next', disturb)
    const seen = stood(forward.pages)
    assert.equal(new Set(seen).size, seen.length, `${sort}: a row twice`)
    assert.equal(seen.length, standing.size, `${sort}: a row left out`)
    const rows = forward.pages.flatMap(ids)
    assert.equal(new Set(rows).size, rows.length, `${sort}: rows that came are not doubled either`)
    const back = await walk(forward.last, 'prev', disturb)
    assert.deepEqual(stood(back.pages.toReversed()), seen, `${sort}: back is forward reversed`)
  }
})

test('a page whose rows were deleted still links back and forward (rule 4)', async () => {
  const to = 'gone@nowhere.test'
  const made = (await wire.mails(6, () => ({ to }))).toReversed()
  const path = `/outbound-emails?page[size]=2&filter[to]=${to}`
  const first = (await ask('GET', path)).body
  const second = (await ask('GET', below(first.links.next))).body
  const toThird = below(second.links.next)
  const toFirst = below(second.links.prev)
  const shown = [...ids(first.data), ...ids(second.data)]
  const third = made.filter((id) => !shown.includes(id))
  for (const id of third) await ask('DELETE', `/outbound-emails/${id}`)
  const end = (await ask('GET', toThird)).body
  assert.deepEqual(end.data, [])
  assert.equal(end.links.next, null)
  assert.notEqual(end.links.prev, null, 'there is a page before the empty one')
  assert.deepEqual(ids((await ask('GET', below(end.links.prev))).body.data), ids(second.data))

  for (const { id } of first.data) await ask('DELETE', `/outbound-emails/${id}`)
  const start = (await ask('GET', toFirst)).body
  assert.deepEqual(start.data, [])
  assert.equal(start.links.prev, null)
  assert.notEqual(start.links.next, null, 'there is a page after the empty one')
  assert.deepEqual(ids((await ask('GET', below(start.links.next))).body.data), ids(second.data))
})

test('returns the first page for a cursor of last year', async () => {
  const clock_ = new ManualClock()
  await using aged = await startWire({ clock: clock_ })
  await aged.postrider.activeDomain('here.test')
  const made = await aged.ask('POST', '/tokens', {
    body: document('tokens', { name: 'x', scopes: ['emails:read'], duration: '12_months' }),
  })
  const token: string = made.body.data.attributes.token
  await aged.mails(4)
  const path = '/outbound-emails?page[size]=2'
  const { body } = await aged.ask('GET', path, { token })
  const next = async (): Promise<string[]> => ids((await aged.ask('GET', below(body.links.next), { token })).body.data)
  assert.notDeepEqual(await next(), ids(body.data))
  clock_.leap(300 * 24 * 60 * 60 * 1000)
  assert.deepEqual(await next(), ids(body.data))
})

// ---- Bodies in lists (D69)

test('a list shows the attributes of single resources if fields names them, even for included resources', async () => {
  const [id] = await wire.mails(1, () => ({ subject: 'Whole', text: 'Words', headers: { 'X-Order': '7' } }))
  const path = '/outbound-emails?fields[outbound-emails]=html,text,headers,attachments,subject&page[size]=1'
  const { body, status } = await ask('GET', path)
  assert.equal(status, 200, JSON.stringify(body))
  assert.deepEqual(body.data[0].attributes, {
    subject: 'Whole',
    html: '<p>Hello</p>',
    text: 'Words',
    attachments: [],
    headers: { 'X-Order': '7' },
  })
  const shown = (await ask('GET', `/outbound-emails/${id}?fields[outbound-emails]=html`)).body.data.attributes
  assert.deepEqual(shown, { html: '<p>Hello</p>' })
  const domain = { data: { type: 'domains', id: domainId } }
  const audience = (
    await ask('POST', '/audiences', { body: document('audiences', { name: 'x' }, { relationships: { domain } }) })
  ).body.data.id
  const to = { relationships: { audience: { data: { type: 'audiences', id: audience } } } }
  const content = { name: 'x', subject: 'x', body_html: '<p>Long</p>', body_text: 'Long' }
  assert.equal((await ask('POST', '/campaigns', { body: document('campaigns', content, to) })).status, 201)
  const list = await ask('GET', '/campaigns?fields[campaigns]=body_html')
  assert.deepEqual(list.body.data[0].attributes, { body_html: '<p>Long</p>' })
})

test('a list without bodies does not read them, and an unknown field next to a known one is rejected', async () => {
  const { attributes } = (await ask('GET', '/outbound-emails?page[size]=1')).body.data[0]
  for (const name of ['html', 'text', 'headers', 'attachments']) assert.ok(!(name in attributes), name)
  assert.equal((await ask('GET', '/outbound-emails?fields[outbound-emails]=html,nothing')).status, 400)
})

test('a page of large bodies ends early in both directions without skipping a row', async () => {
  const html = 'x'.repeat(5 * 1024 * 1024)
  const to = 'large@nowhere.test'
  const made: string[] = []
  for (let index = 0; index < 6; index++) made.push(...(await wire.mails(1, () => ({ html, to }))))
  const seen: string[] = []
  const sizes: number[] = []
  let next: string | null = `/outbound-emails?filter[to]=${to}&fields[outbound-emails]=html&sort=created_at`
  let last = ''
  while (next) {
    const { body } = await ask('GET', next)
    assert.ok(
      body.data.every(({ attributes }: { attributes: { html: string } }) => attributes.html.length === html.length),
    )
    seen.push(...body.data.map(({ id }: { id: string }) => id))
    sizes.push(body.data.length)
    last = next
    next = body.links.next && below(body.links.next)
  }
  assert.deepEqual(seen, made)
  assert.ok(sizes.length > 1 && sizes[0]! > 1, `${sizes.join()}`)
  const back: string[] = []
  let previous: string | null = below((await ask('GET', last)).body.links.prev)
  while (previous) {
    const { body } = await ask('GET', previous)
    back.unshift(...body.data.map(({ id }: { id: string }) => id))
    previous = body.links.prev && below(body.links.prev)
  }
  assert.deepEqual(back, made.slice(0, made.length - sizes.at(-1)!))
})
