// Copies a database that is in use, and reads a copy that no process uses: one in a backup, before it is trusted.
import { rmSync, statSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { TABLES } from './schema/tables.ts'
import { sqliteAddon } from './addon.ts'
import { Store } from './database.ts'
import { emptied } from './log.ts'
import { BUSY_TIMEOUT, explained, schemaOf } from './open.ts'
import { writerOf } from './written-by.ts'

/** Pages of a step: a megabyte. */
const STEP = 256
/**
 * The write-ahead log cannot restart while a copy holds its snapshot. If the log grows by more than this, the copy
 * starts again.
 */
const MOST_LOG = 1024 ** 3
/** How often a copy starts again. After that, it continues to its end, and the log can grow. */
const RESTARTS = 2

/** Called with the number of copied pages, and the total. */
export type CopyProgress = (done: number, of: number) => void

/**
 * Copies a database into a new file while other processes write to it. The copy holds one snapshot: otherwise, SQLite
 * starts again after every commit of another process, and next to a busy server never finishes (D118).
 */
export async function copyDatabase(
  file: string,
  target: string,
  mostLog = MOST_LOG,
  onProgress: CopyProgress = () => {},
): Promise<void> {
  for (let left = RESTARTS; !(await copyOnce(file, target, left > 0 ? mostLog : Infinity, onProgress)); left--)
    removeCopy(target)
}

/** Removes a copy with all of SQLite's files next to it. The copy must be closed in all processes. */
export function removeCopy(file: string): void {
  for (const end of ['', '-journal', '-wal', '-shm']) rmSync(`${file}${end}`, { force: true })
}

/** One try of `copyDatabase`, or false if the log has grown by more than `mostLog`. */
async function copyOnce(file: string, target: string, mostLog: number, onProgress: CopyProgress): Promise<boolean> {
  const database = new Database(file, { timeout: BUSY_TIMEOUT, ...sqliteAddon(dirname(file)) })
  const logSize = (): number => statSync(`${file}-wal`, { throwIfNoEntry: false })?.size ?? 0
  try {
    // First moves the content of the log into the database, so that the log can restart during this copy.
    emptied(database)
    database.exec('begin')
    database.prepare('select count(*) from sqlite_schema').get()
    let least = logSize()
    const progress = ({ remainingPages, totalPages }: Database.BackupMetadata): number => {
      onProgress(totalPages - remainingPages, totalPages)
      const now = logSize()
      least = Math.min(least, now)
      if (now - least > mostLog) throw new LogTooLong()
      return STEP
    }
    await database.backup(target, { progress })
    standAlone(target)
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
 * Switches a copy out of write-ahead mode, after it has applied the log next to it, if there is one. Reading the copy
 * then creates no other files, and works on a read-only disk.
 */
export function standAlone(file: string): void {
  const database = new Database(file, { fileMustExist: true, ...sqliteAddon(dirname(file)) })
  try {
    database.pragma('locking_mode = EXCLUSIVE')
    database.pragma('journal_mode = DELETE')
  } finally {
    database.close()
  }
}

/** Whether the file contains any of these accounts, given by their ids. */
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

/** The version that gave a copy its schema, or undefined if that is not known. */
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

/** Opens the file as a read-only store, with any schema, and runs `work` on it. Throws the errors of SQLite. */
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

/** The version of SQLite inside Postrider, such as "3.50.4". */
export function sqliteVersion(dataDir: string): string {
  const database = new Database(':memory:', sqliteAddon(dataDir))
  try {
    return database.prepare<[], { version: string }>('select sqlite_version() as version').get()!.version
  } finally {
    database.close()
  }
}
