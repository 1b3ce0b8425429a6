// Lists of large tables in the orders that the console offers: an index has each order, so that a page of 100,000 rows
// takes as long as one of 100. Selected rows are found by their ids.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { Keyring } from '../../src/base/keyring.ts'
import { selected } from '../../src/jsonapi/fields.ts'
import { listPage, type Condition, type Order } from '../../src/store/list.ts'
import { raw } from '../../src/store/query.ts'
import type { Reader } from '../../src/store/database.ts'
import type { TableName } from '../../src/store/schema/tables.ts'
import { emptyStore } from '../kit/database.ts'

const store = emptyStore()
after(() => store.close())

/** The steps in which SQLite reads a page. */
async function plan(table: TableName, order: Order[], where: Condition[] = []): Promise<string[]> {
  const steps: string[] = []
  const reader = new Proxy(store as Reader, {
    get: (of, name: keyof Reader) =>
      name === 'all'
        ? (query: { compile(): { sql: string; parameters: readonly unknown[] } }) => {
            const { parameters, sql } = query.compile()
            const found = of.all(raw<{ detail: string }>(`explain query plan ${sql}`, [...parameters]))
            steps.push(...found.map(({ detail }) => detail))
            return []
          }
        : of[name],
  })
  const from = { place: { values: order.map(() => 'a'), key: 1 }, direction: 'after' as const }
  await listPage(reader, { table, userKey: 1, where, order, size: 50 })
  await listPage(reader, { table, userKey: 1, where, order, size: 50, from })
  return steps
}
const by = (text: string): Order[] =>
  text.split(',').map((key) => ({ column: key.replace('-', ''), descending: key.startsWith('-') }))

test('every order that the console offers for emails, contacts and suppressions has an index', async () => {
  const inAudience: Condition[] = [{ column: 'audience_key', values: [1] }]
  for (const [table, orders, where] of [
    ['outbound_emails', ['created_at', 'status,created_at'], []],
    ['contacts', ['created_at', 'email', 'name', 'status,created_at'], inAudience],
    ['suppressions', ['created_at', 'email'], []],
  ] as const)
    for (const order of orders)
      for (const each of [order, order.replaceAll(/(^|,)/g, '$1-')]) {
        const steps = await plan(table, by(each), [...where])
        assert.ok(steps.length > 0)
        assert.deepEqual(
          steps.filter((step) => /TEMP B-TREE|^SCAN/.test(step)),
          [],
          `${table} by ${each}`,
        )
      }
})

test('selected rows are found by their ids, and not by reading the list', async () => {
  const keyring = new Keyring(Buffer.alloc(32))
  const condition = selected.sql!('a,b,c', store, { userKey: 1, parent: undefined, now: 0, keyring }) as Condition
  for (const table of ['outbound_emails', 'contacts', 'suppressions'] as const) {
    const steps = await plan(table, by('-created_at'), [condition])
    assert.ok(steps.includes(`SEARCH ${table} USING INDEX sqlite_autoindex_${table}_1 (id=?)`), steps.join('\n'))
  }
})
