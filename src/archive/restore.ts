// `postrider restore`: moves a backup into the data directory, completely or not at all. The backup is checked, and is
// durable on the disk before the command reports success. Erasures since the backup are repeated, from every ledger
// that has them (D67).
import { existsSync, mkdtempSync, readdirSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { syncPath } from '../base/durable.ts'
import { OperatorError } from '../base/errors.ts'
import { becomeOwner, makeForService } from '../base/ownership.ts'
import { counted } from '../base/text.ts'
import { asideText, exchange, isAside } from '../store/exchange.ts'
import { takeLock } from '../store/lock.ts'
import { DATABASE } from '../store/open.ts'
import { FILES } from './backup-archive.ts'
import {
  checkBackup,
  copiesOf,
  listBackups,
  selectionOf,
  sourceDeps,
  withIdentities,
  type FromOptions,
} from './check-backup.ts'
import { clearOnSignal } from '../base/clear-on-signal.ts'
import { settingsOf, settingsOfFormer, type Invocation } from '../views/command/open.ts'
import { demandLedgers, mergeLedgers, type LedgerWishes } from './restore-ledgers.ts'
import { refuseUnused } from '../views/command/unused-options.ts'
import { sourceOf, type Source, type RestoreDeps } from './source.ts'
import { listed } from './integrity.ts'
import { tellOn, type Tell } from './transfer.ts'
import { unpackBackup } from './unpacked-backup.ts'
import { answer } from '../views/command/terminal.ts'

interface RestoreOptions extends LedgerWishes, FromOptions {
  replace?: true
  list?: true
  check?: true
}

const FROM = ['identity', 'at', 'installation', 'ledger', 'withoutLedger', 'force'] as const

/** The options of each mode. Others are rejected. */
const MODES = {
  list: { used: ['list'], way: 'with --list' },
  check: { used: ['check', 'workDir', ...FROM], way: 'with --check' },
  restore: { used: ['replace', ...FROM], way: 'without --check' },
} as const

export function restoreCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('restore')
    .argument('<from>', 'file, directory, destination URL, or - for standard input')
    .description('restore a backup from a file or a backup destination')
    .option('--identity <file>', 'file with the secret key (default: "backup.identity_file")')
    .option('--at <time>', 'newest backup made at or before this time')
    .option('--installation <id>', 'installation id, if the destination has several')
    .option('--list', 'list the backups only')
    .option('--check', 'test-restore into a temporary directory only')
    .option(
      '--ledger <file>',
      'latest erasures.ledger of the installation (repeatable)',
      (file: string, before: string[] | undefined) => [...(before ?? []), file],
    )
    .option('--without-ledger', 'restore without repeating the erasures since the backup')
    .option('--force', 'restore even if some data is corrupt')
    .option('--replace', 'move existing data aside first')
    .option('--work-dir <dir>', 'with --check: directory for the restored files (default: automatic)')
    .action(async (from: string, given: RestoreOptions, command: Command) => {
      const { used, way } = MODES[given.list ? 'list' : given.check ? 'check' : 'restore']
      refuseUnused(command, used, way)
      const wishes = withIdentities(given)
      const asked = invocation()
      if (wishes.list) return listBackups(asked.terminal, settingsOf(asked), from)
      if (wishes.check) return checkBackup(asked.terminal, settingsOf(asked), from, wishes)
      const { config, keepMark } = settingsOfFormer(asked)
      const { data_dir } = config
      const tell = tellOn(asked.terminal)
      refuseOccupied(data_dir, wishes)
      const deps = sourceDeps(asked.terminal, config, wishes)
      await using source = await sourceOf(deps, from, selectionOf(wishes))
      const done = await putBack(deps, source, wishes, tell)
      keepMark()
      answer(asked.terminal, { data_dir, backup: source.shown, ...done }, () =>
        [
          `Restored ${counted(done.files, 'file')} of ${source.shown} to ${data_dir}.`,
          ...(done.set_aside === null ? [] : [asideText(done.set_aside)]),
          ...(done.faults.length === 0 ? [] : [`Corrupt: ${listed(done.faults)}.`]),
          done.erasures === 0
            ? 'There are no erasures to repeat.'
            : `Start the server, which repeats ${counted(done.erasures, 'erasure')}.`,
        ].join(' '),
      )
    })
}

interface Restored {
  files: number
  erasures: number
  /** The corrupt data, in sentences. */
  faults: string[]
  set_aside: string | null
}

function refuseOccupied(dataDir: string, { replace }: RestoreOptions): void {
  if (existsSync(join(dataDir, DATABASE)) && !replace)
    throw new OperatorError(
      `${dataDir} already contains a database; add --replace to move it aside first, or set "data_dir" to another directory.`,
    )
}

/** The prefix of temporary folders. */
const RESTORING = '.restore-'

/** Reports and deletes the folders of interrupted restores. Data that was moved aside is kept. */
function clearRemains(dataDir: string, tell: Tell): void {
  const names = readdirSync(dataDir)
  for (const name of names.filter((each) => each.startsWith(RESTORING))) {
    tell(`${join(dataDir, name)} was left by an interrupted restore and is deleted.`)
    clear(join(dataDir, name))
  }
  const aside = names.filter(isAside).map((name) => join(dataDir, name))
  if (aside.length > 0 && !names.includes(DATABASE))
    tell(`${dataDir} has no database; data that was moved aside earlier is kept: ${listed(aside.toSorted())}.`)
}

/** Restores a backup completely, or leaves the installation unchanged. */
async function putBack(deps: RestoreDeps, source: Source, wishes: RestoreOptions, tell: Tell): Promise<Restored> {
  const { data_dir: dataDir } = deps.config
  const made = existsSync(dataDir) ? undefined : dataDir
  let done = false
  makeForService(dataDir)
  becomeOwner(dataDir)
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`A running server uses ${dataDir}; stop it first.`)
  let folder: string | undefined
  const unheard = clearOnSignal(() => {
    if (folder !== undefined) clear(folder)
    if (made !== undefined) removeMade(made)
  })
  try {
    clearRemains(dataDir, tell)
    demandLedgers(dataDir, source.manifest?.fingerprint, wishes, copiesOf(deps.config))
    folder = mkdtempSync(join(dataDir, RESTORING))
    const { faults, files } = await unpackBackup(deps, source, { folder, reserve: 0, force: wishes.force })
    const erasures = mergeLedgers(dataDir, folder, wishes, copiesOf(deps.config))
    settle(folder)
    // From here on, files are only renamed. If this is interrupted, the next command completes it.
    done = true
    const aside = exchange(dataDir, String(systemClock.now()), folder)
    return { files, erasures, faults, set_aside: aside ?? null }
  } finally {
    release()
    if (folder !== undefined) clear(folder)
    unheard()
    if (!done && made !== undefined) removeMade(made)
  }
}

/** Makes the folder durable, and deletes other files in it, such as those of SQLite. */
function settle(folder: string): void {
  const belongs = [...FILES, DATABASE, 'spool']
  for (const name of readdirSync(folder)) if (!belongs.includes(name)) rmSync(join(folder, name), { recursive: true })
  for (const each of [join(folder, 'spool'), folder]) syncPath(each)
}

/** Removes the content of a data directory that this command made, and the directory if this user can. */
function removeMade(made: string): void {
  for (const name of readdirSync(made)) rmSync(join(made, name), { recursive: true, force: true })
  try {
    rmdirSync(made)
  } catch {
    // Its parent belongs to root: an empty directory stays.
  }
}

/** Deletes a temporary folder, if possible. */
function clear(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true })
  } catch {
    // The disk error was reported already, or the next command reports it.
  }
}
