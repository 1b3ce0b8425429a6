// The directories of backups and restore tests, and the leftovers of unfinished ones next to their target. They are
// removed when a signal stops the command, or after a day by the next backup there and by the server, which knows the
// directory of the last backup.
import { existsSync, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { clearOnSignal } from '../base/clear-on-signal.ts'
import { DAY, MINUTE, systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { unwritable } from '../base/file-faults.ts'
import { readNoted, writePlain } from '../base/plain-file.ts'
import { takeLock } from './lock.ts'
import { explainedFile } from './open.ts'

/** The prefix of such directories. Six characters follow. */
export const LEFTOVER = '.postrider-backup-'
const NAME = /^\.postrider-backup-[\w-]{6}$/

/** The file in the data directory with the path of the last backup's directory. */
const FOLDER = 'last-backup-folder'

export function noteFolder(dataDir: string, folder: string): void {
  try {
    writePlain(join(dataDir, FOLDER), `${folder}\n`)
  } catch (thrown) {
    throw explainedFile(thrown)
  }
}

/**
 * Removes leftovers of backups from the data directory and from the directory of the last one, as far as this user may.
 */
export function removeNoted(dataDir: string, now: number): void {
  isBeingCopied(dataDir)
  const folder = notedFolder(dataDir)
  if (folder !== '' && folder !== dataDir) removeLeftovers(folder, now)
}

function notedFolder(dataDir: string): string {
  try {
    return readNoted(join(dataDir, FOLDER)).toString().trim()
  } catch {
    return ''
  }
}

/** Removes directories of unfinished backups that have not changed for a day. */
export function removeLeftovers(folder: string, now: number): void {
  for (const name of namesIn(folder)) {
    const path = join(folder, name)
    if (NAME.test(name) && now - lastChange(path) >= DAY) removeFolder(path)
  }
}

/**
 * Whether a backup or a restore test has data in the data directory now. Erasures wait until it has finished. Leftovers
 * of killed ones are removed: the lock shows whether their process runs.
 */
export function isBeingCopied(dataDir: string): boolean {
  if (!namesIn(dataDir).some((name) => NAME.test(name))) return false
  const release = takeLock(dataDir, 'backup.lock')
  if (!release) return true
  try {
    removeCopiesIn(dataDir)
    return false
  } finally {
    release()
  }
}

function removeCopiesIn(dataDir: string): void {
  for (const name of namesIn(dataDir)) if (NAME.test(name)) removeFolder(join(dataDir, name))
}

/**
 * Prevents other processes from having such a directory in the data directory, and removes leftovers of killed ones.
 * Returns the function that releases this. Throws an OperatorError while another process has one.
 */
export function holdCopies(dataDir: string): () => void {
  const release = takeLock(dataDir, 'backup.lock')
  if (!release)
    throw new OperatorError('A backup, restore test or upgrade check is in progress; wait until it is complete.')
  removeCopiesIn(dataDir)
  return release
}

/**
 * Creates a directory in another one, with a lock that this process holds. Removes leftovers next to it whose process
 * has exited, so that their lock is free. Throws the system's error if the other one is not writable.
 */
export function makeScratch(within: string): { folder: string; remove: () => void } {
  removeDead(within)
  const folder = mkdtempSync(join(within, LEFTOVER))
  const release = takeLock(folder, 'backup.lock')
  return {
    folder,
    remove: () => {
      release?.()
      // Again, in case a dying process was just creating a file.
      rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
    },
  }
}

function scratchIn(parent: string): ReturnType<typeof makeScratch> {
  try {
    return makeScratch(parent)
  } catch (thrown) {
    throw unwritable(parent, thrown)
  }
}

/**
 * Runs work with a new directory in `parent`, which is removed afterwards, even after a signal. `ending` is called
 * before that. In a data directory, the caller must hold its copies. Throws an OperatorError if `parent` is not
 * writable.
 */
export async function withFolder<T>(
  parent: string,
  work: (folder: string) => Promise<T>,
  ending: () => void = () => {},
): Promise<T> {
  let remove = (): void => {}
  const clear = (): void => {
    ending()
    remove()
  }
  // Before there is anything to leave.
  const unheard = clearOnSignal(clear)
  try {
    const made = scratchIn(parent)
    remove = made.remove
    return await work(made.folder)
  } finally {
    clear()
    unheard()
  }
}

/** A directory is locked right after it is created. After this time, one without a lock has no owner. */
const LOCKED_WITHIN = MINUTE

/** Removes the directories of this user's exited processes. */
function removeDead(within: string): void {
  for (const name of namesIn(within)) {
    const path = join(within, name)
    const found = NAME.test(name) ? lstatSync(path, { throwIfNoEntry: false }) : undefined
    if (!found?.isDirectory() || found.uid !== process.geteuid?.()) continue
    if (systemClock.now() - found.mtimeMs < LOCKED_WITHIN || !existsSync(join(path, 'backup.lock'))) continue
    const release = takeLock(path, 'backup.lock')
    if (release) removeFolder(path)
    release?.()
  }
}

function removeFolder(path: string): void {
  try {
    rmSync(path, { recursive: true, force: true })
  } catch {
    // It belongs to another user, whose next backup removes it.
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

const lastChange = (path: string): number =>
  Math.max(
    ...[path, ...namesIn(path).map((name) => join(path, name))].map(
      (each) => lstatSync(each, { throwIfNoEntry: false })?.mtimeMs ?? 0,
    ),
  )
