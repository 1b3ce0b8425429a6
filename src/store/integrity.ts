// Whether SQLite finds the pages of the database consistent. `verify` of database.ts compares every row as well, and
// takes much longer.
import { join, dirname } from 'node:path'
import Database from 'better-sqlite3'
import { codeOf, messageOf } from '../base/errors.ts'
import { sqliteAddon } from './addon.ts'
import { DATABASE, schemaOf } from './open.ts'
import { migrations } from './schema/migrations.ts'
import { defineDigest } from './digests.ts'

/** The most faults that are named. */
const MOST = 20

/** Whether an error means that the database is corrupt. `SQLITE_IOERR` may be about the disk alone. */
export const isDatabaseDamage = (thrown: unknown): boolean => /^SQLITE_(?:CORRUPT|NOTADB)/.test(codeOf(thrown))

/**
 * Checks a database while its server runs. Returns a sentence for each problem, or an empty list. Reads the whole file.
 */
export function quickFaults(dataDir: string): string[] {
  let database: Database.Database | undefined
  try {
    database = new Database(join(dataDir, DATABASE), { readonly: true, fileMustExist: true, ...sqliteAddon(dataDir) })
    const rows = database.pragma(`quick_check(${MOST})`) as { quick_check: string }[]
    return rows.map((row) => row.quick_check).filter((text) => text !== 'ok')
  } catch (thrown) {
    // This damage stops the check itself.
    if (isDatabaseDamage(thrown) || codeOf(thrown).startsWith('SQLITE_IOERR')) return [messageOf(thrown)]
    throw thrown
  } finally {
    database?.close()
  }
}

// Checks that a database has the schema of its version and no other active objects: a foreign trigger, view or index
// would run its SQL in every transaction and query. The schema is that of the migrations up to the number in the file,
// run on an empty database (D210).

interface SchemaRow {
  type: string
  name: string
  sql: string | null
}

/** A table of another application, with columns only, is harmless. Litestream creates such tables. */
const HARMLESS = /^createtable\w+\([\w,]*\)(?:strict|withoutrowid)?$/

/** The most that is read of a hostile schema. */
const MOST_OBJECTS = 10_000

/** Returns a sentence for each difference between a database and its schema. Throws the errors of SQLite. */
export function foreignSchema(file: string): string[] {
  const database = new Database(file, { readonly: true, ...sqliteAddon(dirname(file)) })
  try {
    const own = ownRows(schemaOf(database), dirname(file))
    const found = rowsOf(database)
    const isOther = (row: SchemaRow): boolean => plain(own.get(nameOf(row))) !== plain(row)
    return [
      ...[...found.values()]
        .filter((row) => isOther(row) && (own.has(nameOf(row)) || row.type !== 'table' || !HARMLESS.test(plain(row))))
        .map((row) => `The ${nameOf(row)} of the database was not created by Postrider.`),
      ...[...own.keys()].filter((name) => !found.has(name)).map((name) => `The ${name} of the database is missing.`),
    ]
  } finally {
    database.close()
  }
}

function ownRows(schema: number, dir: string): Map<string, SchemaRow> {
  const database = new Database(':memory:', sqliteAddon(dir))
  try {
    defineDigest(database)
    for (const sql of migrations.slice(0, schema)) database.exec(sql)
    return rowsOf(database)
  } finally {
    database.close()
  }
}

const nameOf = ({ name, type }: SchemaRow): string => `${type} ${name}`

/** Without SQLite's own objects: indexes of keys, and statistics. */
function rowsOf(database: Database.Database): Map<string, SchemaRow> {
  const rows = database
    .prepare<[], SchemaRow>(
      `select type, substr(name, 1, 200) as name, sql from sqlite_schema
       where not (type = 'index' and sql is null) and name not in ('sqlite_sequence', 'sqlite_stat1', 'sqlite_stat4')
       limit ${MOST_OBJECTS}`,
    )
    .all()
  return new Map(rows.map((row) => [nameOf(row), row]))
}

/** The SQL without differences between versions of SQLite: blanks, quotes of names and case. */
const plain = (row: SchemaRow | undefined): string => (row?.sql ?? '').replace(/[\s"`[\]]/g, '').toLowerCase()
