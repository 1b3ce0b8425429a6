// `postrider restore`: puts a backup into the data directory, completely or not at all. The backup is checked, and is
// durable on the disk before the command reports success. Erasures since the backup are repeated, from every ledger
// that has them (D67).
import { existsSync, mkdtempSync, readdirSync, rmdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Command } from 'commander'
import { forTerminal } from '../base/clean-text.ts'
import { systemClock } from '../base/clock.ts'
import { syncPath } from '../base/durable.ts'
import { OperatorError } from '../base/errors.ts'
import { asCaller, becomeOwner, makeForService } from '../base/ownership.ts'
import { asideText, exchange, isAside } from '../store/exchange.ts'
import { takeLock } from '../store/lock.ts'
import { DATABASE } from '../store/open.ts'
import { FILES } from './backup-archive.ts'
import { bring } from './bring.ts'
import { checkBackup, copiesOf, fetchWishes, listBackups, sourceDeps, type FromWishes } from './look.ts'
import { clearOnSignal } from '../base/clear-on-signal.ts'
import { configOf, type Invocation } from '../commands/open.ts'
import { mergeLedgers, type LedgerWishes } from './restore-ledgers.ts'
import { refuseUnused } from '../commands/unused-options.ts'
import { sourceOf, type BackupSourceDeps, type Source } from './source.ts'
import { listed } from './integrity.ts'
import { answer } from '../commands/terminal.ts'

interface RestoreWishes extends LedgerWishes, FromWishes {
  replace?: true
  list?: true
  check?: true
}

const FROM = ['identity', 'at', 'installation', 'ledger', 'withoutLedger', 'force'] as const

/** What each way of the command uses of its options; the others are refused beside it. */
const WAYS = {
  list: { used: ['list'], way: 'with --list' },
  check: { used: ['check', 'scratch', ...FROM], way: 'with --check' },
  restore: { used: ['replace', ...FROM], way: 'without --check' },
} as const

export function restoreCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('restore <from>')
    .description(
      'put a backup back: a file ("-" for standard input), or the newest in a directory or at another target',
    )
    .option('--identity <file>', 'a file with the secret key of a sealed backup (else "backup.identity_file")')
    .option('--at <time>', 'the newest backup of this time or before it, such as 2026-01-15T12:00:00Z')
    .option('--installation <id>', 'the installation whose backup is meant, where a target has those of several')
    .option('--list', 'only list the backups of a directory or a target')
    .option('--check', 'only put it back into a temporary folder, and say whether that went well')
    .option(
      '--ledger <file>',
      'the erasures.ledger of the installation that made the backup, as it was last; may be said again',
      (file: string, before: string[] | undefined) => [...(before ?? []), file],
    )
    .option('--without-ledger', 'restore although it is unknown which addresses were erased since the backup')
    .option('--force', 'restore although something in the backup is damaged')
    .option('--replace', 'move what is in the data directory aside first')
    .option(
      '--scratch <folder>',
      'with --check: where it is put back (else in the data directory, or where there is room)',
    )
    .action(async (from: string, wishes: RestoreWishes, command: Command) => {
      const { used, way } = WAYS[wishes.list ? 'list' : wishes.check ? 'check' : 'restore']
      refuseUnused(command, used, way)
      const asked = invocation()
      const config = configOf(asked)
      if (wishes.list) return listBackups(asked.terminal, config, from)
      if (wishes.check) return checkBackup(asked.terminal, config, from, wishes)
      const { data_dir } = config
      const tell = (sentence: string): void => asked.terminal.err(`postrider: ${forTerminal(sentence)}\n`)
      refuseOccupied(data_dir, wishes)
      const deps = sourceDeps(asked.terminal, config, wishes)
      await using source = await sourceOf(deps, from, fetchWishes(wishes))
      const done = await putBack(deps, source, wishes, tell)
      answer(asked.terminal, { data_dir, ...done }, () =>
        [
          `${done.files} files are in ${data_dir}.`,
          ...(done.set_aside === null ? [] : [asideText(done.set_aside)]),
          ...(done.faults.length === 0 ? [] : [`Damaged: ${listed(done.faults)}.`]),
          done.erasures === 0
            ? 'There is no known erasure to repeat.'
            : `Start the server: it repeats ${done.erasures} erasures that are known.`,
        ].join(' '),
      )
    })
}

interface Restored {
  files: number
  erasures: number
  /** The damage in the restored data, in sentences. */
  faults: string[]
  set_aside: string | null
}

function refuseOccupied(dataDir: string, { replace }: RestoreWishes): void {
  if (existsSync(join(dataDir, DATABASE)) && !replace)
    throw new OperatorError(
      `${dataDir} holds a database; add --replace to move everything in it aside first, or restore into another data_dir.`,
    )
}

/** How a folder of a restore begins; six characters follow. */
const RESTORING = '.restore-'

/** Says what a restore that was ended left, and removes what it had brought. The former installation stays. */
function clearRemains(dataDir: string, tell: (sentence: string) => void): void {
  const names = readdirSync(dataDir)
  for (const name of names.filter((each) => each.startsWith(RESTORING))) {
    tell(`${join(dataDir, name)} is left of a restore that was ended before its time; it is removed.`)
    clear(join(dataDir, name))
  }
  const aside = names.filter(isAside).map((name) => join(dataDir, name))
  if (aside.length > 0 && !names.includes(DATABASE))
    tell(`There is no database in ${dataDir}; what was moved aside there before stays: ${listed(aside.toSorted())}.`)
}

/** Puts a backup in place as a whole, or changes nothing. */
async function putBack(
  deps: BackupSourceDeps,
  source: Source,
  wishes: RestoreWishes,
  tell: (sentence: string) => void,
): Promise<Restored> {
  const { data_dir: dataDir } = deps.config
  const made = existsSync(dataDir) ? undefined : dataDir
  let done = false
  makeForService(dataDir)
  becomeOwner(dataDir)
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`A server uses ${dataDir}; stop it first.`)
  let place: string | undefined
  const unheard = clearOnSignal(() => {
    if (place !== undefined) clear(place)
    if (made !== undefined) removeMade(made)
  })
  try {
    clearRemains(dataDir, tell)
    place = mkdtempSync(join(dataDir, RESTORING))
    const { faults, files } = await bring(deps, source, { folder: place, keep: 0, force: wishes.force })
    const erasures = mergeLedgers(dataDir, place, wishes, copiesOf(deps.config))
    settle(place)
    // From here on files are only renamed, and the next command finishes that where this one cannot.
    done = true
    const aside = exchange(dataDir, String(systemClock.now()), place)
    return { files, erasures, faults, set_aside: aside ?? null }
  } finally {
    release()
    if (place !== undefined) clear(place)
    unheard()
    if (!done && made !== undefined) removeMade(made)
  }
}

/** What was brought is durable, and nothing is beside it: neither the archive nor what SQLite leaves. */
function settle(place: string): void {
  const belongs = [...FILES, DATABASE, 'spool']
  for (const name of readdirSync(place)) if (!belongs.includes(name)) rmSync(join(place, name), { recursive: true })
  for (const folder of [join(place, 'spool'), place]) syncPath(folder)
}

/** Removes a data directory that this command made: its content as its owner, then the directory itself. */
function removeMade(made: string): void {
  for (const name of readdirSync(made)) rmSync(join(made, name), { recursive: true, force: true })
  asCaller(() => rmdirSync(made))
}

/** Removes the temporary folder; a failure does no harm. */
function clear(place: string): void {
  try {
    rmSync(place, { recursive: true, force: true })
  } catch {
    // The error of the disk was reported already, or the next command reports it.
  }
}
