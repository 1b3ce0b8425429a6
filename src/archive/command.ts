// `postrider backup`, `restore` and `verify`. A backup is a consistent copy of the whole data directory in one zip
// file, made while the server runs. A restore puts it into an empty directory. A verification checks that everything is
// intact.
import { existsSync, linkSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Command } from 'commander'
import { syncPath } from '../base/durable.ts'
import { OperatorError } from '../base/errors.ts'
import { unwritable } from '../base/file-faults.ts'
import { asCallerAt } from '../base/ownership.ts'
import { isMemory } from '../base/space.ts'
import { readThrough } from './backup-archive.ts'
import { noteBackup, targetCommands, tellOn } from './command-backup.ts'
import { takeLock } from '../store/lock.ts'
import { clearOnSignal } from '../base/clear-on-signal.ts'
import { makeScratch, noteFolder, removeLeavings } from '../store/leavings.ts'
import { writeZip } from './pack.ts'
import { restoreCommand } from './restore.ts'
import { takeSnapshot } from './snapshot.ts'
import { withDeps, type Deps, type Invocation } from '../commands/open.ts'
import { listed } from './integrity.ts'
import { answer } from '../commands/terminal.ts'

export function backupCommands(program: Command, invocation: () => Invocation): void {
  const backup = program
    .command('backup <file>')
    .description(
      'a consistent copy of database, spool and keys in one zip file, or at the targets of the configuration',
    )
    .option('--force', 'keep the copy although something in it is damaged')
    .action((file: string, { force }: { force?: true }) =>
      withDeps(invocation(), async (deps) => {
        const target = resolve(file)
        if (asCallerAt(target, () => existsSync(target)))
          throw new OperatorError(`${target} exists; choose another file.`)
        const tell = tellOn(invocation().terminal)
        const { faults, files } = await backUp(deps, target, force === true, tell)
        noteBackup(deps.config.data_dir, deps.clock, tell)
        if (isMemory(dirname(target)) && !isMemory(deps.config.data_dir))
          tell(
            `${dirname(target)} is memory (tmpfs), and ${target} goes when this machine or container stops; move it to a disk now.`,
          )
        answer(invocation().terminal, { file: target, files, faults }, () =>
          [
            `${files} files are in ${target}. It holds the keys: keep it as safe as the server.`,
            ...(faults.length === 0 ? [] : [`Damaged: ${listed(faults)}.`]),
          ].join('\n'),
        )
      }),
    )
  targetCommands(backup, invocation)
  restoreCommand(program, invocation)
}

interface Made {
  files: number
  /** The damage in the copied data, in sentences. */
  faults: string[]
}

/** Writes the zip. Throws an OperatorError, also when data is damaged and `force` is not set. */
async function backUp(deps: Deps, target: string, force: boolean, tell: (sentence: string) => void): Promise<Made> {
  const { clock, config } = deps
  const { data_dir } = config
  const outside = <T>(work: () => T): T => asCallerAt(target, work)
  const isInside = dirname(target) === resolve(data_dir)
  const release = isInside ? takeLock(data_dir, 'backup.lock') : (): void => {}
  if (!release) throw new OperatorError('Another backup is under way; wait for its end.')
  noteFolder(data_dir, dirname(target))
  outside(() => removeLeavings(dirname(target), clock.now()))
  let clear = (): void => {}
  // Before there is anything to leave.
  const unheard = clearOnSignal(() => clear())
  try {
    // In the target's folder, because the copy of the database may be large.
    const { folder: place, remove } = outside(() => makeScratch(dirname(target)))
    clear = () => outside(remove)
    const { faults, files } = await takeSnapshot(deps, { place, force, outside, tell })
    return await outside(async () => {
      const draft = join(place, 'backup.zip')
      await writeZip(draft, files)
      syncPath(draft)
      await readThrough(draft)
      putInPlace(draft, target)
      return { files: files.length, faults }
    })
  } catch (thrown) {
    throw unwritable(target, thrown)
  } finally {
    clear()
    release()
    unheard()
  }
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
