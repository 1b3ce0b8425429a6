// Gathered writes: the items of a moment are one page, and an item that cannot be written does not block others.
import assert from 'node:assert/strict'
import { test, type TestContext } from 'node:test'
import { Gathered } from '../../src/store/gathered.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import { temporaryDirectory } from '../kit/directory.ts'

const insert = (domain: string) =>
  raw(`insert into sts_policies (domain, id, mode, mx, fetched_at, expires_at) values (?, 'i', 'none', '[]', 0, 0)`, [
    domain,
  ])

function fresh(t: TestContext) {
  const dir = temporaryDirectory('gathered')
  const store = openStore(dir)
  t.after(() => {
    store.close()
  })
  const pages: (readonly string[])[] = []
  const gathered = new Gathered<string>(store, 5, (tx, page) => {
    pages.push(page)
    for (const domain of page) tx.run(insert(domain))
  })
  const stored = (): string[] =>
    store.all(raw<{ domain: string }>('select domain from sts_policies order by 1')).map(({ domain }) => domain)
  return { gathered, pages, store, stored }
}

test('writes the items of a moment in one page, and later ones in the next', async (t) => {
  const { gathered, pages, stored } = fresh(t)
  await Promise.all(['a', 'b', 'c'].map((item) => gathered.add(item)))
  await gathered.add('d')
  assert.deepEqual(pages, [['a', 'b', 'c'], ['d']])
  assert.deepEqual(stored(), ['a', 'b', 'c', 'd'])
})

test('rejects an item that cannot be written, and writes the others of its page', async (t) => {
  const { gathered, pages, stored } = fresh(t)
  await gathered.add('b')
  const ends = await Promise.allSettled(['a', 'b', 'c'].map((item) => gathered.add(item)))
  assert.deepEqual(
    ends.map(({ status }) => status),
    ['fulfilled', 'rejected', 'fulfilled'],
  )
  assert.deepEqual(stored(), ['a', 'b', 'c'])
  assert.deepEqual(pages, [['b'], ['a', 'b', 'c'], ['a'], ['b'], ['c']])
})

test('rejects all items while no transaction can start, and writes later ones', async (t) => {
  const { gathered, store, stored } = fresh(t)
  const writeSoon = store.writeSoon.bind(store)
  const full = new Error('disk full')
  store.writeSoon = () => Promise.reject(full)
  const ends = await Promise.allSettled(['a', 'b'].map((item) => gathered.add(item)))
  assert.deepEqual(ends, [
    { status: 'rejected', reason: full },
    { status: 'rejected', reason: full },
  ])
  store.writeSoon = writeSoon
  await gathered.add('c')
  assert.deepEqual(stored(), ['c'])
})
