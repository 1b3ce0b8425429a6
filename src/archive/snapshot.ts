// A consistent copy of database, spool and keys in a folder, made while the server runs, and checked as `verify` does.
// What is written to a file or to a place for backups is made of it.
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
import { unwritable } from '../base/file-faults.ts'
import type { Keyring } from '../base/keyring.ts'
import { isNoFile, openPlain } from '../base/plain-file.ts'
import type { Deps } from '../commands/open.ts'
import { fingerprintOf, keepCopy, markLedger } from '../privacy/ledger.ts'
import { copyDatabase, removeCopy } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { QUARANTINE } from '../store/spool.ts'
import { FILES } from './backup-archive.ts'
import { faultsOfCopy, listed, MISSING } from './integrity.ts'

/** A file of a copy, with its name in the archive. */
export interface PackedFile {
  path: string
  name: string
}

export interface Snapshot {
  files: PackedFile[]
  /** The damage in the copied data, in sentences. */
  faults: string[]
}

export interface SnapshotWishes {
  /** An empty folder. */
  place: string
  /** Keeps the copy although data is damaged. */
  force: boolean
  /** Runs work on the folder as who called the command. */
  outside: <T>(work: () => T) => T
  tell: (sentence: string) => void
}

/** Fills the folder. Throws an OperatorError, also when data is damaged and `force` is not set. */
export async function takeSnapshot(deps: Deps, { force, outside, place, tell }: SnapshotWishes): Promise<Snapshot> {
  const { config, keyring } = deps
  const { data_dir } = config
  const kept = join(place, 'spool')
  outside(() => mkdirSync(kept, { mode: 0o700 }))
  markLedgers(deps, tell)
  const faults = await copyAll({ dataDir: data_dir, spool: join(data_dir, 'spool'), place, outside, keyring })
  if (faults.length > 0 && !force)
    throw new OperatorError(
      `No backup was made, for this is damaged: ${listed(faults)}; fix it, or add --force to keep a copy as it is.`,
    )
  const present = FILES.filter((name) => keepPlain(join(data_dir, name), join(place, name), outside))
  const names = outside(() => [DATABASE, ...present, ...readdirSync(kept).map((name) => `spool/${name}`)])
  return { files: names.map((name) => ({ path: join(place, name), name })), faults }
}

/** Writes a mark with this time into the ledger and its copy: a ledger without the mark is older than the backup. */
function markLedgers({ clock, config, keyring }: Deps, tell: (sentence: string) => void): void {
  const { data_dir, privacy } = config
  const owner = fingerprintOf(keyring)
  const at = iso(clock.now())
  markLedger(data_dir, { ledger: owner, at })
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
  place: string
  keyring: Keyring
  /** Runs work on the place as who called the command. */
  outside: <T>(work: () => T) => T
}

/** Copies database and spool into a folder, then checks the copy as `verify` does; returns the damage. */
async function copyAll(copying: Copying): Promise<string[]> {
  const { dataDir, keyring, outside, place } = copying
  for (let again = true; ; again = false) {
    // The files are copied before and after the database: files of its rows may be deleted or added during the copy.
    keepFiles(copying)
    await copyDatabase(join(dataDir, DATABASE), join(place, DATABASE)).catch((thrown: unknown) => {
      if (codeOf(thrown) !== 'SQLITE_FULL') throw thrown
      throw new OperatorError(
        `The disk of ${dirname(place)} has no room for a copy of the database; a backup needs about the size of the database there, for a while.`,
      )
    })
    keepFiles(copying)
    const faults = await outside(() => faultsOfCopy(place, keyring)).catch((thrown: unknown) => {
      throw new OperatorError(`The database is damaged (${messageOf(thrown)}); "postrider verify" says more.`)
    })
    // A file that was added and deleted while the database was copied is missing only in this copy.
    if (!again || !faults.some((fault) => fault.endsWith(`${MISSING}.`))) return faults
    outside(() => removeCopy(join(place, DATABASE)))
  }
}

/** Copies every file of the spool: by a hard link, or by its content on another disk. No link is followed. */
function keepFiles({ dataDir, outside, place, spool }: Copying): void {
  const { uid } = statSync(dataDir)
  for (const name of existsSync(spool) ? readdirSync(spool) : []) {
    const kept = join(place, 'spool', name)
    if (name === QUARANTINE || name.endsWith('.part') || outside(() => existsSync(kept))) continue
    const linked = outside(() => linkPlain(join(spool, name), kept, uid))
    if (!linked) keepPlain(join(spool, name), kept, outside)
  }
}

/** Links a file of this owner to a new name; false when that is not possible, or it is another's or no file. */
function linkPlain(file: string, kept: string, uid: number): boolean {
  try {
    linkSync(file, kept)
  } catch {
    return false
  }
  // What was linked can no longer be exchanged, so it is judged now.
  const found = lstatSync(kept)
  if (found.isFile() && found.uid === uid) return true
  rmSync(kept, { force: true })
  return false
}

/** Copies a file as the owner of the data directory reads it; false when it is not there, or no file. */
function keepPlain(file: string, kept: string, outside: Copying['outside']): boolean {
  let from: number | undefined
  try {
    const handle = (from = openPlain(file))
    outside(() => copyOctets(handle, kept))
    return true
  } catch (thrown) {
    // Also when it was deleted in the meantime, because its mail was sent or deleted.
    if (isNoFile(thrown)) return false
    throw thrown
  } finally {
    if (from !== undefined) closeSync(from)
  }
}

function copyOctets(from: number, kept: string): void {
  const to = openSync(kept, 'wx', 0o600)
  try {
    const chunk = Buffer.allocUnsafe(1024 * 1024)
    for (let read = readSync(from, chunk); read > 0; read = readSync(from, chunk))
      for (let at = 0; at < read;) at += writeSync(to, chunk, at, read - at)
  } finally {
    closeSync(to)
  }
}
