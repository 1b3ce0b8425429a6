// Facts, generations and sums: the cache equals the database after changes by any process, and after rollbacks.
import assert from 'node:assert/strict'
import { stat } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import Database from 'better-sqlite3'
import type { Store, Tx } from '../../src/store/database.ts'
import { defineDigest } from '../../src/store/digests.ts'
import { StatementEffects } from '../../src/store/statement-tables.ts'
import { openStore } from '../../src/store/open.ts'
import { raw } from '../../src/store/query.ts'
import type { SumTable } from '../../src/store/sums.ts'
import { temporaryDirectory } from '../kit/directory.ts'

interface Fresh {
  store: Store
  dir: string
  /** Statements that ran since the last call, but for those of transactions. */
  ran: () => string[]
}

function fresh(t: TestContext): Fresh {
  const dir = temporaryDirectory('facts')
  const store = openStore(dir)
  t.after(() => {
    store.close()
  })
  let log: string[] = []
  store.watch((sql) => void log.push(sql))
  const ran = (): string[] => {
    const last = log.filter((sql) => !/^(?:begin|commit|rollback|savepoint|release|pragma)/.test(sql))
    log = []
    return last
  }
  return { store, dir, ran }
}

/** A turn of the event loop, after which another process's commits are looked for. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

const addUser = (tx: Tx, name: string): number =>
  tx.run(
    raw(
      `insert into users (id, email, name, plan, subscription_state, summary, operator, created_at, updated_at)
         values (?, ?, ?, 'unlimited', 'active', 'none', 0, 0, 0)`,
      [name, `${name}@owner.test`, name],
    ),
  ).key
const nameOf = (key: number) => raw<{ name: string }>('select name from users where key = ?', [key])
const rename = (key: number, name: string) => raw('update users set name = ? where key = ?', [name, key])

describe('cached rows', () => {
  test('are read once for all callers, and frozen', async (t) => {
    const { ran, store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    ran()
    const seen = [store.fact(nameOf(key)), store.fact(nameOf(key)), await store.write((tx) => tx.fact(nameOf(key)))]
    assert.deepEqual(
      seen.map((row) => row?.name),
      ['ann', 'ann', 'ann'],
    )
    assert.equal(ran().length, 1)
    assert.throws(() => ((seen[0] as { name: string }).name = 'eve'), TypeError)
  })

  test('include missing rows', async (t) => {
    const { ran, store } = fresh(t)
    assert.equal(store.fact(nameOf(1)), undefined)
    assert.equal(store.fact(nameOf(1)), undefined)
    assert.equal(ran().length, 1)
    await store.write((tx) => addUser(tx, 'ann'))
    assert.equal(store.fact(nameOf(1))?.name, 'ann')
  })

  test('are distinguished by their parameters, of any type', (t) => {
    const { store } = fresh(t)
    const of = (...parameters: unknown[]) => store.fact(raw<{ it: string }>('select ? || ? as it', parameters))?.it
    assert.deepEqual([of('a', 'bc'), of('ab', 'c'), of('a b', 'c'), of('a', 'b c')], ['abc', 'abc', 'a bc', 'ab c'])
    const typed = (value: unknown) => store.fact(raw<{ it: string }>('select typeof(?) as it', [value]))?.it
    assert.deepEqual(
      [typed('1'), typed(Buffer.from('1')), typed(null), typed('null')],
      ['text', 'blob', 'null', 'text'],
    )
  })

  test('change with a commit, and inside the transaction that changes them', async (t) => {
    const { store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    assert.equal(store.fact(nameOf(key))?.name, 'ann')
    const inside = await store.write((tx) => {
      tx.run(rename(key, 'bea'))
      return tx.fact(nameOf(key))?.name
    })
    assert.deepEqual([inside, store.fact(nameOf(key))?.name], ['bea', 'bea'])
  })

  test('of a failed job are rolled back, but not those of another in the same batch', async (t) => {
    const { store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    const failed = store.write((tx) => {
      tx.run(rename(key, 'bea'))
      assert.equal(tx.fact(nameOf(key))?.name, 'bea')
      throw new Error('no')
    })
    const beside = store.write((tx) => tx.fact(nameOf(key))?.name)
    await assert.rejects(failed, /no/)
    assert.deepEqual([await beside, store.fact(nameOf(key))?.name], ['ann', 'ann'])
  })

  test('of a transaction that cannot be committed are rolled back', async (t) => {
    const { store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    await assert.rejects(
      store.write((tx) => {
        tx.run(rename(key, 'bea'))
        assert.equal(tx.fact(nameOf(key))?.name, 'bea')
        // The statement ends the whole transaction.
        tx.run(raw('update or rollback users set email = null where key = ?', [key]))
      }),
    )
    assert.equal(store.fact(nameOf(key))?.name, 'ann')
  })

  test('change after another process changes them', async (t) => {
    const { dir, store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    assert.equal(store.fact(nameOf(key))?.name, 'ann')
    const removals = store.generation('users', 'removed')
    const other = new Database(join(dir, 'postrider.db'))
    t.after(() => other.close())
    other.pragma('foreign_keys = off')
    defineDigest(other)
    other.prepare(`update users set name = 'bea'`).run()
    await turn()
    assert.equal(store.fact(nameOf(key))?.name, 'bea')
    assert.notEqual(store.generation('users', 'removed'), removals)
    other.prepare(`update users set name = 'cid'`).run()
    assert.equal(await store.write((tx) => tx.fact(nameOf(key))?.name), 'cid', 'a transaction sees it at once')
    assert.equal(store.changedOutside(), true, 'and the server is still told')
    assert.equal(store.changedOutside(), false)
  })

  test('change for a request after the commit of another process, in the same turn of the event loop', async (t) => {
    const { dir, store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    const other = new Database(join(dir, 'postrider.db'))
    t.after(() => other.close())
    defineDigest(other)
    const seen = await new Promise<(string | undefined)[]>((resolve) => {
      setImmediate(() => {
        const before = store.fact(nameOf(key))?.name
        other.prepare(`update users set name = 'bea'`).run()
        // It is answered in the next poll, before the immediates of this turn's immediates run.
        stat(dir, () => resolve([before, store.fact(nameOf(key))?.name]))
      })
    })
    assert.deepEqual(seen, ['ann', 'bea'])
  })

  test('are limited in number', (t) => {
    const { ran, store } = fresh(t)
    for (let key = 1; key <= 1001; key++) store.fact(nameOf(key))
    ran()
    store.fact(nameOf(1001))
    assert.equal(ran().length, 0)
    store.fact(nameOf(1))
    assert.equal(ran().length, 1)
  })
})

describe('tables that a statement can change', () => {
  function effectsOf(t: TestContext): { database: Database.Database; effects: StatementEffects } {
    const { dir } = fresh(t)
    const database = new Database(join(dir, 'postrider.db'))
    t.after(() => database.close())
    return { database, effects: new StatementEffects(database) }
  }

  test('follow each trigger and each foreign key of the schema', (t) => {
    const { database, effects } = effectsOf(t)
    const schema = database.prepare('select type, name, tbl_name, sql from sqlite_schema').all() as {
      type: string
      name: string
      tbl_name: string
      sql: string
    }[]
    let followed = 0
    for (const { name } of schema.filter(({ type }) => type === 'table'))
      for (const key of database.pragma(`foreign_key_list("${name}")`) as { table: string; on_delete: string }[]) {
        if (key.on_delete === 'NO ACTION') continue
        const { changes, removes } = effects.of(`delete from ${key.table} where key = ?`)
        assert.ok(changes.includes(name), `a deletion from ${key.table} reaches ${name}`)
        if (key.on_delete === 'CASCADE') assert.ok(removes.includes(name), `and deletes from ${name}`)
        followed++
      }
    for (const { sql, tbl_name } of schema.filter(({ type }) => type === 'trigger'))
      for (const [, to] of sql.replace(/^.*?\bbegin\b/is, '').matchAll(
        // "do update set" changes the table of its insert.
        /(?:into|(?<!\bdo )update|delete from)\s+"?(\w+)/gi,
      )) {
        assert.ok(effects.of(`update ${tbl_name} set x = 1`).changes.includes(to!), `${tbl_name} changes ${to}`)
        followed++
      }
    assert.ok(followed > 80, `${followed} were looked at`)
  })

  test('are detected for every form of statement', (t) => {
    const { effects } = effectsOf(t)
    const forms = [
      'insert into sts_policies values (1)',
      'insert or ignore into "sts_policies" values (1)',
      'insert or replace into sts_policies values (1)',
      'replace into sts_policies values (1)',
      'update sts_policies set a = 1',
      'update or ignore "sts_policies" set a = 1',
      'update or replace sts_policies set a = 1',
      'delete from sts_policies',
      'with x as (select 1) insert into sts_policies select * from x on conflict do update set a = 1',
    ]
    for (const sql of forms) assert.deepEqual(effects.of(sql).changes, ['sts_policies'], sql)
    const removed = forms.filter((sql) => effects.of(sql).removes.length > 0)
    assert.deepEqual(removed, [forms[2], forms[3], forms[6], forms[7]])
    assert.deepEqual(effects.of('select * from sts_policies').changes, [])
  })

  test('generations distinguish deletions from changes', async (t) => {
    const { store } = fresh(t)
    const of = (by: 'changed' | 'removed'): number => store.generation('tokens', by)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    const before = [of('changed'), of('removed')]
    await store.write((tx) =>
      tx.run(
        raw(
          `insert into tokens (id, user_key, name, scopes, duration, hash, last_four, expires_at, created_at, updated_at)
             values ('t', ?, '', '[]', '1_month', x'00', '', 0, 0, 0)`,
          [key],
        ),
      ),
    )
    assert.deepEqual([of('changed') > before[0]!, of('removed') === before[1]], [true, true])
    await store.write((tx) => tx.run(raw('delete from users where key = ?', [key])))
    assert.ok(of('removed') > before[1]!, 'a token goes with its user')
    const after = [of('changed'), of('removed')]
    await store.write((tx) => tx.run(raw('delete from tokens where key = ?', [0])))
    assert.deepEqual([of('changed'), of('removed')], after, 'no row was deleted')
  })
})

describe('sums', () => {
  const USED: SumTable = { table: 'usage', by: ['user_key', 'month'], of: ['used'] }
  const used = raw<{ month: string; used: number }>('select month, used from usage order by month')

  test('of all jobs of a transaction are written by one statement', async (t) => {
    const { ran, store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    ran()
    // A transaction accepts jobs for some milliseconds only. The clock is stopped, so that it takes all three.
    t.mock.method(performance, 'now', () => 0)
    await Promise.all([1, 2, 3].map((more) => store.write((tx) => tx.add(USED, [key, `2026-0${more % 2}`], [more]))))
    assert.equal(ran().length, 1)
    await store.write((tx) => tx.add(USED, [key, '2026-00'], [5]))
    assert.deepEqual(store.all(used), [
      { month: '2026-00', used: 7 },
      { month: '2026-01', used: 4 },
    ])
  })

  test('are visible to a job that reads them, of its own and of earlier jobs', async (t) => {
    const { store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    const [, read] = await Promise.all([
      store.write((tx) => tx.add(USED, [key, '2026-01'], [1])),
      store.write((tx) => {
        tx.add(USED, [key, '2026-01'], [2])
        return tx.first(used)?.used
      }),
    ])
    assert.deepEqual([read, store.first(used)?.used], [3, 3])
  })

  test('of a failed job are not added, but those of others are, even if it caused their write', async (t) => {
    const { store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    const [, failed] = await Promise.allSettled([
      store.write((tx) => tx.add(USED, [key, '2026-01'], [1])),
      store.write((tx) => {
        tx.add(USED, [key, '2026-01'], [10])
        assert.equal(tx.first(used)?.used, 11)
        throw new Error('no')
      }),
      store.write((tx) => tx.add(USED, [key, '2026-01'], [100])),
    ])
    assert.equal(failed.status, 'rejected')
    assert.equal(store.first(used)?.used, 101)
  })

  test('are written before a cascade deletes their rows', async (t) => {
    const { store } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    await Promise.all([
      store.write((tx) => tx.add(USED, [key, '2026-01'], [1])),
      store.write((tx) => tx.run(raw('delete from users where key = ?', [key]))),
    ])
    assert.deepEqual(store.all(used), [])
  })
})
