// Marks a configuration as set up, by a file next to it, on the disk of the system. The data directory can be on its
// own disk. If that is not mounted, an empty directory looks like a new installation. The mark shows that it is not
// (D208).
import { closeSync, constants, fsyncSync, openSync, statSync, writeSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { OperatorError } from './errors.ts'

/** The file of the mark, or undefined without a configuration file, and for one in the data directory. */
const markOf = (file: string | undefined, dataDir: string): string | undefined =>
  file === undefined || dirname(resolve(file)) === resolve(dataDir) ? undefined : `${file}.set-up`

/** A mark that was opened but not written is empty, and does not count. */
const isMarked = (mark: string): boolean => (statSync(mark, { throwIfNoEntry: false })?.size ?? 0) > 0

/** Writes the mark of a configuration whose installation is set up, if this user can. */
export const keepMark = (file: string | undefined, dataDir: string): void => openMark(file, dataDir)()

/** Opens the mark, if this user can, and returns a function that writes it: root may be another user by then. */
export function openMark(file: string | undefined, dataDir: string): () => void {
  const mark = markOf(file, dataDir)
  const { O_CREAT, O_NOFOLLOW, O_WRONLY } = constants
  try {
    if (mark === undefined || isMarked(mark)) return () => {}
    const handle = openSync(mark, O_WRONLY | O_CREAT | O_NOFOLLOW, 0o644)
    return () => {
      writeSync(handle, TEXT)
      fsyncSync(handle)
      closeSync(handle)
    }
  } catch {
    // The configuration belongs to another user, such as root, or is read-only.
    return () => {}
  }
}

const TEXT =
  'The configuration next to this file was set up. If its data is missing, "postrider serve" does not start a new installation while this file exists.\n'

/** Throws an OperatorError if a configuration that was set up has no data. */
export function demandMarkedData(file: string | undefined, dataDir: string, vacant: boolean): void {
  const mark = markOf(file, dataDir)
  if (!vacant || mark === undefined || !isMarked(mark)) return
  throw new OperatorError(
    `${dataDir} contains no installation, although ${file} was set up before; mount its disk, restore a backup with "postrider restore FILE", or start over with "postrider init --new".`,
  )
}
