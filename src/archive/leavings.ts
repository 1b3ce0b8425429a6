// The folders that an unfinished backup leaves beside its target: removed by the signal that ends it, and after a day
// by the next backup there and by the server, which knows the folder of the last backup.
import { lstatSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { DAY } from '../base/clock.ts'
import { readPlain, writePlain } from '../base/plain-file.ts'
import { explainedFile } from '../store/open.ts'

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
  for (const folder of new Set([dataDir, notedFolder(dataDir)])) if (folder !== '') removeLeavings(folder, now)
}

function notedFolder(dataDir: string): string {
  try {
    return readPlain(join(dataDir, FOLDER)).toString().trim()
  } catch {
    return ''
  }
}

/** Removes folders of unfinished backups in which nothing was written for a day. */
export function removeLeavings(folder: string, now: number): void {
  for (const name of namesIn(folder)) {
    const place = join(folder, name)
    if (!NAME.test(name) || now - lastChange(place) < DAY) continue
    try {
      rmSync(place, { recursive: true, force: true })
    } catch {
      // It belongs to another user, who removes it by the next backup.
    }
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

/**
 * Calls `clear` when SIGINT or SIGTERM comes, and then ends by that signal. Returns the function that no longer hears
 * them.
 */
export function clearOnSignal(clear: () => void): () => void {
  const heard = (signal: NodeJS.Signals): void => {
    unheard()
    try {
      clear()
    } finally {
      process.kill(process.pid, signal)
    }
  }
  const unheard = (): void => void process.off('SIGINT', heard).off('SIGTERM', heard)
  process.on('SIGINT', heard).on('SIGTERM', heard)
  return unheard
}
