// The copies of a database from before its upgrades, the ways back: how one is made, put in place again, and removed.
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

/** A copy, one that is not whole yet, and what SQLite leaves beside either. */
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

/** Removes what killed upgrades left of copies that were not whole yet; for the holder of the lock. */
export function removeDrafts(dataDir: string): void {
  for (const { draft, file } of copiesIn(dataDir)) if (draft) rmSync(file, { force: true })
}

/** The copy of a database as it was before its upgrade from a schema. */
export const wayBack = (file: string, schema: number): string => `${file}.schema-${schema}`

/** Copies the database as a way back, durably. Throws an OperatorError, and has changed nothing then. */
export async function copyAside(file: string, schema: number, told: CopyProgress): Promise<void> {
  const copy = wayBack(file, schema)
  const draft = `${copy}.part`
  try {
    demandRoom(file, copy)
    await copyDatabase(file, draft, Infinity, told)
    syncPath(draft)
    // One of before is of an upgrade that failed, and the older version has gone on since.
    removeCopy(copy)
    renameSync(draft, copy)
    syncPath(dirname(copy))
  } catch (thrown) {
    removeCopy(draft)
    const code = codeOf(thrown)
    const advice = /^(?:ENOSPC|EDQUOT|SQLITE_FULL)$/.test(code)
      ? 'free as much space as the database takes'
      : 'move away what is in its place, or see whether the disk is failing'
    throw new OperatorError(
      `The database cannot be copied to ${copy} before it is upgraded (${code}); ${advice}, and start again. Nothing was changed.`,
      { cause: thrown },
    )
  }
}

/** Asked before: a copy that does not fit would take all room from others on its way there. */
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
 * Puts a copy in the place of the database of a schema, which keeps the name of such a copy. No process may have the
 * database open. At every moment one whole database is in place.
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

/** Puts all of the write-ahead log into a database, so that the file alone is the whole of it. */
function settleLog(file: string): void {
  const database = new Database(file, { fileMustExist: true, ...sqliteAddon(dirname(file)) })
  try {
    // In that mode nothing is left beside the file when it is closed.
    if (!truncated(database) || database.pragma('journal_mode = DELETE', { simple: true }) !== 'delete')
      throw new OperatorError(`Another process reads ${file}; end it and try again. Nothing was changed.`)
  } catch (thrown) {
    throw explained(thrown, dirname(file))
  } finally {
    database.close()
  }
}
