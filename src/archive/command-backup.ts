// `postrider backup`: to a file (one zip of a consistent copy of the data directory, made while the server runs), or to
// the configured destinations (`now`), their list, the encryption key, and restore tests.
import { createReadStream, existsSync, linkSync, readlinkSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import type { Command } from 'commander'
import { titlesOf } from '../base/backup-target.ts'
import { forTerminal } from '../base/clean-text.ts'
import { clearOnSignal } from '../base/clear-on-signal.ts'
import { iso, systemClock, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { syncPath } from '../base/durable.ts'
import { codeOrMessage, failedCall, OperatorError } from '../base/errors.ts'
import { unwritable } from '../base/file-faults.ts'
import { writePlain } from '../base/plain-file.ts'
import { isMemory } from '../base/space.ts'
import { counted, span } from '../base/text.ts'
import { LAST_BACKUP } from '../checks/figures.ts'
import { configOf, settingsOf, withDeps, type Deps, type Invocation } from '../views/command/open.ts'
import { answer, demandRedirected, writeOut, type Terminal } from '../views/command/terminal.ts'
import type { Store } from '../store/database.ts'
import { makeScratch, noteFolder, removeLeftovers } from '../store/leftovers.ts'
import { takeLock } from '../store/lock.ts'
import { DATABASE } from '../store/open.ts'
import { FILES, readThrough } from './backup-archive.ts'
import { AHEAD, backupsAt, findBackup, fingerprintIn, newestOf, type StoredBackup } from './catalog.ts'
import {
  check,
  checkAt,
  checkedText,
  printBackups,
  selectionOf,
  sourceDeps,
  withIdentities,
  type CheckedBackup,
  type FromOptions,
} from './check-backup.ts'
import { destinationOf, type Destination } from './destinations/destination.ts'
import { newIdentity, recipientOf } from './encryption.ts'
import { listed } from './integrity.ts'
import { backUpNow, sentenceOf, type BackupOutcome } from './make.ts'
import { writeZip } from './pack.ts'
import { keepRecipient } from './recipients.ts'
import { restoreCommand } from './restore.ts'
import { recordRuns } from './runs.ts'
import { takeSnapshot, type Snapshot } from './snapshot.ts'
import { sourceOf } from './source.ts'
import { tellOn, type Tell } from './transfer.ts'

export function backupCommands(program: Command, invocation: () => Invocation): void {
  const backup = program
    .command('backup <file>')
    .description('back up to a file or standard output (-) while the server runs')
    .option('--force', 'back up even if some data is corrupt')
    .action((file: string, { force }: { force?: true }) =>
      withDeps(invocation(), (deps) =>
        toFile(invocation().terminal, deps, file === '-' ? undefined : resolve(file), force === true),
      ),
    )
  backup
    .command('now')
    .description('back up to all configured destinations')
    .action(() => withDeps(invocation(), (deps) => now(invocation().terminal, deps)))
  backup
    .command('list')
    .description('list backups at all configured destinations')
    .action(() => list(invocation()))
  backup
    .command('key')
    .description('create an encryption key and print its secret half once')
    .action(() => key(invocation()))
  backup
    .command('drill [from]')
    .description('test-restore the newest backup')
    .option('--identity <file>', 'file with the secret key (default: "backup.identity_file")')
    .option('--at <time>', 'newest backup made at or before this time')
    .option('--installation <id>', 'installation id, if the destination has several')
    .option('--work-dir <dir>', 'directory for the restored files (default: automatic)')
    .action((from: string | undefined, options: FromOptions) => drill(invocation(), from, withIdentities(options)))
  restoreCommand(program, invocation)
}

async function toFile(terminal: Terminal, deps: Deps, target: string | undefined, force: boolean): Promise<void> {
  if (target === undefined) demandRedirected()
  const taken = target === undefined ? undefined : takenBy(target)
  if (taken !== undefined) throw new OperatorError(`${taken}; choose another file.`)
  const tell = tellOn(terminal)
  const { faults, files } = await backUp(deps, target, force, tell)
  noteBackup(deps.config.data_dir, deps.clock, tell)
  const corrupt = faults.length === 0 ? [] : [`Corrupt: ${listed(faults)}.`]
  if (target === undefined) return corrupt.forEach(tell)
  if (isMemory(dirname(target)) && !isMemory(deps.config.data_dir))
    tell(
      `${dirname(target)} is in memory (tmpfs), so ${target} is lost when this machine or container stops; move it to a disk now.`,
    )
  answer(terminal, { file: target, files: files.length, faults }, () =>
    [
      `Backed up ${counted(files.length, 'file')} to ${target}. The backup contains the keys, so protect it like the server.`,
      ...corrupt,
    ].join('\n'),
  )
}

/** The start of the error if a file has the name of the backup. Links count, even to a missing file. */
function takenBy(target: string): string | undefined {
  if (existsSync(target)) return `${target} exists`
  try {
    readlinkSync(target)
    return `${target} is a symbolic link whose target does not exist`
  } catch {
    return undefined
  }
}

/**
 * Writes the zip to a file, or to standard output without one. Throws an OperatorError, also if data is corrupt and
 * `force` is not set.
 */
async function backUp(deps: Deps, target: string | undefined, force: boolean, tell: Tell): Promise<Snapshot> {
  const { clock, config } = deps
  const { data_dir } = config
  // In the folder of the target, because the copy of the database may be large.
  const within = target === undefined ? resolve(data_dir) : dirname(target)
  const release = within === resolve(data_dir) ? takeLock(data_dir, 'backup.lock') : (): void => {}
  if (!release) throw new OperatorError('Another backup is in progress; wait until it is complete.')
  noteFolder(data_dir, within)
  removeLeftovers(within, clock.now())
  let clear = (): void => {}
  // Registered before anything is created.
  const unheard = clearOnSignal(() => clear())
  try {
    const { folder, remove } = makeScratch(within)
    clear = remove
    const snapshot = await takeSnapshot(deps, { folder, force, tell })
    const draft = join(folder, 'backup.zip')
    await writeZip(draft, snapshot.files)
    syncPath(draft)
    await readThrough(draft)
    if (target === undefined) await writeOut(createReadStream(draft))
    else putInPlace(draft, target)
    return snapshot
  } catch (thrown) {
    if (target === undefined || isOfData(thrown, data_dir)) throw thrown
    throw unwritable(target, thrown, 'choose another path, or write to standard output ("-")')
  } finally {
    clear()
    release()
    unheard()
  }
}

/** Whether the failed call was on a file of the installation instead of the backup. */
function isOfData(thrown: unknown, dataDir: string): boolean {
  const { path } = failedCall(thrown)
  return path !== undefined && FILES.concat(DATABASE, 'spool').some((name) => path.startsWith(join(dataDir, name)))
}

/** Gives the finished file its name, durably. Throws if a file of that name was created in the meantime. */
function putInPlace(draft: string, target: string): void {
  linkSync(draft, target)
  try {
    syncPath(dirname(target))
  } catch (thrown) {
    // The name may be lost in a power cut, so the backup is not reported as stored.
    rmSync(target, { force: true })
    throw thrown
  }
}

/** Records the time of the last backup for /metrics. The backup is valid even if this fails. */
function noteBackup(dataDir: string, clock: Clock, tell: Tell): void {
  try {
    writePlain(join(dataDir, LAST_BACKUP), `${iso(clock.now())}\n`)
  } catch (thrown) {
    tell(`The backup is complete, but its time cannot be recorded for /metrics (${codeOrMessage(thrown)}).`)
  }
}

async function now(terminal: Terminal, deps: Deps): Promise<void> {
  const tell = tellOn(terminal)
  const outcomes = await backUpNow(deps, {
    tell,
    ended: (outcome) => {
      if (outcome.name !== null) noteBackup(deps.config.data_dir, deps.clock, tell)
      if (!terminal.json) answer(terminal, outcome, (each) => forTerminal(outcomeText(each)))
    },
  })
  if (terminal.json) answer(terminal, outcomes, () => '')
  if (outcomes.some(({ fault }) => fault !== null)) process.exitCode = 1
}

const outcomeText = ({ fault, files, name, octets, removed, seconds, target }: BackupOutcome): string =>
  fault === null || name !== null
    ? `Stored ${name} at ${target}: ${counted(files ?? 0, 'file')}, ${Math.ceil((octets ?? 0) / 1e3)} kB, in ${seconds.toFixed(1)} s.${removed.length === 0 ? '' : ` Deleted: ${removed.join(', ')}.`}${fault === null ? '' : ` ${fault}`}`
    : `Failed: ${fault}`

/**
 * Runs work for each configured destination, and closes those that it opened. A failure does not affect the others.
 * Returns the failures. Throws an OperatorError if no destination is configured.
 */
async function eachDestination(
  config: Config,
  work: (open: () => Destination, title: string) => Promise<void>,
): Promise<string[]> {
  const { to } = config.backup
  if (to.length === 0)
    throw new OperatorError('"backup.to" is empty; set it to one or more destinations (docs/backup.md).')
  const faults: string[] = []
  for (const [index, title] of titlesOf(to).entries()) {
    const target = to[index] ?? ''
    let destination: Destination | undefined
    try {
      await work(() => (destination ??= destinationOf(config, target, systemClock)), title)
    } catch (thrown) {
      faults.push(sentenceOf(thrown, title))
    } finally {
      await destination?.close().catch(() => {})
    }
  }
  return faults
}

async function list(asked: Invocation): Promise<void> {
  const all: (StoredBackup & { target: string })[] = []
  const tell = tellOn(asked.terminal)
  const faults = await eachDestination(settingsOf(asked), async (open, title) => {
    all.push(...(await backupsAt(open())).map((each) => ({ ...each, target: title })))
  })
  const [only, ...others] = faults
  // It is unknown whether there are backups.
  if (all.length === 0 && only !== undefined) {
    for (const fault of others) tell(fault)
    throw new OperatorError(only)
  }
  const config = settingsOf(asked)
  printBackups(asked.terminal, all, lossTexts(config, all))
  for (const fault of faults) tell(fault)
  if (faults.length > 0) process.exitCode = 1
}

/** What a failure of this machine would lose now, by destination. */
function lossTexts({ backup, data_dir }: Config, all: readonly (StoredBackup & { target: string })[]): string[] {
  const own = fingerprintIn(data_dir)
  const now = systemClock.now()
  return titlesOf(backup.to).map((title) => {
    const newest = newestOf(
      all.filter(({ fingerprint, target }) => target === title && fingerprint === (own ?? fingerprint)),
      now + AHEAD,
    )
    return newest
      ? `${title}: a failure now would lose the last ${span(Math.max(0, now - newest.at))}.`
      : `${title}: a failure now would lose all data.`
  })
}

async function key(asked: Invocation): Promise<void> {
  const { terminal } = asked
  const config = configOf(asked)
  const identity = await newIdentity()
  const recipient = await recipientOf(identity)
  await keepRecipient(config, recipient, async () => {
    answer(terminal, { identity, recipient }, () => identity)
    await terminal.written()
  })
  if (terminal.json) return
  answer(terminal, recipient, () =>
    [
      '',
      `From now on, backups are encrypted to ${recipient}. The line above is the secret key, which is not stored here:`,
      'keep it in a file on another machine, or on paper. You cannot restore encrypted backups without it.',
    ].join('\n'),
  )
}

async function drill(asked: Invocation, from: string | undefined, options: FromOptions): Promise<void> {
  const config = settingsOf(asked)
  const deps = sourceDeps(asked.terminal, config, options)
  const done: (CheckedBackup & { target: string })[] = []
  const faults: string[] = []
  if (from !== undefined) {
    await using source = await sourceOf(deps, from, selectionOf(options))
    done.push({ target: from, ...(await check(deps, source, options)) })
  } else
    await withDeps(asked, async ({ store }) => {
      const failed = await eachDestination(config, async (open, title) => {
        await recorded(store, title, async () => {
          const destination = open()
          const found = await findBackup(
            destination,
            fingerprintIn(config.data_dir),
            selectionOf(options),
            deps.clock.now(),
          )
          const checked = await checkAt(deps, destination, found, options)
          done.push({ target: title, ...checked })
          return checked
        })
      })
      faults.push(...failed)
    })
  answer(asked.terminal, { drills: done, faults }, () =>
    [...done.map(checkedText), ...faults.map((fault) => `Failed: ${fault}`)].map(forTerminal).join('\n'),
  )
  if (faults.length > 0) process.exitCode = 1
}

async function recorded(store: Store, target: string, work: () => Promise<CheckedBackup>): Promise<void> {
  const started_at = systemClock.now()
  const end = (): { kind: 'drill'; target: string; started_at: number; ended_at: number } => ({
    kind: 'drill',
    target,
    started_at,
    ended_at: systemClock.now(),
  })
  try {
    const { files, name, octets, rows, way } = await work()
    await recordRuns(store, [{ ...end(), name, octets, files, rows, way }], systemClock.now())
  } catch (thrown) {
    await recordRuns(store, [{ ...end(), fault: sentenceOf(thrown, target) }], systemClock.now())
    throw thrown
  }
}
