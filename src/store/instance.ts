// One installation: a database, the key that seals its secrets, and the spool. They belong together: when one is
// missing, the start is refused, because a disk that is not mounted yet looks like a new installation.
import { existsSync, readdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { OperatorError } from '../base/errors.ts'
import { KEY_FILE, openKeyring, type Keyring } from '../base/keyring.ts'
import type { Store, Tx } from './database.ts'
import { digestNumber, isIntact } from './digests.ts'
import { scanLog, type LogDamage } from './log-scan.ts'
import { isAside, isExchange } from './exchange.ts'
import { DATABASE, openStore, type OpenOptions } from './open.ts'
import { QUARANTINE } from './spool.ts'
import { upgradeDatabase, type Upgrading } from './upgrade.ts'
import { raw } from './query.ts'
import type { RowOf } from '../schema/tables.ts'

/** The other files of an installation in its data directory, beside the database. */
const LEDGER = 'erasures.ledger'
const BELONGINGS = [KEY_FILE, LEDGER, `${DATABASE}-wal`]

export interface InstanceOptions extends OpenOptions {
  /**
   * Called when committed transactions in the write-ahead log can no longer be read. Only the holder of the lock may
   * set it, because no other process may write meanwhile.
   */
  logDamaged?: (damage: LogDamage) => void
  /** A new installation is wanted, also beside one that was moved aside. */
  begins?: boolean
}

export interface Instance {
  store: Store
  keyring: Keyring
}

/**
 * As `openInstance`, for the holder of the lock: upgrades an older database first, and says meanwhile how far that is.
 */
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
 * For the holder of the lock, before anything is opened: a function that removes what is made from now on in a
 * directory without an installation, and the `made` file of the lock. A start that fails has then changed nothing.
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
 * Opens the installation in a data directory; creates one when the directory is empty.
 * Throws an OperatorError that says what to do.
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

/** The key of a data directory, which fits its database; made where nothing needs one yet. Throws an OperatorError. */
function keyOf(store: Store, dataDir: string): Keyring {
  const key = join(dataDir, KEY_FILE)
  if (sealedKeys(store).length > 0 && !existsSync(key))
    throw new OperatorError(
      `${key} is missing, and without it no mail can be signed; put it back from a backup ("postrider restore FILE" puts all of it back), or begin again with "postrider init --new".`,
    )
  const keyring = openKeyring(dataDir)
  if (!keyFits(store, keyring))
    throw new OperatorError(
      `${key} does not belong to the database beside it; put the two files of one installation together, from the same backup ("postrider restore FILE"), or begin again with "postrider init --new".`,
    )
  return keyring
}

/** What is wrong with the key beside a database; undefined: nothing. It makes none. */
export function keyFaultBeside(store: Store, dataDir: string): string | undefined {
  const file = join(dataDir, KEY_FILE)
  if (!existsSync(file)) return `${file} is gone: a running server goes on until it stops, and backups fail`
  try {
    keyOf(store, dataDir)
    return undefined
  } catch (thrown) {
    if (thrown instanceof OperatorError) return thrown.message.replace(/(?:;.*)?\.$/s, '')
    throw thrown
  }
}

/**
 * The files of an installation whose database is missing or empty, and folders of what was moved aside there; none when
 * there is a database, or nothing at all.
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

function refuseRemains(dataDir: string, begins = false): void {
  const left = remains(dataDir, begins)
  if (left.length === 0) return
  throw new OperatorError(
    `${dataDir} holds ${left.join(', ')} but no database (${DATABASE}). Is its disk mounted? If the database is lost, put a backup back with "postrider restore FILE", or begin again with "postrider init --new", which moves what is there aside.`,
  )
}

/** The most sealed keys that are tried; most installations have fewer. */
const TRIED = 100

type SealedRow = RowOf<'dkim_keys'> & { row_digest: Uint8Array | null }

/**
 * Whether the instance key of the data directory belongs to the database: it opens one of the sealed DKIM keys, or no
 * sealed DKIM key is intact. A damaged row proves nothing about the key.
 */
export function keyFits(reader: Pick<Tx, 'all'>, keyring: Keyring): boolean {
  const sealed = sealedKeys(reader)
  return (
    sealed.some((row) => opens(keyring, row.id, row.sealed_private_key!)) ||
    sealed.every((row) => !isIntact('dkim_keys', { ...row }, row.row_digest))
  )
}

/** Sealed DKIM keys of the database; the database of an older version has no digests. */
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
