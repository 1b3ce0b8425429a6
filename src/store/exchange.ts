// Exchanges what lies in a data directory: all of it is moved into a folder "set-aside-…" beside it, and then what
// another folder holds is moved in. A kill or a power cut at any step loses and mixes nothing: the name of that folder
// says which step is under way, and the next command goes on with it before it opens anything (D198).
import { existsSync, mkdirSync, readdirSync, renameSync, rmdirSync } from 'node:fs'
import { join } from 'node:path'
import { syncPath } from '../base/durable.ts'
import { codeOf, failedCall, OperatorError } from '../base/errors.ts'
import { takeLock } from './lock.ts'
import { DATABASE } from './open.ts'

const ASIDE = 'set-aside-'
/** What is there is being moved aside. */
const OUT = '.exchange-out-'
/** All of it is aside; what the folder holds is being moved in. */
const IN = '.exchange-in-'

export const isAside = (name: string): boolean => name.startsWith(ASIDE)

/** Whether a name in a data directory belongs to an exchange that is not whole yet. */
export const isExchange = (name: string): boolean => name.startsWith(OUT) || name.startsWith(IN)

/** What stays where it is: locks that are held, the configuration of a volume, and what a file system puts there. */
const STAYS = /^(?:(?:serve|backup)\.lock|postrider\.toml|lost\+found)$/

const namesIn = (dir: string): string[] => (existsSync(dir) ? readdirSync(dir) : [])

/** The names that an exchange moves aside, the database first: where it lies, everything else does. */
function movable(dataDir: string): string[] {
  const names = namesIn(dataDir).filter((name) => !STAYS.test(name) && !isAside(name) && !isExchange(name))
  return names.toSorted((one, other) => Number(other === DATABASE) - Number(one === DATABASE))
}

/**
 * For the holder of the lock: moves what is in a data directory into "set-aside-AT", and then in what `place` holds, a
 * durable folder in it, which goes. Returns the folder of what was there; undefined where nothing was. Throws an
 * OperatorError.
 */
export function exchange(dataDir: string, at: string, place?: string): string | undefined {
  finishExchange(dataDir)
  if (place === undefined && movable(dataDir).length === 0) return undefined
  if (place === undefined) mkdirSync(join(dataDir, `${OUT}${at}`), { mode: 0o700 })
  else renameSync(place, join(dataDir, `${OUT}${at}`))
  return finishExchange(dataDir)?.aside
}

/** Says where an installation went that was moved aside, and that it does not clear itself away. */
export const asideText = (folder: string): string =>
  `What was there before is in ${folder}, where no erasure reaches it: remove it once the new installation is as it should be.`

interface Finished {
  /** Where what was there before is. */
  aside: string | undefined
}

/** For the holder of the lock: goes on with an exchange that was cut off. Returns undefined where there is none. */
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
      `What was restored or moved aside in ${dataDir} is not in its place yet (${syscall} ${path}: ${codeOf(thrown)}); nothing is lost, and the next command goes on with it: see to the disk first.`,
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

/** The database is last: until it is there, nothing starts. */
function moveIn(dataDir: string, place: string): void {
  syncPath(dataDir)
  const names = readdirSync(place).toSorted((one, other) => Number(one === DATABASE) - Number(other === DATABASE))
  for (const name of names) renameSync(join(place, name), join(dataDir, name))
  syncPath(dataDir)
  rmdirSync(place)
  syncPath(dataDir)
}

/**
 * For every command, before it opens anything: goes on with an exchange that was cut off in a data directory. Returns
 * what there is to tell about it, as a sentence. Throws an OperatorError while another process is at it.
 */
export function settleExchange(dataDir: string): string | undefined {
  if (!isUnfinished(dataDir)) return undefined
  const release = takeLock(dataDir)
  if (!release) throw new OperatorError(`The content of ${dataDir} is being exchanged; wait for the end of that.`)
  try {
    const finished = finishExchange(dataDir)
    const where =
      finished?.aside === undefined ? 'nothing was there before' : `what was there before is in ${finished.aside}`
    return finished && `What a killed command had begun to put into ${dataDir} is in its place now; ${where}.`
  } finally {
    release()
  }
}

function isUnfinished(dataDir: string): boolean {
  try {
    return namesIn(dataDir).some(isExchange)
  } catch {
    // Who may not look there is told so by what opens it.
    return false
  }
}
