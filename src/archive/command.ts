// `postrider backup`, `restore` and `verify`. A backup is a consistent copy of the whole data directory in one zip
// file, made while the server runs. A restore puts it into an empty directory. A verification checks that everything is
// intact.
import {
  closeSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readSync,
  rmSync,
  statSync,
  createWriteStream,
  writeSync,
} from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import { ZipFile } from 'yazl'
import { iso } from '../base/clock.ts'
import { syncPath } from '../base/durable.ts'
import type { Keyring } from '../base/keyring.ts'
import { codeOf, codeOrMessage, messageOf, OperatorError, unwritable } from '../base/errors.ts'
import { asCallerAt } from '../base/ownership.ts'
import { isNoFile, openPlain, writePlain } from '../base/plain-file.ts'
import { fingerprintOf, keepCopy, markLedger } from '../privacy/ledger.ts'
import { QUARANTINE } from '../store/spool.ts'
import { copyDatabase } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { FILES, readThrough } from './backup-archive.ts'
import { clearOnSignal, LEAVING, noteFolder, removeLeavings } from './leavings.ts'
import { restoreCommand } from './restore.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { LAST_BACKUP } from '../checks/figures.ts'
import { faultsOfCopy, listed, MISSING } from './integrity.ts'
import { forTerminal } from '../base/clean-text.ts'
import { answer } from '../commands/terminal.ts'

export function backupCommands(program: Command, invocation: () => Invocation): void {
  program
    .command('backup <file>')
    .description('a consistent copy of database, spool and keys in one zip file')
    .option('--force', 'keep the copy although something in it is damaged')
    .action((file: string, { force }: { force?: true }) =>
      withDeps(invocation(), async (deps) => {
        const target = resolve(file)
        if (asCallerAt(target, () => existsSync(target)))
          throw new OperatorError(`${target} exists; choose another file.`)
        const tell = (sentence: string): void => invocation().terminal.err(`postrider: ${forTerminal(sentence)}\n`)
        const { faults, files } = await backUp(deps, target, force === true, tell)
        // The time of the last backup, for the monitoring system. If it cannot be written, the backup is valid all the
        // same.
        try {
          writePlain(join(deps.config.data_dir, LAST_BACKUP), `${iso(deps.clock.now())}\n`)
        } catch (thrown) {
          tell(`The backup is made, but its time cannot be noted for /metrics (${codeOrMessage(thrown)}).`)
        }
        answer(invocation().terminal, { file: target, files, faults }, () =>
          [
            `${files} files are in ${target}. It holds the keys: keep it as safe as the server.`,
            ...(faults.length === 0 ? [] : [`Damaged: ${listed(faults)}.`]),
          ].join('\n'),
        )
      }),
    )
  restoreCommand(program, invocation)
}

interface Made {
  files: number
  /** The damage in the copied data, in sentences. */
  faults: string[]
}

/** Writes the zip. Throws an OperatorError, also when data is damaged and `force` is not set. */
async function backUp(deps: Deps, target: string, force: boolean, tell: (sentence: string) => void): Promise<Made> {
  const { clock, config, keyring } = deps
  const { data_dir } = config
  const outside = <T>(work: () => T): T => asCallerAt(target, work)
  noteFolder(data_dir, dirname(target))
  outside(() => removeLeavings(dirname(target), clock.now()))
  let made: string | undefined
  const clear = (): void => {
    const place = made
    if (place !== undefined) outside(() => rmSync(place, { recursive: true, force: true }))
  }
  // Before there is anything to leave.
  const unheard = clearOnSignal(clear)
  try {
    // In the target's folder, because the copy of the database may be large.
    const place = (made = outside(() => asideOf(target)))
    const spool = join(data_dir, 'spool')
    const kept = join(place, 'spool')
    outside(() => mkdirSync(kept, { mode: 0o700 }))
    markLedgers(deps, tell)
    const faults = await copyAll({ dataDir: data_dir, spool, place, outside, keyring })
    if (faults.length > 0 && !force)
      throw new OperatorError(
        `No backup was made, for this is damaged: ${listed(faults)}; fix it, or add --force to keep a copy as it is.`,
      )
    const present = FILES.filter((name) => keepPlain(join(data_dir, name), join(place, name), outside))
    return await outside(async () => {
      const names = [DATABASE, ...present, ...readdirSync(kept).map((name) => `spool/${name}`)]
      const draft = join(place, 'backup.zip')
      await writeZip(
        draft,
        names.map((name) => ({ path: join(place, name), name })),
      )
      syncPath(draft)
      await readThrough(draft)
      putInPlace(draft, target)
      return { files: names.length, faults }
    })
  } catch (thrown) {
    throw unwritable(target, thrown)
  } finally {
    clear()
    unheard()
  }
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
    tell(`The copy of the ledger ${privacy.ledger_copy} cannot be written (${codeOrMessage(thrown)}).`)
  }
}

/** Writes a new zip with these files; `name` is the name in the zip. Throws errors of the file system. */
async function writeZip(target: string, files: readonly { path: string; name: string }[]): Promise<void> {
  const zip = new ZipFile()
  const failed = Promise.withResolvers<never>()
  // Prevents an unhandled rejection when the race below is already over.
  failed.promise.catch(() => {})
  zip.on('error', failed.reject)
  for (const { name, path } of files) zip.addFile(path, name)
  zip.end()
  const written = pipeline(zip.outputStream, createWriteStream(target, { mode: 0o600, flags: 'wx' }))
  await Promise.race([written, failed.promise]).catch(async (thrown: unknown) => {
    // The unfinished zip is closed before its folder is removed.
    if (zip.outputStream instanceof Readable) zip.outputStream.destroy()
    await written.catch(() => {})
    throw thrown
  })
}

/** Gives the finished file its name, durably. Throws when a file of that name was created in the meantime. */
function putInPlace(draft: string, target: string): void {
  linkSync(draft, target)
  try {
    syncPath(dirname(target))
  } catch (thrown) {
    // A power cut might remove it: no backup is better than one that only seems to exist.
    rmSync(target, { force: true })
    throw thrown
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
    outside(() => {
      for (const end of ['', '-wal', '-shm']) rmSync(join(place, `${DATABASE}${end}`), { force: true })
    })
  }
}

/** Makes a new folder in the folder of a future file. Throws an OperatorError. */
function asideOf(target: string): string {
  try {
    return mkdtempSync(join(dirname(target), LEAVING))
  } catch (thrown) {
    throw unwritable(target, thrown)
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
