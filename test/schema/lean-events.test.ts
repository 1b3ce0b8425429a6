// The migration that makes the table of events again: every event stays as it was, under its key, and no key is used
// twice, not even that of an event that was deleted before.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { migrations } from '../../src/store/schema/migrations.ts'
import { version03 } from '../../src/store/schema/migrations/0020-version-0-3.ts'
import { defineDigest } from '../../src/store/digests.ts'

test('events keep their keys and contents, and the key of a deleted event is not reused', () => {
  const database = new Database(':memory:')
  defineDigest(database)
  database.pragma('foreign_keys = on')
  const before = migrations.indexOf(version03)
  for (const sql of migrations.slice(0, before)) database.exec(sql)
  database.exec(
    `insert into users (key, id, email, name, plan, subscription_state, created_at, updated_at) values (1, 'u', 'a@b.test', '', 'p', 'active', 0, 0)`,
  )
  const add = database.prepare(
    `insert into events (id, user_key, domain_key, email_key, campaign_key, type, data, created_at)
     values (?, 1, ?, ?, ?, 'email.sent', '{"delivery":1}', ?)`,
  )
  for (let n = 1; n <= 5; n++) add.run(`e${n}`, n, n % 2 ? n : null, n % 2 ? null : n, 1000 + n)
  database.exec('delete from events where key in (2, 5)')
  const events = (): unknown[] =>
    database
      .prepare(
        'select key, id, user_key, domain_key, email_key, campaign_key, type, data, created_at from events order by key',
      )
      .all()
  const held = events()
  assert.equal(held.length, 3)
  database.exec('begin')
  for (const sql of migrations.slice(before)) database.exec(sql)
  database.exec('commit')
  assert.deepEqual(events(), held)
  assert.equal(add.run('e6', 1, 1, null, 2000).lastInsertRowid, 6)
  assert.deepEqual(database.pragma('foreign_key_check'), [])
  assert.deepEqual(database.pragma('integrity_check'), [{ integrity_check: 'ok' }])
})

test('a database without events has its first event at key 1', () => {
  const database = new Database(':memory:')
  defineDigest(database)
  for (const sql of migrations) database.exec(sql)
  database.exec(
    `insert into users (key, id, email, name, plan, subscription_state, created_at, updated_at) values (1, 'u', 'a@b.test', '', 'p', 'active', 0, 0)`,
  )
  database.exec(`insert into events (id, user_key, type, data, created_at) values ('e', 1, 'email.sent', '{}', 0)`)
  assert.equal(database.prepare('select key from events').pluck().get(), 1)
})
