// The copy of a database from before its upgrade: what it is, and what is done before it takes the place of the newer.
import { rmSync } from 'node:fs'
import { dirname } from 'node:path'
import Database from 'better-sqlite3'
import { OperatorError } from '../base/errors.ts'
import { sqliteAddon } from './addon.ts'
import { explained, schemaOf } from './open.ts'
import { writerOf } from './written-by.ts'

/** The schema of a database, and the version that gave it, as far as that is known. */
export function schemaIn(file: string): { schema: number; version: string | undefined } {
  return reading(file, (database) => ({ schema: schemaOf(database), version: writerOf(database) }))
}

/** Puts all of the write-ahead log into a database, so that the file alone is the whole of it. */
export function settleLog(file: string): void {
  reading(file, (database) => {
    const [result] = database.pragma('wal_checkpoint(TRUNCATE)') as { busy: number }[]
    if (result?.busy !== 0)
      throw new OperatorError(`Another process reads ${file}; end it and try again. Nothing was changed.`)
  })
  for (const end of ['-wal', '-shm']) rmSync(`${file}${end}`, { force: true })
}

function reading<T>(file: string, use: (database: Database.Database) => T): T {
  const database = new Database(file, { fileMustExist: true, ...sqliteAddon(dirname(file)) })
  try {
    return use(database)
  } catch (thrown) {
    throw explained(thrown, dirname(file))
  } finally {
    database.close()
  }
}
