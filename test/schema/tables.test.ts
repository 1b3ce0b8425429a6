// Every table is described once (schema/), and the migrations make what is described: columns, types, what may be null,
// and the triggers that keep digests. A description says of each text whom it may name and whether a digest covers it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { migrations } from '../../src/schema/migrations.ts'
import { COLUMNS, TABLES, type NamedColumn } from '../../src/schema/tables.ts'
import { DIGESTED, defineDigest } from '../../src/store/digests.ts'

const migrated = new Database(':memory:')
defineDigest(migrated)
for (const sql of migrations) migrated.exec(sql)

/** The columns for which something holds, as "table.column". */
const named = (holds: (column: NamedColumn) => boolean): string[] =>
  COLUMNS.filter(holds).map(({ name, table }) => `${table}.${name}`)

test('the migrations make every column that is described, and no other', () => {
  const made = migrated
    .prepare(
      `select t.name || '.' || c.name || ' ' || lower(c.type) || iif(c."notnull" or c.pk, '', ' or null')
       from sqlite_schema t, pragma_table_info(t.name) c where t.type = 'table' and t.name not like 'sqlite%'`,
    )
    .pluck()
    .all() as string[]
  const described = COLUMNS.map((column) => {
    const { name, sql, table } = column
    return `${table}.${name} ${sql}${column.null ? ' or null' : ''}`
  })
  assert.deepEqual(described.toSorted(), made.toSorted())
})

test('the triggers of the migrations keep the digests that are described', () => {
  for (const { columns, of, table } of DIGESTED) {
    const triggers = migrated
      .prepare(`select sql from sqlite_schema where type = 'trigger' and name like ?`)
      .pluck()
      .all(`${table}_digest_of_%`) as string[]
    const names = columns.map((name) => `"${name}"`).join(', ')
    const value = `row_digest(${columns.map((name) => `new."${name}"`).join(', ')})`
    assert.equal(triggers.filter((sql) => sql.includes(value)).length, 2, table)
    assert.ok(
      triggers.some((sql) => sql.includes(`after update of ${names} on`)),
      table,
    )
    assert.equal(triggers.filter((sql) => new RegExp(`\\(${of}, new|"of" = ${of} `).test(sql)).length, 3, table)
  }
  const numbers = new Set(DIGESTED.map(({ of }) => of))
  assert.equal(numbers.size, DIGESTED.length)
})

test('each text says whom it may name, or why it names nobody who may ask to be forgotten', () => {
  assert.deepEqual(
    named(({ nobody, person, sql }) => sql === 'text' && (person === undefined) === (nobody === undefined)),
    [],
  )
  assert.deepEqual(
    named(({ held, person }) => held === true && person === undefined),
    [],
  )
})

test('each text has a digest, or a reason to have none', () => {
  const spoken = COLUMNS.filter(({ sql, table }) => /text|blob/.test(sql) && !TABLES[table].undigested)
  assert.deepEqual(
    spoken.filter(({ digested, undigested }) => !digested && !undigested).map(({ name, table }) => `${table}.${name}`),
    [],
  )
  // A digested column stands in a table that has digests.
  assert.deepEqual(
    named(({ digested, table }) => digested === true && TABLES[table].digest === undefined),
    [],
  )
})

test('columns that are named like times are times; those that lie ahead are put right after a set-back, or do no harm (D120)', () => {
  assert.deepEqual(
    named(({ form, name }) => form !== 'time' && /^at$|_at$|_until$/.test(name)),
    [],
  )
  const AHEAD =
    /_until$|^(?:next_attempt_at|expires_at|next_check_at|next_slot_at|scheduled_at|downgrade_at|erase_at|code_expires_at)$/
  assert.deepEqual(
    named(({ ahead, harmless, name }) => AHEAD.test(name) && ahead === undefined && harmless === undefined),
    [],
  )
})
