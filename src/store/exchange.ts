// Exchanges the contents of a data directory: all of it is moved into a directory "set-aside-…" inside it, and then the
// contents of another directory are moved in. A kill or a power failure at any step neither loses nor mixes files: the
// name of that directory shows the current step, and the next command continues it before it opens any file (D198).
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { syncPath } from '../base/durable.ts'
import { codeOf, failedCall, OperatorError } from '../base/errors.ts'
import { takeLock } from './lock.ts'
import { DATABASE } from './open.ts'

const ASIDE = 'set-aside-'
/** The old contents are being moved aside. */
const OUT = '.exchange-out-'
/** The old contents are aside. The new ones are being moved in. */
const IN = '.exchange-in-'

export const isAside = (name: string): boolean => name.startsWith(ASIDE)

/** Whether a name in a data directory belongs to an exchange that is not whole yet. */
export const isExchange = (name: string): boolean => name.startsWith(OUT) || name.startsWith(IN)

/** Files that stay in place: locks, the configuration of a volume, and a file system's own directory. */
const STAYS = /^(?:(?:serve|backup)\.lock|postrider\.toml|lost\+found)$/

const namesIn = (dir: string): string[] => (existsSync(dir) ? readdirSync(dir) : [])

/** The names that an exchange moves aside. The database is first, because its place shows the state of the exchange. */
function movable(dataDir: string): string[] {
  const names = namesIn(dataDir).filter((name) => !STAYS.test(name) && !isAside(name) && !isExchange(name))
  return names.toSorted((one, other) => Number(other === DATABASE) - Number(one === DATABASE))
}

/**
 * For the holder of the lock: moves the contents of a data directory into "set-aside-AT", then moves in the contents of
 * `incoming`, a durable directory inside it, and removes `incoming`. Returns the directory of the old contents, or
 * undefined if there were none. Throws an OperatorError.
 */
export function exchange(dataDir: string, at: string, incoming?: string): string | undefined {
  finishExchange(dataDir)
  if (incoming === undefined && movable(dataDir).length === 0) return undefined
  if (incoming === undefined) mkdirSync(join(dataDir, `${OUT}${at}`), { mode: 0o700 })
  else renameSync(incoming, join(dataDir, `${OUT}${at}`))
  return finishExchange(dataDir)?.aside
}

/** A sentence with the directory of an installation that was moved aside, which the user must delete. */
export const asideText = (folder: string): string =>
  `The earlier data is in ${folder}. Erasures do not reach it, so delete it when the new installation works.`

interface Finished {
  /** The directory of the old contents. */
  aside: string | undefined
}

/** For the holder of the lock: continues an interrupted exchange. Returns undefined without one. */
function finishExchange(dataDir: string): Finished | undefined {
  try {
    const out = namesIn(dataDir).find((name) => name.startsWith(OUT))
    if (out !== undefined) moveOut(dataDir, out.slice(OUT.length))
    const name = namesIn(dataDir).find((each) => each.startsWith(IN))
    if (name === undefined) return undefined
    moveIn(dataDir, join(dataDir, name))
    const aside = join(dataDir, `${ASIDE}${name.slice(IN.length)}`)
    return { aside: existsSync(aside) ? aside : undefined }
  } catch (thrown) {
    const { path = dataDir, syscall = 'access' } = failedCall(thrown)
    throw new OperatorError(
      `The data in ${dataDir} is only partly replaced (${syscall} ${path}: ${codeOf(thrown)}), and no data is lost; check the disk, then run any command to complete the replacement.`,
      { cause: thrown },
    )
  }
}

function moveOut(dataDir: string, at: string): void {
  syncPath(dataDir)
  const names = movable(dataDir)
  const aside = join(dataDir, `${ASIDE}${at}`)
  if (names.length > 0 && !existsSync(aside)) mkdirSync(aside, { mode: 0o700 })
  for (const name of names) renameSync(join(dataDir, name), join(aside, name))
  if (existsSync(aside)) syncPath(aside)
  syncPath(dataDir)
  renameSync(join(dataDir, `${OUT}${at}`), join(dataDir, `${IN}${at}`))
}

/** The database is last: without it, Postrider does not start. */
function moveIn(dataDir: string, incoming: string): void {
  syncPath(dataDir)
  const names = readdirSync(incoming).toSorted((one, other) => Number(one === DATABASE) - Number(other === DATABASE))
  for (const name of names) renameSync(join(incoming, name), join(dataDir, name))
  syncPath(dataDir)
  rmdirSync(incoming)
  syncPath(dataDir)
}

/**
 * For every command, before it opens any file: continues an interrupted exchange in a data directory. Returns a
 * sentence about it for the user. Throws an OperatorError while another process works on it.
 */
export function settleExchange(dataDir: string): string | undefined {
  if (!isUnfinished(dataDir)) return undefined
  const release = takeLock(dataDir)
  if (!release)
    throw new OperatorError(`Another command is replacing the data in ${dataDir}; wait until it is complete.`)
  try {
    const finished = finishExchange(dataDir)
    const where =
      finished?.aside === undefined ? 'there was no earlier data' : `the earlier data is in ${finished.aside}`
    return finished && `Completed the interrupted replacement of the data in ${dataDir}; ${where}.`
  } finally {
    release()
  }
}

function isUnfinished(dataDir: string): boolean {
  try {
    return namesIn(dataDir).some(isExchange)
  } catch {
    // A later open reports missing permissions.
    return false
  }
}
