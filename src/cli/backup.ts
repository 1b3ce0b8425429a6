// `postrider backup`, `restore` and `verify`. A backup is a consistent copy of the whole data directory in one zip
// file, made while the server runs. A restore puts it into an empty directory. A verification checks that everything is
// intact.
import {
  copyFileSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  createWriteStream,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import { ZipFile } from 'yazl'
import { iso } from '../base/clock.ts'
import { syncPath } from '../base/durable.ts'
import type { Keyring } from '../base/keyring.ts'
import { codeOf, messageOf, OperatorError, unwritable } from '../base/errors.ts'
import { fingerprintOf, keepCopy, markLedger } from '../privacy/ledger.ts'
import { QUARANTINE } from '../store/spool.ts'
import type { Store } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import { FILES, readThrough } from './backup-archive.ts'
import { restoreCommand } from './restore.ts'
import { withDeps, type Deps, type Invocation } from './open.ts'
import { LAST_BACKUP } from '../api/figures.ts'
import { faultsOfCopy, listed, MISSING } from './soundness.ts'
import { answer, printable } from './terminal.ts'

export function backupCommands(program: Command, invocation: () => Invocation): void {
  program
    .command('backup <file>')
    .description('a consistent copy of database, spool and keys in one zip file')
    .option('--force', 'keep the copy although something in it is damaged')
    .action((file: string, { force }: { force?: true }) =>
      withDeps(invocation(), async (deps) => {
        const target = resolve(file)
        if (existsSync(target)) throw new OperatorError(`${target} exists; choose another file.`)
        const tell = (sentence: string): void => invocation().terminal.err(`postrider: ${printable(sentence)}\n`)
        const { faults, files } = await backUp(deps, target, force === true, tell)
        // The time of the last backup, for the monitoring system. If it cannot be written, the backup is valid all the
        // same.
        try {
          writeFileSync(join(deps.config.data_dir, LAST_BACKUP), `${iso(deps.clock.now())}\n`, { mode: 0o600 })
        } catch (thrown) {
          tell(
            `The backup is made, but its time cannot be noted for /metrics (${codeOf(thrown) || messageOf(thrown)}).`,
          )
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
async function backUp(
  { clock, config, keyring, store }: Deps,
  target: string,
  force: boolean,
  tell: (sentence: string) => void,
): Promise<Made> {
  const { data_dir, privacy } = config
  // In the target's folder, because the copy of the database may be large.
  const place = asideOf(target)
  try {
    const spool = join(data_dir, 'spool')
    const kept = join(place, 'spool')
    mkdirSync(kept, { mode: 0o700 })
    // A mark with this time: a ledger without the mark is older than the backup.
    const owner = fingerprintOf(keyring)
    const at = iso(clock.now())
    markLedger(data_dir, { ledger: owner, at })
    try {
      keepCopy(data_dir, privacy.ledger_copy, owner, at)
    } catch (thrown) {
      tell(`The copy of the ledger ${privacy.ledger_copy} cannot be written (${codeOf(thrown) || messageOf(thrown)}).`)
    }
    const faults = await copyAll(store, spool, place, keyring)
    if (faults.length > 0 && !force)
      throw new OperatorError(
        `No backup was made, for this is damaged: ${listed(faults)}; mend it, or add --force to keep a copy as it is.`,
      )
    const files = [
      { path: join(place, DATABASE), name: DATABASE },
      ...FILES.map((name) => ({ path: join(data_dir, name), name })).filter(({ path }) => existsSync(path)),
      ...readdirSync(kept).map((name) => ({ path: join(kept, name), name: `spool/${name}` })),
    ]
    const draft = join(place, 'backup.zip')
    await writeZip(draft, files)
    syncPath(draft)
    await readThrough(draft)
    putInPlace(draft, target)
    return { files: files.length, faults }
  } catch (thrown) {
    throw unwritable(target, thrown)
  } finally {
    rmSync(place, { recursive: true, force: true })
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

/** Copies database and spool into a folder, then checks the copy as `verify` does; returns the damage. */
async function copyAll(store: Store, spool: string, place: string, keyring: Keyring): Promise<string[]> {
  for (let again = true; ; again = false) {
    // The files are copied before and after the database: files of its rows may be deleted or added during the copy.
    keepFiles(spool, join(place, 'spool'))
    await store.copyTo(join(place, DATABASE)).catch((thrown: unknown) => {
      if (codeOf(thrown) !== 'SQLITE_FULL') throw thrown
      throw new OperatorError(
        `The disk of ${dirname(place)} has no room for a copy of the database; a backup needs about the size of the database there, for a while.`,
      )
    })
    keepFiles(spool, join(place, 'spool'))
    const faults = await faultsOfCopy(place, keyring).catch((thrown: unknown) => {
      throw new OperatorError(`The database is damaged (${messageOf(thrown)}); "postrider verify" says more.`)
    })
    // A file that was added and deleted while the database was copied is missing only in this copy.
    if (!again || !faults.some((fault) => fault.endsWith(`${MISSING}.`))) return faults
    for (const end of ['', '-wal', '-shm']) rmSync(join(place, `${DATABASE}${end}`), { force: true })
  }
}

/** Makes a new folder in the folder of a future file. Throws an OperatorError. */
function asideOf(target: string): string {
  try {
    return mkdtempSync(join(dirname(target), `.${basename(target)}-`))
  } catch (thrown) {
    throw unwritable(target, thrown)
  }
}

/** Copies every file of the spool: by a hard link, or by its content when it is on another disk. */
function keepFiles(spool: string, kept: string): void {
  for (const name of existsSync(spool) ? readdirSync(spool) : []) {
    if (name === QUARANTINE || name.endsWith('.part') || existsSync(join(kept, name))) continue
    try {
      linkSync(join(spool, name), join(kept, name))
    } catch (thrown) {
      if (codeOf(thrown) === 'ENOENT') continue
      try {
        copyFileSync(join(spool, name), join(kept, name))
      } catch (failed) {
        // Deleted in the meantime, because its mail was sent or deleted.
        if (codeOf(failed) !== 'ENOENT') throw failed
      }
    }
  }
}
