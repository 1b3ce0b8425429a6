// Digests of texts that are sent, pushed or grant access: a changed bit is found in each table with digests, and the
// rows of an older version get theirs at the upgrade. test/schema checks that every text has one, or a reason to omit
// it.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { DIGESTED, defineDigest } from '../../src/store/digests.ts'
import { digests } from '../../src/store/schema/migrations/0014-digests.ts'
import { migrations } from '../../src/store/schema/migrations.ts'
import { openStore } from '../../src/store/open.ts'
import { upgradeDatabase } from '../../src/store/upgrade.ts'
import { ManualClock } from '../kit/clock.ts'
import { temporaryDirectory } from '../kit/directory.ts'

/** A row in every table with digests: each column gets a value for its type and name. */
function fill(database: Database.Database): void {
  database.pragma('foreign_keys = OFF')
  for (const { table } of DIGESTED) {
    const columns = database.prepare(`select name, type from pragma_table_info('${table}')`).all() as {
      name: string
      type: string
    }[]
    // An older version has fewer tables.
    if (columns.length === 0) continue
    const values = columns.map(({ name, type }) =>
      name === 'campaign_key' ? null : type === 'INTEGER' ? 1 : type === 'BLOB' ? Buffer.from('abc') : `the ${name}`,
    )
    database
      .prepare(
        `insert into ${table} (${columns.map(({ name }) => `"${name}"`).join(', ')}) values (${columns.map(() => '?').join(', ')})`,
      )
      .run(values)
  }
}

const open = (dir: string): Database.Database => {
  const database = new Database(join(dir, 'postrider.db'))
  defineDigest(database)
  return database
}

/** The problems with texts that verify reports. */
function damagedIn(dir: string): string[] {
  const store = openStore(dir)
  try {
    return store.verify().filter((fault) => fault.startsWith('Texts in '))
  } finally {
    store.close()
  }
}

test('verify finds a changed column under a digest in every table, but not after a regular update', () => {
  const dir = temporaryDirectory('digests')
  openStore(dir).close()
  const database = open(dir)
  fill(database)
  for (const { columns, table } of DIGESTED)
    for (const name of columns) database.exec(`update ${table} set "${name}" = "${name}"`)
  assert.deepEqual(damagedIn(dir), [])
  // With any conflict clause of the statement.
  database.exec(
    `insert into suppressions select * from suppressions where true on conflict (key) do update set email = 'b@c.test'`,
  )
  assert.deepEqual(damagedIn(dir), [])
  database.exec(`update or replace suppressions set email = 'c@c.test'`)
  database.exec('insert or replace into contacts select * from contacts')
  database.exec('insert or ignore into tokens select * from tokens')
  assert.deepEqual(damagedIn(dir), [])
  for (const { columns, table } of DIGESTED) {
    // Without its trigger, a change is the same as damage.
    const trigger = `${table}_digest_of_changed`
    const { sql } = database.prepare('select sql from sqlite_schema where name = ?').get(trigger) as { sql: string }
    database.exec(`drop trigger ${trigger}`)
    for (const name of columns) {
      const { value } = database.prepare(`select "${name}" as value from ${table}`).get() as { value: unknown }
      const other = typeof value === 'string' ? `${value}!` : typeof value === 'number' ? 2 : Buffer.from('abd')
      database.prepare(`update ${table} set "${name}" = ?`).run(other)
      assert.deepEqual(damagedIn(dir), [`Texts in ${table} are corrupt: row 1`], name)
      database.prepare(`update ${table} set "${name}" = ?`).run(value)
    }
    database.exec(sql)
  }
  database.close()
})

test('rows of an older version get their digests at the upgrade', async () => {
  const dir = temporaryDirectory('digests')
  const before = migrations.indexOf(digests)
  const database = open(dir)
  for (const sql of migrations.slice(0, before)) database.exec(sql)
  database.pragma(`user_version = ${before}`)
  fill(database)
  database.close()
  await upgradeDatabase(dir, { clock: new ManualClock() })
  const upgraded = open(dir)
  const { n } = upgraded.prepare('select count(*) as n from digests').get() as { n: number }
  // A table that an older version does not have can be empty.
  const filled = DIGESTED.filter(({ table }) => upgraded.prepare(`select 1 from ${table} limit 1`).get())
  upgraded.close()
  assert.ok(filled.length > 20)
  assert.equal(n, filled.length)
  assert.deepEqual(damagedIn(dir), [])
})
