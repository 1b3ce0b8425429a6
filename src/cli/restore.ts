// `postrider restore`: puts a backup into the data directory, whole or not at all, checked and durable before it
// reports success. Erasures since the backup are carried out again, from every ledger that can be found (D67).
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { systemClock } from '../base/clock.ts'
import { syncFile, syncPath } from '../base/durable.ts'
import { codeOf, OperatorError } from '../base/errors.ts'
import { openKeyring } from '../base/keyring.ts'
import { LEDGER } from '../privacy/ledger.ts'
import { damageOf, sealedKeyIn } from '../store/copy.ts'
import { opens, setAside } from '../store/instance.ts'
import { takeLock } from '../store/lock.ts'
import { DATABASE } from '../store/open.ts'
import { FILES, openArchive, unpack } from './backup-archive.ts'
import { configOf, type Invocation } from './open.ts'
import { adopt } from './ownership.ts'
import { answer } from './terminal.ts'

interface Wishes {
  ledger?: string[]
  withoutLedger?: true
  replace?: true
}

export function restoreCommand(program: Command, invocation: () => Invocation): void {
  program
    .command('restore <file>')
    .description('put a backup into the data directory')
    .option('--ledger <file...>', 'the erasures.ledger of the installation that made the backup, as it was last')
    .option('--without-ledger', 'restore although nobody knows who was forgotten since the backup')
    .option('--replace', 'move what is in the data directory aside first')
    .action(async (file: string, wishes: Wishes) => {
      const { data_dir, privacy } = configOf(invocation())
      const copies = privacy.ledger_copy === '' ? [] : [privacy.ledger_copy]
      const done = await putBack(resolve(file), data_dir, wishes, copies)
      answer(invocation().terminal, { data_dir, ...done }, () =>
        [
          `${done.files} files are in ${data_dir}.`,
          ...(done.set_aside === null ? [] : [`What was there before is in ${done.set_aside}.`]),
          done.erasures === 0
            ? 'No erasure is known that would have to be done again.'
            : `Start the server: it does the ${done.erasures} erasures that are known again.`,
        ].join(' '),
      )
    })
}

interface Restored {
  files: number
  erasures: number
  set_aside: string | null
}

/** Puts a backup in place as a whole, or changes nothing. */
async function putBack(file: string, dataDir: string, wishes: Wishes, copies: readonly string[]): Promise<Restored> {
  const there = existsSync(join(dataDir, DATABASE))
  if (there && !wishes.replace)
    throw new OperatorError(
      `${dataDir} holds a database; add --replace to move everything in it aside first, or restore into another data_dir.`,
    )
  const archive = await openArchive(file)
  const made = existsSync(dataDir) ? undefined : dataDir
  let done = false
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`A server uses ${dataDir}; stop it first.`)
  let place: string | undefined
  try {
    place = mkdtempSync(join(dataDir, '.restore-'))
    const count = await unpack(archive, file, place)
    prove(place, file)
    const erasures = mergeLedgers(dataDir, place, wishes, copies)
    // From here on files are only renamed.
    // The database is last: until it is there, a start is refused and names this command.
    const aside = there ? setAside(dataDir, `set-aside-${systemClock.now()}`, [place]) : undefined
    mkdirSync(join(dataDir, 'spool'), { recursive: true, mode: 0o700 })
    for (const name of readdirSync(join(place, 'spool')))
      renameSync(join(place, 'spool', name), join(dataDir, 'spool', name))
    syncPath(join(dataDir, 'spool'))
    for (const name of [...FILES, DATABASE])
      if (existsSync(join(place, name))) renameSync(join(place, name), join(dataDir, name))
    done = true
    confirm(dataDir)
    return { files: count, erasures, set_aside: aside ?? null }
  } finally {
    release()
    if (place !== undefined) clear(place)
    if (!done && made !== undefined) rmSync(made, { recursive: true, force: true })
    else adopt(dataDir, made !== undefined)
  }
}

/** Removes the temporary folder; a failure does no harm. */
function clear(place: string): void {
  try {
    rmSync(place, { recursive: true, force: true })
  } catch {
    // The trouble with the disk was reported already, or the next command reports it.
  }
}

/** Everything is in place; this makes it durable. */
function confirm(dataDir: string): void {
  try {
    syncPath(dataDir)
  } catch (thrown) {
    throw new OperatorError(
      `The backup is in ${dataDir}, but its disk did not confirm that it lasts (${codeOf(thrown)}); see to the disk and run "postrider verify" before you start.`,
    )
  }
}

/**
 * Checks that the database is sound, the key opens its secrets, and no spool file is missing. Throws an OperatorError.
 */
function prove(place: string, file: string): void {
  const damage = damageOf(join(place, DATABASE))
  if (damage) throw new OperatorError(`${file} holds a damaged database (${damage}); take another backup.`)
  const keyring = openKeyring(place)
  const sealed = sealedKeyIn(join(place, DATABASE))
  if (sealed && !opens(keyring, sealed))
    throw new OperatorError(`${file} holds a key that does not open its database; take another backup.`)
  for (const name of readdirSync(place)) if (/-(?:wal|shm)$/.test(name)) rmSync(join(place, name))
}

/**
 * Writes all known erasures into the ledger beside the unpacked database; returns how many. Throws an OperatorError
 * when there is no ledger to read.
 */
function mergeLedgers(dataDir: string, place: string, wishes: Wishes, copies: readonly string[]): number {
  const aside = existsSync(dataDir)
    ? readdirSync(dataDir).flatMap((name) => (name.startsWith('set-aside-') ? [join(dataDir, name, LEDGER)] : []))
    : []
  const named = (wishes.ledger ?? []).map((each) => resolve(each))
  for (const each of named) if (!existsSync(each)) throw new OperatorError(`The ledger ${each} is not there.`)
  const current = [join(dataDir, LEDGER), ...aside, ...copies, ...named].filter((each) => existsSync(each))
  if (current.length === 0 && !wishes.withoutLedger)
    throw new OperatorError(
      `${dataDir} has no ledger of erasures, so nobody knows who was forgotten since the backup; name the one of the installation that made it with --ledger (erasures.ledger in its data directory), or say --without-ledger.`,
    )
  const lines = [join(place, LEDGER), ...current].flatMap((each) => read(each).split('\n'))
  const entries = [...new Set(lines)].filter((line) => line !== '')
  writeFileSync(join(place, LEDGER), entries.map((line) => `${line}\n`).join(''), { mode: 0o600 })
  syncFile(join(place, LEDGER))
  return entries.length
}

function read(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (thrown) {
    if (codeOf(thrown) === 'ENOENT') return ''
    throw new OperatorError(`The ledger ${file} cannot be read (${codeOf(thrown)}).`)
  }
}
