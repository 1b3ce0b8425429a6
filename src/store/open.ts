// Opens the database of a data directory: settings, the schema, and a clear sentence for every obstacle.
import { statSync } from 'node:fs'
import { join } from 'node:path'
import Database from 'better-sqlite3'
import { makeDirectory } from '../base/durable.ts'
import { codeOf, messageOf, OperatorError, failedCall } from '../base/errors.ts'
import { diskFaultOf } from '../base/file-faults.ts'
import { isNoFile } from '../base/plain-file.ts'
import { unusableError, unusableSentence, whyUnusable } from '../base/unusable.ts'
import { sqliteAddon } from './addon.ts'
import { Store } from './database.ts'
import { defineDigest } from './digests.ts'
import { migrations } from './schema/migrations.ts'
import { version } from '../base/version.ts'
import { writerNumber, writerOf } from './written-by.ts'

export const BUSY_TIMEOUT = 5000
export const DATABASE = 'postrider.db'

/**
 * Creates the data directory when it is missing, for its owner alone.
 * Throws an OperatorError when it cannot, or when others may read it.
 */
export function makeDataDir(dataDir: string): void {
  try {
    makeDirectory(dataDir)
  } catch (thrown) {
    throw (
      unusableError(thrown, dataDir) ??
      new OperatorError(
        `The data directory ${dataDir} cannot be created (${codeOf(thrown)}); choose another "data_dir".`,
      )
    )
  }
  demandClosed(dataDir)
}

/** Throws an OperatorError for a data directory that other users may read: it holds emails and hashes of tokens. */
export function demandClosed(dataDir: string): void {
  if ((statSync(dataDir).mode & 0o007) !== 0) throw new OperatorError(unusableSentence('open', dataDir))
}

export interface OpenOptions {
  /**
   * Returns the names of other files of an installation in the data directory. When there are any, a database without
   * tables is rejected as the wrong one.
   */
  newBeside?: () => string[]
}

/**
 * Opens the database of a data directory, or creates it. One of an older version is rejected: upgrade.ts upgrades it
 * first. Throws an OperatorError.
 */
export function openStore(dataDir: string, options: OpenOptions = {}): Store {
  return withDatabase(dataDir, options, (database, file) => {
    settleSchema(database, file)
    return new Store(database, file)
  })
}

/**
 * Opens a database with the settings of the server, with any schema. `use` closes it or passes it on. If it throws, the
 * database is closed. Throws an OperatorError.
 */
export function withDatabase<T>(
  dataDir: string,
  options: OpenOptions,
  use: (database: Database.Database, file: string) => T,
): T {
  const file = join(dataDir, DATABASE)
  makeDataDir(dataDir)
  let database: Database.Database | undefined
  try {
    database = new Database(file, { timeout: BUSY_TIMEOUT, ...sqliteAddon(dataDir) })
    refuseStrange(database, file, options)
    // With this setting free pages can be released to the disk a few at a time.
    if (database.pragma('page_count', { simple: true }) === 0) database.pragma('auto_vacuum = INCREMENTAL')
    database.pragma('journal_mode = WAL')
    database.pragma('synchronous = FULL')
    database.pragma('foreign_keys = ON')
    // Deleted content is overwritten: an erased address must not be found in free space.
    database.pragma('secure_delete = ON')
    database.pragma('cache_size = -16000')
    database.pragma('temp_store = MEMORY')
    // 16 MB of log between checkpoints: a page that changes often is copied once, not at each change.
    database.pragma('wal_autocheckpoint = 4000')
    // A long log is truncated once the reader that held it has finished.
    database.pragma('journal_size_limit = 67108864')
    // The triggers of digests need this function, and so does the migration that creates them.
    defineDigest(database)
    return use(database, file)
  } catch (thrown) {
    database?.close()
    if (thrown instanceof OperatorError) throw thrown
    throw new OperatorError(sentenceFor(thrown, file), { cause: thrown })
  }
}

const OF_DATABASE = /^SQLITE_(?:NOTADB|CORRUPT|FULL|IOERR|NOMEM|CANTOPEN|READONLY|PERM|BUSY)/

/**
 * Turns an error of files or memory (damage, a full disk, permissions) into an OperatorError. Other errors are returned
 * unchanged.
 */
export function explained(thrown: unknown, dataDir: string): unknown {
  return OF_DATABASE.test(codeOf(thrown))
    ? new OperatorError(sentenceFor(thrown, join(dataDir, DATABASE)), { cause: thrown })
    : explainedFile(thrown)
}

/**
 * Turns a failed system call on a file, and an SQLite error about a database without a known name, into an
 * OperatorError. Other errors are returned unchanged.
 */
export function explainedFile(thrown: unknown): unknown {
  const code = codeOf(thrown)
  if (OF_DATABASE.test(code))
    return new OperatorError(
      `A database cannot be read or written (${messageOf(thrown)}); check whether the disk is full or failing.`,
      { cause: thrown },
    )
  const { path, syscall } = failedCall(thrown)
  const disk = diskFaultOf(thrown)
  // An error of a call on an open file contains no path.
  if (path === undefined && disk !== undefined)
    return new OperatorError(`A file cannot be read or written (${syscall}: ${code}): ${disk.what}; ${disk.fix}.`, {
      cause: thrown,
    })
  if (!/^E[A-Z]+$/.test(code) || path === undefined) return thrown
  const unusable = unusableError(thrown, path)
  if (unusable) return unusable
  if (code !== 'ENOENT' && isNoFile(thrown))
    return new OperatorError(`${path} is not a regular file (${code}); move it away.`, { cause: thrown })
  return new OperatorError(
    `${path} cannot be used (${syscall ?? 'access'}: ${code}); check its owner, whether its disk is full or failing, and the limit of open files.`,
    { cause: thrown },
  )
}

/** Tables that every version has. A file with other tables but without these is not a database of Postrider. */
const OURS = ['users', 'tokens', 'domains', 'dkim_keys', 'outbound_emails', 'outbound_bodies', 'deliveries', 'events']

/**
 * Rejects a database with the tables of another application, and an empty database next to other files of an
 * installation: in both cases the right database is missing.
 */
function refuseStrange(database: Database.Database, file: string, { newBeside }: OpenOptions): void {
  const tables = database.prepare<[], string>(`select name from sqlite_schema where type = 'table'`).pluck().all()
  const begun = tables.length > 0 || (database.pragma('user_version', { simple: true }) as number) > 0
  const ways =
    'Is its disk mounted? If the database is lost, restore a backup with "postrider restore --replace FILE", or start over with "postrider init --new", which moves the existing files aside.'
  if (begun && !OURS.every((name) => tables.includes(name)))
    throw new OperatorError(`${file} is not a Postrider database, because its tables are missing. ${ways}`)
  const beside = begun ? [] : (newBeside?.() ?? [])
  if (beside.length > 0) throw new OperatorError(`${file} is empty, but ${beside.join(', ')} exists. ${ways}`)
}

function settleSchema(database: Database.Database, file: string): void {
  const found = schemaOf(database)
  if (found > migrations.length) {
    const by = writerOf(database)
    throw new OperatorError(
      `${file} was written by a newer Postrider (${by === undefined ? '' : `${by}, `}schema ${found}; this version is ${version} with schema ${migrations.length}); start ${by === undefined ? 'that version' : `version ${by} (image tag ${by})`}, roll back with "postrider upgrade --rollback", or restore a backup made before the upgrade.`,
    )
  }
  if (found === 0) migrateAll(database)
  else if (found < migrations.length)
    throw new OperatorError(
      `${file} was written by an older Postrider (schema ${found}; this version has ${migrations.length}); restart the server with this version, or run "postrider upgrade".`,
    )
}

export const schemaOf = (database: Database.Database): number =>
  Number(database.pragma('user_version', { simple: true }))

/**
 * Runs the missing migrations in one transaction. A database from before 0.2.0 is then rewritten, so that it can free
 * space. `onProgress` is called after each migration with their number so far.
 */
export function migrateAll(database: Database.Database, onProgress: (done: number) => void = () => {}): void {
  database.exec('begin immediate')
  try {
    const found = schemaOf(database)
    for (const [index, sql] of migrations.slice(found).entries()) {
      database.exec(sql)
      onProgress(index + 1)
    }
    database.pragma(`user_version = ${migrations.length}`)
    database.pragma(`application_id = ${writerNumber(version)}`)
    database.exec('commit')
  } catch (thrown) {
    if (database.inTransaction) database.exec('rollback')
    throw thrown
  }
  makeRoomReturnable(database)
}

/**
 * Rewrites a database from before 0.2.0, which cannot release space. Without enough free space for that, the database
 * stays unchanged until the next upgrade.
 */
function makeRoomReturnable(database: Database.Database): void {
  if (database.pragma('auto_vacuum', { simple: true }) !== 0) return
  try {
    database.pragma('auto_vacuum = INCREMENTAL')
    database.exec('vacuum')
  } catch (thrown) {
    if (codeOf(thrown) !== 'SQLITE_FULL') throw thrown
  }
}

function sentenceFor(thrown: unknown, file: string): string {
  const why = whyUnusable(thrown, file)
  if (why) return `${unusableSentence(why, file)}${why === 'full' ? ' Nothing was changed.' : ''}`
  switch (/^SQLITE_[A-Z]+/.exec(codeOf(thrown))?.[0] ?? '') {
    case 'SQLITE_NOTADB':
    case 'SQLITE_CORRUPT':
      return `${file} is corrupt; keep the file, and restore a backup with "postrider restore --replace FILE".`
    case 'SQLITE_BUSY':
      return `${file} is locked by another process; stop it and start again.`
    case 'SQLITE_NOMEM':
      return `There is not enough memory to use ${file}; stop other processes, or give Postrider more memory.`
    case 'SQLITE_IOERR':
      return `${file} cannot be read or written (${codeOf(thrown)}); check whether its disk is full or failing, then start again.`
    default:
      return `${file} cannot be opened: ${messageOf(thrown)}.`
  }
}
