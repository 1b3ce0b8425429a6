// `postrider backup`, `restore` and `verify`: a consistent copy of the whole data directory in one zip file, made while
// the server runs; the way back into an empty directory; and a check that everything is intact.
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
import type { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { Command } from 'commander'
import { ZipFile } from 'yazl'
import { iso } from '../base/clock.ts'
import { syncPath } from '../base/durable.ts'
import { codeOf, OperatorError, unwritable } from '../base/errors.ts'
import { QUARANTINE } from '../store/spool.ts'
import { damageOf } from '../store/copy.ts'
import { DATABASE } from '../store/open.ts'
import { FILES, readThrough } from './backup-archive.ts'
import { restoreCommand } from './restore.ts'
import { withDesk, type Desk, type Invocation } from './open.ts'
import { LAST_BACKUP } from '../api/figures.ts'
import { answer } from './terminal.ts'

export function backupCommands(program: Command, invocation: () => Invocation): void {
  program
    .command('backup <file>')
    .description('a consistent copy of database, spool and keys in one zip file')
    .action((file: string) =>
      withDesk(invocation(), async (desk) => {
        const target = resolve(file)
        if (existsSync(target)) throw new OperatorError(`${target} exists; choose another file.`)
        const count = await backUp(desk, target)
        // For monitoring, which reports the time of the last backup.
        writeFileSync(join(desk.config.data_dir, LAST_BACKUP), `${iso(desk.clock.now())}\n`, { mode: 0o600 })
        answer(
          invocation().terminal,
          { file: target, files: count },
          () => `${count} files are in ${target}. It holds the keys: keep it as safe as the server.`,
        )
      }),
    )
  restoreCommand(program, invocation)
}

/** Writes the zip; returns the number of files in it. */
async function backUp({ config, store }: Desk, target: string): Promise<number> {
  const { data_dir } = config
  // In the target's folder, because the copy of the database may be large.
  const place = asideOf(target)
  try {
    const spool = join(data_dir, 'spool')
    const kept = join(place, 'spool')
    mkdirSync(kept, { mode: 0o700 })
    // Before and after the database: a file that it names may be deleted or created while it is copied.
    keepFiles(spool, kept)
    await store.copyTo(join(place, DATABASE))
    const damage = damageOf(join(place, DATABASE))
    if (damage)
      throw new OperatorError(
        `The database is damaged (${damage}); no backup was made of it. "postrider verify" says more.`,
      )
    keepFiles(spool, kept)
    const zip = new ZipFile()
    const failed = Promise.withResolvers<never>()
    // Prevents an unhandled rejection: the race below may be over.
    failed.promise.catch(() => {})
    zip.on('error', failed.reject)
    let count = 0
    const add = (path: string, name: string): void => {
      zip.addFile(path, name)
      count++
    }
    add(join(place, DATABASE), DATABASE)
    for (const name of FILES) if (existsSync(join(data_dir, name))) add(join(data_dir, name), name)
    for (const name of readdirSync(kept)) add(join(kept, name), `spool/${name}`)
    zip.end()
    const draft = join(place, 'backup.zip')
    const written = pipeline(
      zip.outputStream as unknown as NodeJS.ReadableStream,
      createWriteStream(draft, { mode: 0o600, flags: 'wx' }),
    )
    await Promise.race([written, failed.promise]).catch(async (thrown: unknown) => {
      // The unfinished zip is closed before its folder is removed.
      ;(zip.outputStream as unknown as Readable).destroy()
      await written.catch(() => {})
      throw thrown
    })
    syncPath(draft)
    await readThrough(draft)
    // Never replaces a file that was created meanwhile.
    linkSync(draft, target)
    try {
      syncPath(dirname(target))
    } catch (thrown) {
      // It might be lost in a power cut: no backup is better than one that only seems to exist.
      rmSync(target, { force: true })
      throw thrown
    }
    return count
  } catch (thrown) {
    throw unwritable(target, thrown)
  } finally {
    rmSync(place, { recursive: true, force: true })
  }
}

/** A temporary folder beside a future file. Throws an OperatorError. */
function asideOf(target: string): string {
  try {
    return mkdtempSync(join(dirname(target), `.${basename(target)}-`))
  } catch (thrown) {
    throw unwritable(target, thrown)
  }
}

/** Keeps every file of the spool: by a hard link, or by a copy when the disk is another. */
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
        // Deleted meanwhile, because its mail was sent or deleted.
        if (codeOf(failed) !== 'ENOENT') throw failed
      }
    }
  }
}
