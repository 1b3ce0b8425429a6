// Reads a database file that no process uses: a copy in a backup, before it is trusted.
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { sqliteAddon } from './addon.ts'
import { Store } from './database.ts'
import { explained } from './open.ts'

/** Whether the file holds any of these accounts, given by their ids. */
export const holdsUser = (file: string, ids: readonly string[]): boolean =>
  look(
    file,
    (database) =>
      database
        .prepare('select 1 from users where id in (select value from json_each(?)) limit 1')
        .get(JSON.stringify(ids)) !== undefined,
  )

/** Opens the file as a read-only store, whatever its schema is, and runs `work` on it. Throws the errors of SQLite. */
export async function withCopy<T>(file: string, work: (store: Store) => Promise<T>): Promise<T> {
  const store = new Store(new Database(file, { readonly: true, ...sqliteAddon(dirname(file)) }))
  try {
    return await work(store)
  } finally {
    store.close()
  }
}

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
    return database.prepare<[], { version: string }>('select sqlite_version() as version').get()!.version
  } finally {
    database.close()
  }
}
