import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, test, type TestContext } from 'node:test'
import Database from 'better-sqlite3'
import { temporaryDirectory } from '../kit/directory.ts'
import { makePipe } from '../kit/pipe.ts'
import { OperatorError } from '../../src/base/errors.ts'
import { machine } from '../../src/store/states/machine.ts'
import { Store, type Tx } from '../../src/store/database.ts'
import { writePlain } from '../../src/base/plain-file.ts'
import { Damaged, openSpooled, ownName, provenName, readProven } from '../../src/base/spooled.ts'
import { defineDigest } from '../../src/store/digests.ts'
import { openStore } from '../../src/store/open.ts'
import { appendEvent } from '../../src/store/events.ts'
import { findByKeys, findOwned, listPage, placeOf, type ListQuery, type Order } from '../../src/store/list.ts'
import { takeLock } from '../../src/store/lock.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { move } from '../../src/store/move.ts'
import { db, raw, statement } from '../../src/store/query.ts'
import { Spool, SPOOL_ABOVE } from '../../src/store/spool.ts'
import { TABLES } from '../../src/store/schema/tables.ts'

const root = temporaryDirectory('store')
let folders = 0
const dataDir = (): string => join(root, String(++folders))

/** Objects that may be in the place of a file of the data directory. */
const IN_ITS_PLACE: readonly [what: string, put: (path: string, t: TestContext) => unknown][] = [
  ['a pipe', makePipe],
  ['a directory', (path) => mkdirSync(path)],
  ['a link to a device', (path) => symlinkSync('/dev/zero', path)],
  ['a link to nothing', (path) => symlinkSync('/nowhere/at/all', path)],
  [
    'a socket',
    async (path, t) => {
      // The path of a socket has at most about a hundred bytes.
      const socket = join(tmpdir(), `postrider-${process.pid}.sock`)
      const server = createServer().listen(socket)
      await once(server, 'listening')
      renameSync(socket, path)
      t.after(() => server.close())
    },
  ],
]

/** A separate store for one test, and its directory. */
function fresh(t: TestContext): { store: Store; dir: string } {
  const dir = dataDir()
  const store = openStore(dir)
  t.after(() => store.close())
  return { store, dir }
}

/** Another connection to the same file, as a second process has. */
function beside(t: TestContext, dir: string): Database.Database {
  const other = new Database(join(dir, 'postrider.db'))
  defineDigest(other)
  t.after(() => other.close())
  return other
}

/** The clock that bounds a batch, turned by hand: every call moves it on by `step` ms. */
function batchClock(t: TestContext, step: number): void {
  let now = 1_000_000
  t.mock.method(performance, 'now', () => (now += step))
}

const addUser = (tx: Tx, name: string, more: { plan?: string; key?: number } = {}): number =>
  tx.run(
    db.insertInto('users').values({
      ...(more.key === undefined ? {} : { key: more.key }),
      id: `id-${name}`,
      email: `${name}@example.org`,
      name,
      password_hash: null,
      plan: more.plan ?? 'unlimited',
      subscription_state: 'active',
      summary: 'none',
      operator: 0,
      created_at: 1,
      updated_at: 1,
    }),
  ).key

const names = (store: Store): string[] =>
  store.all(db.selectFrom('users').select('name').orderBy('key')).map(({ name }) => name)

describe('writes', () => {
  test('resolve with the result of the work, and another process sees the rows', async (t) => {
    const { store, dir } = fresh(t)
    const key = await store.write((tx) => addUser(tx, 'ann'))
    assert.deepEqual(beside(t, dir).prepare('select key, name from users').all(), [{ key, name: 'ann' }])
  })

  test('of one turn of the event loop share a transaction', async (t) => {
    batchClock(t, 0)
    const { store, dir } = fresh(t)
    const other = beside(t, dir)
    const seen: unknown[] = []
    const count = other.prepare('select count(*) from users').pluck()
    await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        store.write((tx) => {
          addUser(tx, `u${i}`)
          // The whole batch becomes visible at once.
          seen.push(count.get())
          tx.afterCommit(() => seen.push(count.get()))
        }),
      ),
    )
    assert.deepEqual(seen, [...Array<number>(50).fill(0), ...Array<number>(50).fill(50)])
  })

  test('that take long are split into batches, and the event loop turns in between', async (t) => {
    batchClock(t, 10)
    const { store } = fresh(t)
    const log: string[] = []
    let turns = 0
    let going = true
    const turning = (async () => {
      for (; going; turns++) await turn()
    })()
    const at: number[] = []
    await Promise.all(
      ['a', 'b', 'c'].map((name) =>
        store.write((tx) => {
          addUser(tx, name)
          at.push(turns)
          log.push(`work ${name}`)
          tx.afterCommit(() => log.push(`commit ${name}`))
        }),
      ),
    )
    going = false
    await turning
    assert.deepEqual(log, ['work a', 'commit a', 'work b', 'commit b', 'work c', 'commit c'])
    assert.equal(new Set(at).size, 3, `the event loop did not turn in between: ${at.join()}`)
  })

  test('a failed one rolls back only its own changes', async (t) => {
    batchClock(t, 0)
    const { store } = fresh(t)
    const results = await Promise.allSettled([
      store.write((tx) => addUser(tx, 'first')),
      store.write((tx) => {
        addUser(tx, 'undone')
        throw new Error('thought better of it')
      }),
      // Violates the unique address.
      store.write((tx) => [addUser(tx, 'second'), addUser(tx, 'first')]),
      store.write((tx) => addUser(tx, 'third')),
    ])
    assert.deepEqual(
      results.map(({ status }) => status),
      ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
    )
    assert.match(String((results[1] as PromiseRejectedResult).reason), /thought better/)
    assert.equal((results[2] as PromiseRejectedResult).reason.code, 'SQLITE_CONSTRAINT_UNIQUE')
    assert.deepEqual(names(store), ['first', 'third'])
  })

  test('see earlier writes of their batch', async (t) => {
    batchClock(t, 0)
    const { store } = fresh(t)
    void store.write((tx) => addUser(tx, 'ann'))
    assert.deepEqual(await store.write((tx) => tx.all(db.selectFrom('users').select('name'))), [{ name: 'ann' }])
  })

  test('whose work returns a promise are rejected and change no row', async (t) => {
    const { store } = fresh(t)
    await assert.rejects(
      store.write((tx) => Promise.resolve(addUser(tx, 'ann'))),
      { name: 'TypeError', message: /synchronous/ },
    )
    await assert.rejects(
      // oxlint-disable-next-line typescript/require-await
      store.write(async (tx) => addUser(tx, 'bob')),
      { name: 'TypeError' },
    )
    assert.deepEqual(names(store), [])
  })

  test('call afterCommit functions after the commit, in order, and only on success', async (t) => {
    batchClock(t, 0)
    const { store, dir } = fresh(t)
    const other = beside(t, dir).prepare('select count(*) from users').pluck()
    const rung: unknown[] = []
    const writes = [
      store.write((tx) => {
        tx.afterCommit(() => rung.push(`a1 ${String(other.get())}`))
        addUser(tx, 'a')
        tx.afterCommit(() => rung.push('a2'))
      }),
      store.write((tx) => {
        tx.afterCommit(() => rung.push('never'))
        addUser(tx, 'a')
      }),
      store.write((tx) => {
        addUser(tx, 'c')
        tx.afterCommit(() => rung.push('c'))
      }),
    ]
    await Promise.allSettled(writes)
    assert.deepEqual(rung, ['a1 2', 'a2', 'c'])
  })

  test('requested inside a write run after it', async (t) => {
    const { store } = fresh(t)
    let inner: Promise<string[]> | undefined
    await store.write((tx) => {
      addUser(tx, 'outer')
      inner = store.write((later) => later.all(db.selectFrom('users').select('name')).map(({ name }) => name))
    })
    assert.deepEqual(await inner, ['outer'])
  })

  test('that are queued are committed by close', async () => {
    const dir = dataDir()
    const store = openStore(dir)
    const waiting = [store.write((tx) => addUser(tx, 'ann')), store.write((tx) => addUser(tx, 'bob'))]
    store.close()
    await Promise.all(waiting)
    const again = openStore(dir)
    assert.deepEqual(names(again), ['ann', 'bob'])
    again.close()
  })

  test('wait for another process that writes, and its changes are noticed', async (t) => {
    const { store, dir } = fresh(t)
    assert.equal(store.changedOutside(), false)
    await store.write((tx) => addUser(tx, 'ann'))
    assert.equal(store.changedOutside(), false, 'our own writes are not from outside')
    beside(t, dir).prepare(`update users set name = 'changed'`).run()
    assert.equal(store.changedOutside(), true)
    assert.equal(store.changedOutside(), false)
    assert.deepEqual(names(store), ['changed'])
  })
})

describe('a full disk', () => {
  /** A store whose file may not grow by more than a page or two. */
  function full(t: TestContext): { store: Store; room: (pages: number) => void; database: Database.Database } {
    const dir = dataDir()
    openStore(dir).close()
    const database = new Database(join(dir, 'postrider.db'))
    database.pragma('foreign_keys = ON')
    const room = (pages: number): void => {
      const now = database.pragma('page_count', { simple: true }) as number
      database.pragma(`max_page_count = ${now + pages}`)
    }
    const store = new Store(database)
    t.after(() => store.close())
    return { store, room, database }
  }
  const big = 'x'.repeat(100_000)

  test('rejects every write of the batch, and the next batch succeeds', async (t) => {
    batchClock(t, 0)
    const { store, room, database } = full(t)
    const rung: string[] = []
    await store.write((tx) => addUser(tx, 'before'))
    room(2)
    // A table without triggers: after those SQLite would take back one statement alone.
    const hold = (tx: Tx, lane: string): unknown => tx.run(raw('insert into lane_holds values (?, 1)', [lane]))
    const batch = await Promise.allSettled([
      store.write((tx) => {
        hold(tx, 'small')
        tx.afterCommit(() => rung.push('small'))
      }),
      store.write((tx) => hold(tx, big)),
    ])
    // SQLite rolled back the transaction: the small write is lost, too, and must reject.
    assert.deepEqual(
      batch.map((each) => (each as PromiseRejectedResult).reason?.code),
      ['SQLITE_FULL', 'SQLITE_FULL'],
    )
    assert.deepEqual(store.all(raw('select lane from lane_holds')), [])
    assert.deepEqual(rung, [])
    room(1000)
    await store.write((tx) => addUser(tx, 'after'))
    assert.deepEqual(names(store), ['before', 'after'])
    assert.equal(database.inTransaction, false)
    assert.deepEqual(store.verify(), [])
  })

  test('at the commit itself rejects the whole batch', async (t) => {
    batchClock(t, 0)
    const { store, database } = full(t)
    // The disk fails only at the commit, after every job succeeded.
    const prepare = database.prepare.bind(database)
    let broken = true
    t.mock.method(database, 'prepare', (sql: string) => {
      const made = prepare(sql)
      if (sql !== 'commit') return made
      return {
        run: () => {
          if (broken) throw Object.assign(new Error('disk I/O error'), { code: 'SQLITE_IOERR_FSYNC' })
          return made.run()
        },
      }
    })
    const rung: string[] = []
    const batch = await Promise.allSettled(
      ['a', 'b'].map((name) =>
        store.write((tx) => {
          addUser(tx, name)
          tx.afterCommit(() => rung.push(name))
        }),
      ),
    )
    assert.deepEqual(
      batch.map((each) => (each as PromiseRejectedResult).reason?.code),
      ['SQLITE_IOERR_FSYNC', 'SQLITE_IOERR_FSYNC'],
    )
    assert.deepEqual(rung, [])
    assert.deepEqual(names(store), [])
    broken = false
    await store.write((tx) => addUser(tx, 'c'))
    assert.deepEqual(names(store), ['c'])
  })

  test('another process that holds the file too long rejects the batch, and later writes succeed', async (t) => {
    const { store, database } = full(t)
    database.pragma('busy_timeout = 0')
    const other = new Database(database.name)
    other.exec('begin immediate')
    await assert.rejects(
      store.write((tx) => addUser(tx, 'ann')),
      { code: 'SQLITE_BUSY' },
    )
    other.exec('rollback')
    other.close()
    await store.write((tx) => addUser(tx, 'bob'))
    assert.deepEqual(names(store), ['bob'])
  })
})

describe('the database file', () => {
  test('uses WAL with synchronous FULL and foreign keys, and only its owner can read it', (t) => {
    const { store, dir } = fresh(t)
    const pragma = (name: string): unknown => Object.values(store.first(raw<object>(`pragma ${name}`)) ?? {})[0]
    assert.equal(pragma('journal_mode'), 'wal')
    assert.equal(pragma('synchronous'), 2)
    assert.equal(pragma('foreign_keys'), 1)
    assert.equal(pragma('user_version'), migrations.length)
    assert.equal(statSync(dir).mode & 0o777, 0o700)
  })

  test('has only STRICT tables with an owner', async (t) => {
    const { store } = fresh(t)
    const tables = store
      .all(raw<{ name: string; type: string; strict: number; schema: string }>('pragma table_list'))
      .filter(({ name, schema }) => schema === 'main' && !name.startsWith('sqlite_'))
    assert.deepEqual(
      tables.filter(({ strict, type }) => strict !== 1 || type !== 'table').map(({ name }) => name),
      [],
    )
    assert.deepEqual(tables.map(({ name }) => name).sort(), Object.keys(TABLES).sort())
    await assert.rejects(
      store.write((tx) =>
        tx.run(
          raw(
            `insert into users (key, id, email, name, plan, subscription_state, created_at, updated_at) values (1,'i','e','n','p','active','yesterday',1)`,
          ),
        ),
      ),
      { code: 'SQLITE_CONSTRAINT_DATATYPE' },
    )
  })

  test('enforces foreign keys', async (t) => {
    const { store } = fresh(t)
    await assert.rejects(
      store.write((tx) => appendEvent(tx, { type: 'email.sent', user_key: 99, at: 1 })),
      { code: 'SQLITE_CONSTRAINT_FOREIGNKEY' },
    )
    const key = await store.write((tx) => addUser(tx, 'ann'))
    await store.write((tx) => appendEvent(tx, { type: 'email.sent', user_key: key, data: { a: 1 }, at: 5 }))
    assert.partialDeepStrictEqual(store.all(db.selectFrom('events').selectAll()), [
      { type: 'email.sent', user_key: key, domain_key: null, email_key: null, data: '{"a":1}', created_at: 5 },
    ])
    await store.write((tx) => tx.run(db.deleteFrom('users').where('key', '=', key)))
    assert.deepEqual(store.all(db.selectFrom('events').selectAll()), [])
  })

  test('keeps its rows and runs no migration when opened again', async () => {
    const dir = dataDir()
    const store = openStore(dir)
    await store.write((tx) => addUser(tx, 'ann'))
    store.close()
    const again = openStore(dir)
    assert.deepEqual(names(again), ['ann'])
    again.close()
  })

  test('of a newer version is rejected with a sentence, and unchanged', () => {
    const dir = dataDir()
    openStore(dir).close()
    const path = join(dir, 'postrider.db')
    const newer = new Database(path)
    newer.pragma(`user_version = ${migrations.length + 1}`)
    newer.close()
    const hash = (): string => createHash('sha256').update(readFileSync(path)).digest('hex')
    const earlier = hash()
    assert.throws(
      () => openStore(dir),
      (thrown: unknown) => {
        assert.ok(thrown instanceof OperatorError)
        assert.ok(thrown.message.startsWith(`${path} was written by a newer Postrider`), thrown.message)
        assert.match(thrown.message, /\.$/)
        return true
      },
    )
    assert.equal(hash(), earlier)
  })

  test('is unchanged if a migration fails', (t) => {
    const dir = dataDir()
    mkdirSync(dir, { mode: 0o700 })
    // A table of that name is in the way of the first migration's third statement.
    const path = join(dir, 'postrider.db')
    const foreign = new Database(path)
    foreign.exec('create table domains (a); insert into domains values (1)')
    foreign.close()
    assert.throws(() => openStore(dir), OperatorError)
    const look = beside(t, dir)
    assert.deepEqual(look.prepare(`select name from sqlite_schema`).pluck().all(), ['domains'])
    assert.equal(look.pragma('user_version', { simple: true }), 0)
    assert.equal(look.prepare('select a from domains').pluck().get(), 1)
  })

  test('verify reports only damage', async () => {
    const dir = dataDir()
    const store = openStore(dir)
    for (let i = 0; i < 200; i++) void store.write((tx) => addUser(tx, `user-${i}`, { plan: 'p'.repeat(200) }))
    await store.write((tx) => addUser(tx, 'last'))
    assert.deepEqual(store.verify(), [])
    store.close()
    const path = join(dir, 'postrider.db')
    const bytes = readFileSync(path)
    // A page of rows in the middle of the file.
    const page = bytes.lastIndexOf('user-100@example.org') & ~4095
    bytes.fill(0xa5, page, page + 4096)
    writeFileSync(path, bytes)
    const damaged = openStore(dir)
    assert.ok(damaged.verify().length > 0)
    damaged.close()
  })
})

describe('the lock of a data directory', () => {
  test('is held by one owner at a time, and can be released', () => {
    const dir = dataDir()
    mkdirSync(dir, { mode: 0o700 })
    const release = takeLock(dir)
    assert.ok(release)
    assert.equal(takeLock(dir), undefined)
    release()
    const again = takeLock(dir)
    assert.ok(again)
    again()
  })

  test('keeps a second process out until the first exits, even by kill -9', async () => {
    const dir = dataDir()
    mkdirSync(dir, { mode: 0o700 })
    const source = new URL('../../src/store/lock.ts', import.meta.url).href
    const holder = spawn(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        `const { takeLock } = await import(${JSON.stringify(source)})
         globalThis.release = takeLock(${JSON.stringify(dir)})
         console.log(globalThis.release ? 'held' : 'refused')
         setInterval(() => {}, 1e6)`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    try {
      const [said] = (await once(holder.stdout, 'data')) as [Buffer]
      assert.equal(said.toString().trim(), 'held')
      assert.equal(takeLock(dir), undefined)
    } finally {
      holder.kill('SIGKILL')
      await once(holder, 'exit')
    }
    const release = takeLock(dir)
    assert.ok(release, 'the lock outlived its process')
    release()
  })
})

describe('a lock file that was moved away while its server runs', () => {
  const source = (name: string): string => JSON.stringify(new URL(`../../src/store/${name}`, import.meta.url).href)
  for (const [what, away] of [
    ['moved', (file: string) => renameSync(file, `${file}.away`)],
    ['removed', (file: string) => rmSync(file)],
  ] as const)
    test(`${what}: a second server does not start`, async (t) => {
      if (!existsSync('/proc/locks')) return t.skip('this system does not say who holds a lock')
      const dir = dataDir()
      mkdirSync(dir, { mode: 0o700 })
      const holder = spawn(
        process.execPath,
        [
          '--input-type=module',
          '--eval',
          `const { takeLock } = await import(${source('lock.ts')})
           const { openStore } = await import(${source('open.ts')})
           globalThis.held = [takeLock(${JSON.stringify(dir)}), openStore(${JSON.stringify(dir)})]
           console.log('held')
           setInterval(() => {}, 1e6)`,
        ],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      )
      try {
        await once(holder.stdout, 'data')
        away(join(dir, 'serve.lock'))
        assert.equal(takeLock(dir), undefined)
      } finally {
        holder.kill('SIGKILL')
        await once(holder, 'exit')
      }
      const release = takeLock(dir)
      assert.ok(release, 'the lock outlived its process')
      release()
    })

  test('a running backup does not count as a server, and a new one can start after it', async (t) => {
    const { dir } = fresh(t)
    const holder = spawn(
      process.execPath,
      [
        '--input-type=module',
        '--eval',
        `const { takeLock } = await import(${source('lock.ts')})
         const { openStore } = await import(${source('open.ts')})
         globalThis.held = [takeLock(${JSON.stringify(dir)}, 'backup.lock'), openStore(${JSON.stringify(dir)})]
         console.log('held')
         setInterval(() => {}, 1e6)`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    )
    try {
      await once(holder.stdout, 'data')
      assert.equal(takeLock(dir, 'backup.lock'), undefined)
      const release = takeLock(dir)
      assert.ok(release, 'the backup was taken for a server')
      release()
    } finally {
      holder.kill('SIGKILL')
      await once(holder, 'exit')
    }
  })
})

describe('pages of a list', () => {
  const AT = [3, 1, 2, 2, 2, 1, 3, 2, 1, 2]

  /** Two users. The first has a row per number of AT, with duplicate names and one with a quote. */
  async function listed(t: TestContext): Promise<Store> {
    const { store } = fresh(t)
    await store.write((tx) => {
      for (const name of ['ann', 'bob']) {
        const user = addUser(tx, name)
        for (const [index, at] of AT.entries()) addDomain(tx, user, `${name}-${index}`, `d${index % 3}'"é`, at)
      }
    })
    return store
  }
  const addDomain = (tx: Tx, user: number, id: string, prefix: string, at: number): number =>
    tx.run(
      db.insertInto('domains').values({
        id,
        user_key: user,
        name: `${id}.example`,
        purpose: 'both',
        region: 'default',
        mail_from_prefix: prefix,
        tls_policy: 'Optional',
        open_tracking_enabled: 0,
        click_tracking_enabled: 0,
        tracking_redirect_mode: 'shared',
        sts_mode: 'none',
        dmarc_policy: 'none',
        status: at === 1 ? 'active' : 'pending',
        status_at: at,
        poll_from: at,
        missing_since: null,
        checked_at: null,
        next_check_at: null,
        deleted_at: null,
        created_at: at,
        updated_at: at,
      }),
    ).key

  const query = (order: Order[], size: number, more: Partial<ListQuery> = {}): ListQuery => ({
    table: 'domains',
    userKey: 1,
    where: [],
    order,
    size,
    ...more,
  })
  const up = (column: string): Order => ({ column, descending: false })
  const down = (column: string): Order => ({ column, descending: true })

  const ORDERS: [string, Order[]][] = [
    ['by time, newest first', [down('created_at')]],
    ['by time, oldest first', [up('created_at')]],
    ['up then down', [up('mail_from_prefix'), down('created_at')]],
    ['down then up', [down('created_at'), up('mail_from_prefix')]],
    ['three columns with ties in all', [up('status'), down('mail_from_prefix'), up('created_at')]],
    ['one value for all', [up('region')]],
    ['by nothing but the key', []],
  ]

  for (const [name, order] of ORDERS)
    for (const size of [1, 3, 4, 10, 25])
      test(`${name}, ${size} at a time, forwards and backwards`, async (t) => {
        const store = await listed(t)
        const rows = store.all<Record<string, string | number> & { key: number; id: string }>(
          raw('select * from domains where user_key = 1'),
        )
        const descending = order.at(-1)?.descending ?? false
        const compare = (a: string | number, b: string | number): number => (a < b ? -1 : a > b ? 1 : 0)
        const expected = rows
          .sort((a, b) => {
            for (const { column, descending: reversed } of order) {
              const way = compare(a[column]!, b[column]!) * (reversed ? -1 : 1)
              if (way !== 0) return way
            }
            return (a.key - b.key) * (descending ? -1 : 1)
          })
          .map(({ id }) => id)

        const forward: string[][] = []
        let page = await listPage(store, query(order, size))
        assert.equal(page.hasPrevious, false)
        for (;;) {
          forward.push(page.rows.map((row) => row['id'] as string))
          assert.equal(page.hasNext, forward.flat().length < expected.length)
          if (!page.hasNext) break
          page = await listPage(
            store,
            query(order, size, { from: { place: placeOf(page.rows.at(-1)!, order), direction: 'after' } }),
          )
          assert.equal(page.hasPrevious, true)
        }
        assert.deepEqual(forward.flat(), expected)
        assert.ok(forward.slice(0, -1).every((ids) => ids.length === size))

        // Back from the last page: the same pages in reverse.
        const back: string[][] = [forward.at(-1)!]
        while (page.hasPrevious) {
          page = await listPage(
            store,
            query(order, size, { from: { place: placeOf(page.rows[0]!, order), direction: 'before' } }),
          )
          assert.equal(page.hasNext, true)
          back.unshift(page.rows.map((row) => row['id'] as string))
        }
        assert.deepEqual(back, forward)
      })

  test('rows that are added and deleted between pages neither repeat nor hide others', async (t) => {
    const store = await listed(t)
    const order = [down('created_at')]
    const seen: string[] = []
    let page = await listPage(store, query(order, 3))
    for (let round = 0; ; round++) {
      seen.push(...page.rows.map((row) => row['id'] as string))
      if (!page.hasNext) break
      const last = page.rows.at(-1)!
      // The row that the next page starts from goes, one comes before it and one far behind it.
      await store.write((tx) => {
        tx.run(db.deleteFrom('domains').where('key', '=', last.key))
        addDomain(tx, 1, `new-${round}`, 'd', 9)
        if (round === 0) addDomain(tx, 1, 'late', 'd', 0)
      })
      page = await listPage(store, query(order, 3, { from: { place: placeOf(last, order), direction: 'after' } }))
    }
    assert.deepEqual(
      [...seen].sort(),
      [...AT.keys()]
        .map((index) => `ann-${index}`)
        .concat('late')
        .sort(),
      'every row that was there throughout exactly once',
    )
  })

  test('an empty page at the start keeps the cursor for later rows', async (t) => {
    const store = await listed(t)
    const order = [up('created_at')]
    const { rows } = await listPage(store, query(order, 2))
    const before = await listPage(
      store,
      query(order, 2, { from: { place: placeOf(rows[0]!, order), direction: 'before' } }),
    )
    assert.deepEqual(before.rows, [])
    assert.equal(before.hasPrevious, false)
  })

  test('conditions match any of their values and all of each other, only among the owner’s rows', async (t) => {
    const store = await listed(t)
    const ids = async (more: Partial<ListQuery>): Promise<unknown[]> =>
      (await listPage(store, query([up('created_at')], 25, more))).rows.map((row) => row['id'])
    assert.deepEqual(await ids({ where: [{ column: 'status', values: ['active'] }] }), ['ann-1', 'ann-5', 'ann-8'])
    assert.deepEqual(
      await ids({
        where: [
          { column: 'created_at', values: [1, 3] },
          { column: 'mail_from_prefix', values: [`d0'"é`, `d1'"é`] },
        ],
      }),
      ['ann-1', 'ann-0', 'ann-6'],
    )
    assert.deepEqual(await ids({ where: [{ column: 'id', values: ['bob-1'] }] }), [])
    assert.deepEqual(await ids({ where: [{ column: 'status', values: [`' or 1=1 --`] }] }), [])
    assert.deepEqual(await ids({ only: 'created_at = 3' }), ['ann-0', 'ann-6'])
  })

  test('only its owner finds a row by its id', async (t) => {
    const store = await listed(t)
    assert.equal(findOwned(store, 'domains', 1, 'ann-3')?.['id'], 'ann-3')
    assert.equal(findOwned(store, 'domains', 2, 'ann-3'), undefined)
    assert.equal(findOwned(store, 'domains', 1, 'ann-3', 'deleted_at is not null'), undefined)
    assert.deepEqual(
      findByKeys(store, 'domains', [2, 1, 999]).map(({ key }) => key),
      [1, 2],
    )
    assert.deepEqual(findByKeys(store, 'domains', []), [])
  })
})

describe('moves', () => {
  const lamp = machine('users', [
    ['active', 'lapse', 'past_due', 'auto', 'subscription.past_due'],
    ['past_due', 'pay', 'active', 'owner'],
  ])
  // The machine's column is `status`. A view of users has it under that name.
  async function lamps(t: TestContext): Promise<Store> {
    const { store } = fresh(t)
    await store.write((tx) => {
      tx.run(raw('create table lamps (key integer primary key, status text not null, "at" integer, note text) strict'))
      tx.run(raw(`insert into lamps (key, status) values (1, 'active'), (2, 'active')`))
    })
    return store
  }
  const lamps1 = { ...lamp, table: 'lamps' }
  const rows = (store: Store): unknown[] => store.all(raw('select * from lamps order by key'))

  test('an allowed one changes the status with its columns, and returns the row of the table', async (t) => {
    const store = await lamps(t)
    const made = await store.write((tx) => move(tx, lamps1, 1, 'lapse', { at: 5, note: 'late' }))
    assert.deepEqual(made, {
      from: 'active',
      on: 'lapse',
      to: 'past_due',
      by: 'auto',
      emits: 'subscription.past_due',
    })
    assert.deepEqual(rows(store), [
      { key: 1, status: 'past_due', at: 5, note: 'late' },
      { key: 2, status: 'active', at: null, note: null },
    ])
  })

  test('one that is not in the table changes no row', async (t) => {
    const store = await lamps(t)
    const before = rows(store)
    assert.equal(await store.write((tx) => move(tx, lamps1, 1, 'pay', { at: 5 })), undefined)
    assert.equal(await store.write((tx) => move(tx, lamps1, 99, 'lapse', { at: 5 })), undefined)
    assert.deepEqual(rows(store), before)
  })

  test('the second of two concurrent ones finds it done', async (t) => {
    const store = await lamps(t)
    const [first, second] = await Promise.all([
      store.write((tx) => move(tx, lamps1, 1, 'lapse')),
      store.write((tx) => move(tx, lamps1, 1, 'lapse')),
    ])
    assert.ok(first)
    assert.equal(second, undefined)
  })

  test('rejects a table with two rows for one event when it is loaded', () => {
    assert.throws(
      () =>
        machine('lamps', [
          ['on', 'press', 'off', 'owner'],
          ['on', 'press', 'broken', 'auto'],
        ]),
      /two rows for on press/,
    )
  })
})

describe('statements', () => {
  test('are built once and accept new arguments each time', async (t) => {
    const { store } = fresh(t)
    let built = 0
    const find = statement<{ name: string; plan: string }>()((arg) => {
      built++
      return db.selectFrom('users').select(['name', 'plan']).where('name', '=', arg.name).where('plan', '=', arg.plan)
    })
    await store.write((tx) => [addUser(tx, 'ann', { plan: 'a' }), addUser(tx, 'bob', { plan: 'b' })])
    assert.deepEqual(store.all(find({ name: 'ann', plan: 'a' })), [{ name: 'ann', plan: 'a' }])
    assert.deepEqual(store.all(find({ name: 'bob', plan: 'b' })), [{ name: 'bob', plan: 'b' }])
    assert.equal(store.first(find({ name: 'ann', plan: 'b' })), undefined)
    assert.equal(built, 1)
  })

  test('keep constants, repeat a slot, and pass null, bytes and texts that quote as they are', () => {
    const odd = statement<{ text: string | null; hash: Uint8Array; at: number }>()((arg) =>
      db
        .updateTable('tokens')
        .set({ name: arg.text as string, hash: arg.hash, created_at: arg.at, updated_at: arg.at })
        .where('duration', '=', '1_month')
        .where('name', '=', arg.text as string),
    )
    const bytes = Uint8Array.of(0, 1)
    const { sql, parameters } = odd({ text: `'; drop table users; --`, hash: bytes, at: 7 }).compile()
    assert.deepEqual(parameters, [`'; drop table users; --`, bytes, 7, 7, '1_month', `'; drop table users; --`])
    assert.doesNotMatch(sql, /drop table/)
    assert.deepEqual(odd({ text: null, hash: bytes, at: 8 }).compile().parameters, [null, bytes, 8, 8, '1_month', null])
    assert.equal(odd({ text: null, hash: bytes, at: 8 }).compile().sql, sql)
  })
})

describe('the spool', () => {
  test('keeps a complete file under its own name, readable only by its owner', async () => {
    const dir = dataDir()
    const spool = new Spool(dir)
    const letter = 'ä'.repeat(SPOOL_ABOVE)
    const one = await spool.put('one', letter)
    const two = await spool.put('two', Uint8Array.of(0, 255, 13, 10))
    assert.match(one, /^one~\d+-[\w-]{43}$/)
    assert.equal(ownName(two), 'two')
    assert.equal((await spool.read(one)).toString(), letter)
    assert.deepEqual([...readProven(spool.path(two))], [0, 255, 13, 10])
    assert.deepEqual(readdirSync(join(dir, 'spool')).sort(), [one, two])
    assert.equal(statSync(spool.path(one)).mode & 0o777, 0o600)
    await spool.remove(one)
    await spool.remove(one)
    await assert.rejects(spool.read(one), Damaged)
  })

  test('keeps files complete that are put at the same moment, even the first ones', async () => {
    const dir = dataDir()
    const spool = new Spool(dir)
    const names = await Promise.all(Array.from({ length: 20 }, (_, n) => spool.put(`file${n}`, `text ${n}`)))
    for (const [n, name] of names.entries()) assert.equal(readProven(spool.path(name)).toString(), `text ${n}`)
    assert.deepEqual(readdirSync(join(dir, 'spool')).sort(), names.toSorted())
    // A file that is there under the same name is replaced: it may be damaged.
    writeFileSync(spool.path(names[0]!), 'other')
    assert.equal(await spool.put('file0', 'text 0'), names[0])
    assert.equal(readProven(spool.path(names[0]!)).toString(), 'text 0')
    assert.equal(readdirSync(join(dir, 'spool')).length, 20)
  })

  test('does not read a file with a changed bit or without its end', async () => {
    const spool = new Spool(dataDir())
    for (const harm of [(bytes: Buffer) => bytes.fill(bytes[7]! ^ 1, 7, 8), (bytes: Buffer) => bytes.subarray(0, -1)]) {
      const name = await spool.put('one', 'x'.repeat(1000))
      writeFileSync(spool.path(name), harm(readFileSync(spool.path(name))))
      assert.throws(() => readProven(spool.path(name)), Damaged)
    }
    // Version 0.1.0 wrote names without a proof.
    writeFileSync(spool.path('old'), 'text')
    assert.equal(readProven(spool.path('old')).toString(), 'text')
  })

  test('leaves no file behind if it cannot be written completely', async () => {
    const dir = dataDir()
    const spool = new Spool(dir)
    // A directory is in the place of the file.
    const taken = provenName('taken', 4, createHash('sha256').update('text').digest())
    mkdirSync(join(dir, 'spool', taken), { recursive: true })
    await assert.rejects(spool.put('taken', 'text'))
    assert.deepEqual(readdirSync(join(dir, 'spool')), [taken])
    const blocked = dataDir()
    mkdirSync(blocked)
    writeFileSync(join(blocked, 'spool'), '')
    await assert.rejects(new Spool(blocked).put('one', 'text'))
  })

  test('a sweep moves files without a row into quarantine, including drafts, and back if a row names them', async () => {
    const dir = dataDir()
    const spool = new Spool(dir)
    await spool.sweep(() => true)
    const [kept = '', lost = ''] = await Promise.all(['kept', 'lost'].map((name) => spool.put(name, name)))
    writeFileSync(spool.path('kept.part'), 'half')
    assert.deepEqual((await spool.sweep((name) => name === kept)).unknown.toSorted(), ['kept.part', lost])
    assert.deepEqual(readdirSync(join(dir, 'spool')).toSorted(), [kept, 'quarantine'])
    assert.deepEqual((await spool.quarantined()).toSorted(), ['kept.part', lost])
    assert.equal(readFileSync(join(dir, 'spool', 'quarantine', lost), 'utf8'), 'lost')
    // A second sweep finds no files: the quarantine is not an email.
    assert.deepEqual(await spool.sweep((name) => name === kept), { unknown: [], back: [] })
    // A file with a row is moved back.
    assert.deepEqual(await spool.sweep((name) => name !== 'kept.part'), { unknown: [], back: [lost] })
    assert.equal((await spool.read(lost)).toString(), 'lost')
    assert.equal(await spool.emptyQuarantine(0), 0)
    assert.equal(await spool.emptyQuarantine(8.64e15), 1)
    assert.deepEqual(await spool.quarantined(), [])
  })

  test('logs a file that could not be removed, and removes it later (D72)', async () => {
    const dir = dataDir()
    const told: unknown[] = []
    const spool = new Spool(dir, { error: (event, fields) => told.push([event, fields]) })
    const name = await spool.put('letter', 'text')
    const path = spool.path(name)
    // No directory, so no file can be looked for in it.
    renameSync(join(dir, 'spool'), join(dir, 'aside'))
    writeFileSync(join(dir, 'spool'), '')
    await spool.remove(name)
    assert.deepEqual(told, [['spool_delete_failed', { file: name, error: 'ENOTDIR' }]])
    await assert.rejects(spool.removeLeft())
    rmSync(join(dir, 'spool'))
    renameSync(join(dir, 'aside'), join(dir, 'spool'))
    await spool.removeLeft()
    assert.equal(existsSync(path), false)
  })

  test('a directory in the place of a file stays and is logged, without an error for the caller (D72)', async () => {
    const told: string[] = []
    const spool = new Spool(dataDir(), { error: (event) => told.push(event) })
    const name = await spool.put('letter', 'text')
    rmSync(spool.path(name))
    mkdirSync(spool.path(name))
    await spool.remove(name)
    assert.deepEqual(told, ['spool_delete_failed'])
    await spool.removeLeft()
    assert.ok(existsSync(spool.path(name)))
  })

  for (const [what, put] of IN_ITS_PLACE)
    test(`${what} in the place of a file is damage, and does not block (D72)`, async (t) => {
      const spool = new Spool(dataDir())
      const path = spool.path(await spool.put('letter', 'text'))
      rmSync(path)
      await put(path, t)
      assert.throws(() => readProven(path), Damaged)
      await assert.rejects(openSpooled(path), Damaged)
      assert.throws(() => writePlain(path, 'text'))
    })

  test('keeps every file of many concurrent writes', async () => {
    const spool = new Spool(dataDir())
    const all = Array.from({ length: 20 }, (_, i) => `letter-${i}`)
    const names = await Promise.all(all.map((name) => spool.put(name, name)))
    for (const name of names) assert.equal((await spool.read(name)).toString(), ownName(name))
  })
})

test('verify finds a changed bit in a text, but not after a regular update', async () => {
  const dir = dataDir()
  const store = openStore(dir)
  const at = 1
  await store.write((tx) => {
    tx.run(
      raw(`insert into inbound_messages (id, mail_from, recipients, client, helo, received, size, content, cut, received_at, attempts)
      values ('m', 'a@b.test', '[]', '', '', '', 3, x'616263', 0, 1, 0)`),
    )
    tx.run(
      raw(
        `insert into inbound_bodies (message_key, headers, text, html, attachments) values (?, '{}', 'hello', null, '[]')`,
        [at],
      ),
    )
  })
  assert.deepEqual(store.verify(), [])
  await store.write((tx) => tx.run(raw(`update inbound_bodies set text = 'zebra crossing', headers = '{"a":1}'`)))
  assert.deepEqual(store.verify(), [])
  store.checkpoint()
  store.close()
  const file = join(dir, 'postrider.db')
  const bytes = readFileSync(file)
  const place = bytes.indexOf('zebra crossing')
  assert.ok(place > 0)
  bytes[place] = bytes[place]! ^ 1
  writeFileSync(file, bytes)
  const damaged = openStore(dir)
  assert.match(damaged.verify().join('\n'), /Texts in inbound_bodies are corrupt: row 1/)
  damaged.close()
})
