// A consistent copy of database, spool and keys, made while the server runs, and verified. Every backup is made of one.
import {
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { iso } from '../base/clock.ts'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { fileFaultOf, unwritable } from '../base/file-faults.ts'
import type { Keyring } from '../base/keyring.ts'
import { isNoFile, openPlain } from '../base/plain-file.ts'
import type { Deps } from '../views/command/open.ts'
import { fingerprintOf, keepCopy, LEDGER, markLedger } from '../privacy/ledger.ts'
import { copyDatabase, removeCopy } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { foreignSchema } from '../store/integrity.ts'
import { QUARANTINE } from '../store/spool.ts'
import { FILES } from './backup-archive.ts'
import { faultsOfCopy, listed, MISSING } from './integrity.ts'
import type { Tell } from './transfer.ts'

/** A file of a copy, with its name in the archive. */
export interface CopiedFile {
  path: string
  name: string
}

export interface Snapshot {
  files: CopiedFile[]
  /** The corrupt data, in sentences. */
  faults: string[]
}

export interface SnapshotWishes {
  /** An empty folder. */
  folder: string
  /** Accepts corrupt data. */
  force: boolean
  tell: Tell
  /** Spool files that were verified for an earlier backup, and are not read again. */
  verified?: ReadonlySet<string>
}

/** Fills the folder. Throws an OperatorError, also if data is corrupt and `force` is not set. */
export async function takeSnapshot(deps: Deps, { force, folder, tell, verified }: SnapshotWishes): Promise<Snapshot> {
  const { config, keyring } = deps
  const { data_dir } = config
  const kept = join(folder, 'spool')
  mkdirSync(kept, { mode: 0o700 })
  markLedgers(deps, tell)
  const faults = await copyAll({ dataDir: data_dir, spool: join(data_dir, 'spool'), folder, keyring, verified })
  if (faults.length > 0 && !force)
    throw new OperatorError(
      `No backup was made, because some data is corrupt: ${listed(faults)}; fix it, or add --force to back it up anyway.`,
    )
  const present = keepSmall(data_dir, folder)
  const names = [DATABASE, ...present, ...readdirSync(kept).map((name) => `spool/${name}`)]
  return { files: names.map((name) => ({ path: join(folder, name), name })), faults }
}

/** Writes a mark with this time into the ledger and its copy: a ledger without the mark is older than the backup. */
function markLedgers({ clock, config, keyring }: Deps, tell: Tell): void {
  const { data_dir, privacy } = config
  const owner = fingerprintOf(keyring)
  const at = iso(clock.now())
  try {
    markLedger(data_dir, { ledger: owner, at })
  } catch (thrown) {
    const fault = fileFaultOf(thrown)
    if (!fault) throw thrown
    throw new OperatorError(
      `No backup was made: ${join(data_dir, LEDGER)} cannot be written (${codeOf(thrown)}): ${fault.what}; ${fault.fix}.`,
    )
  }
  try {
    keepCopy(data_dir, privacy.ledger_copy, owner, at)
  } catch (thrown) {
    const why =
      thrown instanceof OperatorError ? thrown : unwritable(`The copy of the ledger ${privacy.ledger_copy}`, thrown)
    tell(messageOf(why))
  }
}

interface Copying {
  dataDir: string
  spool: string
  folder: string
  keyring: Keyring
  verified?: ReadonlySet<string> | undefined
}

/** Copies database and spool into a folder, then checks the copy as `verify` does. Returns the damage. */
async function copyAll(copying: Copying): Promise<string[]> {
  const { dataDir, folder } = copying
  for (let again = true; ; again = false) {
    // The files are copied before and after the database: files of its rows may be deleted or added during the copy.
    keepFiles(copying)
    await copyDatabase(join(dataDir, DATABASE), join(folder, DATABASE)).catch((thrown: unknown) => {
      if (codeOf(thrown) !== 'SQLITE_FULL') throw thrown
      throw new OperatorError(
        `The disk of ${dirname(folder)} is too full for a copy of the database; free about the size of the database.`,
      )
    })
    keepFiles(copying)
    const faults = await faultsIn(copying).catch((thrown: unknown) => {
      throw new OperatorError(`The database is corrupt (${messageOf(thrown)}); run "postrider verify" for details.`)
    })
    // A file that was added and deleted while the database was copied is missing only in this copy.
    if (!again || !faults.some((fault) => fault.endsWith(`${MISSING}.`))) return faults
    removeCopy(join(folder, DATABASE))
  }
}

const faultsIn = async ({ folder, keyring, verified }: Copying): Promise<string[]> => [
  // A restore would reject it.
  ...foreignSchema(join(folder, DATABASE)),
  ...(await faultsOfCopy(folder, keyring, verified)),
]

/** Copies the files besides database and spool. Returns the names of those that exist. */
export const keepSmall = (dataDir: string, folder: string): string[] =>
  FILES.filter((name) => keepPlain(join(dataDir, name), join(folder, name)))

/** Hard-links every spool file, or copies it to another disk. Links are not followed. */
export function keepFiles({ dataDir, folder, spool }: Omit<Copying, 'keyring' | 'verified'>): void {
  const { uid } = statSync(dataDir)
  for (const name of existsSync(spool) ? readdirSync(spool) : []) {
    const kept = join(folder, 'spool', name)
    if (name === QUARANTINE || name.endsWith('.part') || existsSync(kept)) continue
    if (!linkPlain(join(spool, name), kept, uid)) keepPlain(join(spool, name), kept)
  }
}

/** Links a file. False if that is not possible, if it has another owner, or if it is not a file. */
function linkPlain(file: string, kept: string, uid: number): boolean {
  try {
    linkSync(file, kept)
  } catch {
    return false
  }
  // A linked file can no longer be replaced, so it is checked now.
  const found = lstatSync(kept)
  if (found.isFile() && found.uid === uid) return true
  rmSync(kept, { force: true })
  return false
}

/** Copies a file that the owner of the data directory can read. False if it does not exist or is not a file. */
function keepPlain(file: string, kept: string): boolean {
  let from: number | undefined
  try {
    const handle = (from = openPlain(file))
    copyBytes(handle, kept)
    return true
  } catch (thrown) {
    // It may have been deleted in the meantime with its email.
    if (isNoFile(thrown)) return false
    throw thrown
  } finally {
    if (from !== undefined) closeSync(from)
  }
}

function copyBytes(from: number, kept: string): void {
  const to = openSync(kept, 'wx', 0o600)
  try {
    const chunk = Buffer.allocUnsafe(1024 * 1024)
    for (let read = readSync(from, chunk); read > 0; read = readSync(from, chunk))
      for (let at = 0; at < read;) at += writeSync(to, chunk, at, read - at)
  } finally {
    closeSync(to)
  }
}
