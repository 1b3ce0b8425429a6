// The folders of backups and drills, and what unfinished ones leave beside their target: removed by the signal that
// ends one, and after a day by the next backup there and by the server, which knows the folder of the last backup.
import { existsSync, lstatSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { clearOnSignal } from '../base/clear-on-signal.ts'
import { DAY, MINUTE, systemClock } from '../base/clock.ts'
import { OperatorError } from '../base/errors.ts'
import { unwritable } from '../base/file-faults.ts'
import { readNoted, writePlain } from '../base/plain-file.ts'
import { takeLock } from './lock.ts'
import { explainedFile } from './open.ts'

/** How the name of such a folder begins; six characters follow. */
export const LEAVING = '.postrider-backup-'
const NAME = /^\.postrider-backup-[\w-]{6}$/

/** The name of a file in the data directory with the folder of the last backup. */
const FOLDER = 'last-backup-folder'

export function noteFolder(dataDir: string, folder: string): void {
  try {
    writePlain(join(dataDir, FOLDER), `${folder}\n`)
  } catch (thrown) {
    throw explainedFile(thrown)
  }
}

/** Removes what backups left in the data directory and in the folder of the last one, where this user may. */
export function removeNoted(dataDir: string, now: number): void {
  isBeingCopied(dataDir)
  const folder = notedFolder(dataDir)
  if (folder !== '' && folder !== dataDir) removeLeavings(folder, now)
}

function notedFolder(dataDir: string): string {
  try {
    return readNoted(join(dataDir, FOLDER)).toString().trim()
  } catch {
    return ''
  }
}

/** Removes folders of unfinished backups in which nothing was written for a day. */
export function removeLeavings(folder: string, now: number): void {
  for (const name of namesIn(folder)) {
    const place = join(folder, name)
    if (NAME.test(name) && now - lastChange(place) >= DAY) removeFolder(place)
  }
}

/**
 * Whether a backup or a drill has data in the data directory now; erasures wait for its end (B2). What killed ones left
 * there is removed: whoever has such a folder has the lock.
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
 * Lets nobody else have such a folder in the data directory, and removes what killed ones left there. Returns the
 * function that ends this. Throws an OperatorError while another has one.
 */
export function holdCopies(dataDir: string): () => void {
  const release = takeLock(dataDir, 'backup.lock')
  if (!release) throw new OperatorError('A backup, a drill or the check of an upgrade is under way; wait for its end.')
  removeCopiesIn(dataDir)
  return release
}

/**
 * Makes a folder in another one, with a lock that ends with this process. Those beside it whose process ended without
 * removing them go: their lock is free. Throws the system's error when the other one takes no folder.
 */
export function makeScratch(within: string): { folder: string; remove: () => void } {
  removeDead(within)
  const folder = mkdtempSync(join(within, LEAVING))
  const release = takeLock(folder, 'backup.lock')
  return {
    folder,
    remove: () => {
      release?.()
      // Again, where a program that was ended was just making a file.
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
 * Runs work with a new folder in `parent`, which goes with it, by a signal too. `ending` is called before it goes. In a
 * data directory it is for who holds its copies. Throws an OperatorError when `parent` takes no folder.
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

/** A folder is locked as soon as it is made; one that is not, after so long, belongs to nobody. */
const LOCKED_WITHIN = MINUTE

/** Removes the folders of this user whose process has ended. */
function removeDead(within: string): void {
  for (const name of namesIn(within)) {
    const place = join(within, name)
    const found = NAME.test(name) ? lstatSync(place, { throwIfNoEntry: false }) : undefined
    if (!found?.isDirectory() || found.uid !== process.geteuid?.()) continue
    if (systemClock.now() - found.mtimeMs < LOCKED_WITHIN || !existsSync(join(place, 'backup.lock'))) continue
    const release = takeLock(place, 'backup.lock')
    if (release) removeFolder(place)
    release?.()
  }
}

function removeFolder(place: string): void {
  try {
    rmSync(place, { recursive: true, force: true })
  } catch {
    // It belongs to another user, who removes it by the next backup.
  }
}

function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

const lastChange = (place: string): number =>
  Math.max(
    ...[place, ...namesIn(place).map((name) => join(place, name))].map(
      (each) => lstatSync(each, { throwIfNoEntry: false })?.mtimeMs ?? 0,
    ),
  )
