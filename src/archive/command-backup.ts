// `postrider backup now`, `list`, `key` and `drill`: backups at the targets of the configuration.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { storesOnly, titlesOf } from '../base/backup-target.ts'
import { forTerminal } from '../base/clean-text.ts'
import { iso, systemClock, type Clock } from '../base/clock.ts'
import type { Config } from '../base/config.ts'
import { codeOrMessage, OperatorError } from '../base/errors.ts'
import { writePlain } from '../base/plain-file.ts'
import { LAST_BACKUP } from '../checks/figures.ts'
import { configOf, withDeps, type Invocation } from '../commands/open.ts'
import { answer, type Terminal } from '../commands/terminal.ts'
import type { Store } from '../store/database.ts'
import { DATABASE } from '../store/open.ts'
import { backupsAt, type StoredBackup } from './catalog.ts'
import { findBackup, fingerprintIn } from './fetch.ts'
import {
  check,
  checkAt,
  checkedText,
  fetchWishes,
  printBackups,
  sourceDeps,
  type Checked,
  type FromWishes,
} from './look.ts'
import { backUpNow, sentenceOf, type BackupOutcome } from './make.ts'
import { placeOf } from './place-of.ts'
import type { BackupPlace } from './places/place.ts'
import { keepRecipient } from './recipients.ts'
import { recordRuns } from './runs.ts'
import { newIdentity, recipientOf } from './seal.ts'
import { sourceOf } from './source.ts'

/** The time of the last backup, for the monitoring system. The backup is valid also when it cannot be written. */
export function noteBackup(dataDir: string, clock: Clock, tell: (sentence: string) => void): void {
  try {
    writePlain(join(dataDir, LAST_BACKUP), `${iso(clock.now())}\n`)
  } catch (thrown) {
    tell(`The backup is made, but its time cannot be noted for /metrics (${codeOrMessage(thrown)}).`)
  }
}

export const tellOn =
  ({ err }: Terminal) =>
  (sentence: string): void =>
    err(`postrider: ${forTerminal(sentence)}\n`)

export function targetCommands(backup: Command, invocation: () => Invocation): void {
  backup
    .command('now')
    .description('make a backup to each target of the configuration, as the schedule does')
    .action(() => withDeps(invocation(), (deps) => now(invocation().terminal, deps)))
  backup
    .command('list')
    .description('list the backups at each target of the configuration')
    .action(() => list(invocation()))
  backup
    .command('key')
    .description('make a pair of keys: backups are sealed to the public one, and the secret one is shown once')
    .action(() => key(invocation()))
  backup
    .command('drill [from]')
    .description('put the newest backup back into a temporary folder, to see that it can be')
    .option('--identity <file>', 'a file with the secret key of a sealed backup (else "backup.identity_file")')
    .option('--at <time>', 'the newest backup of this time or before it')
    .option('--installation <id>', 'the installation whose backup is meant, where a target has those of several')
    .option('--scratch <folder>', 'where it is put back (else in the data directory, or where there is room)')
    .action((from: string | undefined, wishes: FromWishes) => drill(invocation(), from, wishes))
}

async function now(terminal: Terminal, deps: Parameters<typeof backUpNow>[0]): Promise<void> {
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
    ? `${name} is at ${target}: ${files} files, ${Math.ceil((octets ?? 0) / 1e3)} kB, in ${seconds.toFixed(1)} s.${removed.length === 0 ? '' : ` Removed: ${removed.join(', ')}.`}${fault === null ? '' : ` ${fault}`}`
    : `Failed: ${fault}`

/**
 * Works on the places of the configuration, each opened by the work and closed after it; what fails at one stops no
 * other. Returns the sentences of the failures. Throws an OperatorError when there is no place.
 */
async function eachPlace(
  config: Config,
  work: (open: () => BackupPlace, title: string, target: string) => Promise<void>,
): Promise<string[]> {
  const { to } = config.backup
  if (to.length === 0) throw new OperatorError('"backup.to" is empty; set it to where backups go (docs/backup.md).')
  const faults: string[] = []
  for (const [index, title] of titlesOf(to).entries()) {
    const target = to[index] ?? ''
    let place: BackupPlace | undefined
    try {
      await work(() => (place ??= placeOf(config, target, systemClock)), title, target)
    } catch (thrown) {
      faults.push(sentenceOf(thrown, title))
    } finally {
      await place?.close().catch(() => {})
    }
  }
  return faults
}

async function list(asked: Invocation): Promise<void> {
  const all: (StoredBackup & { target: string })[] = []
  const tell = tellOn(asked.terminal)
  const faults = await eachPlace(configOf(asked), async (open, title, target) => {
    if (storesOnly(target)) return tell(`${title} is a command that lists nothing.`)
    all.push(...(await backupsAt(open())).map((each) => ({ ...each, target: title })))
  })
  const [only, ...others] = faults
  // Not "there is no backup": nobody knows.
  if (all.length === 0 && only !== undefined) {
    for (const fault of others) tell(fault)
    throw new OperatorError(only)
  }
  printBackups(asked.terminal, all)
  for (const fault of faults) tell(fault)
  if (faults.length > 0) process.exitCode = 1
}

async function key(asked: Invocation): Promise<void> {
  const { terminal } = asked
  const config = configOf(asked)
  if (!existsSync(join(config.data_dir, DATABASE)))
    throw new OperatorError(`${config.data_dir} holds no database; "postrider init" or "postrider serve" makes it.`)
  const identity = newIdentity()
  const recipient = recipientOf(identity)
  await keepRecipient(config, recipient, async () => {
    answer(terminal, { identity, recipient }, () => identity)
    await terminal.written()
  })
  if (terminal.json) return
  answer(terminal, recipient, () =>
    [
      '',
      `Backups are sealed to ${recipient} from now on. The line above opens them and is not kept here: put it into a file`,
      'on another machine, or on paper. Without it no sealed backup can be restored.',
    ].join('\n'),
  )
}

async function drill(asked: Invocation, from: string | undefined, wishes: FromWishes): Promise<void> {
  const config = configOf(asked)
  const deps = sourceDeps(asked.terminal, config, wishes)
  const done: (Checked & { target: string })[] = []
  const faults: string[] = []
  if (from !== undefined) {
    await using source = await sourceOf(deps, from, fetchWishes(wishes))
    done.push({ target: from, ...(await check(deps, source, wishes)) })
  } else
    await withDeps(asked, async ({ store }) => {
      const failed = await eachPlace(config, async (open, title, target) => {
        if (storesOnly(target)) return tellOn(asked.terminal)(`${title} is a command that gives nothing back.`)
        await recorded(store, title, async () => {
          const place = open()
          const found = await findBackup(place, fingerprintIn(config.data_dir), fetchWishes(wishes), deps.clock.now())
          const checked = await checkAt(deps, place, found, wishes)
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

/** Records what becomes of a drill. */
async function recorded(store: Store, target: string, work: () => Promise<Checked>): Promise<void> {
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
