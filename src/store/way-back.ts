// The copies of a database from before its upgrades, for a rollback: how they are created, restored and removed.
import { linkSync, lstatSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Database from 'better-sqlite3'
import { syncPath } from '../base/durable.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { freeOn } from '../base/space.ts'
import { sqliteAddon } from './addon.ts'
import { copyDatabase, removeCopy, type CopyProgress } from './copy.ts'
import { truncated } from './log.ts'
import { DATABASE, explained } from './open.ts'

/** A copy, an incomplete copy, and SQLite's files next to them. */
const NAME = /^postrider\.db\.schema-(\d{1,6})(\.part)?(-wal|-shm|-journal)?$/

/** Every file of copies in a data directory. */
const copiesIn = (dataDir: string): { file: string; schema: number; draft: boolean; whole: boolean; at: number }[] =>
  readdirSync(dataDir).flatMap((name) => {
    const [, schema, part, beside] = NAME.exec(name) ?? []
    const file = join(dataDir, name)
    const found = schema === undefined ? undefined : lstatSync(file, { throwIfNoEntry: false })
    if (!found?.isFile()) return []
    const draft = part !== undefined
    return [{ file, schema: Number(schema), draft, whole: !draft && beside === undefined, at: found.mtimeMs }]
  })

/** The schemas of the copies in a data directory. */
export const waysBack = (dataDir: string): number[] =>
  copiesIn(dataDir)
    .filter(({ whole }) => whole)
    .map(({ schema }) => schema)

/** Removes the copies that are older than a time (ms): they may hold addresses that were erased since. */
export function removeCopies(dataDir: string, before = Infinity): void {
  for (const { at, file } of copiesIn(dataDir)) if (at < before) rmSync(file, { force: true })
}

/** Removes incomplete copies of killed upgrades. For the holder of the lock. */
export function removeDrafts(dataDir: string): void {
  for (const { draft, file } of copiesIn(dataDir)) if (draft) rmSync(file, { force: true })
}

/** The copy of a database as it was before its upgrade from a schema. */
export const wayBack = (file: string, schema: number): string => `${file}.schema-${schema}`

/** Copies the database for a rollback, durably. If it throws an OperatorError, there are no changes. */
export async function copyAside(file: string, schema: number, onProgress: CopyProgress): Promise<void> {
  const copy = wayBack(file, schema)
  const draft = `${copy}.part`
  try {
    demandRoom(file, copy)
    await copyDatabase(file, draft, Infinity, onProgress)
    syncPath(draft)
    // An existing copy is from a failed upgrade, and the older version may have run since.
    removeCopy(copy)
    renameSync(draft, copy)
    syncPath(dirname(copy))
  } catch (thrown) {
    removeCopy(draft)
    const code = codeOf(thrown)
    const advice = /^(?:ENOSPC|EDQUOT|SQLITE_FULL)$/.test(code)
      ? 'free about the size of the database'
      : 'move away the existing file of that name, or check whether the disk is failing'
    throw new OperatorError(
      `The database cannot be copied to ${copy} before the upgrade (${code}); ${advice}, then start again. Nothing was changed.`,
      { cause: thrown },
    )
  }
}

/** Checked before the copy: a copy that does not fit would take all space from others until it fails. */
function demandRoom(file: string, copy: string): void {
  const needed = [file, `${file}-wal`].reduce(
    (sum, each) => sum + (statSync(each, { throwIfNoEntry: false })?.size ?? 0),
    0,
  )
  const fits = (): boolean => freeOn(dirname(file)) >= needed
  if (fits()) return
  // A copy of an upgrade that failed.
  removeCopy(copy)
  if (!fits()) throw Object.assign(new Error('no space'), { code: 'ENOSPC' })
}

/**
 * Restores a copy in place of the database, which itself is kept as such a copy. The database must be closed in all
 * processes. At every moment one complete database is in place.
 */
export function putBack(dataDir: string, copy: string, schema: number): void {
  const file = join(dataDir, DATABASE)
  settleLog(file)
  const aside = wayBack(file, schema)
  removeCopy(aside)
  linkSync(file, aside)
  renameSync(copy, file)
  syncPath(dataDir)
}

/** Moves the whole write-ahead log into a database, so that its file is complete. */
function settleLog(file: string): void {
  const database = new Database(file, { fileMustExist: true, ...sqliteAddon(dirname(file)) })
  try {
    // In that mode, closing the file leaves no other files.
    if (!truncated(database) || database.pragma('journal_mode = DELETE', { simple: true }) !== 'delete')
      throw new OperatorError(`Another process reads ${file}; stop it and try again. Nothing was changed.`)
  } catch (thrown) {
    throw explained(thrown, dirname(file))
  } finally {
    database.close()
  }
}
