// The types of store/tables/ are the columns that the migrations make: their names, their types, and which may be null.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import Database from 'better-sqlite3'
import { defineDigest } from '../../src/store/digests.ts'
import { FLAG_COLUMNS, JSON_COLUMNS, VALUES } from '../../src/store/check-values.ts'
import { migrations } from '../../src/store/migrations.ts'
import { OWNERS } from '../../src/store/tables.ts'

const FOLDER = join(import.meta.dirname, '../../src/store/tables')

/** What a type of TypeScript is in SQLite; a number may have a fraction, words of other types are unions of texts. */
const typeOf = (text: string): string =>
  /\bUint8Array\b/.test(text) ? 'BLOB' : /\b(?:number|Flag|Key)\b|\b[01] \|/.test(text) ? 'INTEGER' : 'TEXT'

/** table -> column -> its type, with "?" where it may be null. */
function declared(): Record<string, { owner: string; columns: Record<string, string> }> {
  const found: ReturnType<typeof declared> = {}
  for (const file of readdirSync(FOLDER)) {
    const text = readFileSync(join(FOLDER, file), 'utf8').replace(/\/\*\*[\s\S]*?\*\//g, '')
    const members = new Map(
      [...text.matchAll(/export interface (\w+) \{\n([\s\S]*?)\n\}/g)].map(([, name, body]) => [name!, body!]),
    )
    const [, list] = [...members].find(([name]) => name.endsWith('Tables'))!
    for (const [, table, type] of list.matchAll(/^ {2}(\w+): (\w+)$/gm)) {
      const columns = [...members.get(type!)!.matchAll(/^ {2}(\w+): ([^\n]+(?:\n {4}[^\n]+)*)$/gm)]
      found[table!] = {
        owner: file.replace('.ts', ''),
        columns: Object.fromEntries(
          columns.map(([, name, is]) => [name!, `${typeOf(is!)}${/\bnull\b/.test(is!) ? '?' : ''}`]),
        ),
      }
    }
  }
  return found
}

test('every table has a type with its columns, and no other', () => {
  const database = new Database(':memory:')
  defineDigest(database)
  for (const sql of migrations) database.exec(sql)
  const tables = database
    .prepare(`select name from sqlite_schema where type = 'table' and name not like 'sqlite%'`)
    .pluck()
    .all() as string[]
  const types = declared()
  assert.deepEqual(Object.keys(types).sort(), tables.sort())
  for (const table of tables) {
    const columns = database.prepare(`select name, type, "notnull", pk from pragma_table_info('${table}')`).all() as {
      name: string
      type: string
      notnull: 0 | 1
      pk: number
    }[]
    const made = Object.fromEntries(
      columns.map(({ name, notnull, pk, type }) => [
        name,
        `${type.toUpperCase().replace('REAL', 'INTEGER')}${notnull || pk ? '' : '?'}`,
      ]),
    )
    assert.deepEqual(types[table]!.columns, made, table)
  }
  database.close()
})

/** The columns of a type, by table, in their order by name. */
function columnsOf(wanted: RegExp): Record<string, string[]> {
  const all: Record<string, string[]> = {}
  for (const file of readdirSync(FOLDER)) {
    const text = readFileSync(join(FOLDER, file), 'utf8').replace(/\/\*\*[\s\S]*?\*\//g, '')
    for (const [, table, type] of text.matchAll(/^ {2}(\w+): ([A-Z]\w+)$/gm)) {
      const [, body] = new RegExp(`export interface ${type!} \\{\\n([\\s\\S]*?)\\n\\}`).exec(text) ?? []
      const columns = [...(body ?? '').matchAll(wanted)].map(([, name]) => name!)
      if (columns.length > 0) all[table!] = columns.sort()
    }
  }
  return all
}
const listed = (columns: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(columns).map(([table, names]) => [table, names.split(' ').sort()]))

test('the columns of JSON and of flags are those that verify reads', () => {
  const json = columnsOf(/^ {2}(\w+): Json\b/gm)
  // The payload of a webhook is sent byte for byte, and is JSON all the same.
  json['outbound_webhooks'] = ['payload']
  assert.deepEqual(listed(JSON_COLUMNS), json)
  assert.deepEqual(listed(FLAG_COLUMNS), columnsOf(/^ {2}(\w+): Flag(?! \| 2)\b/gm))
})

test('the columns with few values are those that verify reads', () => {
  for (const [table, columns] of Object.entries(columnsOf(/^ {2}(\w+: (?:'\w+'(?: \| (?:null|'\w+'))*))$/gm)))
    for (const declaration of columns) {
      const [column, ...values] = declaration.match(/\w+/g)!
      const wanted = values.filter((value) => value !== 'null').toSorted()
      assert.deepEqual([...(VALUES[table]?.[column!] ?? [])].sort(), wanted, `${table}.${column!}`)
    }
})

test('each stands in the file of its owner', () => {
  assert.deepEqual(Object.fromEntries(Object.entries(declared()).map(([table, { owner }]) => [table, owner])), OWNERS)
})
