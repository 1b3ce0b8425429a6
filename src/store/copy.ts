// Reads a database file that no process uses: a copy in a backup, before it is trusted.
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { messageOf } from '../base/errors.ts'
import { sqliteAddon } from './addon.ts'
import type { Sealed } from './instance.ts'
import { explained } from './open.ts'

/** The first damage in the pages of a database file, as SQLite's text; undefined when they are sound. Never throws. */
export function damageOf(file: string): string | undefined {
  try {
    const [first] = look(file, (database) => database.pragma('quick_check(1)') as { quick_check: string }[])
    return first?.quick_check === 'ok' ? undefined : (first?.quick_check ?? 'no answer')
  } catch (thrown) {
    return messageOf(thrown)
  }
}

/** Any sealed DKIM key of the file; undefined when it has none. Throws an OperatorError when it cannot be read. */
export const sealedKeyIn = (file: string): Sealed | undefined =>
  look(
    file,
    (database) =>
      database
        .prepare('select id, sealed_private_key as box from dkim_keys where sealed_private_key is not null limit 1')
        .get() as Sealed | undefined,
  )

function look<T>(file: string, work: (database: Database.Database) => T): T {
  const database = new Database(file, { readonly: true, ...sqliteAddon(dirname(file)) })
  try {
    return work(database)
  } catch (thrown) {
    throw explained(thrown, dirname(file))
  } finally {
    database.close()
  }
}

/** The version of SQLite inside this program, such as "3.50.4". */
export function sqliteVersion(dataDir: string): string {
  const database = new Database(':memory:', sqliteAddon(dataDir))
  try {
    return (database.prepare('select sqlite_version() as version').get() as { version: string }).version
  } finally {
    database.close()
  }
}
