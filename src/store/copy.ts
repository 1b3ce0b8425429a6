// Copies a database that is in use, and reads a copy that no process uses: one in a backup, before it is trusted.
import { rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { asCallerAt } from '../base/ownership.ts'
import { TABLES } from '../schema/tables.ts'
import { sqliteAddon } from './addon.ts'
import { Store } from './database.ts'
import { emptied } from './log.ts'
import { BUSY_TIMEOUT, explained, schemaOf } from './open.ts'
import { writerOf } from './written-by.ts'

/** Pages of a step: a megabyte. */
const STEP = 256
/** The write-ahead log cannot begin again while a copy holds its snapshot; past this growth the copy gives it up. */
const MOST_LOG = 1024 ** 3
/** How often a copy begins again. After that it goes to its end, whatever the log takes. */
const RESTARTS = 2

/** Hears how many pages of a copy are done, and of how many. */
export type CopyProgress = (done: number, of: number) => void

/**
 * Copies a database into a new file while other processes write to it. The copy holds one snapshot: without one,
 * SQLite begins again at every commit of another process, and beside a busy server never ends (D118).
 */
export async function copyDatabase(
  file: string,
  target: string,
  mostLog = MOST_LOG,
  told: CopyProgress = () => {},
): Promise<void> {
  for (let left = RESTARTS; !(await copyOnce(file, target, left > 0 ? mostLog : Infinity, told)); left--)
    asCallerAt(target, () => removeCopy(target))
}

/** Removes a copy with all that SQLite may have left beside it; no process may have it open. */
export function removeCopy(file: string): void {
  for (const end of ['', '-journal', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true })
}

/** One try of `copyDatabase`; false when the log has grown by more than `mostLog`. */
async function copyOnce(file: string, target: string, mostLog: number, told: CopyProgress): Promise<boolean> {
  const database = new Database(file, { timeout: BUSY_TIMEOUT, ...sqliteAddon(dirname(file)) })
  const logSize = (): number => statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
  try {
    // What the log holds goes into the database first, so that the log can begin again beside this copy.
    emptied(database)
    database.exec('begin')
    database.prepare('select count(*) from sqlite_schema').get()
    let least = logSize()
    const progress = ({ remainingPages, totalPages }: Database.BackupMetadata): number => {
      told(totalPages - remainingPages, totalPages)
      const now = logSize()
      least = Math.min(least, now)
      if (now - least > mostLog) throw new LogTooLong()
      return STEP
    }
    // All files of the source are open; from here on only the target's are opened.
    await asCallerAt(target, () => database.backup(target, { progress }))
    asCallerAt(target, () => standAlone(target))
    return true
  } catch (thrown) {
    if (thrown instanceof LogTooLong) return false
    throw thrown
  } finally {
    if (database.inTransaction) database.exec('rollback')
    database.close()
  }
}

class LogTooLong extends Error {}

/**
 * Takes the mode of the write-ahead log from a copy: whoever reads it then leaves nothing beside it, and it can be read
 * where nothing can be written.
 */
function standAlone(file: string): void {
  const database = new Database(file, { fileMustExist: true, ...sqliteAddon(dirname(file)) })
  try {
    database.pragma('locking_mode = EXCLUSIVE')
    database.pragma('journal_mode = DELETE')
  } finally {
    database.close()
  }
}

/** Whether the file holds any of these accounts, given by their ids. */
export const holdsUser = (file: string, ids: readonly string[]): boolean =>
  look(
    file,
    (database) =>
      database
        .prepare('select 1 from users where id in (select value from json_each(?)) limit 1')
        .get(JSON.stringify(ids)) !== undefined,
  )

/** The schema of a database, and the version that gave it, as far as that is known. Only reads. */
export const schemaIn = (file: string): { schema: number; version: string | undefined } =>
  look(file, (database) => ({ schema: schemaOf(database), version: writerOf(database) }))

/** The version that gave a copy its schema; undefined where that is not known. */
export const writerOfCopy = (file: string): string | undefined => look(file, writerOf)

/** The rows of each table of ours in a copy, and its schema. */
export const countsIn = (file: string): { rows: Record<string, number>; schema: number } =>
  look(file, (database) => {
    const there = database.prepare<[], { name: string }>(`select name from sqlite_schema where type = 'table'`).all()
    const rows = there
      .filter(({ name }) => name in TABLES)
      .map(({ name }) => [name, database.prepare<[], { n: number }>(`select count(*) as n from ${name}`).get()?.n ?? 0])
    return {
      rows: Object.fromEntries(rows) as Record<string, number>,
      schema: schemaOf(database),
    }
  })

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
