// Digests of what is sent, pushed to or authorises: every text of the schema has one or a reason to have none, a
// changed bit is found in each table that has them, and the rows of an older version get theirs with the upgrade.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import Database from 'better-sqlite3'
import { DIGESTED, defineDigest } from '../../src/store/digests.ts'
import { digests } from '../../src/store/migrations/0014-digests.ts'
import { migrations } from '../../src/store/migrations.ts'
import { openStore } from '../../src/store/open.ts'

function dataDir(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), 'postrider-digests-'))
  t.after(() => rmSync(dir, { recursive: true, force: true }))
  return dir
}

/** Tables whose texts have no digest at all, and why. */
const FREE: Record<string, string> = {
  learned_lanes: 'what was learned of exchangers is learned again',
  agents: 'names that the owner gave to figures',
  attempts: 'what exchangers said',
  deliveries: 'addresses stand in the mail and are held to it (delivery/wire/intact.ts)',
  digests: 'the digests',
  event_cursors: 'names of readers',
  event_sums: 'figures',
  events: 'a log; what is pushed of it is a row of outbound_webhooks',
  lane_holds: 'names of lanes',
  oauth_allowed: 'a flipped origin allows nobody who could be at it',
  oauth_tokens: 'hashes: a flipped one opens nothing',
  receiver_tallies: 'figures',
  refusals: 'figures',
  sign_in_links: 'hashes: a flipped one opens nothing',
  soft_bounces: 'figures of some days',
  sts_policies: 'a copy of what DNS and HTTPS say',
  tallies: 'figures',
  usage: 'figures',
  webhook_attempts: 'what endpoints said',
}

/**
 * Columns of any table that need none: ids, words of a state table or a list (a flipped one is no word), what others
 * said.
 */
const STATES =
  'id status role purpose region sts_mode dmarc_policy disabled_reason subscription_state downgrade_to summary duration ' +
  'last_four secret_hint program failure observed response reason about response_body replay_of file virus client helo'
/** Columns of one table that need none. */
const ELSEWHERE: Record<string, string> = {
  // A file of the spool proves itself by its name.
  outbound_bodies: 'spool',
  inbound_messages: 'spool authentication',
  inbound_emails: 'cc reply_to in_reply_to references authentication',
  outbound_emails: 'agent_id idempotency_key payload_hash',
}

test('every text of the schema has a digest, or a reason to have none', (t) => {
  const dir = dataDir(t)
  openStore(dir).close()
  const database = new Database(join(dir, 'postrider.db'), { readonly: true })
  const columns = database
    .prepare(
      `select s.name as "table", c.name as "column" from sqlite_schema s, pragma_table_info(s.name) c
       where s.type = 'table' and s.name not like 'sqlite_%' and c.type in ('TEXT', 'BLOB') order by 1, 2`,
    )
    .all() as { table: string; column: string }[]
  database.close()
  const covered = new Set(DIGESTED.flatMap(({ columns: names, table }) => names.map((name) => `${table}.${name}`)))
  const without = columns
    .filter(({ table }) => !(table in FREE))
    .filter(({ column }) => !STATES.split(' ').includes(column))
    .filter(({ column, table }) => !(ELSEWHERE[table] ?? '').split(' ').includes(column))
    .map(({ column, table }) => `${table}.${column}`)
    .filter((name) => !covered.has(name))
  assert.deepEqual(without, [])
  assert.equal(new Set(DIGESTED.map(({ of }) => of)).size, DIGESTED.length)
  assert.equal(new Set(DIGESTED.map(({ table }) => table)).size, DIGESTED.length)
})

/** A row in every table that has digests: each column gets what its type and its name allow. */
function fill(database: Database.Database): void {
  database.pragma('foreign_keys = OFF')
  for (const { table } of DIGESTED) {
    const columns = database.prepare(`select name, type from pragma_table_info('${table}')`).all() as {
      name: string
      type: string
    }[]
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

/** What verify says of texts. */
function damagedIn(dir: string): string[] {
  const store = openStore(dir)
  try {
    return store.verify().filter((fault) => fault.startsWith('Texts in '))
  } finally {
    store.close()
  }
}

test('a changed column that a digest covers is found in every table; a change by us is none', (t) => {
  const dir = dataDir(t)
  openStore(dir).close()
  const database = open(dir)
  fill(database)
  for (const { columns, table } of DIGESTED)
    for (const name of columns) database.exec(`update ${table} set "${name}" = "${name}"`)
  assert.deepEqual(damagedIn(dir), [])
  // Whatever the statement says of conflicts.
  database.exec(
    `insert into suppressions select * from suppressions where true on conflict (key) do update set email = 'b@c.test'`,
  )
  assert.deepEqual(damagedIn(dir), [])
  database.exec(`update or replace suppressions set email = 'c@c.test'`)
  database.exec('insert or replace into contacts select * from contacts')
  database.exec('insert or ignore into tokens select * from tokens')
  assert.deepEqual(damagedIn(dir), [])
  for (const { columns, table } of DIGESTED) {
    // Without its trigger a change is what damage is.
    const trigger = `${table}_digest_of_changed`
    const { sql } = database.prepare('select sql from sqlite_schema where name = ?').get(trigger) as { sql: string }
    database.exec(`drop trigger ${trigger}`)
    for (const name of columns) {
      const { value } = database.prepare(`select "${name}" as value from ${table}`).get() as { value: unknown }
      const other = typeof value === 'string' ? `${value}!` : typeof value === 'number' ? 2 : Buffer.from('abd')
      database.prepare(`update ${table} set "${name}" = ?`).run(other)
      assert.deepEqual(damagedIn(dir), [`Texts in ${table} are damaged: row 1`], name)
      database.prepare(`update ${table} set "${name}" = ?`).run(value)
    }
    database.exec(sql)
  }
  database.close()
})

test('rows of an older version get their digests with the upgrade', (t) => {
  const dir = dataDir(t)
  const before = migrations.indexOf(digests)
  const database = open(dir)
  for (const sql of migrations.slice(0, before)) database.exec(sql)
  database.pragma(`user_version = ${before}`)
  fill(database)
  database.close()
  openStore(dir).close()
  const upgraded = open(dir)
  const { n } = upgraded.prepare('select count(*) as n from digests').get() as { n: number }
  upgraded.close()
  assert.equal(n, DIGESTED.length)
  assert.deepEqual(damagedIn(dir), [])
})
