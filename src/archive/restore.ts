// `postrider restore`: puts a backup into the data directory, completely or not at all. The backup is checked, and is
// durable on the disk before the command reports success. Erasures since the backup are repeated, from every ledger
// that has them (D67).
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { syncPath } from '../base/durable.ts'
import { codeOf, messageOf, OperatorError } from '../base/errors.ts'
import { openKeyring } from '../base/keyring.ts'
import { asCaller, becomeOwner, makeForService } from '../base/ownership.ts'
import { withCopy } from '../store/copy.ts'
import { keyFits, setAside } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import { DATABASE } from '../store/open.ts'
import { FILES, openArchive, unpack } from './backup-archive.ts'
import { clearOnSignal } from './leavings.ts'
import { configOf, type Invocation } from '../commands/open.ts'
import { mergeLedgers, type LedgerWishes } from './restore-ledgers.ts'
import { faultsOfCopy, listed } from './integrity.ts'
import { answer } from '../commands/terminal.ts'

interface RestoreWishes extends LedgerWishes {
  replace?: true
  force?: true
}

export function restoreCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('restore <file>')
    .description('put a backup into the data directory')
    .option(
      '--ledger <file>',
      'the erasures.ledger of the installation that made the backup, as it was last; may be said again',
      (file: string, before: string[] | undefined) => [...(before ?? []), file],
    )
    .option('--without-ledger', 'restore although it is unknown which addresses were erased since the backup')
    .option('--force', 'restore although something in the backup is damaged')
    .option('--replace', 'move what is in the data directory aside first')
    .action(async (file: string, wishes: RestoreWishes) => {
      const { data_dir, privacy } = configOf(invocation())
      const copies = privacy.ledger_copy === '' ? [] : [privacy.ledger_copy]
      const done = await putBack(resolve(file), data_dir, wishes, copies)
      answer(invocation().terminal, { data_dir, ...done }, () =>
        [
          `${done.files} files are in ${data_dir}.`,
          ...(done.set_aside === null ? [] : [`What was there before is in ${done.set_aside}.`]),
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

/** Puts a backup in place as a whole, or changes nothing. */
async function putBack(
  file: string,
  dataDir: string,
  wishes: RestoreWishes,
  copies: readonly string[],
): Promise<Restored> {
  const there = existsSync(join(dataDir, DATABASE))
  if (there && !wishes.replace)
    throw new OperatorError(
      `${dataDir} holds a database; add --replace to move everything in it aside first, or restore into another data_dir.`,
    )
  const archive = await openArchive(file)
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
    place = mkdtempSync(join(dataDir, '.restore-'))
    const count = await unpack(archive, file, place)
    const faults = await prove(place, file, wishes)
    const erasures = mergeLedgers(dataDir, place, wishes, copies)
    // From here on files are only renamed. The database is last: until it is in place, the server refuses to start and
    // names this command.
    const aside = there ? setAside(dataDir, `set-aside-${systemClock.now()}`, [place]) : undefined
    mkdirSync(join(dataDir, 'spool'), { recursive: true, mode: 0o700 })
    for (const name of readdirSync(join(place, 'spool')))
      renameSync(join(place, 'spool', name), join(dataDir, 'spool', name))
    syncPath(join(dataDir, 'spool'))
    for (const name of [...FILES, DATABASE])
      if (existsSync(join(place, name))) renameSync(join(place, name), join(dataDir, name))
    done = true
    confirm(dataDir, place)
    return { files: count, erasures, faults, set_aside: aside ?? null }
  } finally {
    release()
    if (place !== undefined) clear(place)
    unheard()
    if (!done && made !== undefined) removeMade(made)
  }
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

/** A full disk may refuse to rename a file, but still allow its removal; the backup contains all of the file's data. */
function takeAway(file: string, to: string): void {
  try {
    renameSync(file, to)
  } catch {
    rmSync(file)
  }
}

/**
 * Makes the restored files durable. When the disk does not confirm this, the database is moved back to the folder that
 * is removed: without a database the server refuses to start, and the restore can be repeated.
 */
function confirm(dataDir: string, place: string): void {
  try {
    syncPath(dataDir)
  } catch (thrown) {
    const why = `The disk of ${dataDir} did not confirm that what was restored lasts (${codeOf(thrown)})`
    try {
      takeAway(join(dataDir, DATABASE), join(place, DATABASE))
    } catch {
      throw new OperatorError(`${why}; see to the disk and run "postrider verify" before you start.`)
    }
    throw new OperatorError(`${why}; its database was taken away again. See to the disk, and restore once more.`)
  }
}

/**
 * The damage in an unpacked backup, by the same checks as `verify`. Throws an OperatorError when there is damage and
 * `force` is not set, or when the key or the database cannot be used.
 */
async function prove(place: string, file: string, { force }: RestoreWishes): Promise<string[]> {
  const keyring = openKeyring(place)
  const faults = await faultsOfCopy(place, keyring).catch((thrown: unknown) => {
    throw new OperatorError(`${file} holds a damaged database (${messageOf(thrown)}); take another backup.`)
  })
  if (!(await withCopy(join(place, DATABASE), async (store) => keyFits(store, keyring))))
    throw new OperatorError(`${file} holds a key that does not open its database; take another backup.`)
  if (faults.length > 0 && !force)
    throw new OperatorError(
      `${file} holds what is damaged: ${listed(faults)}; take another backup, or add --force to restore it as it is.`,
    )
  for (const name of readdirSync(place)) if (/-(?:wal|shm)$/.test(name)) rmSync(join(place, name))
  return faults
}
