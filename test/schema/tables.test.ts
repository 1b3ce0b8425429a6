// Every table is described once (schema/), and the migrations create exactly that: columns, types, nullability, and the
// triggers that keep digests. A description defines for each text the persons it may name and whether a digest covers
// it.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { migrations } from '../../src/store/schema/migrations.ts'
import { COLUMNS, TABLES, type NamedColumn } from '../../src/store/schema/tables.ts'
import { DIGESTED, defineDigest } from '../../src/store/digests.ts'

const migrated = new Database(':memory:')
defineDigest(migrated)
for (const sql of migrations) migrated.exec(sql)

/** The columns for which something holds, as "table.column". */
const named = (holds: (column: NamedColumn) => boolean): string[] =>
  COLUMNS.filter(holds).map(({ name, table }) => `${table}.${name}`)

test('the migrations create exactly the described columns', () => {
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

test('the triggers of the migrations cover the described digests', () => {
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

test('each text has its kind of person, or a reason why it never names one', () => {
  assert.deepEqual(
    named(({ nobody, person, sql }) => sql === 'text' && (person === undefined) === (nobody === undefined)),
    [],
  )
  assert.deepEqual(
    named(({ held, person }) => held === true && person === undefined),
    [],
  )
})

test('each text has a digest, or a reason to omit it', () => {
  const spoken = COLUMNS.filter(({ sql, table }) => /text|blob/.test(sql) && !TABLES[table].undigested)
  assert.deepEqual(
    spoken.filter(({ digested, undigested }) => !digested && !undigested).map(({ name, table }) => `${table}.${name}`),
    [],
  )
  // The table of a digested column has digests.
  assert.deepEqual(
    named(({ digested, table }) => digested === true && TABLES[table].digest === undefined),
    [],
  )
})

test('columns with the names of times are times, and those in the future have a rule for a clock that was set back (D120)', () => {
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
