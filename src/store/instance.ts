// One installation: a database, the key that encrypts its secrets, and the spool. They belong together: when one is
// missing, Postrider does not start, because a disk that is not mounted yet looks like a new installation.
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { unusableError } from '../base/unusable.ts'
import { KEY_FILE, openKeyring, type Keyring } from '../base/keyring.ts'
import type { Store, Tx } from './database.ts'
import { digestNumber, isIntact } from './digests.ts'
import { scanLog, type LogDamage } from './log.ts'
import { isAside, isExchange } from './exchange.ts'
import { DATABASE, openStore, type OpenOptions } from './open.ts'
import { QUARANTINE } from './spool.ts'
import { upgradeDatabase, type Upgrading } from './upgrade.ts'
import { raw } from './query.ts'
import type { RowOf } from './schema/tables.ts'

/** The other files of an installation in its data directory, next to the database. */
const LEDGER = 'erasures.ledger'
const BELONGINGS = [KEY_FILE, LEDGER, `${DATABASE}-wal`]

export interface InstanceOptions extends OpenOptions {
  /**
   * Called when committed transactions in the write-ahead log can no longer be read. Only the holder of the lock may
   * set it, because no other process may write in the meantime.
   */
  logDamaged?: (damage: LogDamage) => void
  /** A new installation is requested, even next to one that was moved aside. */
  begins?: boolean
}

export interface Instance {
  store: Store
  keyring: Keyring
}

/** As `openInstance`, for the holder of the lock: upgrades an older database first, and reports the progress. */
export async function openUpgraded(
  dataDir: string,
  options: Upgrading & Pick<InstanceOptions, 'logDamaged'>,
): Promise<Instance> {
  refuseRemains(dataDir)
  reportDamage(dataDir, options)
  await upgradeDatabase(dataDir, options)
  return openInstance(dataDir)
}

/**
 * For the holder of the lock, before any file is opened: returns a function that removes the files created from now on
 * in a directory without an installation, and the `made` file of the lock. So a failed start leaves no changes.
 */
export function undoNew(dataDir: string, made: string | undefined): () => void {
  if (existsSync(join(dataDir, DATABASE))) return () => {}
  const before = new Set(readdirSync(dataDir).filter((name) => name !== made))
  return () => {
    for (const name of readdirSync(dataDir))
      if (!before.has(name)) rmSync(join(dataDir, name), { recursive: true, force: true })
  }
}

function reportDamage(dataDir: string, { logDamaged }: Pick<InstanceOptions, 'logDamaged'>): void {
  const damage = logDamaged && scanLog(join(dataDir, DATABASE))
  if (damage) logDamaged(damage)
}

/**
 * Opens the installation in a data directory, or creates one in an empty directory. Throws an OperatorError with the
 * fix.
 */
export function openInstance(dataDir: string, options: InstanceOptions = {}): Instance {
  refuseRemains(dataDir, options.begins)
  reportDamage(dataDir, options)
  const store = openStore(dataDir, { ...options, newBeside: () => belongings(dataDir, [KEY_FILE, LEDGER]) })
  try {
    return { store, keyring: keyOf(store, dataDir) }
  } catch (thrown) {
    store.close()
    throw thrown
  }
}

/**
 * The key of a data directory, which must fit its database. A new one is created if no row depends on it yet. Throws an
 * OperatorError.
 */
function keyOf(store: Store, dataDir: string): Keyring {
  const key = join(dataDir, KEY_FILE)
  if (sealedKeys(store).length > 0 && !existsSync(key))
    throw new OperatorError(
      `${key} is missing, and without it no email can be signed; restore it from a backup ("postrider restore FILE" restores everything), or start over with "postrider init --new".`,
    )
  const keyring = openKeyring(dataDir)
  if (!keyFits(store, keyring))
    throw new OperatorError(
      `${key} does not belong to the database next to it; restore both files from the same backup ("postrider restore FILE"), or start over with "postrider init --new".`,
    )
  return keyring
}

/** Returns the problem of the key next to a database, or undefined if it belongs to it. Never creates a key. */
export function keyFaultBeside(store: Store, dataDir: string): string | undefined {
  const file = join(dataDir, KEY_FILE)
  if (!existsSync(file)) return `${file} is missing: a running server works until it stops, but backups fail`
  try {
    keyOf(store, dataDir)
    return undefined
  } catch (thrown) {
    if (thrown instanceof OperatorError) return thrown.message.replace(/(?:;.*)?\.$/s, '')
    throw thrown
  }
}

/**
 * The files of an installation whose database is missing or empty, and directories that were set aside there. Empty if
 * there is a database, or if the directory is empty.
 */
function remains(dataDir: string, begins: boolean): string[] {
  const database = statSync(join(dataDir, DATABASE), { throwIfNoEntry: false })
  if (database && database.size > 0) return []
  const names = existsSync(dataDir) ? readdirSync(dataDir) : []
  const moved = names.filter((name) => isExchange(name) || (!begins && isAside(name)))
  return [...belongings(dataDir, BELONGINGS), ...moved]
}

/** The names among these, and 'spool', that exist and are not empty. */
function belongings(dataDir: string, names: readonly string[]): string[] {
  return [...names, ...(spooled(dataDir) ? ['spool'] : [])].filter((name) => {
    const found = statSync(join(dataDir, name), { throwIfNoEntry: false })
    return found !== undefined && (found.isDirectory() || found.size > 0)
  })
}

function spooled(dataDir: string): boolean {
  const spool = join(dataDir, 'spool')
  return existsSync(spool) && readdirSync(spool).some((name) => name !== QUARANTINE)
}

/** Whether a data directory has no files of an installation. Throws an OperatorError without permission to read it. */
export function isVacant(dataDir: string): boolean {
  try {
    const bytes = statSync(join(dataDir, DATABASE), { throwIfNoEntry: false })?.size ?? 0
    return bytes === 0 && remains(dataDir, false).length === 0
  } catch (thrown) {
    throw unusableError(thrown, dataDir) ?? thrown
  }
}

/** For commands that need an existing installation. Throws an OperatorError with the directory if it is missing. */
export function demandInstallation(dataDir: string): void {
  refuseRemains(dataDir)
  if (!isVacant(dataDir)) return
  throw new OperatorError(
    `There is no installation in ${dataDir}${existsSync(dataDir) ? '' : ', which does not exist'}; mount its disk, choose another configuration with --config, or run "postrider init".`,
  )
}

function refuseRemains(dataDir: string, begins = false): void {
  const left = remains(dataDir, begins)
  if (left.length === 0) return
  throw new OperatorError(
    `${dataDir} contains ${left.join(', ')} but no database (${DATABASE}); check that its disk is mounted, restore a backup with "postrider restore FILE", or start over with "postrider init --new", which moves existing data aside.`,
  )
}

/** The most encrypted keys that are tried. Most installations have fewer. */
const TRIED = 100

type SealedRow = RowOf<'dkim_keys'> & { row_digest: Uint8Array | null }

/**
 * Whether the instance key of the data directory belongs to the database: it decrypts one of the encrypted DKIM keys,
 * or all of them are corrupt or missing. A corrupt row proves neither.
 */
export function keyFits(reader: Pick<Tx, 'all'>, keyring: Keyring): boolean {
  const sealed = sealedKeys(reader)
  return (
    sealed.some((row) => opens(keyring, row.id, row.sealed_private_key!)) ||
    sealed.every((row) => !isIntact('dkim_keys', { ...row }, row.row_digest))
  )
}

/** Encrypted DKIM keys of the database. The database of an older version has no digests. */
function sealedKeys(reader: Pick<Tx, 'all'>): SealedRow[] {
  const digests = reader.all(raw(`select 1 from sqlite_schema where name = 'digests'`)).length > 0
  const digest = `(select digest from digests where "of" = ${digestNumber('dkim_keys')} and row_key = k.key)`
  return reader.all(
    raw<SealedRow>(
      `select k.*, ${digests ? digest : 'null'} as row_digest from dkim_keys k
       where sealed_private_key is not null order by key desc limit ${TRIED}`,
    ),
  )
}

function opens(keyring: Keyring, id: string, box: Uint8Array): boolean {
  try {
    keyring.open(id, box)
    return true
  } catch {
    return false
  }
}
